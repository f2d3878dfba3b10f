package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestTrapLoadKilledAnyTime kills a loader at any time, not only between its steps.
func TestTrapLoadKilledAnyTime(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		rows, tries := 25_000, 10
		if testdb.Nightly() {
			rows, tries = 40_000, 25
		}
		f := loadRows(0, rows, true)
		path := l.write("day.csv", f.text)
		rnd := rand.New(rand.NewPCG(1, 1))
		kills := 0
		for range tries {
			c := l.command(0, path, "--batch", fmt.Sprint(20+rnd.IntN(200)))
			must(l, c.Start())
			time.Sleep(time.Duration(10+rnd.IntN(60)) * time.Millisecond)
			_ = c.Process.Signal(syscall.SIGKILL) // it may have ended
			_ = c.Wait()                          // the table shows how it ended
			if st, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() {
				kills++
			}
		}
		if kills < 3 {
			l.Errorf("it was killed %d times only", kills)
		}
		l.Logf("killed %d times", kills)
		l.loadAny(path)
		l.check("in the end", "day.csv.bad.jsonl", f)
	})
}

// options returns the options of a load in this process.
func (l *loading) options(db engine.Keeper) ingest.Options {
	l.Helper()
	d, _, err := readDeclaration(l.Context(), l.file, "")
	must(l, err)
	table, err := maintain.Open(l.Context(), db, d, func() time.Time { return loadStart })
	must(l, err)
	return ingest.Options{DB: db, Table: table.Table, Schema: table.Schema, MaxBad: -1, RetryFor: time.Minute, Bad: filepath.Join(l.dir, "bad.jsonl")}
}

// An unsure database loses the connection at commits. Every third commit succeeds
// without an answer, and every fifth fails.
type unsure struct {
	engine.Keeper
	commits atomic.Int64
}

func (u *unsure) Loader(ctx context.Context) (engine.Loader, error) {
	l, err := u.Keeper.Loader(ctx)
	return &unsureLoader{l, u}, err
}

type unsureLoader struct {
	engine.Loader
	db *unsure
}

func (l *unsureLoader) Commit(ctx context.Context) error {
	lost := engine.Classed(engine.ErrConnectionLost, errors.New("the connection broke at the commit"))
	switch n := l.db.commits.Add(1); {
	case n%3 == 0:
		return errors.Join(l.Loader.Commit(ctx), lost)
	case n%5 == 0:
		return lost
	}
	return l.Loader.Commit(ctx)
}

// TestTrapCommitWithoutAnswer checks that after a connection is lost at the commit,
// the ledger shows whether the transaction was committed.
func TestTrapCommitWithoutAnswer(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 1000, true)
		path := l.write("day.csv", f.text)
		db := &unsure{Keeper: l.db}
		o := l.options(db)
		o.Rows = 20
		r, err := ingest.File(l.Context(), o, path)
		must(l, err)
		if r.Sent != 1000 || r.Duplicate != int64(f.dups) || r.Rejected != int64(len(f.bad)) {
			l.Errorf("loaded: %+v", r)
		}
		if n := db.commits.Load(); n <= 50 {
			l.Errorf("%d commits only", n)
		}
		l.check("in the end", "bad.jsonl", f)
	})
}

// TestTrapBatchOfADeadLoader checks a server that delays the last batch of a killed
// loader, and may commit it concurrently with its repetition.
func TestTrapBatchOfADeadLoader(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 300, false)
		path := l.write("day.csv", f.text)
		l.kill(1, "", path, "--batch", "100", "--writers", "1") // the batch about to be sent is recorded
		ctx := l.Context()
		st := state.New(l.db)
		sources, err := st.Sources(ctx, "readings", state.FileSource, path)
		if err != nil || len(sources) != 1 {
			l.Fatalf("sources: %v, %v", sources, err)
		}
		cuts, err := st.Cuts(ctx, "readings", sources[0].Key)
		if err != nil || len(cuts) == 0 {
			l.Fatalf("cuts: %v, %v", cuts, err)
		}
		// The killed loader's transaction: the first batch's rows and its ledger
		// entry.
		loader, err := l.db.Loader(ctx)
		must(l, err)
		defer loader.Close()
		must(l, loader.Begin(ctx))
		o := l.options(l.db)
		table := *o.Table
		table.Columns = []engine.Column{{Name: "sensor", Type: engine.Int64}, {Name: "ts", Type: engine.Time}, {Name: "note", Type: engine.Varchar, Size: 8}}
		rows := engine.NewBatch(table.Columns)
		for i := range 100 {
			rows.Columns[0].Ints = append(rows.Columns[0].Ints, int64(i))
			rows.Columns[1].Ints = append(rows.Columns[1].Ints, rolling.Position(loadStart.Add(time.Duration(i*7%3600)*time.Second)))
			rows.Columns[2].AppendBytes([]byte(strings.SplitN(f.want[i], " ", 4)[3]))
			rows.EndRow()
		}
		line := state.Batch{Table: "readings", ID: cuts[0].ID(sources[0].Key), Lower: rolling.Position(loadStart), Upper: rolling.Position(loadStart.Add(99 * 7 * time.Second)),
			Counts: state.Counts{Sent: 100, Inserted: 100}}
		for _, r := range append([]engine.Rows{{Table: &table, Batch: rows}}, line.Rows(false)...) {
			if _, err := loader.Insert(ctx, r.Table, r.Batch, 0, r.Batch.Rows()); err != nil {
				l.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() {
			c := l.command(0, path)
			out, err := c.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
			done <- err
		}()
		select {
		case err := <-done:
			l.Fatalf("the load ended beside it: %v", err)
		case <-time.After(700 * time.Millisecond):
		}
		must(l, loader.Commit(ctx))
		must(l, <-done)
		l.check("in the end", "day.csv.bad.jsonl", f)
	})
}

