package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/workload/draw"
)

// Operations of a Mixed workload.
const (
	OpInsert      = "insert"
	OpSelectPK    = "select-pk"    // one row by its primary key
	OpSelectIndex = "select-index" // the rows of one value of a secondary index
	OpMixed       = "mixed"        // inserts, and selects by primary key beside them
	OpPoints      = "points"       // the rows of several values of a secondary index
)

// MixedOperations returns the operations of `bench mixed`.
func MixedOperations() []string { return []string{OpInsert, OpSelectPK, OpSelectIndex, OpMixed} }

// MixedOptions are the parameters of a Mixed workload.
type MixedOptions struct {
	Preset string // one of MixedPresets
	Seed   uint64
	// Rows is the initial number of rows in the table; selects look for these rows.
	Rows int64
	// Batch is the number of rows per insert; 0 is 1.
	Batch int
	// Method is the method of the measured inserts; empty is the engine's default.
	Method engine.Method
	// Points is the number of values in a select of OpPoints; 0 is none.
	Points int
}

// MaxMixedRows is the maximum initial number of rows: checking the results of selects takes 8 bytes
// per key.
const MaxMixedRows = 100_000_000

// MaxPoints is the maximum number of values in one select.
const MaxPoints = 1000

// A Mixed fills a table and then inserts into it and selects from it. A select that finds too few
// or too many rows is an error. To check this, the rows sent and the rows acknowledged are counted
// per key of the secondary index: a select must find at least the rows acknowledged before it
// began, and at most the rows sent before it ended.
type Mixed struct {
	*Insert
	opt    MixedOptions
	lookup lookup
	finds  map[string]*engine.Find
	stores bool
	sent   []atomic.Int32
	acked  []atomic.Int32
}

// A lookup says how selects find the rows of a preset.
type lookup struct {
	key   string // the primary key's column
	pk    []string
	index string
	on    []string
	// columns are the columns that a select by the index reads.
	columns []string
	// slots is the number of counters in Mixed.sent. exact means that each counter belongs to one key.
	// Otherwise several keys share a counter, and the least number of rows that a select must find is
	// one per value.
	slots int64
	exact bool
	// values returns the values by which a select finds a row, and the row's slot.
	values func(s draw.Stream, seq int64) ([2]engine.Value, int64)
	// slot returns the slot of row i of a batch.
	slot func(b *engine.Batch, i int) int64
}

// MixedPresets returns the presets that Mixed supports.
func MixedPresets() []string { return []string{"sbtest", "classic"} }

// NewMixed checks the options. It does not access the database.
func NewMixed(db engine.DB, opt MixedOptions) (*Mixed, error) {
	switch {
	case opt.Rows < 1 || opt.Rows > MaxMixedRows:
		return nil, fmt.Errorf("%d rows to fill the table with: want 1 to %d", opt.Rows, MaxMixedRows)
	case opt.Points < 0 || opt.Points > MaxPoints:
		return nil, fmt.Errorf("%d points: want 1 to %d", opt.Points, MaxPoints)
	case int64(opt.Points)*2 > opt.Rows: // two thirds of the keys have a row, and a select needs different keys
		return nil, fmt.Errorf("%d points of %d rows: fill the table with at least twice as many rows", opt.Points, opt.Rows)
	}
	var p preset
	var l lookup
	switch opt.Preset {
	case "sbtest":
		p, l = keyedSbtest(opt.Rows)
	case "classic":
		p, l = classic(), classicLookup(opt.Rows)
	default:
		return nil, fmt.Errorf("unknown preset %q; there are %s", opt.Preset, strings.Join(MixedPresets(), ", "))
	}
	if opt.Points > 0 && len(l.on) != 1 {
		return nil, fmt.Errorf("points of preset %s: its index is on several columns", opt.Preset)
	}
	opt.Batch = max(opt.Batch, 1)
	var err error
	if opt.Method, err = chooseMethod(db, opt.Method); err != nil {
		return nil, err
	}
	if 2*opt.Rows > 1<<31 {
		widen(&p.table)
	}
	m := &Mixed{opt: opt, lookup: l, stores: db.Capabilities().Stores}
	m.Insert = newInsert(db, InsertOptions{Preset: opt.Preset, Layout: Plain, Seed: opt.Seed, Writers: 1, Batch: opt.Batch, Method: opt.Method}, p)
	t := &m.tables[0].Table
	m.finds = map[string]*engine.Find{
		OpSelectPK:    {Table: t, Columns: l.pk, On: []string{l.key}, How: engine.Equal},
		OpSelectIndex: {Table: t, Columns: l.columns, Index: l.index, On: l.on, How: engine.Equal},
	}
	if opt.Points > 0 {
		m.finds[OpPoints] = &engine.Find{Table: t, Columns: l.columns, Index: l.index, On: l.on, How: engine.In, Points: opt.Points}
	}
	return m, nil
}

