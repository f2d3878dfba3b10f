package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Definer = (*DB)(nil)

// Tables implements engine.Definer. It lists neither rolling tables, which are views, nor the
// tables of their periods.
func (db catalog) Tables(ctx context.Context) ([]engine.ListedTable, error) {
	names, err := db.sizer().Named(ctx, "")
	if err != nil {
		return nil, err
	}
	conn, err := db.openReader(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	defer conn.Close()
	var periods []string
	if slices.Contains(names, "rowmill_periods") {
		if periods, err = texts(conn, "SELECT table_name || '_' || name FROM rowmill_periods"); err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
	}
	var out []engine.ListedTable
	for _, name := range names {
		if strings.HasPrefix(name, "sqlite_") || slices.Contains(periods, name) {
			continue
		}
		var size engine.PeriodSize
		whole, err := db.sizer().trees(conn, &engine.Table{Name: name}, func(f *treeFile, r root) error {
			return errors.Join(ctx.Err(), f.add(&size, r))
		})
		if err != nil {
			return nil, fmt.Errorf("measure table %s: %w", name, err)
		}
		if !whole {
			size.Rows = -1
		}
		out = append(out, engine.ListedTable{Name: name, Rows: size.Rows, Data: size.Data, Index: size.Index})
	}
	return out, nil
}

// Estimate implements engine.Definer. SQLite has no statistics of sizes: Footprint reads the file.
func (db sizer) Estimate(ctx context.Context, table string) (*engine.Footprint, error) {
	return db.Footprint(ctx, table)
}

func (db catalog) Definition(ctx context.Context, name string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("read how table %s was made: %w", name, err)
	}
	conn, err := db.openReader(ctx)
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	made, err := texts(conn, "SELECT sql FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type = 'index', name", name)
	if err != nil {
		return fail(err)
	}
	if len(made) == 0 || !strings.HasPrefix(strings.ToUpper(made[0]), "CREATE TABLE") {
		return fail(engine.Classed(engine.ErrNoTable, errors.New("no such table")))
	}
	return strings.Join(made, ";\n"), nil
}
