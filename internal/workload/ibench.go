package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// Rows per transaction in the steps. The publication does not state the number for the query steps;
// here it is the number of l.i1.
const (
	batchI0    = 100
	batchI1    = 50
	batchI2    = 5
	batchQuery = 50
)

// ibenchSteps are the steps of the modern insert benchmark, in order. In the steps after settle,
// each client inserts Rate rows per second, and the same number of rows is deleted. Meanwhile other
// clients query by ranges of the indexes (qr) or by primary keys (qp).
var ibenchSteps = []Step{
	{Name: "l.i0", Batch: batchI0},
	{Name: "l.x"},
	{Name: "l.i1", Batch: batchI1, Deletes: true},
	{Name: "l.i2", Batch: batchI2, Deletes: true},
	{Name: "settle"},
	{Name: "qr100", Batch: batchQuery, Deletes: true, Query: "qr", Rate: 100},
	{Name: "qp100", Batch: batchQuery, Deletes: true, Query: "qp", Rate: 100},
	{Name: "qr500", Batch: batchQuery, Deletes: true, Query: "qr", Rate: 500},
	{Name: "qp500", Batch: batchQuery, Deletes: true, Query: "qp", Rate: 500},
	{Name: "qr1000", Batch: batchQuery, Deletes: true, Query: "qr", Rate: 1000},
	{Name: "qp1000", Batch: batchQuery, Deletes: true, Query: "qp", Rate: 1000},
}

// IbenchSteps returns the names of the steps, in order.
func IbenchSteps() []string {
	var names []string
	for _, s := range ibenchSteps {
		names = append(names, s.Name)
	}
	return names
}

// leastClient is the minimum number of rows per client: each client takes the next batch when it is
// free, and with few rows a client's table could stay empty.
const leastClient = 5000

// The published numbers of rows of l.i0, l.i1 and l.i2: 30 million, 40 million and 10 million.
const (
	partsI0 = 30
	partsI1 = 40
	partsI2 = 10
)

// ibenchQueries are the queries of a step, by kind.
var ibenchQueries = map[string]func(*engine.Table) []query{"qr": ibenchRanges, "qp": ibenchPoints}

// PublishedQueryTime is the published duration of a query step.
const PublishedQueryTime = 30 * time.Minute

// IbenchOptions are the parameters of the modern insert benchmark. The zero
// value of a field is its default, except that Rows and QueryTime are required.
type IbenchOptions struct {
	Seed uint64
	// Rows, RowsI1 and RowsI2 are the rows of l.i0, l.i1 and l.i2, of all clients
	// together. If RowsI1 or RowsI2 is 0, it is proportional to Rows, as published.
	Rows, RowsI1, RowsI2 int64
	// Clients clients insert, and as many query. Each table has one further client, which deletes.
	Clients     int
	SharedTable bool // instead of one for each client
	Method      engine.Method
	// QueryTime is the duration of each query step.
	QueryTime time.Duration
	// Steps are the steps to run, in the benchmark's order; nil is all of them.
	Steps []string
}

// An Ibench is the modern insert benchmark on one database.
type Ibench struct {
	*Insert
	opt IbenchOptions
	// indexes are built by l.x; an existing table already has them.
	indexes []engine.Index
	built   []int   // number of indexes that l.x has built on each table
	keep    []int64 // number of rows that deletes leave in each table; nil before the first step with deletes
}

// A Step is one step of the benchmark.
type Step struct {
	Name string
	// Rows or Time ends the step; the other one is 0. Batch is the number of rows per transaction.
	Rows  int64
	Batch int
	Time  time.Duration
	// Rate is the insert rate of all clients together, in rows per second; 0 is unlimited.
	Rate float64
	// Deletes means that the oldest rows are deleted at the rate of the inserts.
	// Query is the kind of queries that run at the same time: "", "qr" or "qp".
	Deletes bool
	Query   string
	number  int // among all steps
}

