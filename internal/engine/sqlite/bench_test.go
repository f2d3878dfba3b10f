package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// purchases returns a table with the columns and the three secondary indexes of
// the insert benchmark.
func purchases() *engine.Table {
	return &engine.Table{
		Name: "purchases",
		Columns: []engine.Column{
			{Name: "transactionid", Type: engine.Int64}, {Name: "dateandtime", Type: engine.Time},
			{Name: "cashregisterid", Type: engine.Int32}, {Name: "customerid", Type: engine.Int32},
			{Name: "productid", Type: engine.Int32}, {Name: "price", Type: engine.Float32},
			{Name: "data", Type: engine.Varchar, Size: 20},
		},
		PrimaryKey: []string{"transactionid"},
		Indexes: []engine.Index{
			{Name: "marketsegment", Columns: []string{"price", "customerid"}},
			{Name: "registersegment", Columns: []string{"cashregisterid", "price", "customerid"}},
			{Name: "pdc", Columns: []string{"price", "dateandtime", "customerid"}},
		},
	}
}

func fillPurchases(b *engine.Batch, rnd *rand.Rand, first int64, n int) {
	b.Reset()
	for i := range n {
		b.Columns[0].Ints = append(b.Columns[0].Ints, first+int64(i))
		b.Columns[1].Ints = append(b.Columns[1].Ints, 1795197600e6+int64(i)*1e6)
		b.Columns[2].Ints = append(b.Columns[2].Ints, rnd.Int64N(1000))
		customer := rnd.Int64N(100000)
		b.Columns[3].Ints = append(b.Columns[3].Ints, customer)
		b.Columns[4].Ints = append(b.Columns[4].Ints, rnd.Int64N(10000))
		b.Columns[5].Floats = append(b.Columns[5].Floats, float64(float32((rnd.Float64()*500+float64(customer))/100)))
		b.Columns[6].AppendBytes([]byte("aaaaaaaaaa0123456789"[:10+i%10]))
		b.EndRow()
	}
}

func openBench(b *testing.B) *DB {
	target, err := engine.ParseTarget("sqlite:" + filepath.Join(b.TempDir(), "bench.db") + "?cache=64MB&durability=none")
	must(b, err)
	db, err := Open(b.Context(), target)
	must(b, err)
	b.Cleanup(func() { db.Close() })
	must(b, db.Apply(b.Context(), engine.CreateTable{Table: purchases()}))
	return db
}

