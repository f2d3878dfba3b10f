package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/column"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// KeepOptions are the parameters of inserts into a declared rolling table.
type KeepOptions struct {
	// Seed determines the rows' values.
	Seed uint64
	// Keys is the size of the key space; 0 is a million. Rows of the same second have different keys,
	// so there must be more keys than rows in two seconds.
	Keys int64
	// Rate is the rate of the run in rows per second, used to check Keys; 0 is unknown.
	Rate float64
	// Method is the insert method; "" is the engine's default.
	Method engine.Method
	// Now is the clock for the rows' times.
	Now func() time.Time
	// Stall is the duration from which an insert is listed as a stall; 0 is 100 ms.
	Stall time.Duration
}

const (
	defaultKeys = 1_000_000
	// maxKeys ensures that the product of two keys fits in an int64.
	maxKeys      = 1 << 31
	defaultStall = 100 * time.Millisecond
	// maxStalls is the maximum number of inserts that are listed; all are counted.
	maxStalls = 10_000
)

// A Keep is the workload of a table under maintenance: rows with current times, keys spread over
// the key space, and other values by the types of the columns.
type Keep struct {
	db    engine.Keeper
	opt   KeepOptions
	table engine.Table // as writers use it
	fill  []filler     // one per column
	// Beside is the work beside the inserts; nil is none.
	Beside func(ctx context.Context, event func(what, object string, began time.Time)) error

	next atomic.Int64
	most atomic.Int64 // duration of the longest insert, in nanoseconds

	mu    sync.Mutex
	notes KeepNotes
}

// KeepNotes are the observations of a Keep about its inserts.
type KeepNotes struct {
	// Stalls are inserts that took KeepOptions.Stall or longer, ordered by their ends; Slow is the
	// number of all such inserts, listed or not.
	Stalls []SlowInsert
	Slow   int64
	// Longest is the insert that took longest.
	Longest SlowInsert
	// Errors counts errors by their text, even errors after which a retry inserted the batch. Warnings
	// are some of the server's warnings.
	Errors   map[string]int64
	Warnings []string
}

// A SlowInsert is an insert that took longer than KeepOptions.Stall, or the longest insert.
type SlowInsert struct {
	Began time.Time
	Took  time.Duration
}

// NewKeep returns the workload of table t; s is t's description in the server's catalog. It refuses
// tables for which it can't generate rows.
func NewKeep(db engine.Keeper, t *engine.Table, s *engine.Schema, o KeepOptions) (*Keep, error) {
	o.Keys, o.Stall = cmp.Or(o.Keys, defaultKeys), cmp.Or(o.Stall, defaultStall)
	if o.Keys < 1 || o.Keys > maxKeys {
		return nil, fmt.Errorf("a key space of %d: want 1 to %d", o.Keys, int64(maxKeys))
	}
	var err error
	if o.Method, err = chooseMethod(db, o.Method); err != nil {
		return nil, err
	}
	w := &Keep{db: db, opt: o, table: engine.Table{Name: t.Name, By: t.By}}
	if db.Capabilities().Embedded {
		// The writers of an embedded engine themselves determine which period a row belongs to.
		w.table.Grid = t.Grid
		if t.Epoch > 0 {
			return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("insert into %s: on %s only where %s is a time, or a sequence", t.Name, db.Info().Engine, t.By))
		}
	}
	if err := w.columns(t, s); err != nil {
		return nil, fmt.Errorf("insert into %s: %w", t.Name, err)
	}
	// Writers use the primary key only to check that it contains the column By.
	w.table.PrimaryKey = []string{t.By}
	return w, w.table.Validate()
}

func (w *Keep) columns(t *engine.Table, s *engine.Schema) error {
	counted, err := w.counted(t, s)
	if err != nil {
		return err
	}
	for _, c := range s.Columns {
		if c.Generated || c.Auto && c.Name != t.By {
			continue
		}
		var f filler
		var col engine.Column
		switch {
		case c.Name == t.By:
			f, col, err = w.byColumn(t, c)
		default:
			f, col, err = w.column(c, counted[c.Name])
		}
		if errors.Is(err, column.ErrNoValues) && (c.Null || c.Default != "") {
			continue // the server fills it
		}
		if err != nil {
			return fmt.Errorf("column %s (%s): %w", c.Name, c.Native, err)
		}
		w.table.Columns = append(w.table.Columns, col)
		w.fill = append(w.fill, f)
	}
	return nil
}

