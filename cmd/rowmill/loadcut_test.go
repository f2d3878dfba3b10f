package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func pack(t *testing.T, name, text string) string {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if strings.HasSuffix(name, ".zst") {
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<12))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestLoadPackedFileCutOff checks a compressed file that is still being copied. It is
// taken neither for a complete file nor for another file of that name: its readable
// part is loaded, the load fails, and it continues once the file is complete.
func TestLoadPackedFileCutOff(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"day.csv.gz", "day.csv.zst"} {
		t.Run(name, func(t *testing.T) {
			l := newLoading(t, "sqlite")
			f := loadRows(0, 4000, false)
			packed := pack(t, name, f.text)
			fails := func(size int) {
				t.Helper()
				path := l.write(name, packed[:size])
				if _, stderr := l.load(exitFailed, path, "--batch", "100"); !strings.Contains(stderr, name) {
					t.Errorf("of %d bytes: the error doesn't name the file: %s", size, stderr)
				}
			}
			fails(0)
			fails(len(packed) * 3 / 5)
			got := l.rows()
			if len(got) == 0 || len(got) >= len(f.want) {
				t.Fatalf("%d rows of a cut file are loaded, of %d", len(got), len(f.want))
			}
			for i := range got {
				if got[i] != f.want[i] {
					t.Fatalf("row %d of a cut file is %q, want %q", i, got[i], f.want[i])
				}
			}
			fails(len(packed) - 1)
			path := l.write(name, packed)
			if got, _ := l.load(exitDone, path, "--batch", "333"); !got[0].Finished {
				t.Errorf("the whole: %+v", got[0])
			}
			l.check("the whole", name+".bad.jsonl", f)
			for _, size := range []int{0, 60, len(packed) / 2, len(packed) - 1} {
				fails(size)
				l.check(fmt.Sprintf("cut to %d bytes", size), name+".bad.jsonl", f)
			}
		})
	}
}

// TestLoadLineWithoutEnd checks that a line that doesn't end within the limit, such as
// from a faulty program, ends a load after the rows before it are loaded.
func TestLoadLineWithoutEnd(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	f := loadRows(0, 70, false)
	long := strings.Repeat("x", 129<<20)
	path := l.write("day.csv", f.text+long+"\n")
	line := strings.Count(f.text, "\n") + 1
	if _, stderr := l.load(exitFailed, path, "--batch", "50"); !strings.Contains(stderr, fmt.Sprintf("day.csv: line %d: it has no end within", line)) {
		t.Errorf("%s", stderr)
	}
	l.check("before the line", "day.csv.bad.jsonl", f)
	more := loadRows(100, 30, false)
	_, added, _ := strings.Cut(more.text, "\n")
	path = l.write("day.csv", f.text+added)
	l.load(exitDone, path)
	l.check("with the line mended", "day.csv.bad.jsonl", f, more)

	// The rows of a stream are loaded, too.
	streamed := loadRows(200, 70, false)
	c := l.command(0, "-", "--format", "csv", "--batch", "50")
	c.Stdin = strings.NewReader(streamed.text + long)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprintf("line %d: it has no end within", line)) {
		t.Errorf("%v: %s", err, out)
	}
	if got, want := len(l.rows()), len(f.want)+len(more.want)+len(streamed.want); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}
