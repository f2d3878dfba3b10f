package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
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
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func mustPass(t *testing.T, s session) {
	t.Helper()
	if s.code != exitDone {
		t.Fatalf("exit %d\nstdout: %s\nstderr: %s", s.code, s.stdout, s.stderr)
	}
}

// mariadb returns a target of a private database for the test.
func mariadb(t *testing.T) string {
	t.Helper()
	return testdb.Target(t, "mariadb").String()
}

// interruptedAt runs a command line and interrupts it once its progress has a match of
// the pattern.
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

// TestBenchInsert runs every preset in both layouts on real databases, and
// checks the proof and the record.
func TestBenchInsert(t *testing.T) {
	t.Chdir(t.TempDir())
	server := mariadb(t)
	for _, target := range []string{"sqlite:?cache=1MB&durability=none", server} {
		for _, preset := range []string{"classic", "ibench", "timeseries", "daily", "sbtest"} {
			scheme, _, _ := strings.Cut(target, ":")
			t.Run(scheme+"/"+preset, func(t *testing.T) {
				s := rowmill(t.Context(), "bench", "insert", "--target", target, "--preset", preset, "--layout", "plain,rolling",
					"--rows", "20k", "--batch", "100", "--writers", "2", "--period-rows", "6k", "--interval", "50ms",
					"--out", "run.jsonl", "--html", "run.html", "--png", "run.png", "--md", "run.md", "--json", "--drop-existing")
				mustPass(t, s)
				runs := summaries(t, s)
				if len(runs) != 2 || runs[0].Layout != "plain" || runs[1].Layout != "rolling" {
					t.Fatalf("runs: %+v", runs)
				}
				want := int64(20000)
				if preset == "daily" {
					want -= 200 // duplicates
				}
				for _, r := range runs {
					if v := r.Verified; v == nil || v.Expected != want || v.Found != want || !v.Checksum {
						t.Errorf("%s: verified %+v", r.Layout, v)
					}
					if r.Rows != 20000 || r.LatencyUS["insert"].Count != 200 || r.Errors != 0 || r.Failure != "" {
						t.Errorf("%s: %+v", r.Layout, r)
					}
					if r.SizeBytes == nil || r.SizeBytes.PerRow < 20 || r.SizeBytes.PerRow > 1000 {
						t.Errorf("%s: size %+v", r.Layout, r.SizeBytes)
					}
				}
				recs := records(t, "run.jsonl")
				if len(recs) != 2 || recs[1].Run.Period == "" || recs[0].Run.Period != "" || len(recs[1].Run.Settings) == 0 || len(recs[1].Run.Schema) == 0 {
					t.Errorf("records: %+v", recs)
				}
				for _, name := range []string{"run.html", "run.png", "run.md"} {
					if st, err := os.Stat(name); err != nil || st.Size() < 500 {
						t.Errorf("%s: %v, %v", name, st, err)
					}
				}
			})
		}
	}
	nothingLeft(t)
}

// TestBenchServers checks that a run on a private server of each kind proves every row
// in both layouts.
func TestBenchServers(t *testing.T) {
	kinds := testdb.Kinds(t, "sqlite", "mariadb", "mariadb?engine=rocksdb", "mysql", "postgres")
	for _, c := range []struct {
		kind    string
		name    string // as in ROWMILL_TEST_REQUIRE
		target  string
		engine  string
		storage string // as the server spells it
	}{
		{"sqlite", "sqlite", "sqlite:?durability=none", "sqlite", ""},
		{"mariadb", "mariadb", "sandbox:mariadb?memory=64MB&redo=64MB&durability=none", "mariadb", "InnoDB"},
		{"mariadb?engine=rocksdb", "rocksdb", "sandbox:mariadb?memory=64MB&engine=rocksdb&redo=64MB&durability=none", "mariadb", "ROCKSDB"},
		{"mysql", "mysql", "sandbox:mysql?memory=64MB&redo=64MB&durability=none", "mysql", "InnoDB"},
		{"postgres", "postgres", "sandbox:postgres?memory=64MB&durability=none", "postgres", "heap"},
	} {
		if !slices.Contains(kinds, c.kind) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			const rows = 12_000
			s := rowmill(t.Context(), "bench", "insert", "--target", c.target, "--layout", "plain,rolling", "--rows", "12k",
				"--writers", "2", "--batch", "1000", "--period-rows", "5k", "--indexes", "3", "--interval", "50ms",
				"--out", "run.jsonl", "--json")
			if s.code != exitDone && strings.Contains(s.stderr, sandbox.ErrNotInstalled.Error()) {
				testdb.Require(t, c.name, errors.New(s.stderr))
			}
			mustPass(t, s)
			runs, recs := summaries(t, s), records(t, "run.jsonl")
			if len(runs) != 2 || len(recs) != 2 {
				t.Fatalf("%d summaries, %d records, want 2", len(runs), len(recs))
			}
			for i, layout := range []string{"plain", "rolling"} {
				got := runs[i]
				if got.Layout != layout || got.Engine != c.engine || got.ServerVersion == "" || recs[i].Run.Storage != c.storage {
					t.Errorf("run %d is of a %s table on %s %s with %s", i, got.Layout, got.Engine, got.ServerVersion, recs[i].Run.Storage)
				}
				if v := got.Verified; v == nil || !v.Checksum || v.Expected != rows || v.Found != rows || got.Rows != rows {
					t.Errorf("%s: %d rows, verified: %+v", layout, got.Rows, v)
				}
				if run := recs[i].Run; run.Target != c.target || c.kind != "sqlite" && (run.Durability != "none" || run.CacheBytes != 64<<20) {
					t.Errorf("%s: target %s, durability %s, cache %d", layout, run.Target, run.Durability, run.CacheBytes)
				}
				if cpu := recs[i].End.ServerCPUSeconds; c.kind != "sqlite" && (cpu == nil || *cpu <= 0) {
					t.Errorf("%s: server CPU %v", layout, cpu)
				}
				if got.Errors != 0 || got.SizeBytes.Data <= 0 {
					t.Errorf("%s: %d errors, sizes %+v", layout, got.Errors, got.SizeBytes)
				}
			}
			nothingLeft(t)
		})
	}
}

