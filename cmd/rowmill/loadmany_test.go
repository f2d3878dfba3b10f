package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/state"
)

// manyFiles writes files of ten rows each into a directory; the rows of file n have
// sensor n.
func (l *loading) manyFiles(dir string, n int) {
	l.Helper()
	must(l, os.MkdirAll(filepath.Join(l.dir, dir), 0o755))
	for i := range n {
		var b strings.Builder
		b.WriteString("sensor,ts,value,note\n")
		for row := range 10 {
			fmt.Fprintf(&b, "%d,2026-03-29 0%d:%02d:00,1.5,n\n", i, row%7, row)
		}
		l.write(filepath.Join(dir, fmt.Sprintf("f%03d.csv", i)), b.String())
	}
}

// summary runs rowmill load with --json and returns the summary.
func (l *loading) summary(code int, args string) (out struct {
	Sources []ingest.Outcome
	Summary ingest.Summary
}) {
	l.Helper()
	s := l.exec(0, "", args+" --json")
	if s.code != code {
		l.Fatalf("load %s: exit %d, want %d\n%s%s", args, s.code, code, s.stdout, s.stderr)
	}
	must(l, json.Unmarshal([]byte(s.stdout), &out))
	return out
}

// TestLoadMany loads a directory, with bad files among good ones: those that fail don't
// end the others, and the numbers add up.
func TestLoadMany(t *testing.T) {
	onKeepers(t, func(l *loading) {
		l.manyFiles("in/a", 30)
		header := "sensor,ts,value,note\n"
		l.write("in/a/bad.csv", header+"x1,2026-03-29 01:00:00,1,a\n500,2026-03-29 01:00:00,1,a\nx2,2026-03-29 01:00:00,1,a\n501,2027-03-29 01:00:00,1,a\n")
		must(l, os.MkdirAll(filepath.Join(l.dir, "in/b"), 0o755))
		l.write("in/b/bad.csv", header+"y1,2026-03-29 01:00:00,1,a\n")
		l.write("in/b/copy.csv", header+"500,2026-03-29 01:00:00,1,other\n")
		l.write("in/b/header.csv", "no,such,columns\n1,2,3\n")
		l.write("in/b/many.csv", header+strings.Repeat("z,2026-03-29 01:00:00,1,a\n", 7))
		l.write("in/b/same.csv", header)
		l.write("in/b/same2.csv", header)
		got := l.summary(exitFailed, "in in/a/f000.csv in/a/*.csv --max-bad 5 --files 5")
		sum := got.Summary
		if sum.Files != 37 || sum.Loaded != 33 || sum.Same != 2 || sum.Failed != 2 || sum.Stopped != 7 || sum.Mismatch != "" || len(got.Sources) != 37 {
			l.Errorf("summary %+v", sum)
		}
		if sum.Counts != (state.Counts{Sent: 306, Inserted: 301, Duplicate: 1, Different: 1, Rejected: 4}) {
			l.Errorf("counts %+v", sum.Counts)
		}
		l.hasRows(301)
		if len(sum.Reasons) != 2 || sum.Reasons[0].Rows != 10 || sum.Reasons[0].Column != "sensor" || sum.Reasons[1].Rows != 1 {
			l.Errorf("reasons %+v", sum.Reasons)
		}
		// Files of bad rows have those of all sources of a name, and the rows at which a load ended.
		for name, lines := range map[string]int{"bad.csv.bad.jsonl": 4, "many.csv.bad.jsonl": 7} {
			text, err := os.ReadFile(filepath.Join(l.dir, name))
			if must(l, err); strings.Count(string(text), "\n") != lines {
				l.Errorf("%s: %s\nwant %d rows", name, text, lines)
			}
		}
		again := l.summary(exitFailed, "in --max-bad 5 --bad all.jsonl").Summary
		if again.Loaded != 1 || again.Sent != 1 || again.Same != 34 || again.Failed != 2 { // b/bad.csv has only bad rows
			l.Errorf("again: %+v", again)
		}
		l.prints(exitFailed, "in --max-bad 5", "total: 37 files in ", "2 failed", " = 0 inserted", "bad rows by reason:", "7 of these ended their load", "--max-bad with a higher number")
	})
}

// TestLoadReasons: rows that are skipped are listed, and not among the reasons of bad rows.
func TestLoadReasons(t *testing.T) {
	onSQLite(t, func(l *loading) {
		const header = "sensor,ts,value,note\n"
		l.write("a.csv", header+"500,2026-03-29 01:00:00,1,a\n")
		l.write("b.csv", header+"500,2026-03-29 01:00:00,1,other\n"+strings.Repeat("x,2026-03-29 01:00:00,1,a\n", 3))
		sum := l.summary(exitFailed, "a.csv b.csv --bad all.jsonl").Summary
		if sum.Rejected != 3 || sum.Different != 1 || len(sum.Reasons) != 1 || sum.Reasons[0].Rows != 3 {
			l.Errorf("%+v", sum)
		}
		// A file alone has the reasons in its outcome, of several only the summary has them.
		l.write("c.csv", header+strings.Repeat("x,2026-03-29 01:00:00,1,a\n", 3)+"501,yesterday,1,a\n")
		l.prints(exitFailed, "c.csv --dry-run --bad dry", "0 of them could be sent, 4 could not; see dry\nbad rows by reason:\n           3  column sensor: it is not an integer, as in ", "           1  column ts: ")
		l.prints(exitFailed, "c.csv --bad one", "0 already present, 4 rejected; see one\nbad rows by reason:\n           3  column sensor: it is not an integer, as in ", "           1  column ts: ")
		if s := l.exec(0, "", "a.csv c.csv --bad two"); strings.Count(s.stdout, "bad rows by reason:") != 1 {
			l.Errorf("%s", s.stdout)
		}
	})
}

