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
		l.loads("completed meanwhile", exitDone, "Inserted 2, Sent 2, Finished true", path)
		if got := l.strings("SELECT value FROM readings WHERE sensor = 2", 1); got[0] != "1234" {
			l.Errorf("its value is %s, want 1234", got[0])
		}
		// The file has not been written to for a while, so that its last line counts
		// as complete.
		path = l.write("end.csv", "sensor,ts,value,note\n3,2026-03-29 01:00:00,1,ok\n4,2026-03-29 01:00:00,12,o")
		l.settle(path)
		l.loads("without an end", exitDone, "Inserted 2, Finished true", path)
		// A line break added to it is not a change.
		l.write("end.csv", "sensor,ts,value,note\n3,2026-03-29 01:00:00,1,ok\n4,2026-03-29 01:00:00,12,o\r\n5,2026-03-29 01:00:00,1,x")
		l.settle(path)
		l.loads("with a line break", exitDone, "Inserted 1, Rejected 0", path)
		// More text in the line is a change.
		l.write("end.csv", "sensor,ts,value,note\n3,2026-03-29 01:00:00,1,ok\n4,2026-03-29 01:00:00,12,o\r\n5,2026-03-29 01:00:00,1,xyz\n6,2026-03-29 01:00:00,1,ok\n")
		l.loads("with more of its last line", exitFailed, "Inserted 1, Rejected 1, Finished true", path)
		if bad := l.bad("end.csv.bad.jsonl"); len(bad) != 1 || bad[0].Row != "yz" || bad[0].Line != 4 || !strings.Contains(bad[0].Reason, "rest of a line that was incomplete") {
			l.Errorf("bad rows: %+v", bad)
		}
		l.loads("again", exitDone, "Sent 0", path)
		l.hasRows(6)
		// A killed load has recorded such a line as the end of a batch.
		path = l.write("killed.csv", "sensor,ts,value,note\n7,2026-03-29 01:00:00,1,ok\n8,2026-03-29 01:00:00,12,o")
		l.settle(path)
		l.kill(1, "", path)
		l.write("killed.csv", "sensor,ts,value,note\n7,2026-03-29 01:00:00,1,ok\n8,2026-03-29 01:00:00,12,ok\n9,2026-03-29 01:00:00,1,ok\n")
		l.loads("killed, with more of its last line", exitFailed, "Inserted 3, Rejected 1, Finished true", path)
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
		l.loads("wrong columns", exitFailed, "Rejected 3, Inserted 0", wrong...)
		l.loads("wrong columns again", exitFailed, "Rejected 3", wrong...)
		if n := len(l.bad("day.csv.bad.jsonl")); n != 3 {
			l.Errorf("%d bad rows, want 3", n)
		}
		l.loads("right columns", exitDone, "Inserted 3, Rejected 0", path, "--header=false", "--columns", "ts,sensor,value")
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
	l.loads("the first database", exitDone, "Sent 0", "--spool", spool)
}
