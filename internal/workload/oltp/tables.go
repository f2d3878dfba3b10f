package oltp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

// Operations of a Tables. OpTables creates the next tables or partitions, and measures the costs
// when their number reaches the next mark. OpCreate is the creation of one table or partition,
// without measurements.
const (
	OpTables = "step"
	OpCreate = "create"
)

const (
	// MaxTables is the largest number in the report that this measurement repeats.
	MaxTables = 1_000_000
	// There are 50 definitions: 10 numbers of columns, each with 5 numbers of secondary indexes.
	definitionSizes, definitionIndexes = 10, 5
	// tablesMarks is how often the costs are measured while tables are created.
	tablesMarks = 20
	// partitionSteps is the number of steps in which the partitions of one table are created.
	partitionSteps = 100
	// partitionRows is the length of a partition of a table that rowmill defines.
	partitionRows = 1_000_000
)

// TablesOptions are the parameters of a Tables.
type TablesOptions struct {
	// Tables is the number of tables, Partitions the number of partitions of each; 0 is none.
	Tables, Partitions int
	// At the end, each of Connections connections opens Open tables.
	Connections, Open int
	// Declared, unless nil, is the definition of the only table, a rolling table.
	Declared *engine.Table
	// Steps is the number of steps in which partitions are created, and costs measured; 0 is the
	// default.
	Steps int
}

// A Tables creates empty tables, or partitions of tables, and measures their costs meanwhile.
// Afterwards, OpenAll and Connect measure the costs of opening them.
type Tables struct {
	db     engine.DB
	keeper engine.Housekeeper
	opt    TablesOptions
	// Measure adds the operating system's figures to a cost. Processes returns the number of the
	// server's processes.
	Measure   func(*result.TablesCost) error
	Processes func() (int, error)
	// Took is called with the mean duration of creating a table or partition.
	Took func(op string, d time.Duration)

	made      int // tables or partitions
	have      []rolling.Partition
	next      int // number of the next mark
	since     time.Duration
	sinceMade int
	mu        sync.Mutex
	costs     []result.TablesCost
}

// NewTables checks the options. It does not access the database.
func NewTables(db engine.DB, opt TablesOptions) (*Tables, error) {
	caps := db.Capabilities()
	switch {
	case !caps.Stores || caps.Embedded:
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s is no server: it has no memory and no files of its own that tables could fill", db.Info().Engine))
	case opt.Tables < 1 || opt.Tables > MaxTables || opt.Tables*max(opt.Partitions, 1) > MaxTables:
		return nil, fmt.Errorf("%d tables of %d partitions: want 1 to %d in all", opt.Tables, max(opt.Partitions, 1), MaxTables)
	case caps.MaxPeriods > 0 && opt.Partitions >= caps.MaxPeriods:
		return nil, fmt.Errorf("%d partitions: a table of %s has at most %d", opt.Partitions, db.Info().Engine, caps.MaxPeriods-1)
	}
	return &Tables{db: db, opt: opt}, nil
}

// On makes the workload use an open, empty database.
func (w *Tables) On(db engine.Housekeeper) { w.db, w.keeper = db, db }

// Objects returns the number of tables or partitions to create.
func (w *Tables) Objects() int { return w.opt.Tables * max(w.opt.Partitions, 1) }

// Made returns the number of tables or partitions that have been created.
func (w *Tables) Made() int { return w.made }

// Definitions returns the number of different definitions.
func (w *Tables) Definitions() int {
	if w.opt.Declared != nil {
		return 1
	}
	return min(w.opt.Tables, definitionSizes*definitionIndexes)
}

// Batch returns the number of tables or partitions that one operation creates.
func (w *Tables) Batch() int {
	if w.opt.Partitions == 0 {
		return 1
	}
	return max(1, min(w.opt.Partitions, w.Objects()/cmp.Or(w.opt.Steps, partitionSteps)))
}

