package result

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rowmill/rowmill/internal/figure"
)

// An OpenLoop describes how well a run kept its fixed rate.
type OpenLoop struct {
	// Asked and Done are the requested and the achieved rate in rows/s.
	Asked, Done float64
	// Backlog counts the operations due but unfinished at the end, Peak is its maximum.
	Backlog, Peak int64
	// Late is the number of operations that began late.
	Late int64
	// Growing is true if the backlog was still growing at the end.
	Growing bool
	// Overloaded is true if the backlog was growing, or less than keptShare of the rate was achieved.
	Overloaded bool
}

// keptShare: a rate counts as kept if at least this share of it was achieved. The insert benchmark
// fails a step by the same limit.
const keptShare = 0.95

// OpenLoop returns how well the run kept its rate; nil if no rate was requested or the record has
// no intervals.
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

// growing reports whether the backlog was still growing at the end: its minimum over the last
// quarter of the run exceeds both its minimum over the quarter before and inHand, the number of
// operations in progress. A backlog that builds up and is worked off again is not growth.
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

// overload describes a rate that was not kept; empty if it was kept. s contains the
// run's distributions.
func (o *OpenLoop) overload(s *Summary) string {
	if o == nil || !o.Overloaded {
		return ""
	}
	text := fmt.Sprintf("overload: offered %s rows/s, done %s rows/s (%.0f%%)", figure.Rounded(o.Asked), figure.Rounded(o.Done), 100*o.Done/o.Asked)
	if o.Growing {
		text += fmt.Sprintf(", backlog %s operations and growing", figure.Rounded(float64(o.Backlog)))
	} else {
		text += fmt.Sprintf(", backlog up to %s operations", figure.Rounded(float64(o.Peak)))
	}
	for _, op := range slices.Sorted(maps.Keys(s.ResponseUS)) {
		text += fmt.Sprintf("; %s response p99 %s vs service p99 %s", op,
			figure.Micros(s.ResponseUS[op].P99), figure.Micros(s.LatencyUS[op].P99))
	}
	return text
}
