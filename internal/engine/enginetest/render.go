package enginetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Update is the flag -update: write the golden files.
var Update = flag.Bool("update", false, "write the golden files")

// Purchases returns a table with a column of each type, one of them with a name to quote.
func Purchases(quoted string) *engine.Table {
	return &engine.Table{
		Name: "purchases",
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64, Auto: true}, {Name: "at", Type: engine.Time}, {Name: "register", Type: engine.Int32, Null: true},
			{Name: "price", Type: engine.Float32}, {Name: "weight", Type: engine.Float64, Default: "0"},
			{Name: quoted, Type: engine.Varchar, Size: 40, Null: true}, {Name: "code", Type: engine.Char, Size: 4},
			{Name: "total", Type: engine.Decimal, Size: 12, Scale: 2},
		},
		PrimaryKey: []string{"id"},
		Indexes:    []engine.Index{{Name: "market", Columns: []string{"price", "register"}}},
	}
}

// PurchasesBatch returns two rows of Purchases, with the text in one of them.
func PurchasesBatch(text string) *engine.Batch {
	b := engine.NewBatch(Purchases("x").Columns)
	for i := range 2 {
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i+1))
		b.Columns[1].Ints = append(b.Columns[1].Ints, Noon)
		b.Columns[3].Floats = append(b.Columns[3].Floats, float64(float32(0.1)))
		b.Columns[4].Floats = append(b.Columns[4].Floats, 1e21)
		b.Columns[6].AppendBytes([]byte("ab"))
		b.Columns[7].AppendBytes([]byte("12.50"))
		b.EndRow()
	}
	b.Columns[2].AppendNull()
	b.Columns[2].Ints = append(b.Columns[2].Ints, 7)
	b.Columns[5].AppendBytes([]byte(text))
	b.Columns[5].AppendNull()
	return b
}

// Noon is the position of an instant in 2026.
const Noon = int64(1795197600e6)

// Roll makes the table roll by a column, which its primary key then includes.
func Roll(t testing.TB, table *engine.Table, every, by string) *engine.Table {
	t.Helper()
	table.Grid, table.By = grid(t, every), by
	if by != "id" {
		table.PrimaryKey = append(table.PrimaryKey, by)
	}
	return table
}

// Periods returns the first three periods from a position on.
func Periods(t testing.TB, g rolling.Grid, pos int64) []rolling.Partition {
	t.Helper()
	return periods(t, g, pos, 3)
}

// Queries returns a Find with each Condition, and related steps, on a plain table and rolling ones.
// table returns a table like Purchases.
func Queries(t testing.TB, table func() *engine.Table) []engine.Step {
	plain, byRows, byTime := table(), Roll(t, table(), "1000 rows", "id"), Roll(t, table(), "2h", "at")
	market := []string{"price", "register"}
	return []engine.Step{
		engine.Find{Table: plain, On: []string{"id"}, How: engine.Equal},
		engine.Find{Table: plain, On: []string{"id"}, How: engine.In, Points: 3},
		engine.Find{Table: plain, Columns: []string{"id", "price"}, On: []string{"id"}, Order: []string{"id"}, Limit: 10},
		engine.Find{Table: plain, Index: "market", On: market[:1], How: engine.Above, Order: market, Limit: 10},
		engine.Find{Table: plain, Index: "market", On: market, How: engine.Equal},
		engine.Find{Table: plain, Index: "market", On: market[:1], How: engine.Keyset},
		engine.Find{Table: plain, Index: "market", Columns: market, On: market, How: engine.Keyset, Order: market, Limit: 10},
		engine.Find{Table: plain, Columns: market, On: []string{"price", "at", "register"}, How: engine.Keyset},
		engine.Delete{Table: plain, By: "id"},
		engine.CreateIndexes{Table: plain, Indexes: plain.Indexes},
		engine.Find{Table: byRows, Index: "market", On: []string{"price"}, Limit: 5},
		engine.Delete{Table: byTime, By: "at"},
		engine.CreateIndexes{Table: byRows, Indexes: byRows.Indexes, Partitions: Periods(t, byRows.Grid, 0)},
		engine.Settle{Tables: []*engine.Table{plain, byRows}},
	}
}

