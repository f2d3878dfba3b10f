package query

import (
	"context"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// BenchmarkOverhead answers a query over ten small partitions: by the server alone, planned and in
// pieces, and in pieces that are planned already. The difference is what splitting costs: the
// ceiling is 5 ms.
func BenchmarkOverhead(b *testing.B) {
	for _, kind := range testdb.Kinds(b, "mariadb") {
		f := newFixture(b, kind)
		const q = "SELECT id % 11 AS k, SUM(d), COUNT(*) FROM t GROUP BY k"
		ctx := context.Background()
		r := New(f.Reader, Options{Parallel: 2, Always: true})
		defer r.Close()
		p, err := r.Plan(ctx, q, f.state)
		if err != nil || p.Whole != "" {
			b.Fatal(p, err)
		}
		b.Run("server", func(b *testing.B) {
			for b.Loop() {
				if err := f.s.Text(ctx, q, func([]engine.ResultColumn) error { return nil }, func([][]byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("planned", func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Plan(ctx, q, f.state); err != nil {
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
}
