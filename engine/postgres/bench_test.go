//go:build unix

package postgres_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// BenchmarkInsert inserts into a real server; an op is a batch. The client's
// CPU time for a row is what the method costs here, the server's left out.
func BenchmarkInsert(b *testing.B) {
	for _, m := range []engine.Method{engine.Single, engine.Multi, engine.Prepared, engine.Pipeline, engine.Load} {
		for _, batch := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", m, batch), func(b *testing.B) { benchmarkInsert(b, m, batch) })
		}
	}
}

func benchmarkInsert(b *testing.B, m engine.Method, batch int) {
	db := testdb.Open(b, "postgres")
	table := &engine.Table{
		Name: "purchases",
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64}, {Name: "at", Type: engine.Time}, {Name: "register", Type: engine.Int32},
			{Name: "price", Type: engine.Float32}, {Name: "data", Type: engine.Varchar, Size: 20},
		},
		PrimaryKey: []string{"id"},
	}
	if err := db.Apply(b.Context(), engine.CreateTable{Table: table}); err != nil {
		b.Fatal(err)
	}
	w, err := db.Writer(b.Context(), table, m)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	rows, next := engine.NewBatch(table.Columns), int64(0)
	insert := func() {
		rows.Reset()
		for range batch {
			next++
			rows.Columns[0].Ints = append(rows.Columns[0].Ints, next)
			rows.Columns[1].Ints = append(rows.Columns[1].Ints, 1795197600e6+next*1e6)
			rows.Columns[2].Ints = append(rows.Columns[2].Ints, next%1000)
			rows.Columns[3].Floats = append(rows.Columns[3].Floats, float64(float32(next)/7))
			rows.Columns[4].AppendBytes([]byte("aaaaaaaaaa01234"))
			rows.EndRow()
		}
		if _, err := w.Write(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
	insert()
	began := cpu(b)
	b.ReportAllocs()
	for b.Loop() {
		insert()
	}
	b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric((cpu(b)-began)/float64(batch*b.N), "client-us/row")
}

// cpu returns the CPU time of this process in microseconds.
func cpu(b *testing.B) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	us := func(t syscall.Timeval) float64 { return float64(t.Sec)*1e6 + float64(t.Usec) }
	return us(r.Utime) + us(r.Stime)
}
