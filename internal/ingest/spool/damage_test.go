package spool

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// written is a spool on disk. Tests damage copies of it.
type written struct {
	id      string
	records []Record
	files   map[string][]byte
}

func write(t testing.TB, o Options, data ...string) written {
	t.Helper()
	o.Dir = t.TempDir()
	s, _ := open(t, o)
	w := written{id: s.ID(), files: map[string][]byte{}}
	for _, d := range data {
		w.records = append(w.records, add(t, s, []byte(d)))
	}
	closeSpool(t, s)
	for _, path := range files(t, o.Dir, "*") {
		p, err := os.ReadFile(path)
		must(t, err)
		w.files[filepath.Base(path)] = p
	}
	return w
}

// copy writes the spool into a new directory, with some of its files changed; nil
// removes a file.
func (w written) copy(t testing.TB, changed map[string][]byte) string {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	must(t, err)
	for name, p := range w.files {
		if c, ok := changed[name]; ok {
			p = c
		}
		if p == nil {
			continue
		}
		must(t, os.WriteFile(filepath.Join(dir, name), p, 0o600))
	}
	return dir
}

func quick(dir string) Options {
	return Options{Dir: dir, sync: func(*os.File, bool) error { return nil }}
}

// goesOn opens a spool and reads it. It must contain the wanted records, accept
// another, and be intact when opened again.
func goesOn(t testing.TB, dir string, want []Record) Found {
	t.Helper()
	s, found := open(t, quick(dir))
	var bytes int64
	for _, r := range want {
		bytes += r.To - r.From
	}
	if found.Records != int64(len(want)) || found.Bytes != bytes {
		t.Fatalf("found %+v, want %d records of %d bytes", found, len(want), bytes)
	}
	more := add(t, s, []byte("more"))
	want = append(slices.Clone(want), more)
	sameRecords(t, rest(t, s), want)
	closeSpool(t, s)
	s, again := open(t, quick(dir))
	// Segments without remaining records may have been removed.
	if again.Torn != 0 || len(again.Bad) > len(found.Bad) {
		t.Fatalf("found %+v again, after %+v", again, found)
	}
	for _, b := range again.Bad {
		if !b.Known {
			t.Fatalf("%+v is set aside twice", b)
		}
	}
	sameRecords(t, rest(t, s), want)
	closeSpool(t, s)
	return found
}

const first = "00000000000000000000.seg"

func TestTrapSpoolTornTail(t *testing.T) {
	w := write(t, Options{}, "one", "second", "the third record")
	whole := w.files[first]
	last := w.records[2].From
	two := w.records[:2]
	if int64(len(whole)) != w.records[2].To {
		t.Fatalf("the segment has %d bytes, want %d", len(whole), w.records[2].To)
	}
	for cut := last; cut < int64(len(whole)); cut++ {
		for kind, tail := range map[string][]byte{
			"cut":                nil,
			"zeros":              make([]byte, int64(len(whole))-cut),
			"many zeros":         make([]byte, 5000),
			"other bytes":        bytes.Repeat([]byte{'x'}, int(int64(len(whole))-cut)),
			"beginning of marks": []byte(marker[:2]),
		} {
			t.Run(fmt.Sprintf("%s at %d", kind, cut-last), func(t *testing.T) {
				p := append(slices.Clone(whole[:cut]), tail...)
				if bytes.Equal(p, whole[:min(len(p), len(whole))]) && len(p) >= len(whole) {
					t.Skip("that is the whole record")
				}
				if kind == "beginning of marks" && len(p) > len(whole) {
					t.Skip("the record is followed by another")
				}
				found := goesOn(t, w.copy(t, map[string][]byte{first: p}), two)
				if want := int64(len(p)) - last; found.Torn != want || len(found.Bad) != 0 {
					t.Errorf("found %+v, want %d bytes torn", found, want)
				}
				switch {
				case kind == "cut" && found.TornFile != "":
					t.Error("the beginning of a record was kept")
				case found.TornFile != "":
					if kept, err := os.ReadFile(found.TornFile); err != nil || !bytes.Equal(kept, p[last:]) {
						t.Errorf("%s: %d bytes, %v", found.TornFile, len(kept), err)
					}
				case kind == "other bytes" && cut-last > 4:
					t.Error("what isn't the beginning of a record wasn't kept")
				}
			})
		}
	}
}

