package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
)

// keepDeclaration is a table with a period every hour. The verbs are for the SQLite
// file and for how far ahead periods are created.
const keepDeclaration = `
[table]
name   = "readings"
target = "sqlite:%s"
create = '''
CREATE TABLE readings (sensor INT NOT NULL, ts DATETIME NOT NULL, value DOUBLE NOT NULL, PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1h"
ahead = "%s"
keep  = "3h"

[seal]
after = "1h"
`

// keepFile writes the declaration of a table that doesn't exist yet, and returns its
// path.
func keepFile(t *testing.T, ahead string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "readings.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, keepDeclaration, filepath.Join(dir, "kept.db"), ahead), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func wantDone(t *testing.T, s session) {
	t.Helper()
	if s.code != exitDone {
		t.Fatalf("exit %d\n%s\n%s", s.code, s.stdout, s.stderr)
	}
}

// TestBenchKeep runs hours of periods within seconds while rows are inserted. It
// checks that no insert fails, no row is lost, and the maintenance actions are listed.
func TestBenchKeep(t *testing.T) {
	t.Parallel()
	file := keepFile(t, "12h")
	if s := rowmill(t.Context(), "bench", "keep", file, "--with-run"); s.code != exitFailed || !strings.Contains(s.stderr, "has not been applied") || !strings.Contains(s.stderr, "rowmill apply") {
		t.Fatalf("a table that isn't there: %d %s", s.code, s.stderr)
	}
	if s := rowmill(t.Context(), "bench", "keep", "none.toml"); s.code != exitFailed || !strings.Contains(s.stderr, "read the declaration") {
		t.Errorf("a file that isn't there: %d %s", s.code, s.stderr)
	}
	// Eight hours pass in four seconds, or in more if maintenance takes longer on a
	// busy machine.
	speed := 7200
	bench := func(file string, more ...string) session {
		return rowmill(t.Context(), append([]string{"bench", "keep", file, "--with-run", "--speed", fmt.Sprint(speed), "--rate", "500/s", "--writers", "1", "--batch", "5",
			"--time", (8 * time.Hour / time.Duration(speed)).String(), "--interval", "500ms"}, more...)...)
	}
	var record, page string
	var f report.KeepFigures
	for ; ; speed /= 4 {
		record, page = filepath.Join(filepath.Dir(file), "run.jsonl"), filepath.Join(filepath.Dir(file), "run.html")
		wantDone(t, rowmill(t.Context(), "apply", file, "--yes"))
		s := bench(file, "--json", "--out", record, "--html", page)
		wantDone(t, s)
		f = report.KeepFigures{}
		if err := json.Unmarshal([]byte(s.stdout), &f); err != nil {
			t.Fatalf("%v\n%s", err, s.stdout)
		}
		if f.Format != "rowmill.keep/1" || f.Rows == 0 || f.Found == nil || *f.Found != f.Rows || len(f.Errors) > 0 || f.Longest.Seconds <= 0 {
			t.Errorf("%s", s.stdout)
		}
		if f.Rows >= 1000 && f.Dropped > 0 && min(f.Actions["create"], f.Actions["seal"], f.Actions["drop"]) >= 2 {
			break
		}
		if speed < 200 {
			t.Fatalf("8 hours passed in %v with %v, %d rows, %d of them dropped", 8*time.Hour/time.Duration(speed), f.Actions, f.Rows, f.Dropped)
		}
		file = keepFile(t, "12h")
	}
	recs, err := result.ReadFile(record)
	if err != nil || len(recs) != 1 || recs[0].End == nil {
		t.Fatalf("record: %v", err)
	}
	if v := recs[0].End.Verified; v == nil || !v.Counted || !v.Sound() || v.Found != f.Rows {
		t.Errorf("verified: %+v", v)
	}
	if s := rowmill(t.Context(), "report", record); !strings.Contains(s.stdout, "rows counted of") || strings.Contains(s.stdout, "not verified") {
		t.Errorf("report: %s", s.stdout)
	}
	events := map[string]bool{}
	for _, iv := range recs[0].Intervals {
		for _, e := range iv.Events {
			events[e.What] = true
		}
	}
	if !events["drop"] || !events["create"] {
		t.Errorf("the record's events are %v", events)
	}
	if text, err := os.ReadFile(page); err != nil || len(text) < 10_000 {
		t.Errorf("page of %d bytes: %v", len(text), err)
	}
	if s := rowmill(t.Context(), "bench", "keep", file); s.code != exitFailed || !strings.Contains(s.stderr, "in the future") {
		t.Errorf("rows of the future: %d %s", s.code, s.stderr)
	}
	file = keepFile(t, "12h")
	wantDone(t, rowmill(t.Context(), "apply", file, "--yes"))
	s := bench(file, "--stall", "1ms")
	wantDone(t, s)
	for _, want := range []string{"longest insert", "found, counting", "maintenance  create", "over 1 ms", "LONGEST  INSERTS  DURING"} {
		if !strings.Contains(s.stdout, want) {
			t.Errorf("no %q in:\n%s", want, s.stdout)
		}
	}
}

// TestBenchKeepSparesRows checks that the clock of a benchmark can't make the rows of
// a table in use exceed their retention.
func TestBenchKeepSparesRows(t *testing.T) {
	t.Parallel()
	file := keepFile(t, "6h")
	clockFile := filepath.Join(filepath.Dir(file), "clock.txt")
	wantDone(t, rowmill(t.Context(), "apply", file, "--yes"))
	wantDone(t, rowmill(t.Context(), "bench", "keep", file, "--with-run", "--rate", "100/s", "--time", "1s"))
	rows := func() string {
		t.Helper()
		s := rowmill(t.Context(), "status", file, "--json")
		var status struct{ Rows int64 }
		if err := json.Unmarshal([]byte(s.stdout), &status); err != nil || status.Rows == 0 {
			t.Fatalf("%v: %s %s", err, s.stdout, s.stderr)
		}
		return fmt.Sprint(status.Rows)
	}
	before := rows()
	for _, how := range [][]string{{"--with-run"}, {"--clock", clockFile}} {
		s := rowmill(t.Context(), append([]string{"bench", "keep", file, "--speed", "12000", "--time", "2s"}, how...)...)
		if s.code != exitFailed || !strings.Contains(s.stderr, "retention drops them") || !strings.Contains(s.stderr, "sandbox:") {
			t.Errorf("%v: exit %d: %s", how, s.code, s.stderr)
		}
	}
	if after := rows(); after != before {
		t.Errorf("%s rows of %s are left", after, before)
	}
}

// TestBenchKeepOfATableThatNobodyKeeps checks that without maintenance, inserts fail
// once the last period is over, and that the run reports this and fails.
func TestBenchKeepOfATableThatNobodyKeeps(t *testing.T) {
	t.Parallel()
	file := keepFile(t, "6h")
	clockFile := filepath.Join(filepath.Dir(file), "clock.txt")
	wantDone(t, rowmill(t.Context(), "apply", file, "--yes"))
	s := rowmill(t.Context(), "bench", "keep", file, "--clock", clockFile, "--speed", "20000", "--rate", "200/s", "--writers", "1", "--time", "20s", "--interval", "500ms")
	if s.code != exitFailed || !strings.Contains(s.stdout, "row outside every period") || !strings.Contains(s.stdout, "does rowmill run keep the table?") {
		t.Errorf("exit %d\n%s\n%s", s.code, s.stdout, s.stderr)
	}
	text, err := os.ReadFile(clockFile)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text))); err != nil || at.Before(time.Now()) {
		t.Errorf("the clock ended at %s: %v", text, err)
	}
}
