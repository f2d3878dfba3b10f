// Package rollup keeps the roll-ups (continuous aggregates) of a rolling table: tables with one row
// for each time bucket and group, computed from the raw rows or from a finer roll-up.
//
// A bucket is always computed and replaced as a whole, so it may be computed twice. Changes are
// detected in three ways: by notes that loaders (state.Batch.Rows) or triggers write in the
// transactions of the rows, by comparing row counts, and by request of a user. A refresh works
// level by level: it turns notes into stale buckets, recomputes those, and continues from the
// watermark. Each step is one transaction, so that a crash loses nothing. Before raw rows are
// removed, their buckets are sealed, and remain unchanged from then on.
//
// Each level has a view, NAME_live, that is correct at any moment: it computes from raw rows the
// buckets that the roll-up lacks.
//
// The package rejects groups that may be NULL, aggregates of unsuitable types, and names that
// clash.
package rollup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Set is the roll-ups of one rolling table. Its methods may be called by one goroutine
// at a time. Several Sets, also in several processes, may work on the same table.
type Set struct {
	db       engine.Keeper
	sums     engine.SumWords
	st       *state.Store
	table    *engine.Table
	schema   *engine.Schema
	declared *rolling.Declaration
	levels   []*level
	raw      source
	memory   int // approximate size of sketches at which they are stored
	traced   tracing

	before func(ctx context.Context, q string) // called with each statement, in tests

	// Guard, unless nil, executes each deletion of roll-up rows that have passed retention, by calling
	// remove. It may refuse the deletion, because the declaration may have changed in the meantime.
	Guard func(ctx context.Context, remove func(ctx context.Context) error) error
	// Reading, unless nil, is called before each statement that reads raw rows, and may delay it. The
	// returned function is called when the statement has ended. A process that is about to change the
	// table's partitions delays the statements, so that neither its lock nor the inserts queued behind
	// the lock wait for them.
	Reading func() (end func())
	// Lost, unless nil, is called with a period after the raw rows of the period were read. If some
	// of the raw rows had been removed before, Lost calls Lose; then the buckets computed from the
	// remaining rows are discarded.
	Lost func(ctx context.Context, p rolling.Period) error
}

// New checks the declaration's roll-ups against the table's schema.
func New(db engine.Keeper, st *state.Store, t *engine.Table, schema *engine.Schema, d *rolling.Declaration) (*Set, error) {
	s := &Set{db: db, st: st, table: t, schema: schema, declared: d, memory: sketchMemory}
	s.raw = s.rawRows()
	if len(d.Rollups) == 0 {
		return s, nil
	}
	var ok bool
	if s.sums, ok = db.Words().(engine.SumWords); !ok {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("roll-ups on %s are not supported", db.Info().Engine))
	}
	if schema.Column(d.Time) == nil {
		return nil, fmt.Errorf("roll-ups of %s: table %s has no column %s", t.Name, schema.Name, d.Time)
	}
	if err := usable(t.Name, ""); err != nil {
		return nil, fmt.Errorf("roll-ups: %w", err)
	}
	var err error
	if s.levels, err = newLevels(schema, d); err != nil {
		return nil, err
	}
	for _, l := range s.levels {
		if err := usable(l.Name, "_live"); err != nil {
			return nil, fmt.Errorf("roll-up: %w", err)
		}
		if l.keys, err = s.keysOf(l); err != nil {
			return nil, fmt.Errorf("roll-up %s: %w", l.Name, err)
		}
	}
	return s, nil
}

// usable rejects names that some server can't have in a literal, or that PostgreSQL would truncate.
func usable(name, suffix string) error {
	if strings.ContainsAny(name, "'\"`\\?$\x00") {
		return fmt.Errorf("the name %q has characters that roll-ups don't support", name)
	}
	if len(name+suffix) > 63 {
		return fmt.Errorf("the name %s is longer than %d bytes", name, 63-len(suffix))
	}
	return nil
}

const triggerName = "rowmill_touch"

func (s creator) note() engine.NoteRow {
	finest := s.levels[0]
	for _, l := range s.levels {
		if l.from == nil && s.shorter(l, finest) {
			finest = l
		}
	}
	return engine.NoteRow{
		Name: triggerName,
		Into: state.NotesInto,
		Values: func(by string) []string {
			b := s.bucketOf(finest, s.db.Words().Position(s.table, by))
			return []string{quoteText(s.table.Name), b, s.endOf(finest, b) + " - 1"}
		},
		Watermark: fmt.Sprintf("(SELECT MAX(watermark) FROM rowmill_rollups WHERE table_name = %s)", quoteText(s.table.Name)),
	}
}

