package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestTrapLoadKilledWithOtherBatchSizes kills a load at any point, repeatedly, and continues it
// with other batch sizes. A loader that counts rows to find its position fails when the batch size
// changes, and one that records its progress separately from the rows loses or repeats some of them
// at each crash. Here each row must be in the table once, each bad row in the file of bad rows and
// in the last load's summary, and the ledger must add up: if a batch were sent twice, its rows
// would be counted as duplicates.
func TestTrapLoadKilledWithOtherBatchSizes(t *testing.T) {
	onKeepers(t, func(l *loading) {
		rows := 900
		if testdb.Nightly() {
			rows = 3000
		}
		f := loadRows(0, rows, true)
		l.write("day.csv", f.text)
		sizes, kills := []int{60, 37, 100, 17}, 0
		last := session{code: -1}
		for ; last.code < 0; kills++ {
			if kills > 2000 {
				l.Fatal("it doesn't come to an end")
			}
			last = l.exec(1+kills%7, "", fmt.Sprintf("day.csv --batch %d --writers %d", sizes[kills%4], 1+(kills+1)%3))
		}
		if last.code != exitFailed || !strings.Contains(last.stdout, figure.Count(rows)+" rows in") || !strings.Contains(last.stdout, fmt.Sprintf("%d rejected", len(f.bad))) {
			l.Errorf("exit %d\n%s%s", last.code, last.stdout, last.stderr)
		}
		if kills < rows/300 {
			l.Errorf("it was killed %d times only", kills)
		}
		l.Logf("killed %d times", kills)
		l.check("day.csv.bad.jsonl", f)
	})
}

// TestTrapCommitWithoutAnswer checks that after a connection is lost at the commit,
// the ledger shows whether the transaction was committed.
func TestTrapCommitWithoutAnswer(t *testing.T) {
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 1000, true)
		path := l.write("day.csv", f.text)
		lost := engine.Classed(engine.ErrConnectionLost, errors.New("the connection broke at the commit"))
		db := &faulty{Keeper: l.db, commit: func(n int64, commit func() error) error {
			switch {
			case n%3 == 0:
				return errors.Join(commit(), lost)
			case n%5 == 0:
				return lost
			}
			return commit()
		}}
		o := l.options(db)
		o.Rows = 20
		r, err := ingest.File(l.Context(), o, path)
		must(l, err)
		if r.Sent != 1000 || r.Duplicate != int64(f.dups) || r.Rejected != int64(len(f.bad)) || db.commits.Load() <= 50 {
			l.Errorf("loaded by %d commits: %+v", db.commits.Load(), r)
		}
		l.check("bad.jsonl", f)
	})
}

// TestTrapBatchOfADeadLoader checks a server that delays the last batch of a killed
// loader, and may commit it concurrently with its repetition.
func TestTrapBatchOfADeadLoader(t *testing.T) {
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 300, false)
		path := l.write("day.csv", f.text)
		l.kill(1, "", "day.csv --batch 100 --writers 1") // the batch about to be sent is recorded
		ctx, st := l.Context(), state.New(l.db)
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
		table := *l.options(l.db).Table
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
			_, err := loader.Insert(ctx, r.Table, r.Batch, 0, r.Batch.Rows())
			must(l, err)
		}
		done := make(chan session, 1)
		go func() { done <- l.exec(0, "", "day.csv") }()
		select {
		case s := <-done:
			l.Fatalf("the load ended beside it: %+v", s)
		case <-time.After(700 * time.Millisecond):
		}
		must(l, loader.Commit(ctx))
		mustPass(l.T, <-done)
		l.check("day.csv.bad.jsonl", f)
	})
}

// TestTrapTwoLoadsOfOneFile checks concurrent loads of one file, by one name and by two.
// Without a lock, each would find that it isn't loaded yet. The other files are loaded.
func TestTrapTwoLoadsOfOneFile(t *testing.T) {
	onNumbered(t, func(l *loading) {
		f, next, last := loadRows(0, 100, false), loadRows(1000, 30, false), loadRows(2000, 40, false)
		held := l.write("held.csv", f.text)
		l.write("copy.csv", f.text)
		l.write("next.csv", next.text)
		l.write("last.csv", last.text)
		inside, open := make(chan bool), make(chan bool)
		o := l.options(l.db)
		o.Rows = 20
		var once sync.Once
		o.Reached = func(string) {
			once.Do(func() {
				close(inside)
				<-open
			})
		}
		end := l.begin(o, held, inside)
		opens := sync.OnceFunc(func() { close(open) })
		defer opens() // even if a check ends the test
		l.prints(exitFailed, "held.csv copy.csv", held+" is being loaded into readings by another process",
			"Try: again after that load has ended", "!not begun")
		l.loads(exitFailed, "Inserted 30, 1.Held true, 1.Finished false, 2.Held true, 3.Inserted 40", "next.csv held.csv copy.csv last.csv")
		opens()
		must(l, end())
		l.loads(exitDone, "Before 100, 1.Before 100, Sent 0, 1.Sent 0", "held.csv copy.csv")
		l.check("bad.jsonl", f, next, last)
	})
}