// keyedSbtest is the table of sbtest with two differences: the client sends the id, so that a
// select knows which ids exist, and k has as many values as there are rows.
func keyedSbtest(rows int64) (preset, lookup) {
	p := sbtest()
	keys := uint64(rows)
	p.table.ServerKey = ""
	p.fill = func(b *engine.Batch, s draw.Stream, first int64, n int) {
		for seq := first; seq < first+int64(n); seq++ {
			b.Columns[0].Ints = append(b.Columns[0].Ints, seq+1)
		}
		rest := engine.Batch{Columns: b.Columns[1:]}
		fillSbtestKeys(&rest, s, first, n, keys)
		b.EndRows(n)
	}
	p.deviations = []string{
		"k is uniform in 1..rows, as sysbench prepares it with --rand-type=uniform",
		"id is sent by the client, ascending, so that every row that is selected is known to be there; sysbench leaves it to the server",
	}
	return p, lookup{
		key: "id", pk: []string{"c"}, index: "k_1", on: []string{"k"}, columns: []string{"id", "k", "c", "pad"},
		slots: rows, exact: true,
		values: func(s draw.Stream, seq int64) ([2]engine.Value, int64) {
			d := s.Row(seq)
			k := d.Below(keys)
			return [2]engine.Value{{Int: k + 1}}, k
		},
		slot: func(b *engine.Batch, i int) int64 { return b.Columns[1].Ints[i] - 1 },
	}
}

// classicLookup finds purchases by price and customer. Price and customer have so many combinations
// that two rows rarely share one.
func classicLookup(rows int64) lookup {
	slots := 2 * rows
	slot := func(price float64, customer int64) int64 {
		d := draw.Values(draw.Mix(uint64(customer)) ^ uint64(price*1e4))
		return d.Below(uint64(slots))
	}
	return lookup{
		key: "transactionid", index: "marketsegment", on: []string{"price", "customerid"}, slots: slots,
		values: func(s draw.Stream, seq int64) ([2]engine.Value, int64) {
			price, customer := purchase(s, seq)
			return [2]engine.Value{{Float: price}, {Int: customer}}, slot(price, customer)
		},
		slot: func(b *engine.Batch, i int) int64 { return slot(b.Columns[5].Floats[i], b.Columns[3].Ints[i]) },
	}
}

// purchase returns the values that fillClassic gives a row; it must draw in the same order.
func purchase(s draw.Stream, seq int64) (price float64, customer int64) {
	d := s.Row(seq)
	customer = d.Below(100000)
	d.Next() // the register
	d.Next() // the product
	return float64(float32(classicPrice(&d, customer))), customer
}

// Rows returns the number of rows that the table may have: all rows that were sent.
func (m *Mixed) Rows() int64 { return m.tables[0].next.Load() }

// fillBatch is the number of rows per statement of the initial fill: so many that the commit costs
// next to nothing, and so few that no server's limit on statements is exceeded.
const fillBatch = 5000

