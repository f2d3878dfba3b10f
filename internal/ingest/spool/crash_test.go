package spool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
)

const (
	// killedDir makes a copy of the test binary append to the spool in that directory
	// until it is killed.
	killedDir = "ROWMILL_SPOOL_KILLED_DIR"
	// killedFrom is the number of its first record.
	killedFrom = "ROWMILL_SPOOL_KILLED_FROM"
	killedMost = 20_000
	// killedLeft is the number of records that it leaves unreleased.
	killedLeft = 15
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		fmt.Fprintln(os.Stderr, appendUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func appendUntilKilled(dir string) error {
	n, err := strconv.Atoi(os.Getenv(killedFrom))
	if err != nil {
		return err
	}
	s, _, err := Open(Options{Dir: dir, Segment: 100_000})
	if err != nil {
		return err
	}
	left, _ := s.Size()
	for ; ; n++ {
		if _, err := s.Append(context.Background(), numbered(n, killedMost)); err != nil {
			return err
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
		for left++; left > killedLeft; left-- {
			rec, err := s.Next(context.Background())
			if err == nil {
				err = s.Release(rec.To)
			}
			if err != nil {
				return err
			}
		}
	}
}

// appendAndKill runs a process that appends, and kills it a certain time after it has
// reported so many appended records; with 0 records, this may be before it has opened
// the spool. It returns the number of the last record whose Append had returned, or
// from-1.
func appendAndKill(t *testing.T, dir string, from, records int, after time.Duration) int {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), killedDir+"="+dir, fmt.Sprintf("%s=%d", killedFrom, from))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	last := from - 1
	lines := bufio.NewReader(out)
	for ; ; records-- {
		if records == 0 {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		if last, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			t.Error(err)
		}
	}
	err = cmd.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it wasn't killed: %v\n%s", err, stderr.String())
	}
	return last
}

// checkNumbered opens a spool and reads its numbered records, none of which may be
// missing. It returns the number of the first record, and the number after the last.
func checkNumbered(t *testing.T, dir string, most int) (from, to int, found Found) {
	t.Helper()
	s, found := open(t, quick(dir))
	records := rest(t, s)
	for i, r := range records {
		if i == 0 && len(r.Data) >= 8 {
			from = int(binary.LittleEndian.Uint64(r.Data))
		}
		if !bytes.Equal(r.Data, numbered(from+i, most)) {
			t.Fatalf("record %d of %d isn't what was appended", i, len(records))
		}
	}
	if len(found.Bad) != 0 || len(found.Missing) != 0 || found.TornFile != "" || found.Records != int64(len(records)) {
		t.Fatalf("found %+v, read %d", found, len(records))
	}
	closeSpool(t, s)
	return from, from + len(records), found
}

func TestTrapSpoolSyncsEachBatch(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		dir := t.TempDir()
		have, torn, released := 0, 0, 0
		kills := 12
		if testdb.Nightly() {
			kills = 60
		}
		for range kills {
			last := appendAndKill(t, dir, have, rand.IntN(80), time.Duration(rand.IntN(5000))*time.Microsecond)
			from, n, found := checkNumbered(t, dir, killedMost)
			// The record after the last may be complete.
			if n < last+1 || n > last+2 {
				t.Fatalf("records before %d, the last whose Append returned is %d", n, last)
			}
			if from > max(0, n-killedLeft) {
				t.Fatalf("records %d to %d: some are missing that weren't released", from, n)
			}
			released = max(released, from)
			if have = n; found.Torn > 0 {
				torn++
			}
		}
		if released == 0 {
			t.Error("no segment was removed")
		}
		t.Logf("%d kills, %d records, %d removed, %d torn tails", kills, have, released, torn)
	})
	t.Run("power lost", func(t *testing.T) {
		for _, rest := range []string{"gone", "zeros", "half"} {
			t.Run(rest, func(t *testing.T) {
				dir := t.TempDir()
				d := &disk{dir: dir, sizes: map[uint64]int64{}}
				s, _ := open(t, Options{Dir: dir, Segment: 10_000, sync: d.sync})
				returned := 0
				check := func(most int) {
					t.Helper()
					if from, got, _ := checkNumbered(t, d.lose(t, rest), 3000); from != 0 || got < returned || got > most {
						t.Fatalf("%d records after a power loss, %d Appends had returned", got, returned)
					}
				}
				d.around = func() { check(returned + 1) }
				for ; returned < 40; check(returned) {
					add(t, s, numbered(returned, 3000))
					returned++
				}
			})
		}
	})
}

// disk records which parts of a directory were synced.
type disk struct {
	dir   string
	names []string // entries of the directory at its last sync
	sizes map[uint64]int64
	// around is called before and after each sync.
	around func()
}

func inode(st os.FileInfo) uint64 { return st.Sys().(*syscall.Stat_t).Ino }

