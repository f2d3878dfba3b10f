package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestRollerTriesAgain checks that a step that fails for a temporary reason is
// retried, also if the server has executed it nevertheless.
func TestRollerTriesAgain(t *testing.T) {
	t.Parallel()
	busy := engine.Classed(engine.ErrLockTimeout, errors.New("busy"))
	for _, kind := range stores {
		for _, test := range []struct {
			name string
			fail error
			done bool // executed nevertheless
		}{
			{"lock", busy, false},
			{"unreachable", engine.Classed(engine.ErrUnreachable, errors.New("down")), false},
			{"lost before", errLost, false},
			{"lost after", errLost, true},
		} {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				db := &faulty{DB: testdb.Open(t, kind)}
				w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 8000, Writers: 2, Batch: 100, PeriodRows: 2000, KeepPeriods: 1})
				var create, drop atomic.Int64
				db.apply = func(ctx context.Context, steps []engine.Step) error {
					n := &create
					if _, ok := steps[0].(engine.DropPartition); ok {
						n = &drop
					}
					if n.Add(1)%2 == 0 {
						return db.DB.Apply(ctx, steps...)
					}
					if test.done {
						if err := db.DB.Apply(ctx, steps...); err != nil {
							return err
						}
					}
					return test.fail
				}
				run(t, w, config(w))
				if p := verify(t, w); !p.Checksum || p.Found+p.DroppedRows != 8000 || p.Expected != p.Found {
					t.Errorf("%+v", p)
				}
				if create.Load() < 1 || drop.Load() < 1 {
					t.Errorf("%d tries to create, %d to drop", create.Load(), drop.Load())
				}
			})
		}
	}
}

// TestRollerFails checks that a permanent failure ends the run at once, with the
// reason, and that no client keeps waiting for a period.
func TestRollerFails(t *testing.T) {
	broken := errors.New("broken on purpose")
	db := &faulty{DB: testdb.Open(t, "sqlite")}
	w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 100000, Writers: 3, Batch: 100, PeriodRows: 1000})
	db.apply = func(context.Context, []engine.Step) error {
		if w.tables[0].next.Load() < 3200 {
			return engine.Classed(engine.ErrLockTimeout, errors.New("busy"))
		}
		return broken // all three clients are waiting
	}
	cfg := config(w)
	cfg.Grace = 100 * time.Millisecond
	began := time.Now()
	out, err := bench.Run(t.Context(), w, cfg)
	ok(t, err)
	if out.Stopped != bench.StoppedFailed || !errors.Is(out.Err, broken) || out.Rows != 2900 || time.Since(began) > 10*time.Second {
		t.Errorf("%+v after %v", out, time.Since(began))
	}
	mustHold(t, w, 2900) // the key 3000 is in the first missing period
}

// TestRollerInterrupted checks that an interrupt ends clients that wait for a
// period whose creation is stuck.
func TestRollerInterrupted(t *testing.T) {
	db := &faulty{DB: testdb.Open(t, "sqlite")}
	w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 100000, Writers: 3, Batch: 100, PeriodRows: 1000})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	release := make(chan struct{})
	db.apply = func(ctx context.Context, _ []engine.Step) error {
		interrupt()
		select {
		case <-ctx.Done():
		case <-release:
		}
		return engine.Classed(engine.ErrLockTimeout, errors.New("busy"))
	}
	cfg := config(w)
	cfg.Grace = 100 * time.Millisecond
	time.AfterFunc(500*time.Millisecond, func() { close(release) })
	out, err := bench.Run(ctx, w, cfg)
	ok(t, err)
	if out.Stopped != bench.StoppedInterrupted || out.Err != nil {
		t.Errorf("%+v", out)
	}
	mustHold(t, w, out.Rows)
}

