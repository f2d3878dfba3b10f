package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// kinds maps type names of pg_type to kinds. Values of all other types are
// carried as text.
var kinds = map[string]engine.Kind{
	"int2": engine.KindInt, "int4": engine.KindInt, "int8": engine.KindInt,
	"float4": engine.KindFloat, "float8": engine.KindFloat,
	"numeric":   engine.KindDecimal,
	"timestamp": engine.KindTime, "timestamptz": engine.KindTime, "date": engine.KindTime,
	"text": engine.KindText, "varchar": engine.KindText, "bpchar": engine.KindText, "name": engine.KindText,
	"bytea": engine.KindBytes,
}

// describeTable reads the table's properties from pg_class; $1 is the quoted name.
const describeTable = `SELECT c.oid, c.relkind::text, c.relpersistence::text, COALESCE(a.amname, ''), COALESCE(array_to_string(c.reloptions, ','), ''),
	COALESCE(s.spcname, ''),
	COALESCE((SELECT k.attname FROM pg_partitioned_table p JOIN pg_attribute k ON k.attrelid = p.partrelid AND k.attnum = p.partattrs[0]
		JOIN pg_type ty ON ty.oid = k.atttypid
		WHERE p.partrelid = c.oid AND p.partstrat = 'r' AND p.partnatts = 1
		AND ty.typname IN ('int2', 'int4', 'int8', 'timestamp', 'timestamptz', 'date')), ''),
	COALESCE((SELECT p.partdefid::regclass::text FROM pg_partitioned_table p WHERE p.partrelid = c.oid AND p.partdefid <> 0), ''),
	CASE WHEN c.relkind = 'p' THEN '' ELSE COALESCE((SELECT string_agg(i.inhrelid::regclass::text, ', ') FROM pg_inherits i WHERE i.inhparent = c.oid), '') END,
	COALESCE((SELECT string_agg(i.inhparent::regclass::text, ', ') FROM pg_inherits i WHERE i.inhrelid = c.oid), '')
FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.oid = to_regclass($1::text)`

const describeColumns = `SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, COALESCE(b.typname, t.typname), a.attgenerated <> '',
	a.attidentity::text, COALESCE(pg_get_expr(d.adbin, d.adrelid), ''),
	COALESCE((SELECT quote_ident(n.nspname) || '.' || quote_ident(co.collname) FROM pg_collation co JOIN pg_namespace n ON n.oid = co.collnamespace
		WHERE co.oid = a.attcollation AND a.attcollation <> t.typcollation), '')
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

// describeIndexes returns a row for each key column of each index. Columns that
// are only included (INCLUDE) are not part of the key.
const describeIndexes = `SELECT c.relname, i.indisprimary, i.indisunique, i.indpred IS NOT NULL, pg_get_indexdef(i.indexrelid, k, true),
	COALESCE(a.attname, '')
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) k
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k - 1] AND a.attnum <> 0
WHERE i.indrelid = $1::oid ORDER BY c.relname, k`

const describeForeignKeys = `SELECT conname FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND (conrelid = $1::oid OR confrelid = $1::oid) ORDER BY conname`

const describeTriggers = `SELECT tgname FROM pg_trigger WHERE tgrelid = $1::oid AND NOT tgisinternal ORDER BY tgname`

// Describe implements engine.Keeper. Options contains those that apply of:
// access_method, persistence (unlogged, temporary), reloptions, tablespace,
// kind (foreign table, materialized view), identity (always: the identity
// columns that accept a value only with OVERRIDING SYSTEM VALUE),
// default_partition, parent, and children by inheritance.
func (db *DB) Describe(ctx context.Context, name string) (*engine.Schema, error) {
	s, err := db.describe(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", name, classify(err))
	}
	return s, nil
}

func (db *DB) describe(ctx context.Context, name string) (*engine.Schema, error) {
	// One transaction, so that all queries use the same snapshot.
	tx, err := db.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	s := &engine.Schema{Name: name, Options: map[string]string{}}
	var oid int64
	var kind, persistence, method, options, space, fallback, children, parent string
	err = tx.QueryRowContext(ctx, describeTable, db.dialect.Quote(name)).
		Scan(&oid, &kind, &persistence, &method, &options, &space, &s.By, &fallback, &children, &parent)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	}
	if err != nil {
		return nil, err
	}
	s.Partitioned, s.View = kind == "p", kind == "v" || kind == "m"
	for option, v := range map[string]string{
		"access_method": method, "reloptions": options, "tablespace": space, "default_partition": fallback, "children": children, "parent": parent,
		"persistence": map[string]string{"u": "unlogged", "t": "temporary"}[persistence],
		"kind":        map[string]string{"f": "foreign table", "m": "materialized view"}[kind],
	} {
		if v != "" {
			s.Options[option] = v
		}
	}
	if err := readColumns(ctx, tx, oid, s); err != nil {
		return nil, err
	}
	if err := readIndexes(ctx, tx, oid, s); err != nil {
		return nil, err
	}
	for q, to := range map[string]*[]string{describeForeignKeys: &s.ForeignKeys, describeTriggers: &s.Triggers} {
		err := each(ctx, tx, q, oid, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			*to = append(*to, name)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return s, tx.Commit()
}

// each calls fn for each row of a query that has one parameter.
func each(ctx context.Context, tx *sql.Tx, q string, value any, fn func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, q, value)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func readColumns(ctx context.Context, tx *sql.Tx, oid int64, s *engine.Schema) error {
	var always []string
	err := each(ctx, tx, describeColumns, oid, func(rows *sql.Rows) error {
		var c engine.SchemaColumn
		var kind, identity string
		if err := rows.Scan(&c.Name, &c.Native, &c.Null, &kind, &c.Generated, &identity, &c.Default, &c.Collation); err != nil {
			return err
		}
		c.Kind = kinds[kind]
		c.Auto = identity != "" || strings.HasPrefix(c.Default, "nextval(")
		if identity == "a" {
			always = append(always, c.Name)
		}
		if c.Generated {
			c.Default = "" // the expression of a generated column
		}
		s.Columns = append(s.Columns, c)
		return nil
	})
	if len(always) > 0 {
		s.Options["identity"] = "always: " + strings.Join(always, ", ")
	}
	return err
}

func readIndexes(ctx context.Context, tx *sql.Tx, oid int64, s *engine.Schema) error {
	last := ""
	return each(ctx, tx, describeIndexes, oid, func(rows *sql.Rows) error {
		var name, expr, column string
		var primary, unique, partial bool
		if err := rows.Scan(&name, &primary, &unique, &partial, &expr, &column); err != nil {
			return err
		}
		if column == "" { // the key is an expression
			column = expr
		}
		first := name != last
		if unique && partial && first {
			s.UniqueOther = append(s.UniqueOther, name)
		}
		unique = unique && !partial
		last = name
		switch {
		case primary:
			s.PrimaryKey = append(s.PrimaryKey, column)
			return nil
		case first:
			s.Indexes = append(s.Indexes, engine.Index{Name: name})
			if unique {
				s.Unique = append(s.Unique, nil)
			}
		}
		ix := &s.Indexes[len(s.Indexes)-1]
		ix.Columns = append(ix.Columns, column)
		if unique {
			s.Unique[len(s.Unique)-1] = ix.Columns
		}
		return nil
	})
}
