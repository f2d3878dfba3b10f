// Package workload holds what benchmarks do, one file each: here, inserting.
//
// The insert workload fills one of the published tables, plain or rolling.
// Every row is a pure function of (seed, writer, sequence), so what a table
// must hold can be computed again and compared (verify.go). Presets and their
// generators are in preset.go, the life of partitions is in roller.go, one
// connection's work in client.go.
//
// The client's ceiling, on one core of an AMD EPYC in million rows/s, from the
// making of a batch of 1000 rows to its acknowledgement by an engine that only
// counts: classic 50, ibench 30, timeseries 90, sbtest 5 (one by one: 20, 15,
// 25, 5), without an allocation. Verify compares classic 8, ibench 5,
// timeseries 13, sbtest 3, beside what the database takes to hand them over.
//
//	go test ./workload -run '^$' -bench . -cpu 1
package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Layouts of a table.
const (
	Plain   = "plain"
	Rolling = "rolling"
)

// Layouts lists them.
func Layouts() []string { return []string{Plain, Rolling} }

// periodsAhead is how many whole periods are kept ready beyond the one that is
// filling. Creating one takes milliseconds, filling one seconds or more.
const periodsAhead = 2

// InsertOptions say what an insert workload does. A field's zero value is the
// preset's or the engine's default.
type InsertOptions struct {
	Preset string
	Layout string
	Seed   uint64
	// Rows is how many will be inserted in all; 0 is unknown.
	Rows    int64
	Writers int
	Batch   int
	Method  engine.Method
	// Indexes is how many of the preset's secondary indexes the table gets;
	// nil is the preset's default.
	Indexes *int
	// TablePerWriter gives each writer a table of its own; nil is the preset's
	// default.
	TablePerWriter *bool
	// PeriodRows is how many rows a period of a rolling table holds. 0 is
	// automatic: Measure decides.
	PeriodRows int64
	// KeepPeriods is how many periods are kept, the newest included; 0 is all.
	KeepPeriods int
	// Patience is how long periods are tried to be created or dropped again
	// after a step failed of a lock or of the connection; 0 is 30 seconds.
	Patience time.Duration
	// KeepRows is how many rows the tables are kept at, all together, once they
	// hold them: of a plain table the oldest rows are deleted beside the
	// inserts, of a rolling one the oldest periods are dropped. 0 is all.
	KeepRows int64
	// Readers is how many clients ask the preset's queries beside the inserts,
	// once the tables hold ReadAfter rows.
	Readers   int
	ReadAfter int64
}

// An Insert is the insert workload on one database.
type Insert struct {
	db     engine.DB
	opt    InsertOptions
	preset preset
	tables []*table
	// periodWhy says where the period's length comes from.
	periodWhy string

	// wanted wakes who creates periods, before the next tick.
	wanted chan struct{}

	mu      sync.Mutex
	clients []*client
	outage  func() <-chan struct{} // see ExpectCrashes
	// crashes is how often the server crashed under the workload.
	crashes int
	// warnings counts batches by what the server said of them.
	warnings map[string]int64
}

// A table is one table of the workload and what is known of its rows.
type table struct {
	engine.Table
	stream stream
	next   atomic.Int64 // the next row's sequence number
	// skipped counts rows that the server left out: their key was there.
	skipped atomic.Int64
	roller  *roller // nil for a plain table
	tail    tail

	mu     sync.Mutex
	doubt  []span // sent and not acknowledged: they may be there or not
	unsent []span // made ready and never sent: they are not there
	recent recent // batches that a crash may take
	// resumed tells that an earlier process filled the table; batches before row
	// late may still arrive from it.
	resumed bool
	late    int64
	// dropped is how many rows went with dropped periods, once Verify has
	// found out what arithmetic can't tell; -1 before.
	dropped int64
}

