package maintain_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// apply applies another declaration as another process does, without w's knowledge.
func (w *world) apply(d *rolling.Declaration) {
	w.t.Helper()
	mustRun(w.t, applyPlan(w.t, opened(w.t, w.DB, d, w.now)))
}

// hours keeps the table for some hours, with rows in each.
func (w *world) hours(from, to int) {
	w.t.Helper()
	for hour := from; hour < to; hour++ {
		w.now = at(float64(hour) + 0.6)
		w.keep()
		w.insert(w.now, 1, 2, 3)
	}
}

// A running keeper follows the declaration that was applied last, whatever has
// changed in it.
func TestFollow(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, c := range []struct {
		name          string
		before, after func(d *rolling.Declaration)
		want          string // periods after the next look
		check         func(t *testing.T, w *world)
	}{
		{"keep raised", func(d *rolling.Declaration) {}, func(d *rolling.Declaration) { d.Keep = span(24 * time.Hour) },
			"1-2 2-3 3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-11", nil},
		{"all kept", func(d *rolling.Declaration) {}, func(d *rolling.Declaration) { d.Keep = rolling.Span{} },
			"1-2 2-3 3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-11", nil},
		{"keep lowered", func(d *rolling.Declaration) {}, func(d *rolling.Declaration) { d.Keep = span(time.Hour) },
			"6-7 7-8 8-9 9-10 10-11", nil},
		{"ahead raised", func(d *rolling.Declaration) {}, func(d *rolling.Declaration) { d.Ahead = span(5 * time.Hour) },
			"3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-11 11-12 12-13", nil},
		{"period longer", func(d *rolling.Declaration) {}, func(d *rolling.Declaration) { d.Period = grid(t, "2h"); d.Ahead = span(6 * time.Hour) },
			"3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-12 12-14", nil},
		{"roll-up added", func(d *rolling.Declaration) {}, func(d *rolling.Declaration) { d.Rollups = counts(t, "added") },
			"3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-11", func(t *testing.T, w *world) {
				if got := w.number("SELECT SUM(n) FROM added"); got < 12 {
					t.Errorf("the new roll-up has %d rows, want those of all periods that were there", got)
				}
			}},
		{"archive", func(d *rolling.Declaration) { d.Keep, d.Seal.Archive = rolling.Span{}, first }, func(d *rolling.Declaration) { d.Keep, d.Seal.Archive = rolling.Span{}, second },
			"0-1 1-2 2-3 3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-11", func(t *testing.T, w *world) {
				for _, k := range w.records() {
					if dir := map[bool]string{true: first, false: second}[k.To <= at(5)]; !strings.HasPrefix(k.Archive, dir) {
						t.Errorf("%s is archived as %s", k.Name, k.Archive)
					}
				}
			}},
		{"roll-up removed", func(d *rolling.Declaration) { d.Rollups = counts(t, "kept", "gone") }, func(d *rolling.Declaration) { d.Rollups = counts(t, "kept") },
			"3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-11", func(t *testing.T, w *world) {
				if kept, gone := w.number("SELECT COUNT(*) FROM kept"), w.number("SELECT COUNT(*) FROM gone"); gone >= kept {
					t.Errorf("the roll-up that is declared no more has %d buckets, the other one %d", gone, kept)
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onServers(t, func(t *testing.T, db engine.Keeper) {
				declared := func(change func(d *rolling.Declaration)) *rolling.Declaration {
					return declare(t, db, func(d *rolling.Declaration) {
						d.Keep = span(4 * time.Hour)
						c.before(d)
						change(d)
						if d.Seal.Archive != "" {
							d.Seal.Archive = filepath.Join(d.Seal.Archive, db.Info().Engine)
						}
					})
				}
				w := applied(t, db, declared(func(*rolling.Declaration) {}), at(0.2))
				w.hours(0, 6)
				w.apply(declared(c.after))
				w.now = at(7.6)
				w.keep()
				w.wantParts(c.want)
				if c.check != nil {
					c.check(t, w)
				}
				s, err := w.Status(t.Context())
				if err != nil || len(s.Problems) > 0 {
					t.Errorf("status: %v, problems %+v", err, s)
				}
			})
		})
	}
}

// wantNumber checks the result of a query for a number.
func (w *world) wantNumber(want int64, q string) {
	w.t.Helper()
	if got := w.number(q); got != want {
		w.t.Errorf("%s: %d, want %d", q, got, want)
	}
}

// number returns the result of a query for a number.
func (w *world) number(q string) (n int64) {
	w.t.Helper()
	if err := w.DB.SQL().QueryRowContext(w.t.Context(), q).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", q, err)
	}
	return n
}