// NewIbench checks the options and fills in defaults. It does not access the database.
func NewIbench(db engine.DB, opt IbenchOptions) (*Ibench, error) {
	if !db.Capabilities().Stores {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("the %s engine stores nothing that could be indexed, deleted or queried", db.Info().Engine))
	}
	if opt.Steps == nil {
		opt.Steps = IbenchSteps()
	}
	opt.Clients = max(opt.Clients, 1)
	opt.RowsI1, opt.RowsI2 = cmp.Or(opt.RowsI1, opt.Rows*partsI1/partsI0), cmp.Or(opt.RowsI2, opt.Rows*partsI2/partsI0)
	if least := int64(opt.Clients * leastClient); opt.Rows < least || opt.RowsI1 < 1 || opt.RowsI2 < 1 {
		return nil, fmt.Errorf("%d rows, then %d and %d: want at least %d for %s, and some in each step",
			opt.Rows, opt.RowsI1, opt.RowsI2, least, figure.Plural(opt.Clients, "client", "clients"))
	}
	last, names := -1, IbenchSteps()
	for _, name := range opt.Steps {
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return nil, fmt.Errorf("unknown step %q; there are %s", name, strings.Join(names, ", "))
		case i <= last:
			return nil, fmt.Errorf("step %s comes after %s; the order is %s", names[last], name, strings.Join(names, ", "))
		case ibenchSteps[i].Query != "" && opt.QueryTime <= 0:
			return nil, fmt.Errorf("step %s of %v: want some time", name, opt.QueryTime)
		}
		last = i
	}
	perWriter, none := !opt.SharedTable, 0
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
		// Tables and indexes that these steps do not create must exist.
		if i, x := slices.Index(opt.Steps, "l.i0"), slices.Index(opt.Steps, "l.x"); i < 0 && x < 0 {
			t.Indexes = b.indexes
		}
	}
	for _, s := range b.Steps() {
		if s.Query == "qr" && b.Creates() && !slices.Contains(opt.Steps, "l.x") {
			return nil, engine.Hinted(fmt.Errorf("step %s queries by the indexes that l.x builds, and l.x isn't among the steps", s.Name), "--steps with l.x")
		}
	}
	return b, nil
}

// Creates reports whether the steps begin with empty tables; otherwise they continue with the
// tables of an earlier run.
func (b *Ibench) Creates() bool { return slices.Contains(b.opt.Steps, "l.i0") }

// Deviations describes how the benchmark departs from its publication.
func (b *Ibench) Deviations() []string {
	out := slices.Clone(b.preset.deviations[:2]) // about the clock and the keys
	out = append(out,
		"rows are those of all clients together, dealt out as they ask for them; published: a fixed number for each client",
		fmt.Sprintf("query steps insert %d rows in a transaction; published: not said", batchQuery))
	if b.opt.QueryTime != PublishedQueryTime {
		out = append(out, fmt.Sprintf("query steps last %v; published: %v", b.opt.QueryTime, PublishedQueryTime))
	}
	return out
}

// IndexesNow returns the current number of secondary indexes per table.
func (b *Ibench) IndexesNow() int { return len(b.tables[0].Indexes) }

// Steps returns the steps to run.
func (b *Ibench) Steps() []Step {
	var out []Step
	rows := map[string]int64{"l.i0": b.opt.Rows, "l.i1": b.opt.RowsI1, "l.i2": b.opt.RowsI2}
	for i, s := range ibenchSteps {
		if !slices.Contains(b.opt.Steps, s.Name) {
			continue
		}
		s.number, s.Rows = i, rows[s.Name]
		if s.Query != "" {
			s.Time = b.opt.QueryTime
		}
		s.Rate *= float64(b.opt.Clients)
		out = append(out, s)
	}
	return out
}

// Begin prepares the tables for a step, and returns the step's workload and configuration. The
// first step with deletes counts the rows of the tables: the deletes of this and later steps keep
// this number of rows.
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
		cfg.Beside = append(cfg.Beside, bench.Load{Operation: opQuery, Clients: b.opt.Clients, Batch: 1,
			Client: func(ctx context.Context, n int) (bench.Client, error) {
				return b.newAsker(ctx, n, s.number, ibenchQueries[s.Query], false)
			}})
	}
	return b.Insert, cfg, nil
}

// End notes the indexes that the step has built, after its run.
func (b *Ibench) End() {
	for i, n := range b.built {
		b.tables[i].Indexes = b.indexes[:n]
	}
	b.built = nil
}

// KeepRows returns the number of rows that deletes leave in all tables; 0 before
// the first step with deletes.
func (b *Ibench) KeepRows() (n int64) {
	for _, k := range b.keep {
		n += k
	}
	return n
}

