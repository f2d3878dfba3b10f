// Package maintain keeps rolling tables: it looks at a table and its
// declaration, plans what is to be done, and does it, step by step, so that a
// crash at any point costs nothing but time.
package maintain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/maintain/state"
	"github.com/rowmill/rowmill/rolling"
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
}

// Clock returns the present as the positions of a time axis.
func Clock(now func() time.Time) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) { return rolling.Position(now()), nil }
}

// Open looks for the declared table on its database.
func Open(ctx context.Context, db engine.Keeper, d *rolling.Declaration, now func() time.Time) (*Table, error) {
	t := &Table{DB: db, Declared: d, State: state.New(db), Now: Clock(now)}
	t.Table = &engine.Table{Name: d.Name, Grid: d.Period, By: d.Time, Epoch: d.Epoch, Definition: d.Definition, PrimaryKey: d.Definition.PrimaryKey}
	return t, t.look(ctx)
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
	t.Schema = s
	return nil
}

func isNoTable(err error) bool { return errors.Is(err, engine.ErrNoTable) }
