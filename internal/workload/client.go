package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// A span is the rows [from, to) of a table's sequence.
type span struct{ from, to int64 }

func (s span) rows() int64 { return s.to - s.from }

// within returns the part of a span that lies in span o; it may be empty.
func (s span) within(o span) span {
	from := min(max(s.from, o.from), o.to)
	return span{from, max(from, min(s.to, o.to))}
}

func byFirst(a, b span) int { return cmp.Compare(a.from, b.from) }

type client struct {
	w      *Insert
	table  *table
	batch  *engine.Batch
	writer engine.Writer
	rows   span  // prepared and not acknowledged
	sent   bool  // the writer has received them
	lost   bool  // the last try may have been committed
	epoch  int64 // of the last try: see recent
	// again is the number of rows in doubt: as many new rows are prepared once the writer works.
	again int
	// pending is the first row that the client has prepared and that is not yet acknowledged; the
	// value idle means that there is none. No period with that row or later rows is dropped.
	pending atomic.Int64
}

// idle is the value of pending while no row is pending.
const idle = math.MaxInt64

// Client implements bench.Workload.
func (w *Insert) Client(ctx context.Context, n int) (bench.Client, error) {
	t := w.tables[n%len(w.tables)]
	writer, err := w.db.Writer(ctx, &t.Table, w.opt.Method)
	if err != nil {
		return nil, err
	}
	c := &client{w: w, table: t, batch: engine.NewBatch(t.Inserted()), writer: writer}
	c.pending.Store(idle)
	t.tail.join(c)
	if t.tail.keep > 0 {
		return heldClient{c}, nil
	}
	return c, nil
}

func (c *client) Prepare(rows int) {
	if c.table.roller != nil || c.table.tail.followed {
		// pending is stored before the rows are taken: no other goroutine may see rows that are taken and
		// not pending.
		c.pending.Store(c.table.next.Load())
	}
	from := c.table.next.Add(int64(rows)) - int64(rows)
	c.rows, c.sent, c.lost, c.again = span{from, from + int64(rows)}, false, false, 0
	c.batch.Reset()
	c.w.preset.fill(c.batch, c.table.stream, from, rows)
}

func (c *client) Do(ctx context.Context) error {
	if r := c.table.roller; r != nil {
		if err := r.await(ctx, c.w.position(c.rows.to-1)); err != nil {
			return err
		}
	}
	c.sent, c.epoch = true, c.table.recent.epoch.Load()
	ack, err := c.writer.Write(ctx, c.batch)
	if err != nil {
		if (c.lost || c.rows.from < c.table.late) && c.table.ServerKey == "" && errors.Is(err, engine.ErrDuplicateKey) {
			// The batch is in the table already: the previous try was committed after all, or an earlier
			// process inserted it. It is there as a whole, because a batch is one transaction, and no other
			// client sends its keys.
			c.acknowledged()
			return nil
		}
		return err
	}
	if want := c.rows.rows(); ack.Rows+ack.Skipped != want {
		return fmt.Errorf("insert into %s: the server acknowledged %s of %d", c.table.Name, figure.Plural(ack.Rows+ack.Skipped, "row", "rows"), want)
	}
	if !c.lost { // a previous try may have inserted them
		c.table.skipped.Add(ack.Skipped)
	}
	if len(ack.Warnings) > 0 {
		c.w.warn(ack.Warnings)
	}
	c.acknowledged()
	return nil
}

func (c *client) acknowledged() {
	c.table.recent.note(c.rows, c.epoch)
	if c.table.tail.followed {
		c.table.tail.inserted.Add(c.rows.rows())
	}
	c.rows = span{}
	c.pending.Store(idle)
	if c.table.tail.followed {
		c.table.tail.moved.signal()
	}
}

func (c *client) Recover(ctx context.Context, failed error) error {
	if errors.Is(failed, engine.ErrConnectionLost) {
		if c.table.ServerKey == "" {
			c.lost = true
		} else if n := c.rows.rows(); n > 0 {
			// If the server assigns the keys, rowmill can't tell whether the lost batch was committed. The
			// batch stays in doubt, and the same number of new rows is sent.
			c.again = int(n)
			c.letGo()
		}
	}
	if err := c.writer.Reset(ctx); err != nil {
		return err
	}
	if c.again > 0 {
		c.Prepare(c.again)
	}
	return nil
}

// letGo records that this client will get no acknowledgement for its rows. They stay pending.
func (c *client) letGo() {
	if c.rows.rows() == 0 {
		return
	}
	t := c.table
	t.mu.Lock()
	if c.sent {
		t.doubt = append(t.doubt, c.rows)
	} else {
		t.unsent = append(t.unsent, c.rows)
	}
	t.mu.Unlock()
	c.rows = span{}
}

func (c *client) Close() error {
	c.letGo()
	c.table.tail.leave(c)
	return c.writer.Close()
}

func (t *table) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next.Store(0)
	t.skipped.Store(0)
	t.doubt, t.unsent, t.late = nil, nil, 0
	t.recent.reset()
	for _, n := range []*atomic.Int64{&t.tail.gone, &t.tail.going, &t.tail.inserted, &t.tail.removed} {
		n.Store(0)
	}
}

// sent returns the rows that were acknowledged and not deleted, in order, and the batches
// in doubt. Rows that a client is inserting count as acknowledged.
func (t *table) sent() (acked, doubt []span) {
	acked, doubt = t.known()
	return clip(acked, span{t.tail.going.Load(), math.MaxInt64}), doubt
}

// leaving returns the rows whose insert was acknowledged, and whose delete may have been sent but
// was not acknowledged. One statement deletes them: either all of them exist, or none.
func (t *table) leaving() []span {
	acked, _ := t.known()
	return clip(acked, span{0, t.tail.going.Load()})
}

// clip returns the parts of spans that lie in the span in.
func clip(spans []span, in span) []span {
	var out []span
	for _, s := range spans {
		if s = s.within(in); s.rows() > 0 {
			out = append(out, s)
		}
	}
	return out
}

// known returns what sent returns, and in acked also the rows whose delete is in doubt.
func (t *table) known() (acked, doubt []span) {
	gone := t.tail.gone.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	doubt = clip(t.doubt, span{gone, math.MaxInt64})
	not := slices.Concat(t.doubt, t.unsent)
	slices.SortFunc(not, byFirst)
	return without([]span{{gone, t.next.Load()}}, not), doubt
}
