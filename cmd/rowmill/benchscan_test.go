package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// TestBenchScan measures all ways on a small table, and reports the record again.
func TestBenchScan(t *testing.T) {
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
			if len(got.Scans) != 1 || len(got.Runs) != 2*len(ways) {
				t.Fatalf("%s", s.stdout)
			}
			var measured []string
			for _, w := range got.Scans[0].Ways {
				measured = append(measured, w.Way)
				var at []int
				for _, p := range w.Points {
					at = append(at, p.Partitions)
					if p.Times != 6 || p.Seconds <= 0 {
						t.Errorf("%s: %+v", w.Way, p)
					}
				}
				if !slices.Equal(at, []int{1, 3, 6, 7}) {
					t.Errorf("%s was measured at %v", w.Way, at)
				}
			}
			if !slices.Equal(measured, ways) {
				t.Errorf("measured %v, want %v", measured, ways)
			}
			for _, rec := range records(t, "scan.jsonl") {
				if rec.End == nil || rec.End.Stopped != "rows" || len(rec.Run.Schema) == 0 || rec.Run.Scan == nil {
					t.Errorf("%+v", rec.Run)
				}
			}
			if s := verb(t, "report scan.jsonl"); s.code != exitDone || !strings.Contains(s.stdout, "times as fast at 7 partitions") {
				t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
			}
			if st, err := os.Stat("scan.png"); err != nil || st.Size() == 0 {
				t.Error(err)
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
