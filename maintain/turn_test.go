package maintain

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// A counted Keeper counts the steps that are tried at a time.
type counted struct {
	engine.Keeper
	active, most *atomic.Int32
}

func (c counted) Try(ctx context.Context, _ ...engine.Step) error {
	n := c.active.Add(1)
	defer c.active.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return engine.Sleep(ctx, 100*time.Millisecond)
}

// Lanes of one process, and of two, ask for the table's lock one after the
// other: an insert that queues behind one request never queues behind a second.
func TestTrapRequestsForTheLockQueueUp(t *testing.T) {
	for _, server := range []string{"mariadb", "mysql", "postgres"} {
		t.Run(server, func(t *testing.T) {
			db := testdb.Open(t, server).(engine.Keeper)
			var active, most atomic.Int32
			var all sync.WaitGroup
			name := &engine.Table{Name: "readings"}
			for range 2 {
				table := &Table{DB: counted{db, &active, &most}, Table: name}
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

// What is done again and finds nothing to do is no failure any more, though
// nothing would be logged of it otherwise.
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
