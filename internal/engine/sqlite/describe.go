package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// Describe implements engine.Keeper. For a rolling table, which is a view, it
// describes the newest store. By is set only for a declared table.
func (db *DB) Describe(ctx context.Context, name string) (*engine.Schema, error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", name, classify(err))
	}
	defer conn.Close()
	var s *engine.Schema
	err = conn.Raw(func(c any) (err error) {
		d := describer{func(q string, args []driver.Value, fn func([]driver.Value) error) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return each(c.(*pooled).connection, q, args, fn)
		}}
		s, err = d.describe(name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", name, err)
	}
	return s, nil
}

// A describer reads SQLite's schema.
type describer struct {
	query func(q string, args []driver.Value, fn func([]driver.Value) error) error
}

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
	err := d.query("SELECT type, name, sql FROM sqlite_schema WHERE lower(name) = lower(?) AND type IN ('table', 'view')", []driver.Value{name},
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
	for _, part := range []func(s *engine.Schema, of string) error{d.columns, d.indexes, d.foreignKeys, d.triggers, d.options} {
		if err := part(s, of); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// newestStore returns the table of the last period, or "" if there are no periods.
func (d describer) newestStore(name string) (string, error) {
	newest := ""
	err := d.query("SELECT table_name || '_' || name FROM rowmill_periods WHERE table_name = ? ORDER BY lower DESC LIMIT 1", []driver.Value{name},
		func(row []driver.Value) error { newest = text(row[0]); return nil })
	if errors.Is(err, engine.ErrNoTable) {
		return "", nil
	}
	return newest, err
}

func (d describer) columns(s *engine.Schema, of string) error {
	var keys []string // in key order
	intKey := ""
	err := d.query("SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)", []driver.Value{of}, func(row []driver.Value) error {
		c := engine.SchemaColumn{Name: text(row[0]), Native: text(row[1]), Null: row[2] == int64(0), Kind: kindOf(text(row[1])), Default: text(row[3])}
		switch row[5] {
		case int64(1): // of a virtual table
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
	err := d.query("SELECT name, origin, \"unique\", partial FROM pragma_index_list(?) ORDER BY seq DESC", []driver.Value{of}, func(row []driver.Value) error {
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
		err := d.query("SELECT name FROM pragma_index_info(?) ORDER BY seqno", []driver.Value{ix.name}, func(row []driver.Value) error {
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
		if plain {
			s.Indexes = append(s.Indexes, engine.Index{Name: strings.TrimPrefix(ix.name, of+"_"), Columns: cols})
		} else {
			// Indexes can represent neither partial indexes nor expressions.
			s.Options["index "+ix.name] = "partial, or of an expression"
		}
	}
	return nil
}

// foreignKeys lists the foreign keys of the table and those that refer to it.
// SQLite doesn't name them, so each is identified by its table and columns.
func (d describer) foreignKeys(s *engine.Schema, of string) error {
	return d.query(`SELECT m.name || '(' || group_concat(f."from", ', ') || ')' FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f
WHERE m.type = 'table' AND (m.name = ?1 OR lower(f."table") IN (lower(?1), lower(?2))) GROUP BY m.name, f.id ORDER BY m.name, f.id`,
		[]driver.Value{of, s.Name}, func(row []driver.Value) error {
			s.ForeignKeys = append(s.ForeignKeys, text(row[0]))
			return nil
		})
}

func (d describer) triggers(s *engine.Schema, of string) error {
	return d.query("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN (?, ?) ORDER BY name", []driver.Value{of, s.Name}, func(row []driver.Value) error {
		if name := text(row[0]); !ownTrigger(s.Name, name) {
			s.Triggers = append(s.Triggers, name)
		}
		return nil
	})
}

func (d describer) options(s *engine.Schema, of string) error {
	return d.query("SELECT wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ?", []driver.Value{of}, func(row []driver.Value) error {
		if row[0] == int64(1) {
			s.Options["without rowid"] = "yes"
			for _, name := range s.PrimaryKey {
				s.Column(name).Null = false // here PRIMARY KEY implies NOT NULL
			}
		}
		if row[1] == int64(1) {
			s.Options["strict"] = "yes"
		}
		return nil
	})
}
