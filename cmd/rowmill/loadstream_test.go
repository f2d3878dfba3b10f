package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/state"
)

// TestTrapStreamReadAhead checks a stream that is ended by Ctrl-C after more of it was
// read than sent: the rows already read exist nowhere else.
func TestTrapStreamReadAhead(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		for i, spool := range []string{"", l.dir + "/spool"} {
			f := loadRows(1_000_000*i, 40_000, false)
			in := &paced{text: f.text}
			args := []string{"load", l.file, "-", "--bad", l.dir + "/bad.jsonl", "--format", "csv", "--json", "--batch", "500"}
			if spool != "" {
				args = append(args, "--spool", spool)
			}
			before := int(count(l.T, l.db, "readings"))
			ctx, cancel := context.WithCancel(l.Context())
			var stdout, stderr bytes.Buffer
			code := make(chan int, 1)
			go func() { code <- run(ctx, args, in, &stdout, &stderr) }()
			for deadline := time.Now().Add(time.Minute); int(count(l.T, l.db, "readings")) == before; {
				if time.Now().After(deadline) {
					cancel()
					<-code
					l.Fatalf("nothing is loaded: %s", stderr.String())
				}
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
			if got := <-code; got != exitInterrupted && got != exitDone {
				l.Errorf("spool %q: exit %d", spool, got)
			}
			at := int(in.at.Load())
			if spool != "" {
				l.loadAny("--spool", spool) // the rows in the spool
			}
			// The last row may have been read in part; the rows before it are
			// complete.
			want := 0
			for _, line := range bytes.Split([]byte(f.text)[:at], []byte("\n")) {
				if n := bytes.Count(line, []byte(",")); n == 3 && line[0] != 's' {
					want++
				}
			}
			if got := len(l.rows()) - before; got < want-1 || got > want || at == 0 {
				l.Errorf("spool %q: %d rows, and %d were read\n%s%s", spool, got, want, stdout.String(), stderr.String())
			}
			if at == len(f.text) {
				l.Logf("spool %q: it was read to its end", spool)
			}
		}
	})
}

// A paced reader returns a text slowly from some point on, so that loading begins
// before the text has been read to its end.
type paced struct {
	text string
	at   atomic.Int64
}

func (r *paced) Read(p []byte) (int, error) {
	at := int(r.at.Load())
	if at == len(r.text) {
		return 0, io.EOF
	}
	if at > 300_000 {
		time.Sleep(2 * time.Millisecond)
	}
	n := copy(p[:min(len(p), 4096)], r.text[at:])
	r.at.Add(int64(n))
	return n, nil
}

// A stuck database accepts two batches. Then it fails or, without an error, accepts no
// more.
type stuck struct {
	engine.Keeper
	err     error
	batches atomic.Int64
	stands  chan bool
}

func (s *stuck) Loader(ctx context.Context) (engine.Loader, error) {
	l, err := s.Keeper.Loader(ctx)
	return &stuckLoader{l, s}, err
}

type stuckLoader struct {
	engine.Loader
	db *stuck
}

func (l *stuckLoader) Begin(ctx context.Context) error {
	n := l.db.batches.Add(1)
	if n <= 2 {
		return l.Loader.Begin(ctx)
	}
	if l.db.err != nil {
		return l.db.err
	}
	if n == 3 {
		close(l.db.stands)
	}
	<-ctx.Done()
	return ctx.Err()
}

// A tapped reader counts the lines that were read.
type tapped struct {
	io.Reader
	lines atomic.Int64
}

func (r *tapped) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.lines.Add(int64(bytes.Count(p[:n], []byte("\n"))))
	return n, err
}

