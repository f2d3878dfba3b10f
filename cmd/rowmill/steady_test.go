package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// steadily executes a short run, checks its report and its record, and returns the record.
func steadily(t *testing.T, most time.Duration) result.Record {
	t.Helper()
	t.Chdir(t.TempDir())
	s := benched(t, "steady --target sqlite:?durability=none --interval 200ms --rate 1000 --p99 1s --out run.jsonl --html run.html --png run.png --md run.md --for "+most.String())
	rec := records(t, "run.jsonl")[0]
	if g := rec.Run.Steady; rec.Run.Workload != "steady" || g == nil || g.P99LimitUS != 1e6 || g.Host == "" {
		t.Errorf("header %+v, %+v", rec.Run, g)
	}
	if rec.End == nil || rec.End.Stopped != "max-time" || rec.End.Verified == nil || !rec.End.Verified.Checksum {
		t.Fatalf("end %+v", rec.End)
	}
	if rec.End.Summary.Steadiness == nil || rec.End.Summary.Steadiness.Seconds < most.Seconds()-1 {
		t.Errorf("steadiness %+v", rec.End.Summary.Steadiness)
	}
	contains(t, s.stdout, "1,000 rows/s", "By hour of the day")
	if n := strings.Count(s.stderr, "\n"); n > 9 {
		t.Errorf("%d lines of progress for a few seconds:\n%s", n, s.stderr)
	}
	return rec
}

// TestSteady checks that the record of a short run has the machine's figures.
func TestSteady(t *testing.T) {
	if apart(t) {
		return
	}
	rec := steadily(t, 2*time.Second)
	if runtime.GOOS != "linux" {
		return
	}
	work, idle := 0.0, false
	for _, iv := range rec.Intervals {
		work += iv.Counters["work_seconds"]
		_, has := iv.Counters["os_cpu_idle"]
		idle = idle || has
	}
	if work == 0 || !idle {
		t.Errorf("the fixed work took %v s; idle processors: %v", work, idle)
	}
}

// TestSteadyBesideHog checks that the machine's figures show processes that use all processors.
func TestSteadyBesideHog(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.SkipUnlessNightly(t, "TestSteady")
	if runtime.GOOS != "linux" {
		t.Skip("the figures are those of Linux")
	}
	mean := func(rec result.Record, name string) (sum float64) {
		for _, iv := range rec.Intervals {
			sum += iv.Counters[name] / float64(len(rec.Intervals))
		}
		return sum
	}
	before := steadily(t, 2*time.Second)
	for range 2 * runtime.NumCPU() {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		must(t, hog.Start())
		defer hog.Wait() // killed
		defer hog.Process.Kill()
	}
	beside := steadily(t, 2*time.Second)
	// On a machine that was already busy, the figures can't rise much.
	if mean(beside, "pressure_cpu_some") <= mean(before, "pressure_cpu_some") && mean(beside, "os_cpu_idle") > 0.3 {
		t.Errorf("the hogs are not in the figures: before them %+v, beside them %+v", before.Intervals[1].Counters, beside.Intervals[1].Counters)
	}
}

// TestSteadyInterrupted checks that Ctrl-C ends a run with its report, and that the
// record can be read before that.
func TestSteadyInterrupted(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	var early session
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // once some intervals are recorded
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			if names, _ := filepath.Glob("steady-*.jsonl"); len(names) > 0 && lineCount(names[0]) > 3 {
				early = rowmill(t.Context(), "report", names[0])
				cancel()
			}
		}
	}()
	s := rowmill(ctx, strings.Fields("bench steady --target sqlite:?durability=none --interval 100ms --rate 10k")...)
	wantFailure(t, s, exitInterrupted, "recording to steady-")
	mustPass(t, early)
	contains(t, early.stdout, "10,000 rows/s")
	contains(t, s.stdout, "interrupted")
	names, err := filepath.Glob("steady-*.jsonl")
	must(t, err)
	rec := records(t, names[0])[0]
	if rec.End == nil || rec.End.Stopped != "interrupted" || rec.Run.MaxTimeSeconds != 86400 || rec.Run.KeepPeriods != 3 || rec.Run.Layout != "rolling" {
		t.Errorf("end %+v of %+v", rec.End, rec.Run)
	}
	nothingLeft(t)
}

// TestSteadyKeepsSize checks that the table keeps only its newest periods, and that
// dropped rows are accounted for.
func TestSteadyKeepsSize(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	rec := benchedOnce(t, "steady --target sqlite:?durability=none --for 3s --interval 500ms --rate 2k --period-rows 500 --keep-periods 2 --no-work")
	if v := rec.End.Verified; v == nil || !v.Checksum || v.Found > 2000 || rec.End.DroppedRows == 0 {
		t.Errorf("%+v, %d dropped", v, rec.End.DroppedRows)
	}
	if _, ok := rec.Intervals[1].Counters["work_seconds"]; ok {
		t.Error("the fixed work was done")
	}
}
