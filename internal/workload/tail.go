package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A tail is the old end of a table: the progress of the deletes, and the waits
// between inserts and deletes. The zero value is for a table without deletes.
type tail struct {
	// keep is the number of rows that deletes leave, lead the number of rows in
	// excess at which inserts wait for the deletes, and most the maximum number
	// of rows. They do not change during a run.
	keep, lead, most int64
	// Rows below gone are deleted. Rows from gone to going are being deleted: it
	// is unknown whether they exist.
	gone, going atomic.Int64
	// inserted and removed count acknowledged rows; inserted includes the rows
	// of an earlier run.
	inserted, removed atomic.Int64
	// moved wakes goroutines that wait for inserts or deletes to be acknowledged.
	moved   gate
	mu      sync.Mutex
	clients []*client // the clients that insert into the table
	// followed makes the inserting clients announce and count their rows.
	followed bool
}

// A gate lets goroutines wait for a condition that others change. They call
// signal after each change, which costs one read while no goroutine waits.
type gate struct {
	waiting atomic.Bool
	mu      sync.Mutex
	open    chan struct{} // closed by the next signal; nil while no goroutine waits
}

// await returns once ok returns true, or with the error of ctx. ok is called
// again after each signal.
func (g *gate) await(ctx context.Context, ok func() bool) error {
	for !ok() {
		g.mu.Lock()
		if g.open == nil {
			g.open = make(chan struct{})
		}
		open := g.open
		g.waiting.Store(true)
		g.mu.Unlock()
		if ok() { // the condition may have changed before the wait was visible
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

// acknowledgedBelow returns the row below which no row is being inserted: each
// was acknowledged, is in doubt or was never sent.
func (t *table) acknowledgedBelow() int64 {
	// Read before the clients' rows: rows taken after this are not older.
	below := t.next.Load()
	t.tail.mu.Lock()
	defer t.tail.mu.Unlock()
	for _, c := range t.tail.clients {
		below = min(below, c.pending.Load())
	}
	return below
}

// join and leave maintain the list of clients that insert into the table.
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

// held returns the acknowledged number of rows in the table.
func (t *table) held() int64 {
	return t.tail.inserted.Load() - t.tail.removed.Load()
}

// trim returns unsent rows at the end of the sequence, so that they leave no
// gap. No client may be running.
func (t *table) trim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.unsent, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for n := len(t.unsent) - 1; n >= 0 && t.unsent[n].to == t.next.Load(); n-- {
		t.next.Store(t.unsent[n].from)
		t.unsent = t.unsent[:n]
	}
}

// since returns the part of a span at or after a row.
func (s span) since(from int64) span { return span{max(s.from, from), max(s.to, from)} }

// below returns the part of a span before a row.
func (s span) below(to int64) span { return span{min(s.from, to), min(s.to, to)} }

// A heldClient is a client whose inserts wait for the deletes of its table, so
// that the table keeps its size.
type heldClient struct{ *client }

// Await implements bench.Waiter.
func (c heldClient) Await(ctx context.Context) error {
	t := c.table
	return t.tail.moved.await(ctx, func() bool { return t.held() <= t.tail.keep+t.tail.lead })
}

// slackShare is the inverse of the excess of a table's size that is tolerated while
// deletes follow inserts: the insert benchmark's tables should stay within 1%.
const slackShare = 100

// leastKept is the minimum number of batches that a table must hold if deletes
// are to keep it at its size.
const leastKept = 10

// keepRows sets the number of rows that deletes leave in the table to n. batch
// and clients are the batch size and the number of the clients that insert. The
// batches that they are inserting are added to the number of rows at which they
// wait, and a delete can only begin when there is a whole batch to delete.
func (t *table) keepRows(n int64, batch, clients int) error {
	if least := leastKept * int64(batch); n < least {
		return fmt.Errorf("keep %d rows of table %s: want at least %d batches of %d rows", n, t.Name, leastKept, batch)
	}
	way := int64(batch) * int64(clients)
	t.tail.keep, t.tail.lead = n, max(n/slackShare-way, int64(batch))
	t.tail.most = n + t.tail.lead + way
	return nil
}
