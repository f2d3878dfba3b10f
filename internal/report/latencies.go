package report

import (
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/series"
	"github.com/rowmill/rowmill/result"
)

// mostDistributions is the maximum number of runs in one chart of latencies.
const mostDistributions = 6

// histograms shows the distribution of each operation's latencies: latencies count from the
// intended start if a rate was asked for, else from when the operation was sent.
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
	var recs []*result.Record
	for _, v := range d.vs {
		recs = append(recs, v.rec)
	}
	x, y := series.Histogram(recs, op)
	if len(x) == 0 {
		return nil
	}
	return []document.Line{{Name: d.name, Style: d.style, X: x, Y: y}}
}
