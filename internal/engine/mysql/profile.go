package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// Profile implements engine.Profiler: from the statistics of tables and indexes, and the histograms of
// columns, of which only frequencies are kept. Histograms that the user may not read are left out.
func (db *DB) Profile(ctx context.Context, s *engine.Schema) (*engine.Profile, error) {
	p := &engine.Profile{Columns: map[string]engine.ColumnProfile{}}
	var page int64
	err := db.pool.QueryRowContext(ctx, `SELECT TABLE_ROWS, DATA_LENGTH, @@innodb_page_size FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`, s.Name).Scan(&p.Rows, &p.Pages, &page)
	if err != nil {
		return nil, classify(err)
	}
	p.Pages = max(p.Pages/max(page, 1), 1)
	err = engine.ScanTexts(ctx, db, 2, func(row []sql.NullString) {
		n, _ := strconv.ParseFloat(row[1].String, 64)
		c := p.Columns[row[0].String]
		c.Distinct = max(c.Distinct, n)
		p.Columns[row[0].String] = c
	}, `SELECT COLUMN_NAME, CARDINALITY FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND SEQ_IN_INDEX = 1`, s.Name)
	if err != nil {
		return nil, err
	}
	query := `SELECT COLUMN_NAME, HISTOGRAM FROM information_schema.COLUMN_STATISTICS WHERE SCHEMA_NAME = DATABASE() AND TABLE_NAME = ?`
	if db.dialect.mariadb {
		query = `SELECT column_name, avg_frequency FROM mysql.column_stats WHERE db_name = DATABASE() AND table_name = ?`
	}
	err = engine.ScanTexts(ctx, db, 2, func(row []sql.NullString) {
		c := p.Columns[row[0].String]
		if each, err := strconv.ParseFloat(row[1].String, 64); err == nil && each > 0 {
			c.Distinct = float64(p.Rows) / each
		} else {
			c = histogram(row[1].String)
		}
		p.Columns[row[0].String] = c
	}, query, s.Name)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return p, nil
}

// histogram returns the frequencies of a histogram in JSON: its buckets are a value and the cumulated
// frequency, or two values, that frequency and the number of different values.
func histogram(text string) (c engine.ColumnProfile) {
	var h struct {
		Buckets [][]json.RawMessage `json:"buckets"`
	}
	if json.Unmarshal([]byte(text), &h) != nil {
		return c
	}
	before := 0.0
	for _, b := range h.Buckets {
		n, until := 1.0, 0.0
		switch len(b) {
		case 2:
			until, _ = strconv.ParseFloat(string(b[1]), 64)
			c.Heavy = append(c.Heavy, until-before)
		case 4:
			until, _ = strconv.ParseFloat(string(b[2]), 64)
			n, _ = strconv.ParseFloat(string(b[3]), 64)
		}
		c.Distinct, before = c.Distinct+n, until
	}
	slices.Sort(c.Heavy)
	slices.Reverse(c.Heavy)
	return c
}

// SampleRows implements engine.Profiler by ranges of the primary key, in whose order InnoDB stores rows.
func (db *DB) SampleRows(ctx context.Context, s *engine.Schema, p *engine.Profile, columns []string, share float64, fn func(block int, row []sql.NullString)) error {
	if len(s.PrimaryKey) == 0 {
		return engine.Hinted(fmt.Errorf("sample %s: it has no primary key", s.Name), "a table with one")
	}
	p.Clustered = s.PrimaryKey[0]
	return engine.SampleRanges(ctx, db, s, p, s.Key()[0], columns, share, fn)
}
