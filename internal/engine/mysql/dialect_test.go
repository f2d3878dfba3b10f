package mysql

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

var update = flag.Bool("update", false, "write the golden files")

// purchases has a column of each type.
func purchases() *engine.Table {
	return &engine.Table{
		Name: "purchases",
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64, Auto: true}, {Name: "at", Type: engine.Time}, {Name: "register", Type: engine.Int32, Null: true},
			{Name: "price", Type: engine.Float32}, {Name: "weight", Type: engine.Float64, Default: "0"},
			{Name: "note's `name`", Type: engine.Varchar, Size: 40, Null: true}, {Name: "code", Type: engine.Char, Size: 4},
			{Name: "total", Type: engine.Decimal, Size: 12, Scale: 2},
		},
		PrimaryKey: []string{"id"},
		Indexes:    []engine.Index{{Name: "market", Columns: []string{"price", "register"}}, {Name: "a`b", Columns: []string{"note's `name`"}}},
	}
}

func batch() *engine.Batch {
	b := engine.NewBatch(purchases().Columns)
	for i := range 2 {
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i+1))
		b.Columns[1].Ints = append(b.Columns[1].Ints, 1795197600e6)
		b.Columns[3].Floats = append(b.Columns[3].Floats, float64(float32(0.1)))
		b.Columns[4].Floats = append(b.Columns[4].Floats, 1e21)
		b.Columns[6].AppendBytes([]byte("ab"))
		b.Columns[7].AppendBytes([]byte("12.50"))
		b.EndRow()
	}
	b.Columns[2].AppendNull()
	b.Columns[2].Ints = append(b.Columns[2].Ints, 7)
	b.Columns[5].AppendBytes([]byte("it's \\ \x00 \t😀"))
	b.Columns[5].AppendNull()
	return b
}

func roll(t *testing.T, table *engine.Table, every, by string) *engine.Table {
	t.Helper()
	g, err := rolling.Parse(every)
	if err != nil {
		t.Fatal(err)
	}
	table.Grid, table.By = g, by
	if by != "id" {
		table.PrimaryKey = append(table.PrimaryKey, by)
	}
	return table
}

