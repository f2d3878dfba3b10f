package main

import "testing"

// TestLoadDryRunAgain checks that a dry run has a separate file of bad rows, which
// holds only those of the last dry run, and that it doesn't change the file of a load.
func TestLoadDryRunAgain(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	path := l.write("day.csv", "sensor,ts,value,note\nx,2026-03-29 01:00:00,1,ok\n1,2026-03-29 01:00:00,1,ok\n")
	for range 2 {
		l.load(exitFailed, path, "--dry-run")
	}
	if got := l.bad("day.csv.dry.jsonl"); len(got) != 1 || len(l.bad("day.csv.bad.jsonl")) != 0 {
		t.Errorf("dry runs: %+v", got)
	}
	l.load(exitFailed, path)
	for range 2 {
		l.load(exitFailed, path, "--dry-run", "--bad", "day.csv.bad.jsonl")
	}
	if got := l.bad("day.csv.bad.jsonl"); len(got) != 2 {
		t.Errorf("the load's and the dry run's: %+v", got)
	}
	l.load(exitDone, l.write("day.csv", "sensor,ts,value,note\n"), "--dry-run")
	if got := l.bad("day.csv.dry.jsonl"); len(got) != 0 {
		t.Errorf("of a file that is mended: %+v", got)
	}
}