// TestTrapTwoLoadsOfOneFile checks two concurrent loads of one file. Without a lock,
// each would find that it isn't loaded yet.
func TestTrapTwoLoadsOfOneFile(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 200, false)
		path := l.write("day.csv", f.text)
		l.beside(path, func() {
			if _, stderr := l.load(exitFailed, path); !strings.Contains(stderr, "is being loaded into readings by another process") {
				l.Errorf("a second load beside it: %s", stderr)
			}
		})
		l.check("in the end", "bad.jsonl", f)
	})
}

// TestLoadGoesOnPastHeldFile checks that a file that another process is loading
// doesn't prevent the other files from being loaded.
func TestLoadGoesOnPastHeldFile(t *testing.T) {
	onKeepers(t, func(l *loading) {
		f, next, last := loadRows(0, 100, false), loadRows(1000, 30, false), loadRows(2000, 40, false)
		held := l.write("held.csv", f.text)
		paths := []string{l.write("next.csv", next.text), held, l.write("last.csv", last.text)}
		l.beside(held, func() {
			got, stderr := l.load(exitFailed, paths...)
			if len(got) != 3 || got[0].Inserted != 30 || !got[1].Held || got[1].Finished || got[2].Inserted != 40 {
				l.Errorf("%+v", got)
			}
			if !strings.Contains(stderr, held+" is being loaded into readings by another process") || !strings.Contains(stderr, "Try: again after that load has ended") || strings.Contains(stderr, "not begun") {
				l.Errorf("stderr: %s", stderr)
			}
		})
		if got, _ := l.load(exitDone, paths...); got[1].Before != 100 {
			l.Errorf("once it has ended: %+v", got)
		}
		l.check("in the end", "bad.jsonl", f, next, last)
	})
}

// beside runs fn while this process is paused at the first point of loading a file.
// The load is then completed.
func (l *loading) beside(path string, fn func()) {
	l.Helper()
	inside, end := make(chan bool), make(chan bool)
	o := l.options(l.db)
	o.Rows = 20
	var once sync.Once
	o.Reached = func(string) {
		once.Do(func() {
			close(inside)
			<-end
		})
	}
	done := make(chan error, 1)
	go func() {
		_, err := ingest.File(l.Context(), o, path)
		done <- err
	}()
	select {
	case <-inside:
	case err := <-done:
		l.Fatalf("the load ended before its first point: %v", err)
	}
	func() {
		defer close(end) // even if fn ends the test
		fn()
	}()
	must(l, <-done)
}