// flips flips each bit within a range of the first segment.
func flips(p []byte, from, to int64, fn func(at int64, p []byte)) {
	for at := from; at < to; at++ {
		for _, bit := range []byte{1, 0x20, 0x80} {
			c := slices.Clone(p)
			c[at] ^= bit
			fn(at, c)
		}
	}
}

func checkBad(t *testing.T, found Found, whole []byte, want ...Range) {
	t.Helper()
	if len(found.Bad) != len(want) {
		t.Fatalf("set aside %+v, want %v", found.Bad, want)
	}
	for i, b := range found.Bad {
		r := want[i]
		if b.Offset != r.From || b.Bytes != r.To-r.From || b.Reason == "" || b.Known {
			t.Fatalf("set aside %+v, want %v", b, r)
		}
		if got, err := os.ReadFile(b.File); err != nil || !bytes.Equal(got, whole[r.From:r.To]) {
			t.Fatalf("%s: %d bytes, %v", b.File, len(got), err)
		}
	}
}

func TestTrapSpoolCorruptRecord(t *testing.T) {
	// The second record's data looks like a record of this spool, of another offset.
	w := written{files: map[string][]byte{"id": []byte(formatID(fuzzID)),
		first: segmentOf(0, "one", "second"+string(segmentOf(0, "inner")[segmentHead:]), "third")}}
	s, _ := open(t, quick(w.copy(t, nil)))
	whole, r := w.files[first], rest(t, s)
	if len(r) != 3 {
		t.Fatalf("%d records", len(r))
	}
	flips(whole, r[1].From, r[1].To, func(at int64, p []byte) {
		found := goesOn(t, w.copy(t, map[string][]byte{first: p}), []Record{r[0], r[2]})
		if found.Torn != 0 {
			t.Fatalf("at %d: %d bytes torn", at-r[1].From, found.Torn)
		}
		checkBad(t, found, p, Range{r[1].From, r[1].To})
	})
	// Damage across several records, and a torn record after a damaged one.
	t.Run("two records", func(t *testing.T) {
		w := write(t, Options{}, "one", "second", "third", "fourth")
		r, p := w.records, slices.Clone(w.files[first])
		for i := r[1].From + 3; i < r[2].From+8; i++ {
			p[i] = 0xee
		}
		found := goesOn(t, w.copy(t, map[string][]byte{first: p}), []Record{r[0], r[3]})
		checkBad(t, found, p, Range{r[1].From, r[2].To})
	})
	for name, at := range map[string]int64{"data": 20, "length": 4, "marker": 0} {
		t.Run("before a torn record: "+name, func(t *testing.T) {
			p := slices.Clone(whole[:r[2].To-1])
			p[r[1].From+at] ^= 0x10
			found := goesOn(t, w.copy(t, map[string][]byte{first: p}), r[:1])
			if found.Torn != r[2].To-1-r[2].From {
				t.Errorf("found %+v", found)
			}
			checkBad(t, found, p, Range{r[1].From, r[1].To})
		})
	}
	t.Run("at the end of a segment that isn't the last", func(t *testing.T) {
		w := write(t, Options{Segment: 100}, "one", strings.Repeat("second", 5), "third", "fourth")
		if len(w.files) < 4 {
			t.Fatalf("%d files", len(w.files))
		}
		p := slices.Clone(w.files[first])
		p[len(p)-1] ^= 1
		found := goesOn(t, w.copy(t, map[string][]byte{first: p}), slices.Delete(slices.Clone(w.records), 1, 2))
		checkBad(t, found, p, Range{w.records[1].From, w.records[1].To})
	})
	t.Run("after Open", func(t *testing.T) {
		flips(whole, r[1].From, r[1].To, func(_ int64, p []byte) {
			dir := w.copy(t, nil)
			s, _ := open(t, quick(dir))
			must(t, os.WriteFile(filepath.Join(dir, first), p, 0o600))
			sameRecords(t, rest(t, s), []Record{r[0], r[2]})
			checkBad(t, Found{Bad: s.Bad()}, p, Range{r[1].From, r[1].To})
			if n, b := s.Size(); n != 2 || b != r[0].To-r[0].From+r[2].To-r[2].From {
				t.Fatalf("%d records of %d bytes wait", n, b)
			}
			closeSpool(t, s)
		})
	})
	t.Run("shorter after Open", func(t *testing.T) {
		dir := w.copy(t, nil)
		s, _ := open(t, quick(dir))
		must(t, os.Truncate(filepath.Join(dir, first), r[1].From+20))
		sameRecords(t, rest(t, s), r[:1])
		if bad := s.Bad(); len(bad) != 2 || bad[0].Bytes != 20 || bad[1].Bytes != 0 || bad[1].Offset != r[2].From {
			t.Errorf("set aside %+v", bad)
		}
	})
}

