package rolling_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rowmill/rowmill/rolling"
)

var update = flag.Bool("update", false, "write golden files")

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

const readings = `
[table]
name   = "readings"
target = "mysql://ingest@db1:3306/metrics"
create = '''
CREATE TABLE readings (
  sensor INT NOT NULL, ts DATETIME NOT NULL, value DOUBLE NOT NULL,
  PRIMARY KEY (sensor, ts), KEY ts (ts))'''
time   = "ts"

[period]
every = "auto"          # or "2h", or rows = 500000 for a sequence
ahead = "2d"
keep  = "30d"
late  = "merge"         # or "reject"

[seal]
after    = "2d"
compress = true
archive  = "archive/readings"     # Parquet, one file per period, verified before the drop

[[rollup]]
name   = "readings_1h"
every  = "1h"
by     = ["sensor"]
select = { n = "count(*)", mean = "avg(value)", peak = "max(value)", p99 = "percentile(value, 99)" }
keep   = "2y"

[[rollup]]
name = "readings_1d"
from = "readings_1h"
every = "1d"
`

func grid(t *testing.T, s string) rolling.Grid {
	t.Helper()
	g, err := rolling.Parse(s)
	must(t, err)
	return g
}

func TestParseDeclaration(t *testing.T) {
	d, err := rolling.ParseDeclaration("readings.toml", []byte(readings))
	must(t, err)
	all := []rolling.Aggregate{{Name: "n", Func: "count"}, {Name: "mean", Func: "avg", Column: "value"}, {Name: "peak", Func: "max", Column: "value"},
		{Name: "p99", Func: "percentile", Column: "value", Percent: 99}}
	want := &rolling.Declaration{
		Source: "readings.toml", Text: readings, Name: "readings", Target: "mysql://ingest@db1:3306/metrics", Time: "ts", Auto: true,
		Ahead: grid(t, "2d").Span(), Keep: grid(t, "30d").Span(),
		Seal: rolling.Seal{After: grid(t, "2d").Span(), Compress: true, Archive: "archive/readings"},
		Rollups: []rolling.Rollup{
			{Name: "readings_1h", Every: grid(t, "1h"), By: []string{"sensor"}, Select: all, Keep: grid(t, "2y").Span(), Line: 22},
			{Name: "readings_1d", From: "readings_1h", Every: grid(t, "1d"), By: []string{"sensor"}, Select: all, Line: 29},
		},
	}
	if diff := cmp.Diff(want, d, cmpopts.IgnoreFields(rolling.Declaration{}, "Definition"), cmp.AllowUnexported(rolling.Grid{})); diff != "" {
		t.Error(diff)
	}
	if got := shape(d.Definition); got != "readings: sensor=INT! ts=DATETIME! value=DOUBLE!; pk sensor,ts; key ts(ts)" {
		t.Error(got)
	}
	if c := d.Definition.Column("ts"); c.Line != 2 {
		t.Errorf("the column stands in line %d of the definition", c.Line)
	}
}

// declarationOf is one with the parts that a test is about.
func declarationOf(target, create, by, period, rest string) string {
	return "[table]\nname = \"t\"\ntarget = \"" + target + "\"\ncreate = '''" + create + "'''\ntime = \"" + by + "\"\n" + rest + "\n[period]\n" + period + "\n"
}

