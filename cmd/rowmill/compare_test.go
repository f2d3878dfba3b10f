package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/result"
)

// writeRuns writes one record of several runs. Each has its rate over 20k rows, with small
// variations, and the hundred marks of a run. edit may change the header of the i-th run.
func writeRuns(t *testing.T, path string, rates []float64, edit func(i int, r *result.Run)) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	w := result.NewWriter(f)
	for i, rate := range rates {
		run := result.Run{Name: "classic plain", Benchmark: result.Benchmark{Workload: "insert", Preset: "classic", Layout: "plain"}, Database: result.Database{Engine: "mariadb", Durability: "full"}, Load: result.Load{Writers: 1, Batch: 100}}
		if edit != nil {
			edit(i, &run)
		}
		iv := result.Interval{Rows: 20_000, NewRows: 20_000}
		for m := range 100 {
			iv.Elapsed += 200 / rate * (1 + 0.2*math.Sin(float64(m+17*i)))
			iv.Marks = append(iv.Marks, [2]float64{float64(200 * (m + 1)), iv.Elapsed})
		}
		iv.Seconds = iv.Elapsed
		err = errors.Join(err, w.Run(run), w.Interval(iv),
			w.End(result.End{Stopped: "rows", Verified: &result.Verified{Expected: 20_000, Found: 20_000, Checksum: true}}))
	}
	must(t, errors.Join(err, f.Close()))
}