// Table returns the n-th table, from 0. Successive tables differ, in a repeating order: they have 3
// to 21 columns of all types, and 0 to 4 secondary indexes. If all partitions are in one table, it
// has 13 columns and 2 indexes.
func (w *Tables) Table(n int) *engine.Table {
	if w.opt.Declared != nil {
		return w.opt.Declared
	}
	kind := n % (definitionSizes * definitionIndexes)
	columns, indexes := 3+2*(kind%definitionSizes), kind/definitionSizes
	if w.opt.Partitions > 0 && w.opt.Tables == 1 {
		columns, indexes = 13, 2
	}
	t := &engine.Table{Name: fmt.Sprintf("t%07d", n+1), PrimaryKey: []string{"id"}, Columns: []engine.Column{{Name: "id", Type: engine.Int64}}}
	types := []engine.Column{{Type: engine.Int32}, {Type: engine.Varchar, Size: 40}, {Type: engine.Time}, {Type: engine.Decimal, Size: 12, Scale: 2}, {Type: engine.Float64},
		{Type: engine.Int64}, {Type: engine.Char, Size: 8}, {Type: engine.Varchar, Size: 200}, {Type: engine.Float32}}
	for i := 1; i < columns; i++ {
		c := types[(i-1+n)%len(types)]
		c.Name, c.Null = fmt.Sprintf("c%02d", i), i%3 == 0
		t.Columns = append(t.Columns, c)
	}
	for i := range indexes { // of one and of two columns in turn
		ix := engine.Index{Name: fmt.Sprintf("%s_i%d", t.Name, i+1), Columns: []string{t.Columns[1+i%(columns-1)].Name}}
		if second := t.Columns[1+(i+1)%(columns-1)].Name; i%2 == 1 && second != ix.Columns[0] {
			ix.Columns = append(ix.Columns, second)
		}
		t.Indexes = append(t.Indexes, ix)
	}
	if w.opt.Partitions > 0 {
		t.By = "id"
		t.Grid, _ = rolling.EveryRows(partitionRows) // a valid length
	}
	return t
}

