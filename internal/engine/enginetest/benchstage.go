//go:build unix

package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// classic returns a table like the insert benchmark's. Of that table's three secondary indexes, it
// has as many as indexes says.
func classic(name string, indexes int) *engine.Table {
	all := []engine.Index{
		{Name: name + "_market", Columns: []string{"price", "customer"}}, {Name: name + "_register", Columns: []string{"register", "price", "customer"}},
		{Name: name + "_pdc", Columns: []string{"price", "at", "customer"}},
	}
	return &engine.Table{
		Name: name,
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64}, {Name: "at", Type: engine.Time}, {Name: "register", Type: engine.Int32},
			{Name: "customer", Type: engine.Int32}, {Name: "product", Type: engine.Int32}, {Name: "price", Type: engine.Float64},
		},
		PrimaryKey: []string{"id"}, Indexes: all[:indexes],
	}
}

// classicRows returns batches with n rows in all, and the same rows as text: lines has an element
// for each batch, with a line for each row and tabs between the values.
func classicRows(n, batch int) (batches []*engine.Batch, lines [][]byte) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < n; from += batch {
		b := engine.NewBatch(classic("", 0).Columns)
		var text []byte
		for i := from; i < min(n, from+batch); i++ {
			for c, x := range []int64{int64(i), Noon + int64(i)*1e6, rnd.Int64N(1000), rnd.Int64N(100_000), rnd.Int64N(10_000)} {
				b.Columns[c].Ints = append(b.Columns[c].Ints, x)
				text = append(b.Columns[c].AppendText(text, i-from), '\t')
			}
			b.Columns[5].Floats = append(b.Columns[5].Floats, float64(rnd.Int64N(50_000))/100)
			text = append(b.Columns[5].AppendText(text, i-from), '\n')
			b.EndRow()
		}
		batches, lines = append(batches, b), append(lines, text)
	}
	return batches, lines
}

// A BareLoader is a server's own bulk loader, used without rowmill's code. It loads lines into a
// table, each element of lines by one statement.
type BareLoader func(b *testing.B, db engine.DB, table string, columns string, lines [][]byte)

// stageRows is the number of rows of each table that BenchStage fills.
const stageRows = 200_000

// BenchStage fills a standalone table and builds its indexes: once by a Staging, and once by the
// server's own loader. The loader's speed is the ceiling, because its input is text that is already
// in memory. b.N counts tables.
func BenchStage(b *testing.B, open func(testing.TB) engine.Stager, bare BareLoader) {
	const batch = 10_000
	batches, lines := classicRows(stageRows, batch)
	report := func(b *testing.B, began float64) {
		b.ReportMetric(float64(stageRows*b.N)/b.Elapsed().Seconds(), "rows/s")
		b.ReportMetric((cpu(b)-began)/float64(stageRows*b.N), "client-us/row")
	}
	b.Run("staging", func(b *testing.B) {
		db, t := open(b), classic("purchases", 3)
		apply(b, db, engine.CreateTable{Table: t})
		began := cpu(b)
		b.ReportAllocs()
		for b.Loop() {
			s, err := db.Stage(b.Context(), t, engine.StageOptions{Name: staged, Columns: t.Columns})
			Must(b, err)
			for _, rows := range batches {
				Must(b, s.Write(b.Context(), rows))
			}
			done, err := s.Finish(b.Context())
			Must(b, err)
			want(b, "the result", done, engine.Staged{Rows: stageRows})
			Must(b, s.Close())
		}
		report(b, began)
	})
	b.Run("bare", func(b *testing.B) {
		db, t := open(b), classic("bare", 0)
		began := cpu(b)
		for b.Loop() {
			apply(b, db, engine.DropTable{Table: t}, engine.CreateTable{Table: t})
			bare(b, db, t.Name, db.Dialect().Quote("id")+", at, register, customer, product, price", slices.Clone(lines))
			apply(b, db, engine.CreateIndexes{Table: t, Indexes: classic("bare", 3).Indexes})
		}
		report(b, began)
	})
}

// BenchLoader inserts rows with new keys into a table with three secondary indexes: by a Loader,
// and by the server's own loader. Each batch is a transaction. b.N counts tables.
func BenchLoader(b *testing.B, open func(testing.TB) engine.Stager, bare BareLoader) {
	const rows = 50_000
	for _, batch := range []int{100, 200, 1000, 10_000} {
		batches, lines := classicRows(rows, batch)
		t := classic("purchases", 3)
		report := func(b *testing.B) { b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s") }
		b.Run(fmt.Sprintf("batch=%d/loader", batch), func(b *testing.B) {
			db := open(b)
			l := OpenLoader(b, db)
			ignore := *t
			ignore.Ignore = true
			b.ReportAllocs()
			for b.Loop() {
				apply(b, db, engine.DropTable{Table: t}, engine.CreateTable{Table: t})
				for _, one := range batches {
					Must(b, l.Begin(b.Context()))
					if _, err := l.Insert(b.Context(), &ignore, one, 0, one.Rows()); err != nil {
						b.Fatal(err)
					}
					Must(b, l.Commit(b.Context()))
				}
			}
			report(b)
		})
		b.Run(fmt.Sprintf("batch=%d/bare", batch), func(b *testing.B) {
			db := open(b)
			for b.Loop() {
				apply(b, db, engine.DropTable{Table: t}, engine.CreateTable{Table: t})
				bare(b, db, t.Name, db.Dialect().Quote("id")+", at, register, customer, product, price", slices.Clone(lines))
			}
			report(b)
		})
	}
}
