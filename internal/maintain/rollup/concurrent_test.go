package rollup_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/rollup"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// onServers runs a test on the databases on which write transactions can overlap.
func onServers(t *testing.T, fn func(t *testing.T, kind string)) { on(t, kinds[1:], fn) }

// step is the number of statements of a refresh by which the tests that interrupt
// it at each statement advance: nightly runs test each statement.
func step() int {
	if testdb.Nightly() {
		return 1
	}
	return 3
}

// few returns two levels with few aggregates, which are faster to check.
func few(t testing.TB) []rolling.Rollup {
	out := levels(t)[:2]
	for i := range out {
		out[i].Select = []rolling.Aggregate{all[0], all[2], all[11], all[12]}
	}
	return out
}

func some(at int64, n int) []row {
	var rows []row
	for i := range n {
		rows = append(rows, row{1 + i%2, "a", at + int64(i%50)*minute, i, float64(i), i, fmt.Sprint("note ", i%7)})
	}
	return rows
}

// A batch that commits after a later one was consumed is not missed, as it would be
// if a refresh remembered the last number it has read.
func TestTrapNotesCommitOutOfOrder(t *testing.T) {
	onServers(t, func(t *testing.T, kind string) {
		f, m := filled(t, kind, few(t), start+day, some(start+hour, 5)...)
		early, late := []row{{1, "a", start + 3*hour, 1, 1.0, 1, "x"}}, []row{{1, "a", start + 2*hour, 1, 1.0, 1, "x"}}
		tx := f.begin()
		f.bypass(tx, early...)
		f.note(tx, early...)
		f.load(late...) // begun later, with a higher number and a lower position; committed first
		f.refresh(start + day)
		f.commit(tx)
		m = append(append(m, early...), late...)
		f.checkViews(m, "after the commit")
		f.refresh(start + day)
		f.checkTables(m, start+day)
	})
}

// Rows that are committed between the statements of a refresh are in the roll-up,
// or their note is still there.
func TestTrapRowsCommittedWhileComputed(t *testing.T) {
	onServers(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, few(t))
		m := model(some(start+hour, 5))
		f.load(m...)
		for stage, committed := 1, true; committed; stage++ {
			// One row exists, and the watermark will pass it and another one, which
			// is uncommitted when the refresh begins, as is its note.
			at := start + 2*hour + int64(stage)*10*minute
			before, rows := row{2, "b", at, 1, 1.0, 1, "x"}, row{1, "b", at + minute, 1, 1.0, 1, "x"}
			f.load(before)
			tx := f.begin()
			f.bypass(tx, rows)
			f.note(tx, rows)
			n := 0
			committed = false
			f.watched(at+10*minute, func(context.Context, string) {
				if n++; n == stage {
					f.commit(tx)
					committed = true
				}
			})
			if !committed {
				f.commit(tx)
			}
			m = append(m, before, rows)
			f.checkViews(m, fmt.Sprint("committed before statement ", stage))
			f.refresh(at + 10*minute)
			f.checkTables(m, at+10*minute)
			if !committed && stage < 10 {
				t.Errorf("a refresh of %d statements", n)
			}
		}
	})
}

// A refresh doesn't wait for a writer with an open transaction, nor the writer for
// the refresh: reading raw rows doesn't lock them.
func TestTrapRefreshLocksNoRawRows(t *testing.T) {
	onServers(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, few(t)[:1])
		f.load(some(start+hour, 20)...)
		f.set.Before(func(_ context.Context, q string) {
			if q != "COMMIT" {
				return
			}
			// The refresh has read the raw rows and holds its locks.
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			at := f.lit(start + hour + 30*minute)
			for _, q := range []string{
				"INSERT INTO readings (sensor, site, ts, seq) VALUES (1, 'a', " + at + ", 1000)",
				"UPDATE readings SET value = 3 WHERE ts = " + at,
				"DELETE FROM readings WHERE seq = 1000",
			} {
				if _, err := f.db.SQL().ExecContext(ctx, q); err != nil {
					t.Errorf("%s in the middle of a refresh: %v", q, err)
				}
			}
		})
		f.refresh(start + day)
	})
}

