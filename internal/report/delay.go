package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// A picture with the chart of delays is delayHeight pixels higher. Its rows of charts share the
// height by weight: this chart's is the first row's, times delayShare if there are few rows.
const (
	delayHeight = 200
	delayShare  = 0.4
)

// addDelays adds to a report how far the replicas were behind: a table and, for HTML and the
// picture, a chart of the longest delay in each interval. The reports of all kinds of runs call it.
func addDelays(d *document.Document, recs []result.Record) {
	t := &document.Table{Header: []string{"run", "replica", "mean", "at most", "at"},
		Note: "From an acknowledged commit on the source until the replica shows it; of commits that it lacks, until the end of the interval."}
	c := &document.Chart{Title: "delay of the replicas", Note: "the longest in each interval, and in each run", X: document.Scale{Name: "seconds since the start of the run"},
		Y: document.Scale{Format: func(s float64) string { return cmp.Or(onlyIf(s > 0, brief(s)), "0") }}, Height: 240, Ends: true}
	names := labels(recs)
	longest, worst := -1, 0.0
	for i := range recs {
		for _, r := range recs[i].Delays() {
			t.Add(names[i], r.Replica, brief(r.Mean), brief(r.Worst), seconds(r.At))
			counter := onlyIf(r.Replica != "", r.Replica+"/") + result.FigureDelayWorst
			l := document.Line{Name: document.Listed(", ", onlyIf(len(recs) > 1, names[i]), r.Replica), Style: document.NthStyle(len(c.Lines))}
			for k := range recs[i].Intervals {
				if v, ok := recs[i].Intervals[k].Counters[counter]; ok && !math.IsNaN(v) {
					c.X.To = max(c.X.To, recs[i].Intervals[k].Elapsed)
					l.X, l.Y, l.Tips = append(l.X, recs[i].Intervals[k].Elapsed), append(l.Y, v), append(l.Tips, names[i]+": "+brief(v))
				}
			}
			if r.Worst >= worst {
				longest, worst = len(c.Lines), r.Worst
			}
			c.Lines = append(c.Lines, l)
		}
	}
	if longest < 0 {
		return
	}
	for i := range c.Lines {
		switch l := &c.Lines[i]; {
		case len(c.Lines) <= document.MostKnees:
			l.Name, l.End, l.Thin = document.Listed(" ", l.Name, brief(slices.Max(l.Y))), []string{}, true
		case i == longest:
			c.Note += "; the thick line is that of " + l.Name
		default:
			l.Style, l.Thin = document.Style{Colour: len(document.Palette) - 1}, true
		}
	}
	d.Add(&document.Section{Title: "Delay of the replicas", Parts: []document.Part{document.Charts{c}, t}})
	draw := d.Picture
	if draw == nil {
		return
	}
	d.Picture = func(opts document.PNGOptions) *document.Picture {
		p, low := draw(opts), *c
		if low.Height = document.Weight(p.Rows[0][0].Height); len(p.Rows) < 4 {
			low.Height *= delayShare
		}
		p.Rows, p.Height = append(p.Rows, document.Charts{&low}), delayHeight+max(p.Height, document.DefaultHeight)
		return p
	}
}
