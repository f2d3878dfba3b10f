package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// summaries parses the --json output of a command.
func summaries(t *testing.T, s session) []result.Summary {
	t.Helper()
	var out report.Summaries
	if err := json.Unmarshal([]byte(s.stdout), &out); err != nil {
		t.Fatalf("stdout is no summary: %v\nexit %d, stdout: %s\nstderr: %s", err, s.code, s.stdout, s.stderr)
	}
	return out.Runs
}

// records reads a record.
func records(t *testing.T, path string) []result.Record {
	t.Helper()
	recs, err := result.ReadFile(path)
	must(t, err)
	return recs
}

func mustPass(t *testing.T, s session) {
	t.Helper()
	if s.code != exitDone {
		t.Fatalf("exit %d\nstdout: %s\nstderr: %s", s.code, s.stdout, s.stderr)
	}
}

// wantFailure requires an exit code, and texts on standard error.
func wantFailure(t *testing.T, s session, code int, says ...string) {
	t.Helper()
	if s.code != code {
		t.Errorf("exit %d, want %d: %s", s.code, code, s.stderr)
	}
	contains(t, s.stderr, says...)
}

// contains requires texts in a text, in upper or lower case.
func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

// verb runs a command line in the working directory. Its words must not contain blanks.
func verb(t *testing.T, line string, more ...string) session {
	t.Helper()
	return rowmill(t.Context(), append(strings.Fields(line), more...)...)
}

// benched runs a verb of bench, which must pass.
func benched(t *testing.T, line string, more ...string) session {
	t.Helper()
	s := verb(t, "bench "+line, more...)
	mustPass(t, s)
	return s
}

// benchedOnce is benched with one run, whose record it returns.
func benchedOnce(t *testing.T, line string) result.Record {
	t.Helper()
	benched(t, line+" --out run.jsonl")
	return records(t, "run.jsonl")[0]
}

// proven requires the proof that the tables of a run held all of the rows.
func proven(t *testing.T, name string, v *result.Verified, rows int64) {
	t.Helper()
	if v == nil || !v.Sound() || v.Expected != rows || v.Found != rows {
		t.Errorf("%s: verified %+v, want %d rows", name, v, rows)
	}
}

// mariadb returns a target of a private database for the test.
func mariadb(t *testing.T) string {
	t.Helper()
	return testdb.Target(t, "mariadb").String()
}

// interruptedAt runs a command line and interrupts it once its progress has a match of the pattern.
func interruptedAt(t *testing.T, pattern string, args ...string) session {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &watched{find: regexp.MustCompile(pattern), found: func([]string) { cancel() }}
	var stdout bytes.Buffer
	code := run(ctx, args, strings.NewReader(""), &stdout, stderr)
	return session{code, stdout.String(), stderr.String()}
}

