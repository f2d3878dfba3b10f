package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// SampleTable implements engine.TableSampler by ranges of the primary key, in whose order InnoDB
// and MyRocks store rows. From the server's statistics it reads the sizes of partitions, the number
// of values in an index, and the frequencies in the histograms of columns. It omits statistics of
// columns that the user may not read.
func (db *DB) SampleTable(ctx context.Context, s *engine.Schema, columns []string, o engine.Sampling, fn func(block int, row []sql.NullString)) (*engine.TableSample, error) {
	if len(s.PrimaryKey) == 0 {
		return nil, engine.Hinted(engine.Classed(engine.ErrUnsupported, errors.New("it is a view, or a table without a primary key")), "a table with one, or [values] by hand")
	}
	conn, err := db.freshConn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	sizes, err := db.partitionStatistics(ctx, conn, s.Name)
	if err != nil {
		return nil, err
	}
	var page int64
	if err := conn.QueryRowContext(ctx, "SELECT @@innodb_page_size").Scan(&page); err != nil {
		return nil, classify(err)
	}
	var parts []engine.SamplePart
	for name, p := range sizes {
		from := db.dialect.Quote(s.Name)
		if name != "" {
			from += " PARTITION (" + db.dialect.Quote(name) + ")"
		}
		if p.rows > 0 {
			parts = append(parts, engine.SamplePart{From: from + " FORCE INDEX (PRIMARY)", Rows: p.rows, Pages: max(p.data/page, 1)})
		}
	}
	slices.SortFunc(parts, func(a, b engine.SamplePart) int { return strings.Compare(a.From, b.From) })
	out, err := engine.SampleRanges(ctx, db, s, parts, s.Key(), columns, o, fn)
	if err != nil {
		return nil, err
	}
	err = engine.ScanTexts(ctx, db, conn, 2, func(row []sql.NullString) {
		name := row[0].String
		n, _ := strconv.ParseFloat(row[1].String, 64)
		out.Columns[name] = engine.ColumnStatistics{Distinct: max(n, out.Columns[name].Distinct)}
	}, "SELECT COLUMN_NAME, COALESCE(CARDINALITY, 0) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND SEQ_IN_INDEX = 1 AND COLUMN_NAME IS NOT NULL AND TABLE_NAME = ?", s.Name)
	if err != nil {
		return nil, err
	}
	query := "SELECT COLUMN_NAME, HISTOGRAM FROM information_schema.COLUMN_STATISTICS WHERE SCHEMA_NAME = DATABASE() AND TABLE_NAME = ?"
	if db.dialect.mariadb {
		query = "SELECT column_name, COALESCE(avg_frequency, 0) FROM mysql.column_stats WHERE db_name = DATABASE() AND table_name = ?"
	}
	err = engine.ScanTexts(ctx, db, conn, 2, func(row []sql.NullString) {
		name, text := row[0].String, row[1].String
		if c := histogram(text); c.Distinct > 0 {
			out.Columns[name] = c
		} else if rows, err := strconv.ParseFloat(text, 64); err == nil && rows > 0 { // avg_frequency: rows with the same value, on average
			out.Columns[name] = engine.ColumnStatistics{Distinct: float64(out.Rows) / rows}
		}
	}, query, s.Name)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return out, nil
}

// histogram returns the frequencies in one of MySQL's histograms, a JSON text. A bucket of two
// elements is one value and the cumulated frequency. A bucket of four elements is the smallest and
// the largest value, the cumulated frequency, and the number of different values.
func histogram(text string) (c engine.ColumnStatistics) {
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
