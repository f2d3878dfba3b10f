package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/ingest"
)

// TestLoadEmptyFile checks that an empty file is loaded, and that a file that has
// become empty counts as changed.
func TestLoadEmptyFile(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	if got, _ := l.load(exitDone, l.write("empty.csv", "")); !got[0].Finished || got[0].Sent != 0 {
		t.Errorf("an empty file: %+v", got[0])
	}
	f := loadRows(0, 10, false)
	l.load(exitDone, l.write("day.csv", f.text))
	if _, stderr := l.load(exitFailed, l.write("day.csv", "")); !strings.Contains(stderr, "shorter than it was") {
		t.Errorf("a file that has become empty: %s", stderr)
	}
	l.check("in the end", "day.csv.bad.jsonl", f)
}

// TestLoadHeadGrows checks that a file first loaded with only its header is later
// identified by its rows.
func TestLoadHeadGrows(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	a, b := loadRows(0, 300, false), loadRows(1000, 200, false)
	path := l.write("day.csv", "sensor,ts,value,note\n")
	l.load(exitDone, path)
	l.load(exitDone, l.write("day.csv", a.text))
	if got := fmt.Sprint(l.strings("SELECT head FROM rowmill_sources", 1)); got != "[4096]" {
		t.Errorf("the head has %s bytes, want 4096", got)
	}
	if got, _ := l.load(exitDone, l.write("day.csv", b.text)); got[0].Sent != 200 {
		t.Errorf("another file of that name: %+v", got[0])
	}
	l.check("in the end", "day.csv.bad.jsonl", a, b)
}

// TestLoadMaxBadOfAllTries checks that --max-bad applies to the file, not to each
// attempt.
func TestLoadMaxBadOfAllTries(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	text := "sensor,ts,value,note\n" + strings.Repeat("x,2026-03-29 01:00:00,1,ok\n", 10)
	path := l.write("day.csv", text)
	for range 3 {
		l.load(exitFailed, path, "--batch", "1", "--writers", "1", "--max-bad", "4")
	}
	if got := l.ledger(); got != "4 0 0 4" {
		t.Errorf("the ledger has %s", got)
	}
}

// TestLoadFileTruncatedMeanwhile checks a log that is copied and truncated while it is
// read: the incomplete row at its end is not loaded.
func TestLoadFileTruncatedMeanwhile(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	f := loadRows(0, 10_000, false).wide()
	path := l.write("day.csv", f.text)
	o := l.options(l.db)
	o.Rows = 20
	done := false
	o.Reached = func(string) {
		if !done {
			done = true
			if err := os.Truncate(path, int64(len(f.text)*3/4+5)); err != nil {
				t.Error(err)
			}
		}
	}
	r, err := ingest.File(t.Context(), o, path)
	if err == nil || !strings.Contains(err.Error(), "cut off while it was read") || r.Finished {
		t.Errorf("%+v, %v", r, err)
	}
	if len(l.bad("bad.jsonl")) > 0 {
		t.Errorf("bad rows: %+v", l.bad("bad.jsonl"))
	}
	got := l.rows()
	if len(got) == 0 || len(got) >= len(f.want) || got[len(got)-1] != f.want[len(got)-1] {
		t.Errorf("%d rows", len(got))
	}
}