// A row that reaches a sealed period during its archiving may or may not be in the file.
// The period is sealed and archived again with the row, and no failure is reported.
func TestArchiveWhileRowsCome(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Seal.Archive = t.TempDir() }), at(0.2))
		came := false
		w.Reached = func(point string) {
			if point == "archive begun" && !came {
				came = true
				w.insert(at(0.7), 77)
			}
		}
		w.hours(0, 5)
		known, err := w.State.Periods(t.Context(), "readings")
		if err != nil || len(known) == 0 || !came {
			t.Fatal(known, err, came)
		}
		if k := known[0]; k.Archive == "" || k.Rows != 4 {
			t.Errorf("the period is %s with %d rows, want it archived with 4", k.State, k.Rows)
		}
		w.wantNumber(0, "SELECT COUNT(*) FROM rowmill_actions WHERE error <> ''")
	})
}

// An apply that commits during a drop: once apply has returned, nothing is dropped
// against its declaration, whatever the drop's step. Apply waits while rows are
// being removed.
func TestFollowWhileDropping(t *testing.T) {
	for _, c := range []struct {
		point string
		waits bool // apply can't commit at this point until the drop has ended
		want  string
	}{
		{point: "drop begun", want: "0-1 1-2 "},
		{point: "drop levels sealed", waits: true, want: "0-1 1-2 "},
		{point: "detached", waits: true, want: "0-1 1-2 "},
		{point: "drop checked", want: "0-1 1-2 "},
		{point: "drop noted", waits: true, want: "1-2 "},
		{point: "dropped", waits: true, want: "1-2 "},
	} {
		t.Run(c.point, func(t *testing.T) {
			onPoint(t, c.point, func(t *testing.T, db engine.Keeper) {
				declared := func(keep time.Duration) *rolling.Declaration {
					return declare(t, db, func(d *rolling.Declaration) {
						d.Keep = span(keep)
						d.Rollups = counts(t, "readings_1h")
					})
				}
				w := applied(t, db, declared(time.Hour), at(0.2))
				w.hours(0, 2)
				applying := make(chan struct{})
				reached := false
				w.Reached = func(point string) {
					if reached || point != c.point {
						return
					}
					reached = true
					if !c.waits {
						w.apply(declared(24 * time.Hour))
						close(applying)
						return
					}
					if err := w.declaredElsewhere(declared(24*time.Hour), 100*time.Millisecond); err == nil {
						t.Errorf("a declaration was written down at %q, while rows are removed", point)
					}
					go func() {
						defer close(applying)
						w.apply(declared(24 * time.Hour))
					}()
					w.await("an apply that waits", func() bool {
						lease, err := w.DB.Lead(t.Context(), "readings"+ApplyLock)
						if err == nil {
							err = lease.Release()
						}
						return errors.Is(err, engine.ErrLockTimeout)
					})
				}
				w.now = at(3.6)
				w.keep()
				<-applying
				w.keep()
				if !reached {
					t.Fatalf("%q was not reached", c.point)
				}
				w.wantParts(c.want)
				gone := int64(3 * strings.Count("0-1 1-2 ", "-"))
				gone -= int64(3 * strings.Count(c.want, "-"))
				w.wantCount(6 - gone)
				w.wantNumber(6, "SELECT SUM(n) FROM readings_1h")
				w.wantNoChanges()
			})
		})
	}
}

// await waits for a condition.
func (w *world) await(what string, is func() bool) {
	w.t.Helper()
	testdb.Until(w.t, what, is)
}

// onPoint runs the test of a point of a drop on SQLite. Points between which rows
// are in transit are also tested on a server.
func onPoint(t *testing.T, point string, test func(t *testing.T, db engine.Keeper)) {
	if point == "detached" || point == "drop noted" || testdb.Nightly() {
		onServers(t, test)
		return
	}
	t.Parallel()
	test(t, testdb.Open(t, "sqlite").(engine.Keeper))
}

// declaredElsewhere tries for a while to store a declaration, as apply does.
func (w *world) declaredElsewhere(d *rolling.Declaration, patience time.Duration) error {
	lease, err := w.DeclareLease(w.t.Context(), patience)
	if err != nil {
		return err
	}
	return errors.Join(w.State.Declare(w.t.Context(), w.State.DB(), "readings", d.Text, d.Period.String()), lease.Release())
}

// A drop that a crash has interrupted, and that isn't due under a new declaration,
// is reverted by the next process that keeps the table.
func TestFollowAfterCrash(t *testing.T) {
	for _, point := range []string{"drop begun", "drop levels sealed", "detached", "drop checked", "drop noted", "dropped"} {
		t.Run(point, func(t *testing.T) {
			onPoint(t, point, func(t *testing.T, db engine.Keeper) {
				declared := func(keep time.Duration) *rolling.Declaration {
					return declare(t, db, func(d *rolling.Declaration) { d.Keep = span(keep) })
				}
				w := applied(t, db, declared(time.Hour), at(0.2))
				w.hours(0, 2)
				w.now = at(2.6)
				w.killed(point)
				w.apply(declared(24 * time.Hour))
				w.keep()
				want, rows := "0-1 1-2 ", int64(6)
				if point == "dropped" {
					want, rows = "1-2 ", 3
				}
				w.wantParts(want)
				w.wantCount(rows)
				w.wantNoChanges()
				w.apply(declared(time.Hour)) // the period is dropped after all
				w.keep()
				w.wantParts("1-2 ")
			})
		})
	}
}

