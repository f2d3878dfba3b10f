package result

import (
	"fmt"
	"math"
	"slices"
)

// Summary derives the summary of a run from its record. If the run was cut off, the summary covers
// the intervals that were written.
func (r *Record) Summary() Summary {
	c := r.Curve()
	s := Summary{
		Name:          r.Run.Name,
		Workload:      r.Run.Workload,
		Preset:        r.Run.Preset,
		Layout:        r.Run.Layout,
		Speed:         r.Run.Speed,
		Engine:        r.Run.Engine,
		ServerVersion: r.Run.ServerVersion,
		Throughput: Throughput{
			Rate: c.rate(),
			Knee: r.knee(c),
		},
		StallSeconds: stallSeconds(r.Intervals),
		Warnings:     []string{},
	}
	s.Warnings = append(s.Warnings, r.Run.Warnings...)
	if n := len(r.Intervals); n > 0 {
		s.Rows = r.Intervals[n-1].Rows
		s.Seconds = r.Intervals[n-1].Elapsed
	}
	if s.Seconds > 0 {
		s.RowsPerSecond = float64(s.Rows) / s.Seconds
	}
	var busy, wait float64
	for _, iv := range r.Intervals {
		s.Errors += iv.Errors
		s.Retries += iv.Retries
		busy += iv.BusySeconds
		wait += iv.WaitSeconds
	}
	r.beside(&s)
	s.Steadiness = r.Steadiness()
	s.ReplicaDelay = r.Delays()
	var err error
	if s.LatencyUS, err = r.latencies(func(iv *Interval) map[string]Histogram { return iv.Latency }); err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	if r.Run.Rate > 0 {
		if s.ResponseUS, err = r.latencies(func(iv *Interval) map[string]Histogram { return iv.Response }); err != nil {
			s.Warnings = append(s.Warnings, err.Error())
		}
		if text := r.OpenLoop().overload(&s); text != "" {
			s.Warnings = append(s.Warnings, text)
		}
	}
	// Without a requested rate, the client limits the run if it spends more than half
	// of its time on its own work instead of waiting for the database.
	s.Client.Bound = r.Run.Rate == 0 && busy > wait
	if e := r.End; e != nil {
		s.Verified, s.SizeBytes, s.Failure = e.Verified, e.Size, e.Failure
		s.Client.CPUSeconds, s.Server.CPUSeconds = e.ClientCPUSeconds+r.Earlier.Client, e.ServerCPUSeconds
		if r.Earlier.ServerKnown && s.Server.CPUSeconds != nil {
			s.Server.CPUSeconds = new(*s.Server.CPUSeconds + r.Earlier.Server)
		}
		s.Warnings = append(s.Warnings, e.Warnings...)
	}
	s.Warnings = append(s.Warnings, r.Warnings...)
	if s.Client.Bound && r.Run.Engine != "null" {
		s.Warnings = append(s.Warnings, fmt.Sprintf(
			"client-bound: the clients spent %.0f%% of their time making rows, so the database could take more; add writers or another machine", 100*busy/(busy+wait)))
	}
	s.TPCC = s.tpcc(r)
	round(&s)
	s.Step = r.step(&s)
	if r.Run.Scan != nil {
		s.Scan = &ScanSummary{Scan: *r.Run.Scan, Points: ScanPoints(r)}
	}
	s.Tables = s.tables(r)
	s.Disk = s.disk(r)
	return s
}

func (r *Record) beside(s *Summary) {
	for _, iv := range r.Intervals {
		for op, t := range iv.Beside {
			if s.Beside == nil {
				s.Beside = map[string]Done{}
			}
			d := s.Beside[op]
			d.Operations += iv.Latency[op].Count
			d.Rows += t.Rows
			d.Backlog = t.Backlog
			d.Errors += t.Errors
			d.Retries += t.Retries
			s.Beside[op] = d
			s.Errors += t.Errors
			s.Retries += t.Retries
		}
	}
	for op, d := range s.Beside {
		if s.Seconds > 0 {
			d.PerSecond, d.RowsPerSecond = float64(d.Operations)/s.Seconds, float64(d.Rows)/s.Seconds
		}
		s.Beside[op] = d
	}
}

// distributions adds up, by operation, the distributions that the function of returns for the
// intervals. It omits damaged distributions, and returns an error that counts them.
func (r *Record) distributions(of func(*Interval) map[string]Histogram) (map[string]*Merger, error) {
	sums := map[string]*Merger{}
	var first error
	damaged := 0
	for i := range r.Intervals {
		for op, h := range of(&r.Intervals[i]) {
			if h.Count == 0 {
				continue
			}
			if sums[op] == nil {
				sums[op] = &Merger{}
			}
			if err := sums[op].Add(h); err != nil {
				damaged++
				if first == nil {
					first = fmt.Errorf("latency of %s in interval %d: %w", op, i+1, err)
				}
			}
		}
	}
	if first != nil {
		first = fmt.Errorf("%d latency distributions are damaged and were left out: %w", damaged, first)
	}
	return sums, first
}

func (r *Record) latencies(of func(*Interval) map[string]Histogram) (map[string]Latency, error) {
	sums, err := r.distributions(of)
	out := map[string]Latency{}
	for op, m := range sums {
		if m.Count() > 0 {
			out[op] = m.Latency()
		}
	}
	return out, err
}

// round rounds figures to meaningful precision, for readers of the JSON. JSON can't
// represent NaN and infinity: they become 0.
func round(s *Summary) {
	cut := func(digits int, figures ...*float64) {
		scale := math.Pow(10, float64(digits))
		for _, p := range figures {
			if math.IsNaN(*p) || math.IsInf(*p, 0) {
				*p = 0
			} else if r := math.Round(*p*scale) / scale; !math.IsInf(r, 0) {
				*p = r
			}
		}
	}
	cut(3, &s.Seconds, &s.Rate.Flatness, &s.StallSeconds, &s.Client.CPUSeconds)
	cut(1, &s.RowsPerSecond, &s.Rate.First, &s.Rate.Last, &s.Rate.Min)
	for op, d := range s.Beside {
		cut(1, &d.PerSecond, &d.RowsPerSecond)
		s.Beside[op] = d
	}
	if s.Server.CPUSeconds != nil {
		s.Server.CPUSeconds = new(*s.Server.CPUSeconds)
		cut(3, s.Server.CPUSeconds)
	}
	if s.SizeBytes != nil {
		s.SizeBytes = new(*s.SizeBytes)
		cut(1, &s.SizeBytes.PerRow)
	}
	slices.Sort(s.Warnings)
	s.Warnings = slices.Compact(s.Warnings)
}

// engineNames are the official spellings of the engines' names in records.
var engineNames = map[string]string{"mysql": "MySQL", "mariadb": "MariaDB", "postgres": "PostgreSQL", "sqlite": "SQLite", "null": "the null engine"}

// EngineName returns the official spelling of an engine's name.
func EngineName(name string) string {
	if s, ok := engineNames[name]; ok {
		return s
	}
	return name
}
