package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// settle sets the modification time of a file so far back that the load doesn't wait
// for the rest of its last line.
func (l *loading) settle(path string) {
	l.Helper()
	old := time.Now().Add(-time.Minute)
	must(l, os.Chtimes(path, old, old))
}

// TestTrapHalfWrittenLine checks a file whose last line is incomplete. While the file
// is being written to, half a row isn't loaded. If it was loaded because the file had
// not been written to for a while, the rest of the line is a bad row, and the
// following rows are loaded.
func TestTrapHalfWrittenLine(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		path := l.write("day.csv", "sensor,ts,value,note\n1,2026-03-29 01:00:00,1,ok\n2,2026-03-29 01:00:00,12")
		// The writer continues in time.
		go func() {
			time.Sleep(500 * time.Millisecond)
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := f.WriteString("34,ok\n"); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}()
		if got, _ := l.load(exitDone, path); got[0].Inserted != 2 || got[0].Sent != 2 || !got[0].Finished {
			l.Errorf("completed meanwhile: %+v", got[0])
		}
		if got := l.strings("SELECT value FROM readings WHERE sensor = 2", 1); got[0] != "1234" {
			l.Errorf("its value is %s, want 1234", got[0])
		}
		// The file has not been written to for a while, so that its last line counts
		// as complete.
		path = l.write("end.csv", "sensor,ts,value,note\n3,2026-03-29 01:00:00,1,ok\n4,2026-03-29 01:00:00,12,o")
		l.settle(path)
		if got, _ := l.load(exitDone, path); got[0].Inserted != 2 || !got[0].Finished {
			l.Errorf("without an end: %+v", got[0])
		}
		// A line break added to it is not a change.
		l.write("end.csv", "sensor,ts,value,note\n3,2026-03-29 01:00:00,1,ok\n4,2026-03-29 01:00:00,12,o\r\n5,2026-03-29 01:00:00,1,x")
		l.settle(path)
		if got, _ := l.load(exitDone, path); got[0].Inserted != 1 || got[0].Rejected != 0 {
			l.Errorf("with a line break: %+v", got[0])
		}
		// More text in the line is a change.
		l.write("end.csv", "sensor,ts,value,note\n3,2026-03-29 01:00:00,1,ok\n4,2026-03-29 01:00:00,12,o\r\n5,2026-03-29 01:00:00,1,xyz\n6,2026-03-29 01:00:00,1,ok\n")
		if got, _ := l.load(exitFailed, path); got[0].Inserted != 1 || got[0].Rejected != 1 || !got[0].Finished {
			l.Errorf("with more of its last line: %+v", got[0])
		}
		if bad := l.bad("end.csv.bad.jsonl"); len(bad) != 1 || bad[0].Row != "yz" || bad[0].Line != 4 || !strings.Contains(bad[0].Reason, "rest of a line that was incomplete") {
			l.Errorf("bad rows: %+v", bad)
		}
		if got, _ := l.load(exitDone, path); got[0].Sent != 0 {
			l.Errorf("again: %+v", got[0])
		}
		if n := len(l.rows()); n != 6 {
			l.Errorf("%d rows, want 6", n)
		}
		// A killed load has recorded such a line as the end of a batch.
		path = l.write("killed.csv", "sensor,ts,value,note\n7,2026-03-29 01:00:00,1,ok\n8,2026-03-29 01:00:00,12,o")
		l.settle(path)
		if !l.killed(1, "", path) {
			l.Fatal("it wasn't killed")
		}
		l.write("killed.csv", "sensor,ts,value,note\n7,2026-03-29 01:00:00,1,ok\n8,2026-03-29 01:00:00,12,ok\n9,2026-03-29 01:00:00,1,ok\n")
		if got, _ := l.load(exitFailed, path); got[0].Inserted != 3 || got[0].Rejected != 1 || !got[0].Finished {
			l.Errorf("killed, with more of its last line: %+v", got[0])
		}
		if bad := l.bad("killed.csv.bad.jsonl"); len(bad) != 1 || bad[0].Row != "k" || bad[0].Line != 3 {
			l.Errorf("bad rows: %+v", bad)
		}
	})
}

// TestLoadNothingOfAFile checks that a file of which no row could be loaded doesn't
// count as loaded: the corrected command loads it.
func TestLoadNothingOfAFile(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		path := l.write("day.csv", "2026-03-29 01:00:00,1,1\n2026-03-29 01:00:01,2,1\n2026-03-29 01:00:02,3,1\n")
		wrong := []string{path, "--header=false", "--columns", "value,ts,sensor", "--batch", "2"}
		if got, _ := l.load(exitFailed, wrong...); got[0].Rejected != 3 || got[0].Inserted != 0 {
			l.Errorf("wrong columns: %+v", got[0])
		}
		if got, _ := l.load(exitFailed, wrong...); got[0].Rejected != 3 {
			l.Errorf("wrong columns again: %+v", got[0])
		}
		if n := len(l.bad("day.csv.bad.jsonl")); n != 3 {
			l.Errorf("%d bad rows, want 3", n)
		}
		if got, _ := l.load(exitDone, path, "--header=false", "--columns", "ts,sensor,value"); got[0].Inserted != 3 || got[0].Rejected != 0 {
			l.Errorf("right columns: %+v", got[0])
		}
		if n := len(l.bad("day.csv.bad.jsonl")); n != 0 {
			l.Errorf("%d bad rows are left", n)
		}
	})
}

// TestLoadSpoolOfAnotherDatabase checks that a spool isn't loaded into another
// database that has a table of the same name.
func TestLoadSpoolOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	l, other := newLoading(t, "sqlite"), newLoading(t, "sqlite")
	spool := filepath.Join(l.dir, "spool")
	c := l.command(0, "-", "--format", "csv", "--spool", spool)
	c.Stdin = strings.NewReader(loadRows(0, 50, false).text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, stderr := other.load(exitFailed, "--spool", spool); !strings.Contains(stderr, "begun for another") || len(other.rows()) != 0 {
		t.Errorf("another database: %d rows\n%s", len(other.rows()), stderr)
	}
	if got, _ := other.load(exitDone, "--spool", spool, "--source", "moved"); got[0].Inserted != 50 {
		t.Errorf("another database, as it is meant: %+v", got[0])
	}
	if got, _ := l.load(exitDone, "--spool", spool); got[0].Sent != 0 {
		t.Errorf("the first database: %+v", got[0])
	}
}
