package query

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// BenchmarkSQLite answers a query over 100 periods of few rows, whole, in pieces, and planned
// alone: the first time, when nothing is known of the schema, and again.
func BenchmarkSQLite(b *testing.B) {
	ctx := context.Background()
	db := testdb.Open(b, "sqlite").(engine.Reader)
	statements := []string{"CREATE TABLE IF NOT EXISTS rowmill_periods (table_name TEXT, name TEXT, lower INTEGER, upper INTEGER)"}
	var terms []string
	for i := range 100 {
		terms = append(terms, fmt.Sprintf(`SELECT "id", "k", "n", "note" FROM "t_%d"`, i))
		statements = append(statements, fmt.Sprintf("CREATE TABLE t_%d (id INTEGER PRIMARY KEY, k INTEGER, n INTEGER, note TEXT)", i),
			fmt.Sprintf("INSERT INTO t_%d VALUES (1, 1, 1, 'a'), (2, 2, 2, 'b')", i), fmt.Sprintf("INSERT INTO rowmill_periods VALUES ('t', '%d', %d, %d)", i, i, i+1))
	}
	do(b, db, append(statements, "CREATE VIEW t AS\n"+strings.Join(terms, "\nUNION ALL "))...)
	const q = "SELECT k, sum(n * k) FROM t WHERE k < 50 GROUP BY k"
	s, st := sessionOf(ctx, b, db)
	r := New(db, Options{Parallel: 2, Always: true})
	defer r.Close()
	p, err := r.Plan(ctx, q, st)
	if err != nil || p.Whole != "" {
		b.Fatal(p, err)
	}
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if err := s.Text(ctx, q, func([]engine.ResultColumn) error { return nil }, func([][]byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	n := 0
	b.Run("planned first", func(b *testing.B) {
		for b.Loop() {
			n++
			if _, err := r.Plan(ctx, fmt.Sprintf("%s HAVING count(*) > %d", q, -n), st); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("planned again", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.Plan(ctx, q, st); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pieces", func(b *testing.B) {
		for b.Loop() {
			if report, err := r.Run(ctx, p, discard{}); err != nil || report.Rerun != "" {
				b.Fatal(report, err)
			}
		}
	})
}
