package report

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

func TestTexts(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"sentence", document.AsSentence("éclair fell"), "Éclair fell."},
		{"sentence that ends", document.AsSentence("Done."), "Done."},
		{"no sentence", document.AsSentence(""), ""},
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
		{"rows limited", func(*result.Interval) {}, 1e6, "    12.0s         250,000    25%       25,000        42 ms        90 ms         -"},
		{"no limit of rows", func(*result.Interval) {}, 0, "    12.0s         250,000      -       25,000        42 ms        90 ms         -"},
		{"nothing done", func(iv *result.Interval) { iv.NewRows, iv.Latency = 0, nil }, 1e6, "    12.0s         250,000    25%            0            -            -         -"},
		{"trouble", func(iv *result.Interval) { iv.Backlog, iv.Errors, iv.Retries = 1200, 1, 2 }, 0,
			"    12.0s         250,000      -       25,000        42 ms        90 ms         -  backlog 1,200, errors 1, retries 2"},
	} {
		edited := iv
		c.edit(&edited)
		lines := Lines{Run: &result.Run{Load: result.Load{Rows: c.total}}}
		if got := lines.Line(edited); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
	brief, lines := iv, Lines{Run: &result.Run{Load: result.Load{Rows: 1e6, MaxTimeSeconds: 20, Rate: 100, IntervalSeconds: 1}}}
	brief.Seconds, brief.NewRows = 0.4, 1234567
	if got := lines.Line(brief); strings.Contains(got, figure(brief.Rate())) {
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

// TestKeepText: a stall shows how long a sync of another file took at the same time.
func TestKeepText(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Date(2026, 11, 20, 12, 0, 0, ms*1e6, time.UTC) }
	f := KeepFigures{Keep: result.Keep{StallMS: 100, Disk: &result.KeepDisk{Syncs: 4, Slow: 2, Longest: .3}, Longest: result.KeepStall{Seconds: .31, Sync: .3},
		Stalls: []result.KeepStall{{At: at(140), Seconds: .31, Sync: .3, Inserts: 2, During: []string{"merge p1"}}, {At: at(600), Seconds: .2, Inserts: 1, During: []string{"drop p1"}}}}}
	var out strings.Builder
	if err := f.Text(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"; syncing another file took 300 ms then\n", "disk         4 syncs of another file, 2 of them over 10 ms, longest 300 ms\n",
		`longest\s+sync\s+inserts\s+during`, `310 ms\s+300 ms\s+2\s+merge p1`, `200 ms\s+-\s+1\s+drop p1`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for want, during := range map[string][]string{", while rowmill did nothing": nil, " during drop p1": {"drop p1"}, ", 1s after drop p1": {"1s after drop p1"}, " during drop p1 and a, b": {"drop p1", "a", "b"}} {
		if got := duringText(during); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
