package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
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

// TestSteadyBesideHog checks that the machine's figures of a short run show a process
// that uses all processors for a part of it.
func TestSteadyBesideHog(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestSteady")
	var began, ended time.Time
	hogs := make(chan error, 1)
	go func() {
		time.Sleep(1500 * time.Millisecond)
		var all []*exec.Cmd
		var failed error
		for range 2 * runtime.NumCPU() {
			hog := exec.Command("sh", "-c", "while :; do :; done")
			if failed = hog.Start(); failed != nil {
				break
			}
			all = append(all, hog)
		}
		began = time.Now()
		time.Sleep(2 * time.Second)
		ended = time.Now()
		for _, hog := range all {
			_ = hog.Process.Kill() // the kill ends each process, and Wait reports that
			_ = hog.Wait()
		}
		hogs <- failed
	}()
	rec := steadily(t, 5*time.Second)
	if err := <-hogs; err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	type phase struct{ n, idle, pressure, work float64 }
	var without, beside phase
	for _, iv := range rec.Intervals {
		at := rec.Run.Started.Add(time.Duration(iv.Elapsed * float64(time.Second)))
		p := &without
		switch {
		case at.After(began.Add(500*time.Millisecond)) && at.Before(ended):
			p = &beside
		case at.After(began):
			continue
		}
		p.n++
		p.idle += iv.Counters["os_cpu_idle"]
		p.pressure += iv.Counters["pressure_cpu_some"]
		p.work += iv.Counters["work_seconds"]
	}
	if without.n == 0 || beside.n == 0 {
		t.Fatalf("%v intervals before the hog, %v beside it", without.n, beside.n)
	}
	t.Logf("before the hog: idle %.2f, pressure %.2f; beside it: %.2f, %.2f",
		without.idle/without.n, without.pressure/without.n, beside.idle/beside.n, beside.pressure/beside.n)
	if without.work == 0 || beside.work == 0 {
		t.Error("the fixed work was not timed")
	}
	if _, err := os.Stat("/proc/pressure/cpu"); err == nil && beside.pressure == 0 {
		t.Error("no pressure beside the hog")
	}
	// On a machine that was already busy, the figures can't rise much.
	if beside.pressure/beside.n <= without.pressure/without.n && beside.idle/beside.n > 0.3 {
		t.Error("the hog is not in the figures")
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

func TestSteadyBadInput(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, says := range map[string]string{
		"now":                          `unexpected argument "now"`,
		"--for 0s":                     "--for 0s: want a time",
		"--for 5s":                     "--interval 10s: want no more",
		"--interval 1ms":               "--interval 1ms: want at least 10ms",
		"--batch 0":                    "--batch 0",
		"--writers 0":                  "--writers 0",
		"--keep-periods 0":             "--keep-periods 0",
		"--p99 -1s":                    "--p99 -1s",
		"--retry-for 0s":               "--retry-for 0s",
		"--rate 1":                     "makes 1 operations in an interval of 10s: want at least 20",
		"--target oracle://x/y":        `unknown scheme "oracle"`,
		"--preset clasic":              `unknown preset "clasic"`,
		"--out no/such/run.jsonl":      "no folder no/such",
		"--out x.jsonl --html x.jsonl": "can't both be",
		"--json --html -":              "can't both be standard output",
	} {
		t.Run(args, func(t *testing.T) {
			s := rowmill(t.Context(), append([]string{"bench", "steady"}, strings.Fields(args)...)...)
			if s.code != exitUsage || !strings.Contains(s.stderr, says) || !strings.Contains(s.stderr, "Try: ") || strings.Contains(s.stderr, "bench insert") && !strings.Contains(args, "preset") {
				t.Errorf("exit %d, stderr:\n%s", s.code, s.stderr)
			}
		})
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSteadyPrintSQL(t *testing.T) {
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), "bench", "steady", "--target", "mariadb://u@h/db", "--print-sql")
	mustPass(t, s)
	if !strings.Contains(s.stdout, "CREATE TABLE `purchases`") || !strings.Contains(s.stdout, "PARTITION") {
		t.Error(s.stdout)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
