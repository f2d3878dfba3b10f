package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

type catalog struct{ db *DB }

// Catalog implements engine.DB.
func (db *DB) Catalog() engine.Catalog { return catalog{db} }

// query executes a query on a new connection and calls fn for each row.
func (c catalog) query(ctx context.Context, q string, args []driver.Value, fn func(row []driver.Value) error) error {
	conn, err := c.db.reader(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return each(conn, q, args, fn)
}

func each(conn *connection, q string, args []driver.Value, fn func(row []driver.Value) error) error {
	rows, err := conn.Query(q, args)
	if err != nil {
		return classify(err)
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return classify(err)
		}
		if err := fn(row); err != nil {
			return err
		}
	}
}

// inspect executes one of the two queries of Inspect.
func (c catalog) inspect(ctx context.Context, t *engine.Table, query int, fn func(row []driver.Value) error) error {
	statements, err := dialect{}.Render(engine.Inspect{Table: t})
	if err != nil {
		return err
	}
	return c.query(ctx, statements[query], nil, fn)
}

// Exists implements engine.Catalog.
func (c catalog) Exists(ctx context.Context, t *engine.Table) (bool, error) {
	found := false
	if err := c.inspect(ctx, t, 0, func([]driver.Value) error { found = true; return nil }); err != nil {
		return false, fmt.Errorf("look for table %s: %w", t.Name, err)
	}
	if found {
		return true, nil
	}
	// Without its view, a table exists if the table of one of its periods exists.
	// The other rows of rowmill_periods are left from tables that their owner
	// dropped.
	err := c.query(ctx, "SELECT 1 FROM rowmill_periods WHERE table_name = ? AND "+hasStore+" LIMIT 1", []driver.Value{t.Name},
		func([]driver.Value) error { found = true; return nil })
	if err != nil && !errors.Is(err, engine.ErrNoTable) {
		return false, fmt.Errorf("look for periods of table %s: %w", t.Name, err)
	}
	return found, nil
}

// periods returns the table's periods from rowmill_periods.
func (c catalog) periods(ctx context.Context, t *engine.Table) ([]rolling.Partition, error) {
	var parts []rolling.Partition
	err := c.inspect(ctx, t, 1, func(row []driver.Value) error {
		p, err := periodOf(row)
		parts = append(parts, p)
		return err
	})
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil // this file never had a rolling table
	}
	if err != nil {
		return nil, fmt.Errorf("periods of %s: %w", t.Name, err)
	}
	return parts, nil
}

// periodOf reads a row of rowmill_periods: name and bounds.
func periodOf(row []driver.Value) (p rolling.Partition, err error) {
	var okName, okFrom, okTo bool
	p.Name, okName = row[0].(string)
	p.From, okFrom = row[1].(int64)
	p.To, okTo = row[2].(int64)
	if !okName || !okFrom || !okTo {
		return p, fmt.Errorf("rowmill_periods: row %v has other types than rowmill writes", row)
	}
	return p, nil
}

// Partitions implements engine.Catalog.
func (c catalog) Partitions(ctx context.Context, t *engine.Table) ([]rolling.Partition, error) {
	parts, err := c.periods(ctx, t)
	if err != nil || len(parts) > 0 {
		return parts, err
	}
	exists, err := c.Exists(ctx, t)
	if err == nil && !exists {
		err = engine.Classed(engine.ErrNoTable, fmt.Errorf("periods of %s: no such table", t.Name))
	}
	return nil, err
}

// settingPragmas are the settings that a run record stores.
var settingPragmas = []string{"journal_mode", "synchronous", "cache_size", "page_size", "wal_autocheckpoint",
	"mmap_size", "temp_store", "auto_vacuum", "locking_mode", "secure_delete", "busy_timeout", "threads"}

// Settings implements engine.Catalog: pragmas of the write connection.
func (c catalog) Settings(ctx context.Context) (map[string]string, error) {
	if err := c.db.lock(ctx); err != nil {
		return nil, err
	}
	defer c.db.unlock()
	out := map[string]string{}
	for _, p := range settingPragmas {
		err := each(c.db.write, "PRAGMA "+p, nil, func(row []driver.Value) error {
			if text, ok := row[0].([]byte); ok {
				row[0] = string(text)
			}
			out[p] = fmt.Sprint(row[0])
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read setting %s: %w", p, err)
		}
	}
	var options []string
	err := each(c.db.write, "PRAGMA compile_options", nil, func(row []driver.Value) error {
		if s, ok := row[0].(string); ok && (strings.HasPrefix(s, "DEFAULT_") || strings.HasPrefix(s, "THREADSAFE")) {
			options = append(options, s)
		}
		return nil
	})
	out["compile_options"] = strings.Join(options, " ")
	return out, err
}
