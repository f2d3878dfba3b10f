package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/result"
)

// writeRecord writes the record of a run at a steady rate and returns its path.
func writeRecord(t *testing.T, dir, name string, rate int64) string {
	t.Helper()
	path := filepath.Join(dir, name)
	f, err := os.Create(path)
	must(t, err)
	w := result.NewWriter(f)
	err = w.Run(result.Run{Name: "classic plain", Benchmark: result.Benchmark{Workload: "insert", Preset: "classic", Layout: "plain"}, Database: result.Database{Engine: "mariadb", Durability: "full"}, Load: result.Load{Writers: 1, Batch: 100}})
	for i := range int64(20) {
		err = errors.Join(err, w.Interval(result.Interval{Elapsed: float64(i + 1), Seconds: 1, Rows: (i + 1) * rate, NewRows: rate}))
	}
	must(t, errors.Join(err, w.End(result.End{Stopped: "rows", Verified: &result.Verified{Expected: 20 * rate, Found: 20 * rate, Checksum: true}}), f.Close()))
	return path
}

// A line is a command line and what it does.
type line struct {
	name, args     string
	code           int
	stdout, stderr string
}

// check runs lines of a verb, whose results must have the given texts; a failure prints none.
func check(t *testing.T, of string, lines []line) {
	t.Helper()
	for _, c := range lines {
		t.Run(c.name, func(t *testing.T) {
			s := verb(t, of+" "+c.args)
			if s.code != c.code || !strings.Contains(strings.Join(strings.Fields(s.stdout), " "), c.stdout) || !strings.Contains(s.stderr, c.stderr) {
				t.Errorf("exit %d, want %d\nstdout: %s\nstderr: %s", s.code, c.code, s.stdout, s.stderr)
			}
		})
	}
}

func TestReportCommand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeRecord(t, dir, "run.jsonl", 1000)
	writeFile(t, "other.txt", "hello\n")
	check(t, "report", []line{
		{"text", "run.jsonl", 0, "Plain kept 100% of its first rate over 20k rows.", ""},
		{"json", "run.jsonl --json", 0, `"format": "rowmill.summary/1"`, ""},
		{"csv", "run.jsonl --csv -", 0, "file,run,elapsed_seconds,seconds,rows,new_rows,rows_per_second,", ""},
		{"csv twice", "run.jsonl --csv - --json", 2, "", "--json and --csv can't both be standard output"},
		{"markdown on standard output", "run.jsonl --md -", 0, "# Insert rate of ", ""},
		{"no record", "", 2, "", "Try: rowmill report run.jsonl"},
		{"an unknown flag", "run.jsonl --pdf x", 2, "", "Try: rowmill report --help"},
		{"two on standard output", "run.jsonl --json --md -", 2, "", "--json and --md can't both be standard output"},
		{"two in one file", "run.jsonl --html x --md ./x", 2, "", "--html and --md can't both be ./x"},
		{"a missing file", "none.jsonl", 1, "", "none.jsonl: no such file"},
		{"no run record", "other.txt", 1, "", "other.txt:1: not a line of a run record"},
		{"a directory to write to", "run.jsonl --html .", 1, "", "write .: is a directory"},
	})
}