// TestTrapFinishedFileAgain loads a finished file again, as a user does who isn't sure
// that it was loaded.
func TestTrapFinishedFileAgain(t *testing.T) {
	onKeepers(t, func(l *loading) {
		f, more, next := loadRows(0, 700, true), loadRows(1000, 50, false), loadRows(2000, 80, false)
		l.write("day.csv", f.text)
		l.loads(exitFailed, fmt.Sprintf("Sent 700, Finished true, Rejected %d", len(f.bad)), "day.csv --batch 100")
		for _, batch := range []string{"100", "1", "5000"} {
			l.loads(exitDone, "Sent 0, Before 700, Finished true", "day.csv --batch "+batch)
		}
		l.check("day.csv.bad.jsonl", f)
		// The rows added since then are loaded, and nothing else.
		l.write("day.csv", f.text+more.body())
		l.loads(exitDone, "Sent 50, Inserted 50, Before 700", "day.csv")
		l.loads(exitDone, "Sent 0, Before 750", "day.csv")
		// A file that differs in the middle isn't taken for the same file, nor is a part.
		l.write("day.csv", strings.Replace(f.text+more.body(), "\n600,", "\n601,", 1))
		l.loads(exitFailed, "; has changed since it was loaded; Try: --source", "day.csv")
		l.write("day.csv", f.text[:len(f.text)/2])
		l.settle("day.csv")
		l.loads(exitFailed, "; shorter than it was", "day.csv")
		l.check("day.csv.bad.jsonl", f, more)
		// Another file under its name, as after log rotation, is loaded.
		l.write("day.csv", next.text)
		l.loads(exitDone, "Sent 80, Inserted 80, Before 0", "day.csv")
	})
}

// TestTrapFileChangedInTheMiddle changes a file while its load is incomplete: the
// batches that were cut no longer match its contents.
func TestTrapFileChangedInTheMiddle(t *testing.T) {
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 400, false)
		path := l.write("day.csv", f.text)
		// After 30 points, at least ten of the twenty batches are committed, because
		// each passes at most three points. All of them would pass at least forty.
		l.kill(30, "", "day.csv --batch 20 --writers 1")
		l.prints(exitDone, "--list", "batches to send", path)
		l.write("day.csv", strings.Replace(f.text, "\n150,", "\n999,", 1))
		l.loads(exitFailed, "; has changed since it was loaded", "day.csv --writers 1")
		l.write("day.csv", f.text)
		l.loads(exitDone, "", "day.csv")
		l.check("day.csv.bad.jsonl", f)
		l.prints(exitDone, "--list", "loaded  400   400       0        0              0          0      0         "+path)
	})
}

