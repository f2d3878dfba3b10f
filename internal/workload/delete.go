package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Operations beside the inserts, as named in records.
const (
	opDelete = "delete"
	opQuery  = "query"
)

// A deleter removes the oldest rows of one table, as many as were inserted. A table
// has only one deleter, so the deleted rows are always those below one row.
type deleter struct {
	w       *Insert
	table   *table
	querier engine.Querier
	del     *engine.Delete
	rows    span // prepared and not acknowledged
	lost    bool // the last try may have been committed
}

// deletes returns the load that deletes in batches of the given size: one client
// per table.
func (w *Insert) deletes(batch int) bench.Load {
	return bench.Load{Operation: opDelete, Clients: len(w.tables), Batch: batch, Client: w.deleter}
}

// checkDeletes refuses tables whose oldest rows can't be identified.
func (w *Insert) checkDeletes(batch int) error {
	switch {
	case w.preset.table.ServerKey != "":
		return engine.Hinted(fmt.Errorf("preset %s: the server assigns the keys, so that the oldest rows aren't known", w.preset.name), "--preset classic")
	case w.preset.axis == rolling.Time && batch%readingsPerSecond != 0:
		return engine.Hinted(fmt.Errorf("preset %s with batches of %d rows: rows are deleted by whole seconds, which hold %d", w.preset.name, batch, readingsPerSecond),
			"--batch %d", readingsPerSecond)
	}
	return nil
}

// deleter returns the client that deletes from a table. A delete that an earlier
// run left incomplete is repeated first, because its outcome is unknown.
func (w *Insert) deleter(ctx context.Context, n int) (bench.Client, error) {
	t := w.tables[n]
	q, err := w.db.Querier(ctx)
	if err != nil {
		return nil, err
	}
	d := &deleter{w: w, table: t, querier: q, del: &engine.Delete{Table: &t.Table, By: w.preset.by}}
	if from, to := t.tail.gone.Load(), t.tail.going.Load(); from < to {
		if _, err := q.Delete(ctx, d.del, w.position(from), w.position(to)); err != nil {
			return nil, errors.Join(fmt.Errorf("delete from %s what a run before may have left: %w", t.Name, err), q.Close())
		}
		least, _ := t.there(span{from, to})
		t.tail.removed.Add(least)
		t.tail.gone.Store(to)
	}
	return d, nil
}

// Prepare implements bench.Client.
func (d *deleter) Prepare(rows int) {
	from := d.table.tail.gone.Load()
	d.rows, d.lost = span{from, from + int64(rows)}, false
}

// Await implements bench.Waiter: only rows in excess of those to keep are deleted.
func (d *deleter) Await(ctx context.Context) error {
	t := d.table
	return t.tail.moved.await(ctx, func() bool {
		return t.held()-d.rows.rows() >= t.tail.keep && t.acknowledgedBelow() >= d.rows.to
	})
}

// Do implements bench.Client.
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
			d.table.Name, d.rows.from+1, d.rows.to, n, atLeast(least, most))
	}
	if d.lost {
		n = max(n, least) // the previous try removed them
	}
	t.removed.Add(n)
	t.gone.Store(d.rows.to)
	t.moved.signal()
	return nil
}

func atLeast(least, most int64) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// there returns the minimum and the maximum number of rows of a span in the
// table: the rows of an insert in doubt may exist or not.
func (t *table) there(s span) (least, most int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	least, most = s.rows(), s.rows()
	for _, d := range t.doubt {
		least -= d.since(s.from).below(s.to).rows()
	}
	for _, u := range t.unsent {
		n := u.since(s.from).below(s.to).rows()
		least, most = least-n, most-n
	}
	return least, most
}

// Recover implements bench.Client.
func (d *deleter) Recover(ctx context.Context, failed error) error {
	if errors.Is(failed, engine.ErrConnectionLost) {
		d.lost = true
	}
	return d.querier.Reset(ctx)
}

// Close implements bench.Client. A delete that was sent and not acknowledged is
// in doubt from then on: its rows lie between gone and going.
func (d *deleter) Close() error { return d.querier.Close() }
