package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/reference"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// TestBenchScan measures all ways on a small table, and reports the record again.
func TestBenchScan(t *testing.T) {
	if apart(t) {
		return
	}
	for _, kind := range testdb.Kinds(t, keepers...) {
		t.Run(kind, func(t *testing.T) {
			url := "sqlite:"
			ways := []string{result.ScanSerial, result.ScanParallel}
			if kind != "sqlite" {
				url = testdb.Target(t, kind).String()
			}
			if kind == "mariadb" || kind == "mysql" {
				ways = result.ScanWays()
			}
			t.Chdir(t.TempDir())
			s := benched(t, "scan --target "+url+" --rows 2k --partitions 7 --step 3 --repeat 2 --out scan.jsonl --png scan.png --json")
			var got report.Summaries
			must(t, json.Unmarshal([]byte(s.stdout), &got))
			if got.Grid == nil || len(got.Grid.Cells) != 4*len(ways) || len(got.Grid.Factors[2].Levels) != len(ways) || len(got.Runs) != 2*len(ways) {
				t.Fatalf("%s", s.stdout)
			}
			for i, c := range got.Grid.Cells {
				if c.Levels[1] != []string{"1", "3", "6", "7"}[i/len(ways)] || c.Runs != 2 || c.Figures["seconds"] <= 0 {
					t.Errorf("%+v", c)
				}
			}
			for i, r := range got.Runs {
				if n := len(ways); i < n && r.Scan.Way != ways[i] || len(r.Scan.Points) != 4 || r.Scan.Points[0].Times != 3 {
					t.Errorf("%+v", r.Scan)
				}
			}
			for _, rec := range records(t, "scan.jsonl") {
				if rec.End == nil || rec.End.Stopped != "rows" || len(rec.Run.Schema) == 0 || rec.Run.Scan == nil {
					t.Errorf("%+v", rec.Run)
				}
			}
			if s := verb(t, "report scan.jsonl"); s.code != exitDone || !strings.Contains(s.stdout, "times as fast at 7 partitions") && !strings.Contains(s.stdout, "can't be told apart at 7 partitions") {
				t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
			}
			if st, err := os.Stat("scan.png"); err != nil || st.Size() == 0 {
				t.Error(err)
			}
			if s := verb(t, "bench scan --parallel 1000"); s.code != exitUsage || !strings.Contains(s.stderr, "--parallel 1000: want at most 256") {
				t.Errorf("exit %d, %s", s.code, s.stderr)
			}
			if kind == "sqlite" {
				return
			}
			if s := verb(t, "bench scan --target "+url+" --rows 2k --partitions 7"); s.code == exitDone || !strings.Contains(s.stderr, "table fact exists") || !strings.Contains(s.stderr, "--drop-existing") {
				t.Errorf("exit %d, %s", s.code, s.stderr)
			}
		})
	}
}

// TestScanScenario runs the scenario of the partition scan at a small scale: its runs have names
// and checks. A run that the record lacks is made by --resume.
func TestScanScenario(t *testing.T) {
	if apart(t) {
		return
	}
	url := mariadb(t)
	t.Chdir(t.TempDir())
	s := verb(t, "bench scenario partition-scan-2010 --scale 0.001 --interval 50ms --out run.jsonl --html run.html --md run.md --png run.png --json --target", url)
	mustPass(t, s)
	var got report.Summaries
	must(t, json.Unmarshal([]byte(s.stdout), &got))
	if len(got.Scenarios) != 1 || got.Grid == nil || len(got.Runs) != 3 {
		t.Fatal(s.stdout)
	}
	sc := got.Scenarios[0]
	if len(sc.Missing) > 0 || len(sc.Checks) != 4 {
		t.Errorf("%+v", sc)
	}
	for _, c := range sc.Checks {
		if c.Ours == nil || c.Verdict == reference.NotMeasured {
			t.Errorf("%+v", c)
		}
	}
	// The record without its last run.
	text := string(readFile(t, "run.jsonl"))
	writeFile(t, "run.jsonl", text[:strings.LastIndex(text, `{"type":"run"`)])
	s = verb(t, "bench scenario --resume run.jsonl --drop-existing")
	if s.code != exitDone || !strings.Contains(s.stdout, "through serve") {
		t.Fatalf("exit %d, %s%s", s.code, s.stdout, s.stderr)
	}
	if recs := records(t, "run.jsonl"); len(recs) != 3 || recs[2].Run.Scan.Way != result.ScanServe {
		t.Errorf("%d runs", len(recs))
	}
}