// parts returns partitions of a table, from the n-th.
func (w *Tables) parts(t *engine.Table, from, n int) (out []rolling.Partition, err error) {
	start := int64(0)
	if t.Grid.Axis() == rolling.Time { // the first partition begins in 2001
		start = rolling.Position(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	p, err := t.Grid.At(start)
	for i := 0; err == nil && i < from+n; i++ {
		if i >= from {
			out = append(out, t.Grid.Named(p))
		}
		p, err = t.Grid.At(p.To)
	}
	if err != nil {
		return nil, fmt.Errorf("%d partitions of %s: %w", from+n, t.Grid, err)
	}
	return out, nil
}

// Create returns the step that creates the n-th table, from 0, with its first partitions if it has
// any.
func (w *Tables) Create(n, partitions int) (engine.CreateTable, error) {
	step := engine.CreateTable{Table: w.Table(n)}
	if w.opt.Partitions == 0 {
		return step, nil
	}
	var err error
	step.Partitions, err = w.parts(step.Table, 0, partitions)
	return step, err
}

// create creates the next n tables or partitions.
func (w *Tables) create(ctx context.Context, n int) error {
	for n > 0 {
		if w.opt.Partitions == 0 {
			if err := w.timed(1, func() error { return w.db.Apply(ctx, engine.CreateTable{Table: w.Table(w.made)}) }); err != nil {
				return err
			}
			n--
			continue
		}
		at := w.made % w.opt.Partitions
		t, some := w.Table(w.made/w.opt.Partitions), min(n, w.opt.Partitions-at)
		parts, err := w.parts(t, at, some)
		if err != nil {
			return err
		}
		var step engine.Step = engine.CreatePartitions{Table: t, Have: w.have, New: parts}
		if at == 0 {
			step, w.have = engine.CreateTable{Table: t, Partitions: parts}, nil
		}
		if err := w.timed(some, func() error { return w.db.Apply(ctx, step) }); err != nil {
			return err
		}
		w.have = append(w.have, parts...)
		n -= some
	}
	return nil
}

// timed runs a function that creates n tables or partitions, and notes its time.
func (w *Tables) timed(n int, run func() error) error {
	began := time.Now()
	if err := run(); err != nil {
		return w.failed(n, err)
	}
	took := time.Since(began)
	w.made, w.since, w.sinceMade = w.made+n, w.since+took, w.sinceMade+n
	if w.Took != nil {
		w.Took(OpCreate, took/time.Duration(n))
	}
	return nil
}

// failed returns the error of a creation with its number: "create table 1,000 of 5,000: ...".
func (w *Tables) failed(n int, err error) error {
	what := "table"
	if w.opt.Partitions > 0 {
		what = "partition"
	}
	return fmt.Errorf("create %s %s of %s: %w", what, figure.Count(int64(w.made+n)), figure.Count(int64(w.Objects())), err)
}

// mark measures the costs if the number of tables or partitions has reached the next mark.
func (w *Tables) mark(ctx context.Context, s *engine.Session) error {
	marks := min(cmp.Or(w.opt.Steps, tablesMarks), w.Objects()/w.Batch())
	if w.made*marks < w.Objects()*(w.next+1) {
		return nil
	}
	w.next++
	c := result.TablesCost{Phase: result.TablesCreated, Objects: w.made, CreateSeconds: w.since.Seconds() / float64(w.sinceMade)}
	w.since, w.sinceMade = 0, 0
	if err := w.cost(ctx, &c); err != nil {
		return err
	}
	began := time.Now()
	if _, err := firstValue(ctx, s, "SELECT COUNT(column_name) + SUM(ordinal_position) FROM information_schema.columns"); err != nil {
		return fmt.Errorf("read information_schema.columns: %w", err)
	}
	c.SchemaSeconds = time.Since(began).Seconds()
	if w.opt.Partitions > 0 {
		took, err := w.addOne(ctx)
		if err != nil {
			return err
		}
		c.AddSeconds = took.Seconds()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.costs = append(w.costs, c)
	return nil
}

// addOne adds one partition to the table that grows, as its maintenance does, and drops it again.
func (w *Tables) addOne(ctx context.Context) (time.Duration, error) {
	t := w.Table((w.made - 1) / w.opt.Partitions)
	one, err := w.parts(t, len(w.have), 1)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := w.db.Apply(ctx, engine.CreatePartitions{Table: t, Have: w.have, New: one}); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, w.db.Apply(ctx, engine.DropPartition{Table: t, Have: append(w.have[:len(w.have):len(w.have)], one[0]), Drop: one[0]})
}

// cost completes c. It reads the operating system's figures first, because queries to the server
// would change them.
func (w *Tables) cost(ctx context.Context, c *result.TablesCost) error {
	if err := w.Measure(c); err != nil {
		return err
	}
	h, err := w.keeper.Household(ctx)
	if err == nil {
		c.DictionaryBytes, c.OpenedTables = h.DictionaryBytes, max(h.Opened, 0)
	}
	return err
}

// Costs returns what was measured since the last call.
func (w *Tables) Costs() []result.TablesCost {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.costs
	w.costs = nil
	return out
}

// Found counts the tables or partitions that the catalog has.
func (w *Tables) Found(ctx context.Context) (int64, error) {
	if w.opt.Partitions == 0 {
		names, err := w.keeper.Named(ctx, "t")
		return int64(len(names)), err
	}
	var n int64
	for i := range (w.made + w.opt.Partitions - 1) / w.opt.Partitions {
		parts, err := w.db.Catalog().Partitions(ctx, w.Table(i))
		if err != nil {
			return n, err
		}
		n += int64(len(parts))
	}
	return n, nil
}

// Background implements bench.Workload.
func (w *Tables) Background(context.Context, func(string, string, time.Time)) error { return nil }

// Client implements bench.Workload. There is only one client.
func (w *Tables) Client(ctx context.Context, _ int) (bench.Client, error) {
	s, err := w.session(ctx)
	return &tablesClient{w: w, s: s}, err
}

type tablesClient struct {
	w *Tables
	s *engine.Session
	n int
}

func (c *tablesClient) Prepare(n int) { c.n = n }

func (c *tablesClient) Do(ctx context.Context) error {
	if err := c.w.create(ctx, c.n); err != nil {
		return err
	}
	return c.w.mark(ctx, c.s)
}

// Recover gives up: a table that was perhaps created can't be created again.
func (c *tablesClient) Recover(_ context.Context, failed error) error {
	return errors.New("not repeated: " + failed.Error())
}

func (c *tablesClient) Close() error { return c.s.Close() }
