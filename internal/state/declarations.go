package state

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A Declared is a table as last applied.
type Declared struct {
	Name string
	// Text is the text of the declaration, as TOML.
	Text string
	// Period is the period in force, in the syntax of rolling.Parse. If the declaration says "auto",
	// it is the period that was chosen.
	Period   string
	Revision int64
	Created  time.Time
	// Format is the constant Format of the rowmill that applied the table; 0 if it had none.
	Format int64
}

// Format is the format of the records in rowmill's own tables. It is raised with each change
// that an earlier version would misread: a version refuses tables of a later format.
const Format = 1

// declarations records the applied declaration of each table.
type declarations struct{ *database }

// Declared returns the applied declaration of the table, or nil.
func (s declarations) Declared(ctx context.Context, table string) (*Declared, error) {
	d, found := Declared{Name: table}, false
	into := map[string]any{"declaration": &d.Text, "period": &d.Period, "revision": &d.Revision, "created_us": micros{&d.Created}, "format": &d.Format}
	// SELECT *: if an earlier version created rowmill_tables, it lacks the column format.
	err := engine.Each(ctx, s.db, s.DB(), func(r *sql.Rows) error {
		found = true
		columns, err := r.Columns()
		values := make([]any, len(columns))
		for i, c := range columns {
			if values[i] = into[c]; values[i] == nil {
				values[i] = new(any)
			}
		}
		if err != nil {
			return err
		}
		return r.Scan(values...)
	}, "SELECT * FROM rowmill_tables WHERE name = ?", table)
	if err != nil || !found {
		return nil, because("the declaration applied for "+table, err)
	}
	return &d, nil
}

// Declare records an applied declaration, as the next revision.
func (s declarations) Declare(ctx context.Context, x Exec, table, text, period string) error {
	now := time.Now().UnixMicro()
	n, err := s.exec(ctx, x, "UPDATE rowmill_tables SET declaration = ?, period = ?, revision = revision + 1, updated_us = ?, format = ? WHERE name = ?", text, period, now, Format, table)
	if err == nil && n == 0 {
		err = s.insert(ctx, x, "rowmill_tables (name, declaration, period, revision, sealed_to, created_us, updated_us, format)",
			[]any{table, text, period, 1, int64(math.MinInt64), now, now, Format})
	}
	return because("record the declaration of "+table, err)
}

// RemoveDeclaration removes a table's applied declaration, and keeps its other records.
func (s declarations) RemoveDeclaration(ctx context.Context, x Exec, table string) error {
	return s.run(ctx, x, "remove the declaration of "+table, "DELETE FROM rowmill_tables WHERE name = ?", table)
}

// Undeclare removes a table's applied declaration, the records of its periods, and its leader.
func (s declarations) Undeclare(ctx context.Context, x Exec, table string) error {
	err := s.RemoveDeclaration(ctx, x, table)
	for _, from := range []string{"rowmill_states", "rowmill_leaders"} {
		if err == nil {
			err = s.run(ctx, x, "remove the declaration of "+table, "DELETE FROM "+from+" WHERE table_name = ?", table)
		}
	}
	return err
}

// recorded are rowmill's tables with a column table_name, without the prefix rowmill_.
var recorded = strings.Fields("undo rollups parts touched loaded publications cuts sources ledger leaders pauses requests schedule actions journal states")

// removals returns the statements of Remove. Each has one placeholder, for the table's name.
func removals() []string {
	out := []string{"DELETE FROM rowmill_tables WHERE name = ?", "DELETE FROM rowmill_stale WHERE rollup_name IN (SELECT name FROM rowmill_rollups WHERE table_name = ?)"}
	for _, name := range recorded {
		out = append(out, "DELETE FROM rowmill_"+name+" WHERE table_name = ?")
	}
	return out
}

// Remove removes all records of a table, including the log of its actions.
func (s declarations) Remove(ctx context.Context, x Exec, table string) error {
	for _, q := range removals() {
		if err := s.run(ctx, x, "remove what is recorded of "+table, q, table); err != nil {
			return err
		}
	}
	return nil
}

// Removals returns the statements of Remove, with ? for the table's name.
func (s declarations) Removals() []string { return removals() }

// Kept returns the names of all tables with an applied declaration.
func (s declarations) Kept(ctx context.Context) ([]string, error) {
	return list(ctx, s.database, "the declared tables", func(r *sql.Rows, name *string) error { return r.Scan(name) }, "SELECT name FROM rowmill_tables ORDER BY name")
}
