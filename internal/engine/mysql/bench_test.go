//go:build unix

package mysql_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// BenchmarkInsert inserts into a real server; an operation is a batch. The method's
// cost is the client's CPU time per row, without the server's.
func BenchmarkInsert(b *testing.B) {
	for _, m := range []engine.Method{engine.Single, engine.Multi, engine.Prepared, engine.Load} {
		for _, batch := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", m, batch), func(b *testing.B) { benchmarkInsert(b, "mariadb", m, batch, nil) })
		}
	}
}

// BenchmarkSocket compares the ways in which a batch can be sent: by the driver or by
// this package's own packets, on an ordinary socket or on one whose thread blocks.
func BenchmarkSocket(b *testing.B) {
	ways := []struct {
		name string
		set  func(engine.Writer)
	}{
		{"driver", func(w engine.Writer) { mysql.SendBy(w, true, false) }},
		{"driver,blocking", func(w engine.Writer) { mysql.SendBy(w, true, true) }},
		{"packets", func(w engine.Writer) { mysql.SendBy(w, false, false) }},
		{"packets,blocking", func(w engine.Writer) { mysql.SendBy(w, false, true) }},
	}
	for _, kind := range []string{"mariadb", "mysql"} {
		for _, batch := range []int{1, 10, 100} {
			for _, way := range ways {
				b.Run(fmt.Sprintf("%s/batch=%d/%s", kind, batch, way.name), func(b *testing.B) { benchmarkInsert(b, kind, engine.Multi, batch, way.set) })
			}
		}
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

// fillPurchases appends n rows with keys from first on.
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

func benchmarkInsert(b *testing.B, kind string, m engine.Method, batch int, set func(engine.Writer)) {
	db := testdb.Open(b, kind)
	table := purchases()
	if err := db.Apply(b.Context(), engine.CreateTable{Table: table}); err != nil {
		b.Fatal(err)
	}
	w, err := db.Writer(b.Context(), table, m)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	if set != nil {
		set(w)
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

// BenchmarkFind reads from a real server by primary key: one row, or ten with an IN
// list, each also through the driver.
func BenchmarkFind(b *testing.B) {
	for _, points := range []int{1, 10} {
		b.Run(fmt.Sprintf("rows=%d", points), func(b *testing.B) { benchmarkFind(b, points, false) })
		b.Run(fmt.Sprintf("rows=%d/driver", points), func(b *testing.B) { benchmarkFind(b, points, true) })
	}
}

func benchmarkFind(b *testing.B, points int, driver bool) {
	db := testdb.Open(b, "mariadb")
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
	if driver {
		mysql.UseDriver(q)
	}
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
