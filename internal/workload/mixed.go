package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
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

// MaxMixedRows is the maximum initial number of rows: checking the results of
// selects takes a count per key, 8 bytes each.
const MaxMixedRows = 100_000_000

// MaxPoints is the maximum number of values in one select.
const MaxPoints = 1000

// A Mixed fills a table and then inserts into it and selects from it. Selects look
// for existing rows, and the number of rows found is checked: a select that finds
// too few or too many rows is an error, not a fast query.
//
// For this check, the rows sent and the rows acknowledged are counted per key of the
// secondary index. A select must find at least the rows that were acknowledged
// before it began, and at most the rows that had been sent when it ended.
type Mixed struct {
	insert *Insert
	opt    MixedOptions
	lookup lookup
	finds  map[string]*engine.Find
	stores bool
	sent   []atomic.Int32
	acked  []atomic.Int32
}

// A lookup defines how the rows of a preset are found.
type lookup struct {
	key   string // the primary key's column
	pk    []string
	index string
	on    []string
	// columns are the columns that a select by the index reads.
	columns []string
	// slots is the number of counters. exact means that each counter belongs to one
	// key; otherwise keys share counters, and only one row is certain to exist.
	slots int64
	exact bool
	// values returns the values to look for to find a row, and the row's slot.
	values func(s stream, seq int64) ([2]engine.Value, int64)
	// slot returns the slot of row i of a batch.
	slot func(b *engine.Batch, i int) int64
}

// MixedPresets returns the presets that Mixed supports.
func MixedPresets() []string { return []string{"sbtest", "classic"} }

// CheckMixed returns the error of NewMixed, but creates nothing.
func CheckMixed(db engine.DB, opt MixedOptions) error {
	_, _, _, err := checkMixed(db, opt)
	return err
}

func checkMixed(db engine.DB, opt MixedOptions) (_ MixedOptions, p preset, l lookup, err error) {
	fail := func(format string, args ...any) (MixedOptions, preset, lookup, error) {
		return opt, p, l, fmt.Errorf(format, args...)
	}
	if opt.Rows < 1 || opt.Rows > MaxMixedRows {
		return fail("%d rows to fill the table with: from 1 to %d will do", opt.Rows, MaxMixedRows)
	}
	if opt.Points < 0 || opt.Points > MaxPoints {
		return fail("%d points: from 1 to %d will do", opt.Points, MaxPoints)
	}
	// Two thirds of the keys have a row, and a select needs different keys.
	if int64(opt.Points)*2 > opt.Rows {
		return fail("%d points of %d rows: fill the table with at least twice as many rows", opt.Points, opt.Rows)
	}
	opt.Batch = max(opt.Batch, 1)
	switch opt.Preset {
	case "sbtest":
		p, l = keyedSbtest(opt.Rows)
	case "classic":
		p, l = classic(), classicLookup(opt.Rows)
	default:
		return fail("unknown preset %q; there are %s", opt.Preset, strings.Join(MixedPresets(), ", "))
	}
	if opt.Points > 0 && len(l.on) != 1 {
		return fail("points of preset %s: its index is of several columns", opt.Preset)
	}
	caps := db.Capabilities()
	if opt.Method == "" {
		opt.Method = caps.Methods[0]
	}
	if !slices.Contains(caps.Methods, opt.Method) {
		return fail("unknown insert method %q; %s has %s", opt.Method, db.Info().Engine, joinMethods(caps.Methods))
	}
	return opt, p, l, nil
}

// NewMixed checks the options. It does not access the database.
func NewMixed(db engine.DB, opt MixedOptions) (*Mixed, error) {
	opt, p, l, err := checkMixed(db, opt)
	if err != nil {
		return nil, err
	}
	if 2*opt.Rows > 1<<31 {
		widen(&p.table)
	}
	m := &Mixed{opt: opt, lookup: l, stores: db.Capabilities().Stores, sent: make([]atomic.Int32, l.slots), acked: make([]atomic.Int32, l.slots)}
	m.insert = newInsert(db, InsertOptions{Preset: opt.Preset, Layout: Plain, Seed: opt.Seed, Writers: 1, Batch: opt.Batch, Method: opt.Method}, p)
	t := &m.insert.tables[0].Table
	m.finds = map[string]*engine.Find{
		OpSelectPK:    {Table: t, Columns: l.pk, On: []string{l.key}, How: engine.Equal},
		OpSelectIndex: {Table: t, Columns: l.columns, Index: l.index, On: l.on, How: engine.Equal},
	}
	if opt.Points > 0 {
		m.finds[OpPoints] = &engine.Find{Table: t, Columns: l.columns, Index: l.index, On: l.on, How: engine.In, Points: opt.Points}
	}
	return m, nil
}

// keyedSbtest is the table of sbtest with two differences: the client sends the
// id, so that a select knows which ids exist, and k has as many values as there
// are rows.
func keyedSbtest(rows int64) (preset, lookup) {
	p := sbtest()
	keys := uint64(rows)
	p.table.ServerKey = ""
	p.fill = func(b *engine.Batch, s stream, first int64, n int) {
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
		values: func(s stream, seq int64) ([2]engine.Value, int64) {
			d := s.row(seq)
			k := d.below(keys)
			return [2]engine.Value{{Int: k + 1}}, k
		},
		slot: func(b *engine.Batch, i int) int64 { return b.Columns[1].Ints[i] - 1 },
	}
}

