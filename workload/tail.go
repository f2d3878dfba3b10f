package workload

import (
	"context"
	"sync"
	"sync/atomic"
)

// A tail is the old end of a table: how far deletes have come, and who waits
// for whom. The zero value is a table that nothing is deleted from.
type tail struct {
	// keep is how many rows deletes leave, and slack how many more there may
	// be before inserts wait for the deletes. Both are fixed while a run goes.
	keep, slack int64
	// Rows below gone were deleted. Those from there to going are being
	// deleted: whether they are there isn't known.
	gone, going atomic.Int64
	removed     atomic.Int64 // rows that deletes removed
	// moved wakes who waits for rows to be acknowledged, or deleted.
	moved gate
	// followed tells the clients that insert to announce their rows.
	followed bool
}

// A gate is where goroutines wait for what others bring about. Who does so
// calls signal after each change, which costs one read while nobody waits.
type gate struct {
	waiting atomic.Bool
	mu      sync.Mutex
	open    chan struct{} // closed by the next signal; nil while nobody waits
}

// await returns once ok holds, or with the error of ctx. ok is called again
// after each signal.
func (g *gate) await(ctx context.Context, ok func() bool) error {
	for !ok() {
		g.mu.Lock()
		if g.open == nil {
			g.open = make(chan struct{})
		}
		open := g.open
		g.waiting.Store(true)
		g.mu.Unlock()
		if ok() { // it came about before the others could know of the wait
			return nil
		}
		select {
		case <-open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (g *gate) signal() {
	if !g.waiting.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting.Store(false)
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
}

// acknowledgedBelow returns the row below which none is on its way: each was
// acknowledged, is in doubt or was never sent.
func (w *Insert) acknowledgedBelow(t *table) int64 {
	// Read before the clients are: rows taken from now on are not older.
	below := t.next.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clients {
		if c.table == t {
			below = min(below, c.pending.Load())
		}
	}
	return below
}

// held returns how many rows the table holds, by what was acknowledged.
func (t *table) held() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.next.Load() - t.tail.gone.Load()
	for _, list := range [][]span{t.doubt, t.unsent} {
		for _, s := range list {
			n -= s.since(t.tail.gone.Load()).rows()
		}
	}
	return n
}

// since returns the part of a span that is not below a row.
func (s span) since(from int64) span { return span{max(s.from, from), max(s.to, from)} }

// below returns the part of a span that is below a row.
func (s span) below(to int64) span { return span{min(s.from, to), min(s.to, to)} }

// A heldClient is a client whose inserts wait for the deletes of its table, so
// that the table keeps its size.
type heldClient struct{ *client }

// Await implements bench.Waiter.
func (c heldClient) Await(ctx context.Context) error {
	t := &c.table.tail
	return t.moved.await(ctx, func() bool { return c.rows.to-t.gone.Load() <= t.keep+t.slack })
}

// slackShare is how much larger than asked for a table may be while deletes
// follow inserts: the insert benchmark's tables are to stay within 1%.
const slackShare = 100

// keepRows has deletes leave n rows of the table, in batches as large as those
// of so many clients that insert. With less room than two batches of each, all
// might wait for each other.
func (t *table) keepRows(n int64, batch, clients int) {
	t.tail.followed = true
	t.tail.keep, t.tail.slack = n, max(n/slackShare, 2*int64(batch)*int64(clients))
}