// TestTrapHalfWrittenLine checks a file whose last line is incomplete. While the file
// is being written to, half a row isn't loaded. If it was loaded because the file had
// not been written to for a while, the rest of the line is a bad row, and the
// following rows are loaded.
func TestTrapHalfWrittenLine(t *testing.T) {
	onKeepers(t, func(l *loading) {
		path := l.write("day.csv", loadHeader+"1,2026-03-29 01:00:00,1,ok\n2,2026-03-29 01:00:00,12")
		// The writer continues once the load waits for it, however late that is.
		ahead := time.Now().Add(time.Hour)
		must(l, os.Chtimes(path, ahead, ahead))
		proceed := sync.OnceFunc(func() {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("34,ok\n")
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				l.Error(err)
			}
		})
		c := l.command(0, "day.csv --json")
		c.Stderr = &watched{find: regexp.MustCompile("its last line has no line break, and it was written to just now"), found: func([]string) { proceed() }}
		text, err := c.Output()
		must(l, err)
		var out struct{ Sources []ingest.Outcome }
		must(l, json.Unmarshal(text, &out))
		if got := out.Sources[0]; got.Inserted != 2 || got.Sent != 2 || !got.Finished {
			l.Errorf("%+v", got)
		}
		l.has("1234", "SELECT value FROM readings WHERE sensor = 2")
		const end = loadHeader + "3,2026-03-29 01:00:00,1,ok\n4,2026-03-29 01:00:00,12,o"
		for _, c := range []struct{ more, want string }{
			{"", "Inserted 2, Finished true"},
			{"\r\n5,2026-03-29 01:00:00,1,x", "Inserted 1, Rejected 0"}, // a line break added to it is not a change
		} {
			l.write("end.csv", end+c.more)
			l.settle("end.csv")
			l.loads(exitDone, c.want, "end.csv")
		}
		// More text in the line is a change.
		l.write("end.csv", end+"\r\n5,2026-03-29 01:00:00,1,xyz\n6,2026-03-29 01:00:00,1,ok\n")
		l.loads(exitFailed, "Inserted 1, Rejected 1, Finished true", "end.csv")
		l.refused("end.csv", map[int64]string{4: "rest of a line that was incomplete"})
		if bad := l.bad("end.csv.bad.jsonl"); bad[0].Row != "yz" {
			l.Errorf("bad row %q", bad[0].Row)
		}
		l.loads(exitDone, "Sent 0", "end.csv")
		l.hasRows(6)
		// A killed load has recorded such a line as the end of a batch.
		const killed = loadHeader + "7,2026-03-29 01:00:00,1,ok\n8,2026-03-29 01:00:00,12,o"
		l.write("killed.csv", killed)
		l.settle("killed.csv")
		l.kill(1, "", "killed.csv")
		l.write("killed.csv", killed+"k\n9,2026-03-29 01:00:00,1,ok\n")
		l.loads(exitFailed, "Inserted 3, Rejected 1, Finished true", "killed.csv")
		l.refused("killed.csv", map[int64]string{3: ": k"})
	})
}

// TestTrapBadRowTakesItsBatchAlong checks that one bad row, which makes the whole
// INSERT fail, is the only row in the file of bad rows, with its line, the reason and
// the row. The others are loaded.
func TestTrapBadRowTakesItsBatchAlong(t *testing.T) {
	onKeepers(t, func(l *loading) {
		lines := strings.SplitAfter(loadRows(0, 2000, false).text, "\n")
		want := map[int64]string{}
		// Two of these are refused only by the server, and one of the two is the last
		// row of the batch. SQLite has a check of the note, other servers the range of
		// an INT.
		for sensor, note := range map[string]string{"777,": ",much too long", "1998,": `,"long, long ago"`} {
			i := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, sensor) })
			lines[i] = "99999999" + strings.Replace(lines[i], ",ok", note, 1)
			want[int64(i+1)] = ": " + strings.TrimSuffix(lines[i], "\n")
		}
		l.write("day.csv", strings.Join(lines, ""))
		l.loads(exitFailed, "Sent 2000, Inserted 1998, Rejected 2, Duplicate 0, Finished true; 2 of 2,000 rows; day.csv.bad.jsonl", "day.csv --batch 1999")
		l.refused("day.csv", want)
		for _, b := range l.bad("day.csv.bad.jsonl") {
			reason := strings.ToLower(b.Reason)
			if !slices.ContainsFunc([]string{"note", "too long", "check", "out of range"}, func(text string) bool { return strings.Contains(reason, text) }) {
				l.Errorf("the reason of line %d tells nothing: %s", b.Line, b.Reason)
			}
		}
		l.hasRows(1998)
	})
}

// TestTrapDuplicateTakesItsBatchAlong checks that one row whose key already exists
// doesn't make its whole batch fail. If duplicates are to be reported, only they are
// rejected.
func TestTrapDuplicateTakesItsBatchAlong(t *testing.T) {
	onKeepers(t, func(l *loading) {
		first := loadRows(0, 100, false)
		row, _, _ := strings.Cut(first.body(), "\n") // of sensor 0
		l.write("a.csv", first.text)
		l.write("b.csv", loadRows(100, 400, false).text+row+"\n")
		l.write("c.csv", loadRows(600, 300, false).text+row+"\n")
		l.loads(exitDone, "1.Sent 401, 1.Inserted 400, 1.Duplicate 1, 1.Rejected 0", "a.csv b.csv --batch 1000 --files 1")
		l.loads(exitFailed, "Sent 301, Inserted 300, Duplicate 0, Rejected 1", "c.csv --batch 1000 --on-duplicate error")
		if bad := l.bad("c.csv.bad.jsonl"); len(bad) != 1 || bad[0].Row != row {
			l.Errorf("bad rows: %+v", bad)
		}
		l.hasRows(800)
	})
}