func TestKeepPeriods(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, target := range []string{"sqlite:?durability=none", mariadb(t)} {
		s := rowmill(t.Context(), "bench", "insert", "--target", target, "--layout", "rolling", "--rows", "30k", "--batch", "100",
			"--writers", "3", "--period-rows", "5k", "--keep-periods", "2", "--out", "run.jsonl", "--json")
		mustPass(t, s)
		rec := records(t, "run.jsonl")[0]
		v := rec.End.Verified
		if v == nil || !v.Checksum || v.Found != v.Expected || v.Found+rec.End.DroppedRows != 30000 || rec.End.DroppedRows < 10000 {
			t.Errorf("%s: verified %+v, dropped %d", target, v, rec.End.DroppedRows)
		}
	}
}

// TestTableExists checks that an existing table is refused and unchanged, unless
// --drop-existing is given.
func TestTableExists(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, target := range []string{"sqlite:here.db?durability=none", mariadb(t)} {
		for _, layouts := range [][2]string{{"plain", "rolling"}, {"rolling", "plain"}} {
			bench := func(layout, rows string, more ...string) session {
				args := []string{"bench", "insert", "--target", target, "--layout", layout, "--rows", rows, "--batch", "100",
					"--json", "--out", "run.jsonl"}
				if layout == "rolling" {
					args = append(args, "--period-rows", "1k")
				}
				return rowmill(t.Context(), append(args, more...)...)
			}
			mustPass(t, bench(layouts[0], "3k", "--drop-existing"))
			s := bench(layouts[1], "2k")
			if s.code != exitFailed || !strings.Contains(s.stderr, "exists") || !strings.Contains(s.stderr, "--drop-existing") {
				t.Errorf("%s: exit %d, stderr: %s", target, s.code, s.stderr)
			}
			if recs := records(t, "run.jsonl"); len(recs) != 1 || recs[0].Run.Layout != layouts[0] {
				t.Errorf("%s: the refused run replaced the record before it", target)
			}
			mustPass(t, bench(layouts[1], "2k", "--drop-existing"))
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), "bench", "insert", "--target", "mariadb://root@127.0.0.1:9/db", "--rows", "10", "--out", "run.jsonl")
	if s.code != exitFailed || !strings.Contains(s.stderr, "127.0.0.1:9") || !strings.Contains(s.stderr, "Try: ") {
		t.Errorf("exit %d, stderr: %s", s.code, s.stderr)
	}
	if _, err := os.Stat("run.jsonl"); !os.IsNotExist(err) {
		t.Errorf("an empty record was left behind: %v", err)
	}
}

// TestInterrupt checks that the measurements are reported, the record is complete, and
// the private file is removed.
func TestInterrupt(t *testing.T) {
	t.Chdir(t.TempDir())
	s := interruptedAt(t, `(?m)^ +\d+\.\ds `, "bench", "insert", "--layout", "plain,rolling", "--max-time", "5m", "--interval", "100ms",
		"--batch", "10", "--out", "run.jsonl", "--json")
	if s.code != exitInterrupted || !strings.Contains(s.stderr, "interrupted") {
		t.Errorf("exit %d, stderr: %s", s.code, s.stderr)
	}
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
	recs := records(t, "run.jsonl")
	if len(recs) != 1 || recs[0].End == nil || recs[0].End.Stopped != "failed" {
		t.Fatalf("record: %+v", recs)
	}
	for _, text := range []string{recs[0].End.Failure, stderr.String()} {
		if !strings.Contains(text, "SIGKILL") && !strings.Contains(text, "killed") {
			t.Errorf("nothing says that the server was killed: %s", text)
		}
	}
	if runs := summaries(t, session{code, stdout.String(), stderr.String()}); runs[0].Rows == 0 || runs[0].Failure == "" {
		t.Errorf("summary: %+v", runs[0])
	}
	s := rowmill(t.Context(), "report", "run.jsonl", "--html", "run.html")
	mustPass(t, s)
	if text := rowmill(t.Context(), "report", "run.jsonl"); !strings.Contains(text.stdout, "killed") && !strings.Contains(text.stdout, "SIGKILL") {
		t.Errorf("the report doesn't name the failure:\n%s", text.stdout)
	}
	nothingLeft(t)
}