// TestStreamCountsWhatIsLost checks that rows of a stream that were read but can't be
// sent are reported.
func TestStreamCountsWhatIsLost(t *testing.T) {
	t.Parallel()
	lost := func(l *loading, failure error) {
		var b strings.Builder
		for i := range 30_000 {
			fmt.Fprintf(&b, "%d,2026-03-29 01:00:00,1,ok\n", i)
		}
		in := &tapped{Reader: strings.NewReader(b.String())}
		db := &stuck{Keeper: l.db, err: failure, stands: make(chan bool)}
		o := l.options(db)
		o.Rows, o.RetryFor, o.Writers = 1000, 0, 1
		o.Format = ingest.Format{Kind: ingest.CSV, NoHeader: true}
		ctx, cancel := context.WithCancel(l.Context())
		defer cancel()
		if failure == nil {
			go func() {
				<-db.stands
				cancel()
			}()
		}
		r, err := ingest.Stream(ctx, o, in)
		if err == nil || failure != nil && !errors.Is(err, failure) || failure == nil && !errors.Is(err, context.Canceled) {
			l.Errorf("it ended with %v", err)
		}
		if r.Sent != 2000 || r.Lost == 0 || r.Sent+r.Lost != in.lines.Load() {
			l.Errorf("%d lines were read, %d rows sent, and %d said to be lost", in.lines.Load(), r.Sent, r.Lost)
		}
	}
	onKeepers(t, func(l *loading) { lost(l, errors.New("the disk is full")) })
	t.Run("stands", func(t *testing.T) {
		t.Parallel()
		lost(newLoading(t, "sqlite"), nil)
	})
}

// TestStoppedHint checks the hint after an interrupted load: a stream without a spool
// can't simply be loaded again.
func TestStoppedHint(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ source, spool, want string }{
		{"day.csv", "", "the same command"},
		{"-", "spool", "the same command"},
		{"-", "", "the rest of the stream"},
	} {
		if got := stoppedHint(ingest.Outcome{}, test.source, test.spool); !strings.Contains(got, test.want) {
			t.Errorf("%+v: %s", test, got)
		}
	}
	lost := ingest.Outcome{Result: ingest.Result{Lost: 1234}}
	if got := stoppedHint(lost, "-", "spool"); !strings.Contains(got, "once more from its start") {
		t.Error(got)
	}
	if got := lost.Text(); !strings.Contains(got, "; 1,234 rows were read and not loaded") {
		t.Error(got)
	}
}

// TestTrapSpoolForgetsHowToRead checks that the rows in a spool are read with the
// options of the load that wrote them, whatever the options of the next load.
func TestTrapSpoolForgetsHowToRead(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		l.load(exitDone, l.write("a.csv", "sensor,ts,value,note\n1,2026-03-29 03:00:00,1,ok\n"))
		spool := l.dir + "/spool"
		text := "sensor,ts,value,note\n1,2026-03-29 05:00:00,1,ok\n2,2026-03-29 06:00:00.75,1,ok\n"
		if l.server == "sqlite" { // SQLite keeps the digits
			text = strings.Replace(text, ".75", "", 1)
		}
		for i, zone := range []string{"Europe/Berlin", "+02:00"} {
			l.kill(1, text, "-", "--format", "csv", "--spool", spool, "--time-zone", zone, "--truncate-times", "--duplicates", "reject")
			l.loadAny("--spool", spool)
			if bad := l.bad("readings.bad.jsonl"); len(bad) != i+1+i { // the second time, both rows are already in the table
				l.Errorf("%s: bad rows: %+v", zone, bad)
			}
			got := l.rows()
			if len(got) != 2 || !strings.HasPrefix(got[1], "2 2026-03-29 04:00:00") {
				l.Errorf("%s: %q", zone, got)
			}
		}
	})
}

// TestSmallSpool checks that a small spool accepts rows in smaller batches.
func TestSmallSpool(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	var b strings.Builder
	long := strings.Repeat("9", 600)
	for i := range 5000 {
		fmt.Fprintf(&b, "%d,2026-03-29 01:00:00,1.%s,ok\n", i, long)
	}
	in := strings.NewReader(b.String())
	var stdout, stderr bytes.Buffer
	code := run(l.Context(), []string{"load", l.file, "-", "--format", "csv", "--header=false", "--spool", l.dir + "/spool", "--spool-size", "1MiB", "--bad", l.dir + "/bad.jsonl"}, in, &stdout, &stderr)
	if n := len(l.rows()); code != exitDone || n != 5000 {
		l.Errorf("exit %d, %d rows\n%s%s", code, n, stdout.String(), stderr.String())
	}
}

