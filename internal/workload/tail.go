package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A tail is the state of the deletes of a table's oldest rows: how far they are, and how inserts
// and deletes wait for each other. The zero value is for a table without deletes.
type tail struct {
	// keep is the number of rows that deletes leave. Inserts wait while the table has more than
	// keep+lead rows. most is the maximum number of rows, with the batches in progress.
	keep, lead, most int64
	// Rows below gone are deleted. Rows from there to going are being deleted: it is unknown
	// whether they exist.
	gone, going atomic.Int64
	// inserted and removed count acknowledged rows, also those of an earlier run.
	inserted, removed atomic.Int64
	// moved wakes goroutines that wait for inserts or deletes to be acknowledged.
	moved gate
	// wanted is the row below which the next delete deletes.
	wanted  atomic.Int64
	mu      sync.Mutex
	clients []*client // the clients that insert into the table
	// followed makes the inserting clients announce and count their rows.
	followed bool
}

// A gate lets goroutines wait for a condition. Whoever changes the condition calls signal, which
// costs one atomic load while no goroutine waits.
type gate struct {
	waiting atomic.Bool
	mu      sync.Mutex
	open    chan struct{} // closed by the next signal; nil while no goroutine waits
}

// await returns nil once ok returns true, or the error of ctx. It calls ok again after each signal.
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

// acknowledgedBelow returns the row below which no row is being inserted: each was
// acknowledged, is in doubt or was never sent.
func (t *table) acknowledgedBelow() int64 {
	// Read next first: rows that clients take after this are not below it.
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

func (t *table) held() int64 {
	return t.tail.inserted.Load() - t.tail.removed.Load()
}

// trim gives back the numbers of unsent rows at the end of the sequence, so that the next rows take
// these numbers and no gap is left. No client may be running.
func (t *table) trim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.unsent, byFirst)
	for n := len(t.unsent) - 1; n >= 0 && t.unsent[n].to == t.next.Load(); n-- {
		t.next.Store(t.unsent[n].from)
		t.unsent = t.unsent[:n]
	}
}

// A heldClient is a client of a table of constant size: its inserts wait for the table's deletes.
type heldClient struct{ *client }

// Await implements bench.Waiter. A client's rows wait while the table has too many rows. But rows
// that the next delete is to remove don't wait, because the delete waits until they are inserted.
// (The client may have prepared them long before other clients filled the table.)
func (c heldClient) Await(ctx context.Context) error {
	t := &c.table.tail
	return t.moved.await(ctx, func() bool {
		return c.table.held() <= t.keep+t.lead || c.pending.Load() < t.wanted.Load()
	})
}

// slackShare is the inverse of the tolerated excess of a table's size: the insert benchmark's
// tables should stay within 1%.
const slackShare = 100

// leastKept is the least number of batches that deletes can keep in a table.
const leastKept = 10

// keepRows sets the number of rows that deletes leave in the table to n, and lead: inserts wait
// while the table has more than n + lead rows. lead is chosen so that the table, with the batches
// in progress, stays within 1/slackShare of n; but lead is at least one batch.
func (t *table) keepRows(n int64, batch, clients int) error {
	if least := leastKept * int64(batch); n < least {
		return fmt.Errorf("keep %d rows of table %s: want at least %d batches of %d rows", n, t.Name, leastKept, batch)
	}
	way := int64(batch) * int64(clients)
	t.tail.keep, t.tail.lead = n, max(n/slackShare-way, int64(batch))
	t.tail.most = n + t.tail.lead + way
	return nil
}

// Operations beside the inserts, as named in records.
const (
	opDelete = "delete"
	opQuery  = "query"
)

// A deleter removes the oldest rows of one table, as many as were inserted. Each table has only one
// deleter, so that the deleted rows are always the table's first rows, without a gap.
type deleter struct {
	connection
	w     *Insert
	table *table
	del   *engine.Delete
	rows  span // prepared and not acknowledged
	lost  bool // the last try may have been committed
}

