package result

import (
	"slices"
	"testing"
)

func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		us   int64
		want int
	}{{1, 0}, {256, 0}, {257, 1}, {1000, 1}, {1001, 2}, {4000, 2}, {4010, 3}, {16000, 3}, {64000, 4}, {256e3, 5}, {1e6, 6}, {1.01e6, 7}, {4e6, 7}, {16e6, 8}, {17e6, 9}, {3600e6, 9}} {
		r := &Record{Intervals: []Interval{{Latency: map[string]Histogram{"insert": encoded(t, c.us)}}}}
		got := r.Buckets()["insert"]
		if want := slices.Repeat([]int64{0}, len(BucketMicros())+1); got == nil || slices.Index(got, 1) != c.want || len(got) != len(want) {
			t.Errorf("%d us: %v, want bucket %d", c.us, got, c.want)
		}
	}
	// Two intervals, one of which has response times.
	r := &Record{Intervals: []Interval{
		{Latency: map[string]Histogram{"insert": encoded(t, 10, 10), "query": encoded(t, 500)}, Response: map[string]Histogram{"insert": encoded(t, 10, 5000)}},
		{Latency: map[string]Histogram{"insert": encoded(t, 10)}},
	}}
	got := r.Buckets()
	if !slices.Equal(got["insert"], []int64{2, 0, 0, 1, 0, 0, 0, 0, 0, 0}) || !slices.Equal(got["query"], []int64{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("%v", got)
	}
}

func TestHeld(t *testing.T) {
	held := func(keep int64, rows ...int64) *Held {
		r := &Record{Run: Run{Step: &Step{KeepRows: keep}}}
		for _, n := range rows {
			r.Intervals = append(r.Intervals, Interval{HeldRows: n})
		}
		return r.Held()
	}
	if h := held(1000, 500, 999, 1003, 1008, 990); h == nil || *h != (Held{990, 1008, 0.01}) {
		t.Errorf("%+v", h)
	}
	if h := held(0, 5); h != nil {
		t.Errorf("nothing is kept: %+v", h)
	}
	if h := held(1000, 5, 999); h != nil {
		t.Errorf("never reached: %+v", h)
	}
	r := &Record{Run: Run{Retention: Retention{KeepRows: 10}}, Intervals: []Interval{{HeldRows: 12}}}
	if h := r.Held(); h == nil || h.Off != 0.2 {
		t.Errorf("of a run that is no step: %+v", h)
	}
}

func TestStepSummary(t *testing.T) {
	server := 0.5
	r := &Record{
		Run: Run{Load: Load{Rate: 1000, Batch: 50}, Step: &Step{Benchmark: "ibench", Name: "qr1000", StartRows: 5000, KeepRows: 5000, Query: "qr"}},
		Intervals: []Interval{{Elapsed: 2, Seconds: 2, Rows: 1880, NewRows: 1880, HeldRows: 5010,
			Beside:   map[string]Tally{"delete": {Rows: 1870}, "query": {Rows: 1000}},
			Latency:  map[string]Histogram{"insert": encoded(t, 10), "delete": encoded(t, 10), "query": encoded(t, slices.Repeat([]int64{5}, 1000)...)},
			Counters: map[string]float64{"disk_read_bytes": 512e3, "server_io_write_bytes": 1e6, "server_peak_bytes": 7, "server_rss_bytes": 9}}},
		End: &End{ClientCPUSeconds: 0.25, ServerCPUSeconds: &server},
	}
	s := r.Summary().Step
	if s.InsertsPerSecond != 940 || s.DeletesPerSecond != 935 || s.QueriesPerSecond != 500 || s.EndRows != 5010 || s.MemoryBytes != 9 {
		t.Errorf("%+v", s)
	}
	if s.SLA == nil || !s.SLA.Failed || s.SLA.Share != 0.94 {
		t.Errorf("SLA %+v", s.SLA)
	}
	if c := s.Cost; c == nil || c.Per != "query" || *c.ReadBytes != 1024 || *c.WrittenBytes != 2000 || *c.ClientMicros != 250 || *c.ServerMicros != 500 {
		t.Errorf("cost %+v", c)
	}
	r.Intervals[0].Rows = 1900 // 95% is enough
	if s := r.Summary().Step; s.SLA.Failed {
		t.Errorf("SLA %+v", s.SLA)
	}
	r.Run.Rate, r.Run.Step.Query = 0, ""
	if s := r.Summary().Step; s.SLA != nil || s.Cost.Per != "insert" {
		t.Errorf("without a rate: %+v, %+v", s.SLA, s.Cost)
	}
	if (&Record{}).Summary().Step != nil {
		t.Error("a run that is no step has one")
	}
}
