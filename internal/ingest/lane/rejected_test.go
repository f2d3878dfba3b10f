package lane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/testdb"
)

var must = enginetest.Must

func newBad(t *testing.T, path string) *badFile {
	t.Helper()
	b, err := openBad(path)
	must(t, err)
	return b
}

// put adds rows with these offsets, of a batch of 100 bytes.
func put(t *testing.T, b *badFile, load string, from int64, offsets ...int64) {
	t.Helper()
	var rows []format.Rejected
	for _, at := range offsets {
		rows = append(rows, format.Rejected{Line: at / 10, Offset: at, Column: "c", Reason: "it <is> bad", Row: fmt.Appendf(nil, "row %d", at)})
	}
	must(t, b.add("source.csv", load, from, from+100, rows))
}

// badRows returns the rows of the file as "load:byte".
func badRows(t *testing.T, path string) []string {
	t.Helper()
	var out []string
	for i, line := range strings.SplitAfter(readText(t, path), "\n") {
		if line == "" {
			continue
		}
		var row badRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("line %d, %q: %v", i+1, line, err)
		}
		out = append(out, fmt.Sprintf("%s:%d", row.Load, row.Byte))
	}
	return out
}

func readText(t *testing.T, path string) string {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(p)
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestBadRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	b := newBad(t, path)
	put(t, b, "k1", 0)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a batch without bad rows made a file: %v", err)
	}
	check := func(what string, want ...string) {
		t.Helper()
		if got := badRows(t, path); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	put(t, b, "k1", 0, 10, 20)
	put(t, b, "k1", 100, 100, 199)
	check("two batches", "k1:10", "k1:20", "k1:100", "k1:199")
	put(t, b, "k1", 0, 20, 30)
	check("a second try", "k1:100", "k1:199", "k1:20", "k1:30")
	put(t, b, "k2", 0, 10, 20)
	check("another source of the same name", "k1:100", "k1:199", "k1:20", "k1:30", "k2:10", "k2:20")
	put(t, b, "k1", 100)
	check("a second try without bad rows", "k1:20", "k1:30", "k2:10", "k2:20")
	b = newBad(t, path)
	put(t, b, "k2", 0, 20)
	check("a second try of another process", "k1:20", "k1:30", "k2:20")
	put(t, b, "k1", 0)
	put(t, b, "k2", 0)
	check("none is left")
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%d files are there, %v", len(left), err)
	}
	put(t, b, "k3", 0, 1)
	check("one after all", "k3:1")
}

func TestBadRowsAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	b := newBad(t, path)
	rows := []format.Rejected{
		{Line: 1, Offset: 0, Reason: "r", Row: []byte("a,\"b\r\nc\",<&>\u2028\x00\\")},
		{Line: 3, Offset: 20, Reason: "r", Row: []byte("a,\xff\xfe")},
		{Line: 4, Offset: 30, Reason: "r", Row: []byte("ä𝄞\ufffd")},
		{Line: 5, Offset: 40, Reason: "r", Row: nil},
		{Line: 6, Offset: 50, Column: "c\xff", Reason: "a reason\n\xff", Row: bytes.Repeat([]byte("x"), 1<<20)},
	}
	must(t, b.add("a\nb.csv", "k", 0, 100, rows))
	i := 0
	err := newBad(t, path).each(func(row *badRow, line []byte) {
		got := append(row.Bytes, row.Row...)
		if !bytes.Equal(got, rows[i].Row) || row.Source != "a\nb.csv" || row.Line != rows[i].Line || bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("row %d: %.80q, want %.80q", i, line, rows[i].Row)
		}
		if i == 1 && (row.Row != "" || row.Bytes == nil) {
			t.Errorf("a row that isn't UTF-8 is text: %q", line)
		}
		i++
	})
	if err != nil || i != len(rows) {
		t.Errorf("%d rows, %v", i, err)
	}
}

// TestFullBadFile: a file with a limit takes no more rows once it has that size, but its rows of an
// earlier attempt are still replaced.
func TestFullBadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	b := newBad(t, path)
	put(t, b, "k1", 0, 10, 20)
	b.most = 1
	rows := []format.Rejected{{Line: 1, Offset: 110, Reason: "r", Row: []byte("row")}}
	if err := b.add("source.csv", "k1", 100, 200, rows); !errors.Is(err, errBadFull) {
		t.Errorf("a full file: %v", err)
	}
	if err := b.add("source.csv", "k1", 0, 100, nil); err != nil || len(badRows(t, path)) != 0 {
		t.Errorf("the rows of an attempt without bad rows: %v, %v", badRows(t, path), err)
	}
	if err := b.add("source.csv", "k1", 100, 200, rows); err != nil || len(badRows(t, path)) != 1 {
		t.Errorf("there is room again: %v, %v", badRows(t, path), err)
	}
}