// nothingLeft checks that a command has removed its files.
func nothingLeft(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(sandbox.DefaultRoot)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range left {
		if e.IsDir() {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

// noFiles checks that the working directory is empty.
func noFiles(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBenchInsert runs every preset with both layouts on SQLite, and one on a private server of
// each kind, in both layouts. It checks the proof, the record and the reports.
func TestBenchInsert(t *testing.T) {
	if apart(t) {
		return
	}
	const sqlite = "sqlite:?cache=1MB&durability=none"
	kinds := testdb.Kinds(t, "sqlite", "mariadb", "mariadb?engine=rocksdb", "mysql", "postgres")
	for _, c := range []struct {
		kind, name, preset string // name is as in ROWMILL_TEST_REQUIRE
		target             string
		storage            string // as the server spells it
	}{
		{"sqlite", "classic", "classic", sqlite, ""}, {"sqlite", "ibench", "ibench", sqlite, ""}, {"sqlite", "timeseries", "timeseries", sqlite, ""},
		{"sqlite", "daily", "daily", sqlite, ""},
		{"mariadb", "mariadb", "classic", "sandbox:mariadb?memory=64MB&redo=64MB&durability=none", "InnoDB"},
		{"mariadb?engine=rocksdb", "rocksdb", "classic", "sandbox:mariadb?memory=64MB&engine=rocksdb&redo=64MB&durability=none", "ROCKSDB"},
		{"mysql", "mysql", "classic", "sandbox:mysql?memory=64MB&redo=64MB&durability=none", "InnoDB"},
		{"postgres", "postgres", "classic", "sandbox:postgres?memory=64MB&durability=none", "heap"},
	} {
		private := c.kind != "sqlite"
		if private && !slices.Contains(kinds, c.kind) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			s := verb(t, "bench insert --layout plain,rolling --rows 20k --batch 100 --writers 2 --period-rows 6k --interval 50ms --out run.jsonl --html run.html "+
				"--png run.png --md run.md --json --target", c.target, "--preset", c.preset)
			if s.code != exitDone && strings.Contains(s.stderr, sandbox.ErrNotInstalled.Error()) {
				testdb.Require(t, c.name, errors.New(s.stderr))
			}
			mustPass(t, s)
			runs, recs := summaries(t, s), records(t, "run.jsonl")
			if len(runs) != 2 || len(recs) != 2 {
				t.Fatalf("%d summaries, %d records, want 2", len(runs), len(recs))
			}
			want := int64(20000)
			if c.preset == "daily" {
				want -= 200 // duplicates
			}
			for i, layout := range []string{"plain", "rolling"} {
				got, run, end := runs[i], recs[i].Run, recs[i].End
				proven(t, layout, got.Verified, want)
				if got.Layout != layout || !strings.HasPrefix(c.kind, got.Engine) || got.ServerVersion == "" || run.Storage != c.storage || run.Target != c.target {
					t.Errorf("run %d is of a %s table on %s %s with %s", i, got.Layout, got.Engine, got.ServerVersion, run.Storage)
				}
				if got.Rows != 20000 || got.LatencyUS["insert"].Count != 200 || got.Errors != 0 || got.Failure != "" || got.SizeBytes.PerRow < 20 || got.SizeBytes.PerRow > 1000 {
					t.Errorf("%s: %+v, size %+v", layout, got, got.SizeBytes)
				}
				if (run.Period == "") != (layout == "plain") || len(run.Settings) == 0 || len(run.Schema) == 0 {
					t.Errorf("%s: header %+v", layout, run)
				}
				if private && (run.Durability != "none" || run.CacheBytes != 64<<20 || end.ServerCPUSeconds == nil || *end.ServerCPUSeconds <= 0) {
					t.Errorf("%s: durability %s, cache %d, server CPU %v", layout, run.Durability, run.CacheBytes, end.ServerCPUSeconds)
				}
			}
			filesWritten(t)
			nothingLeft(t)
		})
	}
}

// filesWritten checks that the reports run.html, run.png and run.md are there, and nothing
// of the files that became them.
func filesWritten(t *testing.T) {
	t.Helper()
	for name, begin := range map[string]string{"run.html": "<!doctype html>", "run.png": "\x89PNG", "run.md": "# "} {
		if p := readFile(t, name); !strings.HasPrefix(string(p), begin) || len(p) < 500 {
			t.Errorf("%s begins with %.20q", name, p)
		}
	}
	if left, err := filepath.Glob(".run.*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTableExists checks that an existing table is refused and unchanged, unless
// --drop-existing is given.
func TestTableExists(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	for _, target := range []string{"sqlite:here.db?durability=none", mariadb(t)} {
		for _, layouts := range [][2]string{{"plain", "rolling --period-rows 1k"}, {"rolling --period-rows 1k", "plain"}} {
			line := "insert --batch 100 --out run.jsonl --target " + target + " --rows 3k --layout "
			benched(t, line+layouts[0]+" --drop-existing")
			wantFailure(t, verb(t, "bench "+line+layouts[1]), exitFailed, "exists", "--drop-existing")
			if recs := records(t, "run.jsonl"); len(recs) != 1 || !strings.HasPrefix(layouts[0], recs[0].Run.Layout) {
				t.Errorf("%s: the refused run replaced the record before it", target)
			}
			benched(t, line+layouts[1]+" --drop-existing")
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Chdir(t.TempDir())
	wantFailure(t, verb(t, "bench insert --target mariadb://root@127.0.0.1:9/db --rows 10 --out run.jsonl"), exitFailed, "127.0.0.1:9", "Try: ")
	noFiles(t) // not even an empty record
}

// TestInterrupt checks that the measurements are reported, the record is complete, and
// the private file is removed.
func TestInterrupt(t *testing.T) {
	t.Chdir(t.TempDir())
	s := interruptedAt(t, `(?m)^ +\d+\.\ds `, "bench", "insert", "--layout", "plain,rolling", "--max-time", "5m", "--interval", "100ms",
		"--batch", "10", "--out", "run.jsonl", "--json")
	wantFailure(t, s, exitInterrupted, "interrupted")
	runs := summaries(t, s)
	recs := records(t, "run.jsonl")
	if len(runs) != 1 || runs[0].Rows == 0 || runs[0].Verified != nil {
		t.Errorf("runs %+v", runs)
	}
	if len(recs) != 1 || recs[0].End == nil || recs[0].End.Stopped != "interrupted" {
		t.Errorf("record: %+v", recs)
	}
	nothingLeft(t)
}

// TestServerKilled checks that kill -9 of the server during a run ends the run with
// exit code 1 and a readable record that names the failure.
func TestServerKilled(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
	t.Chdir(t.TempDir())
	var pid int
	var once sync.Once
	stderr := &watched{find: regexp.MustCompile(`process (\d+)(?s:.*)\n +2\.\ds `), found: func(m []string) {
		once.Do(func() {
			pid, _ = strconv.Atoi(m[1])
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("kill %d: %v", pid, err)
			}
		})
	}}
	var stdout bytes.Buffer
	began := time.Now()
	code := run(t.Context(), []string{"bench", "insert", "--target", "sandbox:mariadb?memory=64MB", "--max-time", "2m",
		"--writers", "4", "--batch", "100", "--out", "run.jsonl", "--json"}, strings.NewReader(""), &stdout, stderr)
	if pid == 0 {
		t.Fatalf("the server's process was never seen: %s", stderr.String())
	}
	if code != exitFailed || time.Since(began) > time.Minute {
		t.Errorf("exit %d after %v", code, time.Since(began))
	}
	rec := records(t, "run.jsonl")[0]
	if rec.End == nil || rec.End.Stopped != "failed" {
		t.Fatalf("record: %+v", rec)
	}
	if runs := summaries(t, session{code, stdout.String(), stderr.String()}); runs[0].Rows == 0 || runs[0].Failure == "" {
		t.Errorf("summary: %+v", runs[0])
	}
	for _, text := range []string{rec.End.Failure, stderr.String(), verb(t, "report run.jsonl").stdout} {
		if !strings.Contains(text, "SIGKILL") && !strings.Contains(text, "killed") {
			t.Errorf("nothing says that the server was killed: %s", text)
		}
	}
	nothingLeft(t)
}

// TestFullDisk checks that a record that can't be written ends the run with an error.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	t.Chdir(t.TempDir())
	wantFailure(t, verb(t, "bench insert --target null: --max-time 1m --out /dev/full"), exitFailed, "no space left on device")
}

// TestDatabaseFull checks that a full database ends the run, and that the measurements
// are reported.
func TestDatabaseFull(t *testing.T) {
	t.Chdir(t.TempDir())
	defer limitFileSize(t, 4<<20)()
	wantFailure(t, verb(t, "bench insert --target sqlite:full.db?durability=none --rows 1M --batch 100 --interval 20ms --out run.jsonl"), exitFailed)
	rec := records(t, "run.jsonl")[0]
	if rec.End == nil || rec.End.Stopped != "failed" || rec.End.Failure == "" || rec.Summary().Rows == 0 {
		t.Errorf("record: %+v", rec)
	}
}

// limitFileSize prevents this process from writing files larger than n bytes. It
// simulates a full disk.
func limitFileSize(t *testing.T, n uint64) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: before.Max}))
	return func() { must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }
}

