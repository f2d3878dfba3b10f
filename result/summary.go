package result

import (
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Summary derives the summary of a run from its record, also when the run was
// cut off: then it covers what was written.
func (r *Record) Summary() Summary {
	c := r.Curve()
	last := c[len(c)-1]
	s := Summary{
		Name:          r.Run.Name,
		Workload:      r.Run.Workload,
		Preset:        r.Run.Preset,
		Layout:        r.Run.Layout,
		Engine:        r.Run.Engine,
		ServerVersion: r.Run.ServerVersion,
		Rate:          c.rate(),
		Knee:          r.knee(c),
		StallSeconds:  stallSeconds(r.Intervals),
		Warnings:      []string{},
	}
	s.Warnings = append(s.Warnings, r.Run.Warnings...)
	if n := len(r.Intervals); n > 0 {
		s.Rows = r.Intervals[n-1].Rows
		s.Seconds = r.Intervals[n-1].Elapsed
	}
	if last.Elapsed > 0 {
		s.RowsPerSecond = float64(s.Rows) / s.Seconds
	}
	var busy, wait float64
	for _, iv := range r.Intervals {
		s.Errors += iv.Errors
		s.Retries += iv.Retries
		busy += iv.BusySeconds
		wait += iv.WaitSeconds
	}
	var err error
	if s.LatencyUS, err = r.merged(func(iv *Interval) map[string]Histogram { return iv.Latency }); err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	if r.Run.Rate > 0 {
		if s.ResponseUS, err = r.merged(func(iv *Interval) map[string]Histogram { return iv.Response }); err != nil {
			s.Warnings = append(s.Warnings, err.Error())
		}
		s.Warnings = append(s.Warnings, r.overload(s)...)
	}
	// A client that spends more than half of its time on its own work, and not
	// waiting for the database, is what limits a closed loop.
	s.Client.Bound = r.Run.Rate == 0 && busy > wait
	if e := r.End; e != nil {
		s.Verified, s.SizeBytes, s.Failure = e.Verified, e.Size, e.Failure
		s.Client.CPUSeconds, s.Server.CPUSeconds = e.ClientCPUSeconds, e.ServerCPUSeconds
		s.Warnings = append(s.Warnings, e.Warnings...)
	}
	s.Warnings = append(s.Warnings, r.Warnings...)
	if s.Client.Bound && r.Run.Engine != "null" {
		s.Warnings = append(s.Warnings, fmt.Sprintf(
			"client-bound: the clients spent %.0f%% of their time making rows, so the database could take more; add writers or another machine", 100*busy/(busy+wait)))
	}
	round(&s)
	return s
}

// overload says in words what an open loop's backlog did.
func (r *Record) overload(s Summary) []string {
	n := len(r.Intervals)
	if n == 0 || r.Run.Rate <= 0 {
		return nil
	}
	var late int64
	for _, iv := range r.Intervals {
		late += iv.Late
	}
	end, mid := r.Intervals[n-1].Backlog, r.Intervals[(n-1)/2].Backlog
	if end <= int64(r.Run.Writers) || end <= mid {
		return nil
	}
	rows := int64(max(r.Run.Batch, 1))
	return []string{fmt.Sprintf(
		"overload: %.0f rows/s were asked for and %.0f acknowledged (%.0f%%); the backlog grew to %d operations (%d rows), %d began late; response times include that wait",
		r.Run.Rate, s.RowsPerSecond, 100*s.RowsPerSecond/r.Run.Rate, end, end*rows, late)}
}

// merged adds up a distribution over all intervals, by operation.
func (r *Record) merged(of func(*Interval) map[string]Histogram) (map[string]Latency, error) {
	sums := map[string]*hdrhistogram.Histogram{}
	var failed error
	for i := range r.Intervals {
		for op, h := range of(&r.Intervals[i]) {
			if h.Count == 0 {
				continue
			}
			d, err := h.Decode()
			if err != nil {
				failed = fmt.Errorf("interval %d: latency of %s left out: %w", i+1, op, err)
				continue
			}
			if sums[op] == nil {
				sums[op] = NewHistogram()
			}
			sums[op].Merge(d)
		}
	}
	out := map[string]Latency{}
	for op, h := range sums {
		out[op] = LatencyOf(h)
	}
	return out, failed
}

// round cuts figures to what they can carry, for readers of the JSON.
func round(s *Summary) {
	sig := func(p *float64, digits int) {
		if *p == 0 || math.IsNaN(*p) || math.IsInf(*p, 0) {
			if math.IsNaN(*p) || math.IsInf(*p, 0) {
				*p = 0
			}
			return
		}
		scale := math.Pow(10, float64(digits))
		*p = math.Round(*p*scale) / scale
	}
	sig(&s.Seconds, 3)
	sig(&s.RowsPerSecond, 1)
	sig(&s.Rate.First, 1)
	sig(&s.Rate.Last, 1)
	sig(&s.Rate.Min, 1)
	sig(&s.Rate.Flatness, 3)
	sig(&s.StallSeconds, 3)
	sig(&s.Client.CPUSeconds, 3)
	if s.Server.CPUSeconds != nil {
		v := *s.Server.CPUSeconds
		sig(&v, 3)
		s.Server.CPUSeconds = &v
	}
	slices.Sort(s.Warnings)
	s.Warnings = slices.Compact(s.Warnings)
}