// TestTornBadFile truncates a file's last line at each byte, as a crash may, with and
// without the zeros that some file systems leave.
func TestTornBadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	put(t, newBad(t, path), "k1", 0, 10, 20)
	whole := readText(t, path)
	first := strings.Index(whole, "\n") + 1
	for cut := first; cut < len(whole); cut++ {
		for _, zeros := range []string{"", "\x00\x00\x00"} {
			writeText(t, path, whole[:cut]+zeros)
			b := newBad(t, path)
			put(t, b, "k2", 0, 5)
			if got, want := badRows(t, path), []string{"k1:10", "k2:5"}; !slices.Equal(got, want) {
				t.Fatalf("cut at byte %d: %v, want %v", cut, got, want)
			}
			// The batch of the torn line is loaded again.
			put(t, b, "k1", 0, 10, 20)
			if got, want := badRows(t, path), []string{"k2:5", "k1:10", "k1:20"}; !slices.Equal(got, want) {
				t.Fatalf("cut at byte %d, and tried again: %v, want %v", cut, got, want)
			}
		}
	}
}

// TestForeignBadFile opens files that rowmill did not write: they must not change.
func TestForeignBadFile(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	put(t, newBad(t, good), "k", 0, 1)
	for i, text := range []string{
		"hello", "hello\n", "{", "{\"a\":1}", "{\"a\":1}\n", "\n", "id,ts\n1,2\n", "{\"source\":1}\n", "{\"source\":\"a\",\"load\":\"b\"}\n",
		"\x1f\x8b\x08", "{\"sour\x00ce\"", readText(t, good) + "x", "{\"source\":\"a\"}\n" + readText(t, good), strings.Repeat("x", 1<<20),
	} {
		path := filepath.Join(dir, "foreign")
		writeText(t, path, text)
		b, err := openBad(path)
		if text == "{" { // may be the beginning of a torn line
			continue
		}
		if err == nil {
			t.Errorf("%d: %.40q is taken", i, text)
			put(t, b, "k", 0, 1)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("the error doesn't name the file: %v", err)
		}
		if readText(t, path) != text {
			t.Errorf("%d: %.40q was changed", i, text)
		}
	}
	for _, path := range []string{dir, os.DevNull, "/dev/zero"} {
		if _, err := openBad(path); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
	b, err := openBad(filepath.Join(dir, "missing", "bad"))
	must(t, err)
	if err := b.add("s", "k", 0, 1, []format.Rejected{{Reason: "r"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that isn't there: %v", err)
	}
}

// TestBrokenLineOfABadFile puts unreadable lines among valid ones: they are kept, and the load
// continues.
func TestBrokenLineOfABadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	put(t, newBad(t, path), "k", 0, 1)
	put(t, newBad(t, path), "k", 100, 101)
	lines := strings.SplitAfter(readText(t, path), "\n")
	for _, broken := range []string{"{\"source\":\"a\"{\"source\":\n", "hello\n", "\n", "{\"source\":\"a\"}\n", strings.Repeat("\x00", 9) + "\n"} {
		writeText(t, path, lines[0]+broken+lines[1])
		b := newBad(t, path)
		put(t, b, "k", 0)
		put(t, b, "other", 0, 5)
		got := readText(t, path)
		if want := broken + lines[1]; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 3 {
			t.Errorf("%q: the file has %q, want %q and a line", broken, got, want)
		}
		must(t, os.Remove(path))
	}
}

// TestReplacedBadFile checks that replacing a file preserves its mode and a link to
// it, and its content if the new file can't be written.
func TestReplacedBadFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "bad.jsonl"), filepath.Join(dir, "link")
	put(t, newBad(t, path), "k", 0, 10, 20)
	must(t, errors.Join(os.Chmod(path, 0o640), os.Symlink(path, link)))
	// A crash left an incomplete new file.
	writeText(t, filepath.Join(dir, ".bad.jsonl.new"), "{\"source\":\"torn")
	put(t, newBad(t, link), "k", 0, 30)
	if got := badRows(t, path); !slices.Equal(got, []string{"k:30"}) {
		t.Errorf("%v, want one row", got)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("%v is left, %v", left, err)
	}
	// If the new file's name is taken, nothing changes.
	must(t, os.MkdirAll(filepath.Join(dir, ".bad.jsonl.new", "x"), 0o700))
	b := newBad(t, path)
	if err := b.add("s", "k", 0, 100, nil); err == nil {
		t.Error("it was replaced")
	}
	if got := badRows(t, path); !slices.Equal(got, []string{"k:30"}) || !b.stale("k", 0, 100) {
		t.Errorf("after an error there is %v", got)
	}
}

