package report_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// scanned returns the record of a way whose times are a fixed one and one for each partition, in
// ms.
func scanned(way, target string, repeat int, fixed, each float64) result.Record {
	rec := result.Record{Source: "scan.jsonl", Run: result.Run{
		Type: "run", Format: result.Format, Name: fmt.Sprintf("scan %s on mariadb #%d", way, repeat), Rowmill: "v0.1.0", Benchmark: result.Benchmark{
			Workload: "scan",
			Layout:   "plain",
			Scan:     &result.Scan{Way: way, Partitions: 100, TableRows: 4_000_000, Sessions: 2, Ways: result.ScanWays(), Query: "SELECT i1, SUM(qty*price) FROM fact WHERE i1 IN (0,...) GROUP BY i1"},
		}, Repeat: repeat,
		Started: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC), Load: result.Load{Writers: 1, IntervalSeconds: 1},
		Database: result.Database{Target: target, Engine: "mariadb", ServerVersion: "10.11.19", CacheBytes: 1 << 30},
		Machine:  result.Machine{Cores: 2, CPU: "EPYC 7B13", MemoryBytes: 8 << 30, Kernel: "6.1.0", OS: "linux", Arch: "amd64"},
	}}
	iv := result.Interval{Type: "interval", Elapsed: 1, Seconds: 1, Latency: map[string]result.Histogram{}}
	for _, n := range []int{1, 50, 100} {
		for k := range 3 {
			iv.Rows++
			iv.Events = append(iv.Events, result.Event{Elapsed: 0.1 * float64(iv.Rows), Seconds: (fixed + each*float64(n) + float64(k-1)) / 1000, What: result.ScanEvent, Object: fmt.Sprint(n)})
		}
	}
	iv.NewRows = iv.Rows
	rec.Intervals = []result.Interval{iv}
	rec.End = &result.End{Type: "summary", Stopped: "rows"}
	return rec
}

func scanRecords() []result.Record {
	const target = "sandbox:mariadb?memory=1GB"
	return []result.Record{scanned(result.ScanSerial, target, 1, 0, 12), scanned(result.ScanParallel, target, 1, 2, 6.2), scanned(result.ScanServe, target, 1, 3, 6.2),
		scanned(result.ScanServe, target, 2, 3, 6.2), scanned(result.ScanParallel, target, 2, 2, 6.2), scanned(result.ScanSerial, target, 2, 0, 12)}
}

func TestScanReport(t *testing.T) {
	recs := scanRecords()
	for _, format := range []string{"txt", "md"} {
		golden(t, "scan."+format, func(w io.Writer) error {
			_, err := fmt.Fprint(w, render(t, format, recs))
			return err
		})
	}
	if page := render(t, "html", recs); !strings.Contains(page, "through rowmill serve") || !strings.Contains(page, "<svg") {
		t.Error("the page has no chart")
	}
	pngOf(t, document.PNGOptions{}, recs, 1200, 675)
	var b strings.Builder
	if err := report.JSON(&b, recs); err != nil {
		t.Fatal(err)
	}
	var got report.Summaries
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got.Grid == nil || len(got.Runs) != 6 || got.Runs[0].Scan == nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	cells := got.Grid.Cells // three ways at 1, 50 and 100 partitions
	if len(cells) != 9 || cells[0].Ratio != nil || cells[7].Runs != 2 || !slices.Equal(cells[7].Levels, []string{"MariaDB", "100", "split by rowmill"}) {
		t.Fatalf("%+v", cells)
	}
	if gain, over := *cells[7].Ratio, cells[2].Figures["seconds"]-cells[0].Figures["seconds"]; gain < 1.92 || gain > 1.94 || over > -0.0027 || over < -0.0029 {
		t.Errorf("gain %v, overhead %v", gain, over)
	}
}

// TestScanReportOfOddRecords checks records of one way, without answers, of several servers and of
// queries that weren't split.
func TestScanReportOfOddRecords(t *testing.T) {
	one := scanned(result.ScanParallel, "a", 1, 1, 1)
	if text := render(t, "txt", []result.Record{one}); !strings.Contains(text, "Split by rowmill reads 100 partitions of 4,000,000 rows in 101 ms") && !strings.Contains(text, "split by rowmill reads 100 partitions") {
		t.Error(text)
	}
	whole := scanned(result.ScanParallel, "a", 1, 1, 1)
	whole.Run.Scan.Whole = "the server itself uses 4 processes for it"
	other := scanned(result.ScanSerial, "b", 1, 1, 1)
	killed := scanned(result.ScanServe, "a", 1, 1, 1)
	killed.End, killed.Intervals = nil, nil
	text := render(t, "txt", []result.Record{scanned(result.ScanSerial, "a", 1, 1, 1), whole, other, killed})
	for _, want := range []string{"passed to the server whole: the server itself uses 4 processes", "scan serve on mariadb #1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Through rowmill serve:") {
		t.Errorf("a way without answers is reported:\n%s", text)
	}
	if _, err := report.New([]result.Record{killed}); err == nil {
		t.Error("a record without answers was reported")
	}
	mixed := synthetic(t, course{name: "x", layout: "plain", rows: 10_000, rate: func(float64) float64 { return 1000 }})
	if _, err := report.New([]result.Record{one, mixed}); err == nil || !strings.Contains(err.Error(), "apart") {
		t.Error(err)
	}
}

// TestScanRounds: on a machine that is slower in some rounds, gains are those within a round.
func TestScanRounds(t *testing.T) {
	var recs []result.Record
	for i, slow := range []float64{1, 1, 2, 2, 3} {
		recs = append(recs, scanned(result.ScanSerial, "a", i+1, 0, 12*slow))
		if i > 0 { // the first round was broken off
			recs = append(recs, scanned(result.ScanParallel, "a", i+1, 0, 6*slow))
		}
	}
	var b strings.Builder
	if err := report.JSON(&b, recs); err != nil {
		t.Fatal(err)
	}
	var got report.Summaries
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if gain := *got.Grid.Cells[len(got.Grid.Cells)-1].Ratio; gain < 1.999 || gain > 2.001 { // that of the medians is 1.5
		t.Errorf("gain %v, want 2", gain)
	}
}

// TestScanNoise: what the fewest partitions cost is said only if the rounds show it.
func TestScanNoise(t *testing.T) {
	var recs []result.Record
	for i, fixed := range []float64{1, 9, 30} {
		recs = append(recs, scanned(result.ScanSerial, "a", i+1, 31-fixed, 12), scanned(result.ScanParallel, "a", i+1, fixed, 6))
	}
	if text := render(t, "txt", recs); strings.Contains(text, "shorter at 1 partition") || strings.Contains(text, "longer at 1 partition") {
		t.Error(text)
	}
}
