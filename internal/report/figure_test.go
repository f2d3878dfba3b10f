package report

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/result"
)

func TestTexts(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"sentence", sentence("éclair fell"), "Éclair fell."},
		{"sentence that ends", sentence("Done."), "Done."},
		{"no sentence", sentence(""), ""},
		{"control characters", oneLine("a\x1b[31mb\nc"), "a [31mb c"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.name, c.got, c.want)
		}
	}
}

func TestLine(t *testing.T) {
	iv := result.Interval{Elapsed: 12, Seconds: 1, Rows: 250_000, NewRows: 25_000,
		Latency: map[string]result.Histogram{"insert": {Latency: result.Latency{Count: 25, P99: 42_000, Max: 90_000}}}}
	for _, c := range []struct {
		name  string
		edit  func(iv *result.Interval)
		total int64
		want  string
	}{
		{"rows limited", func(*result.Interval) {}, 1e6, "    12.0s         250,000    25%       25,000      42 ms      90 ms       30s"},
		{"no limit of rows", func(*result.Interval) {}, 0, "    12.0s         250,000      -       25,000      42 ms      90 ms         -"},
		{"nothing done", func(iv *result.Interval) { iv.NewRows, iv.Latency = 0, nil }, 1e6, "    12.0s         250,000    25%            0          -          -         -"},
		{"trouble", func(iv *result.Interval) { iv.Backlog, iv.Errors, iv.Retries = 1200, 1, 2 }, 0,
			"    12.0s         250,000      -       25,000      42 ms      90 ms         -  backlog 1,200, 1 error, 2 retries"},
	} {
		edited := iv
		c.edit(&edited)
		if got := Line(edited, &result.Run{Rows: c.total}); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
	brief := iv
	brief.Seconds, brief.NewRows = 0.1, 1234567
	if got := Line(brief, &result.Run{Rows: 1e6, IntervalSeconds: 1}); strings.Contains(got, figure(brief.Rate())) {
		t.Errorf("a tenth of an interval gives a rate: %q", got)
	}
	if h, l := LineHeader(), Line(iv, &result.Run{Rows: 1e6}); len(h) != len(l) {
		t.Errorf("the heading has %d columns, a line %d", len(h), len(l))
	}
}