// Changes returns the steps that change a rolling table with three periods.
func Changes(t *engine.Table, p []rolling.Partition) []engine.Step {
	whole := rolling.Partition{Name: "whole", Period: rolling.Period{From: p[0].From, To: p[2].To}}
	return []engine.Step{
		engine.Detach{Table: t, Have: p, Part: p[0], Into: "it's gone"},
		engine.Attach{Table: t, Have: p[1:], Part: p[0], From: "it's gone"},
		engine.Replace{Table: t, Have: p, Old: p[:1], New: p[0], With: "sorted", Out: []string{"old"}},
		engine.Replace{Table: t, Have: p, Old: p, New: whole, With: "merged", Out: []string{"old1", "old2", "merged"}},
		engine.DropTables{Names: []string{"old", `a"b`}},
		engine.AddColumn{Table: t, Have: p, Name: "x", Definition: "x INT DEFAULT 0 -- why"},
	}
}

// Standard returns the renderings of a plain table and of two rolling ones; suffix ends the
// renderings' names. table returns a table like Purchases.
func Standard(t testing.TB, d engine.Dialect, suffix string, table func() *engine.Table) []Rendering {
	plain, byRows, byTime := table(), Roll(t, table(), "1000 rows", "id"), Roll(t, table(), "2h", "at")
	rows, times := Periods(t, byRows.Grid, 0), Periods(t, byTime.Grid, Noon)
	return []Rendering{
		{Name: "plain" + suffix, Dialect: d, Steps: []engine.Step{
			engine.CreateTable{Table: plain}, engine.Inspect{Table: plain}, engine.Select{Table: plain},
			engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}, engine.DropTable{Table: plain}}},
		{Name: "rolling-rows" + suffix, Dialect: d, Steps: []engine.Step{
			engine.CreateTable{Table: byRows, Partitions: rows[:2]}, engine.CreatePartitions{Table: byRows, Have: rows[:2], New: rows[2:]},
			engine.DropPartition{Table: byRows, Have: rows, Drop: rows[0]}, engine.Select{Table: byRows, Partition: &rows[1]},
			engine.DropTable{Table: byRows, Partitions: rows}}},
		{Name: "rolling-time" + suffix, Dialect: d, Steps: []engine.Step{
			engine.CreateTable{Table: byTime, Partitions: times[:1]}, engine.CreatePartitions{Table: byTime, Have: times[:1], New: times[1:]},
			engine.DropPartition{Table: byTime, Have: times, Drop: times[0]}}},
	}
}

// Inserts returns the step of inserting a batch by each method.
func Inserts(table *engine.Table, b *engine.Batch, methods ...engine.Method) (out []engine.Step) {
	for _, m := range methods {
		out = append(out, engine.Insert{Table: table, Method: m, Batch: b})
	}
	return out
}

// Refused returns steps that every dialect refuses.
func Refused(t testing.TB, table func() *engine.Table, b *engine.Batch) map[string]engine.Step {
	return map[string]engine.Step{
		"no partitions":  engine.CreateTable{Table: Roll(t, table(), "2h", "at")},
		"invalid table":  engine.CreateTable{Table: &engine.Table{Name: "x"}},
		"unknown index":  engine.Find{Table: table(), Index: "nix", On: []string{"id"}},
		"unknown column": engine.Delete{Table: table(), By: "nix"},
		"no index":       engine.CreateIndexes{Table: table()},
		"unknown method": engine.Insert{Table: table(), Method: "pigeon", Batch: b},
	}
}

// Repeat returns a batch of n rows, which are those of b in turn.
func Repeat(t *engine.Table, b *engine.Batch, n int) *engine.Batch {
	out := engine.NewBatch(t.Columns)
	for i := range n {
		copyRow(out, b, i%b.Rows())
	}
	return out
}

// A Rendering is a golden file, testdata/NAME.sql, of the steps that a dialect renders.
type Rendering struct {
	Name    string
	Dialect engine.Dialect
	Steps   []engine.Step
}

// RunRenderings compares renderings with their files, which -update writes, and checks that the
// dialect of the first rendering refuses the steps of refused.
func RunRenderings(t *testing.T, all []Rendering, refused map[string]engine.Step) {
	t.Parallel()
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			var out strings.Builder
			for _, s := range c.Steps {
				statements, err := c.Dialect.Render(s)
				Must(t, err)
				fmt.Fprintf(&out, "-- %T\n", s)
				for _, q := range statements {
					out.WriteString(q + ";\n")
				}
			}
			Golden(t, c.Name+".sql", out.String())
		})
	}
	for name, s := range refused {
		if got, err := all[0].Dialect.Render(s); err == nil {
			t.Errorf("%s: rendered as %q", name, got)
		}
	}
}

// Golden compares text with a file in testdata, which -update writes.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *Update {
		Must(t, os.MkdirAll("testdata", 0o755))
		Must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); -update accepts it:\n%s", file, diff)
	}
}
