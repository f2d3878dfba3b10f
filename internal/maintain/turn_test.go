package maintain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// A counted Keeper counts the steps that run at the same time.
type counted struct {
	engine.Keeper
	active, most *atomic.Int32
}

func (c counted) Try(ctx context.Context, _ ...engine.Step) error {
	n := c.active.Add(1)
	defer c.active.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return engine.Sleep(ctx, 30*time.Millisecond)
}

// Lanes of one process, and of two, request the table's lock one after the other:
// an insert that queues behind one request never queues behind a second.
func TestTrapRequestsForTheLockQueueUp(t *testing.T) {
	t.Parallel()
	for _, server := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			db := testdb.Open(t, server).(engine.Keeper)
			var active, most atomic.Int32
			var all sync.WaitGroup
			name := &engine.Table{Name: "readings"}
			for range 2 {
				table := &Table{DB: counted{db, &active, &most}, Table: name, shared: &shared{}}
				for range 3 {
					all.Go(func() {
						if err := table.tryLocked(t.Context(), engine.CreatePartitions{Table: name, New: []rolling.Partition{{Name: "p"}}}); err != nil {
							t.Error(err)
						}
					})
				}
			}
			all.Wait()
			if n := most.Load(); n != 1 {
				t.Errorf("%d steps asked for the lock at a time", n)
			}
		})
	}
}

// A busy Keeper returns a lock timeout for the next attempts of some steps.
type busy struct {
	engine.Keeper
	tries atomic.Int32
}

func (b *busy) Try(ctx context.Context, steps ...engine.Step) error {
	for _, s := range steps {
		switch s.(type) {
		case engine.Replace, engine.Detach:
			if b.tries.Add(-1) >= 0 {
				return engine.Classed(engine.ErrLockTimeout, errors.New("somebody has it"))
			}
		}
	}
	return b.Keeper.Try(ctx, steps...)
}

// Blockers returns no blockers. MariaDB and MySQL may return sessions that run a
// statement on a table of that name in any database, as other tests do.
func (b *busy) Blockers(context.Context, *engine.Table) ([]engine.Blocker, error) { return nil, nil }

// A step that didn't get the lock is continued later. After its success it is no
// longer reported as blocked.
func TestBlockedIsOver(t *testing.T) {
	onServers(t, func(t *testing.T, real engine.Keeper) {
		db := &busy{Keeper: real}
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) {
			d.Keep = span(6 * time.Hour)
			d.Seal.After = span(30 * time.Minute)
			d.Seal.Merge = grid(t, "3h")
		}), at(0.2))
		blocked := func(hour float64, want string) {
			t.Helper()
			w.now = at(hour)
			db.tries.Store(1000)
			for range 2 {
				if err := (&Daemon{Table: w.Table}).Once(t.Context()); !errors.Is(err, engine.ErrLockTimeout) {
					t.Fatalf("with the lock taken: %v", err)
				}
				if got := w.problem("blocked"); !strings.HasPrefix(got, want+" ") {
					t.Errorf("with the lock taken: %q, want %s", got, want)
				}
			}
			db.tries.Store(0)
			w.keep()
			if got := w.problem("blocked"); got != "" {
				t.Errorf("%s is done: %s", want, got)
			}
			if got := w.problem("failed"); got != "" {
				t.Errorf("%s is done: %s", want, got)
			}
		}
		for hour := range 3 {
			w.now = at(float64(hour) + 0.1)
			w.keep()
			w.insert(w.now, 1, 2, 3)
		}
		name := func(hour float64) string {
			return w.Table.Table.Grid.Named(rolling.Period{From: at(hour), To: at(hour + 1)}).Name
		}
		blocked(3.6, fmt.Sprintf("merge %s, %s, %s", name(0), name(1), name(2)))
		if got := w.parts(); !strings.HasPrefix(got, "0-3 ") {
			t.Errorf("merged to %s", got)
		}
		have, err := w.DB.Catalog().Partitions(t.Context(), w.Table.Table)
		if err != nil {
			t.Fatal(err)
		}
		blocked(9.1, "drop "+have[0].Name)
		if got := w.parts(); strings.HasPrefix(got, "0-3 ") {
			t.Errorf("%s are left", got)
		}
	})
}

// A repeated action that finds nothing to do ends its failure, although it would
// otherwise not be logged.
func TestFailureIsOver(t *testing.T) {
	var f failures
	for i, c := range []struct {
		failed, over bool
	}{{false, false}, {true, true}, {true, true}, {false, false}} {
		f.note("check", c.failed)
		if f.over("check") != c.over || f.over("drop") {
			t.Errorf("step %d: check %t, drop %t", i, f.over("check"), f.over("drop"))
		}
	}
}
