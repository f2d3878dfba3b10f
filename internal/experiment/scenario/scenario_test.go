package scenario

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
)

var update = flag.Bool("update", false, "write the golden files anew")

// small is a valid declaration.
const small = `name  = "small"
title = "two runs"
story = "none"
rows  = 1_000
takes = "2s"
target = "sqlite:"
durability = "none"
memory = { share = 0.5, of = "rolls" }

[defaults]
preset  = "classic"
period  = 0.1
writers = 2
max-time = "1m"

[[run]]
name = "plain"
indexes = 0

[[run]]
name   = "rolls"
layout = "rolling"
max-time = "90s"

[[published]]
run = "plain"
figure = "mean"
range = [10, 20]
source = "nobody"

[[check]]
claim  = "it is flat"
figure = "rolls.last"
over   = "rolls.first"
above  = 0.5
`

func TestParseScenario(t *testing.T) {
	d, err := Parse("small.toml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	want := []Run{
		{Name: "plain", Preset: "classic", Layout: "plain", Writers: 2, Indexes: &zero, MaxTime: time.Minute},
		{Name: "rolls", Preset: "classic", Layout: "rolling", Writers: 2, PeriodShare: 0.1, MaxTime: 90 * time.Second},
	}
	if diff := cmp.Diff(want, d.Runs); diff != "" {
		t.Error(diff)
	}
	if d.Rows != 1000 || d.Takes != 2*time.Second || d.MemoryShare != 0.5 || d.MemoryOf != "rolls" || d.Durability != "none" {
		t.Errorf("%+v", d)
	}
	if p := d.Published[0]; p.Low != 10 || p.High != 20 || p.Value != 15 {
		t.Errorf("%+v", p)
	}
	if got := d.At("rolls"); got != "small.toml:20:3" {
		t.Errorf("run rolls is at %s", got)
	}
	rec := d.Record("rolls", 2, 77)
	again, err := Parse("again.toml", []byte(rec.Declaration))
	if err != nil || rec.Run != "rolls" || !slices.Equal(rec.Runs, []string{"plain", "rolls"}) || len(again.Runs) != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
}

