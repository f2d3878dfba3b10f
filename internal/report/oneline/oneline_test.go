package oneline_test

import (
	"strings"
	"testing"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/oneline"
	"github.com/rowmill/rowmill/result"
)

func TestLine(t *testing.T) {
	iv := result.Interval{Elapsed: 12, Seconds: 1, Rows: 250_000, NewRows: 25_000,
		Latency: map[string]result.Histogram{"insert": {Latency: result.Latency{Count: 25, P99: 42_000, Max: 90_000}}}}
	for _, c := range []struct {
		name  string
		edit  func(iv *result.Interval)
		total int64
		want  string
	}{
		{"rows limited", func(*result.Interval) {}, 1e6, "    12.0s         250,000    25%       25,000        42 ms        90 ms         -"},
		{"no limit of rows", func(*result.Interval) {}, 0, "    12.0s         250,000      -       25,000        42 ms        90 ms         -"},
		{"nothing done", func(iv *result.Interval) { iv.NewRows, iv.Latency = 0, nil }, 1e6, "    12.0s         250,000    25%            0            -            -         -"},
		{"trouble", func(iv *result.Interval) { iv.Backlog, iv.Errors, iv.Retries = 1200, 1, 2 }, 0,
			"    12.0s         250,000      -       25,000        42 ms        90 ms         -  backlog 1,200, errors 1, retries 2"},
	} {
		edited := iv
		c.edit(&edited)
		lines := oneline.Progress{Run: &result.Run{Load: result.Load{Rows: c.total}}}
		if got := lines.Line(edited); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
	brief, lines := iv, oneline.Progress{Run: &result.Run{Load: result.Load{Rows: 1e6, MaxTimeSeconds: 20, Rate: 100, IntervalSeconds: 1}}}
	brief.Seconds, brief.NewRows = 0.4, 1234567
	if got := lines.Line(brief); strings.Contains(got, figures.Number(brief.Rate())) {
		t.Errorf("less than half an interval gives a rate: %q", got)
	}
	// Where a rate is requested, an operation takes from when it was due.
	iv.Response = map[string]result.Histogram{"insert": {Latency: result.Latency{Count: 9, P99: 2.4e6, Max: 3e6}}}
	want := "    12.0s         250,000    60%       25,000        2.4 s          3 s        8s"
	if got := lines.Line(iv); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
	if got := lines.Header(); len(got) != len(want) || !strings.Contains(got, "p99 response max response") {
		t.Errorf("heading %q", got)
	}
}
