package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
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

// keepFile writes the declaration of a table that doesn't exist yet, and returns its path.
func keepFile(t *testing.T, ahead string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "readings.toml")
	writeFile(t, file, fmt.Sprintf(keepDeclaration, filepath.Join(dir, "kept.db"), ahead))
	return file
}

func wantDone(t *testing.T, s session) {
	t.Helper()
	if s.code != exitDone {
		t.Fatalf("exit %d\n%s\n%s", s.code, s.stdout, s.stderr)
	}
}

// TestBenchKeep lets hours of periods pass within seconds while rows are inserted. It
// checks that no insert fails, no row is lost, and the maintenance actions are listed.
// Periods exist for days ahead, so that none is missing however slow the machine is.
func TestBenchKeep(t *testing.T) {
	t.Parallel()
	var rec result.Record
	var f *report.KeepFigures
	// Eight hours pass in four seconds, or in more if maintenance takes longer on a busy machine.
	for speed := 7200; ; speed /= 4 {
		file := keepFile(t, "4d")
		record, page := filepath.Join(filepath.Dir(file), "run.jsonl"), filepath.Join(filepath.Dir(file), "run.html")
		mustPass(t, verb(t, "apply --yes "+file))
		most := 8 * time.Hour / time.Duration(speed)
		s := benched(t, "keep --with-run --rate 500/s --writers 1 --batch 5 --interval 500ms --stall 1ms "+file,
			"--speed", fmt.Sprint(speed), "--time", most.String(), "--out", record, "--html", page)
		rec = records(t, record)[0]
		f = report.NewKeepFigures(&rec)
		if f.Rows == 0 || f.Found == nil || *f.Found != f.Rows || len(f.Errors) > 0 || f.Longest.Seconds <= 0 {
			t.Errorf("%+v", f)
		}
		events := map[string]bool{} // of the time of the inserts; Actions are also of the time after them
		for _, iv := range rec.Intervals {
			for _, e := range iv.Events {
				events[e.What] = true
			}
		}
		if f.Rows >= 1000 && f.Dropped > 0 && events["create"] && events["seal"] && events["drop"] {
			contains(t, s.stdout, "longest      ", "found, counting", "maintenance  create", "over 1 ms", "longest  inserts  during")
			report := verb(t, "report "+record).stdout
			contains(t, report, "rows counted of")
			if text := readFile(t, page); len(text) < 10_000 || strings.Contains(report, "not verified") {
				t.Errorf("page of %d bytes, report: %s", len(text), report)
			}
			break
		}
		if speed < 200 {
			t.Fatalf("8 hours passed in %v with %v, of which %v during the inserts, %d rows, %d of them dropped", most, f.Actions, events, f.Rows, f.Dropped)
		}
	}
	if v := rec.End.Verified; !v.Counted || !v.Sound() || v.Found != f.Rows {
		t.Errorf("verified: %+v", v)
	}
}

// TestBenchKeepBaseline checks that the same inserts are made first without maintenance, and that
// both are proven and shown.
func TestBenchKeepBaseline(t *testing.T) {
	t.Parallel()
	file := keepFile(t, "4d")
	record := filepath.Join(filepath.Dir(file), "run.jsonl")
	mustPass(t, verb(t, "apply --yes "+file))
	s := benched(t, "keep --with-run --baseline --rate 500/s --writers 1 --batch 5 --interval 100ms --time 400ms --speed 7200 "+file, "--out", record)
	contains(t, s.stdout, "from due", "unmaintained p50")
	recs := records(t, record)
	for i, rec := range recs {
		if k := rec.End.Keep; i > 1 || rec.End.Verified == nil || !rec.End.Verified.Sound() || len(k.Actions) > 0 && rec.Run.Side == result.Unmaintained || (i == 0) != (rec.Run.Side == result.Unmaintained) {
			t.Errorf("run %d, %q: %+v, %+v", i, rec.Run.Side, rec.End.Verified, k)
		}
	}
	contains(t, verb(t, "report "+record).stdout, "none, to compare with", "Inserts beside maintenance: keep readings")
}

// TestBenchKeepBehind runs the clock faster than maintenance can follow: a period every
// 36 ms. What is due before the first insert and after the last one must still end.
func TestBenchKeepBehind(t *testing.T) {
	t.Parallel()
	file := keepFile(t, "10d")
	mustPass(t, verb(t, "apply --yes "+file))
	s := verb(t, "bench keep --with-run --rate 500/s --writers 1 --batch 5 --speed 100000 --time 500ms "+file)
	wantDone(t, s)
	contains(t, s.stdout, "acknowledged", "found")
}

// TestBenchKeepRefuses checks that a table is refused which has not been applied, or
// whose rows are in the future.
func TestBenchKeepRefuses(t *testing.T) {
	t.Parallel()
	file := keepFile(t, "12h")
	wantFailure(t, verb(t, "bench keep none.toml"), exitFailed, "read the declaration")
	wantFailure(t, verb(t, "bench keep --baseline "+file), exitUsage, "--baseline: the process that keeps the table can't be told to wait", "--with-run")
	wantFailure(t, verb(t, "bench keep --with-run "+file), exitFailed, "has not been applied", "rowmill apply")
	mustPass(t, verb(t, "apply --yes "+file))
	db := openKeeper(t, "sqlite:"+filepath.Join(filepath.Dir(file), "kept.db"))
	table := &engine.Table{Name: "readings", By: "ts"}
	later := rolling.Position(time.Now().Add(2 * time.Hour))
	parts, err := db.Catalog().Partitions(t.Context(), table)
	must(t, err)
	at := slices.IndexFunc(parts, func(p rolling.Partition) bool { return p.Contains(later) })
	execSQL(t, db, fmt.Sprintf("INSERT INTO readings_%s VALUES (1, %s, 1)", parts[at].Name, db.Words().Literal(table, later)))
	wantFailure(t, verb(t, "bench keep "+file), exitFailed, "in the future")
}

// TestBenchKeepSparesRows checks that the clock of a benchmark can't make the rows of
// a table in use exceed their retention.
func TestBenchKeepSparesRows(t *testing.T) {
	t.Parallel()
	file := keepFile(t, "6h")
	clockFile := filepath.Join(filepath.Dir(file), "clock.txt")
	mustPass(t, verb(t, "apply --yes "+file))
	benched(t, "keep --with-run --rate 100/s --time 1s "+file)
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
		wantFailure(t, verb(t, "bench keep --speed 12000 --time 2s "+file, how...), exitFailed, "retention drops them", "sandbox:")
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
	mustPass(t, verb(t, "apply --yes "+file))
	s := verb(t, "bench keep --speed 20000 --rate 200/s --writers 1 --time 20s --interval 500ms "+file, "--clock", clockFile)
	wantFailure(t, s, exitFailed)
	contains(t, s.stdout, "row outside every period", "does rowmill run keep the table?")
	text := strings.TrimSpace(string(readFile(t, clockFile)))
	if at, err := time.Parse(time.RFC3339, text); err != nil || at.Before(time.Now()) {
		t.Errorf("the clock ended at %s: %v", text, err)
	}
}
