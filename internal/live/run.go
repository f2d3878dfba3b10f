package live

import (
	"math"

	"github.com/rowmill/rowmill/result"
)

// curvePoints is the maximum number of points of a curve.
const curvePoints = 4096

// A point of a run's curve holds the rows that one or several intervals added.
type point struct {
	rows    int64 // the run's rows at the end of the point
	newRows int64
	seconds float64
}

// to returns one point that covers p and the next point, q.
func (p point) to(q point) point { return point{q.rows, p.newRows + q.newRows, p.seconds + q.seconds} }

// A run is the state of one run.
type run struct {
	result.Run
	curve           []point
	last            result.Interval
	pace            result.Pace
	errors, retries int64
	summary         *result.Summary
}

func (r *run) add(iv result.Interval) {
	r.last = iv
	r.pace.Add(&r.Run, &iv)
	r.errors += iv.Errors
	r.retries += iv.Retries
	p := point{iv.Rows, iv.NewRows, iv.Seconds}
	if n := len(r.curve); n > 0 && r.Brief(&iv) {
		r.curve[n-1] = r.curve[n-1].to(p)
		return
	}
	if r.curve = append(r.curve, p); len(r.curve) == curvePoints {
		for i := range curvePoints / 2 { // merge neighbours, to halve the points
			r.curve[i] = r.curve[2*i].to(r.curve[2*i+1])
		}
		r.curve = r.curve[:curvePoints/2]
	}
}

// columns returns the mean rate in each of n columns. The columns divide the range from 0 to the
// given number of rows. The rate is interpolated between points, and NaN outside of the curve.
func (r *run) columns(n int, rows float64) []float64 {
	sums, out := make([]point, n), make([]float64, n)
	for _, p := range r.curve {
		middle := float64(p.rows) - float64(p.newRows)/2
		x := min(max(int(middle/rows*float64(n)), 0), n-1)
		sums[x] = sums[x].to(p)
	}
	before := -1
	for x, s := range sums {
		if out[x] = math.NaN(); s.seconds <= 0 {
			continue
		}
		out[x] = float64(s.newRows) / s.seconds
		for i := before + 1; before >= 0 && i < x; i++ {
			out[i] = out[before] + (out[x]-out[before])*float64(i-before)/float64(x-before)
		}
		before = x
	}
	return out
}

func lastOf[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }
