package report

import (
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/rowmill/rowmill/result"
)

// maxPoints is the maximum number of points of a series in a page: a chart is about
// 1,100 pixels wide, so more points would overlap. If a point represents several
// intervals, the page contains their minimum and maximum in addition to the mean.
const maxPoints = 1000

// A series is a list of figures for a chart, NaN for missing ones. In JSON, figures
// have five significant digits, which is finer than a pixel, and NaN becomes null.
type series []float64

// MarshalJSON implements json.Marshaler.
func (s series) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 8*len(s)+2), '[')
	for i, f := range s {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, f, 'g', 5, 64)
	}
	return append(out, ']'), nil
}

// An axis is a list of strictly increasing positions for a chart. In JSON they have
// three decimals: milliseconds, or thousandths of a row.
type axis []float64

// MarshalJSON implements json.Marshaler.
func (a axis) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 10*len(a)+2), '[')
	for i, f := range a {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendFloat(out, thousandths(f), 'f', -1, 64)
	}
	return append(out, ']'), nil
}

// thousandths rounds to three decimals, unless the number is too large for that.
func thousandths(f float64) float64 {
	if r := math.Round(f*1e3) / 1e3; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return f
}

// add appends a position. An interval without rows ends at the row where it began;
// it is placed a hundredth of a row further, because charts need increasing
// positions.
func (a axis) add(f float64) axis {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	if n := len(a); n > 0 && f <= a[n-1] {
		f = a[n-1] + 0.01
	}
	return append(a, f)
}

// A bucket is a list of consecutive intervals that share one point in the charts.
type bucket []result.Interval

// buckets divides intervals into at most maxPoints buckets and returns the number of
// intervals in each.
func buckets(ivs []result.Interval) ([]bucket, int) {
	size := max(1, (len(ivs)+maxPoints-1)/maxPoints)
	var out []bucket
	for chunk := range slices.Chunk(ivs, size) {
		out = append(out, chunk)
	}
	return out, size
}

func (b bucket) last() *result.Interval { return &b[len(b)-1] }

// rate returns the mean rate over the bucket in rows/s.
func (b bucket) rate() float64 {
	var rows int64
	var secs float64
	for i := range b {
		rows += b[i].NewRows
		secs += b[i].Seconds
	}
	if secs <= 0 {
		return math.NaN()
	}
	return float64(rows) / secs
}

// A spread is the mean of a figure over a bucket, weighted by time, and its minimum
// and maximum; all are NaN if no interval has the figure.
type spread struct{ mean, lo, hi float64 }

func newSpread() spread { return spread{math.NaN(), math.NaN(), math.NaN()} }

// span extends the spread to include a value.
func (s *spread) span(v float64) {
	if !(s.lo <= v) {
		s.lo = v
	}
	if !(s.hi >= v) {
		s.hi = v
	}
}

// counter returns the spread of a figure over the bucket.
func (b bucket) counter(name string) spread {
	var sum, weight float64
	out := newSpread()
	for i := range b {
		v, ok := b[i].Counters[name]
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		secs := max(b[i].Seconds, 1e-9)
		sum += v * secs
		weight += secs
		out.span(v)
	}
	if weight > 0 {
		out.mean = sum / weight
	}
	return out
}

// latency returns the distribution of an operation over the bucket; ok is false if
// nothing was measured. The maximum is always that of the whole bucket. Percentiles
// are those of the merged histograms; if one can't be decoded, the highest
// percentile of the intervals is used, which never makes a server look better.
func (b bucket) latency(m *result.Merger, op string, of func(*result.Interval) map[string]result.Histogram) (out result.Latency, ok bool) {
	m.Reset()
	damaged := false
	for i := range b {
		h, has := of(&b[i])[op]
		if !has || h.Count == 0 {
			continue
		}
		if len(b) > 1 && m.Add(h) != nil {
			damaged = true
		}
		ok = true
		out.Count += h.Count
		out.P50, out.P95, out.P99 = max(out.P50, h.P50), max(out.P95, h.P95), max(out.P99, h.P99)
		out.P999, out.Max = max(out.P999, h.P999), max(out.Max, h.Max)
	}
	if len(b) > 1 && !damaged && m.Count() > 0 {
		worst := out.Max
		out = m.Latency()
		out.Max = max(out.Max, worst)
	}
	return out, ok
}

// rowsAt returns the number of rows that a run had after the given seconds.
func rowsAt(c result.Curve, elapsed float64) float64 {
	i := sort.Search(len(c), func(i int) bool { return c[i].Elapsed >= elapsed })
	switch {
	case i == len(c):
		return c.Rows()
	case i == 0:
		return 0
	}
	a, b := c[i-1], c[i]
	return a.Rows + (b.Rows-a.Rows)*(elapsed-a.Elapsed)/(b.Elapsed-a.Elapsed)
}
