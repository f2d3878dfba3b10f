package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// figureLines returns the lines of figures of the insert benchmark's columns.
func figureLines(text string) []string {
	return regexp.MustCompile(`(?m)^[0-9.]+(\t[0-9.]+){16}$`).FindAllString(text, -1)
}

// TestIbench checks every step on every server: the final proof, a size that stays
// within 1%, and interval lines that the record gives again.
func TestIbench(t *testing.T) {
	if apart(t) {
		return
	}
	queryTime := "200ms"
	if testdb.Nightly() {
		queryTime = "400ms"
	}
	for _, kind := range testdb.OneKind(t, "sqlite", "mariadb", "mariadb-rocksdb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			target := "sqlite:?durability=none&cache=16MB"
			if kind != "sqlite" {
				target = testdb.Target(t, kind).String()
			}
			t.Chdir(t.TempDir())
			s := benched(t, "ibench --rows 10k --interval 50ms --interval-format ibench --out run.jsonl --html run.html --md run.md --json",
				"--target", target, "--query-time", queryTime)
			runs, lines := summaries(t, s), figureLines(s.stderr)
			if len(runs) != len(workload.IbenchSteps()) {
				t.Fatalf("%d steps", len(runs))
			}
			var held, deleted int64
			for i, name := range workload.IbenchSteps() {
				checkStep(t, name, &runs[i], held)
				held = runs[i].Step.EndRows
				if runs[i].Step.SLA != nil { // a step with queries
					deleted += runs[i].Beside["delete"].Rows
				}
			}
			if deleted == 0 {
				t.Error("no step with queries deleted a row")
			}
			proven(t, "the last step", runs[len(runs)-1].Verified, held)
			if got := figureLines(verb(t, "report run.jsonl --interval-format ibench").stdout); len(got) == 0 || !slices.Equal(got, lines) {
				t.Errorf("the record's lines differ from those of the run:\n%s\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
			}
			contains(t, verb(t, "report run.jsonl").stdout, "11 of 11 steps", "Operations by response time", "qp1000 query", "create index purchases.pdc",
				"deletes kept the tables within")
			nothingLeft(t)
		})
	}
}

// checkStep checks a step that began with start rows in the tables.
func checkStep(t *testing.T, name string, r *result.Summary, start int64) {
	t.Helper()
	s := r.Step
	if s == nil || s.Name != name || s.StartRows != start || r.Errors > 0 && r.Failure != "" {
		t.Fatalf("%s: %+v", name, r)
	}
	deletes, queries := strings.HasPrefix(name, "q") || name == "l.i1" || name == "l.i2", strings.HasPrefix(name, "q")
	// On a busy machine, a short step with queries may end before its first delete.
	if got := r.Beside["delete"].Rows; deletes != (got > 0) && !(queries && got == 0) {
		t.Errorf("%s deleted %d rows", name, got)
	}
	if got := r.Beside["query"].Operations; queries != (got > 0) {
		t.Errorf("%s asked %d queries", name, got)
	}
	if deletes && (s.Held == nil || s.Held.Off > 0.01 || s.Held.Least < s.KeepRows || s.EndRows != start+r.Rows-r.Beside["delete"].Rows) {
		t.Errorf("%s held %+v of %d rows, %d at the end", name, s.Held, s.KeepRows, s.EndRows)
	}
	if queries != (s.SLA != nil) {
		t.Errorf("%s: SLA %+v", name, s.SLA)
	}
	for op, counts := range s.Buckets {
		var n int64
		for _, c := range counts {
			n += c
		}
		if n != r.LatencyUS[op].Count {
			t.Errorf("%s: %d operations %s in buckets, %d in all", name, n, op, r.LatencyUS[op].Count)
		}
	}
	if name == "l.x" && len(s.Did) != 3 {
		t.Errorf("l.x did %v", s.Did)
	}
}

// TestIbenchGoesOn checks that later steps continue on existing tables, and only on
// those that were filled with the same seed.
func TestIbenchGoesOn(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	steps := func(steps string) session {
		return verb(t, "bench ibench --target sqlite:here.db?durability=none --rows 10k --query-time 100ms --interval 25ms --clients 2 --json --out run.jsonl --steps "+steps)
	}
	wantFailure(t, steps("qp100"), exitFailed, "does not exist")
	mustPass(t, steps("l.i0"))
	wantFailure(t, steps("qr100"), exitFailed, "no secondary indexes")
	wantFailure(t, steps("l.i0"), exitFailed, "--drop-existing")
	wantFailure(t, steps("l.x --seed 2"), exitFailed, "not what seed 2 gives")
	mustPass(t, steps("l.x,l.i1"))
	for range 2 {
		s := steps("l.i2,qr100,qp500")
		mustPass(t, s)
		runs := summaries(t, s)
		proven(t, "the last step", runs[2].Verified, runs[2].Step.EndRows)
	}
}

// TestIbenchInterrupted checks that an interrupt ends the step, and that its measurements are kept.
func TestIbenchInterrupted(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	s := interruptedAt(t, `ibench qr100 on.*\n.*\n.*\n`, strings.Fields("bench ibench --target sqlite:?durability=none --rows 5k --query-time 1m --interval 50ms --out run.jsonl")...)
	wantFailure(t, s, exitInterrupted)
	recs := records(t, "run.jsonl")
	last := recs[len(recs)-1]
	if len(recs) != 6 || last.Run.Step.Name != "qr100" || last.End == nil || last.End.Stopped != "interrupted" {
		t.Errorf("%d steps, the last ended %+v", len(recs), last.End)
	}
	contains(t, s.stdout, "6 of 11 steps", "interrupted")
	// A record whose end is missing, as after kill -9, can be read too.
	text := readFile(t, "run.jsonl")
	writeFile(t, "cut.jsonl", string(text[:len(text)-len(text)/20]))
	cut := verb(t, "report cut.jsonl --md cut.md")
	mustPass(t, cut)
	contains(t, cut.stdout, "cut off")
	nothingLeft(t)
}

// TestKeepRows checks that deletes on a plain table and drops on a rolling one keep
// the same rows while readers run, and that the report compares the two.
func TestKeepRows(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	for _, target := range []string{"sqlite:?durability=none&cache=16MB", mariadb(t)} {
		s := benched(t, "insert --layout plain,rolling --rows 12k --keep-rows 4k --batch 50 --writers 2 --readers 2 --read-after 2k --interval 50ms --out run.jsonl --md run.md --target "+target)
		for i, rec := range records(t, "run.jsonl") {
			v, held, queries := rec.End.Verified, rec.Held(), rec.Summary().Beside["query"]
			gone := rec.End.DeletedRows + rec.End.DroppedRows
			if v == nil || !v.Checksum || v.Found+gone != 12000 || (rec.End.DeletedRows > 0) != (i == 0) {
				t.Errorf("%s, %s: verified %+v, %d rows gone", target, rec.Run.Layout, v, gone)
			}
			if held == nil || held.Least < 4000 || i == 0 && held.Most > rec.Run.HeldRows[1] {
				t.Errorf("%s, %s: held %+v, bounds %v", target, rec.Run.Layout, held, rec.Run.HeldRows)
			}
			if queries.Operations == 0 {
				t.Errorf("%s, %s: no queries", target, rec.Run.Layout)
			}
		}
		contains(t, s.stdout, "Constant size", "drops of periods", "deletes", "4,000 to 4,150", "bloat")
	}
}
