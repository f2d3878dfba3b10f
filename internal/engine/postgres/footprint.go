package postgres

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Sizer = (*DB)(nil)

// Named implements engine.Sizer.
func (db *DB) Named(ctx context.Context, prefix string) ([]string, error) {
	rows, err := db.pool.QueryContext(ctx, "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') "+
		"AND starts_with(relname::text, $1) ORDER BY relname", prefix)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", classify(err))
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("list tables: %w", classify(err))
		}
		out = append(out, name)
	}
	return out, rows.Err()
}

// Footprint implements engine.Sizer. It returns the sizes of the files; the
// heap's size includes TOAST.
func (db *DB) Footprint(ctx context.Context, table string) (*engine.Footprint, error) {
	fail := func(err error) (*engine.Footprint, error) {
		return nil, fmt.Errorf("measure table %s: %w", table, classify(err))
	}
	f := &engine.Footprint{}
	quoted := db.dialect.Quote(table)
	if err := db.pool.QueryRowContext(ctx, "SELECT pg_table_size($1::text::regclass)", quoted).Scan(&f.Heap); err != nil {
		return fail(err)
	}
	rows, err := db.pool.QueryContext(ctx, "SELECT c.relname::text, pg_relation_size(c.oid), a.attname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "+
		"LEFT JOIN unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place) ON k.place <= i.indnkeyatts "+
		"LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0 "+
		"WHERE i.indrelid = $1::text::regclass ORDER BY NOT i.indisprimary, c.relname, k.place", quoted)
	if err != nil {
		return fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var column *string // nil for an expression
		var bytes int64
		if err := rows.Scan(&name, &bytes, &column); err != nil {
			return fail(err)
		}
		if n := len(f.Indexes); n == 0 || f.Indexes[n-1].Name != name {
			f.Indexes = append(f.Indexes, engine.IndexFootprint{Name: name, Bytes: bytes})
		}
		ix := &f.Indexes[len(f.Indexes)-1]
		if column == nil {
			ix.Columns = append(ix.Columns, "(an expression)")
		} else {
			ix.Columns = append(ix.Columns, *column)
		}
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	return f, nil
}
