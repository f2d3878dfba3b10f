package format

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packedText is what packedByTools have.
const packedText = "a,b\n1,2\n3,4\n5,6\n"

// packedByTools are what xz and bzip2 make of packedText, in base64: Go has no writers.
var packedByTools = map[string]string{
	"xz":  "/Td6WFoAAAFpIt42AgAhARwAAAAQz1jMAQAPYSxiCjEsMgozLDQKNSw2CgBrxwNSAAEkEOlE2cyQQpkNAQAAAAABWVo=",
	"bz2": "QlpoOTFBWSZTWe7ez4UAAAdZAAAQAAQ/ADAAIAAxADAh6kYyP+LNTTAA4XckU4UJDu3s+FA=",
}

// hugeWindow is a text in an xz whose window is 256 MiB.
const hugeWindow = "/Td6WFoAAAFpIt42AgAhASAAAAAJiKV2AQAHYSxiCjEsMgoAeweXCgABHAhEYCrIkEKZDQEAAAAAAVla"

// packedByName returns packedText as a file of that name has it.
func packedByName(t testing.TB, name string) []byte {
	t.Helper()
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	switch {
	case ext == "zip":
		return zipped(t, "day.csv", packedText)
	case packedByTools[ext] != "":
		return fromBase64(t, packedByTools[ext])
	case ext == "gz" || ext == "zst":
		return pack(t, name, []byte(packedText))
	}
	return []byte(packedText)
}

func fromBase64(t testing.TB, text string) []byte {
	t.Helper()
	p, err := base64.StdEncoding.DecodeString(text)
	must(t, err)
	return p
}

// zipped returns a .zip of names and contents.
func zipped(t testing.TB, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		must(t, err)
		_, err = io.WriteString(w, files[i+1])
		must(t, err)
	}
	must(t, z.Close())
	return out.Bytes()
}

// TestPackedByContent reads files whose names don't say how they are compressed, or say
// something else, as files and as streams.
func TestPackedByContent(t *testing.T) {
	for _, packing := range []string{"", "gz", "zst", "bz2", "xz", "zip"} {
		for _, name := range []string{"day.csv", "day.csv.gz", "day.csv.xz", "day", "day." + packing} {
			path := filepath.Join(t.TempDir(), name)
			packed := packedByName(t, "."+packing)
			must(t, os.WriteFile(path, packed, 0o600))
			got, err := readFile(path)
			if err != nil || string(got) != packedText {
				t.Errorf("%q as %s: %q, %v", packing, name, got, err)
			}
			in, err := OpenStream(t.Context(), bytes.NewReader(packed), "")
			if packing == "zip" {
				if !errors.Is(err, errZipStream) {
					t.Errorf("a .zip as a stream: %v", err)
				}
				continue
			}
			must(t, err)
			if got, err := io.ReadAll(in); err != nil || string(got) != packedText {
				t.Errorf("stream of %q: %q, %v", packing, got, err)
			}
			must(t, in.Close())
		}
	}
	for behind, want := range map[string]string{"\x00": "", strings.Repeat("\x00", 700<<10): "", "x": "something else follows", "\x1f\x8b": "something else follows", "garbage of more than ten bytes": "something else follows",
		"\x00\x00x": "something else follows", "\x1f\x8b\x08": "truncated", "\x00" + string(pack(t, ".gz", nil)): "something else follows"} {
		path := filepath.Join(t.TempDir(), "day.csv.gz")
		must(t, os.WriteFile(path, append(pack(t, ".gz", []byte(packedText)), behind...), 0o600))
		if got, err := readFile(path); string(got) != packedText || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("gz and %.20q: %q, %v", behind, got, err)
		}
	}
	twice := filepath.Join(t.TempDir(), "day.csv.gz")
	must(t, os.WriteFile(twice, pack(t, ".gz", packedByName(t, ".xz")), 0o600))
	if got, err := readFile(twice); err != nil || !strings.HasPrefix(string(got), "\xfd7zXZ") {
		t.Errorf("an xz in a gz is unpacked once: %.20q, %v", got, err)
	}
}

// TestStreamIsNotHeldBack reads the first byte of a stream whose second hasn't come.
func TestStreamIsNotHeldBack(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte("1"))
	}()
	in, err := OpenStream(t.Context(), r, "")
	must(t, err)
	p := make([]byte, 10)
	if n, err := in.Read(p); n != 1 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	must(t, w.Close())
}

func TestDemandForMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "day.csv.xz")
	must(t, os.WriteFile(path, fromBase64(t, hugeWindow), 0o600))
	if got, err := readFile(path); err == nil || !strings.Contains(err.Error(), "more than 128 MiB") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestZip(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	one := write("one.zip", zipped(t, "2026/day1.csv", packedText, "__MACOSX/2026/._day1.csv", "x", "2026/.DS_Store", "y"))
	if got, err := readFile(one); err != nil || string(got) != packedText {
		t.Errorf("%q, %v", got, err)
	}
	for path, want := range map[string]string{
		write("trips.zip", zipped(t, "2026/day1.csv", packedText, "day2.tsv", packedText)): "it has 2 files: 2026/day1.csv",
		write("0.zip", zipped(t)): "it has no files",
		write("book.csv", zipped(t, "[Content_Types].xml", "", "xl/sheet.xml", "")): "it is a workbook",
		write("cut.zip", packedByName(t, ".zip")[:60]):                              "decompress zip: it is damaged",
		write("b.csv.gz", []byte("\x1f\x00\x01\x02 broken")):                        "neither that nor text",
	} {
		if _, err := readFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// FuzzUnpack: what is damaged is an error or other text, and never a panic.
func FuzzUnpack(f *testing.F) {
	for _, packing := range []string{"gz", "zst", "bz2", "xz"} {
		f.Add(packedByName(f, "."+packing))
	}
	f.Add(packedByName(f, ".zip"))
	f.Add(zipped(f, "a.csv", packedText, "b/c.csv.gz", packedText))
	f.Fuzz(func(t *testing.T, p []byte) {
		if z, err := zip.NewReader(bytes.NewReader(p), int64(len(p))); err == nil {
			for _, m := range z.File {
				if r, err := m.Open(); err == nil {
					_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
					_ = r.Close() // fails if the data are damaged
				}
			}
		}
		if in, err := OpenStream(t.Context(), bytes.NewReader(p), ""); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(in, 1<<20))
			must(t, in.Close())
		}
	})
}
