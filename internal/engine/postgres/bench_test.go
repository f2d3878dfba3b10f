//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/internal/testdb"
)

// BenchmarkInsert inserts into a real server; one operation is one batch. It
// reports the client's CPU time per row, which excludes the server's.
func BenchmarkInsert(b *testing.B) {
	for _, m := range []engine.Method{engine.Single, engine.Multi, engine.Prepared, engine.Pipeline, engine.Load} {
		for _, batch := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", m, batch), func(b *testing.B) { benchmarkInsert(b, m, batch) })
		}
	}
}

// BenchmarkSocket compares a batch sent by the driver with one sent by this package's
// own messages.
func BenchmarkSocket(b *testing.B) {
	for _, batch := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("postgres/batch=%d/driver", batch), func(b *testing.B) {
			db := open(b)
			w, err := postgres.NewDriverWriter(b.Context(), db, purchases())
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			measureInsert(b, db, w, batch)
		})
		b.Run(fmt.Sprintf("postgres/batch=%d/messages", batch), func(b *testing.B) { benchmarkInsert(b, engine.Multi, batch) })
	}
}

// purchases is the table of the benchmarks.
func purchases() *engine.Table {
	return &engine.Table{
		Name: "purchases",
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64}, {Name: "at", Type: engine.Time}, {Name: "register", Type: engine.Int32},
			{Name: "price", Type: engine.Float32}, {Name: "data", Type: engine.Varchar, Size: 20},
		},
		PrimaryKey: []string{"id"},
	}
}

// fillPurchases appends n rows with keys from first up.
func fillPurchases(b *engine.Batch, first int64, n int) {
	for i := first; i < first+int64(n); i++ {
		b.Columns[0].Ints = append(b.Columns[0].Ints, i)
		b.Columns[1].Ints = append(b.Columns[1].Ints, 1795197600e6+i*1e6)
		b.Columns[2].Ints = append(b.Columns[2].Ints, i%1000)
		b.Columns[3].Floats = append(b.Columns[3].Floats, float64(float32(i)/7))
		b.Columns[4].AppendBytes([]byte("aaaaaaaaaa01234"))
		b.EndRow()
	}
}

func benchmarkInsert(b *testing.B, m engine.Method, batch int) {
	db := testdb.Open(b, "postgres")
	w, err := db.Writer(b.Context(), purchases(), m)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	measureInsert(b, db, w, batch)
}

func measureInsert(b *testing.B, db engine.DB, w interface {
	Write(context.Context, *engine.Batch) (engine.Ack, error)
}, batch int) {
	table := purchases()
	if err := db.Apply(b.Context(), engine.CreateTable{Table: table}); err != nil {
		b.Fatal(err)
	}
	rows, next := engine.NewBatch(table.Columns), int64(0)
	insert := func() {
		rows.Reset()
		fillPurchases(rows, next, batch)
		next += int64(batch)
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

// BenchmarkFind reads by the primary key from a real server: one row, or ten
// with a list of keys.
func BenchmarkFind(b *testing.B) {
	for _, points := range []int{1, 10} {
		b.Run(fmt.Sprintf("rows=%d", points), func(b *testing.B) { benchmarkFind(b, points) })
	}
}

func benchmarkFind(b *testing.B, points int) {
	db := testdb.Open(b, "postgres")
	table, rows := purchases(), engine.NewBatch(purchases().Columns)
	if err := db.Apply(b.Context(), engine.CreateTable{Table: table}); err != nil {
		b.Fatal(err)
	}
	w, err := db.Writer(b.Context(), table, engine.Multi)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	const there = 20000
	fillPurchases(rows, 0, there)
	if _, err := w.Write(b.Context(), rows); err != nil {
		b.Fatal(err)
	}
	q, err := db.Querier(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	find := &engine.Find{Table: table, On: []string{"id"}, How: engine.Equal}
	if points > 1 {
		find.How, find.Points = engine.In, points
	}
	values, rnd := make([]engine.Value, points), rand.New(rand.NewPCG(1, 2))
	ask := func() {
		for i := range values {
			values[i].Int = rnd.Int64N(there)
		}
		if n, err := q.Find(b.Context(), find, values); n < 1 || err != nil {
			b.Fatalf("%d rows, %v", n, err)
		}
	}
	ask()
	began := cpu(b)
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
	b.ReportMetric((cpu(b)-began)/float64(b.N), "client-us/op")
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