// NewInsert checks the options and completes them. It asks nothing of the
// database. A rolling layout without PeriodRows must be measured before Setup.
func NewInsert(db engine.DB, opt InsertOptions) (*Insert, error) {
	p, err := findPreset(opt.Preset)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(Layouts(), opt.Layout) {
		return nil, fmt.Errorf("unknown layout %q; there are %s", opt.Layout, strings.Join(Layouts(), ", "))
	}
	caps := db.Capabilities()
	if opt.Layout == Rolling && !caps.Rolling {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("layout rolling: %s can't cut a table into periods", db.Info().Engine))
	}
	if opt.Method == "" {
		opt.Method = caps.Methods[0]
	}
	if !slices.Contains(caps.Methods, opt.Method) {
		return nil, fmt.Errorf("unknown insert method %q; %s has %s", opt.Method, db.Info().Engine, joinMethods(caps.Methods))
	}
	if p.table.Ignore && slices.Contains(caps.NoIgnore, opt.Method) {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("insert method %s of %s can't skip rows whose key is there, which preset %s needs",
			opt.Method, db.Info().Engine, p.name))
	}
	if opt.Batch == 0 {
		opt.Batch = p.batch
	}
	opt.Writers = max(opt.Writers, 1)
	if opt.Patience == 0 {
		opt.Patience = rollPatience
	}
	if opt.Batch < 0 || opt.Rows < 0 || opt.PeriodRows < 0 || opt.KeepPeriods < 0 || opt.KeepRows < 0 || opt.Readers < 0 || opt.ReadAfter < 0 {
		return nil, errors.New("rows, batch, period rows, readers and what to keep can't be negative")
	}
	if opt.KeepRows > 0 && p.twin != nil {
		return nil, engine.Hinted(fmt.Errorf("rows to keep: preset %s sends some rows twice, so that how many the table holds isn't known", p.name), "--keep-periods, or --preset timeseries")
	}
	if opt.KeepRows > 0 && !caps.Stores {
		return nil, engine.Hinted(fmt.Errorf("rows to keep: %s stores none", db.Info().Engine), "--target sqlite:")
	}
	if opt.KeepRows > 0 && opt.KeepPeriods > 0 {
		return nil, errors.New("rows to keep and periods to keep: the one follows from the other")
	}
	n := p.indexes
	if opt.Indexes != nil {
		n = *opt.Indexes
	}
	if n < 0 || n > len(p.table.Indexes) {
		return nil, fmt.Errorf("%d secondary indexes: preset %s has 0 to %d", n, p.name, len(p.table.Indexes))
	}
	p.table.Indexes = p.table.Indexes[:n]
	if opt.Rows == 0 || opt.Rows > math.MaxInt32 {
		widen(&p.table)
	}
	if opt.TablePerWriter != nil {
		p.tablePerWriter = *opt.TablePerWriter
	}
	if opt.KeepPeriods > 0 && opt.Layout != Rolling {
		opt.KeepPeriods = 0 // a plain table has none; layouts share their flags
	}
	w := newInsert(db, opt, p)
	if err := w.follow(); err != nil {
		return nil, err
	}
	if opt.Layout == Rolling && opt.PeriodRows > 0 {
		return w, w.roll(opt.PeriodRows, "as asked for")
	}
	return w, nil
}

// newInsert takes options that are complete.
func newInsert(db engine.DB, opt InsertOptions, p preset) *Insert {
	w := &Insert{db: db, opt: opt, preset: p, wanted: make(chan struct{}, 1)}
	w.addTables()
	return w
}

// widen makes a key that may pass 2^31 rows a 64-bit one.
func widen(t *engine.Table) {
	t.Columns = slices.Clone(t.Columns)
	for i := range t.Columns {
		if t.Columns[i].Auto {
			t.Columns[i].Type = engine.Int64
		}
	}
}

func joinMethods(ms []engine.Method) string {
	names := make([]string, len(ms))
	for i, m := range ms {
		names[i] = string(m)
	}
	return strings.Join(names, ", ")
}

