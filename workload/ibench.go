package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/bench"
	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// The steps of the modern insert benchmark, in order. Those after settle ask
// queries by ranges of the indexes (qr) or by primary keys (qp) while each
// client inserts so many rows per second and as many are deleted.
var ibenchSteps = []string{"l.i0", "l.x", "l.i1", "l.i2", "settle", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"}

// IbenchSteps lists them.
func IbenchSteps() []string { return slices.Clone(ibenchSteps) }

// Rows of one transaction in the steps. The publication doesn't give those of
// the query steps; they are as in l.i1.
const (
	batchI0    = 100
	batchI1    = 50
	batchI2    = 5
	batchQuery = 50
)

// leastClient is how many rows a client has at least: clients deal the rows out
// among themselves, and with few of them a table might stay empty.
const leastClient = 5000

// The published rows of the steps are 30 million, 40 million and 10 million.
const (
	partsI0 = 30
	partsI1 = 40
	partsI2 = 10
)

// PublishedQueryTime is how long a query step lasts as published.
const PublishedQueryTime = 30 * time.Minute

// IbenchOptions say how to run the modern insert benchmark. A field's zero
// value is the default, but Rows and QueryTime have none.
type IbenchOptions struct {
	Seed uint64
	// Rows, RowsI1 and RowsI2 are those of l.i0, l.i1 and l.i2, of all clients
	// together. 0 for the latter two is in proportion to Rows, as published.
	Rows, RowsI1, RowsI2 int64
	// Clients insert, as many delete, and as many ask queries.
	Clients     int
	SharedTable bool // instead of one for each client
	Method      engine.Method
	// QueryTime is how long each query step lasts.
	QueryTime time.Duration
	// Steps are those to run, in the benchmark's order; nil is all of them.
	Steps []string
}

// An Ibench is the modern insert benchmark on one database.
type Ibench struct {
	*Insert
	opt IbenchOptions
	// indexes are built by l.x; a table that exists has them already.
	indexes []engine.Index
	built   []int   // indexes of each table that l.x has built
	keep    []int64 // rows of each table that deletes leave; nil before the first such step
}

// A Step is one step of the benchmark.
type Step struct {
	Name string
	// Rows and Time end it; one of them is 0. Batch is the rows of one
	// transaction.
	Rows  int64
	Batch int
	Time  time.Duration
	// Rate is what all clients together are to insert, in rows per second; 0
	// is as fast as it goes.
	Rate float64
	// Deletes tells that the oldest rows are deleted at the rate of the
	// inserts, Query which queries are asked meanwhile: "", "qr" or "qp".
	Deletes bool
	Query   string
	number  int // among all steps
}

// Loads tells that the step inserts rows, and is not l.x or settle.
func (s *Step) Loads() bool { return s.Batch > 0 }

// NewIbench checks the options and completes them. It asks nothing of the
// database.
func NewIbench(db engine.DB, opt IbenchOptions) (*Ibench, error) {
	if !db.Capabilities().Stores {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("the %s engine stores nothing that could be indexed, deleted or queried", db.Info().Engine))
	}
	if opt.Steps == nil {
		opt.Steps = IbenchSteps()
	}
	opt.Clients = max(opt.Clients, 1)
	if opt.RowsI1 == 0 {
		opt.RowsI1 = opt.Rows * partsI1 / partsI0
	}
	if opt.RowsI2 == 0 {
		opt.RowsI2 = opt.Rows * partsI2 / partsI0
	}
	if least := int64(opt.Clients * leastClient); opt.Rows < least || opt.RowsI1 < 1 || opt.RowsI2 < 1 {
		return nil, fmt.Errorf("%d rows, then %d and %d: want at least %d for %s, and some in each step",
			opt.Rows, opt.RowsI1, opt.RowsI2, least, figure.Plural(opt.Clients, "client", "clients"))
	}
	last := -1
	for _, name := range opt.Steps {
		i := slices.Index(ibenchSteps, name)
		if i < 0 {
			return nil, fmt.Errorf("unknown step %q; there are %s", name, strings.Join(ibenchSteps, ", "))
		}
		if i <= last {
			return nil, fmt.Errorf("step %s comes after %s; the order is %s", ibenchSteps[last], name, strings.Join(ibenchSteps, ", "))
		}
		last = i
		if i >= slices.Index(ibenchSteps, "qr100") && opt.QueryTime <= 0 {
			return nil, fmt.Errorf("step %s of %v: want some time", name, opt.QueryTime)
		}
	}
	perWriter := !opt.SharedTable
	none := 0
	w, err := NewInsert(db, InsertOptions{
		Preset: "ibench", Layout: Plain, Seed: opt.Seed, Writers: opt.Clients, Batch: batchI0, Method: opt.Method,
		Indexes: &none, TablePerWriter: &perWriter,
	})
	if err != nil {
		return nil, err
	}
	full, err := findPreset("ibench")
	if err != nil {
		return nil, err
	}
	b := &Ibench{Insert: w, opt: opt, indexes: full.table.Indexes}
	for _, t := range w.tables {
		t.tail.followed = true
		// Whatever is not built here is there already.
		if i, x := slices.Index(opt.Steps, "l.i0"), slices.Index(opt.Steps, "l.x"); i < 0 && x < 0 {
			t.Indexes = b.indexes
		}
	}
	return b, b.checkIndexes()
}

