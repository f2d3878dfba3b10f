package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// rowsOfPage is the assumed number of rows in a page of a table without statistics.
const rowsOfPage = 100

// SampleTable implements engine.TableSampler by TABLESAMPLE SYSTEM, which draws pages, so that a
// block is a page. From pg_stats it reads the number of distinct values and the frequencies of
// common ones.
func (db *DB) SampleTable(ctx context.Context, s *engine.Schema, columns []string, o engine.Sampling, fn func(block int, row []sql.NullString)) (*engine.TableSample, error) {
	out := &engine.TableSample{Columns: map[string]engine.ColumnStatistics{}}
	name := db.dialect.Quote(s.Name)
	tables := 0
	err := db.pool.QueryRowContext(ctx, `SELECT count(*), COALESCE(sum(pg_relation_size(c.oid)) / current_setting('block_size')::bigint, 0)::bigint, COALESCE(sum(c.reltuples), 0)::bigint
		FROM (SELECT $1::regclass AS relid UNION SELECT relid FROM pg_partition_tree($1::regclass)) r JOIN pg_class c ON c.oid = r.relid AND c.relkind IN ('r', 'm')`, name).
		Scan(&tables, &out.Pages, &out.Rows)
	switch {
	case err != nil:
		return nil, classify(err)
	case tables == 0:
		return nil, engine.Hinted(engine.Classed(engine.ErrUnsupported, errors.New("it is a view, or a table of another server")), "a table with rows of its own")
	case out.Pages == 0:
		return nil, engine.Hinted(errors.New("it is empty"), "a table with rows")
	}
	if out.Rows <= 0 {
		out.Rows = out.Pages * rowsOfPage
	}
	share := min(o.Share, float64(o.Rows)/float64(max(out.Rows, 1)))
	pages, rows := map[string]int{}, int64(0)
	err = engine.ScanTexts(ctx, db, db.pool, len(columns)+1, func(row []sql.NullString) {
		page, ok := pages[row[0].String]
		if !ok {
			page = len(pages)
			pages[row[0].String] = page
		}
		rows++
		fn(page, row[1:])
	}, fmt.Sprintf("SELECT tableoid::text || split_part(ctid::text, ',', 1), %s FROM %s TABLESAMPLE SYSTEM (%g) REPEATABLE (1)", strings.Join(columns, ", "), name, 100*share))
	if err != nil {
		return nil, err
	}
	if n := int64(len(pages)); n > 0 {
		out.Rows = rows * out.Pages / n
	}
	err = engine.ScanTexts(ctx, db, db.pool, 3, func(row []sql.NullString) {
		c := engine.ColumnStatistics{}
		c.Distinct, _ = strconv.ParseFloat(row[1].String, 64)
		if c.Distinct < 0 {
			c.Distinct *= -float64(out.Rows)
		}
		for text := range strings.SplitSeq(strings.Trim(row[2].String, "{}"), ",") {
			if f, err := strconv.ParseFloat(text, 64); err == nil {
				c.Heavy = append(c.Heavy, f)
			}
		}
		out.Columns[row[0].String] = c
	}, "SELECT attname, n_distinct, most_common_freqs::text FROM pg_stats WHERE schemaname = current_schema() AND tablename = ? "+
		"ORDER BY inherited", s.Name) // statistics that include the partitions come last, and are kept
	return out, err
}