// TestOverload checks that a run at a rate beyond the database's capacity is
// completed, and that the overload and the missing proof are reported.
func TestOverload(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	rec := benchedOnce(t, "insert --target sqlite: --rate 10M --batch 100 --max-time 1s --interval 100ms --no-verify")
	r := rec.Summary()
	if service, response := r.LatencyUS["insert"], r.ResponseUS["insert"]; response.P50 < 10*service.P50 || response.Count != service.Count {
		t.Errorf("service %+v, response %+v", service, response)
	}
	ivs := rec.Intervals
	if a, b := ivs[1].Backlog, ivs[len(ivs)-1].Backlog; a <= 0 || b <= a {
		t.Errorf("backlog went from %d to %d", a, b)
	}
	if r.Verified != nil {
		t.Errorf("verified %+v", r.Verified)
	}
	contains(t, verb(t, "report run.jsonl").stdout, "backlog", "--no-verify")
}

// TestPrintSQL checks that the statements are printed and nothing is accessed: neither
// the files nor the servers exist.
func TestPrintSQL(t *testing.T) {
	dir := here(t)
	t.Chdir(t.TempDir())
	for name, args := range map[string]string{
		"print-sqlite.sql":   "insert --target sqlite:nosuch/file.db --layout plain,rolling --keep-periods 3",
		"print-mariadb.sql":  "insert --target mariadb://root@192.0.2.1/db --layout plain,rolling --drop-existing",
		"print-mysql.sql":    "insert --target sandbox:mysql --layout plain,rolling --drop-existing",
		"print-postgres.sql": "insert --target sandbox:postgres --preset ibench --layout rolling --period-rows 50k --no-verify",
		"print-rocksdb.sql":  "insert --target sandbox:mariadb?engine=rocksdb --preset timeseries --layout rolling --period-rows 50k --no-verify",
		"print-sbtest.sql":   "insert --target sandbox:mariadb --preset sbtest --batch 1 --method single",
		"print-load.sql":     "insert --target mysql://root@192.0.2.1/db --preset ibench --method load --writers 2 --rows 10k",
		"":                   "steady --target mariadb://u@h/db",
	} {
		t.Run(name, func(t *testing.T) {
			s := benched(t, args+" --print-sql")
			if name == "" {
				contains(t, s.stdout, "CREATE TABLE `purchases`", "PARTITION")
				return
			}
			if s.stderr != "" {
				t.Errorf("stderr: %s", s.stderr)
			}
			golden(t, dir, name, s.stdout)
		})
	}
	noFiles(t)
}

// watched is a standard error that searches its text for a pattern after each write,
// and reports a match.
type watched struct {
	mu    sync.Mutex
	text  strings.Builder
	find  *regexp.Regexp
	found func(match []string)
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.text.Write(p)
	match := w.find.FindStringSubmatch(w.text.String())
	w.mu.Unlock()
	if match != nil {
		w.found(match)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