// Continue continues with the tables of an earlier run: it determines which rows
// they hold, by a few dozen queries by primary key per table.
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
			return engine.Hinted(fmt.Errorf("table %s, with which to continue, does not exist in %s", t.Name, b.db.Info().Target), "all steps from l.i0 on")
		}
		if err := b.goOn(ctx, q, t); err != nil {
			return fmt.Errorf("continue with table %s: %w", t.Name, err)
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

// goOn finds the range of a table's keys and continues its sequence.
func (b *Ibench) goOn(ctx context.Context, q engine.Querier, t *table) error {
	key := t.PrimaryKey[0]
	from := &engine.Find{Table: &t.Table, Columns: []string{key}, On: []string{key}, How: engine.AtLeast, Order: []string{key}, Limit: 1}
	is := &engine.Find{Table: &t.Table, Columns: []string{key}, On: []string{key}, How: engine.Equal}
	// firstKey returns the least key in [1, to) for which query f finds a row or, if finds is false,
	// for which it finds none. Once failed is set, the result has no meaning.
	var failed error
	firstKey := func(to int64, f *engine.Find, finds bool) int64 {
		return 1 + int64(sort.Search(int(to-1), func(i int) bool {
			if failed != nil {
				return true
			}
			var n int
			n, failed = q.Find(ctx, f, []engine.Value{{Int: int64(i) + 1}})
			return n > 0 == finds
		}))
	}
	// The first key without rows at or after it, and the first existing key.
	end := firstKey(maxKey, from, false)
	if end == 1 && failed == nil {
		return engine.Hinted(errors.New("it is empty"), "all steps from l.i0 on")
	}
	begin := firstKey(end-1, is, true)
	if failed != nil {
		return failed
	}
	// The newest row is sufficient to detect another seed or another table.
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

// choreGrace is how long a job of Chores may continue after the run is told to end: a server takes
// some time to cancel the build of an index.
const choreGrace = 5 * time.Second

// Chores is a workload of jobs, each of which is executed once, as one operation of a client.
type Chores struct {
	jobs []func(ctx context.Context, event rollEvent) error
	next atomic.Int64
	// event reports an action; it may be used once started is closed.
	event    rollEvent
	started  chan struct{}
	warnings []string // written by the only job of the step settle
}

func newChores() *Chores { return &Chores{started: make(chan struct{})} }

// Warnings says which parts of its work a job left out because the server can't do them. It may be
// called after the run.
func (c *Chores) Warnings() []string { return c.warnings }

// Background implements bench.Workload. The jobs report their actions with its event.
func (c *Chores) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	c.event = event
	close(c.started)
	<-ctx.Done()
	return nil
}

// Client implements bench.Workload.
func (c *Chores) Client(context.Context, int) (bench.Client, error) {
	return &choreClient{chores: c}, nil
}

type choreClient struct {
	chores *Chores
	job    func(ctx context.Context, event rollEvent) error
}

func (c *choreClient) Prepare(int) { c.job = c.chores.jobs[c.chores.next.Add(1)-1] }

func (c *choreClient) Do(ctx context.Context) error {
	<-c.chores.started
	return c.job(ctx, c.chores.event)
}

// Recover allows a retry of a job that failed because of a lock.
func (c *choreClient) Recover(ctx context.Context, _ error) error { return ctx.Err() }

func (c *choreClient) Close() error { return nil }

// buildIndexes returns the workload of step l.x: for all tables in parallel, it builds the indexes
// of each table one after the other.
func (b *Ibench) buildIndexes() *Chores {
	c := newChores()
	b.built = make([]int, len(b.tables))
	for i, t := range b.tables {
		table := t.Table // a copy, because the counters read the original concurrently
		c.jobs = append(c.jobs, func(ctx context.Context, event rollEvent) error {
			for b.built[i] < len(b.indexes) {
				ix := b.indexes[b.built[i]]
				began := time.Now()
				if err := b.db.Apply(ctx, engine.CreateIndexes{Table: &table, Indexes: []engine.Index{ix}}); err != nil {
					return fmt.Errorf("create index %s of %s: %w", ix.Name, t.Name, err)
				}
				event("create index", t.Name+"."+ix.Name, began)
				b.built[i]++
			}
			return nil
		})
	}
	return c
}

func (b *Ibench) settle() *Chores {
	c := newChores()
	c.jobs = append(c.jobs, func(ctx context.Context, event rollEvent) error {
		began := time.Now()
		warnings, err := b.db.Settle(ctx, engine.Settle{Tables: b.Tables()})
		c.warnings = append(c.warnings, warnings...)
		if err == nil {
			event("settle", "", began)
		}
		return err
	})
	return c
}
