package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A tail is the old end of a table: how far deletes have come, and who waits
// for whom. The zero value is a table that nothing is deleted from.
type tail struct {
	// keep is how many rows deletes leave, lead how many more there may be
	// before inserts wait for the deletes, and most how many there may be at
	// all. They are fixed while a run goes.
	keep, lead, most int64
	// Rows below gone were deleted. Those from there to going are being
	// deleted: whether they are there isn't known.
	gone, going atomic.Int64
	// inserted and removed count rows that were acknowledged; the former begins
	// with those of an earlier run.
	inserted, removed atomic.Int64
	// moved wakes who waits for rows to be acknowledged, or deleted.
	moved   gate
	mu      sync.Mutex
	clients []*client // those that insert into the table
	// followed tells the clients that insert to announce and to count their
	// rows.
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
func (t *table) acknowledgedBelow() int64 {
	// Read before the clients are: rows taken from now on are not older.
	below := t.next.Load()
	t.tail.mu.Lock()
	defer t.tail.mu.Unlock()
	for _, c := range t.tail.clients {
		below = min(below, c.pending.Load())
	}
	return below
}

// join and leave say which clients insert into the table.
func (t *tail) join(c *client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients = append(t.clients, c)
}

func (t *tail) leave(c *client) {
	t.mu.Lock()
	t.clients = slices.DeleteFunc(t.clients, func(o *client) bool { return o == c })
	t.mu.Unlock()
	t.moved.signal()
}

// held returns how many rows the table holds, by what was acknowledged.
func (t *table) held() int64 {
	return t.tail.inserted.Load() - t.tail.removed.Load()
}

// trim gives back the end of the sequence that no client has sent, so that it
// leaves no gap. No client may be at work.
func (t *table) trim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.unsent, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for n := len(t.unsent) - 1; n >= 0 && t.unsent[n].to == t.next.Load(); n-- {
		t.next.Store(t.unsent[n].from)
		t.unsent = t.unsent[:n]
	}
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
	t := c.table
	return t.tail.moved.await(ctx, func() bool { return t.held() <= t.tail.keep+t.tail.lead })
}

// slackShare is how much larger than asked for a table may be while deletes
// follow inserts: the insert benchmark's tables are to stay within 1%.
const slackShare = 100

// leastKept is how many batches a table must hold that deletes are to keep at
// its size.
const leastKept = 10

// keepRows has deletes leave n rows of the table, in batches as large as those
// of so many clients that insert. Whatever these have on their way comes on top
// of the rows at which they wait, and a batch is needed for a delete to begin.
func (t *table) keepRows(n int64, batch, clients int) error {
	if least := leastKept * int64(batch); n < least {
		return fmt.Errorf("keep %d rows of table %s: want at least %d batches of %d rows", n, t.Name, leastKept, batch)
	}
	way := int64(batch) * int64(clients)
	t.tail.keep, t.tail.lead = n, max(n/slackShare-way, int64(batch))
	t.tail.most = n + t.tail.lead + way
	return nil
}
