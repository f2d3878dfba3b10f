package adopt

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// relayed returns the world's target through a relay, and the relay. SQLite has no
// connections: it returns a nil relay, and an interrupted transaction is rolled back.
func (w *world) relayed() (engine.Target, *testdb.Relay) {
	w.t.Helper()
	target := w.target
	if w.kind == "sqlite" {
		return target, nil
	}
	dir, err := os.MkdirTemp("", "relay") // the path of a socket must be short
	must(w.t, err)
	w.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	target.Query = url.Values{}
	for k, v := range w.target.Query {
		target.Query[k] = slices.Clone(v)
	}
	path, server := filepath.Join(dir, "s"), target.Query.Get("socket")
	target.Query.Set("socket", path)
	if w.kind == "postgres" {
		file := ".s.PGSQL." + target.Query.Get("port")
		path, server = filepath.Join(dir, file), filepath.Join(target.Query.Get("host"), file)
		target.Query.Del("socket")
		target.Query.Set("host", dir)
	}
	return target, testdb.NewRelay(w.t, path, server, nil)
}

// cutOff runs a verb as if in a process that is killed at the first point for which
// at returns true. It returns that point, or "" if the verb completed.
func (w *world) cutOff(what string, at func(point string) bool) (killed string) {
	w.t.Helper()
	target, r := w.relayed()
	db, err := openTarget(context.Background(), target)
	must(w.t, err)
	defer func() {
		if r != nil {
			r.Close()
		}
		_ = db.Close() // its connections are cut
	}()
	other := &world{t: w.t, kind: w.kind, target: target, db: db.(engine.Keeper), d: w.d}
	// The previous lock is released once the server has detected the disconnection.
	err = untilFree(func() error {
		o := other.options()
		o.at = func(point string) error {
			if killed != "" || !at(point) {
				return nil
			}
			killed = point
			if r != nil {
				r.Cut()
			}
			return errKilled
		}
		return verbs[what](context.Background(), o)
	})
	if killed == "" && err != nil {
		w.t.Fatalf("%s, to be cut off: %v", what, err)
	}
	if killed != "" && err == nil {
		w.t.Fatalf("%s ended well, cut off at %q", what, killed)
	}
	return killed
}

// unseen returns a function that returns true once for each point; for points of
// chunks, at their second occurrence.
func unseen() func(point string) bool {
	passed := map[string]int{}
	return func(point string) bool {
		first := 1
		if strings.Contains(point, "chunk") {
			first = 2
		}
		passed[point]++
		return passed[point] == first
	}
}

// An interruption is a verb that is broken off at its points, and what is run
// afterwards.
type interruption struct {
	name, verb, then string
	adopted          []string                // the verbs before
	at               func(point string) bool // nil: at each point
	least            int                     // the number of points that there are at least
}

var interruptions = []interruption{
	{"resumed", "run", "run", nil, nil, 15},
	{"undone", "run", "undo", nil, removes, 8},
	{"undo resumed", "undo", "undo", []string{"run"}, nil, 6},
	{"left", "leave", "leave", []string{"run", "finish"}, nil, 8},
}

func (c *interruption) before(w *world) {
	for _, verb := range c.adopted {
		w.again(verb)
	}
}

// prepare fills the table, and adopts it if the interruption is of a way back.
func (c *interruption) prepare(w *world) (stop func()) {
	w.fill(700)
	c.before(w)
	stop = w.load(2, 700)
	if c.adopted != nil {
		w.wrote(10)
	}
	return stop
}

// verify checks the state after the verb that is run last.
func (c *interruption) verify(w *world) {
	w.t.Helper()
	want := []string{"events"}
	if c.then == "run" {
		want = append(want, "events__rowmill_old")
	}
	if got := w.tables(); w.rolls() != (c.then == "run") || !slices.Equal(got, want) {
		w.t.Fatalf("rolls: %v; tables %v", w.rolls(), got)
	}
}

// removes reports whether more objects remain to be removed after the point.
func removes(point string) bool {
	return strings.HasPrefix(point, "trigger:") || slices.Contains([]string{"begun", "create: table", "copy: chunk", "swap: locked", "swap: renaming",
		"swap: sentry gone", "swap: renamed", "swap: noted", "clean: done"}, point)
}

// TestCutOff: a verb that is interrupted at each point, one after the other, and
// resumed or undone each time, has the same result as an uninterrupted one.
func TestCutOff(t *testing.T) {
	for _, c := range interruptions {
		t.Run(c.name, func(t *testing.T) {
			onServers(t, func(t *testing.T, w *world) {
				stop := c.prepare(w)
				seen, all := unseen(), []string(nil)
				for killed := "begin"; killed != "" && !(len(all) > 0 && c.adopted != nil && w.underWay() == "nothing"); {
					killed = w.cutOff(c.verb, func(p string) bool { return (c.at == nil || c.at(p)) && seen(p) })
					all = append(all, killed+" at step "+w.underWay())
					w.wrote(2)
					if c.then != c.verb {
						w.again(c.then)
						c.verify(w)
					}
				}
				stop()
				t.Logf("%d transactions, the longest %v; cut off at %q", w.count, w.stall, all)
				if len(all) <= c.least {
					t.Errorf("only %d points", len(all))
				}
				w.check("events")
				c.verify(w)
			})
		})
	}
}
