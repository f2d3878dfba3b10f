package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// A chart plots lines, dots and blocks over two axes, in a picture and in the page.
type chart struct {
	// Title says what is plotted and in which unit, Note what the marks mean.
	Title, Note string
	X, Y        scale
	Lines       []line
	Knees       []knee
	Levels      []level
	Blocks      []block
	// Height is in pixels of the page; in a picture, heights and widths are shares.
	Height, Width float64
	// Ends labels each named line at its end.
	Ends bool
}

// A scale is one axis. Its zero value is linear, and spans the data.
type scale struct {
	Name     string
	Log      bool
	From, To float64 // the span, if To is above From
	// Ticks are fixed ticks; nil puts ticks at round numbers. Format writes the others.
	Ticks  []tick
	Format func(float64) string
	// Margin is the space beyond the data: a share of the span, or a factor if it is logarithmic.
	Margin float64
	// Bare omits the labels. Room is their least width, so that charts above each other have the
	// same place for x.
	Bare bool
	Room float64
}

type tick struct {
	At    float64
	Label string
}

// A line is a figure over the chart's x. A missing figure, NaN, leaves a gap.
type line struct {
	Name  string
	Style style
	X, Y  []float64
	// Lo and Hi are the extremes behind the means in Y, or nil.
	Lo, Hi []float64
	// Faint lines stand behind others, Thin ones are of less weight.
	Faint, Thin bool
	// Dots marks each figure; Crosses marks it as a failure. Bare has no stroke.
	Dots, Crosses, Bare bool
	// Tips describe the figures to a reader who points at them.
	Tips []string
	// End is the second line of the label at the line's end.
	End []string
}

// A knee marks a place on a line.
type knee struct {
	Line  int
	At    float64
	Label string
}

// A level is a horizontal line across the chart.
type level struct {
	At    float64
	Label string
}

// A block is a filled rectangle, in units of the axes.
type block struct {
	X0, Y0, X1, Y1 float64
	Paint, Tip     string
}

func (*chart) Kind() string { return "chart" }

// charts are several charts side by side.
type charts []*chart

func (charts) Kind() string { return "charts" }

// A canvas draws in pixels; y grows downwards. Paints are names of colours.
type canvas interface {
	stroke(pts []xy, p pen)
	fill(from, to xy, paint, tip string)
	dot(at xy, radius float64, paint string, cross bool, tip string)
	// text writes a line of text whose middle is at the height of at.
	text(at xy, s string, f face)
}

type xy struct{ x, y float64 }

type pen struct {
	paint string
	width float64
	dash  []float64
	faint bool
}

type face struct {
	size  float64
	paint string
	bold  bool
	align int // -1 begins at the position, 0 is centred, 1 ends there
}

// Sizes of a chart's parts in pixels.
const (
	titleRoom   = 24
	tickRoom    = 20
	nameRoom    = 18
	labelSize   = 13
	labelRow    = 17
	labelColumn = 90 // of "500 µs" in the larger text of phones
	mostKnees   = 4  // labels of more would cover each other
	kneeRadius  = 5
	aboveAxis   = 4    // between a line's label and the axis
	widerFonts  = 1.25 // those of browsers against the one measured
)

// A plotArea is the place of a chart's data.
type plotArea struct {
	c        *chart
	cv       canvas
	at       box
	x, y     scale // with their spans
	taken    []box
	courses  [][]xy  // of the lines, in pixels
	baseline float64 // the lower edge, below the axis of x
	right    float64 // the end of the labels beside it
}

type box struct{ x0, y0, x1, y1 float64 }

func (b box) overlaps(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }

func (c *chart) draw(cv canvas, in box) {
	p := &plotArea{c: c, cv: cv, at: in, right: in.x1}
	if c.Title != "" {
		room := in.x1 - in.x0
		cv.text(xy{in.x0, in.y0 + 8}, fitted(c.Title, 14, true, room), face{14, "ink", true, -1})
		if aside := textWidthOf(c.Title, 14, true) + 10; c.Note != "" && aside < room {
			cv.text(xy{in.x0 + aside, in.y0 + 8}, fitted(c.Note, 12.5, false, room-aside), face{12.5, "muted", false, -1})
		}
		p.at.y0 += titleRoom
	}
	lo, hi := c.extent(func(l *line) [][]float64 { return [][]float64{l.X} }, nil)
	p.x = c.X.span(lo, hi, min(mostTicks, max(2, int((p.at.x1-p.at.x0)/labelColumn))), false)
	lo, hi = c.extent(func(l *line) [][]float64 { return [][]float64{l.Y, l.Lo, l.Hi} }, c.Levels)
	p.y = c.Y.span(lo, hi, min(mostTicks, max(2, int((p.at.y1-p.at.y0-tickRoom)/labelRow))), true)
	p.margins()
	p.grid()
	for _, b := range c.Blocks {
		cv.fill(xy{p.px(b.X0), p.py(b.Y1)}, xy{p.px(b.X1), p.py(b.Y0)}, b.Paint, b.Tip)
	}
	p.lines()
	p.levels()
	p.ends()
	p.knees()
}