// counted returns the columns whose values make rows of the same time differ:
// one column of each unique key.
func (w *Keep) counted(t *engine.Table, s *engine.Schema) (map[string]bool, error) {
	out := map[string]bool{}
	by := t.By
	if t.Grid.Axis() != rolling.Time {
		by = ""
	}
	for _, k := range keyColumns(s, by, func(c *engine.SchemaColumn) int64 {
		if c.Name == t.By { // a sequence: each row has another value
			return math.MaxInt64
		}
		return column.KeySpace(*c)
	}) {
		space := min(k.room, w.opt.Keys)
		need := int64(2 * w.opt.Rate)
		switch {
		case k.column == "":
			return nil, engine.Hinted(fmt.Errorf("the key (%s) has no column besides %s that distinguishes rows of the same second", Join(k.key), t.By),
				"a key with an integer or a text beside the time")
		case space < need:
			return nil, engine.Hinted(fmt.Errorf("the key (%s) has room for %d different rows of a second, and two seconds have %d", Join(k.key), space, need),
				"a lower --rate, or more --keys")
		}
		out[k.column] = true
	}
	return out, nil
}

// A keyColumn is one column of a unique key: the one that can have the most different values. room
// is the number of these values. column is "" if rowmill can't generate values for any column of
// the key.
type keyColumn struct {
	key    []string
	column string
	room   int64
}

// keyColumns returns one column for each unique key. room returns the number of different values
// that a column can have; a column whose values the server counts up has no limit. keyColumns never
// chooses column by.
func keyColumns(s *engine.Schema, by string, room func(*engine.SchemaColumn) int64) (out []keyColumn) {
	for _, key := range append(slices.Clone(s.Unique), s.PrimaryKey) {
		k := keyColumn{key: key}
		for _, name := range key {
			c := s.Column(name)
			if c == nil || name == by {
				continue
			}
			n := room(c)
			if c.Auto {
				n = math.MaxInt64
			}
			if n > k.room {
				k.column, k.room = name, n
			}
		}
		if len(key) > 0 {
			out = append(out, k)
		}
	}
	return out
}

// StartAt sets the first key of the rows to insert.
func (w *Keep) StartAt(key int64) { w.next.Store(key) }

// Table returns the table for use by counters.
func (w *Keep) Table() *engine.Table { return &w.table }

// Method returns the insert method.
func (w *Keep) Method() engine.Method { return w.opt.Method }

// Notes returns what was noted of the inserts so far.
func (w *Keep) Notes() KeepNotes {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.notes
	n.Stalls, n.Errors, n.Warnings = slices.Clone(n.Stalls), maps.Clone(n.Errors), slices.Clone(n.Warnings)
	return n
}

// Again forgets the notes, for another run.
func (w *Keep) Again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = KeepNotes{}
	w.most.Store(0)
}

// Background implements bench.Workload.
func (w *Keep) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	if w.Beside == nil {
		return nil
	}
	return w.Beside(ctx, event)
}

// Client implements bench.Workload.
func (w *Keep) Client(ctx context.Context, _ int) (bench.Client, error) {
	writer, err := w.db.Writer(ctx, &w.table, w.opt.Method)
	if err != nil {
		return nil, err
	}
	return &keepClient{w: w, writer: writer, batch: engine.NewBatch(w.table.Columns)}, nil
}

type keepClient struct {
	w      *Keep
	writer engine.Writer
	batch  *engine.Batch
	// lost means that the previous try may have been committed.
	lost bool
}

func (c *keepClient) Prepare(rows int) {
	c.lost = false
	from := c.w.next.Add(int64(rows)) - int64(rows)
	now := rolling.Position(c.w.opt.Now())
	c.batch.Reset()
	for i, fill := range c.w.fill {
		v := &c.batch.Columns[i]
		for row := from; row < from+int64(rows); row++ {
			fill(v, row, now)
		}
	}
	c.batch.EndRows(rows)
}

func (c *keepClient) Do(ctx context.Context) error {
	began := time.Now()
	err := c.insert(ctx)
	if ctx.Err() == nil {
		c.w.took(began, time.Since(began), err)
	}
	return err
}

