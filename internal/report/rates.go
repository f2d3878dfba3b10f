package report

import (
	"math"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// styles assigns each run a colour, the same to all repeats, and a dash for its layout, so that
// neither alone carries the meaning.
func styles(vs []view) []document.Style {
	out := make([]document.Style, len(vs))
	free, next := map[string]int{"rolling": document.RollingColour, "plain": document.PlainColour}, document.PlainColour+1
	for i := range vs {
		layout := vs[i].rec.Run.Layout
		if r := vs[i].repeats; r != nil && r[0] < i {
			out[i] = out[r[0]]
			continue
		}
		n, ok := free[layout]
		if delete(free, layout); !ok {
			n, next = next, next+1
		}
		if out[i] = document.NthStyle(n); layout != "rolling" && out[i].Dashes == nil {
			out[i].Dashes = []float64{7, 3}
		}
	}
	return out
}

func ratePicture(vs []view, opts document.PNGOptions) *document.Picture {
	st := styles(vs)
	p := &document.Picture{}
	c := &document.Chart{Title: "rows inserted per second (rows/s)", X: document.Scale{Name: "rows inserted", From: 0, To: 1}, Y: document.Scale{Log: opts.Log}, Ends: true}
	c.Note = onlyIf(opts.Log, "logarithmic")
	for i := range vs {
		v := &vs[i]
		c.X.To = max(c.X.To, v.curve.Rows())
		at := addRate(c, v.curve, v.windows(pictureWindows), document.Line{Name: v.label, Style: st[i], Thin: v.minor})
		if at < 0 || v.minor {
			continue
		}
		c.Lines[at].End = []string{short(v.sum.Rate.Last) + " rows/s", "in the last tenth"}
		if v.tooShort() != "" {
			c.Lines[at].End = []string{short(v.sum.RowsPerSecond) + " rows/s", "on average"}
		}
		if len(leaders(vs)) > document.MostKnees { // a line each, or they would be far from their runs
			c.Lines[at].Name, c.Lines[at].End = v.label+" "+short(v.sum.Rate.Last), []string{}
		}
		if k := v.sum.Knee; k != nil && len(leaders(vs)) <= document.MostKnees {
			c.Knees = append(c.Knees, document.Knee{Line: at, At: float64(k.Rows), Label: "knee of " + v.label + "\nat " + short(float64(k.Rows)) + " rows"})
		}
	}
	for _, i := range leaders(vs) {
		p.Legend = append(p.Legend, document.Key{Label: vs[i].bundleLabel(), Style: st[i]})
	}
	p.Rows = []document.Charts{{c}}
	return p
}

// pictureWindows is the maximum number of points per line; with 150, single stalls
// are visible at 1200 pixels and the line stays thin.
const pictureWindows = 150

// addRate adds a run's rate over n equal parts of its rows. A rate that goes up and down is
// pale, behind its moving mean. It returns the index of the line to be labelled, or -1.
func addRate(c *document.Chart, curve result.Curve, n int, l document.Line) int {
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
	if mean := document.Smoothed(l.Y); mean != nil && !l.Thin {
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