func TestCompareCommand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeRecord(t, dir, "short.jsonl", 1000)
	writeRecord(t, dir, "shorter.jsonl", 900)
	writeRuns(t, "before.jsonl", []float64{1000}, nil)
	writeRuns(t, "after.jsonl", []float64{900}, nil)
	// Repeats whose pairs differ by 2% about the same ratio.
	writeRuns(t, "before5.jsonl", []float64{1000, 1100, 900, 1000, 1050}, nil)
	writeRuns(t, "after5.jsonl", []float64{910, 970, 820, 890, 950}, nil)
	writeRuns(t, "before2.jsonl", []float64{1000, 1000}, nil)
	writeRuns(t, "half2.jsonl", []float64{450, 570}, nil)
	writeRuns(t, "wild2.jsonl", []float64{1300, 900}, nil)
	writeRuns(t, "same5.jsonl", []float64{1010, 1080, 920, 990, 1060}, nil)
	writeRuns(t, "two.jsonl", []float64{1000, 2000, 2100, 1000}, func(i int, r *result.Run) {
		r.Layout, r.Repeat = []string{"plain", "rolling", "rolling", "plain"}[i], []int{1, 1, 2, 2}[i]
		r.Name = "classic " + r.Layout
	})
	writeRuns(t, "sides.jsonl", []float64{1000, 900}, func(i int, r *result.Run) { r.Side, r.Batch = []string{"B", "A"}[i], 10 })
	writeRuns(t, "batches.jsonl", []float64{1000, 900, 800}, func(i int, r *result.Run) { r.Batch = []int{1, 10, 100}[i] })
	check(t, "compare", []line{
		{"text", "before.jsonl after.jsonl", 0, "B is slower by 10%", ""},
		{"too short for an interval", "short.jsonl shorter.jsonl", 0, "Over 18k rows B runs at 0.90x the rate of A; the runs are too short", ""},
		{"one run on each side says so", "before.jsonl after.jsonl", 0, "not how runs differ from each other", ""},
		{"csv", "before.jsonl after.jsonl --csv -", 0, "cell,against,rows,runs,figure,unit,a,b,ratio,", ""},
		{"json", "before.jsonl after.jsonl --json", 0, `"format": "rowmill.comparison/3"`, ""},
		{"page", "before.jsonl after.jsonl --html -", 0, "<title>", ""},
		{"page beside the text", "before.jsonl after.jsonl --html page.html", 0, "B is slower by 10%", ""},
		{"page and json on standard output", "before.jsonl after.jsonl --html - --json", 2, "", "--json and --html can't both be standard output"},
		{"repeats", "before5.jsonl after5.jsonl", 0, "The interval is judged by how 5 pairs of runs differ", ""},
		{"repeats that differ", "before5.jsonl after5.jsonl", 0, "B is slower by 10%", ""},
		{"repeats that don't", "before5.jsonl same5.jsonl", 0, "No difference shown over 20k rows", ""},
		{"more repeats on one side", "before.jsonl after5.jsonl", 0, "Left out: B: classic plain (no counterpart)", ""},
		{"layouts of one record", "two.jsonl", 0, "B is faster by 105%", ""},
		{"layouts of one record, by name", "two.jsonl --a layout=rolling --b layout=plain", 0, "B is slower by 51%", ""},
		{"sides of one record", "sides.jsonl", 0, "B is faster by 11%", ""},
		{"batches of one record", "batches.jsonl --a batch=1,layout=plain --b batch=100", 0, "B is slower by 20%", ""},
		{"three in one record", "batches.jsonl", 2, "", "holds 3 configurations (classic"},
		{"one record of one", "before.jsonl", 2, "", "holds 1 configuration (classic"},
		{"both sides", "batches.jsonl --a batch=1 --b layout=plain", 2, "", "would be on both sides"},
		{"none chosen", "batches.jsonl --a batch=1 --b batch=7", 2, "", "--b batch=7: batches.jsonl holds no such run"},
		{"one side of one record", "batches.jsonl --a batch=1", 2, "", "give both --a and --b"},
		{"an unknown field", "batches.jsonl --a colour=red --b batch=1", 2, "", `no field "colour": there are batch, `},
		{"no field", "batches.jsonl --a red --b batch=1", 2, "", "not of the form FIELD=VALUE"},
		{"a regression", "before5.jsonl after5.jsonl --threshold 5%", 3, "B is slower", "classic plain runs at 0.899 of the rate in before5.jsonl, more than 5% slower"},
		{"a regression within the threshold", "before5.jsonl after5.jsonl --threshold 0.15", 0, "B is slower", ""},
		{"no regression", "before5.jsonl same5.jsonl --threshold 0", 0, "No difference shown", ""},
		{"faster", "after5.jsonl before5.jsonl --threshold 0", 0, "B is faster", ""},
		{"too short to judge", "short.jsonl shorter.jsonl --threshold 5%", 4, "too short", "can't be judged"},
		{"two pairs of half the rate", "before2.jsonl half2.jsonl --threshold 5%", 4, "Too few runs to tell over 20k rows", "can't be judged: it runs at 0.51x the rate in before2.jsonl, but the interval, "},
		{"two pairs that may hide half the rate", "before2.jsonl wild2.jsonl --threshold 0", 4, "would hide even half the rate", "Try: --repeat 5"},
		{"no share", "before.jsonl after.jsonl --threshold 500%", 2, "", "is not a share below 1"},
		{"no record", "", 2, "", "compare takes two run records"},
		{"three records", "a b c", 2, "", "Try: rowmill compare before.jsonl after.jsonl"},
		{"a missing file", "before.jsonl none.jsonl", 1, "", "none.jsonl: no such file"},
		{"out without repeat", "before.jsonl after.jsonl --out x", 2, "", "--out requires --repeat"},
		{"out over what is compared", "before.jsonl after.jsonl --repeat 2 --out after.jsonl", 2, "", "--out can't both be after.jsonl"},
		{"a negative repeat", "before.jsonl after.jsonl --repeat -1", 2, "", "want 0 or more"},
		{"records without a spec", "before.jsonl after.jsonl --repeat 2 --yes", 2, "", "its record has no spec"},
	})
}

// TestBenchRepeat checks that layouts are measured in alternating order, and that one
// record holds all runs.
func TestBenchRepeat(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	s := benched(t, "insert --rows 2k --layout plain,rolling --period-rows 500 --repeat 3 --out run.jsonl --html run.html --png run.png --md run.md")
	var order []string
	for _, r := range records(t, "run.jsonl") {
		order = append(order, r.Run.Name)
		proven(t, r.Run.Name, r.End.Verified, 2000)
	}
	want := []string{"classic plain on sqlite #1", "classic rolling on sqlite #1", "classic rolling on sqlite #2",
		"classic plain on sqlite #2", "classic plain on sqlite #3", "classic rolling on sqlite #3"}
	if !slices.Equal(order, want) {
		t.Errorf("order %q", order)
	}
	contains(t, s.stdout, "Plain, the median of 3 runs,", "plain, 3 runs", "rolling #2")
	contains(t, s.stderr, "#2 of 3")
	contains(t, verb(t, "compare run.jsonl").stdout, "3 pairs")
}

