package spool

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

var must = enginetest.Must

// open opens a spool that is closed at the end of the test.
func open(t testing.TB, o Options) (*Spool, Found) {
	t.Helper()
	s, found, err := Open(o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s, found
}

func add(t testing.TB, s *Spool, data []byte) Record {
	t.Helper()
	rec, err := s.Append(context.Background(), data)
	must(t, err)
	return rec
}

func closeSpool(t testing.TB, s *Spool) {
	t.Helper()
	must(t, s.Close())
}

func next(t testing.TB, s *Spool) Record {
	t.Helper()
	rec, err := s.Next(t.Context())
	must(t, err)
	return rec
}

func rest(t testing.TB, s *Spool) []Record {
	t.Helper()
	s.Finish()
	var out []Record
	for {
		rec, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		out = append(out, rec)
	}
}

func sameRecords(t testing.TB, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("read %d records, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.From != w.From || g.To != w.To || g.Sum != w.Sum || !bytes.Equal(g.Data, w.Data) {
			t.Fatalf("record %d is %d to %d, %d bytes, sum %x; want %d to %d, %d bytes, sum %x",
				i, g.From, g.To, len(g.Data), g.Sum, w.From, w.To, len(w.Data), w.Sum)
		}
	}
}

// numbered returns the data of record n: its number, and bytes derived from it.
func numbered(n, most int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	p := make([]byte, 8+r.IntN(most))
	binary.LittleEndian.PutUint64(p, uint64(n))
	for i := 8; i < len(p); i++ {
		p[i] = byte(r.Uint32())
	}
	return p
}

func files(t testing.TB, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	return names
}

func TestSpoolInOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "spool")
	s, found := open(t, Options{Dir: dir, Budget: 1 << 20, Segment: 2000})
	if found.Records != 0 || found.Torn != 0 || len(found.Bad) != 0 {
		t.Errorf("a new spool holds %+v", found)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", st.Mode(), err)
	}
	id := s.ID()
	if len(id) != 16 {
		t.Errorf("ID %q", id)
	}
	var want []Record
	var onDisk int64
	for n := range 100 {
		data := numbered(n, 300)
		if n == 50 {
			data = nil
		}
		rec := add(t, s, data)
		if n > 0 && rec.From < want[n-1].To {
			t.Fatalf("record %d begins at %d, the one before it ends at %d", n, rec.From, want[n-1].To)
		}
		want = append(want, rec)
		onDisk += rec.To - rec.From
	}
	if n, b := s.Size(); n != 100 || b != onDisk {
		t.Errorf("%d records of %d bytes wait, want 100 of %d", n, b, onDisk)
	}
	if n := len(files(t, dir, "*.seg")); n < 5 {
		t.Errorf("%d segments", n)
	}
	sameRecords(t, rest(t, s), want)
	if _, err := s.Append(context.Background(), nil); err == nil {
		t.Error("appended after Finish")
	}
	closeSpool(t, s)
	if _, err := s.Append(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("append to a closed spool: %v", err)
	}
	s, found = open(t, Options{Dir: dir, Segment: 2000})
	if found.Records != 100 || found.Bytes != onDisk || s.ID() != id {
		t.Errorf("found %+v in %s, want 100 records of %d bytes in %s", found, s.ID(), onDisk, id)
	}
	more := add(t, s, []byte("more"))
	sameRecords(t, rest(t, s), append(want, more))
}

func TestSpoolOneProcess(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Options{Dir: dir})
	_, _, err := Open(Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatalf("the second open: %v", err)
	}
	add(t, s, []byte("x"))
	closeSpool(t, s)
	if _, found := open(t, Options{Dir: dir}); found.Records != 1 {
		t.Errorf("found %+v", found)
	}
}

func TestSpoolLargeRecords(t *testing.T) {
	s, _ := open(t, Options{Dir: t.TempDir(), Budget: 1000})
	if _, err := s.Append(context.Background(), make([]byte, 953)); err == nil || !strings.Contains(err.Error(), "budget of 1000") {
		t.Errorf("larger than the budget: %v", err)
	}
	if _, err := s.Append(context.Background(), make([]byte, MaxRecord+1)); err == nil {
		t.Error("larger than any record may be: appended")
	}
	add(t, s, make([]byte, 952))
}

func waitFull(t *testing.T, s *Spool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.Full() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no Append waits")
		}
	}
}

func TestTrapSpoolFullMakesSenderWait(t *testing.T) {
	for name, segment := range map[string]int64{"small segments": 200, "one segment": 10_000} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, _ := open(t, Options{Dir: dir, Budget: 1000, Segment: segment})
			data := make([]byte, 84)
			var want []Record
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				for {
					rec, err := s.Append(ctx, data)
					if err != nil {
						done <- err
						return
					}
					want = append(want, rec)
				}
			}()
			waitFull(t, s)
			n, _ := s.Size()
			if n < 5 || n > 10 {
				t.Fatalf("%d records of 100 bytes in 1000", n)
			}
			time.Sleep(20 * time.Millisecond)
			if now, _ := s.Size(); now != n || s.Full() < 20*time.Millisecond {
				t.Fatalf("%d records, then %d; full for %v", n, now, s.Full())
			}
			// The reader frees room repeatedly.
			var got []Record
			for len(got) < 60 {
				got = append(got, next(t, s))
				must(t, s.Release(got[len(got)-1].To))
				var disk int64
				for _, name := range files(t, dir, "*.seg") {
					if st, err := os.Stat(name); err == nil {
						disk += st.Size()
					}
				}
				// A new segment's head is written before the old segment is removed.
				if disk > 1000+segmentHead {
					t.Fatalf("%d bytes on disk", disk)
				}
			}
			waitFull(t, s)
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatalf("the wait ended with %v", err)
			}
			if s.Full() != 0 {
				t.Error("still full")
			}
			got = append(got, rest(t, s)...)
			sameRecords(t, got, want)
		})
	}
}

