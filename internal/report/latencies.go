package report

import (
	"math"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// mostDistributions is the maximum number of runs in one chart of latencies.
const mostDistributions = 6

// perDecade is the number of bars of a latency distribution for each power of ten.
const perDecade = 10

// histograms shows the distribution of each operation's latencies: from the intended start
// where a rate was asked for, else from when it was sent.
func histograms(vs []view) *document.Section {
	st := styles(vs)
	var sets []distribution
	for _, i := range leaders(vs) {
		sets = append(sets, distribution{vs[i].bundleLabel(), st[i], []*view{&vs[i]}})
	}
	if len(sets) > mostDistributions {
		sets = nil
	}
	return distributions(sets)
}

// A distribution is one line of the charts of latencies.
type distribution struct {
	name  string
	style document.Style
	vs    []*view
}

func distributions(sets []distribution) *document.Section {
	s := &document.Section{Title: "Distribution of latencies", In: document.InHTML}
	var names document.Legend
	found := map[string]bool{}
	for _, set := range sets {
		names = append(names, document.Key{Label: set.name, Style: set.style})
		for _, v := range set.vs {
			for op := range v.sum.LatencyUS {
				found[op] = true
			}
		}
	}
	var row document.Charts
	for _, op := range sortedNames(found) {
		c := &document.Chart{Title: oneLine(op), Note: "share of operations by latency, logarithmic; ten bars for each power of ten",
			X: document.Scale{Log: true, Name: "latency", Format: micros[float64], Margin: 1.05}, Y: document.Scale{Format: percent}, Height: 240}
		for _, set := range sets {
			c.Lines = append(c.Lines, set.line(op)...)
		}
		if len(c.Lines) > 0 {
			row = append(row, c)
		}
	}
	if len(row) > 0 {
		s.Parts = []document.Part{names, row}
	}
	return s
}

func (d *distribution) line(op string) []document.Line {
	var m result.Merger
	for _, v := range d.vs {
		for _, iv := range v.rec.Intervals {
			h, ok := iv.Response[op]
			if !ok {
				h = iv.Latency[op]
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
	l := document.Line{Name: d.name, Style: d.style}
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
	return []document.Line{l}
}