func (c *keepClient) insert(ctx context.Context) error {
	ack, err := c.writer.Write(ctx, c.batch)
	if err != nil && c.w.table.Rolling() && (errors.Is(err, engine.ErrNoPartition) || errors.Is(err, engine.ErrNoTable)) {
		// Periods created or dropped by another process become known when the catalog is read again.
		if failed := c.writer.Reset(ctx); failed != nil {
			return errors.Join(err, failed)
		}
		ack, err = c.writer.Write(ctx, c.batch)
	}
	switch {
	case err != nil && c.lost && errors.Is(err, engine.ErrDuplicateKey):
		return nil // the previous try was committed after all
	case err != nil:
		return err
	case ack.Rows != int64(c.batch.Rows()):
		return fmt.Errorf("insert into %s: the server acknowledged %s of %d", c.w.table.Name, figure.Plural(ack.Rows, "row", "rows"), c.batch.Rows())
	}
	if len(ack.Warnings) > 0 {
		c.w.warn(ack.Warnings)
	}
	return nil
}

// took records the duration of an insert, and its error if it failed.
func (w *Keep) took(began time.Time, d time.Duration, err error) {
	if err == nil && d < w.opt.Stall && int64(d) <= w.most.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &w.notes
	if err != nil {
		if n.Errors == nil {
			n.Errors = map[string]int64{}
		}
		n.Errors[err.Error()]++
	}
	if d > n.Longest.Took {
		n.Longest = SlowInsert{began, d}
		w.most.Store(int64(d))
	}
	if d >= w.opt.Stall {
		n.Slow++
		if len(n.Stalls) < maxStalls {
			n.Stalls = append(n.Stalls, SlowInsert{began, d})
		}
	}
}

func (w *Keep) warn(said []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range said {
		if known := w.notes.Warnings; len(known) < maxWarnings && !slices.Contains(known, text) {
			w.notes.Warnings = append(known, text)
		}
	}
}

func (c *keepClient) Recover(ctx context.Context, failed error) error {
	c.lost = c.lost || errors.Is(failed, engine.ErrConnectionLost)
	return c.writer.Reset(ctx)
}

func (c *keepClient) Close() error { return c.writer.Close() }

// A filler appends a column's value for one row to the column's vector. now is the present time, as
// a position.
type filler func(v *engine.Vector, row, now int64)

// smallNumbers is the number of different values of a number that is not in a key.
const smallNumbers = 1000

func (w *Keep) byColumn(t *engine.Table, c engine.SchemaColumn) (filler, engine.Column, error) {
	col := engine.Column{Name: c.Name, Type: engine.Time}
	switch {
	case t.Grid.Axis() == rolling.Sequence:
		col.Type = engine.Int64
		return func(v *engine.Vector, row, _ int64) { v.Ints = append(v.Ints, row) }, col, nil
	case t.Epoch > 0:
		col.Type = engine.Int64
		per := t.Epoch.Microseconds()
		return func(v *engine.Vector, _, now int64) { v.Ints = append(v.Ints, now/per) }, col, nil
	case c.Kind != value.Time:
		return nil, col, column.ErrNoValues
	}
	return wholeSeconds, col, nil
}

// wholeSeconds appends the present time, in the form in which writers send it.
func wholeSeconds(v *engine.Vector, _, now int64) {
	v.Ints = append(v.Ints, now-(now%1e6+1e6)%1e6)
}

// column returns the filler of a column other than the table's By. If counted, the
// values of successive rows differ until all have been used; otherwise they are random.
func (w *Keep) column(c engine.SchemaColumn, counted bool) (filler, engine.Column, error) {
	col := engine.Column{Name: c.Name, Null: c.Null}
	salt := draw.Salt(w.opt.Seed, c.Name)
	number := func(row int64) uint64 { return draw.Mix(salt ^ uint64(row)) }
	if c.Kind == value.Time {
		col.Type = engine.Time
		return wholeSeconds, col, nil
	}
	most := int64(column.MostDistinct)
	switch {
	case c.Numeric() && !counted:
		most = smallNumbers
	case counted:
		most = min(w.opt.Keys, column.KeySpace(c), column.MostDistinct)
	}
	f := column.Column{SchemaColumn: &c, Values: rolling.ColumnValues{Distinct: most, Order: rolling.OrderRandom}, Counted: counted, Salt: salt}
	made, space, err := f.Generator()
	if err != nil {
		return nil, col, err
	}
	most = min(most, space)
	if counted {
		step := draw.Coprime(most)
		number = func(row int64) uint64 { return uint64((row % most) * step % most) }
	}
	return func(v *engine.Vector, row, _ int64) { made.Put(v, number(row)%uint64(most)) }, made.Column, nil
}