// TestBadFileOfSeveral has loads of several sources write to one file concurrently.
func TestBadFileOfSeveral(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	var all sync.WaitGroup
	const loads, tries = 6, 12
	for i := range loads {
		b, load := newBad(t, path), fmt.Sprintf("k%d", i)
		all.Go(func() {
			for n := range int64(tries) {
				for _, rows := range [][]format.Rejected{{{Offset: n * 10, Reason: "first try"}}, {{Offset: n*10 + 1, Reason: "second try"}}} {
					if err := b.add(load, load, n*10, n*10+10, rows); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	got := badRows(t, path)
	slices.Sort(got)
	var want []string
	for i := range loads {
		for n := range tries {
			want = append(want, fmt.Sprintf("k%d:%d", i, n*10+1))
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d rows: %v, want %d", len(got), got, len(want))
	}
}

// TestBadFileOnAFullDisk fills a file system: rows that don't fit leave no torn line,
// and are written once there is room.
func TestBadFileOnAFullDisk(t *testing.T) {
	dir := testdb.SmallDisk(t, 64<<10)
	path := filepath.Join(dir, "bad.jsonl")
	b := newBad(t, path)
	put(t, b, "k", 0, 10)
	before := readText(t, path)
	big := []format.Rejected{{Offset: 150, Reason: "r", Row: bytes.Repeat([]byte("x"), 100<<10)}}
	if err := b.add("s", "k", 100, 200, big); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, want no space left", err)
	}
	if got := readText(t, path); got != before || b.stale("k", 100, 200) {
		t.Errorf("%d bytes are there, want %d", len(got), len(before))
	}
	// Replacing needs room for a second file.
	put(t, b, "k", 200, 210)
	writeText(t, filepath.Join(dir, "filler"), strings.Repeat("x", 60<<10))
	if err := b.add("s", "k", 0, 100, nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("replace: %v, want no space left", err)
	}
	if got := badRows(t, path); !slices.Equal(got, []string{"k:10", "k:210"}) {
		t.Errorf("%v are there", got)
	}
	must(t, os.Remove(filepath.Join(dir, "filler")))
	put(t, b, "k", 0, 20)
	if got := badRows(t, path); !slices.Equal(got, []string{"k:210", "k:20"}) {
		t.Errorf("with room again: %v", got)
	}
}

// BenchmarkBadFile adds the bad row of one batch to a file that has many of the same source. The
// ceiling is the sync.
func BenchmarkBadFile(b *testing.B) {
	const rows = 500_000
	f := &badFile{path: filepath.Join(b.TempDir(), "bad.jsonl"), have: map[string][]int64{}}
	for i := range int64(rows) {
		f.have["k"] = append(f.have["k"], i)
	}
	b.ReportAllocs()
	for at := int64(rows); b.Loop(); at++ {
		must(b, f.add("source.csv", "k", at, at+1, []format.Rejected{{Offset: at, Reason: "r"}}))
	}
}

// FuzzBadFile: a file of bad rows with any content is refused, or its readable rows are kept and
// one can be added.
func FuzzBadFile(f *testing.F) {
	const line = `{"source":"a","load":"k","line":1,"byte":5,"reason":"r","row":"x"}` + "\n"
	for _, s := range []string{"", line, line + "{}\n" + line, line + `{"source":"b","lo`, line + "\x00\x00", "sensor,ts\n", `{"sou`, line + "\n"} {
		f.Add([]byte(s), int64(0), int64(10))
	}
	f.Fuzz(func(t *testing.T, p []byte, from, to int64) {
		path := filepath.Join(t.TempDir(), "bad.jsonl")
		must(t, os.WriteFile(path, p, 0o600))
		b, err := openBad(path)
		broken := false
		if err == nil {
			err = b.each(func(row *badRow, _ []byte) { broken = broken || row == nil })
		}
		if err != nil || broken || from < 0 || to <= from {
			return // unreadable lines are kept, also as the first one, with which the file is not known any more
		}
		must(t, b.add("source.csv", "k", from, to, []format.Rejected{{Line: 1, Offset: from, Reason: "r"}}))
		again := newBad(t, path)
		for load, offsets := range b.have {
			if !slices.Equal(offsets, again.have[load]) {
				t.Fatalf("%q, and a row at %d: %s has %v, read again %v", p, from, load, offsets, again.have[load])
			}
		}
		if first, end := again.within("k", from, to); end-first != 1 {
			t.Errorf("%q has %d rows from %d to %d", p, end-first, from, to)
		}
	})
}
