package report

import (
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/series"
	"github.com/rowmill/rowmill/result"
)

// mostDistributions is the maximum number of runs in one chart of latencies.
const mostDistributions = 6

// histograms shows the distribution of each operation's latencies. If a rate was requested, a
// latency counts from when the operation was due, else from when it was sent.
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
	found, recs := map[string]bool{}, make([][]*result.Record, len(sets))
	for i, set := range sets {
		names = append(names, document.Key{Label: set.name, Style: set.style})
		for _, v := range set.vs {
			recs[i] = append(recs[i], v.rec)
			for op := range v.sum.LatencyUS {
				found[op] = true
			}
		}
	}
	var row document.Charts
	for _, op := range sortedNames(found) {
		c := &document.Chart{Title: oneLine(op), Note: "share of operations by latency, logarithmic; ten bars for each power of ten",
			X: document.Scale{Log: true, Name: "latency", Format: micros[float64], Margin: 1.05}, Y: document.Scale{Format: percent}, Height: 240}
		for i, set := range sets {
			if x, y := series.Histogram(recs[i], op); len(x) > 0 {
				c.Lines = append(c.Lines, document.Line{Name: set.name, Style: set.style, X: x, Y: y})
			}
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
