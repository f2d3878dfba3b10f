package sqlite

import (
	"database/sql/driver"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

var update = flag.Bool("update", false, "write the golden files")

// orders returns a table that rolls by a time, with names that need quoting and a
// column of each type.
func orders(t testing.TB, every string) *engine.Table {
	table := &engine.Table{
		Name: "ord\"ers",
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64}, {Name: "at", Type: engine.Time}, {Name: "n", Type: engine.Int32, Null: true},
			{Name: "price", Type: engine.Float32}, {Name: "weight", Type: engine.Float64, Default: "0"},
			{Name: "it's", Type: engine.Varchar, Size: 40, Null: true}, {Name: "code", Type: engine.Char, Size: 4},
			{Name: "total", Type: engine.Decimal, Size: 12, Scale: 2},
		},
		PrimaryKey: []string{"id"},
		Indexes:    []engine.Index{{Name: "by price", Columns: []string{"price", "n"}}},
	}
	if every != "" {
		g, err := rolling.Parse(every)
		if err != nil {
			t.Fatal(err)
		}
		table.Grid, table.By, table.PrimaryKey = g, "at", []string{"id", "at"}
	}
	return table
}

func periods(t testing.TB, g rolling.Grid, pos int64) (out []rolling.Partition) {
	t.Helper()
	for range 3 {
		p, err := g.At(pos)
		if err != nil {
			t.Fatal(err)
		}
		out, pos = append(out, g.Named(p)), p.To
	}
	return out
}

func batch() *engine.Batch {
	b := engine.NewBatch(orders(nil, "").Columns)
	for i := range 2 {
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i+1))
		b.Columns[1].Ints = append(b.Columns[1].Ints, 1795197600e6)
		b.Columns[3].Floats = append(b.Columns[3].Floats, float64(float32(0.1)))
		b.Columns[4].Floats = append(b.Columns[4].Floats, 1e21)
		b.Columns[6].AppendBytes([]byte("a\x00b"))
		b.Columns[7].AppendBytes([]byte("12.50"))
		b.EndRow()
	}
	b.Columns[2].AppendNull()
	b.Columns[2].Ints = append(b.Columns[2].Ints, 7)
	b.Columns[5].AppendBytes([]byte("it's \\ 😀"))
	b.Columns[5].AppendNull()
	return b
}

func TestRender(t *testing.T) {
	t.Parallel()
	d := dialect{pragmas: []string{"PRAGMA x = 1"}}
	plain, roll := orders(t, ""), orders(t, "2h")
	parts := periods(t, roll.Grid, 1795197600e6)
	market := []string{"price", "n"}
	var out strings.Builder
	for _, s := range []engine.Step{
		engine.Connect{}, engine.CreateTable{Table: plain}, engine.Inspect{Table: plain}, engine.Select{Table: plain}, engine.Measure{Table: plain},
		engine.Sample{Tables: []*engine.Table{plain}}, engine.DropTable{Table: plain},
		engine.CreateTable{Table: roll, Partitions: parts[:1]}, engine.CreatePartitions{Table: roll, Have: parts[:1]},
		engine.CreatePartitions{Table: roll, Have: parts[:1], New: parts[1:]}, engine.DropPartition{Table: roll, Have: parts, Drop: parts[0]},
		engine.Select{Table: roll, Partition: &parts[1]}, engine.Measure{Table: roll}, engine.DropTable{Table: roll, Partitions: parts},
		engine.Insert{Table: plain, Method: engine.Prepared, Batch: batch()}, engine.Insert{Table: plain, Method: engine.Multi, Batch: batch()},
		engine.Insert{Table: plain, Method: engine.Single, Batch: batch()}, engine.Insert{Table: roll, Method: engine.Multi, Batch: batch()},
		engine.Find{Table: plain, On: []string{"id"}, How: engine.Equal}, engine.Find{Table: plain, On: []string{"id"}, How: engine.In, Points: 3},
		engine.Find{Table: plain, Columns: []string{"id", "price"}, On: []string{"id"}, Order: []string{"id"}, Limit: 10},
		engine.Find{Table: plain, Index: "by price", On: market[:1], How: engine.Above, Order: market, Limit: 10},
		engine.Find{Table: plain, Index: "by price", Columns: market, On: market, How: engine.Keyset, Order: market, Limit: 10},
		engine.Find{Table: plain, Columns: market, On: []string{"price", "at", "n"}, How: engine.Keyset},
		engine.Find{Table: roll, Index: "by price", On: market[:1]}, engine.Delete{Table: plain, By: "id"}, engine.Delete{Table: roll, By: "at"},
		engine.CreateIndexes{Table: plain, Indexes: plain.Indexes}, engine.CreateIndexes{Table: roll, Indexes: roll.Indexes, Partitions: parts},
		engine.Settle{Tables: []*engine.Table{plain}},
	} {
		statements, err := d.Render(s)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "-- %T\n", s)
		for _, q := range statements {
			out.WriteString(q + ";\n")
		}
	}
	file := filepath.Join("testdata", "steps.sql")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s differs (-want +got); -update accepts it:\n%s", file, diff)
	}
	for name, s := range map[string]engine.Step{
		"no partitions":      engine.CreateTable{Table: roll},
		"the only partition": engine.DropPartition{Table: roll, Have: parts[:1], Drop: parts[0]},
		"unknown index":      engine.Find{Table: plain, Index: "nix", On: []string{"id"}},
		"unknown column":     engine.Delete{Table: plain, By: "nix"},
		"no periods":         engine.CreateIndexes{Table: roll, Indexes: roll.Indexes},
		"unknown method":     engine.Insert{Table: plain, Method: engine.Load, Batch: batch()},
	} {
		if got, err := d.Render(s); err == nil {
			t.Errorf("%s: rendered as %q", name, got)
		}
	}
}

func openTest(t testing.TB, options string) *DB {
	t.Helper()
	target, err := engine.ParseTarget("sqlite:" + filepath.Join(t.TempDir(), "it's 100% #1.db") + "?durability=none" + options)
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
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
	parts := periods(t, table.Grid, 1795197600e6)
	step := engine.CreateTable{Table: table, Partitions: parts}
	if err := db.Apply(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	statements, err := db.Dialect().Render(step)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
		for method, run := range map[string]func() error{
			"text":  func() error { return db.handle.exec(e.appendInsert(nil, b, 0, 1, 1)) },
			"bound": func() error { return insert.step(e.appendBound(nil, b, 0, 1), 4, 1) },
		} {
			if _, err := db.write.Exec("DELETE FROM t", nil); err != nil {
				t.Fatal(err)
			}
			if err := run(); err != nil {
				t.Fatalf("%s: %v", method, err)
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