func (s creator) shorter(a, b *level) bool {
	x, y := a.Every.Bucketing(), b.Every.Bucketing()
	if (x.Months > 0) != (y.Months > 0) {
		return y.Months > 0
	}
	return x.Months < y.Months || x.Step < y.Step
}

// Statements returns the statements, without terminators, that Create would execute for the tables
// and views of the named roll-ups if the database had none of them.
func (s *Set) Statements(names ...string) []string {
	var out []string
	for _, l := range s.levels {
		if !slices.Contains(names, l.Name) {
			continue
		}
		out = append(out, s.creator().createTable(l))
		out = append(out, s.sums.ReplaceView(l.view(), s.creator().viewQuery(l))...)
	}
	return out
}

func levelRow(table, level string) string {
	return fmt.Sprintf("WHERE table_name = %s AND name = %s", quoteText(table), quoteText(level))
}

// periods returns the tables of the periods; none if periods are no tables of their own.
func (s creator) periods(ctx context.Context) ([]string, error) {
	if !s.schema.View {
		return nil, nil
	}
	parts, err := s.db.Catalog().Partitions(ctx, s.table)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range parts {
		out = append(out, s.table.Name+"_"+p.Name)
	}
	return out, nil
}

// A spec is the stored description of how a level's rows are computed, and of its view.
type spec struct {
	Every   string            `json:"every"`
	By      []string          `json:"by"`
	From    string            `json:"from"`
	Columns map[string]string `json:"columns"`
	View    string            `json:"view"`
}

// A creator makes the tables and views of levels, and the triggers that note changed rows.
type creator struct{ *Set }

func (s *Set) creator() creator { return creator{s} }

func (s creator) specOf(l *level) spec {
	sp := newSpec(l.Rollup)
	sp.View = fmt.Sprintf("%x", sha256.Sum256([]byte(s.viewQuery(l))))
	return sp
}

func newSpec(r rolling.Rollup) spec {
	sp := spec{Every: r.Every.String(), By: slices.Clone(r.By), From: r.From, Columns: map[string]string{}}
	for _, a := range r.Select {
		text := a.Func + "(" + a.Column
		if a.Func == "percentile" {
			text += fmt.Sprintf(", %v", a.Percent)
		}
		sp.Columns[a.Name] = text + ")"
	}
	return sp
}

// Create creates missing tables, views and triggers of the roll-ups. Call it again after periods
// were created, replaced or attached, and after a change of the declaration. If a level or an
// aggregate is new, all buckets with existing raw rows are recomputed.
func (s *Set) Create(ctx context.Context) error {
	for _, l := range s.levels {
		if err := s.creator().createLevel(ctx, l); err != nil {
			return fmt.Errorf("create roll-up %s: %w", l.Name, err)
		}
	}
	if len(s.levels) == 0 {
		return nil
	}
	c, err := s.TriggerChange(ctx)
	if err == nil && len(c.SQL) > 0 {
		err = s.creator().run(ctx, c.SQL)
	}
	if err != nil {
		return fmt.Errorf("create triggers of %s: %w", s.table.Name, err)
	}
	return nil
}

func (s creator) createLevel(ctx context.Context, l *level) error {
	want := s.specOf(l)
	have, err := s.spec(ctx, l)
	if err == nil {
		err = fits(have, want)
	}
	if err == nil && have != nil {
		have, err = s.unlessDropped(ctx, l, have)
	}
	if err == nil {
		err = s.createColumns(ctx, l)
	}
	if err != nil {
		return err
	}
	unset := l.Every.Bounds().From
	if have == nil {
		begin, end := s.sums.InsertNew()
		_, err := s.exec(ctx, s.db.SQL(), begin+" INTO rowmill_rollups (table_name, name, source, watermark, sealed_to, checked_us, updated_us, spec) VALUES (?, ?, ?, ?, ?, 0, ?, '{}')"+end,
			s.table.Name, l.Name, l.Rollup.From, unset, unset, time.Now().UnixMicro())
		if err != nil {
			return err
		}
		have = &spec{}
	}
	if !maps.Equal(have.Columns, want.Columns) {
		next := want
		next.View = have.View
		if err := s.startAgain(ctx, l, next, added(have, want)); err != nil {
			return err
		}
	}
	if there, err := s.exists(ctx, l.view()); err != nil || there && have.View == want.View {
		return err
	}
	if err := s.run(ctx, s.sums.ReplaceView(l.view(), s.viewQuery(l))); err != nil {
		return err
	}
	return s.record(ctx, s.db.SQL(), l, want)
}

