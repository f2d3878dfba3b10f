//go:build unix

package adopt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
)

// killVariable makes the test binary adopt a table and kill itself: "what point n
// kind target", where n is how often the point is passed first.
const killVariable = "ADOPT_TEST_KILL"

func TestMain(m *testing.M) {
	if s := os.Getenv(killVariable); s != "" {
		if err := child(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testdb.Main(m)
}

var verbs = map[string]func(context.Context, Options) error{"run": Run, "undo": Undo, "finish": Finish, "leave": Leave}

// child executes the instruction in killVariable.
func child(s string) error {
	f := strings.SplitN(s, "\x1f", 5)
	n, err := strconv.Atoi(f[2])
	if err != nil {
		return err
	}
	target, err := engine.ParseTarget(f[4])
	if err != nil {
		return err
	}
	db, err := openTarget(context.Background(), target)
	if err != nil {
		return err
	}
	w := &world{t: nil, kind: f[3], target: target, db: db.(engine.Keeper)}
	w.d = declareNow(definition(f[3], "(id, ts)"))
	schema, err := w.db.Describe(context.Background(), "events")
	if err != nil {
		return err
	}
	o := w.optionsOf(schema)
	o.at = func(point string) error {
		if point == f[1] {
			if n == 0 {
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			n--
		}
		return nil
	}
	return verbs[f[0]](context.Background(), o)
}

// kill runs a verb in a process that is killed at a point. It reports whether the
// process reached it.
func (w *world) kill(what, point string, n int) bool {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killVariable+"="+strings.Join([]string{what, point, strconv.Itoa(n), w.kind, w.target.String()}, "\x1f"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return true
	}
	if err != nil {
		w.t.Fatalf("%s, to be killed at %q: %v\n%s", what, point, err, out)
	}
	return false
}

// patience limits the wait for an expected event. It far exceeds the time needed on a
// slow machine.
const patience = time.Minute

// untilFree runs fn until the lock of the killed process is released.
func untilFree(fn func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := fn()
		if !errors.Is(err, engine.ErrLockTimeout) || !strings.Contains(err.Error(), "another process") || time.Now().After(deadline) {
			return err
		}
	}
}

// again runs a verb once the lock of a killed process is released.
func (w *world) again(what string) {
	w.t.Helper()
	if err := untilFree(func() error { return verbs[what](context.Background(), w.options()) }); err != nil {
		w.t.Fatalf("%s again: %v", what, err)
	}
}

// points returns the points that a verb passes, each once.
func points(t *testing.T, w *world, what string) (out []string) {
	t.Helper()
	o := w.options()
	o.at = func(p string) error {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
		return nil
	}
	must(t, verbs[what](t.Context(), o))
	return out
}

// change returns the adoption under way, or nil.
func (w *world) change() *state.Change {
	w.t.Helper()
	c, err := UnderWay(context.Background(), state.New(w.db), "events")
	must(w.t, err)
	return c
}

func (w *world) underWay() string {
	if c := w.change(); c != nil {
		return c.Step
	}
	return "nothing"
}

// TestKilled is TestCutOff with processes that are killed.
func TestKilled(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestCutOff")
	for _, kind := range servers {
		for _, c := range interruptions {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				w := newWorld(t, kind)
				w.fill(700)
				c.before(w)
				all := points(t, w, c.verb)
				t.Logf("points: %q", all)
				if len(all) < c.least {
					t.Errorf("only %d points", len(all))
				}
				for _, p := range all {
					if c.at != nil && !c.at(p) {
						continue
					}
					t.Run(p, func(t *testing.T) {
						w := newWorld(t, kind)
						stop := c.prepare(w)
						n := 0
						if strings.Contains(p, "chunk") && c.then == "run" {
							n = 1
						}
						killed := w.kill(c.verb, p, n)
						was := w.underWay()
						if c.verb == "run" || was != "nothing" {
							w.again(c.then)
						}
						stop()
						if !killed && c.at == nil {
							t.Error("it didn't come there")
						}
						t.Logf("killed at step %s; %d transactions, the longest %v", was, w.count, w.stall)
						w.check("events")
						c.verify(w)
					})
				}
			})
		}
	}
}