// BenchmarkInsert compares insert methods and numbers of rows per statement; the
// defaults are based on it. An op is a batch. Run a fixed number of ops with
// -benchtime 100x, because the table grows.
func BenchmarkInsert(b *testing.B) {
	for _, batch := range []int{1, 1000} {
		run := func(name string, m engine.Method) {
			b.Run(fmt.Sprintf("batch=%d/%s", batch, name), func(b *testing.B) {
				db := openBench(b)
				opened, err := db.Writer(b.Context(), purchases(), m)
				must(b, err)
				defer opened.Close()
				rows, rnd := engine.NewBatch(purchases().Columns), rand.New(rand.NewPCG(1, 2))
				next := int64(0)
				insert := func() {
					fillPurchases(rows, rnd, next, batch)
					next += int64(batch)
					if _, err := opened.Write(b.Context(), rows); err != nil {
						b.Fatal(err)
					}
				}
				insert()
				b.ReportAllocs()
				for b.Loop() {
					insert()
				}
				b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
		run("prepared/1", engine.Prepared)
		run("multi", engine.Multi)
		run("single", engine.Single)
		b.Run(fmt.Sprintf("batch=%d/driver", batch), func(b *testing.B) { benchmarkDriver(b, batch) })
	}
}

// benchmarkDriver inserts with values bound through the driver, as the baseline for
// native_cgo.go and native_pure.go.
func benchmarkDriver(b *testing.B, batch int) {
	db := openBench(b)
	e := newEncoder(dialect{}, purchases(), "purchases")
	per := min(batch, 64)
	statement, err := db.write.Prepare(e.placeholders(per))
	must(b, err)
	defer statement.Close()
	rows, rnd := engine.NewBatch(purchases().Columns), rand.New(rand.NewPCG(1, 2))
	next := int64(0)
	var args []driver.NamedValue
	b.ReportAllocs()
	for b.Loop() {
		fillPurchases(rows, rnd, next, batch/per*per)
		next += int64(batch / per * per)
		must(b, db.run(beginStatement))
		for from := 0; from < rows.Rows(); from += per {
			args = args[:0]
			for i := from; i < from+per; i++ {
				for c := range rows.Columns {
					v := &rows.Columns[c]
					var value driver.Value
					switch v.Type {
					case engine.Float32:
						value = v.Floats[i]
					case engine.Varchar, engine.Time:
						value = string(v.AppendText(nil, i))
					default:
						value = v.Ints[i]
					}
					args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: value})
				}
			}
			if _, err := statement.(driver.StmtExecContext).ExecContext(b.Context(), args); err != nil {
				b.Fatal(err)
			}
		}
		must(b, db.run(commitStatement))
	}
	b.ReportMetric(float64(batch/per*per*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkFind reads one row by the primary key, or ten by a list of keys.
func BenchmarkFind(b *testing.B) {
	for _, points := range []int{1, 10} {
		b.Run(fmt.Sprintf("rows=%d", points), func(b *testing.B) {
			db, rnd := openBench(b), rand.New(rand.NewPCG(1, 2))
			w, err := db.Writer(b.Context(), purchases(), engine.Prepared)
			must(b, err)
			defer w.Close()
			const there = 20000
			rows := engine.NewBatch(purchases().Columns)
			fillPurchases(rows, rnd, 0, there)
			if _, err := w.Write(b.Context(), rows); err != nil {
				b.Fatal(err)
			}
			q, err := db.Querier(b.Context())
			must(b, err)
			defer q.Close()
			find := &engine.Find{Table: purchases(), On: []string{"transactionid"}, How: engine.Equal}
			if points > 1 {
				find.How, find.Points = engine.In, points
			}
			values := make([]engine.Value, points)
			b.ReportAllocs()
			for b.Loop() {
				for i := range values {
					values[i].Int = rnd.Int64N(there)
				}
				if n, err := q.Find(b.Context(), find, values); n < 1 || err != nil {
					b.Fatalf("%d rows, %v", n, err)
				}
			}
		})
	}
}

// BenchmarkEncode measures the client's part of an insert, which must not allocate.
func BenchmarkEncode(b *testing.B) {
	const batch = 1000
	rows := engine.NewBatch(purchases().Columns)
	fillPurchases(rows, rand.New(rand.NewPCG(1, 2)), 0, batch)
	e := newEncoder(dialect{}, purchases(), "purchases")
	buf := e.appendInsert(nil, rows, 0, batch, 1)
	for name, encode := range map[string]func(){
		"text": func() { buf = e.appendInsert(buf[:0], rows, 0, batch, 1) },
		"bound": func() {
			buf = buf[:0]
			for i := range batch {
				buf = e.appendBound(buf, rows, i, 1)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/row")
		})
	}
}

// BenchmarkViewInsert compares an insert with a prepared statement into the view of
// a declared table, whose triggers insert into the row's period, with an insert
// into the period's own table.
func BenchmarkViewInsert(b *testing.B) {
	for _, periods := range []int{1, 40, 100, 500} {
		for _, into := range []string{"view", "period"} {
			b.Run(fmt.Sprintf("%s/%d", into, periods), func(b *testing.B) {
				db := openTest(b, "")
				table, parts := declared(b, "CREATE TABLE r (sensor INTEGER NOT NULL, ts DATETIME NOT NULL, value REAL, note TEXT, PRIMARY KEY (sensor, ts)) WITHOUT ROWID; CREATE INDEX by_ts ON r (ts)",
					"ts", "1d", firstDay, periods)
				mustTry(b, db, engine.CreateTable{Table: table, Partitions: parts})
				name := `"r"`
				if into == "period" {
					name = db.Words().From(table, parts[0])
				}
				tx, err := db.SQL().Begin()
				must(b, err)
				defer tx.Rollback()
				insert, err := tx.Prepare("INSERT INTO " + name + " VALUES (?, '2026-11-20 18:00:00', 1.5, 'note')")
				must(b, err)
				defer insert.Close()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := insert.Exec(i); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkDescribe reads a table from the catalog, as every inspection of a
// rolling table does.
func BenchmarkDescribe(b *testing.B) {
	db := openBench(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.Describe(b.Context(), purchases().Name); err != nil {
			b.Fatal(err)
		}
	}
}