// TestSpoolRecordOfBudget: a record as large as the budget is accepted when all
// earlier records are released.
func TestSpoolRecordOfBudget(t *testing.T) {
	s, _ := open(t, Options{Dir: t.TempDir(), Budget: 1000})
	small := add(t, s, []byte("small"))
	done := make(chan error, 1)
	go func() {
		_, err := s.Append(context.Background(), make([]byte, 952))
		done <- err
	}()
	waitFull(t, s)
	must(t, s.Release(small.To))
	must(t, <-done)
	if got := rest(t, s); len(got) != 1 || len(got[0].Data) != 952 {
		t.Fatalf("%d records", len(got))
	}
}

func TestSpoolCloseWakes(t *testing.T) {
	s, _ := open(t, Options{Dir: t.TempDir(), Budget: 1000})
	add(t, s, make([]byte, 900))
	errs := make(chan error, 2)
	go func() { _, err := s.Append(context.Background(), make([]byte, 900)); errs <- err }()
	go func() {
		_, err := s.Next(context.Background())
		if err == nil {
			_, err = s.Next(context.Background())
		}
		errs <- err
	}()
	waitFull(t, s)
	closeSpool(t, s)
	for range 2 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

func TestSpoolReleaseRemoves(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Segment: 500}
	s, _ := open(t, o)
	var all []Record
	for n := range 40 {
		all = append(all, add(t, s, numbered(n, 200)))
	}
	before := len(files(t, dir, "*.seg"))
	must(t, s.Release(all[19].To))
	if n := len(files(t, dir, "*.seg")); n >= before {
		t.Errorf("%d segments, %d before", n, before)
	}
	if n, _ := s.Size(); n != 20 {
		t.Errorf("%d records wait, want 20", n)
	}
	for name, offset := range map[string]int64{"within a record": all[30].From + 1, "beyond the end": all[39].To + 1, "negative": -1} {
		if err := s.Release(offset); err == nil {
			t.Errorf("released up to an offset %s", name)
		} else if (offset > all[39].To) != errors.Is(err, ErrBeyond) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sameRecords(t, []Record{next(t, s)}, all[20:21])
	must(t, s.Release(all[39].To))
	if n := len(files(t, dir, "*.seg")); n != 1 {
		t.Errorf("%d segments, want the last one", n)
	}
	if n, b := s.Size(); n != 0 || b != 0 {
		t.Errorf("%d records of %d bytes wait", n, b)
	}
	if got := rest(t, s); len(got) != 0 {
		t.Errorf("%d records are read after all were released", len(got))
	}
	closeSpool(t, s)

	// Offsets continue.
	s, _ = open(t, o)
	id := s.ID()
	must(t, s.Release(all[39].To))
	if rec := add(t, s, []byte("more")); rec.From < all[39].To {
		t.Errorf("the next record is at %d, the last one ended at %d", rec.From, all[39].To)
	}
	closeSpool(t, s)

	// Without segments offsets start again, under another ID.
	for _, name := range files(t, dir, "*.seg") {
		must(t, os.Remove(name))
	}
	s, _ = open(t, o)
	if s.ID() == id {
		t.Error("the ID is that of the spool before")
	}
}

func TestTrapSpoolGoesOnWhereAcknowledged(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Options{Dir: dir, Segment: 1000})
	var all []Record
	for n := range 30 {
		all = append(all, add(t, s, numbered(n, 300)))
	}
	closeSpool(t, s)
	for k := range 30 {
		s, found := open(t, Options{Dir: dir, Segment: 1000})
		if found.Records != 30 {
			t.Fatalf("found %+v", found)
		}
		must(t, s.SeekTo(all[k].To))
		sameRecords(t, rest(t, s), all[k+1:])
		closeSpool(t, s)
	}
	s, _ = open(t, Options{Dir: dir, Segment: 1000})
	if err := s.SeekTo(all[29].To + 1); !errors.Is(err, ErrBeyond) {
		t.Errorf("beyond the end: %v", err)
	}
	if err := s.SeekTo(all[7].From + 5); err == nil {
		t.Error("within a record: no error")
	}
	// An offset below the first segment means that segment. Acknowledged records that
	// exist again, as after a removal undone by a power loss, are skipped.
	s.Finish()
	for k := range 30 {
		must(t, s.Release(all[k].To))
		must(t, s.SeekTo(0))
		sameRecords(t, rest(t, s), all[k+1:])
	}
}

// TestSpoolConcurrent appends, reads and releases at the same time, so that the race
// detector sees it, through many segments of a spool that is nearly full.
func TestSpoolConcurrent(t *testing.T) {
	const records, most = 300, 600
	s, _ := open(t, Options{Dir: t.TempDir(), Budget: 16_000, Segment: 3000})
	ctx := t.Context()
	appended := make(chan error, 1)
	go func() {
		defer s.Finish()
		for n := range records {
			if _, err := s.Append(ctx, numbered(n, most)); err != nil {
				appended <- err
				return
			}
		}
		appended <- nil
	}()
	for n := range records {
		r := next(t, s)
		if !bytes.Equal(r.Data, numbered(n, most)) {
			t.Fatalf("record %d differs from what was appended", n)
		}
		if err := s.Release(r.To); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-appended; err != nil {
		t.Error(err)
	}
	closeSpool(t, s)
}