// unlessDropped returns have, the recorded spec of a level. If somebody else has dropped the
// level's table, unlessDropped deletes the record and returns nil, so that all buckets with
// existing raw rows are computed. If the record stayed, only buckets after its watermark would be
// computed.
func (s creator) unlessDropped(ctx context.Context, l *level, have *spec) (*spec, error) {
	if there, err := s.levelTable(ctx, l); there != nil || err != nil {
		return have, err
	}
	return nil, engine.InTx(ctx, s.db, s.db.SQL(), nil, func(tx *sql.Tx) error {
		if _, err := s.exec(ctx, tx, "DELETE FROM rowmill_stale WHERE rollup_name = ?", l.Name); err != nil {
			return err
		}
		_, err := s.exec(ctx, tx, "DELETE FROM rowmill_rollups WHERE table_name = ? AND name = ?", s.table.Name, l.Name)
		return err
	})
}

func (s *Set) record(ctx context.Context, x execer, l *level, sp spec) error {
	text, err := json.Marshal(sp)
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, x, "UPDATE rowmill_rollups SET spec = ? WHERE table_name = ? AND name = ?", string(text), s.table.Name, l.Name)
	return err
}

func added(have *spec, want spec) bool {
	for name := range want.Columns {
		if _, ok := have.Columns[name]; !ok {
			return true
		}
	}
	return false
}

// fits rejects changes that would give a table rows of two kinds, e.g. of hours and of days.
func fits(have *spec, want spec) error {
	if have == nil || have.Every == "" {
		return nil
	}
	changed := func(what, from, to string) error {
		return engine.Hinted(fmt.Errorf("its %s is %s, and its rows can't be converted to %s", what, from, to), "declare another roll-up, under another name")
	}
	if have.Every != want.Every {
		return changed("bucket", have.Every, want.Every)
	}
	if !slices.Equal(have.By, want.By) {
		return changed("grouping", strings.Join(have.By, ", "), strings.Join(want.By, ", "))
	}
	if have.From != want.From {
		return changed("source", cmp.Or(have.From, "raw rows"), cmp.Or(want.From, "raw rows"))
	}
	for name, fn := range want.Columns {
		if old, ok := have.Columns[name]; ok && old != fn {
			return engine.Hinted(fmt.Errorf("column %s is %s, and its rows can't be converted to %s", name, old, fn), "give the aggregate another name")
		}
	}
	return nil
}

func (s creator) spec(ctx context.Context, l *level) (*spec, error) {
	var text string
	err := s.db.SQL().QueryRowContext(ctx, s.db.Bind("SELECT spec FROM rowmill_rollups WHERE table_name = ? AND name = ?"), s.table.Name, l.Name).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.db.Classify(err)
	}
	return parseSpec(text)
}

func parseSpec(text string) (*spec, error) {
	var sp spec
	if err := json.Unmarshal([]byte(text), &sp); err != nil {
		return nil, fmt.Errorf("its record: %w", err)
	}
	return &sp, nil
}

// levelTable returns the level's table, nil if it doesn't exist yet.
func (s creator) levelTable(ctx context.Context, l *level) (*engine.Schema, error) {
	there, err := s.db.Describe(ctx, l.Name)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if there.View || !slices.Equal(there.PrimaryKey, l.key()) || there.Column(RawRows) == nil {
		return nil, errTaken()
	}
	return there, nil
}

