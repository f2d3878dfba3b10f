package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestSupersede: another copy of the newer file is removed; a file with more or
// fewer rows is only renamed, and files already set aside remain.
func TestSupersede(t *testing.T) {
	t.Parallel()
	w := plain(t, 10)
	copyTo := func(from, name string) string {
		t.Helper()
		data, err := os.ReadFile(from)
		must(t, err)
		path := filepath.Join(filepath.Dir(from), name)
		must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	first := w.write()
	fewer := copyTo(first.Path, "fewer.parquet")
	w.exec("UPDATE readings SET value = 0")
	second := w.write()
	changed := copyTo(second.Path, "changed.parquet")
	aside := copyTo(second.Path, "p.20261121T000000.000000.old")
	w.fill(10, 20)
	third := w.write()
	same := copyTo(third.Path, "same.parquet")
	other, err := Write(t.Context(), w.db, w.table, w.s, w.parts[2], w.dir)
	must(t, err)
	kept, err := Supersede(w.dir, third)
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	for _, path := range []string{fewer, changed, same} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s counts twice: %v", path, err)
		}
	}
	for path, sum := range map[string]string{kept[0]: second.Sum, kept[1]: first.Sum, aside: second.Sum, third.Path: third.Sum, other.Path: other.Sum} {
		if f, err := Verify(t.Context(), path); err != nil || f.Sum != sum {
			t.Errorf("%s: %+v, %v", path, f, err)
		}
	}
}

// TestMakeUp: files of parts equal the file of the whole if their rows add up,
// and no two of them overlap.
func TestMakeUp(t *testing.T) {
	part := func(from, to int64, values ...int64) Info {
		var s sum
		for _, v := range values {
			s.add([]parquet.Value{parquet.Int64Value(v)})
		}
		return Info{From: from, To: to, Rows: s.rows, Sum: s.String()}
	}
	whole := part(0, 3, 1, 2, 3)
	for name, c := range map[string]struct {
		parts []Info
		want  bool
	}{
		"all":      {[]Info{part(0, 1, 1), part(1, 3, 3, 2)}, true},
		"changed":  {[]Info{part(0, 1, 1), part(1, 3, 3, 4)}, false},
		"missing":  {[]Info{part(0, 1, 1)}, false},
		"too many": {[]Info{part(0, 1, 1), part(1, 3, 3, 2, 2)}, false},
		"overlaps": {[]Info{part(0, 2, 1), part(1, 3, 3, 2)}, false},
		"damaged":  {[]Info{{From: 0, To: 3, Rows: 3, Sum: "x"}}, false},
	} {
		if got := makeUp(c.parts, whole); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
