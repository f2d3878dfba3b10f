package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A catalog reads sqlite_schema and rowmill_periods: see engine.Catalog.
type catalog struct{ *database }

func (db *database) Catalog() engine.Catalog { return db.catalog() }

func (db *database) catalog() catalog { return catalog{db} }

// each calls fn for each row of a query.
func each(conn *connection, q string, args []driver.Value, fn func(row []driver.Value) error) error {
	rows, err := conn.Query(q, args)
	if err != nil {
		return classify(err)
	}
	return classify(engine.EachDriverRow(rows, fn))
}

// texts returns the values of a query's first column, "" for NULL.
func texts(conn *connection, q string, args ...driver.Value) (out []string, err error) {
	err = each(conn, q, args, func(row []driver.Value) error {
		out = append(out, text(row[0]))
		return nil
	})
	return out, err
}

// has reports whether a query returns rows.
func has(conn *connection, q string, args ...driver.Value) (bool, error) {
	rows, err := texts(conn, q, args...)
	return len(rows) > 0, err
}

// reading calls fn with a connection of a pool, because a new connection takes tens of milliseconds
// to read the schema of thousands of tables.
func (db *database) reading(ctx context.Context, fn func(*connection) error) error {
	conn, err := db.reads.Conn(ctx)
	if err != nil {
		return classify(err)
	}
	defer conn.Close()
	return conn.Raw(func(c any) error { return fn(c.(*pooled).connection) })
}

func (db catalog) Exists(ctx context.Context, t *engine.Table) (found bool, err error) {
	err = db.reading(ctx, func(conn *connection) error {
		found, err = exists(conn, t)
		return err
	})
	return found, engine.About(ctx, err, "look for table "+t.Name)
}

func exists(conn *connection, t *engine.Table) (bool, error) {
	if found, err := has(conn, dialect{}.exists(t)); found || err != nil {
		return found, err
	}
	// A rolling table whose view is missing exists if at least one of its periods has a table. Rows of
	// rowmill_periods without a table are left from rolling tables that their owner dropped.
	found, err := has(conn, "SELECT 1 FROM rowmill_periods WHERE table_name = ? AND "+hasStore+" LIMIT 1", t.Name)
	if errors.Is(err, engine.ErrNoTable) {
		return false, nil
	}
	return found, err
}

