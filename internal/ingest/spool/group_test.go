package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestSpoolAppendAll checks that records that are appended together cost one sync, and
// are read as if each had been appended alone, also by the next Open.
func TestSpoolAppendAll(t *testing.T) {
	syncs := 0
	o := Options{Dir: t.TempDir(), Segment: 4000, sync: func(f *os.File, dir bool) error {
		if !dir && filepath.Ext(f.Name()) == ".seg" {
			syncs++
		}
		return f.Sync()
	}}
	s, _ := open(t, o)
	var want []Record
	for n := range 40 {
		var group [][]byte
		for i := range n % 5 {
			group = append(group, numbered(100*n+i, 900))
		}
		before := syncs
		recs, err := s.AppendAll(t.Context(), group)
		must(t, err)
		if len(recs) != len(group) || len(group) > 0 && syncs > before+1 {
			t.Fatalf("%d records and %d syncs for %d", len(recs), syncs-before, len(group))
		}
		want = append(want, recs...)
	}
	if !s.Waiting() {
		t.Error("no record is waiting")
	}
	sameRecords(t, rest(t, s), want)
	if s.Waiting() {
		t.Error("a record is waiting after the last")
	}
	closeSpool(t, s)
	s, found := open(t, o)
	sameRecords(t, rest(t, s), want)
	if int(found.Records) != len(want) || len(found.Bad) > 0 || len(found.Missing) > 0 {
		t.Errorf("%+v for %d records", found, len(want))
	}
}

// TestSpoolNoWait checks that a full spool with NoWait refuses a record and stays
// usable, and that a group that doesn't fit leaves nothing behind.
func TestSpoolNoWait(t *testing.T) {
	s, _ := open(t, Options{Dir: t.TempDir(), Budget: 10_000, Segment: 1000, NoWait: true})
	var want []Record
	for n := 0; ; n++ {
		rec, err := s.Append(t.Context(), numbered(n, 600))
		if errors.Is(err, ErrFull) {
			break
		}
		must(t, err)
		want = append(want, rec)
	}
	_, before := s.Size()
	if _, err := s.AppendAll(t.Context(), [][]byte{[]byte("x"), make([]byte, 900), make([]byte, 5000)}); !errors.Is(err, ErrFull) {
		t.Errorf("a group larger than the room: %v", err)
	}
	if _, err := s.AppendAll(t.Context(), [][]byte{make([]byte, 5000), make([]byte, 5000)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a group larger than the spool: %v", err)
	}
	if _, after := s.Size(); after != before {
		t.Errorf("%d bytes after refused records, %d before", after, before)
	}
	half := want[len(want)/2].To
	for range len(want)/2 + 1 {
		next(t, s)
	}
	must(t, s.Release(half))
	want = append(want, add(t, s, []byte("there is room again")))
	sameRecords(t, rest(t, s), want[(len(want)-1)/2+1:])
}

// TestSpoolAppendAllUndone checks that a group whose second record can't be written is
// undone as a whole.
func TestSpoolAppendAllUndone(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Options{Dir: dir})
	want := []Record{add(t, s, []byte("first"))}
	if _, err := s.AppendAll(t.Context(), [][]byte{[]byte("second"), make([]byte, MaxRecord+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a record beyond the maximum: %v", err)
	}
	real := s.tail
	closed, err := os.Open(s.path(0)) // can't be written
	must(t, err)
	s.tail = closed
	if _, err := s.AppendAll(t.Context(), [][]byte{[]byte("second"), []byte("third")}); err == nil {
		t.Error("a file that can't be written was written")
	}
	must(t, closed.Close())
	s.tail, s.broken = real, nil
	want = append(want, add(t, s, []byte("fourth")))
	sameRecords(t, rest(t, s), want)
	closeSpool(t, s)
	s, _ = open(t, Options{Dir: dir})
	sameRecords(t, rest(t, s), want)
}

func BenchmarkSpoolAppendAll(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := open(b, Options{Dir: b.TempDir(), Budget: 8 << 30})
			group := make([][]byte, n)
			for i := range group {
				group[i] = make([]byte, 1000)
			}
			b.ReportAllocs()
			for b.Loop() {
				recs, err := s.AppendAll(b.Context(), group)
				must(b, err)
				must(b, s.Release(recs[n-1].To))
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
