package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

func cellsOf(t *testing.T, a, b []result.Record) (report.Comparison, *report.Comparison, string) {
	t.Helper()
	c, err := report.Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var text, data bytes.Buffer
	if err := errors.Join(c.Document().Text(&text), c.Document().JSON(&data)); err != nil {
		t.Fatal(err)
	}
	var out report.Comparison
	if err := json.Unmarshal(data.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out, c, text.String()
}

// Records of points measured before and after a change are compared cell by cell, over pairs of
// repeats.
func TestComparePoints(t *testing.T) {
	runs := func(source string, rate float64, noise ...float64) (out []result.Record) {
		for repeat, factor := range noise {
			for _, clients := range []int{1, 8} {
				r := rate
				if clients == 1 {
					r = 1
				}
				m := madeCell{operation: "points", engine: "mariadb", clients: clients, setting: "x=A", repeat: repeat + 1, p99: 900, client: 1, server: 9,
					rate: 5000 * float64(clients) * r * factor}
				rec := m.record(t)
				rec.Source = source
				out = append(out, rec)
			}
		}
		return out
	}
	a, b := runs("old.jsonl", 1, 1, 1.02, 0.98, 1.01, 0.99), runs("new.jsonl", 0.5, 1.02, 0.99, 1, 0.98, 1.01)
	got, c, text := cellsOf(t, a, b)
	if len(got.Cells) != 2 || got.Cells[0].Verdict != statistics.Slower || math.Abs(*got.Cells[0].Ratio-0.5) > 0.03 || len(got.Cells[0].Repeats) != 5 ||
		got.Cells[0].Interval == nil || got.Cells[1].Verdict != statistics.NoDifference || strings.Contains(text, "not proven") {
		t.Errorf("%s", text)
	}
	if slower, err := c.Regression(0.1); !strings.HasPrefix(slower, "clients=8, queries/s runs at 0.5") || err != nil {
		t.Errorf("%q, %v", slower, err)
	}
	// Without repeats, and with repeats that differ as much as the sides, nothing can be judged.
	for name, sides := range map[string][2][]result.Record{"one run": {a[:2], b[:2]}, "noise": {runs("old.jsonl", 1, 1, 1.5), runs("new.jsonl", 0.8, 1.3, 0.8)}} {
		_, c, text := cellsOf(t, sides[0], sides[1])
		var unjudged *report.Unjudged
		if _, err := c.Regression(0.1); !errors.As(err, &unjudged) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// Both parts of a mixed rate are compared, contenders with themselves, and cells of one side are
// listed.
func TestCompareMixed(t *testing.T) {
	recs := matrix(t)
	got, _, text := cellsOf(t, recs, recs[1:])
	for _, want := range []string{"operation=mixed clients=8 contender=MariaDB, selects/s", "operation=select-pk clients=4 contender=PostgreSQL, queries/s",
		"Left out: A: operation=insert clients=1 contender=MariaDB, rows/s (no counterpart)", "can't be judged"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if len(got.Cells) != 17 {
		t.Errorf("%d cells\n%s", len(got.Cells), text)
	}
	if _, err := report.Compare(recs, scanRecords()); err == nil || !strings.Contains(err.Error(), "nothing in common") {
		t.Errorf("a speed test with scans: %v", err)
	}
}

// The ratio of a scan is that of its speeds: a time twice as long is slower. Tables of other sizes
// are flagged.
func TestCompareScans(t *testing.T) {
	slow := scanRecords()
	for i := range slow {
		slow[i].Source, slow[i].Run.Target = "slow.jsonl", "other"
		slow[i].Run.Scan = &result.Scan{Way: slow[i].Run.Scan.Way, Partitions: 100, TableRows: 5_000_000, Sessions: 2}
		iv := &slow[i].Intervals[0]
		for k := range iv.Events {
			iv.Events[k].Seconds *= 2
		}
	}
	got, _, text := cellsOf(t, scanRecords(), slow)
	if len(got.Cells) != 9 || got.Verdict != statistics.Slower || math.Abs(*got.Overall-0.5) > 1e-9 || *got.Cells[0].B <= *got.Cells[0].A {
		t.Errorf("%s", text)
	}
	for _, want := range []string{"partitions=100 way=through rowmill serve, time", "different tables, rows or durations: 4,000,000 rows in 100 partitions against 5,000,000 rows"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
