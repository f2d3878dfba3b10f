package maintain

import (
	"context"
	"sync"
	"time"

	"github.com/rowmill/rowmill/engine"
)

// gateWait is how long a step that needs the table's lock waits for statements of
// this process that read the table. Those of roll-ups take a fraction of that.
const gateWait = 5 * time.Second

// A gate keeps this process from standing in its own way. A statement that
// reads the table keeps its partitions from being changed until it ends, and
// inserts queue behind whoever waits for that: so a change waits here, where
// nobody queues behind it, and statements that would begin meanwhile wait for the
// change.
type gate struct {
	mu      sync.Mutex
	readers int
	closed  int
	changed chan struct{} // closed when readers or closed change; nil while nobody waits
}

// tell wakes all who wait; mu is held.
func (g *gate) tell() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// wait waits until ok, which is asked with mu held, or until ctx ends. It
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

// read begins a statement that reads the table, and returns what ends it.
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

// change begins a change of the table once no statement reads it, or after some
// time all the same, and returns what ends it.
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

// try is DB.Try of a step that needs the table's lock.
func (t *Table) try(ctx context.Context, step engine.Step) error {
	defer t.gate.change(ctx)()
	return t.DB.Try(ctx, step)
}
