package result

import "math"

// The time left is estimated from the last paceRecent intervals, once there are paceLeast.
const paceRecent, paceLeast = 10, 3

// A Pace says how far a run is. The zero value is for a run without intervals.
type Pace struct {
	recent []Interval // only rows and seconds
	seen   int
	// Done is the completed part of the run, 0 to 1, and Left the seconds left, infinite if unknown.
	Done, Left float64
}

// Add adds the next interval of a run.
func (p *Pace) Add(run *Run, iv *Interval) {
	if n := len(p.recent); n > 0 && run.Brief(iv) {
		p.recent[n-1].NewRows += iv.NewRows
		p.recent[n-1].Seconds += iv.Seconds
	} else {
		p.seen++
		p.recent = append(p.recent[max(0, n-paceRecent+1):], Interval{NewRows: iv.NewRows, Seconds: iv.Seconds})
	}
	p.Done, p.Left = 0, math.Inf(1)
	if run.Rows > 0 {
		p.Done = float64(iv.Rows) / float64(run.Rows)
		var rows int64
		var seconds float64
		for i := range p.recent {
			rows, seconds = rows+p.recent[i].NewRows, seconds+p.recent[i].Seconds
		}
		if left := run.Rows - iv.Rows; left <= 0 || p.seen >= paceLeast && rows > 0 {
			p.Left = float64(max(left, 0)) * seconds / float64(max(rows, 1))
		}
	}
	if limit := run.MaxTimeSeconds; limit > 0 {
		p.Done, p.Left = max(p.Done, iv.Elapsed/limit), min(p.Left, limit-iv.Elapsed)
	}
	p.Done, p.Left = min(p.Done, 1), max(p.Left, 0)
}