// TestTrapRowsOutsideGoToBadFile checks rows outside all partitions and invalid
// values: LOAD DATA and INSERT IGNORE silently drop the former and change the latter.
func TestTrapRowsOutsideGoToBadFile(t *testing.T) {
	onKeepers(t, func(l *loading) {
		var b strings.Builder
		for i := range 50 {
			fmt.Fprintf(&b, "%d,2026-03-29 01:00:00,1,ok\n", i)
		}
		l.write("day.csv", loadHeader+b.String()+"50,1999-12-31 23:59:59,1,old\n51,2026-03-28 23:59:59,1,old\n52,2026-03-29 00:00:00,1,first\n"+
			"53,2026-03-29 06:59:59,1,last\n54,2026-03-29 07:00:00,1,new\n55,2999-01-01 00:00:00,1,new\n"+
			"56,2026-03-29 01:00:00.25,1,fine\n57,2026-02-30 01:00:00,1,none\n58,2026-03-29 01:00:00,1e400,big\n59.5,2026-03-29 01:00:00,1,half\n"+
			"99999999999,2026-03-29 01:00:00,1,big\n61,2026-03-29 01:00:00,1,\xff\n62,2026-03-29 01:00:00,\n63,,1,no time\n")
		want := map[int64]string{52: "ts: 1999-12-31 23:59:59 lies outside every period: they run from 2026-03-29 00:00:00 to 2026-03-29 07:00:00",
			53: "outside every period", 56: "outside every period", 57: "outside every period", 59: "ts: ", 60: "value: ", 61: "sensor: ", 63: "note: ", 64: "fields", 65: "ts: it is empty"}
		if l.server != "sqlite" { // its integers have 64 bits and its times six fractional digits, whatever the declared type
			want[58], want[62] = `ts: "2026-03-29 01:00:00.25": it has more than the 0 digits`, ""
		}
		l.loads(exitFailed, fmt.Sprintf("Sent 64, Rejected %d, Inserted %d", len(want), 64-len(want)), "day.csv --create-periods=false")
		l.refused("day.csv", want)
		l.hasRows(64 - len(want))
	})
}

// TestTrapStreamKilled checks that a stream's rows are on disk before they are sent.
// After any kill, the next load loads the rows in the spool, each once.
func TestTrapStreamKilled(t *testing.T) {
	onKeepers(t, func(l *loading) {
		// The same spool is used by one stream for each kill, each with different
		// rows.
		var loaded []string
		for n := 3; n <= 24; n += 3 {
			f := loadRows(10_000*n, 600, true)
			l.killed(n, f.text, "- --format csv --spool spool --batch 50")
			if got := l.loads(anyCode, "", "--spool spool")[0]; got.Duplicate > int64(f.dups) {
				l.Errorf("killed at point %d: %d rows were sent twice", n, got.Duplicate)
			}
			// Rows that were read from the pipe but are not on disk are still the
			// sender's responsibility: the table has the first rows of the stream.
			rows := l.rows()
			if !slices.Equal(rows[:len(loaded)], loaded) {
				l.Fatalf("killed at point %d: rows of streams before have changed", n)
			}
			own := rows[len(loaded):]
			if len(own) > len(f.want) || !slices.Equal(own, f.want[:len(own)]) {
				l.Fatalf("killed at point %d: %d rows are there, which aren't the stream's first", n, len(own))
			}
			loaded = rows
		}
		if len(loaded) < 500 {
			l.Errorf("%d rows of 8 streams only", len(loaded))
		}
		// A spool isn't sent again from its start.
		l.loads(exitDone, "Sent 0, Before 0", "--spool spool")
		l.hasRows(len(loaded))
	})
}