func (d *disk) sync(f *os.File, dir bool) error {
	if d.around != nil {
		d.around()
		defer d.around()
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !dir {
		d.sizes[inode(st)] = st.Size()
		return nil
	}
	if f.Name() == d.dir {
		d.names, err = f.Readdirnames(-1)
	}
	return err
}

// lose copies to a new directory the state that a power loss would leave. rest
// determines what becomes of unsynced bytes.
func (d *disk) lose(t *testing.T, rest string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range d.names {
		path := filepath.Join(d.dir, name)
		st, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since
		}
		must(t, err)
		p, err := os.ReadFile(path)
		must(t, err)
		synced := d.sizes[inode(st)]
		switch rest {
		case "gone":
			p = p[:synced]
		case "zeros":
			clear(p[synced:])
		case "half":
			p = p[:synced+(int64(len(p))-synced)/2]
		}
		must(t, os.WriteFile(filepath.Join(to, name), p, 0o600))
	}
	return to
}

func TestSpoolSyncFails(t *testing.T) {
	dir := t.TempDir()
	cause := error(nil)
	s, _ := open(t, Options{Dir: dir, sync: func(*os.File, bool) error { return cause }})
	one := add(t, s, []byte("one"))
	cause = syscall.EIO
	_, err := s.Append(context.Background(), []byte("two"))
	if !errors.Is(err, syscall.EIO) {
		t.Fatalf("append: %v", err)
	}
	cause = nil // no error
	for range 2 {
		if _, again := s.Append(context.Background(), []byte("three")); !errors.Is(again, syscall.EIO) {
			t.Fatalf("append after a sync that failed: %v", again)
		}
	}
	sameRecords(t, []Record{next(t, s)}, []Record{one})
	if _, err := s.Next(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("read on: %v", err)
	}
	closeSpool(t, s)
	s, _ = open(t, Options{Dir: dir})
	add(t, s, []byte("three"))
	got := rest(t, s)
	if n := len(got); n < 2 || n > 3 || string(got[0].Data) != "one" || string(got[n-1].Data) != "three" {
		t.Fatalf("%d records", n)
	}
}

func TestSpoolDiskFull(t *testing.T) {
	const most = 10_000
	for name, segment := range map[string]int64{"one segment": 10 << 20, "segments": 30_000} {
		t.Run(name, func(t *testing.T) {
			mount := testdb.SmallDisk(t, 512<<10)
			dir := filepath.Join(mount, "spool")
			o := Options{Dir: dir, Segment: segment, NoWait: true}
			s, _ := open(t, o)
			other := filepath.Join(mount, "other")
			must(t, os.WriteFile(other, make([]byte, 100<<10), 0o600))
			n := 0
			fill := func() {
				t.Helper()
				for ; ; n++ {
					_, err := s.Append(context.Background(), numbered(n, most))
					if errors.Is(err, syscall.ENOSPC) && errors.Is(err, ErrFull) {
						return
					}
					if err != nil || n > 1000 {
						t.Fatalf("record %d: %v", n, err)
					}
				}
			}
			fill()
			full := n
			for range 3 {
				if _, err := s.Append(context.Background(), numbered(n, most)); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("append to a full disk: %v", err)
				}
			}
			// The existing records are read, and nothing of the record that failed.
			for i := range full {
				if !bytes.Equal(next(t, s).Data, numbered(i, most)) {
					t.Fatalf("record %d", i)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("read more than was appended: %v", err)
			}
			cancel()
			// Appending continues once there is room, and after reopening.
			must(t, os.Remove(other))
			fill()
			if n <= full {
				t.Fatalf("%d records, %d before there was room", n, full)
			}
			closeSpool(t, s)
			if from, got, found := checkNumbered(t, dir, most); from != 0 || got != n || found.Torn != 0 {
				t.Fatalf("%d records of %d, %+v", got, n, found)
			}
			// Reading and releasing must work on a full disk, and make room: also where one
			// segment fills it.
			for _, o.NoWait = range []bool{true, true, false} {
				s, _ = open(t, o)
				records, _ := s.Size()
				for range records {
					must(t, s.Release(next(t, s).To))
				}
				was := n
				if o.NoWait {
					if fill(); n-was < full/2 {
						t.Errorf("%d records after all others were released, %d before", n-was, full)
					}
					closeSpool(t, s)
				}
			}
			// A sender waits for room.
			appended := make(chan int)
			go func() {
				defer close(appended)
				for i := n; i < n+2*full; i++ {
					add(t, s, numbered(i, most))
					appended <- i
				}
			}()
			waiting := 0
			for more := true; more; {
				select {
				case _, more = <-appended:
				case <-time.After(50 * time.Millisecond):
					if s.Full() > 0 {
						waiting++
						records, _ := s.Size()
						for range records {
							must(t, s.Release(next(t, s).To))
						}
					}
				}
			}
			if waiting == 0 {
				t.Error("no sender waited")
			}
		})
	}
}

func BenchmarkSpool(b *testing.B) {
	for name, o := range map[string]Options{"sync": {}, "nosync": quick("")} {
		for _, size := range []int{100 << 10, 1 << 20, 4 << 20} {
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, name), func(b *testing.B) {
				o.Dir = b.TempDir()
				s, _ := open(b, o)
				data := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					add(b, s, data)
					must(b, s.Release(next(b, s).To))
				}
			})
		}
	}
}
