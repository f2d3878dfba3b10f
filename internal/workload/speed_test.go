package workload

import (
	"context"
	"fmt"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// perRow reports the results of a benchmark per row.
func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

// BenchmarkFill measures only the generation of rows.
func BenchmarkFill(b *testing.B) {
	for _, p := range presets() {
		for _, batch := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", p.name, batch), func(b *testing.B) {
				b.ReportAllocs()
				rows, s := engine.NewBatch(p.table.Inserted()), draw.NewStream(1, 0)
				p.fill(rows, s, 0, batch)
				b.ResetTimer()
				for i := range b.N {
					rows.Reset()
					p.fill(rows, s, int64(i)*int64(batch), batch)
				}
				perRow(b, b.N*batch)
			})
		}
	}
}

// BenchmarkClient measures the client's work for a batch without the database:
// the maximum insert rate of a run on one core.
func BenchmarkClient(b *testing.B) {
	for _, p := range presets() {
		for _, layout := range Layouts() {
			for _, batch := range []int{1, 1000} {
				b.Run(fmt.Sprintf("%s/%s/batch=%d", p.name, layout, batch), func(b *testing.B) {
					b.ReportAllocs()
					ctx := b.Context()
					w, err := NewInsert(testdb.Open(b, "null"), InsertOptions{Preset: p.name, Layout: layout, PeriodRows: 1 << 40})
					ok(b, err)
					if _, err := w.Setup(ctx, false); err != nil {
						b.Fatal(err)
					}
					c, err := w.Client(ctx, 0)
					ok(b, err)
					c.Prepare(batch)
					b.ResetTimer()
					for range b.N {
						c.Prepare(batch)
						ok(b, c.Do(ctx))
					}
					perRow(b, b.N*batch)
				})
			}
		}
	}
}

// memory keeps the rows of a table in memory, so that reading them takes no time.
type memory struct {
	engine.DB
	batches []*engine.Batch
}

func (m *memory) Scan(_ context.Context, _ *engine.Table, _ *rolling.Partition, fn func(*engine.Batch) error) error {
	for _, b := range m.batches {
		if err := fn(b); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkVerify measures the comparison of a table with the recomputed rows,
// without the database's part. Use -cpu 1 for the rate of one core.
func BenchmarkVerify(b *testing.B) {
	const rows, batch = 200000, 1000
	for _, p := range presets() {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			db := &memory{DB: testdb.Open(b, "sqlite")}
			w, err := NewInsert(db, InsertOptions{Preset: p.name, Layout: Plain})
			ok(b, err)
			t := w.tables[0]
			for at := int64(0); at < rows; at += batch {
				sent, all := engine.NewBatch(t.Inserted()), engine.NewBatch(t.Columns)
				n := int(distinctRows(p.name, batch)) // a database skips the others
				p.fill(sent, t.stream, at, n)
				// In all presets a key assigned by the server is the first column.
				copy(all.Columns[len(all.Columns)-len(sent.Columns):], sent.Columns)
				if len(all.Columns) > len(sent.Columns) {
					all.Columns[0].Ints = make([]int64, n)
				}
				all.EndRows(n)
				db.batches = append(db.batches, all)
			}
			t.next.Store(rows)
			b.ResetTimer()
			for range b.N {
				if proof, err := w.Verify(b.Context(), unseen); err != nil || !proof.Checksum || proof.Found != distinctRows(p.name, rows) {
					b.Fatalf("%+v, %v", proof, err)
				}
			}
			perRow(b, b.N*rows)
		})
	}
}