// TestTrapSenderWaitsForFullSpool checks that the sender waits while the database
// accepts no rows and the spool is full: no row is dropped, and memory doesn't grow.
func TestTrapSenderWaitsForFullSpool(t *testing.T) {
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
		c := l.command(0, "- --format csv --spool spool --spool-size 1MiB --retry -1s --batch 1000")
		in, err := c.StdinPipe()
		must(l, err)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, io.Discard
		must(l, c.Start())
		// The first rows are loaded, so that the load has begun.
		head := f.text[:strings.Index(f.text, "\n100,")+1]
		_, err = io.WriteString(in, head)
		must(l, err)
		l.waits("the first rows", func() bool { return len(l.rows()) >= 100 })
		_, err = held.ExecContext(ctx, hold)
		must(l, err)
		var sent atomic.Int64
		done := make(chan error, 1)
		go func() {
			for part := range slices.Chunk([]byte(f.text[len(head):]), 4096) {
				n, err := in.Write(part)
				sent.Add(int64(n))
				if err != nil {
					done <- err
					return
				}
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
		if stood > 3<<20 || stood >= int64(len(f.text)) || len(done) > 0 {
			l.Errorf("%d bytes of %d were taken while the database took none; want at most 3 MiB", stood, len(f.text))
		}
		entries, err := filepath.Glob(filepath.Join(l.dir, "spool", "*"))
		must(l, err)
		size := int64(0)
		for _, e := range entries {
			if info, err := os.Stat(e); err == nil {
				size += info.Size()
			}
		}
		if size > 1<<20+64<<10 {
			l.Errorf("the spool's %d files have %d bytes", len(entries), size)
		}
		_, err = held.ExecContext(ctx, free)
		must(l, err)
		must(l, <-done)
		must(l, c.Wait())
		if !strings.Contains(out.String(), "12,000 inserted, 0 already present, 0 rejected") {
			l.Errorf("loaded: %s", out.String())
		}
		l.hasRows(len(f.want))
	})
}

