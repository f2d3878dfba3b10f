//go:build unix

package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

func openBench(b *testing.B) *DB {
	target, err := engine.ParseTarget("sqlite:" + filepath.Join(b.TempDir(), "bench.db") + "?cache=64MB&durability=none")
	must(b, err)
	db, err := Open(b.Context(), target)
	must(b, err)
	b.Cleanup(func() { db.Close() })
	must(b, db.Apply(b.Context(), engine.CreateTable{Table: purchases()}))
	return db
}

func openAny(t testing.TB) engine.DB { return openTest(t, "&cache=64MB") }

// BenchmarkInsert inserts batches by each method. Run a fixed number of ops with
// -benchtime 300x, because the table grows.
func BenchmarkInsert(b *testing.B) { enginetest.BenchInsert(b, openAny) }

// BenchmarkFind reads one row by the primary key, or ten by a list of keys.
func BenchmarkFind(b *testing.B) { enginetest.BenchFind(b, openAny, nil) }

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

// BenchmarkTempTable inserts partial rows of three columns into a temporary table, as a merge does.
// The ceiling is 2 us for each.
func BenchmarkTempTable(b *testing.B) {
	db := openBench(b)
	ctx := context.Background()
	s, err := db.ReadSession(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	cols := []engine.ResultColumn{{Name: "k", Class: engine.ClassText, Carried: true}, {Name: "n", Class: engine.ClassInt}, {Name: "v", Class: engine.ClassFloat, Carried: true}}
	table, err := db.TempTable(ctx, s, "partial", "", cols)
	if err != nil {
		b.Fatal(err)
	}
	var rows []byte
	const n = 1000
	for range n {
		if rows, err = table.Append(rows, [][]byte{[]byte("t2026-01-01"), []byte("12345"), []byte("f3ff0000000000000")}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := table.Insert(ctx, rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
}