func (s creator) createColumns(ctx context.Context, l *level) error {
	there, err := s.levelTable(ctx, l)
	if err != nil {
		return err
	}
	if there == nil {
		return s.run(ctx, []string{s.createTable(l)})
	}
	for i := range l.aggs {
		for _, c := range s.columns(&l.aggs[i]) {
			if there.Column(c.name) == nil {
				if err := s.run(ctx, []string{fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s NULL", s.quote(l.Name), s.quote(c.name), c.typ)}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// startAgain stores a level's new spec. If again is true, it resets the watermark, so that all
// buckets with existing raw rows are recomputed; until then, the live view uses raw rows.
func (s creator) startAgain(ctx context.Context, l *level, sp spec, again bool) error {
	return engine.InTx(ctx, s.db, s.db.SQL(), nil, func(tx *sql.Tx) error {
		if err := s.record(ctx, tx, l, sp); err != nil || !again {
			return err
		}
		marks, err := s.marks(ctx, tx)
		if err != nil {
			return err
		}
		to := max(l.Every.Bounds().From, marks[l.Name].sealedTo)
		if l.from != nil {
			// Sealed buckets of the finer level lack the new aggregate, too.
			to = max(to, l.Every.Ceil(marks[l.from.Name].sealedTo))
		}
		if _, err := s.exec(ctx, tx, "UPDATE rowmill_rollups SET watermark = ? WHERE table_name = ? AND name = ? AND watermark > ?", to, s.table.Name, l.Name, to); err != nil {
			return err
		}
		_, err = s.exec(ctx, tx, "DELETE FROM rowmill_stale WHERE rollup_name = ? AND bucket >= ?", l.Name, to)
		return err
	})
}

// TriggerChange returns the change that makes the triggers match the declaration.
func (s *Set) TriggerChange(ctx context.Context) (engine.TriggerChange, error) {
	return s.creator().triggerChange(ctx, s.declared.Exact)
}

// WithoutTriggers returns the change that removes the triggers.
func (s *Set) WithoutTriggers(ctx context.Context) (engine.TriggerChange, error) {
	return s.creator().triggerChange(ctx, false)
}

// TriggerDrops returns the statements that drop all triggers and their functions, whether or not
// they exist.
func (s *Set) TriggerDrops() (out []string) {
	if len(s.levels) > 0 {
		out = engine.TriggerDrops(s.sums.Triggers(s.table, nil, s.creator().note()))
	}
	return out
}

func (s creator) triggerChange(ctx context.Context, wanted bool) (engine.TriggerChange, error) {
	if len(s.levels) == 0 {
		return engine.TriggerChange{}, nil
	}
	periods, err := s.periods(ctx)
	if err != nil {
		return engine.TriggerChange{}, err
	}
	return engine.ChangeTriggers(ctx, s.db, s.sums.HaveTriggers, s.table.Name, s.sums.Triggers(s.table, periods, s.note()), wanted)
}

func (s *Set) exists(ctx context.Context, name string) (bool, error) {
	rows, err := s.db.SQL().QueryContext(ctx, "SELECT 1 FROM "+s.quote(name)+" WHERE 1 = 0")
	if err != nil {
		if err = s.db.Classify(err); errors.Is(err, engine.ErrNoTable) {
			return false, nil
		}
		return false, err
	}
	return true, s.db.Classify(rows.Close())
}

// run executes changes of the schema in one transaction, if the server supports that.
func (s creator) run(ctx context.Context, statements []string) error {
	return engine.InTx(ctx, s.db, s.db.SQL(), nil, func(tx *sql.Tx) error {
		for _, q := range statements {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				first, _, _ := strings.Cut(q, "\n")
				return fmt.Errorf("%s: %w", first, err)
			}
		}
		return nil
	})
}

// Taken rejects declared roll-ups whose name belongs to a table or view that is not a roll-up. It
// doesn't read the table of raw rows, so it can be called before anything is created.
func Taken(ctx context.Context, db engine.Keeper, d *rolling.Declaration) error {
	for _, r := range d.Rollups {
		there, err := db.Describe(ctx, r.Name)
		if errors.Is(err, engine.ErrNoTable) {
			continue
		}
		if err == nil && (there.View || there.Column(RawRows) == nil) {
			err = errTaken()
		}
		if err != nil {
			return fmt.Errorf("create roll-up %s: %w", r.Name, err)
		}
	}
	return nil
}

func errTaken() error {
	return engine.Hinted(errors.New("the table of that name is not such a roll-up"), "give the roll-up another name")
}

// Changes returns the names of the roll-ups that Create would create, and of those that it would
// change. It rejects what Create rejects: tables that are not roll-ups, and changes that would
// leave old and new rows of different kinds in one table, e.g. with another length of buckets. It
// changes nothing.
func (s *Set) Changes(ctx context.Context) (made, changed []string, err error) {
	for _, l := range s.levels {
		want := s.creator().specOf(l)
		have, err := s.creator().spec(ctx, l)
		if errors.Is(err, engine.ErrNoTable) {
			have, err = nil, nil
		}
		if err == nil {
			err = fits(have, want)
		}
		var there *engine.Schema
		if err == nil {
			there, err = s.creator().levelTable(ctx, l)
		}
		same := have != nil && have.View == want.View && maps.Equal(have.Columns, want.Columns)
		if err == nil && there != nil && same {
			same, err = s.exists(ctx, l.view())
		}
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("create roll-up %s: %w", l.Name, err)
		case there == nil || have == nil:
			made = append(made, l.Name)
		case !same:
			changed = append(changed, l.Name)
		}
	}
	return made, changed, nil
}
