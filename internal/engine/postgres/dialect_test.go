package postgres

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
			{Name: `note's "name"`, Type: engine.Varchar, Size: 40, Null: true}, {Name: "code", Type: engine.Char, Size: 4},
			{Name: "total", Type: engine.Decimal, Size: 12, Scale: 2},
		},
		PrimaryKey: []string{"id"},
		Indexes:    []engine.Index{{Name: "market", Columns: []string{"price", "register"}}, {Name: `a"b`, Columns: []string{`note's "name"`}}},
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
	b.Columns[5].AppendBytes([]byte("it's \\ \t😀"))
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

// queries returns a Find with each kind of condition, and related steps.
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

// declaredTable returns a table with a user's CREATE TABLE statement.
func declaredTable(t *testing.T) *engine.Table {
	t.Helper()
	d, err := rolling.ReadDefinition("CREATE TABLE readings ( -- (of sensors)\n  sensor INT NOT NULL,\n  \"at (UTC)\" TIMESTAMP WITH TIME ZONE NOT NULL,\n" +
		"  note TEXT DEFAULT ')' CHECK (length(note) < 5),\n  PRIMARY KEY (sensor, \"at (UTC)\")\n) TABLESPACE pg_default")
	if err != nil {
		t.Fatal(err)
	}
	g, err := rolling.Parse("1d")
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Table{Name: "readings", Grid: g, By: "at (UTC)", Definition: d, Indexes: []engine.Index{{Name: "at", Columns: []string{"at (UTC)"}}}}
}

