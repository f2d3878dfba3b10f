package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// The least and a usual size of a row, in bytes: they limit or estimate an unknown number of rows.
const (
	leastRowBytes = 5
	usualRowBytes = 40
)

// SampleTable implements engine.TableSampler. It samples ranges of row numbers, or ranges of the
// primary key if the table has no row numbers. It learns the table's size from the inner pages of
// the table's b-tree, which hold no rows, and reads the statistics that ANALYZE has stored.
func (db *DB) SampleTable(ctx context.Context, s *engine.Schema, columns []string, o engine.Sampling, fn func(block int, row []sql.NullString)) (*engine.TableSample, error) {
	if s.View {
		return nil, engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("it is a view")), "the table of one period")
	}
	sizes, err := db.Catalog().Sizes(ctx, &engine.Table{Name: s.Name})
	if err != nil {
		return nil, err
	}
	var page int64
	if err := db.SQL().QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return nil, classify(err)
	}
	part := engine.SamplePart{From: db.Dialect().Quote(s.Name), Pages: sizes.Data / page}
	statistics := map[string]engine.ColumnStatistics{}
	// sqlite_stat1 doesn't exist before the first ANALYZE.
	_ = engine.ScanTexts(ctx, db, db.SQL(), 2, func(row []sql.NullString) {
		rows, each := 0.0, 0.0
		if n, _ := fmt.Sscan(row[1].String, &rows, &each); n == 0 {
			return
		}
		part.Rows = max(part.Rows, int64(rows))
		for _, ix := range s.Indexes {
			if each > 0 && strings.EqualFold(ix.Name, row[0].String) && len(ix.Columns) > 0 {
				statistics[ix.Columns[0]] = engine.ColumnStatistics{Distinct: rows / each}
			}
		}
	}, "SELECT idx, stat FROM sqlite_stat1 WHERE tbl = ?", s.Name)
	key := s.Key()
	var first, last sql.NullInt64
	numbered := db.SQL().QueryRowContext(ctx, "SELECT (SELECT min(rowid) FROM "+part.From+"), (SELECT max(rowid) FROM "+part.From+")").Scan(&first, &last) == nil
	if numbered {
		key = []engine.SchemaColumn{{Name: "rowid", Native: "INTEGER", Type: value.Type{Kind: value.Int, Bits: 64}}}
	}
	switch span := last.Int64 - first.Int64 + 1; {
	case numbered && !last.Valid:
		part.Rows = 0
	case part.Rows > 0:
	case numbered && span > 0 && span < sizes.Data/leastRowBytes:
		part.Rows = span
	default:
		part.Rows = sizes.Data / usualRowBytes
	}
	out, err := engine.SampleRanges(ctx, db, s, []engine.SamplePart{part}, key, columns, o, fn)
	if err == nil {
		out.Columns = statistics
		if pk := s.Key(); numbered {
			out.Key = ""
			if len(pk) == 1 && strings.EqualFold(pk[0].Native, "INTEGER") { // it is the row number
				out.Key = pk[0].Name
			}
		}
	}
	return out, err
}