// checkIndexes refuses query steps on a table that gets no indexes.
func (b *Ibench) checkIndexes() error {
	if slices.Contains(b.opt.Steps, "l.i0") && !slices.Contains(b.opt.Steps, "l.x") {
		for _, name := range b.opt.Steps {
			if strings.HasPrefix(name, "qr") {
				return engine.Hinted(fmt.Errorf("step %s asks by the indexes that l.x builds, which isn't among the steps", name), "--steps with l.x")
			}
		}
	}
	return nil
}

// Creates tells that the steps begin with empty tables; otherwise they go on
// with those that an earlier run has left.
func (b *Ibench) Creates() bool { return slices.Contains(b.opt.Steps, "l.i0") }

// IbenchOptions returns the options with all defaults filled in.
func (b *Ibench) IbenchOptions() IbenchOptions { return b.opt }

// Deviations says where the benchmark departs from its publication.
func (b *Ibench) Deviations() []string {
	out := slices.Clone(b.preset.deviations[:2]) // of the clock and the keys
	out = append(out,
		"rows are those of all clients together, dealt out as they ask for them; published: a fixed number for each client",
		fmt.Sprintf("query steps insert %d rows in a transaction; published: not said", batchQuery))
	if b.opt.QueryTime != PublishedQueryTime {
		out = append(out, fmt.Sprintf("query steps last %v; published: %v", b.opt.QueryTime, PublishedQueryTime))
	}
	return out
}

// IndexesNow returns how many secondary indexes each table has.
func (b *Ibench) IndexesNow() int { return len(b.tables[0].Indexes) }

// Steps returns the steps to run.
func (b *Ibench) Steps() []Step {
	var out []Step
	for _, name := range b.opt.Steps {
		s := Step{Name: name, number: slices.Index(ibenchSteps, name)}
		switch name {
		case "l.i0":
			s.Rows, s.Batch = b.opt.Rows, batchI0
		case "l.i1":
			s.Rows, s.Batch, s.Deletes = b.opt.RowsI1, batchI1, true
		case "l.i2":
			s.Rows, s.Batch, s.Deletes = b.opt.RowsI2, batchI2, true
		case "l.x", "settle":
		default:
			perClient := 0.0
			if _, err := fmt.Sscanf(name[2:], "%g", &perClient); err != nil {
				panic(fmt.Sprintf("workload: step %q names no rate", name))
			}
			s.Query, s.Batch, s.Deletes, s.Time = name[:2], batchQuery, true, b.opt.QueryTime
			s.Rate = perClient * float64(b.opt.Clients)
		}
		out = append(out, s)
	}
	return out
}

// Begin prepares the tables for a step: deletes keep those rows that the first
// of their steps finds. It returns what runs the step, and how.
func (b *Ibench) Begin(s Step) (bench.Workload, bench.Config, error) {
	b.Insert.opt.Batch = s.Batch
	switch s.Name {
	case "l.x":
		return b.buildIndexes(), bench.Config{Operation: "index", Clients: len(b.tables), Batch: 1, Rows: int64(len(b.tables)), Grace: choreGrace}, nil
	case "settle":
		return b.settle(), bench.Config{Operation: "settle", Clients: 1, Batch: 1, Rows: 1, Grace: choreGrace}, nil
	}
	cfg := bench.Config{Operation: "insert", Clients: b.opt.Clients, Batch: s.Batch, Rows: s.Rows, MaxTime: s.Time, Rate: s.Rate}
	if s.Deletes && b.keep == nil {
		for _, t := range b.tables {
			b.keep = append(b.keep, t.held())
		}
	}
	for i, t := range b.tables {
		t.trim()
		t.tail.keep = 0
		if s.Deletes {
			if err := t.keepRows(b.keep[i], s.Batch, b.perTable()); err != nil {
				return nil, cfg, err
			}
		}
	}
	if s.Deletes {
		cfg.Beside = append(cfg.Beside, b.deletes(s.Batch))
	}
	if s.Query != "" {
		queries := ibenchRanges
		if s.Query == "qp" {
			queries = ibenchPoints
		}
		cfg.Beside = append(cfg.Beside, bench.Load{Operation: opQuery, Clients: b.opt.Clients, Batch: 1,
			Client: func(ctx context.Context, n int) (bench.Client, error) {
				return b.newAsker(ctx, n, s.number, queries, false)
			}})
	}
	return b.Insert, cfg, nil
}

