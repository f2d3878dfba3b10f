package main

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/result"
)

// steadily executes a short run, checks its report and its record, and returns the
// record.
func steadily(t *testing.T, most time.Duration) result.Record {
	t.Helper()
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), "bench", "steady", "--target", "sqlite:?durability=none", "--for", most.String(), "--interval", "200ms",
		"--rate", "1000", "--p99", "1s", "--out", "run.jsonl", "--html", "run.html", "--png", "run.png", "--md", "run.md")
	mustPass(t, s)
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
	for _, want := range []string{"1,000 rows/s", "By hour of the day"} {
		if !strings.Contains(s.stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, s.stdout)
		}
	}
	if n := strings.Count(s.stderr, "\n"); n > 6 {
		t.Errorf("%d lines of progress for a few seconds:\n%s", n, s.stderr)
	}
	return rec
}

// TestSteady checks that the record of a short run has the machine's figures.
func TestSteady(t *testing.T) {
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

// TestSteadyInterrupted checks that Ctrl-C ends a run with its report, and that the
// record can be read before that.
func TestSteadyInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	path := make(chan string, 1)
	stderr := &watched{find: regexp.MustCompile(`recording to (\S+);`), found: func(m []string) {
		select {
		case path <- m[1]:
		default: // each further line matches again
		}
	}}
	var stdout bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"bench", "steady", "--target", "sqlite:?durability=none", "--interval", "100ms", "--rate", "10k"}, strings.NewReader(""), &stdout, stderr)
	}()
	name := <-path
	var recs []result.Record
	for len(recs) == 0 || len(recs[0].Intervals) < 3 {
		if len(code) > 0 {
			t.Fatalf("ended: %s", stderr.String())
		}
		time.Sleep(20 * time.Millisecond)
		recs, _ = result.ReadFile(name) // it may not contain a run yet
	}
	if s := rowmill(t.Context(), "report", name); s.code != exitDone || !strings.Contains(s.stdout, "10,000 rows/s") {
		t.Errorf("report of a run that goes on: exit %d\n%s%s", s.code, s.stdout, s.stderr)
	}
	cancel()
	if c := <-code; c != exitInterrupted {
		t.Errorf("exit %d: %s", c, stderr.String())
	}
	rec := records(t, name)[0]
	if rec.End == nil || rec.End.Stopped != "interrupted" || rec.Run.MaxTimeSeconds != 86400 || rec.Run.KeepPeriods != 3 || rec.Run.Layout != "rolling" {
		t.Errorf("end %+v of %+v", rec.End, rec.Run)
	}
	if ok, err := filepath.Match("steady-*.jsonl", name); err != nil || !ok {
		t.Errorf("the record is %s", name)
	}
	if !strings.Contains(stdout.String(), "interrupted") {
		t.Errorf("no report: %s", stdout.String())
	}
	nothingLeft(t)
}

// TestSteadyKeepsSize checks that the table keeps only its newest periods, and that
// dropped rows are accounted for.
func TestSteadyKeepsSize(t *testing.T) {
	t.Chdir(t.TempDir())
	mustPass(t, rowmill(t.Context(), "bench", "steady", "--target", "sqlite:?durability=none", "--for", "3s", "--interval", "500ms",
		"--rate", "2k", "--period-rows", "500", "--keep-periods", "2", "--no-work", "--out", "run.jsonl"))
	rec := records(t, "run.jsonl")[0]
	if v := rec.End.Verified; v == nil || !v.Checksum || v.Found > 2000 || rec.End.DroppedRows < 1000 {
		t.Errorf("%+v, %d dropped", v, rec.End.DroppedRows)
	}
	if _, ok := rec.Intervals[1].Counters["work_seconds"]; ok {
		t.Error("the fixed work was done")
	}
}