// TestTrapStreamReadAhead checks a stream that is ended by Ctrl-C after more of it was
// read than sent: the rows already read exist nowhere else.
func TestTrapStreamReadAhead(t *testing.T) {
	onKeepers(t, func(l *loading) {
		for i, spool := range []string{"", l.dir + "/spool"} {
			f := loadRows(1_000_000*i, 40_000, false)
			in := &paced{text: f.text}
			args := []string{"load", l.file, "-", "--bad", l.dir + "/bad.jsonl", "--format", "csv", "--json", "--batch", "500"}
			if spool != "" {
				args = append(args, "--spool", spool)
			}
			before := len(l.rows())
			ctx, cancel := context.WithCancel(l.Context())
			var stdout, stderr bytes.Buffer
			code := make(chan int, 1)
			go func() { code <- run(ctx, args, in, &stdout, &stderr) }()
			l.waits("the first rows", func() bool { return int(count(l.T, l.db, "readings")) > before })
			cancel()
			if got := <-code; got != exitInterrupted && got != exitDone {
				l.Errorf("spool %q: exit %d", spool, got)
			}
			at := int(in.at.Load())
			if spool != "" {
				l.loads(anyCode, "", "--spool spool") // the rows in the spool
			}
			// The last row may have been read in part; the rows before it are
			// complete.
			want := 0
			for line := range strings.SplitSeq(f.text[:at], "\n") {
				if strings.Count(line, ",") == 3 && line[0] != 's' {
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
// sent are reported: after two batches the database fails or, without an error, accepts
// no more.
func TestStreamCountsWhatIsLost(t *testing.T) {
	lost := func(l *loading, failure error) {
		var b strings.Builder
		for i := range 30_000 {
			fmt.Fprintf(&b, "%d,2026-03-29 01:00:00,1,ok\n", i)
		}
		in := &tapped{Reader: strings.NewReader(b.String())}
		ctx, cancel := context.WithCancel(l.Context())
		defer cancel()
		o := l.options(&faulty{Keeper: l.db, begin: func(work context.Context, n int64) error {
			if n <= 2 {
				return nil
			}
			if failure != nil {
				return failure
			}
			cancel()
			<-work.Done()
			return work.Err()
		}})
		o.Rows, o.RetryFor, o.Writers = 1000, 0, 1
		o.Format = format.Format{Kind: format.CSV, NoHeader: true}
		r, err := ingest.Stream(ctx, o, in)
		if failure == nil && !errors.Is(err, context.Canceled) || !errors.Is(err, failure) && failure != nil {
			l.Errorf("it ended with %v", err)
		}
		if r.Sent != 2000 || r.Lost == 0 || r.Sent+r.Lost != in.lines.Load() {
			l.Errorf("%d lines were read, %d rows sent, and %d said to be lost", in.lines.Load(), r.Sent, r.Lost)
		}
	}
	t.Run("fails", func(t *testing.T) { onKeepers(t, func(l *loading) { lost(l, errors.New("the disk is full")) }) })
	t.Run("stands", func(t *testing.T) { onSQLite(t, func(l *loading) { lost(l, nil) }) })
}

// TestStoppedHint checks the hint after an interrupted load: a stream without a spool
// can't simply be loaded again.
func TestStoppedHint(t *testing.T) {
	t.Parallel()
	lost := ingest.Outcome{Result: lane.Result{Lost: 1234}}
	for _, test := range []struct {
		last                ingest.Outcome
		source, spool, want string
	}{
		{source: "day.csv", want: "the same command"},
		{source: "-", spool: "spool", want: "the same command"},
		{source: "-", want: "the rest of the stream"},
		{lost, "-", "spool", "once more from its start"},
	} {
		if got := stoppedHint(test.last, test.source, test.spool); !strings.Contains(got, test.want) {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if got := lost.Text(); !strings.Contains(got, "; 1,234 rows were read and not loaded") {
		t.Error(got)
	}
}

// TestTrapSpoolForgetsHowToRead checks that the rows in a spool are read with the
// options of the load that wrote them, whatever the options of the next load.
func TestTrapSpoolForgetsHowToRead(t *testing.T) {
	onKeepers(t, func(l *loading) {
		l.write("a.csv", loadHeader+"1,2026-03-29 03:00:00,1,ok\n")
		l.loads(exitDone, "", "a.csv")
		text := loadHeader + "1,2026-03-29 05:00:00,1,ok\n2,2026-03-29 06:00:00.75,1,ok\n"
		if l.server == "sqlite" { // SQLite keeps the digits
			text = strings.Replace(text, ".75", "", 1)
		}
		for i, zone := range []string{"Europe/Berlin", "+02:00"} {
			l.kill(1, text, "- --format csv --spool spool --truncate-times --on-duplicate error --time-zone "+zone)
			l.loads(anyCode, "", "--spool spool")
			if bad := l.bad("readings.bad.jsonl"); len(bad) != i+1+i { // the second time, both rows are already in the table
				l.Errorf("%s: bad rows: %+v", zone, bad)
			}
			if got := l.rows(); len(got) != 2 || !strings.HasPrefix(got[1], "2 2026-03-29 04:00:00") {
				l.Errorf("%s: %q", zone, got)
			}
		}
		// Objects with a key that is not a column are bad rows, unless --columns omits it.
		for _, columns := range []string{"", " --columns=sensor,ts"} {
			inserted := min(len(columns), 1)
			l.loadsFrom(`{"sensor":7,"ts":"2026-03-29 01:00:00","colour":1}`+"\n", exitFailed-inserted, fmt.Sprint("Inserted ", inserted), "- --format=jsonl --spool=spool"+columns)
		}
	})
}

// TestTrapSpoolBeginsBehindDatabase checks a spool whose first records are gone and of
// which the database has loaded nothing, or fewer records than are gone: part of the
// stream is missing.
func TestTrapSpoolBeginsBehindDatabase(t *testing.T) {
	onKeepers(t, func(l *loading) {
		// More than a spool of this size holds.
		l.loadsFrom(loadRows(0, 5000, false).wide().text, exitDone, "Inserted 5000", "- --format csv --spool spool --spool-size 1MiB --batch 1000")
		l.loads(exitDone, "Damaged []", "--spool spool")
		execSQL(l, l.db, "DELETE FROM rowmill_sources")
		l.loads(exitFailed, "; begun for another", "--spool spool")
		got := l.loads(exitFailed, "; 1 parts of the spool are damaged", "--spool spool --source mine")[0]
		if len(got.Damaged) != 1 || !strings.Contains(got.Damaged[0], "bytes missing at 0") {
			l.Errorf("forgotten: %v", got.Damaged)
		}
		l.loads(exitDone, "Damaged [], Sent 0", "--spool spool")
	})
}

// TestSmallSpool checks that a small spool accepts rows in smaller batches.
func TestSmallSpool(t *testing.T) {
	onSQLite(t, func(l *loading) {
		f := loadRows(0, 5000, false).wide()
		l.loadsFrom(f.text, exitDone, "Inserted 5000", "- --format csv --spool spool --spool-size 1MiB")
		l.hasRows(5000)
	})
}
