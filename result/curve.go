package result

import (
	"math"
	"slices"
	"sort"
)

// A Point of a run: the number of rows acknowledged after the given number of
// seconds.
type Point struct {
	Rows    float64
	Elapsed float64
}

// A Curve is the course of a run: points with strictly increasing time and
// non-decreasing rows, starting at (0, 0).
type Curve []Point

// Curve returns the run's course, from its intervals and the marks in them.
func (r *Record) Curve() Curve {
	var pts []Point
	for _, iv := range r.Intervals {
		for _, m := range iv.Marks {
			pts = append(pts, Point{m[0], m[1]})
		}
		pts = append(pts, Point{float64(iv.Rows), iv.Elapsed})
	}
	sort.SliceStable(pts, func(i, j int) bool { return pts[i].Elapsed < pts[j].Elapsed })
	c := Curve{{}}
	for _, p := range pts {
		last := &c[len(c)-1]
		switch {
		case math.IsInf(p.Rows+p.Elapsed, 0) || p.Rows < last.Rows:
		case p.Elapsed > last.Elapsed:
			c = append(c, p)
		case p.Elapsed == last.Elapsed && p.Elapsed > 0:
			// A large batch passes several marks at once. Its rows took the time
			// since the previous batch, not zero time.
			last.Rows = p.Rows
		}
	}
	return c
}

// Rows returns the number of rows at the end of the curve.
func (c Curve) Rows() float64 { return c[len(c)-1].Rows }

// TimeAt returns the time at which the number of rows was first reached,
// interpolated between points; NaN beyond the curve's end.
func (c Curve) TimeAt(rows float64) float64 {
	i := sort.Search(len(c), func(i int) bool { return c[i].Rows >= rows })
	switch {
	case i == len(c):
		return math.NaN()
	case i == 0:
		return c[0].Elapsed
	}
	a, b := c[i-1], c[i]
	return a.Elapsed + (b.Elapsed-a.Elapsed)*(rows-a.Rows)/(b.Rows-a.Rows)
}

// RateBetween returns the mean rate, in rows per second, from one number of rows to
// another; NaN if the curve ends earlier.
func (c Curve) RateBetween(from, to float64) float64 {
	if to <= from {
		return math.NaN()
	}
	return (to - from) / (c.TimeAt(to) - c.TimeAt(from))
}

// Windows divides the curve into n windows of equal rows and returns the mean rate
// of each; nil if there are no rows.
func (c Curve) Windows(n int) []float64 {
	total := c.Rows()
	if total <= 0 {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = c.RateBetween(total*float64(i)/float64(n), total*float64(i+1)/float64(n))
	}
	return out
}

// tenths is the number of parts over which Rate is defined.
const tenths = 10

func (c Curve) rate() Rate {
	w := c.Windows(tenths)
	if w == nil {
		return Rate{}
	}
	r := Rate{First: w[0], Last: w[tenths-1], Min: slices.Min(w)}
	if r.First > 0 {
		r.Flatness = r.Last / r.First
	}
	return r
}

// kneeWindows is the resolution of the knee: fiftieths of the rows.
const kneeWindows = 50

// kneeRows returns the number of rows at which the rate fell below half of the first
// tenth's; ok is false if it did so in no tenth of the rows. lasting means that the
// rate stayed low: most of the rows from the knee on were inserted at less than
// half. If the rate recovered, the knee is the start of the slow part: the first
// fiftieth that is slow itself and starts a slow tenth.
func (c Curve) kneeRows() (rows float64, lasting, ok bool) {
	r := c.rate()
	half := r.First / 2
	if r.First <= 0 || r.Min >= half {
		return 0, false, false
	}
	const tenth = kneeWindows / tenths
	total := c.Rows()
	fiftieths := c.Windows(kneeWindows)
	at := func(i int) float64 { return total * float64(i) / kneeWindows }
	// The median, because the mean over rows is dominated by the few slowest.
	for i, rate := range fiftieths[:kneeWindows-tenth+1] {
		if rate < half && median(fiftieths[i:]) < half {
			return at(i), true, true
		}
	}
	for i, rate := range fiftieths {
		end := min(i+tenth, kneeWindows)
		if rate < half && c.RateBetween(at(i), at(end)) < half {
			return at(i), end == kneeWindows, true
		}
	}
	// No fiftieth qualifies: the slow part is somewhere in the slowest tenth.
	return total * float64(slices.Index(c.Windows(tenths), r.Min)) / tenths, false, true
}

// median returns the median of values, the upper one if their number is even.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return v[len(v)/2]
}
