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
	if err != nil {
		w.t.Fatal(err)
	}
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
	if err != nil {
		w.t.Fatal(err)
	}
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

// TestCutOff: an adoption that is interrupted at each point, one after the other, and
// resumed each time, has the same result as an uninterrupted one.
func TestCutOff(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(700)
		stop := w.load(2, 700)
		at, all := unseen(), []string(nil)
		for p := w.cutOff("run", at); p != ""; p = w.cutOff("run", at) {
			all = append(all, p+" at step "+w.underWay())
			w.wrote(2)
		}
		stop()
		t.Logf("%d transactions, the longest %v; cut off at %q", w.count, w.stall, all)
		if len(all) < 15 {
			t.Errorf("only %d points", len(all))
		}
		w.check("events")
		if got := w.tables(); !w.rolls() || !slices.Equal(got, []string{"events", "events__rowmill_old"}) {
			t.Errorf("rolls: %v; tables %v", w.rolls(), got)
		}
	})
}

// removes reports whether more objects remain to be removed after the point.
func removes(point string) bool {
	return strings.HasPrefix(point, "trigger:") || slices.Contains([]string{"begun", "create: table", "copy: chunk", "swap: locked", "swap: renaming",
		"swap: sentry gone", "swap: renamed", "swap: noted", "clean: done"}, point)
}

// TestCutOffThenUndone: after an interruption at any point and an undo, the table is
// unchanged.
func TestCutOffThenUndone(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(700)
		stop := w.load(2, 700)
		seen, all := unseen(), []string(nil)
		for killed := "begin"; killed != ""; {
			killed = w.cutOff("run", func(p string) bool { return removes(p) && seen(p) })
			all = append(all, killed)
			w.wrote(2)
			w.again("undo")
			if got := w.tables(); w.rolls() || !slices.Equal(got, []string{"events"}) {
				t.Fatalf("cut off at %q and taken back: rolls: %v; tables %v", killed, w.rolls(), got)
			}
		}
		stop()
		t.Logf("%d transactions, the longest %v; cut off at %q", w.count, w.stall, all)
		if len(all) < 8 {
			t.Errorf("only %d points", len(all))
		}
		w.check("events")
	})
}

// TestUndoCutOff: an undo may also be interrupted at any point.
func TestUndoCutOff(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(700)
		w.again("run")
		stop := w.load(2, 700)
		w.wrote(10)
		at, all := unseen(), []string(nil)
		for w.underWay() != "nothing" {
			p := w.cutOff("undo", at)
			all = append(all, p+" at step "+w.underWay())
			w.wrote(2)
		}
		stop()
		t.Logf("%d transactions, the longest %v; cut off at %q", w.count, w.stall, all)
		if len(all) < 6 {
			t.Errorf("only %d points", len(all))
		}
		w.check("events")
		if got := w.tables(); w.rolls() || !slices.Equal(got, []string{"events"}) {
			t.Errorf("rolls: %v; tables %v", w.rolls(), got)
		}
	})
}

// TestCutOffReleasesLocks checks an assumption of the tests with a relay: the server
// releases the locks of a client that is disconnected within a transaction.
func TestCutOffReleasesLocks(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kind)
			w.fill(10)
			target, r := w.relayed()
			defer r.Close()
			db, err := openTarget(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			tx, err := db.(engine.Keeper).SQL().Begin()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("UPDATE events SET ver = 7"); err != nil {
				t.Fatal(err)
			}
			r.Cut()
			if err := tx.Commit(); err == nil {
				t.Error("a transaction was committed that was cut off")
			}
			w.exec("UPDATE events SET v = 1 WHERE ver = 1")
			if n := w.number("SELECT COUNT(*) FROM events WHERE v = 1"); n != 10 {
				t.Errorf("%d rows are as they were", n)
			}
		})
	}
}