func (c *chart) extent(of func(l *line) [][]float64, levels []level) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for i := range c.Lines {
		for _, values := range of(&c.Lines[i]) {
			for _, v := range values {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
		}
	}
	for _, l := range levels {
		lo, hi = min(lo, l.At), max(hi, l.At)
	}
	return lo, hi
}

// mostDecades is the greatest span of a logarithmic axis.
const mostDecades = 4

// mostTicks is the number of ticks of an axis with enough room.
const mostTicks = 7

// span returns the scale with its span, and with room for so many ticks. Linear axes of figures begin at 0.
func (s scale) span(lo, hi float64, ticks int, figures bool) scale {
	switch {
	case s.To > s.From:
	case math.IsInf(lo, 0) || hi <= 0 && figures:
		s.From, s.To = 0, 1
		if s.Log {
			s.From = 0.1
		}
	case s.Log:
		lo = max(lo, hi/math.Pow(10, mostDecades))
		margin := cmp.Or(s.Margin, 1.3)
		s.From, s.To = lo/margin, hi*margin
	case figures:
		s.From, s.To = min(0, lo), hi+(hi-min(0, lo))*cmp.Or(s.Margin, 0.08)
	default:
		s.From, s.To = lo-(hi-lo)*s.Margin, hi+(hi-lo)*s.Margin
	}
	if s.To <= s.From {
		if s.Ticks == nil && !figures { // a single place
			s.Ticks = []tick{{s.From, short(s.From)}}
		}
		s.From, s.To = s.From-0.5, s.To+0.5
	}
	if s.Ticks == nil {
		if s.Log {
			s.Ticks = decadeTicks(s.From, s.To, ticks)
		}
		if len(s.Ticks) < 2 {
			s.Ticks = niceTicks(s.From, s.To, ticks)
		}
		if s.Format != nil {
			for i := range s.Ticks {
				s.Ticks[i].Label = s.Format(s.Ticks[i].At)
			}
		}
	}
	return s
}

// share returns the position of a figure on the axis, 0 to 1.
func (s *scale) share(v float64) float64 {
	if s.Log {
		return min(max((math.Log(max(v, s.From))-math.Log(s.From))/(math.Log(s.To)-math.Log(s.From)), 0), 1)
	}
	return min(max((v-s.From)/(s.To-s.From), 0), 1)
}

func (p *plotArea) px(v float64) float64 { return p.at.x0 + (p.at.x1-p.at.x0)*p.x.share(v) }
func (p *plotArea) py(v float64) float64 { return p.at.y1 - (p.at.y1-p.at.y0)*p.y.share(v) }

func (p *plotArea) margins() {
	if !p.y.Bare {
		widest := p.y.Room
		for _, t := range p.y.Ticks {
			widest = max(widest, textWidthOf(t.Label, labelSize, false))
		}
		p.at.x0 += widerFonts*widest + 8
	}
	p.at.y0 += 8
	p.baseline = p.at.y1
	if !p.x.Bare {
		p.at.y1 -= tickRoom
		if p.x.Name != "" {
			p.at.y1 -= nameRoom
		}
	}
	right := 10.0
	if p.c.Ends {
		for i := range p.c.Lines {
			right = max(right, widerFonts*p.c.Lines[i].endWidth()+26)
		}
	}
	p.at.x1 -= min(right, (p.at.x1-p.at.x0)/3)
}

