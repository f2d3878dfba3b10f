package main

import (
	"bytes"
	"context"
	"encoding/json"
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
	if err != nil {
		t.Fatal(err)
	}
	w := result.NewWriter(f)
	err = w.Run(result.Run{Name: "classic plain", Workload: "insert", Preset: "classic", Layout: "plain", Engine: "mariadb", Durability: "full", Writers: 1, Batch: 100})
	for i := range int64(20) {
		err = errors.Join(err, w.Interval(result.Interval{Elapsed: float64(i + 1), Seconds: 1, Rows: (i + 1) * rate, NewRows: rate}))
	}
	err = errors.Join(err, w.End(result.End{Stopped: "rows", Verified: &result.Verified{Expected: 20 * rate, Found: 20 * rate, Checksum: true}}), f.Close())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// reportVerb runs a command line in this process.
func reportVerb(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestReportCommand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeRecord(t, dir, "run.jsonl", 1000)
	if err := os.WriteFile("other.txt", []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"text", []string{"run.jsonl"}, 0, "Plain kept 100% of its first rate over 20k rows.", ""},
		{"json", []string{"run.jsonl", "--json"}, 0, `"format": "rowmill.summary/1"`, ""},
		{"markdown on standard output", []string{"run.jsonl", "--md", "-"}, 0, "# Insert rate of ", ""},
		{"no record", nil, 2, "", "Try: rowmill report run.jsonl"},
		{"an unknown flag", []string{"run.jsonl", "--pdf", "x"}, 2, "", "Try: rowmill report --help"},
		{"two on standard output", []string{"run.jsonl", "--json", "--md", "-"}, 2, "", "--json and --md can't both be standard output"},
		{"two in one file", []string{"run.jsonl", "--html", "x", "--md", "./x"}, 2, "", "--html and --md can't both be ./x"},
		{"a missing file", []string{"none.jsonl"}, 1, "", "none.jsonl: no such file"},
		{"no run record", []string{"other.txt"}, 1, "", "other.txt:1: not a line of a run record"},
		{"a directory to write to", []string{"run.jsonl", "--html", "."}, 1, "", "write .: is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := reportVerb(t, append([]string{"report"}, c.args...)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit %d, want %d\nstdout: %s\nstderr: %s", code, c.code, stdout, stderr)
			}
			if code != 0 && stdout != "" {
				t.Errorf("a failure prints a result: %s", stdout)
			}
		})
	}
}

func TestReportWritesFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeRecord(t, dir, "run.jsonl", 1000)
	if code, stdout, stderr := reportVerb(t, "report", "run.jsonl", "--html", "run.html", "--png", "run.png", "--md", "run.md", "--json"); code != 0 || !json.Valid([]byte(stdout)) {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	for name, begin := range map[string]string{"run.html": "<!doctype html>", "run.png": "\x89PNG", "run.md": "# "} {
		p, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(p), begin) {
			t.Errorf("%s begins with %.20q: %v", name, p, err)
		}
	}
	files, err := os.ReadDir(".")
	if err != nil || len(files) != 4 {
		t.Errorf("%v in the directory: %v", files, err)
	}
}
