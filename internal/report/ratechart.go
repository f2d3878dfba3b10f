package report

import (
	"math"

	"github.com/rowmill/rowmill/result"
)

func ratePicture(vs []view, opts PNGOptions) *picture {
	st := styles(vs)
	p := &picture{}
	c := &chart{Title: "rows inserted per second (rows/s)", X: scale{Name: "rows inserted", From: 0, To: 1}, Y: scale{Log: opts.Log}, Ends: true}
	if opts.Log {
		c.Note = "logarithmic"
	}
	for i := range vs {
		v := &vs[i]
		c.X.To = max(c.X.To, v.curve.Rows())
		at := c.addRate(v.curve, v.windows(pictureWindows), line{Name: v.label, Style: st[i], Thin: v.minor})
		if at < 0 || v.minor {
			continue
		}
		c.Lines[at].End = []string{short(v.sum.Rate.Last) + " rows/s", "in the last tenth"}
		if k := v.sum.Knee; k != nil && len(leaders(vs)) <= mostKnees {
			c.Knees = append(c.Knees, knee{at, float64(k.Rows), "knee of " + v.label + "\nat " + short(float64(k.Rows)) + " rows"})
		}
	}
	for _, i := range leaders(vs) {
		p.Legend = append(p.Legend, key{vs[i].bundleLabel(), st[i]})
	}
	p.Rows = []charts{{c}}
	return p
}

// pictureWindows is the maximum number of points per line; with 150, single stalls
// are visible at 1200 pixels and the line stays thin.
const pictureWindows = 150

// partBatches is the minimum number of batches of each client per window: rows arrive in whole
// batches.
const partBatches = 4

// windows returns the number of windows, at most n, into which the run's rows can be
// divided.
func (v *view) windows(n int) int {
	batch := max(1, v.rec.Run.Batch) * max(1, v.rec.Run.Writers)
	return max(1, min(n, int(v.curve.Rows())/(partBatches*batch)))
}

// addRate adds a run's rate over n equal parts of its rows. A rate that goes up and down is
// pale, behind its moving mean. It returns the index of the line to be labelled, or -1.
func (c *chart) addRate(curve result.Curve, n int, l line) int {
	total := curve.Rows()
	n = min(n, len(curve)-1)
	if total <= 0 || n < 1 {
		return -1
	}
	for i, rate := range curve.Windows(n) {
		if !math.IsNaN(rate) && !math.IsInf(rate, 0) {
			l.X, l.Y = append(l.X, total*(float64(i)+0.5)/float64(n)), append(l.Y, rate)
		}
	}
	if mean := smoothed(l.Y); mean != nil && !l.Thin {
		pale := l
		pale.Name, pale.Faint = "", true
		c.Lines = append(c.Lines, pale)
		l.Y = mean
	}
	c.Lines = append(c.Lines, l)
	return len(c.Lines) - 1
}

// mostDistributions is the maximum number of runs in one chart of latencies.
const mostDistributions = 6

// perDecade is the number of bars of a latency distribution for each power of ten.
const perDecade = 10

// histograms shows the distribution of each operation's latencies: from the intended start
// where a rate was asked for, else from when it was sent.
func histograms(vs []view) *section {
	st := styles(vs)
	var sets []distribution
	for _, i := range leaders(vs) {
		sets = append(sets, distribution{vs[i].bundleLabel(), st[i], []*result.Record{vs[i].rec}})
	}
	if len(sets) > mostDistributions {
		sets = nil
	}
	return distributions(sets)
}

// A distribution is one line of the charts of latencies.
type distribution struct {
	name  string
	style style
	recs  []*result.Record
}

func distributions(sets []distribution) *section {
	s := &section{Title: "Distribution of latencies", In: inHTML}
	var names legend
	found := map[string]bool{}
	for _, set := range sets {
		names = append(names, key{set.name, set.style})
		for _, r := range set.recs {
			for i := range r.Intervals {
				for op := range r.Intervals[i].Latency {
					found[op] = true
				}
			}
		}
	}
	var row charts
	for _, op := range sortedNames(found) {
		c := &chart{Title: oneLine(op), Note: "share of operations by latency, logarithmic; ten bars for each power of ten",
			X: scale{Log: true, Name: "latency", Format: micros[float64], Margin: 1.05}, Y: scale{Format: percent}, Height: 240}
		for _, set := range sets {
			c.Lines = append(c.Lines, set.line(op)...)
		}
		if len(c.Lines) > 0 {
			row = append(row, c)
		}
	}
	if len(row) > 0 {
		s.Parts = []Part{names, row}
	}
	return s
}

func (d *distribution) line(op string) []line {
	var m result.Merger
	for _, r := range d.recs {
		for i := range r.Intervals {
			h, ok := r.Intervals[i].Response[op]
			if !ok {
				h = r.Intervals[i].Latency[op]
			}
			if h.Count > 0 && m.Add(h) != nil {
				return nil // damaged: no shape is better than a wrong one
			}
		}
	}
	if m.Count() == 0 {
		return nil
	}
	var bounds []int64
	for e := range 9 * perDecade {
		if b := int64(math.Round(math.Pow(10, float64(e)/perDecade))); len(bounds) == 0 || b > bounds[len(bounds)-1] {
			bounds = append(bounds, b)
		}
	}
	counts := m.UpTo(bounds)
	l := line{Name: d.name, Style: d.style}
	for i, n := range counts[:len(bounds)] {
		if n == 0 && (len(l.X) == 0 || counts[i+1] == 0 && i+1 == len(bounds)) {
			continue
		}
		from := 1.0
		if i > 0 {
			from = float64(bounds[i-1])
		}
		share := float64(n) / float64(m.Count())
		l.X, l.Y = append(l.X, from, float64(bounds[i])), append(l.Y, share, share)
	}
	for len(l.Y) > 2 && l.Y[len(l.Y)-1] == 0 {
		l.X, l.Y = l.X[:len(l.X)-2], l.Y[:len(l.Y)-2]
	}
	return []line{l}
}