func (p *plotArea) grid() {
	thin := pen{paint: "grid", width: 1}
	for _, t := range p.y.Ticks {
		y := p.py(t.At)
		if len(p.c.Blocks) == 0 {
			p.cv.stroke([]xy{{p.at.x0, y}, {p.at.x1, y}}, thin)
		}
		if !p.y.Bare {
			p.cv.text(xy{p.at.x0 - 6, y}, t.Label, face{labelSize, "muted", false, 1})
		}
	}
	if len(p.c.Blocks) == 0 {
		p.cv.stroke([]xy{{p.at.x0, p.at.y1}, {p.at.x1, p.at.y1}}, pen{paint: "muted", width: 1})
	}
	if p.x.Bare {
		return
	}
	free := math.Inf(-1)
	for _, t := range p.x.Ticks {
		x, half := p.px(t.At), textWidthOf(t.Label, labelSize, false)/2
		if x-half < free {
			continue
		}
		free = x + half + 4
		p.cv.text(xy{min(x, p.right-widerFonts*half), p.at.y1 + 12}, t.Label, face{labelSize, "muted", false, 0})
	}
	if p.x.Name != "" {
		p.cv.text(xy{(p.at.x0 + p.at.x1) / 2, p.baseline - 7}, p.x.Name, face{labelSize, "muted", false, 0})
	}
}

// lines draws the lines, faint ones first.
func (p *plotArea) lines() {
	p.courses = make([][]xy, len(p.c.Lines))
	for _, strength := range []func(l *line) bool{
		func(l *line) bool { return l.Faint },
		func(l *line) bool { return l.Thin && !l.Faint },
		func(l *line) bool { return !l.Thin && !l.Faint },
	} {
		for i := range p.c.Lines {
			if strength(&p.c.Lines[i]) {
				p.line(i)
			}
		}
	}
}

func (p *plotArea) line(i int) {
	l := &p.c.Lines[i]
	how := pen{paint: l.Style.paint(), width: 2.5, dash: l.Style.dash, faint: l.Faint}
	if l.Thin || l.Faint {
		how.width = 1.2
	}
	if l.Faint {
		how.dash = nil
	}
	var part []xy
	flush := func() {
		if len(part) == 1 && !l.Dots {
			p.cv.dot(part[0], 3, how.paint, false, "")
		} else if len(part) > 1 && !l.Bare {
			p.cv.stroke(part, how)
		}
		part = nil
	}
	for k, v := range l.Y {
		if math.IsNaN(v) || math.IsInf(v, 0) || p.y.Log && v <= 0 || l.X[k] > p.x.To {
			flush()
			continue
		}
		at := xy{p.px(l.X[k]), p.py(v)}
		if l.Lo != nil && p.py(l.Lo[k])-p.py(l.Hi[k]) > 1 {
			p.cv.stroke([]xy{{at.x, p.py(l.Lo[k])}, {at.x, p.py(l.Hi[k])}}, pen{paint: how.paint, width: 1.5, faint: true})
		}
		part = append(part, at)
		p.courses[i] = append(p.courses[i], at)
	}
	flush()
	if l.Dots {
		for k, at := range p.courses[i] {
			tip := ""
			if k < len(l.Tips) {
				tip = l.Tips[k]
			}
			p.cv.dot(at, 4, how.paint, l.Crosses, tip)
		}
	}
}

// endWidth returns the width of the label at the line's end, 0 without one.
func (l *line) endWidth() float64 {
	if l.End == nil {
		return 0
	}
	width := textWidthOf(l.Name, labelSize, true)
	for _, s := range l.End {
		width = max(width, textWidthOf(s, labelSize, false))
	}
	return width
}

func (p *plotArea) levels() {
	for _, l := range p.c.Levels {
		y := p.py(l.At)
		p.cv.stroke([]xy{{p.at.x0, y}, {p.at.x1, y}}, pen{paint: "muted", width: 1, dash: []float64{4, 3}})
		if l.Label != "" {
			muted := face{labelSize, "muted", false, -1}
			p.label(xy{p.at.x0, y}, []string{l.Label}, muted, muted)
		}
	}
}

