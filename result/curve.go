package result

import (
	"math"
	"slices"
	"sort"
)

// A Point of a run: how many rows had been acknowledged after how many seconds.
type Point struct {
	Rows    float64
	Elapsed float64
}

// A Curve is a run's course, strictly growing in time and never falling in
// rows, from (0, 0).
type Curve []Point

// Curve returns the run's course from its intervals and the marks in them.
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
			// A large batch passes several marks at once: its rows came in the
			// time since the batch before, and not in none.
			last.Rows = p.Rows
		}
	}
	return c
}

// Rows returns the number of rows at the curve's end.
func (c Curve) Rows() float64 { return c[len(c)-1].Rows }

// TimeAt returns when the number of rows was first reached, interpolating
// between points; NaN past the curve's end.
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

// RateBetween returns the mean rate, in rows per second, from one number of
// rows to another; NaN where the curve doesn't reach.
func (c Curve) RateBetween(from, to float64) float64 {
	if to <= from {
		return math.NaN()
	}
	return (to - from) / (c.TimeAt(to) - c.TimeAt(from))
}

// Windows cuts the curve into n windows of equal rows and returns the mean
// rate in each; nil when there are no rows.
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

// tenths of the rows are what Rate is defined over.
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

// kneeWindows is how finely the knee is located: fiftieths of the rows.
const kneeWindows = 50

// kneeRows returns how many rows there were when the rate fell below half of
// the first tenth's; ok is false where no tenth of the rows did. lasting tells
// that it stayed there: most of the rows from the knee on came at less than
// half. Where the rate recovered, the knee is where the slow part began: the
// first fiftieth that is slow itself and begins a tenth that is slow.
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
	// A median, because a mean over rows is ruled by the few that take longest.
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
	// No window holds the slow part for itself: it is in the slowest tenth.
	return total * float64(slices.Index(c.Windows(tenths), r.Min)) / tenths, false, true
}

// median returns the middle of values, the upper one of two.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return v[len(v)/2]
}
