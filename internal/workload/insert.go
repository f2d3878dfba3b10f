// Package workload contains the operations of benchmarks, one file each; this one contains
// the inserts.
//
// The insert workload fills one of the published tables, plain or rolling. Every row is a
// pure function of (seed, writer, sequence), so the expected contents of a table can be
// recomputed and compared (verify.go). Presets and their generators are in preset.go,
// creating and dropping partitions in roller.go, one connection's work in client.go.
//
// The command below measures how fast one client generates rows and sends them to an engine that
// only counts them. On one core of an AMD EPYC it was, in million rows/s: classic 50, ibench 30,
// timeseries 90, sbtest 5 in batches of 1000 rows; with single rows 20, 15, 25 and 5. Nothing was
// allocated. Verify compares 8 of classic, 5 of ibench, 13 of timeseries and 3 of sbtest.
//
//	go test ./internal/workload -run '^$' -bench . -cpu 1
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// Layouts of a table.
const (
	Plain   = "plain"
	Rolling = "rolling"
)

// Layouts returns the names of the layouts.
func Layouts() []string { return []string{Plain, Rolling} }

// periodsAhead is the number of whole periods ready beyond the one being filled. Creating a period
// takes milliseconds; filling it takes seconds or more.
const periodsAhead = 2

// InsertOptions are the parameters of an insert workload. The zero value of a field is the
// preset's or the engine's default.
type InsertOptions struct {
	Preset  string
	Own     *Own // a table of the user's in place of the preset's
	Layout  string
	Seed    uint64
	Rows    int64 // to insert in all; 0 is unknown
	Writers int
	Batch   int
	Method  engine.Method
	Indexes *int // the preset's first secondary indexes
	// TablePerWriter gives each writer a table of its own.
	TablePerWriter *bool
	// PeriodRows is the number of rows per period; 0 lets Measure determine it. KeepPeriods
	// is the number of periods to keep, including the newest; 0 is all.
	PeriodRows  int64
	KeepPeriods int
	// Patience is how long the creation or the drop of a period is retried if it failed because of a
	// lock or the connection; 0 is 30 seconds.
	Patience time.Duration
	// KeepRows limits the size of all tables together: while rows are inserted, the oldest rows of a
	// plain table are deleted, or the oldest periods of a rolling table dropped. 0 is no limit.
	KeepRows int64
	// Readers is the number of clients that run the preset's queries beside the inserts, once
	// the tables hold ReadAfter rows.
	Readers   int
	ReadAfter int64
}

// An Insert is the insert workload on one database.
type Insert struct {
	db        engine.DB
	opt       InsertOptions
	preset    preset
	tables    []*table
	periodWhy string // the reason for the length of the period

	// wanted wakes the goroutine that creates periods before its next tick.
	wanted chan struct{}

	mu      sync.Mutex
	outage  func() <-chan struct{} // see ExpectCrashes
	crashes int
	// warnings counts batches by the server's warning.
	warnings map[string]int64
}

type table struct {
	engine.Table
	stream draw.Stream
	next   atomic.Int64 // sequence number of the next row
	// skipped counts rows that the server skipped because their keys existed.
	skipped atomic.Int64
	roller  *roller // nil for a plain table
	tail    tail

	mu     sync.Mutex
	doubt  []span // sent and not acknowledged: they may exist or not
	unsent []span // prepared and never sent: they do not exist
	recent recent // batches that a crash may lose
	// resumed means that an earlier process filled the table. Batches of that process, with rows below
	// late, may still arrive.
	resumed bool
	late    int64
}

