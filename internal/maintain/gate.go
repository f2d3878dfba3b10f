package maintain

import (
	"context"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// gateWait is how long a step that needs the table's lock waits for this process's
// statements that read the table. Those of roll-ups take a fraction of it.
const gateWait = 5 * time.Second

// A gate prevents lock waits between statements of this process. A statement that
// reads the table blocks changes of its partitions until it ends, and inserts queue
// behind a waiting change. A change therefore waits at the gate, where no insert
// queues behind it, and new reading statements wait for the change.
type gate struct {
	mu      sync.Mutex
	readers int
	closed  int
	changed chan struct{} // closed when readers or closed change; nil while nothing waits
}

// tell wakes all waiting goroutines; mu is held.
func (g *gate) tell() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// wait waits until ok returns true or ctx ends. It calls ok with mu held, and
// returns with mu held.
func (g *gate) wait(ctx context.Context, ok func() bool) {
	g.mu.Lock()
	for !ok() && ctx.Err() == nil {
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		g.mu.Lock()
	}
}

// read begins a statement that reads the table, and returns the function that ends
// it.
func (g *gate) read() (end func()) {
	g.wait(context.Background(), func() bool { return g.closed == 0 })
	defer g.mu.Unlock()
	g.readers++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.readers--
		g.tell()
	}
}

// change begins a change of the table once no statement reads it, or after gateWait
// at the latest, and returns the function that ends it.
func (g *gate) change(ctx context.Context) (end func()) {
	ctx, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	g.mu.Lock()
	g.closed++
	g.mu.Unlock()
	g.wait(ctx, func() bool { return g.readers == 0 })
	defer g.mu.Unlock()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.closed--
		g.tell()
	}
}

// try is DB.Try for a step that needs the table's lock.
func (t *Table) try(ctx context.Context, step engine.Step) error {
	defer t.gate.change(ctx)()
	return t.DB.Try(ctx, step)
}