// Each mistake is reported at its position, with a suggestion.
func TestScenarioErrors(t *testing.T) {
	var out strings.Builder
	for _, c := range [][3]string{
		{"key", `title = "two runs"`, `titel = "two runs"`},
		{"key of a run", "indexes = 0", "index = 0"},
		{"key of memory", "share = 0.5", "shares = 0.5"},
		{"table", "[[check]]", "[[checks]]"},
		{"type", "rows  = 1_000", `rows  = "many"`},
		{"syntax", "rows  = 1_000", "rows  = "},
		{"twice", "rows  = 1_000", "rows  = 1_000\nrows = 2"},
		{"no name", `name  = "small"`, ""},
		{"name", `name  = "small"`, `name  = "Small one"`},
		{"rows", "rows  = 1_000", "rows  = 0"},
		{"takes", `"2s"`, `"two"`},
		{"durability", `durability = "none"`, `durability = "some"`},
		{"memory", "share = 0.5", "share = 0"},
		{"memory of", `of = "rolls"`, `of = "rolling"`},
		{"preset", `preset  = "classic"`, ""},
		{"period", "period  = 0.1", "period  = 2"},
		{"writers", "writers = 2", "writers = 0"},
		{"max-time", `"90s"`, `"-90s"`},
		{"layout", `layout = "rolling"`, `layout = "rolled"`},
		{"period of a plain run", "indexes = 0", "period = 0.5"},
		{"run twice", `name   = "rolls"`, `name   = "plain"`},
		{"published run", `run = "plain"`, `run = "none"`},
		{"published figure", `figure = "mean"`, `figure = "average"`},
		{"published period", `figure = "mean"`, `figure = "period-end"`},
		{"published range", "range = [10, 20]", "range = [20, 10]"},
		{"published value", "range = [10, 20]", ""},
		{"published source", `source = "nobody"`, ""},
		{"check figure", `"rolls.last"`, `"last"`},
		{"check run", `"rolls.first"`, `"roll.first"`},
		{"check claim", `claim  = "it is flat"`, ""},
		{"check bounds", "above  = 0.5", ""},
		{"check order", "above  = 0.5", "above  = 0.5\nbelow = 0.4"},
		{"figure of a scan", `figure = "mean"`, `figure = "scan-all"`},
		{"way of inserts", "indexes = 0", `way = "serial"`},
		{"scan with defaults", "[defaults]", "[scan]\npartitions = 10\n\n[defaults]"},
		{"no run", small[strings.Index(small, "[[run]]"):], ""},
	} {
		text := strings.Replace(small, c[1], c[2], 1)
		if text == small {
			t.Fatalf("%s: nothing to change", c[0])
		}
		_, err := Parse("my.toml", []byte(text))
		if err == nil {
			t.Errorf("%s: it was taken", c[0])
			continue
		}
		fmt.Fprintf(&out, "%s\n  %v\n  Try: %s\n", c[0], err, engine.HintOf(err))
	}
	const tpcc = "name = \"t\"\ntitle = \"t\"\n[tpcc]\nwarehouses = 2\n[[run]]\nname = \"a\"\n"
	if d, err := Parse("my.toml", []byte(tpcc)); err != nil || d.Warehouses != 2 || d.Terminals != 10 {
		t.Fatal(d, err)
	}
	for _, c := range [][2]string{
		{"warehouses", strings.Replace(tpcc, "= 2", "= 0", 1)}, {"rows", "rows = 5\n" + tpcc}, {"option", tpcc + "option = \"spider\"\n"}, {"setting of inserts", tpcc + "batch = 5\n"},
		{"figure of inserts", tpcc + "[[check]]\nclaim = \"c\"\nfigure = \"a.mean\"\nabove = 1\n"},
	} {
		_, err := Parse("my.toml", []byte(c[1]))
		fmt.Fprintf(&out, "tpcc: %s\n  %v\n  Try: %s\n", c[0], err, engine.HintOf(err))
	}
	const scan = "name = \"s\"\ntitle = \"t\"\nrows = 1000\n[scan]\npartitions = 10\n[[run]]\nname = \"a\"\nway = \"serial\"\n"
	if d, err := Parse("my.toml", []byte(scan)); err != nil || d.Runs[0].Way != "serial" || d.Step != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	for _, c := range [][2]string{
		{"partitions", strings.Replace(scan, "10\n", "0\n", 1)}, {"no way", strings.Replace(scan, `way = "serial"`, "", 1)}, {"unknown way", strings.Replace(scan, "serial", "slow", 1)},
		{"way twice", scan + "[[run]]\nname = \"b\"\nway = \"serial\"\n"}, {"setting of inserts", scan + "batch = 5\n"},
		{"figure of inserts", scan + "[[check]]\nclaim = \"c\"\nfigure = \"a.mean\"\nabove = 1\n"},
	} {
		_, err := Parse("my.toml", []byte(c[1]))
		if err == nil {
			t.Errorf("%s: it was taken", c[0])
			continue
		}
		fmt.Fprintf(&out, "scan: %s\n  %v\n  Try: %s\n", c[0], err, engine.HintOf(err))
	}
	const disk = "name = \"s\"\ntitle = \"t\"\n[disk]\nsize = \"64MiB\"\n[[run]]\nname = \"a\"\nblock = \"8KiB\"\ndepth = 4\n"
	d, err := Parse("my.toml", []byte(disk))
	if err != nil || d.Target != "." || d.FileBytes != 64<<20 || d.Time != 3*time.Second || !cmp.Equal(d.Runs[0].Job, result.Disk{Kind: result.DiskRandom, BlockBytes: 8192, Depth: 4}) {
		t.Errorf("%+v, %v", d, err)
	}
	for _, c := range [][2]string{
		{"size", strings.Replace(disk, "64MiB", "much", 1)}, {"rows", strings.Replace(disk, "[disk]", "rows = 5\n[disk]", 1)}, {"no block", strings.Replace(disk, "block = \"8KiB\"\n", "", 1)},
		{"kind", disk + "kind = \"trim\"\n"}, {"writes", disk + "writes = 101\n"}, {"setting of inserts", disk + "batch = 5\n"},
		{"figure of inserts", disk + "[[check]]\nclaim = \"c\"\nfigure = \"a.mean\"\nabove = 1\n"},
	} {
		_, err := Parse("my.toml", []byte(c[1]))
		if err == nil {
			t.Errorf("%s: it was taken", c[0])
			continue
		}
		fmt.Fprintf(&out, "disk: %s\n  %v\n  Try: %s\n", c[0], err, engine.HintOf(err))
	}
	path := filepath.Join("testdata", "errors.txt")
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("errors.txt differs (-want +got), -update rewrites it:\n%s", diff)
	}
}

func TestBuiltinScenarios(t *testing.T) {
	if want := []string{"daily-2009", "dbt2-cluster-2009", "ec2-2012", "many-tables-2012", "orion-2010", "partition-scan-2010", "rotating-blades-2010", "time-partitions-2012"}; !slices.Equal(Names(), want) {
		t.Errorf("built in are %v, want %v", Names(), want)
	}
	for _, name := range Names() {
		d, err := Load(t.Context(), name)
		if err != nil {
			t.Error(err)
			continue
		}
		inserts := d.Does == Inserts
		if d.Name != name || d.Story == "" || d.Takes == 0 || len(d.Published) == 0 && d.Does != Scan || len(d.Checks) == 0 || d.MemoryShare == 0 && inserts {
			t.Errorf("%s: %+v", name, d)
		}
		for _, r := range d.Runs {
			if r.Title == "" || r.MaxTime == 0 && inserts {
				t.Errorf("%s: run %+v", name, r)
			}
		}
	}
}

func TestLoadScenario(t *testing.T) {
	for _, name := range []string{"nosuch", "no/such.toml", ""} {
		if _, err := Load(t.Context(), name); err == nil || !strings.Contains(err.Error(), "ec2-2012") {
			t.Errorf("%q: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "mine.toml")
	if err := os.WriteFile(path, []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	if d, err := Load(t.Context(), path); err != nil || d.Name != "small" || d.Source != path {
		t.Errorf("%+v, %v", d, err)
	}
}

// No text makes the parser panic, and every accepted declaration has runs.
func FuzzParseScenario(f *testing.F) {
	f.Add(small)
	for _, s := range []string{"", "a.b = {c = {d = 1}}", "[[run]]\n[run.x]\n", "run = [{name = 'a'}]", "\"\" = 1", "[defaults]\nindexes = -1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse("fuzz.toml", []byte(text))
		if err == nil && (len(d.Runs) == 0 || d.Rows < 1 && d.Does != Disk && d.Does != TPCC) {
			t.Errorf("%q was taken: %+v", text, d)
		}
	})
}
