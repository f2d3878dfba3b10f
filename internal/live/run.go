package live

import (
	"math"
	"time"

	"github.com/rowmill/rowmill/result"
)

const (
	// curvePoints is the maximum number of points of a run's curve, several times the columns of
	// the widest chart: beyond it, neighbours are merged.
	curvePoints = 4096
	// recentPoints is the number of points from which the time left is estimated.
	recentPoints = 10
	// warmUp is the number of intervals required for that estimate.
	warmUp = 3
)

// A point of a run's curve holds the rows that one or several intervals added.
type point struct {
	rows    int64 // at the end
	newRows int64
	seconds float64
}

// to returns the point that covers p and the one after it.
func (p point) to(q point) point {
	return point{q.rows, p.newRows + q.newRows, p.seconds + q.seconds}
}

// A run is the state of one run.
type run struct {
	result.Run
	curve           []point
	last            result.Interval
	lastAt          time.Time
	intervals       int
	errors, retries int64
	summary         *result.Summary
}

func (r *run) add(iv result.Interval, at time.Time) {
	r.last, r.lastAt = iv, at
	r.intervals++
	r.errors += iv.Errors
	r.retries += iv.Retries
	p := point{iv.Rows, iv.NewRows, iv.Seconds}
	if n := len(r.curve); n > 0 && r.Brief(&iv) {
		r.curve[n-1] = r.curve[n-1].to(p)
		return
	}
	if r.curve = append(r.curve, p); len(r.curve) < curvePoints {
		return
	}
	for i := range curvePoints / 2 {
		r.curve[i] = r.curve[2*i].to(r.curve[2*i+1])
	}
	r.curve = r.curve[:curvePoints/2]
}

// elapsed returns the run's time in seconds at a moment after its last interval.
func (r *run) elapsed(now time.Time) float64 {
	if r.summary != nil {
		return r.summary.Seconds
	}
	return r.last.Elapsed + max(now.Sub(r.lastAt).Seconds(), 0)
}

// progress returns the completed part of the run, from 0 to 1, and the seconds left until the
// rows at the recent rate or the time limit, whichever comes first; NaN if unknown.
func (r *run) progress(now time.Time) (done, left float64) {
	done, left = math.NaN(), math.NaN()
	if r.Rows > 0 {
		done = float64(r.last.Rows) / float64(r.Rows)
		var recent point
		for _, p := range lastOf(r.curve, recentPoints) {
			recent = recent.to(p)
		}
		if r.intervals >= warmUp && recent.newRows > 0 {
			since := max(now.Sub(r.lastAt).Seconds(), 0)
			left = max(float64(r.Rows-r.last.Rows)*recent.seconds/float64(recent.newRows)-since, 0)
		}
	}
	if limit := r.MaxTimeSeconds; limit > 0 {
		t := r.elapsed(now)
		if !(t/limit < done) { // also when done is NaN
			done = t / limit
		}
		if rest := max(limit-t, 0); !(left < rest) {
			left = rest
		}
	}
	return min(done, 1), left
}

// columns returns the mean rate in each of n columns between 0 and a number of rows,
// interpolated between points, NaN outside of the curve.
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
