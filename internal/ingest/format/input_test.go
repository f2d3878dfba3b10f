package format

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rowmill/rowmill/internal/testdb"
)

// pack compresses p by the extension of a name.
func pack(t testing.TB, name string, p []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if strings.HasSuffix(name, ".zst") {
		z, err := zstd.NewWriter(&out)
		must(t, err)
		w = z
	}
	_, err := w.Write(p)
	must(t, errors.Join(err, w.Close()))
	return out.Bytes()
}

// readFile reads a file as a load does.
func readFile(path string) ([]byte, error) {
	in, err := OpenFile(path, "")
	if err != nil {
		return nil, err
	}
	p, err := io.ReadAll(in)
	return p, errors.Join(err, in.Close())
}

func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	text := []byte(strings.Repeat("a,b\n1,2\n", 50000))
	for name, content := range map[string][]byte{
		"a.csv": text, "a.csv.gz": pack(t, ".gz", text), "A.CSV.GZ": pack(t, ".gz", text), "a.csv.zst": pack(t, ".zst", text),
		"two.csv.gz":  append(pack(t, ".gz", text[:8000]), pack(t, ".gz", text[8000:])...),
		"two.csv.zst": append(pack(t, ".zst", text[:8000]), pack(t, ".zst", text[8000:])...),
	} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, content, 0o600))
		got, err := readFile(path)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(text))
		}
		in, err := OpenFile(path, "")
		must(t, err)
		if _, err := io.Copy(io.Discard, in); err != nil || in.read.Load() != int64(len(content)) || in.Size != int64(len(content)) {
			t.Errorf("%s: %d of %d bytes were read, %v; want %d", name, in.read.Load(), in.Size, err, len(content))
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"empty.csv", "empty.csv.gz", "empty.csv.zst"} {
		path := filepath.Join(dir, name)
		content := map[string][]byte{".csv": nil, ".gz": pack(t, ".gz", nil), ".zst": pack(t, ".zst", nil)}[filepath.Ext(name)]
		must(t, os.WriteFile(path, content, 0o600))
		if got, err := readFile(path); err != nil || len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := OpenFile(dir, ""); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := OpenFile(filepath.Join(dir, "none.csv"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that isn't there: %v", err)
	}
}

// TestBrokenPackedFiles truncates compressed files at many bytes, and changes a
// byte: each must return an error.
func TestBrokenPackedFiles(t *testing.T) {
	dir := t.TempDir()
	text := []byte(packedText)
	for _, name := range []string{"a.csv.gz", "a.csv.zst", "a.csv.bz2", "a.csv.xz", "a.csv.zip"} {
		content := packedByName(t, name)
		path := filepath.Join(dir, name)
		check := func(what string, at int, broken []byte) {
			t.Helper()
			must(t, os.WriteFile(path, broken, 0o600))
			must(t, os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour))) // nobody is writing it
			got, err := readFile(path)
			if err == nil && !bytes.Equal(got, text) {
				t.Errorf("%s, %s at byte %d of %d: %q without an error", name, what, at, len(content), got)
			}
			if errors.Is(err, io.EOF) {
				t.Errorf("%s, %s at byte %d: %v, which is how a whole one ends", name, what, at, err)
			}
		}
		for at := range content {
			if at > 12 && at%5 > 0 && !testdb.Nightly() {
				continue // the magic and a fifth of the others
			}
			check("cut", at, content[:at])
			broken := bytes.Clone(content)
			broken[at] ^= 0x10
			check("changed", at, broken)
		}
		check("not packed", 0, text)
		check("with more", len(content), append(bytes.Clone(content), "x,y\n"...))
	}
}