// Fill recreates the table with its initial rows. It returns the statements that created the
// schema.
func (m *Mixed) Fill(ctx context.Context, dropExisting bool, progress func(rows int64)) (schema []string, err error) {
	if schema, err = m.Setup(ctx, dropExisting); err != nil {
		return nil, err
	}
	if m.sent == nil {
		m.sent, m.acked = make([]atomic.Int32, m.lookup.slots), make([]atomic.Int32, m.lookup.slots)
	}
	for i := range m.sent { // counts of the last fill; new ones would take up to hundreds of megabytes
		m.sent[i].Store(0)
		m.acked[i].Store(0)
	}
	t := m.tables[0]
	load := transfer{into: &t.Table, stream: t.stream, rows: span{0, m.opt.Rows}, batch: fillBatch, method: m.opt.Method,
		done: func(b *engine.Batch, next int64) {
			m.count(m.sent, b)
			m.count(m.acked, b)
			t.next.Store(next)
			progress(next)
		}}
	if err := m.loadFast(ctx, load); err != nil {
		return schema, fmt.Errorf("fill table %s: %w", t.Name, err)
	}
	return schema, nil
}

// loadFast loads rows into the workload's first table by method engine.Load if the server has it.
// If the server refuses this method for the table, loadFast uses the method of t.
func (w *Insert) loadFast(ctx context.Context, t transfer) error {
	usual := t.method
	if slices.Contains(w.db.Capabilities().Methods, engine.Load) {
		t.method = engine.Load
	}
	err := w.load(ctx, t)
	if errors.Is(err, engine.ErrUnsupported) && t.method != usual && w.tables[0].next.Load() == 0 {
		t.method = usual
		err = w.load(ctx, t)
	}
	return err
}

func (m *Mixed) count(counts []atomic.Int32, b *engine.Batch) {
	for i := range b.Rows() {
		counts[m.lookup.slot(b, i)].Add(1)
	}
}

// Clients creates the clients of one operation. It is a bench.Workload.
type Clients func(ctx context.Context, n int) (bench.Client, error)

// Client implements bench.Workload.
func (c Clients) Client(ctx context.Context, n int) (bench.Client, error) { return c(ctx, n) }

// Background implements bench.Workload; there is no work beside the clients.
func (c Clients) Background(context.Context, func(what, object string, began time.Time)) error {
	return nil
}

// Clients returns the clients of an operation other than OpMixed. turn is the number of the
// measurement: the seed and turn determine which rows the selects look for. Measurements that are
// compared must have the same seed and turn.
func (m *Mixed) Clients(operation string, turn int) (Clients, error) {
	if operation == OpInsert {
		return m.inserter, nil
	}
	f := m.finds[operation]
	if f == nil {
		return nil, fmt.Errorf("unknown operation %q", operation)
	}
	return func(ctx context.Context, n int) (bench.Client, error) {
		q, err := m.db.Querier(ctx)
		if err != nil {
			return nil, err
		}
		// Writers and readers use different streams: the writers' numbers are small.
		source := draw.NewStream(m.opt.Seed, firstReader+n)
		return &reader{m: m, operation: operation, find: f, querier: q, random: source.Row(int64(turn)),
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
	c, err := m.Client(ctx, n)
	if err != nil {
		return nil, err
	}
	return &inserter{c.(*client), m}, nil
}

func (c *inserter) Prepare(rows int) {
	c.client.Prepare(rows)
	c.m.count(c.m.sent, c.batch)
}

func (c *inserter) Do(ctx context.Context) error {
	err := c.client.Do(ctx)
	if err == nil {
		c.m.count(c.m.acked, c.batch)
	}
	return err
}

type reader struct {
	m         *Mixed
	operation string
	find      *engine.Find
	querier   engine.Querier
	random    draw.Values
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
	stream, on := c.m.tables[0].stream, len(c.find.On)
	for len(c.slots) < max(c.find.Points, 1) {
		v, slot := c.m.lookup.values(stream, c.draw())
		if slices.Contains(c.slots, slot) {
			continue // a duplicate value would find its rows only once
		}
		c.slots, c.values = append(c.slots, slot), append(c.values, v[:on]...)
	}
}

func (c *reader) draw() int64 { return c.random.Below(uint64(c.m.opt.Rows)) }

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
		return fmt.Errorf("%s in %s: %d rows returned for %v = %v, want %s", c.operation, c.find.Table.Name, rows, c.find.On, c.values, between(least, most))
	}
	return nil
}

// sum adds up the counts of the keys that a select looks for; a primary key has one row.
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

func (c *reader) Recover(ctx context.Context, _ error) error { return c.querier.Reset(ctx) }

func (c *reader) Close() error { return c.querier.Close() }
