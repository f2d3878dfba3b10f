package result

import (
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Step tells that a run is one step of a longer benchmark, whose steps follow
// each other in the record and go on with the same tables.
type Step struct {
	Benchmark string `json:"benchmark"` // "ibench"
	Name      string `json:"name"`      // "l.i1"
	// Number counts the steps that were run from 1 to Of.
	Number int `json:"number"`
	Of     int `json:"of"`
	Tables int `json:"tables"`
	// StartRows is how many rows the tables held when it began. KeepRows is
	// how many deletes leave in them; 0 where none run.
	StartRows int64 `json:"start_rows"`
	KeepRows  int64 `json:"keep_rows,omitempty"`
	// DirtyBytes are pages that were not written back when it began, where that
	// is known.
	DirtyBytes *float64 `json:"dirty_bytes_before,omitempty"`
	// Query names the queries that ran beside the inserts.
	Query string `json:"query,omitempty"`
}

// Loads tells that the run inserts rows: l.x and settle don't.
func (r *Run) Loads() bool { return r.Step == nil || r.Batch > 0 }

// BucketMicros are the upper bounds, in microseconds, of the insert benchmark's
// response-time buckets; the last bucket holds what takes longer.
func BucketMicros() []int64 {
	return []int64{256, 1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6}
}

// StepSummary is what a step of a benchmark comes to.
type StepSummary struct {
	Step
	// EndRows is how many rows the tables held at its end.
	EndRows int64 `json:"end_rows"`
	// Inserts and deletes are rows per second, queries are queries.
	InsertsPerSecond float64 `json:"inserts_per_second"`
	DeletesPerSecond float64 `json:"deletes_per_second"`
	QueriesPerSecond float64 `json:"queries_per_second"`
	// SLA is null where no rate was asked for.
	SLA *SLA `json:"sla"`
	// Held is how many rows the tables held at the ends of the intervals; null
	// where no deletes ran.
	Held *Held `json:"held"`
	// Buckets count operations by response time, by operation: as many as
	// BucketMicros, and one for what took longer.
	Buckets map[string][]int64 `json:"response_buckets"`
	// Cost is per inserted row, or per query where queries ran; null for steps
	// without either.
	Cost *Cost `json:"cost"`
	// MemoryBytes is the most that the server's process has had; 0 is unknown.
	MemoryBytes float64 `json:"server_memory_bytes,omitempty"`
	// DirtyBytes are pages not written back, before and after the step, where
	// the server says so.
	DirtyBytes []float64 `json:"dirty_bytes,omitempty"`
	// Did are the seconds of what a step without inserts did, by its objects.
	Did map[string]float64 `json:"did,omitempty"`
}

// SLA is whether a step's average insert rate was at least 95% of that asked
// for.
type SLA struct {
	Asked  float64 `json:"asked"` // rows per second
	Share  float64 `json:"share"` // of it that was done
	Failed bool    `json:"failed"`
}

// Held is how many rows tables of constant size held.
type Held struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
	// Off is by how much either differs from the rows to keep at most, as a
	// share of these.
	Off float64 `json:"off"`
}

// Cost is what an operation took.
type Cost struct {
	Per          string   `json:"per"` // "insert" (a row) or "query"
	ReadBytes    *float64 `json:"disk_read_bytes"`
	WrittenBytes *float64 `json:"disk_written_bytes"`
	ClientMicros *float64 `json:"client_cpu_us"`
	ServerMicros *float64 `json:"server_cpu_us"`
}

// Held returns how many rows the tables held at the ends of the intervals from
// the one on in which they first held as many as they are kept at; nil where
// they never did, or where nothing keeps their size.
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

// round3 cuts a figure to thousandths, for readers of JSON.
func round3(f float64) float64 { return math.Round(f*1e3) / 1e3 }

// step returns what a step comes to; nil for other runs.
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

// cost returns what an operation of the run took, from its counters.
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

// total adds up a figure that is a rate per second, the first of several names
// that the intervals have.
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

// most returns the greatest of some figures in any interval.
func (r *Record) most(names ...string) (most float64) {
	for i := range r.Intervals {
		for _, name := range names {
			most = max(most, r.Intervals[i].Counters[name])
		}
	}
	return most
}

// Buckets counts the run's operations by response time, by operation: from the
// intended start where a rate was asked for, else the service time.
func (r *Record) Buckets() map[string][]int64 {
	mergers := map[string]*Merger{}
	for i := range r.Intervals {
		iv := &r.Intervals[i]
		for op, h := range iv.Latency {
			if from, ok := iv.Response[op]; ok {
				h = from
			}
			if h.Count == 0 {
				continue
			}
			if mergers[op] == nil {
				mergers[op] = &Merger{}
			}
			_ = mergers[op].Add(h) // Summary warns of those that are damaged
		}
	}
	out := map[string][]int64{}
	for op, m := range mergers {
		out[op] = m.upTo(BucketMicros())
	}
	return out
}

// upTo counts what was added by upper bounds, and what is above the last. A
// count whose range of three figures holds a bound is below it.
func (m *Merger) upTo(bounds []int64) []int64 {
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
