package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rowmill/rowmill/engine"
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

// MixedOperations lists those of `bench mixed`.
func MixedOperations() []string { return []string{OpInsert, OpSelectPK, OpSelectIndex, OpMixed} }

// MixedOptions say what a Mixed workload works on.
type MixedOptions struct {
	Preset string // one of MixedPresets
	Seed   uint64
	// Rows is how many the table is filled with; selects ask for these.
	Rows int64
	// Batch is the rows of one insert; 0 is 1.
	Batch int
	// Method of the measured inserts; empty is the engine's default.
	Method engine.Method
	// Points is how many values a select of OpPoints asks for; 0 is none.
	Points int
}

// MaxMixedRows bounds the rows that a table is filled with: who checks what
// selects find counts the rows of each key, in 8 bytes.
const MaxMixedRows = 100_000_000

// MaxPoints bounds the values of one select.
const MaxPoints = 1000

// A Mixed fills a table and then inserts into it and selects from it. Each
// select asks for rows that are there, and how many come is checked: a select
// that finds too few or too many is an error, and no fast query.
//
// For that the rows are counted by the key of the secondary index: those that
// were sent, and those that were acknowledged. A select must find at least what
// had been acknowledged before it began, and at most what had been sent when it
// ended.
type Mixed struct {
	insert *Insert
	opt    MixedOptions
	lookup lookup
	finds  map[string]*engine.Find
	stores bool
	sent   []atomic.Int32
	acked  []atomic.Int32
}

// A lookup is how the rows of a preset are found.
type lookup struct {
	key   string // the primary key's column
	pk    []string
	index string
	on    []string
	// columns that a select of the index reads.
	columns []string
	// slots is how many counts there are, and exact whether each is of one key;
	// otherwise keys share them, and only one row is sure to be there.
	slots int64
	exact bool
	// values returns those of a row that is looked for, and its slot.
	values func(s stream, seq int64) ([2]engine.Value, int64)
	// slot is that of row i of a batch.
	slot func(b *engine.Batch, i int) int64
}

// MixedPresets lists the presets that a Mixed works on.
func MixedPresets() []string { return []string{"sbtest", "classic"} }

// CheckMixed says what NewMixed would refuse, and makes nothing.
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
	// Two thirds of the keys have a row, and a select asks for different ones.
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

// NewMixed checks the options. It asks nothing of the database.
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

// keyedSbtest is the table of sbtest with an id that the client sends, so that
// a select knows which are there, and as many values of k as rows.
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

// classicLookup finds purchases by price and customer, of which there are so
// many different ones that hardly two rows have the same.
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

// purchase returns what fillClassic gives a row, in its order of draws.
func purchase(s stream, seq int64) (price float64, customer int64) {
	d := s.row(seq)
	customer = d.below(100000)
	d.next() // the register
	d.next() // the product
	return float64(float32((d.float()*500 + float64(customer)) / 100)), customer
}

// Options returns the options with all defaults filled in.
func (m *Mixed) Options() MixedOptions { return m.opt }

// Tables returns the one table.
func (m *Mixed) Tables() []*engine.Table { return m.insert.Tables() }

// Deviations says where the workload departs from the preset's publication.
func (m *Mixed) Deviations() []string { return m.insert.Deviations() }

// Indexes returns how many secondary indexes the table has.
func (m *Mixed) Indexes() int { return m.insert.Indexes() }

// Warnings returns what the server said of inserted batches.
func (m *Mixed) Warnings() []string { return m.insert.Warnings() }

// Rows returns how many rows the table has, or may have.
func (m *Mixed) Rows() int64 { return m.insert.tables[0].next.Load() }

// Verify compares the table with the rows that were sent.
func (m *Mixed) Verify(ctx context.Context, progress func(rows int64)) (Proof, error) {
	return m.insert.Verify(ctx, progress)
}

// Drop drops the table.
func (m *Mixed) Drop(ctx context.Context) error { return m.insert.Drop(ctx) }

// fillBatch is how many rows one statement fills the table with: enough that
// the commit doesn't count, and below what servers limit a statement to.
const fillBatch = 5000

// Fill makes the table anew, with its first rows, and has the server finish
// what that left it to do. It returns the statements that made the schema, and
// what the server couldn't finish.
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
		err = m.fill(ctx, m.opt.Method, progress) // a server may forbid it
	}
	if err != nil {
		return schema, nil, fmt.Errorf("fill table %s: %w", m.Tables()[0].Name, err)
	}
	warnings, err = m.Settle(ctx)
	return schema, warnings, err
}

// Settle has the server finish what writes have left it to do.
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

// count adds the rows of a batch to the counts by key.
func (m *Mixed) count(counts []atomic.Int32, b *engine.Batch) {
	for i := range b.Rows() {
		counts[m.lookup.slot(b, i)].Add(1)
	}
}