// killed keeps the table until a point is reached, and stops there like a killed
// process: nothing is executed after it.
func (w *world) killed(point string) {
	w.t.Helper()
	done := make(chan bool)
	w.Reached = func(at string) {
		if at == point {
			done <- true
			runtime.Goexit()
		}
	}
	go func() {
		for _, lane := range Lanes {
			if _, err := w.Pass(context.Background(), lane, nil, time.Time{}); err != nil {
				w.t.Logf("%s: %v", lane, err)
			}
		}
		done <- false
	}()
	if !<-done {
		w.t.Fatalf("%q was not reached", point)
	}
	w.Reached = nil
}

// A declaration that can't be followed stops maintenance until it can be followed
// again, with an alarm in status, log and exit code. Periods that inserts need are
// created as long as the table exists.
func TestUnfollowed(t *testing.T) {
	for _, c := range []struct {
		name        string
		damage, fix func(w *world, d *rolling.Declaration)
		creates     bool
		want        string
	}{
		{"newer", func(w *world, d *rolling.Declaration) {
			w.exec("UPDATE rowmill_tables SET declaration = " + quoted(strings.Replace(d.Text, "[period]", "[period]\nshards = 4", 1)) + ", revision = revision + 1")
		}, func(w *world, d *rolling.Declaration) {
			w.exec("UPDATE rowmill_tables SET declaration = " + quoted(d.Text) + ", revision = revision + 1")
		}, true, "shards"},
		{"undeclared", func(w *world, d *rolling.Declaration) {
			must(w.t, w.Undeclare(w.t.Context()))
		}, func(w *world, d *rolling.Declaration) { w.apply(d) }, false, "no declaration of table readings is in force"},
		{"removed", func(w *world, d *rolling.Declaration) {
			w.rename("readings", "elsewhere")
		}, func(w *world, d *rolling.Declaration) {
			w.rename("elsewhere", "readings")
		}, false, "table readings is declared but does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onServers(t, func(t *testing.T, db engine.Keeper) {
				if c.name == "removed" && db.Info().Engine == "sqlite" {
					t.Skip("a rolling table there is many tables and a view, which are not renamed")
				}
				d := declare(t, db, func(d *rolling.Declaration) { d.Keep = span(time.Hour) })
				w := applied(t, db, d, at(0.2))
				w.hours(0, 2)
				before := w.parts()
				c.damage(w, d)
				w.now = at(3.6)
				err := schedule.Once(t.Context(), w.Table)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("kept: %v, want an error with %q", err, c.want)
				}
				if p := w.problem(Declaring); !strings.Contains(p, c.want) {
					t.Errorf("status: %q, want a problem with %q", p, c.want)
				}
				c.fix(w, d)
				want := before
				if c.creates {
					want += " 5-6 6-7"
				}
				w.wantParts(want)
				w.keep()
				if p := w.problem(Declaring); p != "" {
					t.Errorf("it can be followed again: %s", p)
				}
				w.wantParts("2-3 3-4 4-5 5-6 6-7")
			})
		})
	}
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func (w *world) exec(q string) {
	w.t.Helper()
	exec(w.t, w.DB.SQL(), q)
}

// exec executes a statement in a pool, connection or transaction.
func exec(t testing.TB, x state.Exec, q string) {
	t.Helper()
	if _, err := x.ExecContext(t.Context(), q); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

func (w *world) rename(from, to string) {
	w.exec("ALTER TABLE " + from + " RENAME TO " + to)
}

// Rows of a roll-up that are due to be removed are kept if a longer retention is
// declared before their removal.
func TestFollowRollupKeep(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		declared := func(keep rolling.Span) *rolling.Declaration {
			return declare(t, db, func(d *rolling.Declaration) {
				d.Rollups = []rolling.Rollup{{Name: "readings_1h", Every: grid(t, "1h"), Keep: keep, Select: []rolling.Aggregate{{Name: "n", Func: "count"}}}}
			})
		}
		w := applied(t, db, declared(span(2*time.Hour)), at(0.2))
		w.hours(0, 2)
		w.now = at(5.6)
		now, err := w.Follow(t.Context())
		must(t, err)
		if _, err := now.Rollups.Refresh(t.Context(), w.now); err != nil {
			t.Fatal(err)
		}
		w.apply(declared(rolling.Span{}))
		if err := now.Rollups.Expire(t.Context(), w.now); !errors.Is(err, ErrChanged) {
			t.Errorf("rows of the roll-up were removed: %v", err)
		}
		w.keep()
		w.wantNumber(6, "SELECT SUM(n) FROM readings_1h")
	})
}
