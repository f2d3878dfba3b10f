package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// Profile implements engine.Profiler: from pg_class and pg_stats, of whose common values only the
// frequencies are read.
func (db *DB) Profile(ctx context.Context, s *engine.Schema) (*engine.Profile, error) {
	p := &engine.Profile{Columns: map[string]engine.ColumnProfile{}}
	name := db.dialect.Quote(s.Name)
	var pages, tuples float64
	err := db.pool.QueryRowContext(ctx, `SELECT sum(pg_relation_size(r.relid) / current_setting('block_size')::bigint), sum(c.reltuples)
		FROM pg_partition_tree($1::regclass) r JOIN pg_class c ON c.oid = r.relid WHERE r.isleaf`, name).Scan(&pages, &tuples)
	if err != nil {
		return nil, classify(err)
	}
	p.Pages = int64(pages)
	err = engine.ScanTexts(ctx, db, 3, func(row []sql.NullString) {
		distinct, _ := strconv.ParseFloat(row[1].String, 64)
		if distinct < 0 {
			distinct *= -max(tuples, 0)
		}
		c := engine.ColumnProfile{Distinct: distinct}
		for text := range strings.SplitSeq(strings.Trim(row[2].String, "{}"), ",") {
			if f, err := strconv.ParseFloat(text, 64); err == nil {
				c.Heavy = append(c.Heavy, f)
			}
		}
		p.Columns[row[0].String] = c
	}, `SELECT attname, n_distinct, most_common_freqs::text FROM pg_stats WHERE schemaname = current_schema() AND tablename = ?
		ORDER BY inherited`, s.Name) // the statistics of a partitioned table with its partitions come last
	return p, err
}

// SampleRows implements engine.Profiler by TABLESAMPLE SYSTEM, which draws pages. A block is a page.
func (db *DB) SampleRows(ctx context.Context, s *engine.Schema, p *engine.Profile, columns []string, share float64, fn func(block int, row []sql.NullString)) error {
	pages, rows := map[string]int{}, int64(0)
	query := fmt.Sprintf("SELECT tableoid::text || split_part(ctid::text, ',', 1), %s FROM %s TABLESAMPLE SYSTEM (%g) REPEATABLE (1)",
		strings.Join(columns, ", "), db.dialect.Quote(s.Name), 100*share)
	err := engine.ScanTexts(ctx, db, len(columns)+1, func(row []sql.NullString) {
		page, ok := pages[row[0].String]
		if !ok {
			page = len(pages)
			pages[row[0].String] = page
		}
		rows++
		fn(page, row[1:])
	}, query)
	if n := int64(len(pages)); n > 0 {
		p.Rows = rows * p.Pages / n
	}
	return err
}
