package workload

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
)

// Clients creates the clients of one operation. It is a bench.Workload.
type Clients func(ctx context.Context, n int) (bench.Client, error)

// Client implements bench.Workload.
func (c Clients) Client(ctx context.Context, n int) (bench.Client, error) { return c(ctx, n) }

// Background implements bench.Workload; there is no work beside the clients.
func (c Clients) Background(context.Context, func(what, object string, began time.Time)) error {
	return nil
}

// Clients returns the clients of an operation other than OpMixed. The rows that
// selects look for depend on the seed and on turn, a number that the caller assigns
// to each measurement: it must be equal for measurements that are compared.
func (m *Mixed) Clients(operation string, turn int) (Clients, error) {
	if operation == OpInsert {
		return m.inserter, nil
	}
	f := m.finds[operation]
	if f == nil {
		return nil, fmt.Errorf("unknown operation %q", operation)
	}
	return func(ctx context.Context, n int) (bench.Client, error) {
		q, err := m.insert.db.Querier(ctx)
		if err != nil {
			return nil, err
		}
		// Writers and readers use different streams: the writers' numbers are small.
		source := newStream(m.opt.Seed, firstReader+n)
		return &reader{m: m, operation: operation, find: f, querier: q, random: source.row(int64(turn)),
			values: make([]engine.Value, 0, f.Values()), slots: make([]int64, 0, max(f.Points, 1))}, nil
	}, nil
}

// firstReader is the stream number of the first client that selects, above those
// of all clients that insert.
const firstReader = 1 << 20

// An inserter is a client that counts the rows it sends per key.
type inserter struct {
	*client
	m *Mixed
}

func (m *Mixed) inserter(ctx context.Context, n int) (bench.Client, error) {
	c, err := m.insert.Client(ctx, n)
	if err != nil {
		return nil, err
	}
	return &inserter{c.(*client), m}, nil
}

// Prepare implements bench.Client.
func (c *inserter) Prepare(rows int) {
	c.client.Prepare(rows)
	c.m.count(c.m.sent, c.batch)
}

// Do implements bench.Client.
func (c *inserter) Do(ctx context.Context) error {
	err := c.client.Do(ctx)
	if err == nil {
		c.m.count(c.m.acked, c.batch)
	}
	return err
}

// A reader is a client that selects existing rows.
type reader struct {
	m         *Mixed
	operation string
	find      *engine.Find
	querier   engine.Querier
	random    draws
	values    []engine.Value
	slots     []int64 // of the keys to look for; empty for a primary key
}

// Prepare implements bench.Client: it draws the rows to look for, uniformly
// among the initial rows of the table.
func (c *reader) Prepare(int) {
	c.values, c.slots = c.values[:0], c.slots[:0]
	if c.operation == OpSelectPK {
		c.values = append(c.values, engine.Value{Int: c.draw() + 1})
		return
	}
	stream, on := c.m.insert.tables[0].stream, len(c.find.On)
	for len(c.slots) < max(c.find.Points, 1) {
		v, slot := c.m.lookup.values(stream, c.draw())
		if slices.Contains(c.slots, slot) {
			continue // a duplicate value would find its rows only once
		}
		c.slots, c.values = append(c.slots, slot), append(c.values, v[:on]...)
	}
}

// draw returns the number of a row.
func (c *reader) draw() int64 { return c.random.below(uint64(c.m.opt.Rows)) }

// Do implements bench.Client.
func (c *reader) Do(ctx context.Context) error {
	least := c.sum(c.m.acked)
	if !c.m.lookup.exact && len(c.slots) > 0 {
		least = int64(len(c.slots))
	}
	rows, err := c.querier.Find(ctx, c.find, c.values)
	if err != nil || !c.m.stores {
		return err
	}
	if most := c.sum(c.m.sent); int64(rows) < least || int64(rows) > most {
		return c.wrong(rows, least, most)
	}
	return nil
}

// sum returns the number of rows of the keys according to the counts; a primary
// key has one row.
func (c *reader) sum(counts []atomic.Int32) int64 {
	if len(c.slots) == 0 {
		return 1
	}
	var n int64
	for _, s := range c.slots {
		n += int64(counts[s].Load())
	}
	return n
}

// wrong returns the error of a select with a wrong number of rows.
func (c *reader) wrong(rows int, least, most int64) error {
	want := fmt.Sprint(least)
	if most > least {
		want = fmt.Sprintf("%d to %d", least, most)
	}
	asked := make([]string, len(c.values))
	for i, v := range c.values {
		switch c.find.Table.Columns[c.find.Table.Column(c.find.On[min(i, len(c.find.On)-1)])].Type {
		case engine.Float32, engine.Float64:
			asked[i] = fmt.Sprint(v.Float)
		default:
			asked[i] = fmt.Sprint(v.Int)
		}
	}
	return fmt.Errorf("%s in %s: %d rows came for %v = %v, want %s", c.operation, c.find.Table.Name, rows, c.find.On, asked, want)
}

// Recover implements bench.Client.
func (c *reader) Recover(ctx context.Context, _ error) error { return c.querier.Reset(ctx) }

// Close implements bench.Client.
func (c *reader) Close() error { return c.querier.Close() }
