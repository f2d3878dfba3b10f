package report_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/result"
)

// dayIntervals is the number of intervals of a second in a day.
const dayIntervals = 86_400

// day returns the record of a run of n seconds, at about 2,000 rows/s.
func day(t testing.TB, n int) result.Record {
	t.Helper()
	rec := synthetic(t, course{name: "a day", layout: "rolling", rows: 1e12, rate: func(float64) float64 { return 2000 }, period: 500e3, stop: 60, seed: 8})
	rng := rand.New(rand.NewPCG(1, 1))
	made := rec.Intervals
	rec.Intervals = make([]result.Interval, n)
	var rows int64
	for i := range rec.Intervals {
		iv := made[rng.IntN(len(made))]
		iv.Marks, iv.Events = nil, nil
		iv.NewRows = 1900 + rng.Int64N(200)
		rows += iv.NewRows
		iv.Elapsed, iv.Seconds, iv.Rows = float64(i+1), 1, rows
		rec.Intervals[i] = iv
	}
	return rec
}

// A day has too many intervals to draw, so points represent many intervals. A single
// stalled second, and a single second in which a counter peaked, must still be in
// the page, which stays small enough to mail.
func TestDayKeepsItsExtremes(t *testing.T) {
	rec := day(t, dayIntervals)
	const at = 43_210
	stalled := &rec.Intervals[at]
	for i := at; i < len(rec.Intervals); i++ {
		rec.Intervals[i].Rows -= stalled.NewRows - 7
	}
	stalled.NewRows = 7
	stalled.Counters = map[string]float64{"page_reads": 987_654}
	worst := stalled.Latency["insert"]
	worst.Max = 59_000_000
	stalled.Latency = map[string]result.Histogram{"insert": worst}

	page := render(t, "html", []result.Record{rec})
	if n := len(page); n > 3<<20 {
		t.Errorf("the page has %d bytes", n)
	}
	var data struct {
		Runs []struct {
			Rows []float64
			Rate struct {
				Rows, Time struct{ Mean, Lo, Hi []*float64 }
			}
			// By operation and percentile.
			Latency  map[string]map[string][]*float64
			Counters map[string]struct{ Mean, Lo, Hi []*float64 }
			Stalls   []struct{ Seconds float64 }
		}
	}
	text := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)[1]
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	run := data.Runs[0]
	if n := len(run.Rows); n > 1000 || n < 500 {
		t.Errorf("%d points", n)
	}
	find := func(what string, values []*float64, want float64) {
		t.Helper()
		if !slices.ContainsFunc(values, func(v *float64) bool { return v != nil && *v == want }) {
			t.Errorf("%s lacks %v", what, want)
		}
	}
	find("the least rate over time", run.Rate.Time.Lo, 7)
	find("the least rate over rows", run.Rate.Rows.Lo, 7)
	find("the greatest page reads", run.Counters["page_reads"].Hi, 987_650)
	find("the greatest latency", run.Latency["insert"]["max"], 59e6)
	for i, v := range run.Rate.Time.Mean {
		if lo, hi := run.Rate.Time.Lo[i], run.Rate.Time.Hi[i]; *lo > *v || *hi < *v {
			t.Fatalf("point %d: mean %v outside of %v to %v", i, *v, *lo, *hi)
		}
	}
	if len(run.Stalls) != 1 || run.Stalls[0].Seconds != 1 {
		t.Errorf("stalls %+v, want the one", run.Stalls)
	}
	if !strings.Contains(page, "stands for up to 87 intervals") {
		t.Error("the page does not say what its points stand for")
	}
}

// BenchmarkHTMLDay renders a day: 86,400 intervals with their histograms.
func BenchmarkHTMLDay(b *testing.B) {
	recs := []result.Record{day(b, dayIntervals)}
	b.ReportAllocs()
	for b.Loop() {
		render(b, "html", recs)
	}
}