// TestFullDisk checks that a record that can't be written ends the run with an error.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), "bench", "insert", "--target", "null:", "--max-time", "1m", "--out", "/dev/full")
	if s.code != exitFailed || !strings.Contains(s.stderr, "no space left on device") {
		t.Errorf("exit %d, stderr: %s", s.code, s.stderr)
	}
}

// TestDatabaseFull checks that a full database ends the run, and that the measurements
// are reported.
func TestDatabaseFull(t *testing.T) {
	t.Chdir(t.TempDir())
	defer limitFileSize(t, 4<<20)()
	s := rowmill(t.Context(), "bench", "insert", "--target", "sqlite:full.db?durability=none", "--rows", "1M", "--batch", "100",
		"--interval", "20ms", "--out", "run.jsonl", "--json")
	if s.code != exitFailed {
		t.Fatalf("exit %d, stderr: %s", s.code, s.stderr)
	}
	rec := records(t, "run.jsonl")[0]
	if rec.End == nil || rec.End.Stopped != "failed" || rec.End.Failure == "" || rec.Summary().Rows == 0 {
		t.Errorf("record: %+v", rec)
	}
	t.Log(rec.End.Failure)
}

// limitFileSize prevents this process from writing files larger than n bytes. It
// simulates a full disk.
func limitFileSize(t *testing.T, n uint64) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOverload checks that a run at a rate beyond the database's capacity is
// completed, and that the overload is reported.
func TestOverload(t *testing.T) {
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), "bench", "insert", "--target", "sqlite:", "--rate", "10M", "--batch", "100", "--max-time", "1s",
		"--interval", "100ms", "--out", "run.jsonl", "--json")
	mustPass(t, s)
	r := summaries(t, s)[0]
	service, response := r.LatencyUS["insert"], r.ResponseUS["insert"]
	if response.P50 < 10*service.P50 || response.Count != service.Count {
		t.Errorf("service %+v, response %+v", service, response)
	}
	ivs := records(t, "run.jsonl")[0].Intervals
	if a, b := ivs[1].Backlog, ivs[len(ivs)-1].Backlog; a <= 0 || b <= a {
		t.Errorf("backlog went from %d to %d", a, b)
	}
	if text := rowmill(t.Context(), "report", "run.jsonl"); !strings.Contains(text.stdout, "backlog") {
		t.Errorf("the report says nothing of it:\n%s", text.stdout)
	}
}

// TestNoVerify checks that the record says that nothing was verified.
func TestNoVerify(t *testing.T) {
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), "bench", "insert", "--rows", "1k", "--no-verify", "--json")
	mustPass(t, s)
	r := summaries(t, s)[0]
	if r.Verified != nil || !strings.Contains(strings.Join(r.Warnings, "\n"), "--no-verify") {
		t.Errorf("verified %+v, warnings %q", r.Verified, r.Warnings)
	}
}

// TestPrintSQL checks that the statements are printed and nothing is accessed: neither
// the file nor the server exists.
func TestPrintSQL(t *testing.T) {
	dir := here(t)
	t.Chdir(t.TempDir())
	for name, args := range map[string]string{
		"print-sqlite.sql":   "--target sqlite:nosuch/file.db --layout plain,rolling --keep-periods 3",
		"print-mariadb.sql":  "--target mariadb://root@192.0.2.1/db --layout plain,rolling --drop-existing",
		"print-mysql.sql":    "--target sandbox:mysql --layout plain,rolling --drop-existing",
		"print-postgres.sql": "--target sandbox:postgres --preset ibench --layout rolling --period-rows 50k --no-verify",
		"print-rocksdb.sql":  "--target sandbox:mariadb?engine=rocksdb --preset timeseries --layout rolling --period-rows 50k --no-verify",
		"print-sbtest.sql":   "--target sandbox:mariadb --preset sbtest --batch 1 --method single",
		"print-load.sql":     "--target mysql://root@192.0.2.1/db --preset ibench --method load --writers 2 --rows 10k",
	} {
		t.Run(name, func(t *testing.T) {
			s := rowmill(t.Context(), append([]string{"bench", "insert", "--print-sql"}, strings.Fields(args)...)...)
			mustPass(t, s)
			if s.stderr != "" {
				t.Errorf("stderr: %s", s.stderr)
			}
			golden(t, dir, name, s.stdout)
		})
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
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
