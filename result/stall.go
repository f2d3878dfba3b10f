package result

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
)

// A Stall is a time in which far fewer rows arrived than before and after it.
type Stall struct {
	// From and To are seconds since the run's start.
	From, To float64
	// Rows is the number of rows at its start.
	Rows int64
	// Rate is the mean rate during the stall, Around the median rate of the
	// surrounding intervals, both in rows/s.
	Rate, Around float64
	// Why names what else changed during the stall; empty if no recorded figure did.
	Why string
}

// Seconds returns the length of the stall.
func (s *Stall) Seconds() float64 { return s.To - s.From }

// stallWindow is the number of intervals on each side with which an interval is compared.
const stallWindow = 10

// slow compares the rate of each interval with the median rate of its neighbours. If the rate is
// below half of the median, it returns the median for the interval, else 0. The median is local, so
// that a rate which falls slowly over the whole run is not a stall.
func slow(ivs []Interval) []float64 {
	out := make([]float64, len(ivs))
	rates := make([]float64, 0, 2*stallWindow+1)
	for i := range ivs {
		lo, hi := max(0, i-stallWindow), min(len(ivs), i+stallWindow+1)
		if hi-lo < 3 {
			continue
		}
		rates = rates[:0]
		for j := lo; j < hi; j++ {
			rates = append(rates, ivs[j].Rate())
		}
		slices.Sort(rates)
		if median := rates[len(rates)/2]; ivs[i].Rate() < median/2 {
			out[i] = median
		}
	}
	return out
}

// stallSeconds returns the total length of the stalled intervals.
func stallSeconds(ivs []Interval) float64 {
	var sum float64
	for i, median := range slow(ivs) {
		if median > 0 {
			sum += ivs[i].Seconds
		}
	}
	return sum
}

// Stalls returns the run's stalls in order; consecutive stalled intervals form one stall. Each
// stall is explained by its events, and by the figures that differ most from the intervals around
// it.
func (r *Record) Stalls() []Stall {
	medians := slow(r.Intervals)
	var out []Stall
	for i, end := range stretches(len(medians), func(i int) bool { return medians[i] > 0 }) {
		part := r.Intervals[i:end]
		s := Stall{From: part[0].Elapsed - part[0].Seconds, To: part[len(part)-1].Elapsed,
			Rows: part[0].Rows - part[0].NewRows, Around: slices.Max(medians[i:end])}
		var rows int64
		var secs float64
		for j := range part {
			rows += part[j].NewRows
			secs += part[j].Seconds
		}
		if secs > 0 {
			s.Rate = float64(rows) / secs
		}
		s.Why = r.stallWhy(i, end, medians)
		out = append(out, s)
	}
	return out
}

// A stall names at most stallFigures figures, which at least doubled or halved.
const (
	stallFigures = 3
	stallChange  = 2
)

// stallWhy describes how the intervals i to end differ from the intervals around them.
func (r *Record) stallWhy(i, end int, medians []float64) string {
	var parts []string
	var errs, retries int64
	for j := i; j < end; j++ {
		for _, e := range r.Intervals[j].Events {
			parts = append(parts, strings.TrimSpace(e.What+" "+e.Object)+fmt.Sprintf(" took %s", figure.Micros(int64(math.Round(min(e.Seconds, 1e9)*1e6)))))
		}
		errs += r.Intervals[j].Errors
		retries += r.Intervals[j].Retries
	}
	if len(parts) > stallFigures {
		parts = append(parts[:stallFigures], figure.Plural(len(parts)-stallFigures, "more event", "more events"))
	}
	if errs+retries > 0 {
		parts = append(parts, figure.Plural(errs, "error", "errors")+" and "+figure.Plural(retries, "retry", "retries"))
	}
	inside := mean(r.Intervals[i:end])
	var about []Interval
	for j := max(0, i-stallWindow); j < min(len(r.Intervals), end+stallWindow); j++ {
		if medians[j] == 0 {
			about = append(about, r.Intervals[j])
		}
	}
	outside := mean(about)
	if age, limit := inside[figCheckpointAge], inside[figCheckpointMax]; limit > 0 && age > 0.75*limit {
		parts = append(parts, fmt.Sprintf("checkpoint age at %.0f%% of its limit", 100*age/limit))
	}
	return strings.Join(append(parts, r.moved(inside, outside)...), "; ")
}

