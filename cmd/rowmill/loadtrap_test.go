package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestTrapLoadKilledWithOtherBatchSizes kills a load at any point, repeatedly, and
// continues it with other batch sizes. A loader that counts rows to find its position
// fails when the batch size changes, and one that records its progress separately from
// the rows loses or repeats some of them at each crash. Here each row must be in the
// table once, each bad row in the file of bad rows, and the ledger must add up: if a
// batch were sent twice, its rows would be counted as duplicates.
func TestTrapLoadKilledWithOtherBatchSizes(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		rows := 900
		if testdb.Nightly() {
			rows = 3000
		}
		f := loadRows(0, rows, true)
		path := l.write("day.csv", f.text)
		sizes, writers := []string{"60", "37", "100", "17"}, []string{"2", "1", "3"}
		kills := 0
		for try := 0; ; try++ {
			if try > 2000 {
				l.Fatal("it doesn't come to an end")
			}
			if !l.killed(1+try%7, "", path, "--batch", sizes[try%len(sizes)], "--writers", writers[try%len(writers)]) {
				break
			}
			kills++
		}
		if kills < rows/300 {
			l.Errorf("it was killed %d times only", kills)
		}
		l.Logf("killed %d times", kills)
		l.check("in the end", "day.csv.bad.jsonl", f)
	})
}

// TestTrapFinishedFileAgain loads a finished file again, as a user does who isn't sure
// that it was loaded.
func TestTrapFinishedFileAgain(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 700, true)
		path := l.write("day.csv", f.text)
		if got, _ := l.load(exitFailed, path, "--batch", "100"); got[0].Sent != 700 || !got[0].Finished || got[0].Rejected != int64(len(f.bad)) {
			l.Errorf("the first load: %+v", got[0])
		}
		l.check("loaded", "day.csv.bad.jsonl", f)
		for _, batch := range []string{"100", "1", "5000"} {
			if got, _ := l.load(exitDone, path, "--batch", batch); got[0].Sent != 0 || got[0].Before != 700 || !got[0].Finished {
				l.Errorf("again, in batches of %s: %+v", batch, got[0])
			}
			l.check("again", "day.csv.bad.jsonl", f)
		}
		// The rows added since then are loaded, and nothing else.
		more := loadRows(1000, 50, false)
		_, added, _ := strings.Cut(more.text, "\n")
		l.write("day.csv", f.text+added)
		l.loads("with 50 more rows", exitDone, "Sent 50, Inserted 50, Before 700", path)
		l.check("with more", "day.csv.bad.jsonl", f, more)
		l.loads("with 50 more rows, again", exitDone, "Sent 0, Before 750", path)
		// A file that differs in the middle isn't taken for the same file.
		l.write("day.csv", strings.Replace(f.text+added, "\n600,", "\n601,", 1))
		if _, stderr := l.load(exitFailed, path); !strings.Contains(stderr, "has changed since it was loaded") || !strings.Contains(stderr, "Try: --source") {
			l.Errorf("changed: %s", stderr)
		}
		l.write("day.csv", f.text[:len(f.text)/2])
		if _, stderr := l.load(exitFailed, path); !strings.Contains(stderr, "shorter than it was") && !strings.Contains(stderr, "has changed") {
			l.Errorf("cut short: %s", stderr)
		}
		l.check("refused", "day.csv.bad.jsonl", f, more)
		// Another file under its name, as after log rotation, is loaded.
		next := loadRows(2000, 80, false)
		l.write("day.csv", next.text)
		l.loads("another file of that name", exitDone, "Sent 80, Inserted 80, Before 0", path)
	})
}

// TestTrapFileChangedInTheMiddle changes a file while its load is incomplete: the
// batches that were cut no longer match its contents.
func TestTrapFileChangedInTheMiddle(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 400, false)
		path := l.write("day.csv", f.text)
		// After 30 points, at least ten of the twenty batches are committed, because
		// each passes at most three points. All of them would pass at least forty.
		l.kill(30, "", path, "--batch", "20", "--writers", "1")
		if out := rowmill(l.Context(), "load", l.file, "--list"); out.code != exitDone || !strings.Contains(out.stdout, "batches to send") || !strings.Contains(out.stdout, path) {
			l.Errorf("list: exit %d\n%s%s", out.code, out.stdout, out.stderr)
		}
		l.write("day.csv", strings.Replace(f.text, "\n150,", "\n999,", 1))
		_, stderr := l.load(exitFailed, path, "--writers", "1")
		if !strings.Contains(stderr, "has changed since it was loaded") {
			l.Errorf("changed: %s", stderr)
		}
		l.write("day.csv", f.text)
		l.load(exitDone, path)
		l.check("in the end", "day.csv.bad.jsonl", f)
		if out := rowmill(l.Context(), "load", l.file, "--list"); !strings.Contains(out.stdout, "loaded  400   400       0              0         "+path) {
			l.Errorf("list: exit %d\n%s%s", out.code, out.stdout, out.stderr)
		}
	})
}

