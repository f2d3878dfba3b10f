package result

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// An OpenLoop says how a run with a fixed rate coped with it.
type OpenLoop struct {
	// Asked and Done are rates in rows/s.
	Asked, Done float64
	// Backlog is how many operations were due but not finished at the end,
	// Peak how many there were at most.
	Backlog, Peak int64
	// Late is how many operations began late.
	Late int64
	// Growing tells that the backlog still grew at the end.
	Growing bool
	// Overloaded tells that the database did not take the rate: the backlog
	// was growing, or less than keptShare of the rate was done.
	Overloaded bool
}

// keptShare is the share of the rate asked for below which it was not kept:
// the insert benchmark's own limit for failing a step.
const keptShare = 0.95

// OpenLoop returns how a run coped with the rate asked for; nil when none was,
// or when nothing was recorded.
func (r *Record) OpenLoop() *OpenLoop {
	n := len(r.Intervals)
	if r.Run.Rate <= 0 || n == 0 {
		return nil
	}
	last := &r.Intervals[n-1]
	o := &OpenLoop{Asked: r.Run.Rate, Backlog: last.Backlog}
	if last.Elapsed > 0 {
		o.Done = float64(last.Rows) / last.Elapsed
	}
	for i := range r.Intervals {
		o.Late += r.Intervals[i].Late
		o.Peak = max(o.Peak, r.Intervals[i].Backlog)
	}
	o.Growing = growing(r.Intervals, int64(max(r.Run.Writers, 1)))
	o.Overloaded = o.Growing || o.Done < keptShare*o.Asked
	return o
}

// growing tells whether the backlog grew to the end: its least value over the
// last quarter of the run is above that of the quarter before, and above what
// the writers have in hand. Least values, because a checkpoint's backlog that
// is caught up with is no growth.
func growing(ivs []Interval, inHand int64) bool {
	quarter := max(1, len(ivs)/4)
	least := func(part []Interval) int64 {
		if len(part) == 0 {
			return 0
		}
		return slices.MinFunc(part, func(a, b Interval) int { return cmp.Compare(a.Backlog, b.Backlog) }).Backlog
	}
	end := least(ivs[len(ivs)-quarter:])
	before := least(ivs[max(0, len(ivs)-2*quarter) : len(ivs)-quarter])
	return end > before && end > inHand
}

// overload says in words that the rate was not kept; empty when it was. s has
// the distributions of the run.
func (o *OpenLoop) overload(s *Summary) string {
	if o == nil || !o.Overloaded {
		return ""
	}
	text := fmt.Sprintf("overload: offered %s rows/s, done %s rows/s (%.0f%%)", grouped(o.Asked), grouped(o.Done), 100*o.Done/o.Asked)
	if o.Growing {
		text += fmt.Sprintf(", backlog %s operations and growing", grouped(float64(o.Backlog)))
	} else {
		text += fmt.Sprintf(", backlog up to %s operations", grouped(float64(o.Peak)))
	}
	for _, op := range slices.Sorted(maps.Keys(s.ResponseUS)) {
		text += fmt.Sprintf("; %s response p99 %s vs service p99 %s", op,
			microseconds(s.ResponseUS[op].P99), microseconds(s.LatencyUS[op].P99))
	}
	return text
}
