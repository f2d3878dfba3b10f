package result

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Step identifies the run as one step of a longer benchmark, whose steps follow
// each other in the record and continue with the same tables.
type Step struct {
	Benchmark string `json:"benchmark"` // "ibench"
	Name      string `json:"name"`      // "l.i1"
	// Number is the step's number among those executed, from 1 to Of.
	Number int `json:"number"`
	Of     int `json:"of"`
	Tables int `json:"tables"`
	// StartRows counts the rows in the tables at its start; deletes keep them at KeepRows.
	StartRows int64 `json:"start_rows"`
	KeepRows  int64 `json:"keep_rows,omitempty"`
	// DirtyBytes is the size of the server's dirty pages at the step's start, if known.
	DirtyBytes *float64 `json:"dirty_bytes_before,omitempty"`
	// Query names the queries that ran beside the inserts.
	Query string `json:"query,omitempty"`
}

// Loads reports whether the run inserts rows: l.x and settle don't.
func (r *Run) Loads() bool { return r.Step == nil || r.Batch > 0 }

// BucketMicros returns the upper bounds, in microseconds, of the insert benchmark's
// response-time buckets; one more bucket contains longer times.
func BucketMicros() []int64 {
	return []int64{256, 1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6}
}

// StepSummary is the result of a benchmark's step.
type StepSummary struct {
	Step
	// EndRows is the number of rows in the tables at its end.
	EndRows int64 `json:"end_rows"`
	// Inserts and deletes are in rows per second, queries in queries per second.
	InsertsPerSecond float64 `json:"inserts_per_second"`
	DeletesPerSecond float64 `json:"deletes_per_second"`
	QueriesPerSecond float64 `json:"queries_per_second"`
	// SLA says whether the requested rate was kept; null if no rate was requested.
	SLA *SLA `json:"sla"`
	// Held is the range of the tables' row counts; null if no deletes ran.
	Held *Held `json:"held"`
	// Buckets count operations by response time, one number per bucket: see BucketMicros.
	Buckets map[string][]int64 `json:"response_buckets"`
	// Cost is per inserted row, or per query if queries ran.
	Cost *Cost `json:"cost"`
	// MemoryBytes is the peak memory of the server's process; 0 means unknown.
	MemoryBytes float64 `json:"server_memory_bytes,omitempty"`
	// DirtyBytes are the sizes of the dirty pages before and after the step.
	DirtyBytes []float64 `json:"dirty_bytes,omitempty"`
	// Did contains the seconds of each action of a step without inserts, by object.
	Did map[string]float64 `json:"did,omitempty"`
}

// SLA tells whether a step inserted at least 95% of the requested rate on average.
type SLA struct {
	Asked  float64 `json:"asked"` // rows per second
	Share  float64 `json:"share"` // of the requested rate
	Failed bool    `json:"failed"`
}

// Held is the range of row counts of tables of constant size.
type Held struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
	// Off is how far Least or Most is off the rows to keep, as a fraction; the larger of the two.
	Off float64 `json:"off"`
}

// Cost is the cost of one operation.
type Cost struct {
	Per          string   `json:"per"` // "insert" (a row) or "query"
	ReadBytes    *float64 `json:"disk_read_bytes"`
	WrittenBytes *float64 `json:"disk_written_bytes"`
	ClientMicros *float64 `json:"client_cpu_us"`
	ServerMicros *float64 `json:"server_cpu_us"`
}

// Held returns the range of the tables' row counts since they reached the size to keep; nil if they
// never did, or if no size is kept.
func (r *Record) Held() *Held {
	keep := r.Run.KeepRows
	if r.Run.Step != nil {
		keep = r.Run.Step.KeepRows
	}
	if keep <= 0 {
		return nil
	}
	var h *Held
	for i := range r.Intervals {
		n := r.Intervals[i].HeldRows
		switch {
		case h != nil:
			h.Least, h.Most = min(h.Least, n), max(h.Most, n)
		case n >= keep:
			h = &Held{Least: n, Most: n}
		}
	}
	if h != nil {
		h.Off = round3(max(math.Abs(float64(h.Least-keep)), math.Abs(float64(h.Most-keep))) / float64(keep))
	}
	return h
}

// round3 rounds a figure to thousandths, for readers of JSON.
func round3(f float64) float64 { return math.Round(f*1e3) / 1e3 }