// TestCompareRepeat checks that both commands are run again alternately after the plan
// is confirmed, and that the new records can be compared and repeated again.
func TestCompareRepeat(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	benched(t, "insert --target sqlite:t.db --rows 2k --batch 100 --layout plain,rolling --period-rows 500 --out a.jsonl")
	benched(t, "insert --rows 2k --batch 20 --out b.jsonl --json")
	forgetCommands(t, "a.jsonl")
	forgetCommands(t, "b.jsonl")
	line := strings.Fields("compare a.jsonl b.jsonl --a layout=plain --repeat 3 --out both.jsonl")
	answered := func(answer string) session {
		var out, errs bytes.Buffer
		code := run(t.Context(), line, strings.NewReader(answer), &out, &errs)
		return session{code, out.String(), errs.String()}
	}
	for _, no := range []string{"", "\n", "n\n", "maybe\n"} {
		wantFailure(t, answered(no), exitUsage, "nothing was done", "--yes")
		if _, err := os.Stat("both.jsonl"); err == nil {
			t.Fatalf("answer %q: something was run", no)
		}
	}
	s := answered("y\n")
	mustPass(t, s)
	contains(t, s.stderr, "Runs 6 benchmarks, 3 of each", "A  classic layout plain: batch=100 ", "B  classic layout plain: batch=20 ", " rows=2000 ", "DROPS there, with all rows, and creates again for each run: purchases",
		"on sqlite:t.db", "created for each run and removed afterwards", "B: classic plain on sqlite #2 of 3")
	contains(t, s.stdout, "3 pairs", "different batch: 100 against 20")
	var order []string
	for _, r := range records(t, "both.jsonl") {
		order = append(order, r.Run.Side)
		if r.Run.Layout != "plain" || r.End == nil || !r.End.Verified.Checksum {
			t.Errorf("%s: layout %s, end %+v", r.Run.Name, r.Run.Layout, r.End)
		}
	}
	if got := strings.Join(order, ""); got != "ABBAAB" {
		t.Errorf("order %s", got)
	}
	contains(t, verb(t, "compare both.jsonl --json").stdout, `"interval_from": "between runs"`)
	contains(t, verb(t, "compare both.jsonl --repeat 1 --yes --threshold 99%").stderr, "of so few runs even half the rate may not be shown", "records of these runs are not kept")
	contains(t, verb(t, "compare b.jsonl b.jsonl --repeat 2").stderr, "compares a configuration with itself")
}

// TestCompareUnrepeatable checks that configurations that can't be run again are
// refused, before a question is asked or anything is changed.
func TestCompareUnrepeatable(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for i, c := range []struct{ spec, says string }{
		{"", "has no spec: rowmill , which wrote it"},
		{`{"workload":"steady","targets":["null:"]}`, "a run of bench steady"},
		{`{"workload":"insert","targets":["null:"],"warp":9}`, "doesn't fit this version of rowmill"},
		{`{"workload":"insert","targets":["null:"],"layouts":["rolling"]}`, "doesn't make its layout"},
		{`{"workload":"insert","targets":["oracle:x"],"layouts":["plain"]}`, "unknown scheme"},
		{`{"workload":"insert","targets":["null:"],"layouts":["plain"],"rows":9,"writers":1,"interval":"1s","preset":"gone"}`, "unknown preset"},
		{`{"workload":"insert","targets":["null:"],"layouts":["plain"],"rows":9,"writers":1,"interval":"1s","find-rate":true}`, "a search for a rate"},
	} {
		path := filepath.Join(dir, "r.jsonl")
		writeRuns(t, path, []float64{1000}, func(_ int, r *result.Run) {
			if c.spec != "" {
				r.Spec = []byte(c.spec)
			}
		})
		s := verb(t, "compare --repeat 2 --yes", path, path)
		wantFailure(t, s, exitUsage, c.says)
		if strings.Contains(s.stderr, "Runs 2") {
			t.Errorf("%d: it asked first: %s", i, s.stderr)
		}
	}
}

// TestCompareRepeatInterrupted checks that the completed pairs are compared, the
// records are kept, and the exit code reports the interrupt.
func TestCompareRepeatInterrupted(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	benched(t, "insert --max-time 300ms --interval 100ms --batch 10 --out a.jsonl")
	s := interruptedAt(t, `B: [^\n]* #2 of 50`, strings.Fields("compare a.jsonl a.jsonl --repeat 50 --yes --out both.jsonl --threshold 0")...)
	wantFailure(t, s, exitInterrupted, "interrupted")
	if recs := records(t, "both.jsonl"); len(recs) != 3 || !strings.Contains(s.stdout, "seconds to") {
		t.Errorf("%d records\n%s", len(recs), s.stdout)
	}
	nothingLeft(t)
}