// ends labels the lines at their ends: beside the chart, without overlaps, or where a line ends earlier, without covering others.
func (p *plotArea) ends() {
	if !p.c.Ends {
		return
	}
	type end struct {
		l  *line
		at xy
	}
	var all []end
	for i := range p.c.Lines {
		if l, course := &p.c.Lines[i], p.courses[i]; l.End != nil && len(course) > 0 {
			all = append(all, end{l, course[len(course)-1]})
		}
	}
	slices.SortStableFunc(all, func(a, b end) int { return cmp.Compare(a.at.y, b.at.y) })
	height := func(e end) float64 { return labelRow * float64(1+len(e.l.End)) }
	floor, top := p.at.y1-aboveAxis, p.at.y0-titleRoom/2
	beside := func(e end) bool { return e.at.x+9+e.l.endWidth() > p.at.x1 }
	for _, e := range all {
		if beside(e) {
			floor -= height(e)
		}
	}
	for _, e := range all {
		name := face{labelSize, e.l.Style.paint(), true, -1}
		if !beside(e) {
			place := p.label(e.at, append([]string{e.l.Name}, e.l.End...), name, face{labelSize, "ink", false, -1})
			if near := (xy{min(max(e.at.x, place.x0), place.x1), min(max(e.at.y, place.y0), place.y1)}); math.Abs(near.y-e.at.y) > labelRow {
				p.cv.stroke([]xy{e.at, near}, pen{paint: e.l.Style.paint(), width: 1})
			}
			continue
		}
		y := max(top, min(e.at.y-height(e)/2, floor))
		top, floor = y+height(e), floor+height(e)
		at := xy{max(e.at.x, p.at.x1) + 9, y + labelRow/2}
		if math.Abs(y+height(e)/2-e.at.y) > labelRow/2 || at.x > e.at.x+2*labelRow {
			at.x += 12
			p.cv.stroke([]xy{e.at, {at.x - 3, y + height(e)/2}}, pen{paint: e.l.Style.paint(), width: 1})
		}
		p.taken = append(p.taken, box{at.x - 3, y, at.x + e.l.endWidth() + 3, y + height(e)})
		p.cv.text(at, fitted(e.l.Name, labelSize, true, (p.right-at.x)/widerFonts), name)
		for i, s := range e.l.End {
			p.cv.text(xy{at.x, at.y + float64(i+1)*labelRow}, s, face{labelSize, "ink", false, -1})
		}
	}
}

// knees marks the knees, with labels where no line passes.
func (p *plotArea) knees() {
	for _, k := range p.c.Knees {
		course := p.courses[k.Line]
		if len(course) == 0 {
			continue
		}
		x := p.px(k.At)
		at := xy{x, heightAt(course, x)}
		p.cv.stroke([]xy{{x, p.at.y0}, {x, p.at.y1}}, pen{paint: "muted", width: 1, dash: []float64{3, 3}})
		p.cv.dot(at, kneeRadius+2, "ground", false, "")
		p.cv.dot(at, kneeRadius, p.c.Lines[k.Line].Style.paint(), false, k.Label)
		ink := face{labelSize, "ink", true, -1}
		p.label(at, strings.Split(k.Label, "\n"), ink, ink)
	}
}

func heightAt(course []xy, x float64) float64 {
	i := slices.IndexFunc(course, func(pt xy) bool { return pt.x >= x })
	switch {
	case i < 0:
		return course[len(course)-1].y
	case i == 0:
		return course[0].y
	}
	a, b := course[i-1], course[i]
	return a.y + (b.y-a.y)*(x-a.x)/(b.x-a.x)
}

// label writes text to the right or to the left of a position, as near as possible without
// covering a line or another label.
func (p *plotArea) label(at xy, lines []string, head, tail face) box {
	const aside = 9
	width, height := 0.0, labelRow*float64(len(lines))
	for _, s := range lines {
		width = max(width, textWidthOf(s, labelSize, true))
	}
	var best box
	nearest := math.Inf(1)
	for y := p.at.y0 + height/2; y <= p.at.y1-height/2; y += 6 {
		for _, x := range []float64{at.x + aside, at.x - aside - width} {
			place := box{x, y - height/2, x + width, y + height/2}
			if away := math.Abs(y - at.y); away < nearest && x >= p.at.x0 && place.x1 <= p.at.x1 && p.clear(place) {
				best, nearest = place, away
			}
		}
	}
	if math.IsInf(nearest, 1) { // no room: above the lines
		x := min(at.x+aside, p.at.x1-width)
		best = box{x, p.at.y0, x + width, p.at.y0 + height}
	}
	p.taken = append(p.taken, best)
	for i, s := range lines {
		if i > 0 {
			head = tail
		}
		p.cv.text(xy{best.x0, best.y0 + labelRow*(float64(i)+0.5)}, s, head)
	}
	return best
}

