//go:build unix

package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// BenchTable is the table of the benchmarks.
func BenchTable() *engine.Table {
	return &engine.Table{
		Name: "purchases",
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64}, {Name: "at", Type: engine.Time}, {Name: "register", Type: engine.Int32},
			{Name: "price", Type: engine.Float32}, {Name: "data", Type: engine.Varchar, Size: 20},
		},
		PrimaryKey: []string{"id"},
	}
}

// fillBench appends n rows with keys from first on.
func fillBench(b *engine.Batch, first int64, n int) {
	for i := first; i < first+int64(n); i++ {
		b.Columns[0].Ints = append(b.Columns[0].Ints, i)
		b.Columns[1].Ints = append(b.Columns[1].Ints, Noon+i*1e6)
		b.Columns[2].Ints = append(b.Columns[2].Ints, i%1000)
		b.Columns[3].Floats = append(b.Columns[3].Floats, float64(float32(i)/7))
		b.Columns[4].AppendBytes([]byte("aaaaaaaaaa01234"))
		b.EndRow()
	}
}

// A BatchWriter is the part of engine.Writer that benchmarks use.
type BatchWriter interface {
	Write(ctx context.Context, b *engine.Batch) (engine.Ack, error)
}

// BenchInsert inserts batches into a real server by each method; b.N counts batches.
func BenchInsert(b *testing.B, open func(testing.TB) engine.DB) {
	for _, m := range open(b).Capabilities().Methods {
		for _, batch := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", m, batch), func(b *testing.B) { BenchWriter(b, open(b), m, batch, nil) })
		}
	}
}

// BenchWriter inserts batches by one method. set, unless nil, changes the writer.
func BenchWriter(b *testing.B, db engine.DB, m engine.Method, batch int, set func(engine.Writer)) {
	apply(b, db, engine.CreateTable{Table: BenchTable()})
	w := writer(b, db, BenchTable(), m)
	if set != nil {
		set(w)
	}
	BenchBatches(b, w, batch)
}

// BenchBatches writes batches to an empty BenchTable. It also reports the client's CPU time per
// row, without the server's.
func BenchBatches(b *testing.B, w BatchWriter, batch int) {
	rows, next := engine.NewBatch(BenchTable().Columns), int64(0)
	insert := func() {
		rows.Reset()
		fillBench(rows, next, batch)
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

// BenchFind reads from a real server by primary key: one row, or ten with an IN list.
// set, unless nil, changes the querier.
func BenchFind(b *testing.B, open func(testing.TB) engine.DB, set func(engine.Querier)) {
	for _, points := range []int{1, 10} {
		b.Run(fmt.Sprintf("rows=%d", points), func(b *testing.B) {
			const there = 20000
			db, rows := open(b), engine.NewBatch(BenchTable().Columns)
			apply(b, db, engine.CreateTable{Table: BenchTable()})
			fillBench(rows, 0, there)
			write(b, writer(b, db, BenchTable(), engine.Multi), rows)
			q := querier(b, db)
			if set != nil {
				set(q)
			}
			find := &engine.Find{Table: BenchTable(), On: []string{"id"}, How: engine.Equal}
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
		})
	}
}

// cpu returns the CPU time of this process in microseconds.
func cpu(b *testing.B) float64 {
	var r syscall.Rusage
	Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	us := func(t syscall.Timeval) float64 { return float64(t.Sec)*1e6 + float64(t.Usec) }
	return us(r.Utime) + us(r.Stime)
}