// changes returns the steps that maintain a table, on three periods.
func changes(t *engine.Table, p []rolling.Partition) []engine.Step {
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

func TestRender(t *testing.T) {
	t.Parallel()
	d, old := newDialect(), dialect{views: []string{"pg_stat_bgwriter"}}
	plain := purchases()
	byRows, byTime := roll(t, purchases(), "1000 rows", "id"), roll(t, purchases(), "2h", "at")
	rows, times := periods(t, byRows.Grid, 0), periods(t, byTime.Grid, 1795197600e6)
	declared := declaredTable(t)
	days := periods(t, declared.Grid, 1795197600e6)
	keyed, keyedRolling := purchases(), roll(t, purchases(), "1000 rows", "id")
	keyed.ServerKey, keyedRolling.ServerKey = "id", "id"
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
		{"sessions", d, []engine.Step{engine.Connect{}, engine.Connect{Maintenance: true}}},
		{"plain", d, []engine.Step{engine.CreateTable{Table: plain}, engine.Inspect{Table: plain}, engine.Select{Table: plain},
			engine.Measure{Table: plain}, engine.Sample{Tables: []*engine.Table{plain}}, engine.DropTable{Table: plain}}},
		{"rolling-rows", d, []engine.Step{engine.CreateTable{Table: byRows, Partitions: rows[:2]}, engine.CreatePartitions{Table: byRows, Have: rows[:2], New: rows[2:]},
			engine.DropPartition{Table: byRows, Have: rows, Drop: rows[0]}, engine.Select{Table: byRows, Partition: &rows[1]}, engine.DropTable{Table: byRows, Partitions: rows}}},
		{"rolling-time", d, []engine.Step{engine.CreateTable{Table: byTime, Partitions: times[:1]}, engine.CreatePartitions{Table: byTime, Have: times[:1], New: times[1:]},
			engine.DropPartition{Table: byTime, Have: times, Drop: times[0]}}},
		{"version-13", old, append([]engine.Step{engine.DropPartition{Table: byTime, Have: times, Drop: times[0]}, engine.Sample{}}, changes(byTime, times)[:1]...)},
		{"changes-rows", d, changes(byRows, rows)},
		{"changes-time", d, changes(byTime, times)},
		{"declared", d, append([]engine.Step{engine.CreateTable{Table: declared, Partitions: days[:1]}}, changes(declared, days)...)},
		{"server-key", d, []engine.Step{engine.CreateTable{Table: keyed}, engine.CreateTable{Table: keyedRolling, Partitions: rows[:1]}}},
		{"queries", d, finds},
		{"insert", d, []engine.Step{engine.Insert{Table: plain, Method: engine.Multi, Batch: batch()}, engine.Insert{Table: plain, Method: engine.Single, Batch: batch()},
			engine.Insert{Table: plain, Method: engine.Prepared, Batch: batch()}, engine.Insert{Table: plain, Method: engine.Pipeline, Batch: batch()},
			engine.Insert{Table: plain, Method: engine.Load, Batch: batch()},
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
	long := roll(t, purchases(), "1000 rows", "id")
	long.Name = strings.Repeat("x", 62)
	zero := batch()
	zero.Columns[6].Bytes[1] = 0
	for name, s := range map[string]engine.Step{
		"no partitions":       engine.CreateTable{Table: byRows},
		"no list of columns":  engine.CreateTable{Table: &engine.Table{Name: "x", Definition: &rolling.Definition{Text: "CREATE TABLE x AS SELECT 1"}}},
		"invalid table":       engine.CreateTable{Table: &engine.Table{Name: "x"}},
		"long name":           engine.CreateTable{Table: long, Partitions: rows},
		"long name, later":    engine.CreatePartitions{Table: long, Have: rows[:1], New: rows[1:]},
		"the only partition":  engine.DropPartition{Table: byRows, Have: rows[:1], Drop: rows[0]},
		"unknown index":       engine.Find{Table: plain, Index: "nix", On: []string{"id"}},
		"unknown column":      engine.Delete{Table: plain, By: "nix"},
		"no index":            engine.CreateIndexes{Table: plain},
		"unknown method":      engine.Insert{Table: plain, Method: "pigeon", Batch: batch()},
		"zero byte in a text": engine.Insert{Table: plain, Method: engine.Multi, Batch: zero},
	} {
		if got, err := d.Render(s); err == nil {
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

func TestIndexName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 30) // 60 bytes
	names := map[string]bool{}
	for _, ix := range []string{"", "a", "b", strings.Repeat("ü", 20)} {
		name := indexName(&engine.Table{Name: long}, engine.Index{Name: ix})
		if len(name) > maxName || names[name] || !strings.HasPrefix(name, strings.Repeat("ü", 20)) || strings.ContainsRune(name, '�') {
			t.Errorf("index %q is called %q, of %d bytes", ix, name, len(name))
		}
		names[name] = true
	}
}

func TestParseBounds(t *testing.T) {
	t.Parallel()
	byRows, byTime := roll(t, purchases(), "1000 rows", "id"), roll(t, purchases(), "2h", "at")
	for text, want := range map[string][2]int64{
		"FOR VALUES FROM ('0') TO ('1000')":      {0, 1000},
		"FOR VALUES FROM (-5) TO (7)":            {-5, 7},
		"FOR VALUES FROM (MINVALUE) TO ('1000')": {byRows.Grid.Bounds().From, 1000},
		"FOR VALUES FROM ('5') TO (MAXVALUE)":    {5, byRows.Grid.Bounds().To},
	} {
		from, to, err := parseBounds(byRows, text)
		if err != nil || from != want[0] || to != want[1] {
			t.Errorf("%s: %d to %d, %v", text, from, to, err)
		}
	}
	from, to, err := parseBounds(byTime, "FOR VALUES FROM ('1970-01-01 00:00:01') TO ('1970-01-01 00:00:02.5')")
	if err != nil || from != 1e6 || to != 2.5e6 {
		t.Errorf("times: %d to %d, %v", from, to, err)
	}
	for _, text := range []string{"", "DEFAULT", "FOR VALUES IN (1, 2)", "FOR VALUES WITH (modulus 4, remainder 0)", "FOR VALUES FROM ('a') TO ('b')", "FOR VALUES FROM (1, 2) TO (3, 4)"} {
		if from, to, err := parseBounds(byRows, text); err == nil {
			t.Errorf("%s is read as %d to %d", text, from, to)
		}
	}
}
