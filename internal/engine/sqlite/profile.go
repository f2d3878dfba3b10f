package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// rowBytes is a row's size where it is unknown, for the number of rows of a table without row numbers and
// without ANALYZE.
const rowBytes = 40

// Profile implements engine.Profiler: from what ANALYZE has left, and the size of the file's part.
func (db *DB) Profile(ctx context.Context, s *engine.Schema) (*engine.Profile, error) {
	p := &engine.Profile{Columns: map[string]engine.ColumnProfile{}}
	sizes, err := db.Catalog().Sizes(ctx, &engine.Table{Name: s.Name})
	if err != nil {
		return nil, err
	}
	var page int64
	if err := db.SQL().QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return nil, classify(err)
	}
	p.Pages = sizes.Data / max(page, 1)
	// The table doesn't exist before the first ANALYZE.
	_ = engine.ScanTexts(ctx, db, 2, func(row []sql.NullString) {
		fields := strings.Fields(row[1].String)
		if len(fields) == 0 {
			return
		}
		rows, _ := strconv.ParseFloat(fields[0], 64)
		p.Rows = max(p.Rows, int64(rows))
		for _, ix := range s.Indexes {
			if len(fields) > 1 && len(ix.Columns) > 0 && strings.EqualFold(ix.Name, row[0].String) {
				each, _ := strconv.ParseFloat(fields[1], 64)
				p.Columns[ix.Columns[0]] = engine.ColumnProfile{Distinct: rows / max(each, 1)}
			}
		}
	}, "SELECT idx, stat FROM sqlite_stat1 WHERE tbl = ?", s.Name)
	var last sql.NullInt64
	if db.SQL().QueryRowContext(ctx, fmt.Sprintf("SELECT max(rowid) FROM %s", db.Dialect().Quote(s.Name))).Scan(&last) == nil {
		p.Rows = last.Int64
	}
	if p.Rows == 0 {
		p.Rows = sizes.Data / rowBytes
	}
	return p, nil
}

// SampleRows implements engine.Profiler by ranges of the row numbers, or of the primary key of a table without
// them.
func (db *DB) SampleRows(ctx context.Context, s *engine.Schema, p *engine.Profile, columns []string, share float64, fn func(block int, row []sql.NullString)) error {
	if s.View {
		return engine.Hinted(fmt.Errorf("sample %s: it is a view", s.Name), "the table of one period")
	}
	var one sql.NullInt64
	key := engine.SchemaColumn{Name: "rowid", Native: "INTEGER", Type: value.Type{Kind: value.Int, Bits: 64}}
	if db.SQL().QueryRowContext(ctx, fmt.Sprintf("SELECT rowid FROM %s LIMIT 1", db.Dialect().Quote(s.Name))).Scan(&one) != nil {
		key, p.Clustered = s.Key()[0], s.PrimaryKey[0]
	}
	return engine.SampleRanges(ctx, db, s, p, key, columns, share, fn)
}
