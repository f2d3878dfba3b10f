package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// tiny is a matrix that takes a second or two.
var tiny = []string{"bench", "matrix", "--target", "sqlite:", "--method", "multi,prepared", "--batch", "10,100", "--layout", "plain,rolling",
	"--writers", "1", "--durability", "none,relaxed", "--rows", "300", "--period-rows", "100", "--repeat", "2", "--interval", "20ms"}

func withArgs(args []string, more ...string) []string {
	return append(append([]string{}, args...), more...)
}

func matrixJSON(t *testing.T, s session) report.Matrix {
	t.Helper()
	var m report.Matrix
	if err := json.Unmarshal([]byte(s.stdout), &m); err != nil {
		t.Fatalf("%v: %s%s", err, s.stdout, s.stderr)
	}
	return m
}

// TestMatrix runs a small matrix, reports it, resumes it when nothing is left, and
// compares it with itself and with a faster one.
func TestMatrix(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), withArgs(tiny, "--out", "m.jsonl", "--html", "m.html", "--png", "m.png", "--md", "m.md", "--json")...)
	mustPass(t, s)
	m := matrixJSON(t, s)
	if m.Asked != 32 || m.Done != 32 || len(m.Cells) != 16 || m.NoiseRatio == nil || len(m.Effects) != 4 {
		t.Errorf("%d of %d runs, %d cells, effects %+v", m.Done, m.Asked, len(m.Cells), m.Effects)
	}
	nothingLeft(t)
	recs := records(t, "m.jsonl")
	if len(recs) != 32 {
		t.Fatalf("%d runs", len(recs))
	}
	seen := map[string]int{}
	sorted := true
	for i, r := range recs {
		c := r.Run.Cell
		if c.Order != i+1 || r.Run.Repeat != 1+i/16 || r.Run.Method != c.Levels[0] || r.Run.Layout != c.Levels[4] || r.Run.Durability != c.Levels[5] ||
			r.Run.Name != c.Name() || r.End.Verified == nil || !r.End.Verified.Checksum || r.Run.Command[1] != "matrix" {
			t.Errorf("run %d: %+v", i, r.Run)
		}
		if r.Run.Period == "" == (r.Run.Layout == "rolling") {
			t.Errorf("layout %s, period %q", r.Run.Layout, r.Run.Period)
		}
		seen[c.Key()]++
		sorted = sorted && (i == 0 || recs[i-1].Run.Method <= r.Run.Method)
	}
	if len(seen) != 16 || sorted {
		t.Errorf("%d cells, in order: %v", len(seen), sorted)
	}

	contains(t, verb(t, "report m.jsonl").stdout, "What each choice does")
	before := readFile(t, "m.jsonl")
	again := benched(t, "matrix --resume m.jsonl")
	if after := readFile(t, "m.jsonl"); !bytes.Equal(before, after) || !strings.Contains(again.stdout, "What each choice does") {
		t.Errorf("a complete record was gone on with: %s", again.stderr)
	}
	writeFile(t, "old.jsonl", string(before))
	for _, args := range []string{"compare m.jsonl m.jsonl --threshold 5%", "compare m.jsonl m.jsonl --json", "bench matrix --resume m.jsonl --baseline old.jsonl --threshold 5%"} {
		s := verb(t, args)
		mustPass(t, s)
		want := "runs at 1.00x the rate of"
		if strings.HasSuffix(args, "--json") {
			want = report.ComparisonFormat
		}
		contains(t, s.stdout, want)
	}

	// A faster baseline is a regression.
	f, err := os.Create("old.jsonl")
	must(t, err)
	w := result.NewWriter(f)
	for _, r := range recs {
		err = errors.Join(err, w.Run(r.Run))
		for _, iv := range r.Intervals {
			iv.Elapsed /= 100
			iv.Seconds /= 100
			for j := range iv.Marks {
				iv.Marks[j][1] /= 100
			}
			err = errors.Join(err, w.Interval(iv))
		}
		err = errors.Join(err, w.End(*r.End))
	}
	must(t, errors.Join(err, f.Close()))
	for _, args := range []string{"compare old.jsonl m.jsonl --threshold 10%", "bench matrix --resume m.jsonl --baseline old.jsonl --threshold 10%"} {
		wantFailure(t, verb(t, args), exitRegression, "more than 10% slower")
	}
	mustPass(t, verb(t, "compare m.jsonl old.jsonl --threshold 10%"))
}