func periods(t *testing.T, g rolling.Grid, pos int64) (out []rolling.Partition) {
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

// queries returns a Find of each condition on a table, and related steps.
func queries(t *engine.Table) []engine.Step {
	market := []string{"price", "register"}
	return []engine.Step{
		engine.Find{Table: t, On: []string{"id"}, How: engine.Equal},
		engine.Find{Table: t, On: []string{"id"}, How: engine.In, Points: 3},
		engine.Find{Table: t, Columns: []string{"id", "price"}, On: []string{"id"}, Order: []string{"id"}, Limit: 10},
		engine.Find{Table: t, Index: "market", On: market[:1], How: engine.Above, Order: market, Limit: 10},
		engine.Find{Table: t, Index: "market", On: market, How: engine.Equal},
		engine.Find{Table: t, Index: "market", On: market[:1], How: engine.Keyset},
		engine.Find{Table: t, Index: "market", Columns: market, On: market, How: engine.Keyset, Order: market, Limit: 10},
		engine.Find{Table: t, Columns: market, On: []string{"price", "at", "register"}, How: engine.Keyset},
		engine.Delete{Table: t, By: "id"},
		engine.CreateIndexes{Table: t, Indexes: t.Indexes},
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	mariadb, mysql8 := dialect{mariadb: true, storage: "InnoDB"}, dialect{storage: "InnoDB", remembers: true}
	rocks := dialect{mariadb: true, storage: "ROCKSDB"}
	plain := purchases()
	byRows, byTime := roll(t, purchases(), "1000 rows", "id"), roll(t, purchases(), "2h", "at")
	rows, times := periods(t, byRows.Grid, 0), periods(t, byTime.Grid, 1795197600e6)
	keyed := purchases()
	keyed.ServerKey = "id"
	finds := queries(plain)
	finds = append(finds, engine.Find{Table: byRows, Index: "market", On: []string{"price"}, Limit: 5}, engine.Delete{Table: byTime, By: "at"},
		engine.CreateIndexes{Table: byRows, Indexes: byRows.Indexes, Partitions: rows}, engine.Settle{Tables: []*engine.Table{plain, byRows}})
	withoutKey := batch()
	withoutKey.Columns = withoutKey.Columns[1:]
	for _, c := range []struct {
		name  string
		d     dialect
		steps []engine.Step
	}{
		{"sessions", mariadb, []engine.Step{engine.Connect{}, engine.Connect{Maintenance: true}}},
		{"sessions-mysql", mysql8, []engine.Step{engine.Connect{}, engine.Connect{Maintenance: true}}},
		{"plain", mariadb, []engine.Step{engine.CreateTable{Table: plain}, engine.Inspect{Table: plain}, engine.Select{Table: plain},
			engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}, engine.DropTable{Table: plain}}},
		{"plain-rocksdb", rocks, []engine.Step{engine.CreateTable{Table: plain}, engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}}},
		{"plain-mysql", mysql8, []engine.Step{engine.CreateTable{Table: plain}, engine.Inspect{Table: plain}, engine.Select{Table: plain},
			engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}, engine.DropTable{Table: plain}}},
		{"rolling-rows", mariadb, []engine.Step{engine.CreateTable{Table: byRows, Partitions: rows[:2]}, engine.CreatePartitions{Table: byRows, Have: rows[:2], New: rows[2:]},
			engine.DropPartition{Table: byRows, Have: rows, Drop: rows[0]}, engine.Select{Table: byRows, Partition: &rows[1]}, engine.DropTable{Table: byRows, Partitions: rows}}},
		{"rolling-rows-mysql", mysql8, []engine.Step{engine.CreateTable{Table: byRows, Partitions: rows[:2]}, engine.CreatePartitions{Table: byRows, Have: rows[:2], New: rows[2:]},
			engine.DropPartition{Table: byRows, Have: rows, Drop: rows[0]}, engine.Select{Table: byRows, Partition: &rows[1]}, engine.DropTable{Table: byRows, Partitions: rows}}},
		{"rolling-time", mariadb, []engine.Step{engine.CreateTable{Table: byTime, Partitions: times[:1]}, engine.CreatePartitions{Table: byTime, Have: times[:1], New: times[1:]},
			engine.DropPartition{Table: byTime, Have: times, Drop: times[0]}}},
		{"rolling-time-mysql", mysql8, []engine.Step{engine.CreateTable{Table: byTime, Partitions: times[:1]}, engine.CreatePartitions{Table: byTime, Have: times[:1], New: times[1:]},
			engine.DropPartition{Table: byTime, Have: times, Drop: times[0]}}},
		{"queries", mariadb, finds},
		{"settle-mysql", mysql8, finds[len(finds)-1:]},
		{"settle-rocksdb", rocks, finds[len(finds)-1:]},
		{"insert", mariadb, []engine.Step{engine.Insert{Table: plain, Method: engine.Multi, Batch: batch()}, engine.Insert{Table: plain, Method: engine.Single, Batch: batch()},
			engine.Insert{Table: plain, Method: engine.Prepared, Batch: batch()}, engine.Insert{Table: plain, Method: engine.Load, Batch: batch()},
			engine.Insert{Table: keyed, Method: engine.Multi, Batch: withoutKey}, engine.Insert{Table: keyed, Method: engine.Prepared, Batch: withoutKey},
			engine.Insert{Table: keyed, Method: engine.Load, Batch: withoutKey}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			for _, s := range c.steps {
				statements, err := c.d.Render(s)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&out, "-- %T\n", s)
				for _, q := range statements {
					out.WriteString(q + ";\n")
				}
			}
			golden(t, c.name+".sql", out.String())
		})
	}
	for name, s := range map[string]engine.Step{
		"no partitions":  engine.CreateTable{Table: byRows},
		"invalid table":  engine.CreateTable{Table: &engine.Table{Name: "x"}},
		"unknown index":  engine.Find{Table: plain, Index: "nix", On: []string{"id"}},
		"unknown column": engine.Delete{Table: plain, By: "nix"},
		"no index":       engine.CreateIndexes{Table: plain},
		"unknown method": engine.Insert{Table: plain, Method: "pigeon", Batch: batch()},
	} {
		if got, err := mariadb.Render(s); err == nil {
			t.Errorf("%s: rendered as %q", name, got)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); -update accepts it:\n%s", file, diff)
	}
}
