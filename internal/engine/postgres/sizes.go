package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// periodSizes returns a row for each partition, including its subpartitions. The row count is from
// the server's statistics, or from the last ANALYZE if a crash has reset these statistics. It is -1
// if the partition has pages but neither count is known.
const periodSizes = `SELECT p.relname, CASE WHEN bool_or(z.rows = 0 AND z.bytes > 0) THEN -1 ELSE sum(z.rows)::bigint END,
	COALESCE(sum(z.data), 0)::bigint, COALESCE(sum(z.index), 0)::bigint, max(z.bytes)::bigint
FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid CROSS JOIN LATERAL (
	SELECT GREATEST(COALESCE(NULLIF(s.n_live_tup, 0), c.reltuples), 0) AS rows, pg_relation_size(c.oid) AS bytes, y.*
	FROM (SELECT p.oid UNION SELECT l.relid FROM pg_partition_tree(p.oid) l) t JOIN pg_class c ON c.oid = t.oid AND c.relkind = 'r'
	LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid CROSS JOIN LATERAL (SELECT ` + sizeColumns + ` FROM (SELECT c.oid) r) y) z
WHERE i.inhparent = $1::oid GROUP BY p.oid, p.relname`

// sampleBytes is how many bytes are read of a period for which the server has no row count yet. The
// server updates its counts within 10 s of the inserts.
const sampleBytes = 16 * 8192

// A sizer measures tables.
type sizer struct{ *server }

func (db sizer) PeriodSizes(ctx context.Context, t *engine.Table) (map[string]engine.PeriodSize, error) {
	out, err := db.periodSizes(ctx, t)
	return out, engine.About(ctx, classify(err), "measure the periods of "+t.Name)
}

func (db sizer) periodSizes(ctx context.Context, t *engine.Table) (map[string]engine.PeriodSize, error) {
	var oid int64
	err := db.pool.QueryRowContext(ctx, "SELECT COALESCE(to_regclass($1::text)::oid, 0)::bigint", db.dialect.Quote(t.Name)).Scan(&oid)
	if err != nil {
		return nil, err
	}
	if oid == 0 {
		return nil, engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	}
	out := map[string]engine.PeriodSize{}
	var samples []string
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var child string
		var bytes int64
		var s engine.PeriodSize
		if err := r.Scan(&child, &s.Rows, &s.Data, &s.Index, &bytes); err != nil {
			return err
		}
		if s.Rows < 0 {
			share := min(1, float64(sampleBytes)/float64(bytes))
			s.Rows = 0
			samples = append(samples, fmt.Sprintf("SELECT %s, (count(*) / %g)::bigint FROM %s TABLESAMPLE SYSTEM (%g)",
				quoteText(child), share, db.dialect.Quote(child), 100*share))
		}
		out[partitionName(t, child)] = s
		return nil
	}, periodSizes, oid)
	if err != nil || len(samples) == 0 {
		return out, err
	}
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var child string
		var n int64
		err := r.Scan(&child, &n)
		s := out[partitionName(t, child)]
		s.Rows = n
		out[partitionName(t, child)] = s
		return err
	}, strings.Join(samples, " UNION ALL "))
	if errors.Is(err, engine.ErrNoTable) {
		return out, nil // a partition was dropped meanwhile
	}
	return out, err
}

var _ engine.Sizer = (*DB)(nil)

func (db sizer) Named(ctx context.Context, prefix string) ([]string, error) {
	out, err := engine.List[string](ctx, db, db.pool, "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') "+
		"AND starts_with(relname::text, $1) ORDER BY relname", prefix)
	return out, engine.About(ctx, err, "list tables")
}

// Footprint implements engine.Sizer. It returns the sizes of the files; the
// heap's size includes TOAST.
func (db sizer) Footprint(ctx context.Context, table string) (*engine.Footprint, error) {
	fail := func(err error) (*engine.Footprint, error) {
		return nil, fmt.Errorf("measure table %s: %w", table, classify(err))
	}
	f := &engine.Footprint{}
	quoted := db.dialect.Quote(table)
	if err := db.pool.QueryRowContext(ctx, "SELECT pg_table_size($1::text::regclass)", quoted).Scan(&f.Heap); err != nil {
		return fail(err)
	}
	err := engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name string
		var column sql.NullString // NULL for an expression
		var bytes int64
		if err := r.Scan(&name, &bytes, &column); err != nil {
			return err
		}
		if n := len(f.Indexes); n == 0 || f.Indexes[n-1].Name != name {
			f.Indexes = append(f.Indexes, engine.IndexFootprint{Name: name, Bytes: bytes})
		}
		if !column.Valid {
			column.String = "(an expression)"
		}
		ix := &f.Indexes[len(f.Indexes)-1]
		ix.Columns = append(ix.Columns, column.String)
		return nil
	}, "SELECT c.relname::text, pg_relation_size(c.oid), a.attname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "+
		"LEFT JOIN unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place) ON k.place <= i.indnkeyatts "+
		"LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0 "+
		"WHERE i.indrelid = $1::text::regclass ORDER BY NOT i.indisprimary, c.relname, k.place", quoted)
	if err != nil {
		return fail(err)
	}
	return f, nil
}