// NewInsert checks the options and fills in defaults. It does not access the database. For a
// rolling layout without PeriodRows, Measure must be called before Setup.
func NewInsert(db engine.DB, opt InsertOptions) (*Insert, error) {
	find := func() (preset, error) { return findPreset(opt.Preset) }
	if opt.Own != nil {
		find = opt.Own.preset
	}
	p, err := find()
	if err != nil {
		return nil, err
	}
	if opt.Own != nil && (opt.Indexes != nil || opt.TablePerWriter != nil) {
		return nil, engine.Hinted(fmt.Errorf("table %s is measured as declared: with its indexes, and one for all writers", p.name), "another declaration")
	}
	if !slices.Contains(Layouts(), opt.Layout) {
		return nil, fmt.Errorf("unknown layout %q; there are %s", opt.Layout, strings.Join(Layouts(), ", "))
	}
	caps := db.Capabilities()
	if opt.Layout == Rolling && !caps.Rolling {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("layout rolling: %s can't divide a table into periods", db.Info().Engine))
	}
	if opt.Layout == Rolling && p.table.ServerKey != "" {
		return nil, engine.Hinted(fmt.Errorf("layout rolling: preset %s leaves its keys to the server, so that a row's period is unknown", p.name), "--layout plain, or --preset classic")
	}
	if opt.Method, err = chooseMethod(db, opt.Method); err != nil {
		return nil, err
	}
	if p.table.Ignore && slices.Contains(caps.NoIgnore, opt.Method) {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("insert method %s of %s can't skip rows whose keys exist, which preset %s requires",
			opt.Method, db.Info().Engine, p.name))
	}
	opt.Batch, opt.Writers, opt.Patience = cmp.Or(opt.Batch, p.batch), max(opt.Writers, 1), cmp.Or(opt.Patience, rollPatience)
	if opt.Batch < 0 || opt.Rows < 0 || opt.PeriodRows < 0 || opt.KeepPeriods < 0 || opt.KeepRows < 0 || opt.Readers < 0 || opt.ReadAfter < 0 {
		return nil, errors.New("rows, batch, period rows, readers and what to keep can't be negative")
	}
	switch {
	case opt.KeepRows == 0:
	case p.twin != nil:
		return nil, engine.Hinted(fmt.Errorf("rows to keep: preset %s sends some rows twice, so that the number of rows in the table is unknown", p.name),
			"--keep-periods, or --preset timeseries")
	case !caps.Stores:
		return nil, engine.Hinted(fmt.Errorf("rows to keep: %s stores none", db.Info().Engine), "a --target that stores its rows")
	case opt.KeepPeriods > 0:
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
		opt.KeepPeriods = 0 // a plain table has no periods; both layouts accept the same flags
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

// newInsert returns the workload for opt, in which all options are set, with one table that all
// writers share, or a table per writer.
func newInsert(db engine.DB, opt InsertOptions, p preset) *Insert {
	w := &Insert{db: db, opt: opt, preset: p, wanted: make(chan struct{}, 1)}
	n := 1
	if p.tablePerWriter {
		n = opt.Writers
	}
	for i := range n {
		t := &table{Table: p.table, stream: draw.NewStream(opt.Seed, i)}
		if n > 1 {
			t.Name = fmt.Sprintf("%s_%d", t.Name, i+1)
		}
		w.tables = append(w.tables, t)
	}
	return w
}

// widen gives the column that is counted up 64 bits, because its values may exceed 2^31.
func widen(t *engine.Table) {
	t.Columns = slices.Clone(t.Columns)
	for i := range t.Columns {
		if t.Columns[i].Auto {
			t.Columns[i].Type = engine.Int64
		}
	}
}

func chooseMethod(db engine.DB, asked engine.Method) (engine.Method, error) {
	methods := db.Capabilities().Methods
	if asked == "" {
		return methods[0], nil
	}
	if slices.Contains(methods, asked) {
		return asked, nil
	}
	return "", fmt.Errorf("unknown insert method %q; %s has %s", asked, db.Info().Engine, Join(methods))
}

// Join returns names separated by commas.
func Join[S ~string](names []S) string {
	var out []string
	for _, n := range names {
		out = append(out, string(n))
	}
	return strings.Join(out, ", ")
}

// roll makes the tables rolling, with periods of the given number of rows; on a time axis
// the period is rounded down to whole seconds.
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
		c := w.preset.clock
		ticks := max(1, rows/c.Rows)
		if ticks > maxPeriodSeconds/c.Seconds {
			return fmt.Errorf("periods of %d rows, at %d rows to the second: longer than time.Duration can be", rows, c.Rows)
		}
		if whole := ticks * c.Rows; whole != rows {
			why += fmt.Sprintf("; rounded from %d rows to whole seconds of %d rows", rows, c.Rows)
			rows = whole
		}
		grid, err = rolling.EveryDuration(time.Duration(ticks*c.Seconds) * time.Second)
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
		t.roller = &roller{w: w, t: t}
		if err := t.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// maxPeriodSeconds is the longest time.Duration, in seconds.
const maxPeriodSeconds = math.MaxInt64 / int64(time.Second)

// fits refuses periods so short that their number exceeds the engine's limit.
func (w *Insert) fits(rows int64) error {
	most := int64(w.db.Capabilities().MaxPeriods)
	if most == 0 {
		return nil
	}
	engineName := w.db.Info().Engine
	perTable := w.opt.Rows / int64(len(w.tables))
	// The first period may be shorter, and periods are created before old ones are dropped.
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

func (w *Insert) position(seq int64) int64 {
	if w.preset.axis == rolling.Time {
		return w.preset.clock.At(seq)
	}
	return seq + 1
}

// firstAt returns the first row at or after a position.
func (w *Insert) firstAt(pos int64) int64 {
	if w.preset.axis == rolling.Time {
		tick := w.preset.clock.Micros()
		return max(0, (pos-draw.VirtualStart+tick-1)/tick) * w.preset.clock.Rows
	}
	return max(0, pos-1)
}

// Options returns the options with the defaults filled in.
func (w *Insert) Options() InsertOptions { return w.opt }

// Indexes returns the number of secondary indexes per table.
func (w *Insert) Indexes() int { return len(w.preset.table.Indexes) + w.preset.declared }

// Period returns the length of the tables' periods and the reason for it; empty for plain tables.
func (w *Insert) Period() (period, why string) {
	if t := w.tables[0]; t.Rolling() {
		return t.Grid.String(), w.periodWhy
	}
	return "", ""
}

// Deviations describes how the workload departs from the preset's publication.
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

// Setup creates the tables, empty, and restarts their sequences. It refuses existing tables before
// it changes any, or drops them if dropExisting is set. If it fails, it drops the tables that it
// has created. It returns the statements that created the schema.
func (w *Insert) Setup(ctx context.Context, dropExisting bool) (schema []string, err error) {
	if w.opt.Layout == Rolling && !w.tables[0].Rolling() {
		return nil, errors.New("set up rolling tables: the period isn't known; measure first")
	}
	if err := w.clear(ctx, dropExisting); err != nil {
		return nil, err
	}
	for i, t := range w.tables {
		text, err := w.create(ctx, t)
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
			defer cancel()
			for _, t := range w.tables[:i] {
				err = errors.Join(err, w.drop(ctx, t))
			}
			return nil, err
		}
		schema = append(schema, text...)
	}
	return schema, nil
}

// CreatePlain creates plain tables as Setup does.
func CreatePlain(ctx context.Context, db engine.DB, tables []*engine.Table, dropExisting bool) (schema []string, err error) {
	w := &Insert{db: db, opt: InsertOptions{Layout: Plain}}
	for _, t := range tables {
		w.tables = append(w.tables, &table{Table: *t})
	}
	return w.Setup(ctx, dropExisting)
}

// clear drops the workload's existing tables if mayDrop is set. Otherwise, if any of them exists,
// it drops none and returns an error.
func (w *Insert) clear(ctx context.Context, mayDrop bool) error {
	var existing []*table
	for _, t := range w.tables {
		if exists, err := Exists(ctx, w.db, &t.Table, mayDrop); err != nil {
			return err
		} else if exists {
			existing = append(existing, t)
		}
	}
	for _, t := range existing {
		if err := w.drop(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// Exists reports whether a table exists. It refuses an existing table unless mayDrop is set.
func Exists(ctx context.Context, db engine.DB, t *engine.Table, mayDrop bool) (bool, error) {
	exists, err := db.Catalog().Exists(ctx, t)
	if err == nil && exists && !mayDrop {
		err = engine.Hinted(engine.Classed(engine.ErrTableExists, fmt.Errorf("table %s exists in %s", t.Name, db.Info().Target)),
			"--drop-existing to drop it with all its rows, or another database")
	}
	return exists, err
}

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

// cleanUp limits the time for dropping tables after a failure or an interrupt.
const cleanUp = 30 * time.Second

// drop drops a table, which may be from a run of another layout.
func (w *Insert) drop(ctx context.Context, t *table) error {
	var parts []rolling.Partition
	if t.Values == 0 { // partitions by lists of values are no periods
		var err error
		if parts, err = w.db.Catalog().Partitions(ctx, &t.Table); err != nil && !errors.Is(err, engine.ErrNoTable) {
			return err
		}
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

// maxWarnings is the maximum number of different server warnings that are kept.
const maxWarnings = 20

func (w *Insert) warn(texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warnings == nil {
		w.warnings = map[string]int64{}
	}
	for _, text := range texts {
		if _, known := w.warnings[text]; known || len(w.warnings) < maxWarnings {
			w.warnings[text]++
		}
	}
}

// Warnings returns the server's warnings, each with the number of batches.
func (w *Insert) Warnings() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, text := range slices.Sorted(maps.Keys(w.warnings)) {
		out = append(out, fmt.Sprintf("the server warned of %s: %s", figure.Plural(w.warnings[text], "batch", "batches"), text))
	}
	return out
}

// Sizes returns the total size of all tables.
func (w *Insert) Sizes(ctx context.Context) (engine.Sizes, error) {
	var sum engine.Sizes
	for _, t := range w.tables {
		s, err := w.db.Catalog().Sizes(ctx, &t.Table)
		if err != nil {
			return sum, err
		}
		sum.Data += s.Data
		sum.Index += s.Index
	}
	return sum, nil
}

// SkippedRows returns how many of the acknowledged rows the server skipped because their
// keys existed.
func (w *Insert) SkippedRows() int64 {
	return w.total(func(t *table) int64 { return t.skipped.Load() })
}

// DroppedRows returns the number of rows in dropped periods.
func (w *Insert) DroppedRows() int64 { return w.total(w.droppedRows) }

func (w *Insert) droppedRows(t *table) int64 {
	if t.roller == nil {
		return 0
	}
	below := w.firstAt(t.roller.dropped.Load())
	acked, _ := t.sent()
	var n int64
	for _, s := range acked {
		n += w.distinct(t, acked, s.within(span{0, below}))
	}
	return n
}

// DeletedRows returns the number of rows that were deleted to keep the tables' size. It counts
// acknowledged deletes only.
func (w *Insert) DeletedRows() int64 {
	return w.total(func(t *table) int64 { return t.tail.removed.Load() })
}

// RowsNow returns how many acknowledged rows all tables have now. It requires tail.followed, which
// is set if, for example, the options ask for readers or for rows to keep: only then do clients
// count their rows.
func (w *Insert) RowsNow() int64 {
	return w.total(func(t *table) int64 { return t.held() - w.droppedRows(t) })
}

func (w *Insert) total(of func(*table) int64) int64 {
	var n int64
	for _, t := range w.tables {
		n += of(t)
	}
	return n
}

// A transfer describes rows to insert by one connection, outside of a run.
type transfer struct {
	into   *engine.Table
	stream draw.Stream
	rows   span
	batch  int64
	method engine.Method
	// patience is how long a batch is retried after a failure because of a lock or the connection.
	patience time.Duration
	// done, if set, is called with each batch that was inserted, and the row after it.
	done func(b *engine.Batch, next int64)
}

func (w *Insert) load(ctx context.Context, t transfer) (err error) {
	writer, err := w.db.Writer(ctx, t.into, t.method)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	b := engine.NewBatch(t.into.Inserted())
	for at := t.rows.from; at < t.rows.to; at += int64(b.Rows()) {
		n := min(t.batch, t.rows.to-at)
		b.Reset()
		w.preset.fill(b, t.stream, at, int(n))
		for began := time.Now(); ; {
			ack, err := writer.Write(ctx, b)
			if err == nil && ack.Rows+ack.Skipped != n {
				err = fmt.Errorf("the server acknowledged %s of %d", figure.Plural(ack.Rows+ack.Skipped, "row", "rows"), n)
			}
			if err == nil {
				break
			}
			if !engine.Retryable(err) || time.Since(began) > t.patience {
				return err
			}
			if err := engine.Sleep(ctx, rollPause); err != nil {
				return err
			}
			if err := writer.Reset(ctx); err != nil {
				return err
			}
		}
		if t.done != nil {
			t.done(b, at+n)
		}
	}
	return nil
}