// TestMatrixKilled checks that however often a matrix is killed, --resume completes
// it, and each cell is complete exactly once.
func TestMatrixKilled(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	killedUntilDone(t, "m.jsonl", 6, withArgs(tiny, "--out", "m.jsonl", "--target", "sqlite:m.db", "--rows", "2k"), "bench", "matrix", "--resume", "m.jsonl")
	complete := map[string]int{}
	for _, r := range records(t, "m.jsonl") {
		if !r.Broken() {
			complete[r.Run.Cell.Key()+r.Run.Name+string(rune('0'+r.Run.Repeat))]++
		}
	}
	for name, n := range complete {
		if n != 1 {
			t.Errorf("%s was run %d times to its end", name, n)
		}
	}
	s := rowmill(t.Context(), "report", "m.jsonl", "--json")
	if m := matrixJSON(t, s); len(complete) != 32 || m.Done != 32 || m.Asked != 32 {
		t.Errorf("%d complete, %d of %d", len(complete), m.Done, m.Asked)
	}
}

// TestMatrixInterrupted checks that Ctrl-C reports the completed runs, --resume
// continues, and flags that contradict the record are refused.
func TestMatrixInterrupted(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	interrupted := interruptedAt(t, `run 5 of 32`, withArgs(tiny, "--out", "m.jsonl")...)
	if interrupted.code != exitInterrupted || !strings.Contains(interrupted.stdout, "incomplete: ") {
		t.Fatalf("exit %d: %s%s", interrupted.code, interrupted.stdout, interrupted.stderr)
	}
	forgetCommands(t, "m.jsonl")
	for args, says := range map[string]string{
		"--rows 500":                     "--rows can't be given with --resume",
		"--batch 10":                     "--batch can't be given",
		"--seed 2":                       "--seed can't be given",
		"--out other.jsonl":              "--out can't be given",
		"--baseline m.jsonl":             "can't both be m.jsonl",
		"--baseline m.jsonl --target x:": "--target can't be given",
	} {
		wantFailure(t, verb(t, "bench matrix --resume m.jsonl "+args), exitUsage, says)
	}
	plan := verb(t, "bench matrix --resume m.jsonl --plan")
	if !regexp.MustCompile(`32 runs .*, 2[78] of them left: about`).MatchString(plan.stdout) {
		t.Errorf("plan: %s%s", plan.stdout, plan.stderr)
	}
	// Another rowmill is writing it.
	held, err := record.Append("m.jsonl")
	must(t, err)
	wantFailure(t, verb(t, "bench matrix --resume m.jsonl"), exitFailed, "m.jsonl: another rowmill is writing it")
	must(t, held.Close())
	s := benched(t, "matrix --resume m.jsonl --json")
	if m := matrixJSON(t, s); m.Done != 32 {
		t.Errorf("%d of 32", m.Done)
	}
}

