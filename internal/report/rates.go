package report

import (
	"math"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// styles gives each run a colour, which its repeats share, and dashes by its layout. So a chart
// relies neither on colours alone nor on dashes alone.
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
		if len(leaders(vs)) > document.MostKnees { // one line of text for each run, or the texts would be far from their runs
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

// pictureWindows is the maximum number of points of a line. With 150, single stalls are visible at
// 1200 pixels, and the line stays thin.
const pictureWindows = 150

// addRate adds a run's rate over n equal parts of its rows. It draws a rate that goes up and down
// in a pale colour, behind its moving mean. It returns the index of the line to be labelled, or -1.
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