// periods returns a table's periods in order.
func periods(conn *connection, t *engine.Table) (parts []rolling.Partition, err error) {
	err = each(conn, dialect{}.periods(t), nil, func(row []driver.Value) error {
		var p rolling.Partition
		var okName, okFrom, okTo bool
		p.Name, okName = row[0].(string)
		p.From, okFrom = row[1].(int64)
		p.To, okTo = row[2].(int64)
		if !okName || !okFrom || !okTo {
			return fmt.Errorf("rowmill_periods: row %v has other types than rowmill writes", row)
		}
		parts = append(parts, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("periods of %s: %w", t.Name, err)
	}
	return parts, nil
}

func (db catalog) Partitions(ctx context.Context, t *engine.Table) (parts []rolling.Partition, err error) {
	err = db.reading(ctx, func(conn *connection) error {
		parts, err = periods(conn, t)
		if err != nil && !errors.Is(err, engine.ErrNoTable) || len(parts) > 0 {
			return err
		}
		found, err := exists(conn, t) // perhaps a plain table
		if err == nil && !found {
			err = engine.Classed(engine.ErrNoTable, errors.New("no such table"))
		}
		if err != nil {
			err = fmt.Errorf("periods of %s: %w", t.Name, err)
		}
		return err
	})
	return parts, err
}

// settingPragmas are the settings that a run record stores.
var settingPragmas = []string{"journal_mode", "synchronous", "cache_size", "page_size", "wal_autocheckpoint",
	"mmap_size", "temp_store", "auto_vacuum", "locking_mode", "secure_delete", "busy_timeout", "threads"}

// Settings implements engine.Catalog: pragmas of the write connection.
func (db catalog) Settings(ctx context.Context) (map[string]string, error) {
	if err := db.lock(ctx); err != nil {
		return nil, err
	}
	defer db.unlock()
	out := map[string]string{}
	for _, p := range settingPragmas {
		err := each(db.write, "PRAGMA "+p, nil, func(row []driver.Value) error {
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
	options, err := texts(db.write, "PRAGMA compile_options")
	options = slices.DeleteFunc(options, func(s string) bool {
		return !strings.HasPrefix(s, "DEFAULT_") && !strings.HasPrefix(s, "THREADSAFE")
	})
	out["compile_options"] = strings.Join(options, " ")
	return out, err
}

// Describe implements engine.Keeper. For a rolling table, which is a view, it describes the newest
// period's table. By is set only for a declared table.
func (db catalog) Describe(ctx context.Context, name string) (s *engine.Schema, err error) {
	err = db.reading(ctx, func(conn *connection) (err error) {
		s, err = db.describe(conn, name)
		return err
	})
	return s, engine.About(ctx, err, "describe table "+name)
}

// schemas caches descriptions of tables, all of one version of the schema, because describing a
// table reads the whole schema.
type schemas struct {
	mu      sync.Mutex
	version int64
	tables  map[string]*engine.Schema
}

func (db catalog) describe(conn *connection, name string) (*engine.Schema, error) {
	var version int64
	err := each(conn, "PRAGMA schema_version", nil, func(row []driver.Value) error {
		version, _ = row[0].(int64)
		return nil
	})
	if err != nil {
		return nil, err
	}
	db.schemas.mu.Lock()
	defer db.schemas.mu.Unlock()
	if db.schemas.tables == nil || db.schemas.version != version {
		db.schemas.version, db.schemas.tables = version, map[string]*engine.Schema{}
	}
	s := db.schemas.tables[name]
	if s == nil {
		if s, err = (describer{conn}).describe(name); err != nil {
			return nil, err
		}
		db.schemas.tables[name] = s
	}
	own := *s
	return &own, nil
}

// A describer reads SQLite's schema.
type describer struct{ conn *connection }

// text returns a column of a row as text, "" for NULL.
func text(v driver.Value) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	case string:
		return v
	}
	return fmt.Sprint(v)
}

func (d describer) describe(name string) (*engine.Schema, error) {
	s := &engine.Schema{Name: name, Options: map[string]string{}}
	kind, body := "", ""
	err := each(d.conn, "SELECT type, name, sql FROM sqlite_schema WHERE lower(name) = lower(?) AND type IN ('table', 'view')", []driver.Value{name},
		func(row []driver.Value) error {
			kind, s.Name, body = text(row[0]), text(row[1]), text(row[2])
			return nil
		})
	if err != nil {
		return nil, err
	}
	if kind == "" {
		return nil, engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	}
	of := s.Name
	if kind == "view" {
		s.View, s.By = true, rollsBy(body)
		if of, err = d.newestStore(s.Name); err != nil {
			return nil, err
		}
		if of == "" {
			of = s.Name // a view that rowmill did not create
		} else {
			s.Partitioned = true
		}
	}
	for _, part := range []func(s *engine.Schema, of string) error{d.columns, d.indexes, d.options} {
		if err := part(s, of); err != nil {
			return nil, err
		}
	}
	const triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN (?, ?) ORDER BY name"
	s.Triggers, err = texts(d.conn, triggers, of, s.Name)
	s.Triggers = slices.DeleteFunc(s.Triggers, func(name string) bool { return ownTrigger(s.Name, name) })
	return s, err
}

// newestStore returns the table of the last period, or "" if there are no periods.
func (d describer) newestStore(name string) (string, error) {
	const last = "SELECT table_name || '_' || name FROM rowmill_periods WHERE table_name = ? ORDER BY lower DESC LIMIT 1"
	newest, err := texts(d.conn, last, name)
	if errors.Is(err, engine.ErrNoTable) || err == nil && len(newest) == 0 {
		return "", nil
	}
	return strings.Join(newest, ""), err
}

func (d describer) columns(s *engine.Schema, of string) error {
	var keys []string // in key order
	intKey := ""
	err := each(d.conn, "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)", []driver.Value{of}, func(row []driver.Value) error {
		c := engine.SchemaColumn{Name: text(row[0]), Native: text(row[1]), Null: row[2] == int64(0), Type: typeOf(text(row[1])), Default: text(row[3])}
		switch row[5] {
		case int64(1): // a hidden column of a virtual table
			return nil
		case int64(2), int64(3):
			c.Generated = true
		}
		if pk, _ := row[4].(int64); pk > 0 {
			for int64(len(keys)) < pk {
				keys = append(keys, "")
			}
			keys[pk-1] = c.Name
			if strings.EqualFold(c.Native, "INTEGER") {
				intKey = c.Name
			}
		}
		s.Columns = append(s.Columns, c)
		return nil
	})
	if err != nil {
		return err
	}
	s.PrimaryKey = keys
	// An INTEGER PRIMARY KEY is the rowid, which SQLite assigns if it is NULL.
	if len(keys) == 1 && intKey != "" {
		c := s.Column(intKey)
		c.Auto, c.Null = true, false
	}
	return nil
}

func (d describer) indexes(s *engine.Schema, of string) error {
	type index struct {
		name, origin    string
		unique, partial bool
	}
	var all []index
	err := each(d.conn, "SELECT name, origin, \"unique\", partial FROM pragma_index_list(?) ORDER BY seq DESC", []driver.Value{of}, func(row []driver.Value) error {
		all = append(all, index{text(row[0]), text(row[1]), row[2] == int64(1), row[3] == int64(1)})
		return nil
	})
	if err != nil {
		return err
	}
	for _, ix := range all {
		if ix.origin == "pk" {
			continue
		}
		var cols []string
		plain := !ix.partial
		err := each(d.conn, "SELECT name FROM pragma_index_info(?) ORDER BY seqno", []driver.Value{ix.name}, func(row []driver.Value) error {
			plain = plain && row[0] != nil // NULL means an expression
			cols = append(cols, text(row[0]))
			return nil
		})
		if err != nil {
			return err
		}
		switch {
		case ix.unique && plain:
			s.Unique = append(s.Unique, cols)
		case ix.unique:
			s.UniqueOther = append(s.UniqueOther, ix.name)
		}
		if plain { // s.Indexes can represent neither partial indexes nor expressions
			s.Indexes = append(s.Indexes, engine.Index{Name: strings.TrimPrefix(ix.name, of+"_"), Columns: cols})
		}
	}
	return nil
}

func (d describer) options(s *engine.Schema, of string) error {
	return each(d.conn, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND wr = 1 AND name = ?", []driver.Value{of}, func([]driver.Value) error {
		s.Options["without rowid"] = "yes"
		for _, name := range s.PrimaryKey {
			s.Column(name).Null = false // WITHOUT ROWID, PRIMARY KEY implies NOT NULL
		}
		return nil
	})
}