func TestSpoolSegmentHead(t *testing.T) {
	w := write(t, Options{}, "one", "second")
	flips(w.files[first], 0, segmentHead, func(_ int64, p []byte) {
		found := goesOn(t, w.copy(t, map[string][]byte{first: p}), w.records)
		checkBad(t, found, p, Range{0, segmentHead})
	})
	t.Run("and the id file", func(t *testing.T) {
		p := slices.Clone(w.files[first])
		p[10] ^= 1
		dir := w.copy(t, map[string][]byte{first: p, "id": []byte("?")})
		if s, _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "16 digits") {
			s.Close()
			t.Fatalf("opened without an ID: %v", err)
		}
		must(t, os.WriteFile(filepath.Join(dir, "id"), []byte(w.id), 0o600))
		goesOn(t, dir, w.records)
	})
	for name, text := range map[string][]byte{"damaged": []byte("x"), "another": []byte("0123456789abcdef\n"), "gone": nil} {
		t.Run("id file "+name, func(t *testing.T) {
			dir := w.copy(t, map[string][]byte{"id": text})
			goesOn(t, dir, w.records)
			if p, err := os.ReadFile(filepath.Join(dir, "id")); err != nil || string(p) != w.id+"\n" {
				t.Errorf("%q, %v", p, err)
			}
		})
	}
	t.Run("nothing whole", func(t *testing.T) {
		p := bytes.Repeat([]byte{7}, 200)
		dir := w.copy(t, map[string][]byte{first: p})
		found := goesOn(t, dir, nil)
		checkBad(t, found, p, Range{0, 200})
		s, _ := open(t, quick(dir))
		if got := rest(t, s); len(got) != 1 || got[0].From < 200 {
			t.Errorf("records at %+v: offsets begin again", got)
		}
	})
	t.Run("zeros", func(t *testing.T) {
		if found := goesOn(t, w.copy(t, map[string][]byte{first: make([]byte, 100)}), nil); found.Torn != 100 {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("a later format", func(t *testing.T) {
		h := putSegmentHead(1, 0)
		h[7] = 2
		copy(h[28:], []byte{0, 0, 0, 0})
		p := slices.Clone(w.files[first])
		copy(p, withSum(h))
		if s, _, err := Open(quick(w.copy(t, map[string][]byte{first: p}))); err == nil || !strings.Contains(err.Error(), "format 2") {
			s.Close()
			t.Errorf("opened: %v", err)
		}
	})
}

func TestSpoolSegments(t *testing.T) {
	w := write(t, Options{Segment: 100}, "the first one", "the second one", "the third one", "the fourth one", "the fifth one")
	var names []string
	for name := range w.files {
		if strings.HasSuffix(name, ".seg") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) != 3 {
		t.Fatalf("segments %v", names)
	}
	base, _ := parseName(names[1])
	end, _ := parseName(names[2])
	r := w.records
	without := []Record{r[0], r[1], r[4]}
	t.Run("missing", func(t *testing.T) {
		found := goesOn(t, w.copy(t, map[string][]byte{names[1]: nil}), without)
		if !slices.Equal(found.Missing, []Range{{base, end}}) {
			t.Errorf("found %+v", found)
		}
	})
	other := write(t, Options{Segment: 100}, "the first one", "the second one", "of another spool", "the fourth one", "the fifth one")
	t.Run("of another spool", func(t *testing.T) {
		found := goesOn(t, w.copy(t, map[string][]byte{names[1]: other.files[names[1]]}), without)
		if len(found.Bad) == 0 || !strings.Contains(found.Bad[0].Reason, other.id) || found.Bad[0].Offset != base {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("of another place", func(t *testing.T) {
		found := goesOn(t, w.copy(t, map[string][]byte{names[1]: w.files[names[0]]}), without)
		if len(found.Bad) == 0 || !strings.Contains(found.Bad[0].Reason, "begins at offset 0") {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("longer than it was", func(t *testing.T) {
		found := goesOn(t, w.copy(t, map[string][]byte{names[0]: append(slices.Clone(w.files[names[0]]), "more"...)}), r)
		if len(found.Bad) != 1 || found.Bad[0].Offset != base || found.Bad[0].Bytes != 4 {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("shorter than it was", func(t *testing.T) {
		p := w.files[names[1]]
		found := goesOn(t, w.copy(t, map[string][]byte{names[1]: p[:len(p)-1]}), slices.Delete(slices.Clone(r), 3, 4))
		if len(found.Bad) != 1 || found.Bad[0].Offset != r[3].From || !slices.Equal(found.Missing, []Range{{end - 1, end}}) || found.Torn != 0 {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("strange files", func(t *testing.T) {
		dir := w.copy(t, nil)
		for _, name := range []string{"1.seg", "x.seg", "00000000000000000007.seg.tmp"} {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
		}
		if found := goesOn(t, dir, r); len(found.Bad) != 2 || found.Bad[0].Offset != -1 {
			t.Errorf("found %+v", found)
		}
		if n := len(files(t, dir, "*.tmp")); n != 0 {
			t.Errorf("%d files that were being written are left", n)
		}
	})
	// Segments that contain only damage don't block an Append.
	t.Run("budget full of damage", func(t *testing.T) {
		dir := w.copy(t, map[string][]byte{names[0]: make([]byte, len(w.files[names[0]])), names[1]: make([]byte, len(w.files[names[1]]))})
		o := quick(dir)
		o.Budget, o.Segment = 250, 100
		s, found := open(t, o)
		if found.Records != 1 || len(found.Bad) != 2 {
			t.Fatalf("found %+v", found)
		}
		more := add(t, s, bytes.Repeat([]byte{'x'}, 80))
		sameRecords(t, rest(t, s), []Record{r[4], more})
	})
}

// TestSpoolSetAsideFails: damage that can't be set aside isn't skipped.
func TestSpoolSetAsideFails(t *testing.T) {
	w := write(t, Options{}, "one", "second", "third")
	dir := w.copy(t, nil)
	s, _ := open(t, quick(dir))
	p := slices.Clone(w.files[first])
	p[w.records[1].From+17] ^= 1
	must(t, os.WriteFile(filepath.Join(dir, first), p, 0o600))
	block := filepath.Join(dir, fmt.Sprintf("%020d.bad.tmp", w.records[1].From))
	must(t, os.Mkdir(block, 0o700))
	ctx := context.Background()
	next(t, s)
	for range 2 {
		if rec, err := s.Next(ctx); err == nil {
			t.Fatalf("read %d", rec.From)
		}
	}
	if err := os.Remove(block); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	sameRecords(t, rest(t, s), w.records[2:])
	if len(s.Bad()) != 1 {
		t.Errorf("set aside %+v", s.Bad())
	}
}
