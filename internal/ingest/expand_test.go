package ingest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, path := range []string{"a.csv", "b.csv", "readme.md", ".hidden.csv", "c.csv.tmp", "c.csv.part", "a.csv.bad.jsonl", "odd[1].csv",
		"in/x.jsonl", "in/d.json.gz", "in/e.sql.xz", "in/f.parquet", "in/g.txt", "in/2026/y.csv.gz", "in/.git/z.csv", "in/2026/01/w.tsv"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"link.csv": "a.csv", "in/up": "..", "in/gone.csv": "nowhere"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		any  bool
		want string // sources; left out; twice
	}{
		{"b.csv a.csv", false, "b.csv a.csv; ; "},
		{"a.csv ./a.csv " + filepath.Join(dir, "a.csv") + " link.csv", false, "a.csv; ; ./a.csv DIR/a.csv link.csv"},
		{"*.csv", false, "a.csv b.csv odd[1].csv; ; link.csv"},
		{"odd[1].csv", false, "odd[1].csv; ; "},
		{"in", false, "in/2026/01/w.tsv in/2026/y.csv.gz in/d.json.gz in/e.sql.xz in/f.parquet in/x.jsonl; in/g.txt:of an unknown format in/gone.csv:a symbolic link, but not to a file in/up:a symbolic link, but not to a file; "},
		{"./in/2*/*.csv*", false, "in/2026/y.csv.gz; ; "},
		{"in/*/*.gz", false, "in/2026/y.csv.gz; ; "},
		{"../" + filepath.Base(dir) + "/in/x.*", false, "../DIR/in/x.jsonl; ; "},
		{".", false, "a.csv b.csv in/2026/01/w.tsv in/2026/y.csv.gz in/d.json.gz in/e.sql.xz in/f.parquet in/x.jsonl odd[1].csv; .hidden.csv:hidden a.csv.bad.jsonl:bad rows of a load c.csv.part:being written " +
			"c.csv.tmp:being written in/g.txt:of an unknown format in/gone.csv:a symbolic link, but not to a file in/up:a symbolic link, but not to a file readme.md:of an unknown format; link.csv"},
		{"*.md", true, "readme.md; ; "},
		{"- a.csv", false, "- a.csv; ; "},
		{".hidden.csv c.csv.tmp", false, ".hidden.csv c.csv.tmp; ; "}, // named
		{"*.xml", false, "!no file matches the pattern"},
		{"in/**/*.csv", false, "!** in a pattern"},
		{"[a-", false, "!syntax error in pattern"},
		{"in/.git", false, "in/.git/z.csv; ; "},
		{"nowhere", false, "!no such file"},
	} {
		e, err := Expand(strings.Fields(c.args), c.any)
		var left []string
		for _, l := range e.Left {
			left = append(left, strings.Replace(l, ": ", ":", 1))
		}
		got := strings.Join(e.Sources, " ") + "; " + strings.Join(left, " ") + "; " + strings.Join(e.Twice, " ")
		got = strings.NewReplacer(dir, "DIR", filepath.Base(dir), "DIR").Replace(got)
		if want, fails := strings.CutPrefix(c.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.args, err, want)
			}
		} else if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.args, err, diff)
		}
	}
}