// TestMatrixFails checks that a failed cell is recorded, and the others are run. On
// SQLite, many rows exceed a small limit on the file size, and few do not.
func TestMatrixFails(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	// In a separate process: the limit would also apply to the test's log.
	c := exec.Command("bash", "-c", `ulimit -f 1024; exec "$0" "$@"`, os.Args[0], "bench", "matrix", "--target", "sqlite:?durability=none", "--method", "multi",
		"--batch", "500", "--writers", "1", "--indexes", "0,3", "--rows", "14k", "--interval", "50ms", "--out", "m.jsonl")
	c.Env = append(os.Environ(), processVariable+"=1")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	_ = c.Run() // the test checks its exit code
	s := session{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if s.code != exitFailed || !strings.Contains(s.stdout, "1 run failed and is not in the analysis") || !strings.Contains(s.stderr, "--retry-failed") {
		t.Fatalf("exit %d\n%s%s", s.code, s.stdout, s.stderr)
	}
	if s := verb(t, "bench matrix --resume m.jsonl"); s.code != exitFailed || len(records(t, "m.jsonl")) != 2 {
		t.Errorf("exit %d: what failed was run again unasked", s.code)
	}
	s = benched(t, "matrix --resume m.jsonl --retry-failed --json")
	if m := matrixJSON(t, s); m.Done != 2 {
		t.Errorf("%d of 2", m.Done)
	}
}

// TestMatrixTables checks that an existing table is refused, and that tables of a
// permanent database are dropped afterwards.
func TestMatrixTables(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	benched(t, "insert --target sqlite:x.db --rows 10")
	args := withArgs(tiny, "--target", "sqlite:x.db", "--repeat", "1", "--out", "m.jsonl")
	wantFailure(t, rowmill(t.Context(), args...), exitFailed, "--drop-existing")
	if _, err := os.Stat("m.jsonl"); !os.IsNotExist(err) {
		t.Errorf("an empty record was left behind: %v", err)
	}
	mustPass(t, rowmill(t.Context(), withArgs(args, "--drop-existing")...))
	benched(t, "insert --target sqlite:x.db --rows 10")
}

// TestMatrixPlan checks that combinations that the engine doesn't support are omitted
// and named, and that nothing is accessed.
func TestMatrixPlan(t *testing.T) {
	dir := here(t)
	t.Chdir(t.TempDir())
	s := benched(t, "matrix --plan --target sandbox:postgres --method prepared,load,pipeline --batch 1,10k --layout plain,rolling --durability full,none --repeat 2 --max-time 5s")
	golden(t, dir, "plan-postgres.txt", s.stdout)
	s = benched(t, "matrix --plan --target sqlite: --method load,multi --max-time 0 --writers 1 --html x.html")
	golden(t, dir, "plan-sqlite.txt", s.stdout)
	noFiles(t)
}

// TestMatrixRecords checks that files that hold no matrix are refused.
func TestMatrixRecords(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "not.jsonl", `{"type":"run","format":"rowmill.run/1"}`+"\n")
	wantFailure(t, verb(t, "bench matrix --resume not.jsonl"), exitUsage, "its record has no spec", "Try: ")
	wantFailure(t, verb(t, "bench matrix --baseline not.jsonl"), exitUsage, "it holds no matrix", "Try: ")
	wantFailure(t, verb(t, "bench matrix --resume none.jsonl"), exitFailed, "none.jsonl", "Try: ")
}

// TestMatrixServers tests a private server for each run, with the durability of its
// cell, and a permanent server whose tables are dropped: the table of one writer and
// the tables of two don't conflict.
func TestMatrixServers(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
	t.Chdir(t.TempDir())
	s := benched(t, "matrix --target sandbox:mariadb?memory=8MB&redo=16MB --method load,pipeline --batch 500 --writers 1 --durability full,none --rows 5k --out m.jsonl --json")
	if m := matrixJSON(t, s); m.Done != 2 || len(m.LeftOut) != 1 || m.LeftOut[0].Level != "pipeline" {
		t.Errorf("%d done, left out %+v", m.Done, m.LeftOut)
	}
	for _, r := range records(t, "m.jsonl") {
		want := map[string]string{"full": "1", "none": "0"}[r.Run.Cell.Levels[5]]
		if r.Run.Settings["innodb_flush_log_at_trx_commit"] != want || r.Run.Durability != r.Run.Cell.Levels[5] {
			t.Errorf("%s: durability %s, settings %v", r.Run.Name, r.Run.Durability, r.Run.Settings)
		}
	}
	nothingLeft(t)

	target := mariadb(t)
	for range 2 {
		s = benched(t, "matrix --preset ibench --method multi --batch 100 --writers 1,2 --layout plain,rolling --period-rows 1k --rows 4k --json --target "+target)
		if m := matrixJSON(t, s); m.Done != 4 {
			t.Errorf("%d of 4 done", m.Done)
		}
	}
}
