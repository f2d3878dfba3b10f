package result

import (
	"bytes"
	"testing"
)

// TestBriefInterval: an interval shorter than half the nominal one belongs to the one before, in
// a record that is written and in one that is read.
func TestBriefInterval(t *testing.T) {
	var written bytes.Buffer
	w := NewWriter(&written)
	r := Record{Run: Run{Load: Load{IntervalSeconds: 1}}}
	if err := w.Run(r.Run); err != nil {
		t.Fatal(err)
	}
	for _, iv := range []struct{ elapsed, seconds float64 }{{0.3, 0.3}, {1.3, 1}, {1.6, 0.3}, {2.2, 0.6}, {2.201, 0.001}} {
		h := NewHistogram()
		if err := h.RecordValue(int64(iv.elapsed * 1e6)); err != nil {
			t.Fatal(err)
		}
		e, err := EncodeHistogram(h)
		if err != nil {
			t.Fatal(err)
		}
		next := Interval{Elapsed: iv.elapsed, Seconds: iv.seconds, Rows: int64(iv.elapsed * 1000), NewRows: int64(iv.seconds * 1000),
			Backlog: int64(iv.elapsed * 10), Errors: 1, Marks: [][2]float64{{1, 1}}, Counters: map[string]float64{"a": iv.elapsed},
			Beside: map[string]Tally{"query": {Rows: 2}}, Latency: map[string]Histogram{"insert": e}, Response: map[string]Histogram{"insert": e}}
		r.Add(next)
		if err := w.Interval(next); err != nil {
			t.Fatal(err)
		}
	}
	read, err := Read(&written, "run.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for of, ivs := range map[string][]Interval{"written": r.Intervals, "read": read[0].Intervals} {
		if len(ivs) != 3 {
			t.Fatalf("%s: %d intervals, want 3: %+v", of, len(ivs), ivs)
		}
		if ivs[0].Seconds != 0.3 { // the first one has none before it
			t.Errorf("%s: %+v", of, ivs[0])
		}
		iv := ivs[1]
		if iv.Elapsed != 1.6 || iv.Seconds != 1.3 || iv.Rows != 1600 || iv.NewRows != 1300 || iv.Backlog != 16 || iv.Errors != 2 ||
			len(iv.Marks) != 2 || iv.Beside["query"].Rows != 4 || iv.Counters["a"] < 1.3 || iv.Counters["a"] > 1.4 {
			t.Errorf("%s: %+v", of, iv)
		}
		for _, h := range []Histogram{iv.Latency["insert"], iv.Response["insert"]} {
			if d, err := h.Decode(); err != nil || d.TotalCount() != 2 || h.Count != 2 || h.Max != d.Max() {
				t.Errorf("%s: %+v: %v", of, h.Latency, err)
			}
		}
	}
	// A damaged distribution stays in an interval of its own.
	r.Add(Interval{Elapsed: 2.3, Seconds: 0.1, Latency: map[string]Histogram{"insert": {Latency: Latency{Count: 1}, HDR: "?"}}})
	if len(r.Intervals) != 4 {
		t.Errorf("%+v", r.Intervals[3:])
	}
}