// TestTrapStreamKilled checks that a stream's rows are on disk before they are sent.
// After any kill, the next load loads the rows in the spool, each once.
func TestTrapStreamKilled(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		spool := filepath.Join(l.dir, "spool")
		// The same spool is used by one stream for each kill, each with different
		// rows.
		var loadedRows []string
		for n := 1; n <= 8; n++ {
			f := loadRows(10_000*n, 600, true)
			l.killed(n*3, f.text, "-", "--format", "csv", "--spool", spool, "--batch", "50")
			got, _ := l.loadAny("--spool", spool)
			if got[0].Duplicate > int64(f.dups) {
				l.Errorf("killed at point %d: %d rows were sent twice", n*3, got[0].Duplicate)
			}
			// Rows that were read from the pipe but are not on disk are still the
			// sender's responsibility: the table has the first rows of the stream.
			rows := l.rows()
			if !slices.Equal(rows[:len(loadedRows)], loadedRows) {
				l.Fatalf("killed at point %d: rows of streams before have changed", n*3)
			}
			own := rows[len(loadedRows):]
			if len(own) > len(f.want) || !slices.Equal(own, f.want[:len(own)]) {
				l.Fatalf("killed at point %d: %d rows are there, which aren't the stream's first", n*3, len(own))
			}
			loadedRows = rows
		}
		if len(loadedRows) < 500 {
			l.Errorf("%d rows of 8 streams only", len(loadedRows))
		}
		// A spool isn't sent again from its start.
		if got, _ := l.load(exitDone, "--spool", spool); got[0].Sent != 0 || got[0].Before != 0 || len(l.rows()) != len(loadedRows) {
			l.Errorf("once more: %+v", got[0])
		}
		if got, _ := l.loadAny("--spool", spool); got[0].Sent != 0 {
			l.Errorf("once more: %+v", got[0])
		}
	})
}

// loadAny is load with any exit code for bad rows.
func (l *loading) loadAny(args ...string) ([]ingest.Outcome, string) {
	l.Helper()
	c := l.command(0, append(args, "--json")...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil && c.ProcessState.ExitCode() != exitFailed {
		l.Fatalf("load %v: %v\n%s", args, err, stderr.String())
	}
	return l.parse(stdout.Bytes()), stderr.String()
}

// TestTrapSenderWaitsForFullSpool checks that the sender waits while the database
// accepts no rows and the spool is full: no row is dropped, and memory doesn't grow.
func TestTrapSenderWaitsForFullSpool(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 12_000, false).wide()
		ctx := l.Context()
		held, err := l.db.SQL().Conn(ctx)
		must(l, err)
		defer held.Close()
		hold, free := "LOCK TABLES readings WRITE", "UNLOCK TABLES"
		switch l.server {
		case "sqlite":
			hold, free = "BEGIN IMMEDIATE", "COMMIT"
		case "postgres":
			hold, free = "BEGIN; LOCK TABLE readings IN EXCLUSIVE MODE", "COMMIT"
		}
		c := l.command(0, "-", "--format", "csv", "--spool", filepath.Join(l.dir, "spool"), "--spool-size", "1MiB", "--retry", "-1s", "--batch", "1000", "--json")
		in, err := c.StdinPipe()
		must(l, err)
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		must(l, c.Start())
		var sent atomic.Int64
		done := make(chan error, 1)
		text := f.text
		// The first rows are loaded, so that the load has begun.
		head := text[:strings.Index(text, "\n100,")+1]
		if _, err := io.WriteString(in, head); err != nil {
			l.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); len(l.rows()) < 100; {
			if time.Now().After(deadline) {
				l.Fatalf("nothing is loaded: %s", stderr.String())
			}
			time.Sleep(20 * time.Millisecond)
		}
		if _, err := held.ExecContext(ctx, hold); err != nil {
			l.Fatal(err)
		}
		go func() {
			for rest := text[len(head):]; len(rest) > 0; {
				n, err := io.WriteString(in, rest[:min(len(rest), 4096)])
				sent.Add(int64(n))
				if err != nil {
					done <- err
					return
				}
				rest = rest[n:]
			}
			done <- in.Close()
		}()
		// Reading stops once the spool and a few blocks and batches are full, long
		// before the end.
		stood := int64(-1)
		for stood != sent.Load() {
			stood = sent.Load()
			time.Sleep(300 * time.Millisecond)
		}
		if most := int64(3 << 20); stood > most || stood >= int64(len(text)) {
			l.Errorf("%d bytes of %d were taken while the database took none; want at most %d", stood, len(text), most)
		}
		select {
		case err := <-done:
			l.Errorf("the sender didn't wait: %v", err)
		default:
		}
		if files, size := dirSize(t, filepath.Join(l.dir, "spool")); size > 1<<20+64<<10 {
			l.Errorf("the spool's %d files have %d bytes", files, size)
		}
		if _, err := held.ExecContext(ctx, free); err != nil {
			l.Fatal(err)
		}
		must(l, <-done)
		if err := c.Wait(); err != nil {
			l.Fatalf("%v\n%s", err, stderr.String())
		}
		if got := l.parse(stdout.Bytes()); got[0].Sent != int64(f.sent) || got[0].Duplicate != 0 {
			l.Errorf("loaded: %+v", got[0])
		}
		if n := len(l.rows()); n != len(f.want) {
			l.Errorf("%d rows, want %d", n, len(f.want))
		}
	})
}

func dirSize(t *testing.T, dir string) (files int, size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // released just before
		}
		files++
		size += info.Size()
	}
	return files, size
}