// moved names the figures that differ most between two means, by their ratio.
func (r *Record) moved(inside, outside figures) []string {
	type change struct {
		c        Counter
		in, out  float64
		strength float64
	}
	known := map[string]Counter{}
	for _, c := range r.Run.Counters {
		known[c.Name] = c
	}
	var found []change
	for _, name := range slices.Sorted(maps.Keys(inside)) {
		c, ok := known[name]
		in, out := inside[name], outside[name]
		_, both := outside[name]
		// Work done for each row falls together with the rate.
		if !ok || !both || follows[name] || in < out && strings.HasSuffix(c.Unit, "/s") {
			continue
		}
		// Adding a small amount prevents a figure close to zero from ranking first
		// because it doubled or halved.
		floor := floors[c.Unit]
		strength := math.Abs(math.Log((math.Abs(in) + floor) / (math.Abs(out) + floor)))
		if strength >= math.Log(stallChange) {
			found = append(found, change{c, in, out, strength})
		}
	}
	slices.SortStableFunc(found, func(a, b change) int { return cmp.Compare(b.strength, a.strength) })
	var out []string
	for _, f := range found[:min(len(found), stallFigures)] {
		verb := "rose"
		if f.in < f.out {
			verb = "fell"
		}
		out = append(out, fmt.Sprintf("%s %s from %s to %s", f.c.Name, verb, InUnit(f.out, f.c.Unit), InUnit(f.in, f.c.Unit)))
	}
	return out
}

// follows lists figures that depend on the number of rows or are constant: they explain nothing.
var follows = map[string]bool{
	"rows_inserted": true, "page_requests": true, "redo_written_bytes": true, "client_cpu": true, "client_goroutines": true,
	figTableData: true, figTableIndex: true, figCheckpointMax: true, figCache: true,
}

// floors are negligible amounts, by unit.
var floors = map[string]float64{
	"fraction": 0.05, "cores": 0.05, "bytes": 1 << 20, "bytes/s": 1 << 20, "pages/s": 100, "ops/s": 20,
	"seconds": 0.01, "seconds/s": 0.01, "microseconds": 500, "": 10,
}

// InUnit formats a figure in its unit, which is one of Counter.Unit.
func InUnit(v float64, unit string) string {
	switch unit {
	case "bytes":
		return figure.Bytes(v)
	case "bytes/s":
		return figure.Bytes(v) + "/s"
	case "fraction":
		return figure.Percent(v)
	case "seconds":
		return figure.Micros(1e6 * v)
	case "microseconds":
		return figure.Micros(v)
	case "rows/s":
		return figure.Short(v)
	case "Hz":
		return figure.Number(v/1e9) + " GHz"
	}
	return strings.TrimSpace(figure.Number(v) + " " + unit)
}

// mean returns the means of figures over intervals, weighted by time.
func mean(ivs []Interval) figures {
	out, weight := figures{}, map[string]float64{}
	for i := range ivs {
		iv := &ivs[i]
		if iv.Seconds <= 0 {
			continue
		}
		for name, v := range iv.Counters {
			out[name] += v * iv.Seconds
			weight[name] += iv.Seconds
		}
		out[rowsRate] += float64(iv.NewRows)
		weight[rowsRate] += iv.Seconds
	}
	for name := range out {
		out[name] /= weight[name]
	}
	return out
}

// MeanCounters returns the means of the run's counters, of the intervals that have them.
func (r *Record) MeanCounters() map[string]float64 { return mean(r.Intervals) }
