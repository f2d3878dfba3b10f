package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestLoadBeyondWhatIsAhead loads a file larger than the limit on cutting batches
// ahead.
func TestLoadBeyondWhatIsAhead(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	var b strings.Builder
	long := strings.Repeat("9", 8000)
	for i := range 6000 {
		fmt.Fprintf(&b, "%d,2026-03-29 01:00:00,1.%s,ok\n", i, long)
	}
	path := l.write("day.csv", b.String())
	if got, _ := l.load(exitDone, path, "--header=false"); got[0].Inserted != 6000 {
		l.Errorf("loaded: %+v", got[0])
	}
}