// TestTrapBadRowTakesItsBatchAlong checks that one bad row, which makes the whole
// INSERT fail, is the only row in the file of bad rows, with its line, the reason and
// the row. The others are loaded.
func TestTrapBadRowTakesItsBatchAlong(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 2000, false)
		lines := strings.SplitAfter(f.text, "\n")
		// Two of these are refused only by the server, and one of the two is the last
		// row of the batch.
		i := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, "777,") })
		lines[i] = strings.Replace(lines[i], ",ok", ",much too long", 1)
		last := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, "1998,") })
		lines[last] = strings.Replace(lines[last], ",ok", ",long, long ago", 1)
		lines[last] = strings.Replace(lines[last], "long, long ago", `"long, long ago"`, 1)
		// SQLite has a check of the note, other servers the range of an INT.
		lines[i], lines[last] = "99999999"+lines[i], "99999999"+lines[last]
		path := l.write("day.csv", strings.Join(lines, ""))
		got, stderr := l.load(exitFailed, path, "--batch", "1999")
		if g := got[0]; g.Sent != 2000 || g.Inserted != 1998 || g.Rejected != 2 || g.Duplicate != 0 || !g.Finished {
			l.Errorf("loaded: %+v", g)
		}
		if !strings.Contains(stderr, "2 of 2,000 rows") || !strings.Contains(stderr, "day.csv.bad.jsonl") {
			l.Errorf("it says: %s", stderr)
		}
		bad := l.bad("day.csv.bad.jsonl")
		if len(bad) != 2 || bad[0].Line != int64(i+1) || bad[1].Line != int64(last+1) {
			l.Fatalf("bad rows: %+v; want lines %d and %d", bad, i+1, last+1)
		}
		for n, b := range bad {
			if want := strings.TrimSuffix(lines[b.Line-1], "\n"); b.Row != want {
				l.Errorf("bad row %d is %q, want %q", n, b.Row, want)
			}
			if !strings.Contains(strings.ToLower(b.Reason), "note") && !strings.Contains(b.Reason, "too long") && !strings.Contains(b.Reason, "CHECK") &&
				!strings.Contains(strings.ToLower(b.Reason), "out of range") {
				l.Errorf("the reason of row %d tells nothing: %s", n, b.Reason)
			}
		}
		l.hasRows(1998)
	})
}

// TestTrapDuplicateTakesItsBatchAlong checks that one row whose key already exists
// doesn't make its whole batch fail.
func TestTrapDuplicateTakesItsBatchAlong(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		first := loadRows(0, 100, false)
		l.load(exitDone, l.write("a.csv", first.text))
		more := loadRows(100, 400, false)
		_, row, _ := strings.Cut(first.text, "\n")
		row, _, _ = strings.Cut(row, "\n") // of sensor 0
		path := l.write("b.csv", more.text+row+"\n")
		l.loads("passed over", exitDone, "Sent 401, Inserted 400, Duplicate 1, Rejected 0", path, "--batch", "1000")
		// If duplicates are to be reported, only they are rejected.
		last := loadRows(600, 300, false)
		path = l.write("c.csv", last.text+row+"\n")
		l.loads("rejected", exitFailed, "Sent 301, Inserted 300, Duplicate 0, Rejected 1", path, "--batch", "1000", "--duplicates", "reject")
		if bad := l.bad("c.csv.bad.jsonl"); len(bad) != 1 || bad[0].Row != row {
			l.Errorf("bad rows: %+v", bad)
		}
		l.hasRows(800)
	})
}

// TestTrapRowsOutsideGoToBadFile checks rows outside all partitions and invalid
// values: LOAD DATA and INSERT IGNORE silently drop the former and change the latter.
func TestTrapRowsOutsideGoToBadFile(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		var b strings.Builder
		b.WriteString("sensor,ts,value,note\n")
		for i := range 50 {
			fmt.Fprintf(&b, "%d,2026-03-29 01:00:00,1,ok\n", i)
		}
		b.WriteString("50,1999-12-31 23:59:59,1,old\n51,2026-03-28 23:59:59,1,old\n52,2026-03-29 00:00:00,1,first\n" +
			"53,2026-03-29 06:59:59,1,last\n54,2026-03-29 07:00:00,1,new\n55,2999-01-01 00:00:00,1,new\n" +
			"56,2026-03-29 01:00:00.25,1,fine\n57,2026-02-30 01:00:00,1,none\n58,2026-03-29 01:00:00,1e400,big\n59.5,2026-03-29 01:00:00,1,half\n" +
			"99999999999,2026-03-29 01:00:00,1,big\n61,2026-03-29 01:00:00,1,\xff\n62,2026-03-29 01:00:00,\n63,,1,no time\n")
		path := l.write("day.csv", b.String())
		rejected := int64(12)
		if l.server == "sqlite" {
			rejected -= 2 // its integers have 64 bits and its times six fractional digits, whatever the declared type
		}
		got, _ := l.load(exitFailed, path)
		if g := got[0]; g.Sent != 64 || g.Rejected != rejected || g.Sent != g.Inserted+g.Rejected {
			l.Errorf("loaded: %+v", g)
		}
		reasons := map[int64]string{}
		for _, b := range l.bad("day.csv.bad.jsonl") {
			reasons[b.Line] = b.Column + ": " + b.Reason
		}
		for line, want := range map[int64]string{52: "ts: 1999-12-31 23:59:59 lies outside every period: they run from 2026-03-29 00:00:00 to 2026-03-29 07:00:00",
			53: "outside every period", 56: "outside every period", 57: "outside every period", 59: "ts: ", 60: "value: ", 61: "sensor: ", 63: "note: ", 64: "fields", 65: "ts: it is empty"} {
			if !strings.Contains(reasons[line], want) {
				l.Errorf("line %d: %q, want %q", line, reasons[line], want)
			}
		}
		if want := `ts: "2026-03-29 01:00:00.25": it has more than the 0 digits`; l.server != "sqlite" && !strings.HasPrefix(reasons[58], want) {
			l.Errorf("line 58: %q, want %q", reasons[58], want)
		}
		if n := len(l.rows()); n != 64-int(rejected) {
			l.Errorf("%d rows, want %d", n, 64-int(rejected))
		}
	})
}
