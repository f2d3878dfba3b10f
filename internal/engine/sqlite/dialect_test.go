package sqlite

import (
	"database/sql/driver"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

// orders returns a table that rolls by a time, with names that need quoting and a
// column of each type.
func orders(t testing.TB, every string) *engine.Table {
	table := enginetest.Purchases("it's")
	table.Name = "ord\"ers"
	if every != "" {
		return enginetest.Roll(t, table, every, "at")
	}
	return table
}

func batch() *engine.Batch {
	b := enginetest.PurchasesBatch("it's \\ 😀")
	b.Columns[6].Ends, b.Columns[6].Bytes = b.Columns[6].Ends[:0], b.Columns[6].Bytes[:0]
	for range 2 {
		b.Columns[6].AppendBytes([]byte("a\x00b"))
	}
	return b
}

func TestRender(t *testing.T) {
	d, table := dialect{pragmas: []string{"PRAGMA x = 1"}}, func() *engine.Table { return orders(t, "") }
	plain, roll := table(), orders(t, "2h")
	parts := enginetest.Periods(t, roll.Grid, enginetest.Noon)
	refused := enginetest.Refused(t, table, batch())
	refused["the only partition"] = engine.DropPartition{Table: roll, Have: parts[:1], Drop: parts[0]}
	refused["no periods"] = engine.CreateIndexes{Table: roll, Indexes: roll.Indexes}
	steps := slices.Concat([]engine.Step{engine.Connect{}, engine.CreatePartitions{Table: roll, Have: parts[:1]}, engine.Measure{Table: roll}},
		enginetest.Inserts(plain, batch(), engine.Prepared, engine.Multi, engine.Single), enginetest.Inserts(roll, batch(), engine.Multi), enginetest.Queries(t, table))
	enginetest.RunRenderings(t, append(enginetest.Standard(t, d, "", table), enginetest.Rendering{Name: "steps", Dialect: d, Steps: steps}), refused)
}

func openTest(t testing.TB, options string) *DB {
	t.Helper()
	target, err := engine.ParseTarget("sqlite:" + filepath.Join(t.TempDir(), "it's 100% #1.db") + "?durability=none" + options)
	must(t, err)
	db, err := Open(t.Context(), target)
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// TestApplyRunsWhatRenderShows compares the rendered statements with the catalog,
// which stores each CREATE statement unchanged.
func TestApplyRunsWhatRenderShows(t *testing.T) {
	t.Parallel()
	db, table := openTest(t, ""), orders(t, "2h")
	parts := enginetest.Periods(t, table.Grid, 1795197600e6)
	step := engine.CreateTable{Table: table, Partitions: parts}
	must(t, db.Apply(t.Context(), step))
	statements, err := db.Dialect().Render(step)
	must(t, err)
	var want, got []string
	for _, q := range statements {
		if strings.HasPrefix(q, "CREATE") {
			want = append(want, strings.Replace(q, "IF NOT EXISTS ", "", 1))
		}
	}
	err = each(db.write, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid", nil, func(row []driver.Value) error {
		got = append(got, row[0].(string))
		return nil
	})
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("the file has\n%q\nwant\n%q", got, want)
	}
}

// FuzzLiteral checks that a value, as a literal or bound, is read back unchanged.
func FuzzLiteral(f *testing.F) {
	db := openTest(f, "")
	if _, err := db.write.Exec("CREATE TABLE t (a TEXT, b INTEGER, c REAL, d TEXT)", nil); err != nil {
		f.Fatal(err)
	}
	table := &engine.Table{Name: "t", Columns: []engine.Column{{Name: "a", Type: engine.Varchar}, {Name: "b", Type: engine.Int64}, {Name: "c", Type: engine.Float64}, {Name: "d", Type: engine.Varchar}}}
	e := newEncoder(dialect{}, table, "t")
	insert, err := db.handle.prepare(e.placeholders(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(insert.close)
	f.Add("", int64(0), 0.0)
	f.Add("'", int64(-1<<63), 1e300)
	f.Add("a\x00'); DROP TABLE t; --", int64(1<<63-1), -0.1)
	f.Add("😀\xff", int64(1<<53+1), 5e-324)
	f.Fuzz(func(t *testing.T, s string, n int64, x float64) {
		if x != x || x-x != 0 {
			return // no server stores NaN
		}
		b := engine.NewBatch(table.Columns)
		b.Columns[0].AppendBytes([]byte(s))
		b.Columns[1].Ints = []int64{n}
		b.Columns[2].Floats = []float64{x}
		b.Columns[3].AppendBytes([]byte("end"))
		b.EndRow()
		for method, run := range map[string]func() (int64, error){
			"text":  func() (int64, error) { return db.handle.exec(e.appendInsert(nil, b, 0, 1, 1)) },
			"bound": func() (int64, error) { return insert.run(e.appendBound(nil, b, 0, 1), 4, 1) },
		} {
			if _, err := db.write.Exec("DELETE FROM t", nil); err != nil {
				t.Fatal(err)
			}
			if n, err := run(); n != 1 || err != nil {
				t.Fatalf("%s: %d rows, %v", method, n, err)
			}
			rows := 0
			err := each(db.write, "SELECT CAST(a AS BLOB), typeof(a), b, c, d FROM t", nil, func(row []driver.Value) error {
				rows++
				got, _ := row[0].([]byte)
				if string(got) != s || row[1] != "text" || row[2] != n || row[3] != x || row[4] != "end" {
					t.Errorf("%s: %q, %d, %v came back as %v", method, s, n, x, row)
				}
				return nil
			})
			if err != nil || rows != 1 {
				t.Fatalf("%s: %d rows, %v", method, rows, err)
			}
		}
	})
}
