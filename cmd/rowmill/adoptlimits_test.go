package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAdoptionWaits holds up an adoption in each way: a query and a file that stop the copy, and a
// file that postpones the cut-over, meanwhile with rows that are inserted, which the rolling table
// has in the end.
func TestAdoptionWaits(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		file, db := plainTable(t, kind, 100)
		dir := t.TempDir()
		stop, later := filepath.Join(dir, "stop"), filepath.Join(dir, "later")
		writeFile(t, stop, "")
		writeFile(t, later, "")
		execSQL(t, db, "CREATE TABLE busy (n INT)")
		execSQL(t, db, "INSERT INTO busy VALUES (7)")
		said, inserted, all := []string{}, 0, ""
		once := func(what string) bool {
			for _, s := range said {
				if s == what {
					return false
				}
			}
			said = append(said, what)
			return true
		}
		code := run(t.Context(), []string{"apply", file, "--yes", "--allow-duplicates", "--nice", "0.1", "--throttle-file", stop, "--throttle-query", "SELECT n FROM busy", "--postpone-cut-over", later}, strings.NewReader(""), &bytes.Buffer{}, told(func(line string) {
			all += line + "\n"
			switch {
			case strings.Contains(line, "waits: file "+stop) && once("file"):
				must(t, os.Remove(stop))
			case strings.Contains(line, `waits: --throttle-query returns "7"`) && once("query"):
				execSQL(t, db, "DELETE FROM busy")
			case strings.Contains(line, "swap") && strings.Contains(line, "waits: file "+later) && once("later"):
				if s := rowmill(t.Context(), "status", file, "--json"); !strings.Contains(s.stdout, `"swap"`) || !strings.Contains(s.stdout, later+" exists") {
					t.Errorf("%s%s", s.stdout, s.stderr)
				}
				for inserted < 10 {
					inserted++
					execSQL(t, db, fmt.Sprintf("INSERT INTO readings VALUES (%d, '%s', 2)", 1000+inserted, time.Now().UTC().Format(time.DateTime)))
				}
				must(t, os.Remove(later))
			}
		}))
		if code != exitDone || len(said) != 3 {
			t.Fatalf("exit %d after %v:\n%s", code, said, all)
		}
		if n := count(t, db, "readings"); n != 110 {
			t.Errorf("%d rows", n)
		}
		partitioned(t, db, "readings", true)
	})
}

// TestCutOverWindow checks which times of a day a window has.
func TestCutOverWindow(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		c, err := time.Parse("15:04", clock)
		must(t, err)
		return c
	}
	for _, test := range []struct {
		window, clock string
		in            bool
	}{{"02:00-04:00", "02:00", true}, {"02:00-04:00", "03:59", true}, {"02:00-04:00", "04:00", false}, {"02:00-04:00", "01:59", false}, {"23:30-00:30", "23:45", true}, {"23:30-00:30", "00:10", true}, {"23:30-00:30", "12:00", false}, {"", "12:00", true}} {
		f := applyFlags{window: test.window}
		if why, err := f.inWindow(at(test.clock)); err != nil || (why == "") != test.in {
			t.Errorf("%s at %s: %q, %v", test.window, test.clock, why, err)
		}
	}
	for _, bad := range []string{"2", "02:00", "02:00-02:00", "25:00-26:00", "a-b"} {
		f := applyFlags{window: bad}
		if _, err := f.inWindow(at("00:00")); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