// Two concurrent refreshers and a loader: each refresher works on the state that
// the other has left.
func TestTwoRefreshers(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, few(t))
		ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
		defer cancel()
		var wg sync.WaitGroup
		var stop = make(chan struct{})
		for range 2 {
			set, err := rollup.New(f.db, f.st, f.table, f.schema(), f.decl)
			must(t, err)
			wg.Go(func() {
				for {
					if _, err := set.Refresh(ctx, start+2*day); err != nil && !engine.Retryable(err) && !errors.Is(err, rollup.ErrFenced) {
						t.Errorf("refresh: %v", err)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		var m model
		for i := range 12 {
			rows := []row{{1, "a", start + int64(i*7%12)*2*hour, i, float64(i), i, "x"}, {2, "b", start + 30*hour, i, 1.0, nil, nil}}
			f.load(rows...)
			m = append(m, rows...)
			f.checkViews(m, "while two refresh")
		}
		close(stop)
		wg.Wait()
		f.refresh(start + 2*day)
		f.checkTables(m, start+2*day)
	})
}

func (f *fixture) schema() *engine.Schema {
	f.t.Helper()
	s, err := f.db.Describe(context.Background(), "readings")
	must(f.t, err)
	return s
}

// A reader of a live view sees every row once while buckets are computed, become
// stale, and are recomputed.
func TestViewIsRightInTheMiddle(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, few(t))
		m := model(some(start+hour, 40))
		f.load(m...)
		statements := 0
		check := func(_ context.Context, q string) {
			if statements++; statements%step() != 0 {
				return
			}
			f.checkViews(m, fmt.Sprintf("before %.60s", q))
		}
		f.set.Before(check)
		f.refresh(start + day)
		late := []row{{1, "a", start + hour + 5*minute, 500, 9.0, 9, "z"}}
		f.set.Before(nil)
		f.load(late...)
		m = append(m, late...)
		f.set.Before(check)
		f.refresh(start + 2*day)
		if statements < 20 {
			t.Errorf("%d statements", statements)
		}
	})
}

// The same with a concurrent reader that isn't synchronized with the refresh.
func TestViewIsRightForConcurrentReader(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, few(t))
		f.load(some(start+hour, 100)...)
		stop, done := make(chan struct{}), make(chan error, 1)
		var reads atomic.Int64
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, v := range []string{"r10m_live", "r1h_live"} {
					var n sql.NullInt64
					var sum sql.NullFloat64
					if err := f.db.SQL().QueryRow("SELECT SUM(c), SUM(s) FROM "+v).Scan(&n, &sum); err != nil {
						done <- err
						return
					}
					if n.Int64 != 100 || sum.Float64 != 4950 {
						done <- fmt.Errorf("%s has %d rows, their sum is %v", v, n.Int64, sum.Float64)
						return
					}
					reads.Add(1)
				}
			}
		}()
		for i := int64(0); i < 10 || reads.Load() < 5 && len(done) == 0; i++ {
			f.refresh(start + day)
			f.recompute(func() (int, error) {
				return f.set.RefreshRange(context.Background(), start+hour+i%10*minute, start+2*hour, nil)
			})
		}
		close(stop)
		must(t, <-done)
	})
}

