package main

import (
	"strings"
	"testing"
)

// TestLoadColumnsWithoutHeader gives --columns for a file that has no header.
func TestLoadColumnsWithoutHeader(t *testing.T) {
	l := newLoading(t, "sqlite")
	path := l.write("day.csv", "1,2026-03-29 01:00:00,1,a\n2,2026-03-29 01:00:00,2,b\n")
	const columns = "--columns=sensor,ts,value,note"
	if _, said := l.load(exitFailed, path, columns); !strings.Contains(said, "is a row of values") || !strings.Contains(said, "--header=false") {
		t.Errorf("it says %q", said)
	}
	if n := len(l.rows()); n != 0 {
		t.Errorf("%d rows are loaded", n)
	}
	if got, _ := l.load(0, path, columns, "--header"); got[0].Inserted != 1 {
		t.Errorf("with --header: %+v", got[0])
	}
	if got, _ := l.load(0, path, columns, "--header=false", "--source=again"); got[0].Inserted != 1 || got[0].Duplicate != 1 {
		t.Errorf("without one: %+v", got[0])
	}
}
