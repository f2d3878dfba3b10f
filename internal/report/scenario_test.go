package report_test

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report/reference"
	"github.com/rowmill/rowmill/result"
)

func at(f float64) *float64 { return &f }

// experiment returns a scenario of three runs; the third has no record.
func experiment(t *testing.T) []result.Record {
	t.Helper()
	s := result.Scenario{
		Name: "mill-1998", Title: "A table that outgrew its mill", Story: "One machine.\n\nAnd <b>another</b>.",
		Runs: []string{"plain", "parts", "never"}, Scale: 0.5, MemoryShare: 0.25, MemoryOf: "plain", FinalBytes: 256 << 20,
		Published: []result.Published{
			{Run: "plain", Figure: "first", Value: 1000, What: "at first", Source: "a report"},
			{Run: "plain", Figure: "last", Value: 15, Low: 10, High: 20, Source: "a report"},
			{Run: "parts", Figure: "mean", Value: 850, Source: "a report"},
			{Run: "parts", Figure: "bytes-per-row", Value: 60, Source: "a report"},
			{Run: "never", Figure: "mean", Value: 5, Source: "a report"},
		},
		Checks: []result.Check{
			{Claim: "the plain table falls", Figure: "plain.last", Over: "plain.first", Below: at(0.1)},
			{Claim: "the other doesn't", Figure: "parts.last", Over: "parts.first", Above: at(0.8), Below: at(1.2)},
			{Claim: "it is beyond all measure", Figure: "parts.mean", Above: at(1e9)},
			{Claim: "nobody knows", Figure: "never.mean", Above: at(1)},
		},
	}
	plain, parts := plainCourse(), rollingCourse()
	out := []result.Record{synthetic(t, plain), synthetic(t, parts)}
	for i, run := range s.Runs[:2] {
		own := s
		own.Run = run
		out[i].Run.Scenario = &own
		out[i].Run.Name = run + ": " + out[i].Run.Name
	}
	out[0].End.Stopped, out[0].Run.MaxTimeSeconds, out[0].Run.Rows = "max-time", 90, 2*out[0].Run.Rows
	return out
}

func TestScenarioGoldens(t *testing.T) {
	recs := experiment(t)
	goldens(t, "scenario", recs, "txt", "md", "json")
	page := render(t, "html", recs)
	for _, want := range []string{"mill-1998: A table that outgrew its mill", "And &lt;b&gt;another", "Beside the published figures", "10 to 20", `<tr class="bad"><th scope="row">differs</th>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestScenarios(t *testing.T) {
	recs := experiment(t)
	all := reference.Results(recs)
	if len(all) != 1 || len(all[0].Missing) != 1 || all[0].Missing[0] != "never" {
		t.Fatalf("%+v", all)
	}
	b := all[0].Beside
	// A run that was interrupted and repeated counts once, in either order.
	cut := recs[1]
	cut.End, cut.Intervals = nil, cut.Intervals[:3]
	mean := *b[2].Ours
	for _, recs := range [][]result.Record{{recs[0], cut, recs[1]}, {recs[0], recs[1], cut}} {
		if got := *reference.Results(recs)[0].Beside[2].Ours; got != mean {
			t.Errorf("mean of the run %v, want %v", got, mean)
		}
	}
	// With a different scale it is a different experiment.
	other := recs[1]
	s := *other.Run.Scenario
	s.Scale = 7
	other.Run.Scenario = &s
	if n := len(reference.Results([]result.Record{recs[0], other})); n != 2 {
		t.Errorf("%d experiments, want 2", n)
	}
	if n := len(reference.Results([]result.Record{synthetic(t, plainCourse())})); n != 0 {
		t.Errorf("%d experiments in a record of none", n)
	}
}
