// Package maintain keeps rolling tables: it looks at a table and its
// declaration, plans what is to be done, and does it, step by step, so that a
// crash at any point costs nothing but time.
package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/maintain/copier"
	"github.com/rowmill/rowmill/maintain/rollup"
	"github.com/rowmill/rowmill/rolling"
	"github.com/rowmill/rowmill/state"
)

// A Table is a declared table on its open database.
type Table struct {
	DB       engine.Keeper
	Declared *rolling.Declaration
	State    *state.Store
	// Table is what engines are told of it; Schema what the catalog says, nil
	// while the table isn't there.
	Table  *engine.Table
	Schema *engine.Schema
	// Now is the position of the present: the clock, or for a sequence
	// the highest key.
	Now func(ctx context.Context) (int64, error)
	// Rollups are its levels; nil without any.
	Rollups *rollup.Set
	// Limits are how busy the server may be while rows are copied.
	Limits copier.Limits
	// Reached, unless nil, is told each point of each change of several steps:
	// tests end the process there.
	Reached func(point string)
	// Say, unless nil, is told what is done, and what keeps it from being done.
	Say func(Event)

	// Dir is what a relative path of the archive starts from; "" is the working
	// directory.
	Dir string

	// breath is how long nobody asks for the lock after a try in vain; 0 is
	// defaultBreath. Tests shorten it.
	breath time.Duration
	// mark is that of the applied declaration which Declared is; none unless
	// Follow has returned the table.
	mark  mark
	clock func(ctx context.Context) (int64, error)
	*shared
}

// archiveDir is where the archive lies, as an absolute path: it is written down
// for processes that run elsewhere.
func (t *Table) archiveDir() string {
	dir := t.Declared.Seal.Archive
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(t.Dir, dir)
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// An Event is something that happened while a table is kept.
type Event struct {
	At     time.Time
	Action string
	Detail string
	Took   time.Duration
	Err    error
	// Waiting tells that it will be tried again by itself.
	Waiting bool
}

func (t *Table) say(e Event) {
	if t.Say != nil {
		t.Say(e)
	}
}

// Clock returns the present as the positions of a time axis.
func Clock(now func() time.Time) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) { return rolling.Position(now()), nil }
}

// Open looks for the declared table on its database, and reads its schema
// where it is there.
func Open(ctx context.Context, db engine.Keeper, d *rolling.Declaration, now func() time.Time) (*Table, error) {
	t := &Table{DB: db, Declared: d, State: state.New(db), Now: Clock(now), clock: Clock(now), shared: &shared{}}
	if d.Auto && !d.Period.Valid() {
		was, err := t.State.Declared(ctx, d.Name)
		if err != nil && !isNoTable(err) {
			return nil, err
		}
		if was != nil {
			found := *d
			if found.Period, err = inForce(was); err != nil {
				return nil, err
			}
			t.Declared = &found
		}
	}
	t.Table = tableOf(t.Declared)
	if d.Period.Axis() == rolling.Sequence && d.Period.Valid() {
		t.Now = t.highest
	}
	if err := t.look(ctx); err != nil {
		return nil, err
	}
	return t, t.openLevels()
}

// inForce is the period that "auto" came to when a declaration was applied.
func inForce(d *state.Declared) (rolling.Grid, error) {
	g, err := rolling.Parse(d.Period)
	if err != nil {
		return g, fmt.Errorf("period in force of %s: %w", d.Name, err)
	}
	return g, nil
}

// look reads the table's schema, if it is there.
func (t *Table) look(ctx context.Context) error {
	s, err := t.DB.Describe(ctx, t.Table.Name)
	if err != nil {
		if isNoTable(err) {
			return nil
		}
		return fmt.Errorf("look at table %s: %w", t.Table.Name, err)
	}
	if s.View && !s.Partitioned {
		return engine.Hinted(fmt.Errorf("%s is a view, and rowmill keeps tables", t.Table.Name), "the name of the table that it reads, or one that is free")
	}
	t.Schema = s
	return nil
}

// openLevels makes the set of roll-ups once the table's columns are known.
func (t *Table) openLevels() error {
	if t.Schema == nil || len(t.Declared.Rollups) == 0 {
		return nil
	}
	set, err := rollup.New(t.DB, t.State, t.Table, t.Schema, t.Declared)
	if err != nil {
		return err
	}
	set.Reading = t.gate.read
	t.Rollups = set
	return nil
}

// highest is the present of a sequence: its highest key.
func (t *Table) highest(ctx context.Context) (int64, error) {
	if t.Schema == nil {
		return 0, nil
	}
	quote := t.DB.Dialect().Quote
	var max sql.NullInt64
	err := t.DB.SQL().QueryRowContext(ctx, "SELECT MAX("+quote(t.Table.By)+") FROM "+quote(t.Table.Name)).Scan(&max)
	if err != nil {
		return 0, fmt.Errorf("highest %s of %s: %w", t.Table.By, t.Table.Name, t.DB.Classify(err))
	}
	return max.Int64, nil
}

func isNoTable(err error) bool { return errors.Is(err, engine.ErrNoTable) }

// Reload reads the table's schema again, after something else has changed it.
func (t *Table) Reload(ctx context.Context) error {
	t.Schema, t.Rollups = nil, nil
	if err := t.look(ctx); err != nil {
		return err
	}
	return t.openLevels()
}