// step returns the result of a step; nil for other runs.
func (r *Record) step(s *Summary) *StepSummary {
	if r.Run.Step == nil {
		return nil
	}
	out := &StepSummary{Step: *r.Run.Step, EndRows: r.Run.Step.StartRows, Buckets: r.Buckets()}
	out.MemoryBytes = r.most("server_peak_bytes", "server_rss_bytes")
	if !r.Run.Loads() {
		out.Did = map[string]float64{}
		for i := range r.Intervals {
			for _, e := range r.Intervals[i].Events {
				out.Did[strings.TrimSpace(e.What+" "+e.Object)] = round3(e.Seconds)
			}
		}
		if n := len(r.Intervals); n > 0 && out.Step.DirtyBytes != nil {
			if after, ok := r.Intervals[n-1].Counters["cache_dirty_bytes"]; ok {
				out.DirtyBytes = []float64{*out.Step.DirtyBytes, after}
			}
		}
		return out
	}
	out.InsertsPerSecond = s.RowsPerSecond
	out.DeletesPerSecond = s.Beside["delete"].RowsPerSecond
	out.QueriesPerSecond = s.Beside["query"].PerSecond
	if n := len(r.Intervals); n > 0 {
		out.EndRows = r.Intervals[n-1].HeldRows
	}
	out.Held = r.Held()
	if r.Run.Rate > 0 && s.Seconds > 0 {
		out.SLA = &SLA{Asked: r.Run.Rate, Share: round3(s.RowsPerSecond / r.Run.Rate)}
		out.SLA.Failed = s.RowsPerSecond < keptShare*r.Run.Rate
	}
	out.Cost = r.cost(s)
	return out
}

// cost returns the cost of an operation of the run, from its counters.
func (r *Record) cost(s *Summary) *Cost {
	c, n := &Cost{Per: "insert"}, float64(s.Rows)
	if r.Run.Step != nil && r.Run.Step.Query != "" {
		c.Per, n = "query", float64(s.Beside["query"].Operations)
	}
	if n <= 0 {
		return nil
	}
	per := func(v float64, known bool) *float64 {
		if v /= n; !known || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		v = round3(v)
		return &v
	}
	c.ReadBytes = per(r.total("disk_read_bytes", "server_io_read_bytes"))
	c.WrittenBytes = per(r.total("disk_write_bytes", "server_io_write_bytes"))
	client, ok := r.total("client_cpu")
	if r.End != nil {
		client, ok = r.End.ClientCPUSeconds, true
	}
	c.ClientMicros = per(1e6*client, ok)
	server, ok := r.total("server_cpu")
	if r.End != nil && r.End.ServerCPUSeconds != nil {
		server, ok = *r.End.ServerCPUSeconds, true
	}
	c.ServerMicros = per(1e6*server, ok)
	return c
}

// total sums up a figure that is a rate per second: each interval's rate times its seconds. names
// are alternative names of the figure: total takes the first one that the intervals have.
func (r *Record) total(names ...string) (sum float64, known bool) {
	for _, name := range names {
		for i := range r.Intervals {
			if v, ok := r.Intervals[i].Counters[name]; ok {
				sum, known = sum+v*r.Intervals[i].Seconds, true
			}
		}
		if known {
			return sum, true
		}
	}
	return 0, false
}

// most returns the maximum of the named figures over all intervals.
func (r *Record) most(names ...string) (most float64) {
	for i := range r.Intervals {
		for _, name := range names {
			most = max(most, r.Intervals[i].Counters[name])
		}
	}
	return most
}

// Buckets counts the run's operations by response time, for each operation. The time counts from
// when the operation was due if a rate was requested, and otherwise from when it was sent.
func (r *Record) Buckets() map[string][]int64 {
	mergers, _ := r.distributions(func(iv *Interval) map[string]Histogram { // Summary warns about damaged histograms
		timed := maps.Clone(iv.Latency)
		for op := range timed {
			if from, ok := iv.Response[op]; ok {
				timed[op] = from
			}
		}
		return timed
	})
	out := map[string][]int64{}
	for op, m := range mergers {
		out[op] = m.UpTo(BucketMicros())
	}
	return out
}

// UpTo counts the added values between upper bounds, and the values above the last bound. A
// histogram bar that contains a bound counts as below it.
func (m *Merger) UpTo(bounds []int64) []int64 {
	out := make([]int64, len(bounds)+1)
	if m.total == 0 {
		return out
	}
	for _, bar := range m.histogram().Distribution() {
		if bar.Count > 0 {
			i, _ := slices.BinarySearch(bounds, bar.From)
			out[i] += bar.Count
		}
	}
	return out
}

func (m *Merger) histogram() *hdrhistogram.Histogram {
	return hdrhistogram.Import(&hdrhistogram.Snapshot{
		LowestTrackableValue: histogramMin, HighestTrackableValue: histogramMax, SignificantFigures: histogramFigures,
		Counts: m.counts,
	})
}