// deletes returns the load that deletes in batches of the given size: one client per table.
func (w *Insert) deletes(batch int) bench.Load {
	return bench.Load{Operation: opDelete, Clients: len(w.tables), Batch: batch, Client: w.deleter}
}

// checkDeletes refuses tables whose oldest rows can't be identified.
func (w *Insert) checkDeletes(batch int) error {
	switch {
	case w.preset.table.ServerKey != "":
		return engine.Hinted(fmt.Errorf("preset %s: the server assigns the keys, so that the oldest rows are unknown", w.preset.name), "--preset classic")
	case w.preset.axis == rolling.Time && int64(batch)%w.preset.clock.Rows != 0:
		return engine.Hinted(fmt.Errorf("preset %s with batches of %d rows: rows are deleted by whole seconds, which hold %d", w.preset.name, batch, w.preset.clock.Rows),
			"--batch %d", w.preset.clock.Rows)
	}
	return nil
}

// deleter returns the client that deletes from a table. It first repeats a delete that an
// earlier run left incomplete.
func (w *Insert) deleter(ctx context.Context, n int) (bench.Client, error) {
	t := w.tables[n]
	q, err := w.db.Querier(ctx)
	if err != nil {
		return nil, err
	}
	d := &deleter{connection: connection{q}, w: w, table: t, del: &engine.Delete{Table: &t.Table, By: w.preset.by}}
	if from, to := t.tail.gone.Load(), t.tail.going.Load(); from < to {
		if _, err := q.Delete(ctx, d.del, w.position(from), w.position(to)); err != nil {
			return nil, errors.Join(fmt.Errorf("delete from %s what an earlier run may have left: %w", t.Name, err), q.Close())
		}
		least, _ := t.there(span{from, to})
		t.tail.removed.Add(least)
		t.tail.gone.Store(to)
	}
	return d, nil
}

func (d *deleter) Prepare(rows int) {
	from := d.table.tail.gone.Load()
	d.rows, d.lost = span{from, from + int64(rows)}, false
	d.table.tail.wanted.Store(d.rows.to)
	d.table.tail.moved.signal()
}

// Await implements bench.Waiter: only rows in excess of those to keep are deleted.
func (d *deleter) Await(ctx context.Context) error {
	t := d.table
	return t.tail.moved.await(ctx, func() bool {
		return t.held()-d.rows.rows() >= t.tail.keep && t.acknowledgedBelow() >= d.rows.to
	})
}

func (d *deleter) Do(ctx context.Context) error {
	t := &d.table.tail
	t.going.Store(max(t.going.Load(), d.rows.to))
	n, err := d.querier.Delete(ctx, d.del, d.w.position(d.rows.from), d.w.position(d.rows.to))
	if err != nil {
		return err
	}
	least, most := d.table.there(d.rows)
	if (n < least || n > most) && !(d.lost && n == 0) {
		return fmt.Errorf("delete from %s: of rows %d to %d the server removed %d, and %s were there",
			d.table.Name, d.rows.from+1, d.rows.to, n, between(least, most))
	}
	if d.lost {
		n = max(n, least) // the previous try removed them
	}
	t.removed.Add(n)
	t.gone.Store(d.rows.to)
	t.moved.signal()
	return nil
}

func between(least, most int64) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// there returns the least and the most rows of a span that can be in the table: the rows of an
// insert in doubt may exist or not.
func (t *table) there(s span) (least, most int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	least, most = s.rows(), s.rows()
	for _, d := range t.doubt {
		least -= d.within(s).rows()
	}
	for _, u := range t.unsent {
		n := u.within(s).rows()
		least, most = least-n, most-n
	}
	return least, most
}

func (d *deleter) Recover(ctx context.Context, failed error) error {
	if errors.Is(failed, engine.ErrConnectionLost) {
		d.lost = true
	}
	return d.querier.Reset(ctx)
}