// classicLookup finds purchases by price and customer. These have so many
// combinations that two rows rarely share one.
func classicLookup(rows int64) lookup {
	slots := 2 * rows
	slot := func(price float64, customer int64) int64 {
		d := draws(mix(uint64(customer)) ^ uint64(price*1e4))
		return d.below(uint64(slots))
	}
	return lookup{
		key: "transactionid", index: "marketsegment", on: []string{"price", "customerid"}, slots: slots,
		values: func(s stream, seq int64) ([2]engine.Value, int64) {
			price, customer := purchase(s, seq)
			return [2]engine.Value{{Float: price}, {Int: customer}}, slot(price, customer)
		},
		slot: func(b *engine.Batch, i int) int64 { return slot(b.Columns[5].Floats[i], b.Columns[3].Ints[i]) },
	}
}

// purchase returns the values that fillClassic gives a row; it must draw in the
// same order.
func purchase(s stream, seq int64) (price float64, customer int64) {
	d := s.row(seq)
	customer = d.below(100000)
	d.next() // the register
	d.next() // the product
	return float64(float32((d.float()*500 + float64(customer)) / 100)), customer
}

// Options returns the options with the defaults filled in.
func (m *Mixed) Options() MixedOptions { return m.opt }

// Tables returns the only table, as a list.
func (m *Mixed) Tables() []*engine.Table { return m.insert.Tables() }

// Deviations describes how the workload departs from the preset's publication.
func (m *Mixed) Deviations() []string { return m.insert.Deviations() }

// Indexes returns the number of secondary indexes of the table.
func (m *Mixed) Indexes() int { return m.insert.Indexes() }

// Warnings returns the server's warnings about inserted batches.
func (m *Mixed) Warnings() []string { return m.insert.Warnings() }

// Rows returns the number of rows that the table may have: all rows that were sent.
func (m *Mixed) Rows() int64 { return m.insert.tables[0].next.Load() }

// Verify compares the table with the rows that were sent.
func (m *Mixed) Verify(ctx context.Context, progress func(rows int64)) (Proof, error) {
	return m.insert.Verify(ctx, progress)
}

// Drop drops the table.
func (m *Mixed) Drop(ctx context.Context) error { return m.insert.Drop(ctx) }

// fillBatch is the number of rows per statement of the initial fill: so many
// that the cost of the commit is negligible, and fewer than the statement limits
// of servers.
const fillBatch = 5000

// Fill recreates the table with its initial rows, and lets the server complete
// its deferred work. It returns the statements that created the schema, and
// warnings about work that the server could not complete.
func (m *Mixed) Fill(ctx context.Context, dropExisting bool, progress func(rows int64)) (schema, warnings []string, err error) {
	schema, err = m.insert.Setup(ctx, dropExisting)
	if err != nil {
		return nil, nil, err
	}
	for i := range m.sent {
		m.sent[i].Store(0)
		m.acked[i].Store(0)
	}
	db := m.insert.db
	method := m.opt.Method
	if slices.Contains(db.Capabilities().Methods, engine.Load) {
		method = engine.Load
	}
	err = m.fill(ctx, method, progress)
	if errors.Is(err, engine.ErrUnsupported) && method != m.opt.Method && m.Rows() == 0 {
		err = m.fill(ctx, m.opt.Method, progress) // the server may forbid the bulk method
	}
	if err != nil {
		return schema, nil, fmt.Errorf("fill table %s: %w", m.Tables()[0].Name, err)
	}
	warnings, err = m.Settle(ctx)
	return schema, warnings, err
}

// Settle lets the server complete the work that writes have deferred.
func (m *Mixed) Settle(ctx context.Context) ([]string, error) {
	return m.insert.db.Settle(ctx, engine.Settle{Tables: m.Tables()})
}

func (m *Mixed) fill(ctx context.Context, method engine.Method, progress func(rows int64)) (err error) {
	t := m.insert.tables[0]
	writer, err := m.insert.db.Writer(ctx, &t.Table, method)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	b := engine.NewBatch(t.Inserted())
	for from := int64(0); from < m.opt.Rows; {
		n := int(min(fillBatch, m.opt.Rows-from))
		b.Reset()
		m.insert.preset.fill(b, t.stream, from, n)
		ack, err := writer.Write(ctx, b)
		if err != nil {
			return err
		}
		if ack.Rows != int64(n) {
			return fmt.Errorf("the server acknowledged %s of %d", figure.Plural(ack.Rows, "row", "rows"), n)
		}
		m.count(m.sent, b)
		m.count(m.acked, b)
		from += int64(n)
		t.next.Store(from)
		progress(from)
	}
	return nil
}

// count adds the rows of a batch to the counts per key.
func (m *Mixed) count(counts []atomic.Int32, b *engine.Batch) {
	for i := range b.Rows() {
		counts[m.lookup.slot(b, i)].Add(1)
	}
}