// TestLoadManyKilled kills a load of several files at several points: the same command
// loads the rest, each row once although no key tells.
func TestLoadManyKilled(t *testing.T) {
	onNumbered(t, func(l *loading) {
		l.manyFiles("in", 12)
		for _, n := range []int{3, 9, 17} {
			l.kill(n, "", "in --batch 4 --files 3")
		}
		sum := l.summary(exitDone, "in --batch 4 --files 3").Summary
		if sum.Mismatch != "" || sum.Before+sum.Sent != 120 {
			l.Errorf("summary %+v", sum)
		}
		l.hasRows(120)
	})
}

// TestLoadParquet loads Parquet files, killed in between, into a table whose key doesn't
// tell which rows are there.
func TestLoadParquet(t *testing.T) {
	onNumbered(t, func(l *loading) {
		type row struct {
			Sensor int64    `parquet:"sensor"`
			TS     int64    `parquet:"ts,timestamp(microsecond)"`
			Value  *float32 `parquet:"value"`
			Note   string   `parquet:"note"`
			Tags   []string `parquet:"tags"`
		}
		value := float32(0.1)
		write := func(name string, rows []row) {
			var b bytes.Buffer
			w := parquet.NewGenericWriter[row](&b, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(40))
			for i := range rows {
				_, err := w.Write(rows[i : i+1]) // or row groups would exceed the limit
				must(l, err)
			}
			must(l, w.Close())
			l.write(name, b.String())
		}
		var rows []row
		for i := range 100 {
			r := row{Sensor: int64(i), TS: loadStart.Add(time.Duration(i) * time.Minute).UnixMicro(), Note: "t\t\\N", Tags: []string{"a", "b"}}
			if i%2 == 0 {
				r.Value = &value
			}
			rows = append(rows, r)
		}
		rows[41].Note, rows[42].TS = "longer than sixteen characters", time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		write("day.parquet", rows)
		l.prints(exitFailed, "day.parquet", "column tags isn't one of table readings", "Try: --columns sensor,ts,value,note")
		const args = "day.parquet --columns sensor,ts,value,note --batch 10"
		for _, n := range []int{4, 11} {
			l.kill(n, "", args)
		}
		l.loads(exitFailed, "Finished true, Sent 100, Rejected 2", args)
		l.hasRows(98)
		text, err := os.ReadFile(filepath.Join(l.dir, "day.parquet.bad.jsonl"))
		if must(l, err); !strings.Contains(string(text), `"line":42,`) || !strings.Contains(string(text), `"line":43,`) {
			l.Errorf("bad rows by number: %s", text)
		}
		if got := l.query("SELECT COUNT(*) FROM readings WHERE value > 0.09 AND value < 0.11"); got[0] != "49" { // row 42 is bad
			l.Errorf("%s values", got)
		}
		if got := l.rows()[3]; !strings.HasSuffix(got, "\t\\N") {
			l.Errorf("row %q", got)
		}
		l.loads(exitDone, "Sent 0, Finished true", args)
		write("day.parquet", append(rows, row{Sensor: 500, TS: rows[0].TS, Note: "more"}))
		l.loads(exitDone, "Sent 1, Finished true", args)
		write("none.parquet", nil)
		l.loads(exitDone, "Sent 0, Finished true; none.parquet is empty", "none.parquet --columns sensor,ts")
		s := l.exec(0, "PAR1", "- --format parquet")
		if s.code == exitDone || !strings.Contains(s.stderr, "a stream can't be Parquet") {
			l.Errorf("exit %d: %s", s.code, s.stderr)
		}
		l.hasRows(99)
	})
}

// TestLoadManyInterrupted interrupts a load of many files: the summary says what is
// loaded and what isn't, and the same command loads the rest.
func TestLoadManyInterrupted(t *testing.T) {
	onNumbered(t, func(l *loading) {
		l.manyFiles("in", 100)
		ctx, interrupt := context.WithCancel(l.Context())
		defer interrupt()
		ends := make(chan session, 1)
		go func() { ends <- rowmill(ctx, "load", l.file, filepath.Join(l.dir, "in"), "--json", "--files", "1") }() // slowly
		l.waits("the first rows", func() bool { return len(l.rows()) > 50 })
		interrupt()
		s := <-ends
		var out struct{ Summary ingest.Summary }
		must(l, json.Unmarshal([]byte(s.stdout), &out))
		first := out.Summary
		if s.code != exitInterrupted || first.NotBegun == 0 || first.Mismatch != "" || first.Loaded == 0 {
			l.Errorf("exit %d, %+v\n%s", s.code, first, s.stderr)
		}
		if !strings.Contains(s.stderr, "not begun: ") || !strings.Contains(s.stderr, "the same command, which continues") {
			l.Errorf("%s", s.stderr)
		}
		l.hasRows(int(first.Inserted))
		second := l.summary(exitDone, "in").Summary
		if second.Inserted-second.Continued+first.Inserted != 1000 || second.Before+second.Continued != first.Sent {
			l.Errorf("%+v after %+v", second, first)
		}
		l.hasRows(1000)
	})
}