// End notes what a step has done, once its run is over.
func (b *Ibench) End() {
	for i, n := range b.built {
		b.tables[i].Indexes = b.indexes[:n]
	}
	b.built = nil
}

// KeepRows returns how many rows deletes leave in all tables; 0 before a step
// that deletes.
func (b *Ibench) KeepRows() int64 {
	var n int64
	for _, k := range b.keep {
		n += k
	}
	return n
}

// Continue goes on with tables that an earlier run has left: it finds out which
// rows they hold, by a few dozen queries of the primary key each.
func (b *Ibench) Continue(ctx context.Context) (err error) {
	q, err := b.db.Querier(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	for _, t := range b.tables {
		exists, err := b.db.Catalog().Exists(ctx, &t.Table)
		if err != nil {
			return err
		}
		if !exists {
			return engine.Hinted(fmt.Errorf("table %s is not there to go on with in %s", t.Name, b.db.Info().Target), "all steps from l.i0 on")
		}
		if err := b.goOn(ctx, q, t); err != nil {
			return fmt.Errorf("go on with table %s: %w", t.Name, err)
		}
	}
	if len(b.tables[0].Indexes) == 0 {
		return nil
	}
	size, err := b.Sizes(ctx)
	if err == nil && size.Index == 0 && size.Data > 0 {
		err = engine.Hinted(fmt.Errorf("table %s has no secondary indexes", b.tables[0].Name), "--steps with l.x before the others")
	}
	return err
}

// maxKey is larger than any key that a run can reach.
const maxKey = 1 << 50

// goOn finds the range of a table's keys and takes up its sequence.
func (b *Ibench) goOn(ctx context.Context, q engine.Querier, t *table) error {
	key := t.PrimaryKey[0]
	from := &engine.Find{Table: &t.Table, Columns: []string{key}, On: []string{key}, How: engine.AtLeast, Order: []string{key}, Limit: 1}
	is := &engine.Find{Table: &t.Table, Columns: []string{key}, On: []string{key}, How: engine.Equal}
	has := func(f *engine.Find) func(int64) (bool, error) {
		return func(k int64) (bool, error) {
			n, err := q.Find(ctx, f, []engine.Value{{Int: k}})
			return n > 0, err
		}
	}
	// The first key from which on there is none, and the first that is there.
	end, err := firstKey(1, maxKey, func(k int64) (bool, error) { ok, err := has(from)(k); return !ok, err })
	if err != nil {
		return err
	}
	if end == 1 {
		return engine.Hinted(errors.New("it is empty"), "all steps from l.i0 on")
	}
	begin, err := firstKey(1, end-1, has(is))
	if err != nil {
		return err
	}
	// The newest row is enough to know another seed, or another table, by.
	row := engine.NewBatch(t.Columns)
	b.preset.fill(row, t.stream, end-2, 1)
	same := &engine.Find{Table: &t.Table, Columns: []string{key}, How: engine.Equal}
	var values []engine.Value
	for i, c := range t.Columns {
		if c.Type == engine.Int32 || c.Type == engine.Int64 {
			same.On = append(same.On, c.Name)
			values = append(values, engine.Value{Int: row.Columns[i].Ints[0]})
		}
	}
	n, err := q.Find(ctx, same, values)
	if err != nil {
		return err
	}
	if n != 1 {
		return engine.Hinted(fmt.Errorf("its row %d is not what seed %d gives", end-1, b.opt.Seed), "the --seed and --clients that it was filled with")
	}
	t.next.Store(end - 1)
	t.tail.inserted.Store(end - begin)
	t.tail.gone.Store(begin - 1)
	t.tail.going.Store(begin - 1)
	return nil
}

// firstKey returns the first key in [from, to) for which is holds, and to where
// it holds for none; it holds for every one after the first.
func firstKey(from, to int64, is func(int64) (bool, error)) (int64, error) {
	for from < to {
		middle := from + (to-from)/2
		ok, err := is(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return from, nil
}