// TestTrapSpoolBeginsBehindDatabase checks a spool whose first records are gone and of
// which the database has loaded nothing, or fewer records than are gone: part of the
// stream is missing.
func TestTrapSpoolBeginsBehindDatabase(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		spool := l.dir + "/spool"
		f := loadRows(0, 5000, false).wide() // more than a spool of this size holds
		var stdout, stderr bytes.Buffer
		args := []string{"load", l.file, "-", "--format", "csv", "--spool", spool, "--spool-size", "1MiB", "--batch", "1000", "--bad", l.dir + "/bad.jsonl"}
		if code := run(l.Context(), args, strings.NewReader(f.text), &stdout, &stderr); code != exitDone {
			l.Fatalf("exit %d\n%s%s", code, stdout.String(), stderr.String())
		}
		if got, _ := l.load(exitDone, "--spool", spool); len(got[0].Damaged) != 0 {
			l.Errorf("nothing is amiss: %v", got[0].Damaged)
		}
		execSQL(l, l.db, "DELETE FROM rowmill_sources")
		if _, said := l.load(exitFailed, "--spool", spool); !strings.Contains(said, "begun for another") {
			l.Errorf("forgotten: %s", said)
		}
		got, said := l.load(exitFailed, "--spool", spool, "--source", "mine")
		if len(got[0].Damaged) != 1 || !strings.Contains(got[0].Damaged[0], "bytes missing at 0") || !strings.Contains(said, "1 parts of the spool are damaged") {
			l.Errorf("forgotten: %v\n%s", got[0].Damaged, said)
		}
		if got, _ := l.load(exitDone, "--spool", spool); len(got[0].Damaged) != 0 || got[0].Sent != 0 {
			l.Errorf("it is said twice: %+v", got[0])
		}
	})
}

// TestTrapClonedSpool checks that the recorded position of a spool never goes back, as
// it could after a machine was cloned with its spool.
func TestTrapClonedSpool(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		ctx, st := l.Context(), state.New(l.db)
		s := &state.Source{Table: "readings", Key: "00000000000000aa", Path: "/spool", Kind: state.SpoolSource, Loaded: 100}
		must(l, st.PutSource(ctx, st.DB(), s))
		for _, test := range []struct {
			to, want int64
			ok       bool
		}{{50, 100, false}, {100, 100, true}, {150, 150, true}} {
			clone := *s
			clone.Loaded = test.to
			err := st.Acknowledge(ctx, &clone, nil)
			if test.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "the database has a later position") {
				l.Errorf("to %d: %v", test.to, err)
			}
			known, err := st.Sources(ctx, "readings", state.SpoolSource, "")
			if err != nil || len(known) != 1 || known[0].Loaded != test.want {
				l.Errorf("to %d: %+v, %v", test.to, known, err)
			}
		}
	})
}

// TestLoadWaitsForServer checks that a load waits for a server that is down when the
// load begins.
func TestLoadWaitsForServer(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, server string) {
		l := newLoading(t, server)
		u, err := url.Parse(l.target)
		must(l, err)
		q := u.Query()
		name := map[bool]string{true: "host", false: "socket"}[server == "postgres"]
		there := q.Get(name)
		if there == "" {
			l.Skipf("the server has no socket: %s", l.target)
		}
		late, err := os.MkdirTemp("", "rm")
		must(l, err)
		defer os.RemoveAll(late)
		late += "/s"
		text := readFile(l, l.file)
		q.Set(name, late)
		u.RawQuery = q.Encode()
		l.write("readings.toml", strings.Replace(string(text), l.target, u.String(), 1))
		path := l.write("day.csv", loadRows(0, 10, false).text)
		if _, said := l.load(exitFailed, path, "--retry", "0s"); strings.Contains(said, "tried again") {
			l.Errorf("without --retry: %s", said)
		}
		ctx, cancel := context.WithCancel(l.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		began := time.Now()
		if out := rowmill(ctx, "load", l.file, path, "--bad", l.dir+"/bad.jsonl"); out.code != exitInterrupted || time.Since(began) > time.Minute {
			l.Errorf("interrupted: exit %d after %s\n%s", out.code, time.Since(began), out.stderr)
		}
		time.AfterFunc(1500*time.Millisecond, func() {
			if err := os.Symlink(there, late); err != nil {
				l.Error(err)
			}
		})
		if got, said := l.load(exitDone, path); got[0].Inserted != 10 || !strings.Contains(said, "will be tried again: ") {
			l.Errorf("loaded: %+v\n%s", got[0], said)
		}
	})
}