// addTables makes the one shared table, or one for each writer.
func (w *Insert) addTables() {
	n := 1
	if w.preset.tablePerWriter {
		n = w.opt.Writers
	}
	for i := range n {
		t := &table{Table: w.preset.table, stream: newStream(w.opt.Seed, i), dropped: -1}
		if n > 1 {
			t.Name = fmt.Sprintf("%s_%d", t.Name, i+1)
		}
		w.tables = append(w.tables, t)
	}
}

// roll makes the tables rolling ones with periods of so many rows, or on a time
// axis of the whole seconds nearest below.
func (w *Insert) roll(rows int64, why string) error {
	var grid rolling.Grid
	var err error
	if w.opt.KeepRows > 0 {
		length, err := w.keepPeriods(rows, w.opt.PeriodRows == 0)
		if err != nil {
			return err
		}
		if length != rows {
			why += fmt.Sprintf("; shortened from %d rows to divide those to keep", rows)
			rows = length
		}
	}
	if w.preset.axis == rolling.Time {
		secs := max(1, rows/readingsPerSecond)
		if secs > maxPeriodSeconds {
			return fmt.Errorf("periods of %d rows, at %d rows to the second: longer than time.Duration can be", rows, readingsPerSecond)
		}
		if whole := secs * readingsPerSecond; whole != rows {
			why += fmt.Sprintf("; rounded from %d rows to whole seconds of %d rows", rows, readingsPerSecond)
			rows = whole
		}
		grid, err = rolling.EveryDuration(time.Duration(secs) * time.Second)
	} else {
		grid, err = rolling.EveryRows(rows)
	}
	if err != nil {
		return err
	}
	if err := w.fits(rows); err != nil {
		return err
	}
	w.opt.PeriodRows, w.periodWhy = rows, why
	for _, t := range w.tables {
		t.Grid, t.By = grid, w.preset.by
		t.roller = newRoller(w, t)
		if err := t.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// maxPeriodSeconds is the longest time.Duration.
const maxPeriodSeconds = math.MaxInt64 / int64(time.Second)

// fits refuses periods so short that the engine can't have as many as they make.
func (w *Insert) fits(rows int64) error {
	most := int64(w.db.Capabilities().MaxPeriods)
	if most == 0 {
		return nil
	}
	engineName := w.db.Info().Engine
	perTable := w.opt.Rows / int64(len(w.tables))
	// The first period may be cut short, and dropping comes after creating.
	all, kept := perTable/rows+1+periodsAhead, int64(w.opt.KeepPeriods)+1+periodsAhead
	if w.opt.KeepPeriods > 0 && min(all, kept) > most {
		return fmt.Errorf("keep %d periods: with those ahead they are %d, %s allows %d", w.opt.KeepPeriods, kept, engineName, most)
	}
	if w.opt.KeepPeriods == 0 && all > most {
		return fmt.Errorf("periods of %d rows make %d of them, %s allows %d: take periods of at least %d rows, or keep only some with --keep-periods",
			rows, all, engineName, most, perTable/(most-1-periodsAhead)+1)
	}
	return nil
}

// position returns where on the table's axis a row lies.
func (w *Insert) position(seq int64) int64 {
	if w.preset.axis == rolling.Time {
		return virtualTime(seq, readingsPerSecond)
	}
	return seq + 1
}

// firstAt returns the first row that lies at a position or after it.
func (w *Insert) firstAt(pos int64) int64 {
	if w.preset.axis == rolling.Time {
		const second = int64(time.Second / time.Microsecond)
		return max(0, (pos-virtualStart+second-1)/second) * readingsPerSecond
	}
	return max(0, pos-1)
}

// Options returns the options with all defaults filled in.
func (w *Insert) Options() InsertOptions { return w.opt }

// Indexes returns how many secondary indexes each table has.
func (w *Insert) Indexes() int { return len(w.preset.table.Indexes) }

// Period returns how the tables are cut, and why so; empty for plain ones.
func (w *Insert) Period() (period, why string) {
	if t := w.tables[0]; t.Rolling() {
		return t.Grid.String(), w.periodWhy
	}
	return "", ""
}

// Deviations says where the workload departs from the preset's publication.
func (w *Insert) Deviations() []string { return w.preset.deviations }

// Tables returns the tables that the workload fills.
func (w *Insert) Tables() []*engine.Table {
	out := make([]*engine.Table, len(w.tables))
	for i, t := range w.tables {
		out[i] = &t.Table
	}
	return out
}

// createStep returns the step that creates a table with its first periods.
func (w *Insert) createStep(t *table) (engine.CreateTable, error) {
	step := engine.CreateTable{Table: &t.Table}
	if t.Rolling() {
		s, err := t.roller.policy(0).Steps(nil, w.position(0))
		if err != nil {
			return step, err
		}
		step.Partitions = s.Create
	}
	return step, nil
}

// Setup creates the tables, empty, and begins their sequences anew. Tables that
// exist are refused, or dropped first when dropExisting is set. All of them are
// looked for before the first is touched, and what was created is dropped again
// when a later one fails. It returns the statements that made the schema.
func (w *Insert) Setup(ctx context.Context, dropExisting bool) (schema []string, err error) {
	if w.opt.Layout == Rolling && !w.tables[0].Rolling() {
		return nil, errors.New("set up rolling tables: the period isn't known; measure first")
	}
	var existing []*table
	for _, t := range w.tables {
		exists, err := w.db.Catalog().Exists(ctx, &t.Table)
		if err != nil {
			return nil, err
		}
		if exists && !dropExisting {
			return nil, engine.Hinted(engine.Classed(engine.ErrTableExists, fmt.Errorf("table %s exists in %s", t.Name, w.db.Info().Target)),
				"--drop-existing to drop it with all its rows, or another database")
		}
		if exists {
			existing = append(existing, t)
		}
	}
	for _, t := range existing {
		if err := w.drop(ctx, t); err != nil {
			return nil, err
		}
	}
	for i, t := range w.tables {
		text, err := w.create(ctx, t)
		if err != nil {
			return nil, errors.Join(err, w.undoSetup(ctx, w.tables[:i]))
		}
		schema = append(schema, text...)
	}
	return schema, nil
}

// create creates a table and returns the statements that did.
func (w *Insert) create(ctx context.Context, t *table) ([]string, error) {
	step, err := w.createStep(t)
	if err != nil {
		return nil, err
	}
	text, err := w.db.Dialect().Render(step)
	if err != nil {
		return nil, err
	}
	if err := w.db.Apply(ctx, step); err != nil {
		return nil, fmt.Errorf("create table %s: %w", t.Name, err)
	}
	t.reset()
	if t.Rolling() {
		t.roller.reset(step.Partitions)
	}
	return text, nil
}

// cleanUp bounds how long tables are dropped after a failure or an interrupt.
const cleanUp = 30 * time.Second

// undoSetup drops tables that were just created.
func (w *Insert) undoSetup(ctx context.Context, tables []*table) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	var errs []error
	for _, t := range tables {
		errs = append(errs, w.drop(ctx, t))
	}
	return errors.Join(errs...)
}

// drop drops a table that may have been left by a run of another layout.
func (w *Insert) drop(ctx context.Context, t *table) error {
	parts, err := w.db.Catalog().Partitions(ctx, &t.Table)
	if err != nil && !errors.Is(err, engine.ErrNoTable) {
		return err
	}
	left := t.Table
	if len(parts) == 0 {
		left.Grid = rolling.Grid{}
	}
	if err := w.db.Apply(ctx, engine.DropTable{Table: &left, Partitions: parts}); err != nil {
		return fmt.Errorf("drop table %s: %w", t.Name, err)
	}
	return nil
}

// Drop drops the workload's tables.
func (w *Insert) Drop(ctx context.Context) error {
	for _, t := range w.tables {
		if err := w.drop(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