// A refresh that is interrupted at any statement, by its context or because the server
// closes its connection, leaves a state from which the next one can continue.
func TestKilledAtEachStatement(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, few(t))
		m := model(some(start+hour, 20))
		f.load(m...)
		ways := []string{"context"}
		if kind != "sqlite" {
			ways = append(ways, "connection")
		}
		for _, way := range ways {
			for stage, over := 1, false; !over; stage += step() {
				// Work for every level.
				late := []row{{1, "b", start + hour + 5*minute, 1000 + len(m), 9.0, 9, "z"}}
				f.load(late...)
				m = append(m, late...)
				ctx, cancel := context.WithCancel(context.Background())
				n := 0
				f.set.Before(func(context.Context, string) {
					if n++; n != stage {
						return
					}
					if way == "context" {
						cancel()
					} else {
						f.killOthers()
					}
				})
				_, err := f.set.Refresh(ctx, start+day)
				cancel()
				f.set.Before(nil)
				over = n < stage
				if err == nil && !over && way == "context" {
					t.Fatalf("statement %d: no error", stage)
				}
				f.checkViews(m, fmt.Sprintf("%s killed at statement %d", way, stage))
				f.refresh(start + day)
				f.checkTables(m, start+day)
			}
		}
	})
}

// killOthers closes all connections to the test's database except one.
func (f *fixture) killOthers() {
	f.t.Helper()
	ctx := context.Background()
	c, err := f.db.SQL().Conn(ctx)
	must(f.t, err)
	defer c.Close()
	if f.db.Info().Engine == "postgres" {
		if _, err := c.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
			f.t.Fatal(err)
		}
		return
	}
	rows, err := c.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
	must(f.t, err)
	var ids []string
	for rows.Next() {
		var id int64
		must(f.t, rows.Scan(&id))
		ids = append(ids, strconv.FormatInt(id, 10))
	}
	must(f.t, errors.Join(rows.Err(), rows.Close()))
	for _, id := range ids {
		if _, err := c.ExecContext(ctx, "KILL "+id); err != nil && !strings.Contains(err.Error(), "Unknown thread") {
			f.t.Fatal(err)
		}
	}
}

// With exact, rows of writers that leave no notes are detected: rows that are
// inserted, deleted and updated below the watermark, and rows whose transaction was
// open when the watermark passed them.
func TestTrapTriggersSeeWritersThatBypass(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, true, few(t))
		m := model(some(start+hour, 5))
		f.bypass(f.db.SQL(), m...)
		f.refresh(start + day)
		f.checkTables(m, start+day)
		late := row{1, "b", start + hour + 5*minute, 500, 9.0, 9, "z"}
		f.bypass(f.db.SQL(), late)
		m = append(m, late)
		f.checkViews(m, "after a late row")
		f.exec("UPDATE " + f.into(m[0].at) + " SET value = -1 WHERE " + f.where(m[0]))
		m[0].value = -1.0
		f.checkViews(m, "after an update")
		f.exec("DELETE FROM " + f.into(m[1].at) + " WHERE " + f.where(m[1]))
		m = append(m[:1], m[2:]...)
		f.checkViews(m, "after a delete")
		if n := f.refresh(start + day); n == 0 {
			t.Error("nothing was stale")
		}
		f.checkTables(m, start+day)
		if kind == "sqlite" {
			return
		}
		// Not late when it is written, but late when it is committed.
		slow := row{1, "b", start + 30*hour, 600, 9.0, 9, "z"}
		tx := f.begin()
		f.bypass(tx, slow)
		next := row{1, "a", start + 30*hour, 601, 9.0, 9, "z"}
		f.bypass(f.db.SQL(), next)
		f.refresh(start + 2*day)
		f.commit(tx)
		m = append(m, slow, next)
		f.checkViews(m, "after the commit")
		f.refresh(start + 2*day)
		f.checkTables(m, start+2*day)

		// The same connection once more, which has left a note already.
		conn, err := f.db.SQL().Conn(context.Background())
		must(t, err)
		defer conn.Close()
		for i := range 3 {
			tx, err := conn.BeginTx(context.Background(), nil)
			must(t, err)
			r := row{2, "a", start + 50*hour, 700 + i, 1.0, 1, "y"}
			f.bypass(tx, r)
			f.refresh(start + 3*day)
			f.commit(tx)
			m = append(m, r)
			f.checkViews(m, "after another commit")
		}
		f.refresh(start + 3*day)
		f.checkTables(m, start+3*day)
	})
}