// TestRollerFinishes checks that a step in progress is completed when the run
// ends, so that no partition is dropped while the table is read afterwards.
func TestRollerFinishes(t *testing.T) {
	db := &faulty{DB: testdb.Open(t, "sqlite")}
	w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 1000, PeriodRows: 1000})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var after error
	db.apply = func(own context.Context, steps []engine.Step) error {
		cancel()
		time.Sleep(20 * time.Millisecond)
		after = own.Err()
		return db.DB.Apply(own, steps...)
	}
	w.tables[0].next.Store(2500)
	if err := w.Background(ctx, noEvent); err != nil || after != nil {
		t.Errorf("Background returned %v; the step's context: %v", err, after)
	}
	parts, err := db.Catalog().Partitions(t.Context(), w.Tables()[0])
	if err != nil || len(parts) != 5 {
		t.Errorf("periods %v, %v", parts, err)
	}
}

// TestBusyTable checks that a transaction that holds the table's metadata lock
// longer than the lock timeout of DDL delays the roller, but does not end the run.
func TestBusyTable(t *testing.T) {
	db := testdb.Open(t, "mariadb")
	w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 6000, Writers: 2, Batch: 100, PeriodRows: 1000, KeepPeriods: 2})
	sql := raw(t, db)
	exec(t, sql, "BEGIN")
	number(t, sql, "SELECT COUNT(*) FROM purchases")
	released := time.AfterFunc(2500*time.Millisecond, func() { // the lock timeout of DDL is 2 seconds
		if _, err := sql.Exec("COMMIT"); err != nil {
			t.Error(err)
		}
	})
	defer released.Stop()
	run(t, w, config(w))
	if p := verify(t, w); !p.Checksum || p.Found+p.DroppedRows != 6000 {
		t.Errorf("%+v", p)
	}
}

// TestPendingKeepsPeriod checks that a period needed by a pending row is not
// dropped, however far the inserts have progressed.
func TestPendingKeepsPeriod(t *testing.T) {
	onStores(t, func(t *testing.T, db engine.DB) {
		w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 10000, Batch: 100, PeriodRows: 500, KeepPeriods: 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- w.Background(ctx, noEvent) }()
		slow, err := w.Client(ctx, 0)
		ok(t, err)
		fast, err := w.Client(ctx, 1)
		ok(t, err)
		send := func(c bench.Client) {
			t.Helper()
			ok(t, c.Do(ctx))
		}
		slow.Prepare(100)
		for range 40 {
			fast.Prepare(100)
			send(fast)
		}
		time.Sleep(5 * rollEvery) // sufficient to drop too many periods
		send(slow)
		ok(t, slow.Close())
		// No row is pending, so all periods except one can be dropped.
		oldest := func() string {
			parts, err := db.Catalog().Partitions(t.Context(), w.Tables()[0])
			ok(t, err)
			return parts[0].Name
		}
		for deadline := time.Now().Add(10 * time.Second); oldest() != "p0000000000000004000"; time.Sleep(rollEvery) {
			if time.Now().After(deadline) {
				t.Fatalf("the oldest period is still %s", oldest())
			}
		}
		cancel()
		ok(t, errors.Join(fast.Close(), <-ended))
		if p := verify(t, w); !p.Checksum || p.Expected != 101 || p.DroppedRows != 3999 {
			t.Errorf("%+v", p)
		}
	})
}

// TestTooManyPeriods checks that too many periods are refused before any
// statement is sent, with a hint.
func TestTooManyPeriods(t *testing.T) {
	w := prepared(t, &faulty{DB: testdb.Open(t, "sqlite"), caps: func(c *engine.Capabilities) { c.MaxPeriods = 10 }}, InsertOptions{Preset: "classic", Layout: Rolling, Batch: 50, PeriodRows: 100})
	cfg := config(w)
	cfg.Rows, cfg.Grace = 10000, 100*time.Millisecond
	out, err := bench.Run(t.Context(), w, cfg)
	var hint *engine.HintError
	if err != nil || out.Stopped != bench.StoppedFailed || !errors.As(out.Err, &hint) || out.Rows == 0 || out.Rows > 1000 {
		t.Errorf("%+v, %v", out, err)
	}
	mustHold(t, w, out.Rows)
}
