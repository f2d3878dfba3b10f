package report_test

import (
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// sheet reads CSV: lines of equal length below a header of distinct names.
func sheet(t *testing.T, text string) (header []string, rows []map[string]string) {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(lines) < 2 {
		t.Fatalf("%d lines, %v:\n%.300s", len(lines), err, text)
	}
	header = lines[0]
	if names := slices.Compact(slices.Sorted(slices.Values(header))); len(names) != len(header) || names[0] == "" {
		t.Fatalf("header %q", header)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, v := range line {
			row[header[i]] = v
		}
		rows = append(rows, row)
	}
	return header, rows
}

// TestCSV: each stored record has a line for each interval, or for each cell of its grid, with
// plain numbers.
func TestCSV(t *testing.T) {
	t.Parallel()
	for name, columns := range map[string][]string{
		"insert":     {"file", "run", "rows_per_second", "insert_service_p99_us", "backlog"},
		"rate":       {"insert_response_p99_us"},
		"readers":    {"query_rows", "query_service_p99_us", "cache_used_bytes", "disk_read_bytes_per_s", "os_cpu_user_fraction"},
		"killserver": {"errors"},
		"steady":     {"elapsed_seconds"},
		"mixed":      {"operation", "clients", "contender", "runs", "rows_per_second", "ratio_95_low", "verdict"},
		"points_set": {"queries_per_second"},
		"matrix":     {"indexes", "batch", "rows_per_second", "rows_per_second_low"},
	} {
		recs := stored(t, name)
		header, rows := sheet(t, rendered(t, (*document.Document).CSV, recs))
		want, cells := 0, recs[0].Run.Speed != nil || recs[0].Run.Cell != nil
		for i := range recs {
			want += len(recs[i].Intervals)
		}
		if cells && len(rows) > len(recs) || !cells && len(rows) != want {
			t.Errorf("%s: %d lines of %d runs with %d intervals", name, len(rows), len(recs), want)
		}
		for _, c := range columns {
			if !slices.Contains(header, c) {
				t.Errorf("%s: no column %s in %q", name, c, header)
			}
			if !strings.HasSuffix(c, "_us") && !strings.HasSuffix(c, "_per_second") {
				continue
			}
			for i, row := range rows {
				if _, err := strconv.ParseFloat(row[c], 64); row[c] != "" && err != nil {
					t.Errorf("%s, line %d: %s is %q", name, i+2, c, row[c])
				}
			}
		}
	}
}

// TestCSVOfCells: figures, extremes and ratio of a cell, and the figures of comparisons; quotes and
// commas are kept.
func TestCSVOfCells(t *testing.T) {
	t.Parallel()
	recs := scanRecords()
	_, rows := sheet(t, rendered(t, (*document.Document).CSV, recs))
	last := rows[7]
	ratio, err := strconv.ParseFloat(last["ratio"], 64)
	if err != nil || ratio < 1.92 || ratio > 1.94 || last["seconds"] != "0.622" || last["seconds_low"] != "0.621" || last["way"] != "split by rowmill" || last["verdict"] != statistics.Faster {
		t.Errorf("%v %v", last, err)
	}
	odd := steadyRun(1000, 10)
	odd.Run.Name = "a, \"b\"\nc"
	for _, c := range []struct {
		a, b   []result.Record
		column string
	}{{[]result.Record{odd}, []result.Record{odd}, "against"}, {recs, recs, "cell"}} {
		both, err := report.Compare(c.a, c.b)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := both.Document().CSV(&out); err != nil {
			t.Fatal(err)
		}
		if _, rows := sheet(t, out.String()); rows[0][c.column] == "" || rows[1]["ratio"] != "1" || c.column == "against" && rows[0]["cell"] != odd.Run.Name {
			t.Errorf("%v", rows[:2])
		}
	}
}