func TestParseDeclarationOfEachKind(t *testing.T) {
	for _, c := range []struct {
		name, text string
		check      func(*rolling.Declaration) bool
	}{
		{"sequence", declarationOf("postgres://h/d", "CREATE TABLE T (id bigserial PRIMARY KEY, v text)", "id", "rows = 500_000\nkeep = \"2000000 rows\"\nlate = \"reject\"", ""),
			func(d *rolling.Declaration) bool {
				return d.Period.Axis() == rolling.Sequence && d.Keep.Rows == 2000000 && d.Ahead.Rows == 1000000 && d.Late == rolling.LateReject && d.Seal.After.Rows == 500000
			}},
		{"epoch", declarationOf("sqlite:x.db", "CREATE TABLE t (at INTEGER NOT NULL, k TEXT NOT NULL, PRIMARY KEY (at, k)) WITHOUT ROWID", "AT", `every = "1d"`, "epoch = \"ms\"\nexact = true"),
			func(d *rolling.Declaration) bool {
				return d.Epoch == time.Millisecond && d.Exact && d.Time == "at" && d.Ahead.String() == "2d" && d.Seal.After.String() == "1d" && d.Keep.IsZero()
			}},
		{"text of sqlite", declarationOf("sqlite:x.db", "CREATE TABLE t (at TEXT NOT NULL, PRIMARY KEY (at))", "at", `every = "1w"`, ""),
			func(d *rolling.Declaration) bool { return d.Seal.After.String() == "1d" }},
		{"postgres", declarationOf("postgresql://h/d", "CREATE TABLE t (at timestamp(3) with time zone NOT NULL, k int, PRIMARY KEY (k, at)); CREATE INDEX k ON t (k)", "at", `every = "15m"`, ""),
			func(d *rolling.Declaration) bool {
				return len(d.Definition.Indexes) == 1 && d.Ahead.String() == "1d" && d.Seal.After.String() == "15m"
			}},
		{"dates", declarationOf("mariadb://h/d", "CREATE TABLE t (at date NOT NULL, k int, PRIMARY KEY (k, at))", "at", "every = \"auto\"", ""),
			func(d *rolling.Declaration) bool { return d.WholeDays() && d.Auto }},
		{"sub-tables and inline tables", "table = { name = \"t\", target = \"sandbox:mariadb\", time = \"at\", create = \"CREATE TABLE t (at timestamp NOT NULL PRIMARY KEY, v int)\" }\n" +
			"period.every = \"1d\"\n[[rollup]]\nname = \"t_1d\"\nevery = \"1d\"\n[rollup.select]\nz = \"sum(v)\"\na = \"min(v)\"\nseal.x = 1\n",
			nil},
		{"sub-tables", "table = { name = \"t\", target = \"sandbox:mariadb\", time = \"at\", create = \"CREATE TABLE t (at timestamp NOT NULL PRIMARY KEY, v int)\" }\n" +
			"period.every = \"1d\"\n[[rollup]]\nname = \"t_1d\"\nevery = \"1d\"\n[rollup.select]\nz = \"sum(v)\"\na = \"percentile( `v` , 99.9)\"\n",
			func(d *rolling.Declaration) bool {
				s := d.Rollups[0].Select
				return s[0].String() == "sum(v)" && s[1].String() == "percentile(v, 99.9)" && s[0].Name == "z"
			}},
		{"from a date", declarationOf("sqlite:x.db", "CREATE TABLE t (at TEXT NOT NULL, PRIMARY KEY (at))", "at", "every = \"1w\"\nfrom = \"2013-01-02T01:00:00+01:00\"", ""),
			func(d *rolling.Declaration) bool { return d.From.Equal(time.Date(2013, 1, 2, 0, 0, 0, 0, time.UTC)) }},
		{"from no date", declarationOf("sqlite:x.db", "CREATE TABLE t (at TEXT NOT NULL, PRIMARY KEY (at))", "at", "every = \"1w\"\nfrom = \"1/2/2013\"", ""), nil},
		{"from a year too early", declarationOf("sqlite:x.db", "CREATE TABLE t (at TEXT NOT NULL, PRIMARY KEY (at))", "at", "every = \"1w\"\nfrom = \"0999-01-02\"", ""), nil},
		{"from of a sequence", declarationOf("postgres://h/d", "CREATE TABLE T (id bigserial PRIMARY KEY, v text)", "id", "rows = 500\nfrom = \"2013-01-02\"", ""), nil},
		{"merged periods", declarationOf("sqlite:x.db", "CREATE TABLE t (at TEXT NOT NULL PRIMARY KEY)", "at", "every = \"1h\"\nkeep = \"1y\"\nahead = \"1d\"", "[seal]\nmerge = \"1d\"\nafter = \"1h\"\n"),
			func(d *rolling.Declaration) bool { return d.Seal.Merge.String() == "1d" }},
		{"shards", declarationOf("mariadb://h/d", "CREATE TABLE t (at DATETIME NOT NULL, K INT(10) UNSIGNED NOT NULL, PRIMARY KEY (k, at))", "at", "every = \"1d\"", "") +
			"[shards]\nby = \"k\"\nnodes = { b = \"mariadb://h1/d\", a = \"mysql://h2/d?password-file=x\" }\n",
			func(d *rolling.Declaration) bool {
				want := rolling.Shards{By: "K", Nodes: []rolling.Node{{"b", "mariadb://h1/d"}, {"a", "mysql://h2/d?password-file=x"}}}
				return reflect.DeepEqual(d.Shards, want)
			}},
		{"shards without a column", declarationOf("mariadb://h/d", "CREATE TABLE t (at DATETIME NOT NULL, k INT NOT NULL, PRIMARY KEY (k, at))", "at", "every = \"1d\"", "") +
			"[shards]\nnodes = { b = \"mariadb://h1/d\", a = \"mysql://h2/d\" }\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := rolling.ParseDeclaration("t.toml", []byte(c.text))
			if c.check == nil {
				if err == nil {
					t.Fatal("no error")
				}
				return
			}
			must(t, err)
			if !c.check(d) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Each file of testdata/declare is refused with what the file beside it says.
func TestDeclarationErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/declare/*.toml")
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			must(t, err)
			d, err := rolling.ParseDeclaration(filepath.Base(file), text)
			var got string
			if err != nil {
				got = err.Error() + "\n"
				var all rolling.Errors
				if !errors.As(err, &all) {
					t.Fatalf("%T", err)
				}
				for _, e := range all {
					if e.Line < 1 || e.Line > 1+strings.Count(string(text), "\n") || e.Source == "" {
						t.Errorf("%#v is nowhere in the file", e)
					}
				}
			} else {
				for _, w := range d.Warnings {
					got += "warning: " + w + "\n"
				}
				if got == "" {
					got = "nothing is wrong\n"
				}
			}
			golden := strings.TrimSuffix(file, ".toml") + ".err"
			if *update {
				must(t, os.WriteFile(golden, []byte(got), 0o644))
				return
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is learned is written as a section that says the same.
func TestValuesTOML(t *testing.T) {
	text, err := os.ReadFile("testdata/declare/values-right.toml")
	must(t, err)
	d, err := rolling.ParseDeclaration("a.toml", text)
	must(t, err)
	before, _, _ := strings.Cut(string(text), "[values]")
	again, err := rolling.ParseDeclaration("b.toml", []byte(before+d.Values.TOML()))
	must(t, err)
	place := cmpopts.IgnoreFields(rolling.ColumnValues{}, "Line", "Place")
	if diff := cmp.Diff(d.Values, again.Values, place); diff != "" || len(d.Values.Columns) != 4 {
		t.Errorf("%s\n%s", diff, d.Values.TOML())
	}
}

func FuzzParseDeclaration(f *testing.F) {
	f.Add(readings)
	files, _ := filepath.Glob("testdata/declare/*.toml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := rolling.ParseDeclaration("f.toml", []byte(text))
		if err != nil {
			var all rolling.Errors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("%#v", err)
			}
			for _, e := range all {
				if e.Line < 1 || e.Text == "" || e.Line > 1+strings.Count(text, "\n") {
					t.Fatalf("%#v", e)
				}
			}
			return
		}
	})
}