// clear reports whether a place is free of lines but faint ones, of levels and of labels.
func (p *plotArea) clear(place box) bool {
	if slices.ContainsFunc(p.taken, place.overlaps) {
		return false
	}
	room := box{place.x0 - 3, place.y0 - 3, place.x1 + 3, place.y1 + 3}
	for _, l := range p.c.Levels {
		if y := p.py(l.At); y > room.y0 && y < room.y1 {
			return false
		}
	}
	for n, course := range p.courses {
		for i := 1; i < len(course) && !p.c.Lines[n].Faint; i++ {
			a, b := course[i-1], course[i]
			if max(a.x, b.x) < room.x0 || min(a.x, b.x) > room.x1 || max(a.y, b.y) < room.y0 || min(a.y, b.y) > room.y1 {
				continue
			}
			steps := math.Ceil(math.Hypot(b.x-a.x, b.y-a.y)/3) + 1
			for k := range int(steps) + 1 {
				x, y := a.x+(b.x-a.x)*float64(k)/steps, a.y+(b.y-a.y)*float64(k)/steps
				if x > room.x0 && x < room.x1 && y > room.y0 && y < room.y1 {
					return false
				}
			}
		}
	}
	return true
}

// niceTicks puts up to so many ticks at multiples of 1, 2 or 5 times a power of ten, labelled 250k, 1M.
func niceTicks(lo, hi float64, most int) []tick {
	if hi <= lo {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(most))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(step*m) <= float64(most) {
			step *= m
			break
		}
	}
	var out []tick
	for i := math.Ceil(lo / step); i*step <= hi*(1+1e-9); i++ {
		out = append(out, tick{i * step, short(i * step)})
	}
	return out
}

// decadeTicks puts ticks at 1, 2 and 5 times each power of ten, or at the powers
// alone if there are many, or room for few.
func decadeTicks(lo, hi float64, most int) []tick {
	var out []tick
	parts := []float64{1, 2, 5}
	if hi/lo > 2e3 || 3*math.Log10(hi/lo) > float64(most)+2 {
		parts = parts[:1]
	}
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range parts {
			if v := m * math.Pow(10, e); v >= lo && v <= hi {
				out = append(out, tick{v, short(v)})
			}
		}
	}
	return out
}

// smoothed returns the moving mean, over about one wave, of a line that goes up and down again
// and again, such as the rate of a table whose indexes grow with each period. It is nil for
// other lines, whose turns a mean would blur.
func smoothed(y []float64) []float64 {
	mean, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for _, v := range y {
		mean += v / float64(len(y))
		low, high = min(low, v), max(high, v)
	}
	if len(y) < fewestSmoothed || !(high-low >= roughness*mean) { // false for NaN
		return nil
	}
	// A wave passes the mean by a tenth of the range, so that noise makes none.
	passes, above, apart := 0, y[0] > mean, (high-low)/10
	for _, v := range y {
		if above && v < mean-apart || !above && v > mean+apart {
			passes, above = passes+1, !above
		}
	}
	if passes < fewestPasses {
		return nil
	}
	reach := min(max(len(y)/passes, len(y)/24), len(y)/8)
	out := make([]float64, len(y))
	for i := range y {
		lo, hi := max(0, i-reach), min(len(y), i+reach+1)
		for _, v := range y[lo:hi] {
			out[i] += v / float64(hi-lo)
		}
	}
	return out
}

// What makes a line rough: its points, its range in units of its mean, and how often it
// passes its mean.
const (
	fewestSmoothed = 48
	roughness      = 0.1
	fewestPasses   = 6
)

func ratePicture(vs []view, opts PNGOptions) *picture {
	st := styles(vs)
	p := &picture{}
	c := &chart{Title: "rows inserted per second (rows/s)", X: scale{Name: "rows inserted", From: 0, To: 1}, Y: scale{Log: opts.Log}, Ends: true}
	c.Note = onlyIf(opts.Log, "logarithmic")
	for i := range vs {
		v := &vs[i]
		c.X.To = max(c.X.To, v.curve.Rows())
		at := c.addRate(v.curve, v.windows(pictureWindows), line{Name: v.label, Style: st[i], Thin: v.minor})
		if at < 0 || v.minor {
			continue
		}
		c.Lines[at].End = []string{short(v.sum.Rate.Last) + " rows/s", "in the last tenth"}
		if v.tooShort() != "" {
			c.Lines[at].End = []string{short(v.sum.RowsPerSecond) + " rows/s", "on average"}
		}
		if len(leaders(vs)) > mostKnees { // a line each, or they would be far from their runs
			c.Lines[at].Name, c.Lines[at].End = v.label+" "+short(v.sum.Rate.Last), []string{}
		}
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
	style style
	vs    []*view
}

func distributions(sets []distribution) *section {
	s := &section{Title: "Distribution of latencies", In: inHTML}
	var names legend
	found := map[string]bool{}
	for _, set := range sets {
		names = append(names, key{set.name, set.style})
		for _, v := range set.vs {
			for op := range v.sum.LatencyUS {
				found[op] = true
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
