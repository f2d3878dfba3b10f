package document

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
)

// A Chart plots lines and dots over two axes, in a picture and in the page.
type Chart struct {
	// Title says what is plotted and in which unit, Note what the marks mean.
	Title, Note string
	X, Y        Scale
	Lines       []Line
	Knees       []Knee
	Levels      []Level
	// Height is in pixels of the page; in a picture, heights and widths are shares.
	Height, Width float64
	// Ends labels each named line at its end.
	Ends bool
}

// A Scale is one axis. The zero value of Scale is linear, and spans the data.
type Scale struct {
	Name     string
	Log      bool
	From, To float64 // the span, if To is above From
	// Ticks are fixed ticks; nil puts ticks at round numbers, whose labels Format writes.
	Ticks  []Tick
	Format func(float64) string
	// Margin is the space beyond the data: a share of the span; a factor on a logarithmic axis.
	Margin float64
	// Bare omits the labels. Room is their minimum width: it aligns charts above each other.
	Bare bool
	Room float64
}

// A Tick is a labelled place of an axis.
type Tick struct {
	At    float64
	Label string
}

// A Line is a figure over the chart's x. A missing figure, NaN, leaves a gap.
type Line struct {
	Name  string
	Style Style
	X, Y  []float64
	// Lo and Hi are the extremes behind the means in Y, or nil.
	Lo, Hi []float64
	// Faint lines are pale and behind other lines; Thin lines are drawn thinner.
	Faint, Thin bool
	// Dots draws a dot for each figure, Crosses a cross (a failure). Bare omits the stroke.
	Dots, Crosses, Bare bool
	// Tips describe the figures to a reader who points at them.
	Tips []string
	// End has the lines of text below the name, in the label at the line's end.
	End []string
}

// A Knee marks a place on a line.
type Knee struct {
	Line  int
	At    float64
	Label string
}

// A Level is a horizontal line across the chart, e.g. a limit.
type Level struct {
	At    float64
	Label string
}

func (*Chart) Kind() string { return "chart" }

// Charts are several charts side by side.
type Charts []*Chart

func (Charts) Kind() string { return "charts" }

// A Canvas draws in pixels; y grows downwards. Paints are names of colours.
type Canvas interface {
	Stroke(pts []XY, p Pen)
	Dot(at XY, radius float64, paint string, cross bool, tip string)
	// Text writes a line of text whose middle is at the height of at.
	Text(at XY, s string, f Face)
}

// An XY is a point, in pixels.
type XY struct{ X, Y float64 }

// A Pen is how a line is drawn.
type Pen struct {
	paint  string
	width  float64
	Dashes []float64
	faint  bool
}

// A Face is how a text is written.
type Face struct {
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
	LabelRow    = 17
	labelColumn = 90 // room for "500 µs" in the larger text of phones
	MostKnees   = 4  // labels of more knees would cover each other
	kneeRadius  = 5
	aboveAxis   = 4    // between a line's label and the axis
	widerFonts  = 1.25 // browsers' fonts are wider than the measured font, by up to this factor
)

// A plotArea is the place of a chart's data.
type plotArea struct {
	c        *Chart
	cv       Canvas
	at       Box
	x, y     Scale // with their spans
	taken    []Box
	courses  [][]XY  // of the lines, in pixels
	baseline float64 // the lower edge, below the axis of x
	right    float64 // the end of the labels beside it
}

// A Box is a rectangle, in pixels.
type Box struct{ X0, Y0, X1, Y1 float64 }

func (b Box) overlaps(o Box) bool { return b.X0 < o.X1 && o.X0 < b.X1 && b.Y0 < o.Y1 && o.Y0 < b.Y1 }

func (c *Chart) draw(cv Canvas, in Box) {
	p := &plotArea{c: c, cv: cv, at: in, right: in.X1}
	if c.Title != "" {
		room := in.X1 - in.X0
		cv.Text(XY{in.X0, in.Y0 + 8}, fitted(c.Title, 14, true, room), Face{14, "ink", true, -1})
		if aside := textWidthOf(c.Title, 14, true) + 10; c.Note != "" && aside < room {
			cv.Text(XY{in.X0 + aside, in.Y0 + 8}, fitted(c.Note, 12.5, false, room-aside), Face{12.5, "muted", false, -1})
		}
		p.at.Y0 += titleRoom
	}
	lo, hi := c.extent(func(l *Line) [][]float64 { return [][]float64{l.X} }, nil)
	p.x = c.X.span(lo, hi, min(mostTicks, max(2, int((p.at.X1-p.at.X0)/labelColumn))), false)
	lo, hi = c.extent(func(l *Line) [][]float64 { return [][]float64{l.Y, l.Lo, l.Hi} }, c.Levels)
	p.y = c.Y.span(lo, hi, min(mostTicks, max(2, int((p.at.Y1-p.at.Y0-tickRoom)/LabelRow))), true)
	p.margins()
	p.grid()
	p.lines()
	p.levels()
	p.ends()
	p.knees()
}

func (c *Chart) extent(of func(l *Line) [][]float64, levels []Level) (lo, hi float64) {
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

// span returns the scale with its range and its ticks, for data from lo to hi. A linear axis of
// figures begins at 0.
func (s Scale) span(lo, hi float64, ticks int, inFigures bool) Scale {
	switch {
	case s.To > s.From:
	case math.IsInf(lo, 0) || hi <= 0 && inFigures:
		s.From, s.To = 0, 1
		if s.Log {
			s.From = 0.1
		}
	case s.Log:
		lo = max(lo, hi/math.Pow(10, mostDecades))
		margin := cmp.Or(s.Margin, 1.3)
		s.From, s.To = lo/margin, hi*margin
	case inFigures:
		s.From, s.To = min(0, lo), hi+(hi-min(0, lo))*cmp.Or(s.Margin, 0.08)
	default:
		s.From, s.To = lo-(hi-lo)*s.Margin, hi+(hi-lo)*s.Margin
	}
	if s.To <= s.From {
		if s.Ticks == nil && !inFigures { // all data are at one place
			s.Ticks = []Tick{{s.From, figure.Short(s.From)}}
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

// share returns the position of a figure on the axis: 0 is its beginning, 1 its end.
func (s *Scale) share(v float64) float64 {
	if s.Log {
		return min(max((math.Log(max(v, s.From))-math.Log(s.From))/(math.Log(s.To)-math.Log(s.From)), 0), 1)
	}
	return min(max((v-s.From)/(s.To-s.From), 0), 1)
}

func (p *plotArea) px(v float64) float64 { return p.at.X0 + (p.at.X1-p.at.X0)*p.x.share(v) }
func (p *plotArea) py(v float64) float64 { return p.at.Y1 - (p.at.Y1-p.at.Y0)*p.y.share(v) }

func (p *plotArea) margins() {
	if !p.y.Bare {
		widest := p.y.Room
		for _, t := range p.y.Ticks {
			widest = max(widest, textWidthOf(t.Label, labelSize, false))
		}
		p.at.X0 += widerFonts*widest + 8
	}
	p.at.Y0 += 8
	p.baseline = p.at.Y1
	if !p.x.Bare {
		p.at.Y1 -= tickRoom
		if p.x.Name != "" {
			p.at.Y1 -= nameRoom
		}
	}
	right := 10.0
	if p.c.Ends {
		for i := range p.c.Lines {
			right = max(right, widerFonts*p.c.Lines[i].endWidth()+26)
		}
	}
	p.at.X1 -= min(right, (p.at.X1-p.at.X0)/3)
}

func (p *plotArea) grid() {
	thin := Pen{paint: "grid", width: 1}
	for _, t := range p.y.Ticks {
		y := p.py(t.At)
		p.cv.Stroke([]XY{{p.at.X0, y}, {p.at.X1, y}}, thin)
		if !p.y.Bare {
			p.cv.Text(XY{p.at.X0 - 6, y}, t.Label, Face{labelSize, "muted", false, 1})
		}
	}
	p.cv.Stroke([]XY{{p.at.X0, p.at.Y1}, {p.at.X1, p.at.Y1}}, Pen{paint: "muted", width: 1})
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
		p.cv.Text(XY{min(x, p.right-widerFonts*half), p.at.Y1 + 12}, t.Label, Face{labelSize, "muted", false, 0})
	}
	if p.x.Name != "" {
		p.cv.Text(XY{(p.at.X0 + p.at.X1) / 2, p.baseline - 7}, p.x.Name, Face{labelSize, "muted", false, 0})
	}
}

// lines draws the lines, beginning with the faint ones.
func (p *plotArea) lines() {
	p.courses = make([][]XY, len(p.c.Lines))
	for _, strength := range []func(l *Line) bool{
		func(l *Line) bool { return l.Faint },
		func(l *Line) bool { return l.Thin && !l.Faint },
		func(l *Line) bool { return !l.Thin && !l.Faint },
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
	how := Pen{paint: l.Style.paint(), width: 2.5, Dashes: l.Style.Dashes, faint: l.Faint}
	if l.Thin || l.Faint {
		how.width = 1.2
	}
	if l.Faint {
		how.Dashes = nil
	}
	var part []XY
	flush := func() {
		if len(part) == 1 && !l.Dots {
			p.cv.Dot(part[0], 3, how.paint, false, "")
		} else if len(part) > 1 && !l.Bare {
			p.cv.Stroke(part, how)
		}
		part = nil
	}
	for k, v := range l.Y {
		if math.IsNaN(v) || math.IsInf(v, 0) || p.y.Log && v <= 0 || l.X[k] > p.x.To {
			flush()
			continue
		}
		at := XY{p.px(l.X[k]), p.py(v)}
		if l.Lo != nil && p.py(l.Lo[k])-p.py(l.Hi[k]) > 1 {
			p.cv.Stroke([]XY{{at.X, p.py(l.Lo[k])}, {at.X, p.py(l.Hi[k])}}, Pen{paint: how.paint, width: 1.5, faint: true})
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
			p.cv.Dot(at, 4, how.paint, l.Crosses, tip)
		}
	}
}

// endWidth returns the width of the label at the line's end, 0 without one.
func (l *Line) endWidth() float64 {
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
		p.cv.Stroke([]XY{{p.at.X0, y}, {p.at.X1, y}}, Pen{paint: "muted", width: 1, Dashes: []float64{4, 3}})
		if l.Label != "" {
			muted := Face{labelSize, "muted", false, -1}
			p.label(XY{p.at.X0, y}, []string{l.Label}, muted, muted)
		}
	}
}

// ends labels the lines at their ends. Labels of lines that end near the right edge stand beside
// the chart, one below the other. The label of a line that ends earlier stands within the chart.
func (p *plotArea) ends() {
	if !p.c.Ends {
		return
	}
	type end struct {
		l  *Line
		at XY
	}
	var all []end
	for i := range p.c.Lines {
		if l, course := &p.c.Lines[i], p.courses[i]; l.End != nil && len(course) > 0 {
			all = append(all, end{l, course[len(course)-1]})
		}
	}
	slices.SortStableFunc(all, func(a, b end) int { return cmp.Compare(a.at.Y, b.at.Y) })
	height := func(e end) float64 { return LabelRow * float64(1+len(e.l.End)) }
	floor, top := p.at.Y1-aboveAxis, p.at.Y0-titleRoom/2
	beside := func(e end) bool { return e.at.X+9+e.l.endWidth() > p.at.X1 }
	for _, e := range all {
		if beside(e) {
			floor -= height(e)
		}
	}
	for _, e := range all {
		name := Face{labelSize, e.l.Style.paint(), true, -1}
		if !beside(e) {
			place := p.label(e.at, append([]string{e.l.Name}, e.l.End...), name, Face{labelSize, "ink", false, -1})
			if near := (XY{min(max(e.at.X, place.X0), place.X1), min(max(e.at.Y, place.Y0), place.Y1)}); math.Abs(near.Y-e.at.Y) > LabelRow {
				p.cv.Stroke([]XY{e.at, near}, Pen{paint: e.l.Style.paint(), width: 1})
			}
			continue
		}
		y := max(top, min(e.at.Y-height(e)/2, floor))
		top, floor = y+height(e), floor+height(e)
		at := XY{max(e.at.X, p.at.X1) + 9, y + LabelRow/2}
		if math.Abs(y+height(e)/2-e.at.Y) > LabelRow/2 || at.X > e.at.X+2*LabelRow {
			at.X += 12
			p.cv.Stroke([]XY{e.at, {at.X - 3, y + height(e)/2}}, Pen{paint: e.l.Style.paint(), width: 1})
		}
		p.taken = append(p.taken, Box{at.X - 3, y, at.X + e.l.endWidth() + 3, y + height(e)})
		p.cv.Text(at, fitted(e.l.Name, labelSize, true, (p.right-at.X)/widerFonts), name)
		for i, s := range e.l.End {
			p.cv.Text(XY{at.X, at.Y + float64(i+1)*LabelRow}, s, Face{labelSize, "ink", false, -1})
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
		at := XY{x, heightAt(course, x)}
		p.cv.Stroke([]XY{{x, p.at.Y0}, {x, p.at.Y1}}, Pen{paint: "muted", width: 1, Dashes: []float64{3, 3}})
		p.cv.Dot(at, kneeRadius+2, "ground", false, "")
		p.cv.Dot(at, kneeRadius, p.c.Lines[k.Line].Style.paint(), false, k.Label)
		ink := Face{labelSize, "ink", true, -1}
		p.label(at, strings.Split(k.Label, "\n"), ink, ink)
	}
}

func heightAt(course []XY, x float64) float64 {
	i := slices.IndexFunc(course, func(pt XY) bool { return pt.X >= x })
	switch {
	case i < 0:
		return course[len(course)-1].Y
	case i == 0:
		return course[0].Y
	}
	a, b := course[i-1], course[i]
	return a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X)
}

// label writes lines of text to the right or to the left of the point at, as near to its height as
// possible without covering a line of the chart or another label.
func (p *plotArea) label(at XY, lines []string, head, tail Face) Box {
	const aside = 9
	width, height := 0.0, LabelRow*float64(len(lines))
	for _, s := range lines {
		width = max(width, textWidthOf(s, labelSize, true))
	}
	var best Box
	nearest := math.Inf(1)
	for y := p.at.Y0 + height/2; y <= p.at.Y1-height/2; y += 6 {
		for _, x := range []float64{at.X + aside, at.X - aside - width} {
			place := Box{x, y - height/2, x + width, y + height/2}
			if away := math.Abs(y - at.Y); away < nearest && x >= p.at.X0 && place.X1 <= p.at.X1 && p.clear(place) {
				best, nearest = place, away
			}
		}
	}
	if math.IsInf(nearest, 1) { // no room: above the lines
		x := min(at.X+aside, p.at.X1-width)
		best = Box{x, p.at.Y0, x + width, p.at.Y0 + height}
	}
	p.taken = append(p.taken, best)
	for i, s := range lines {
		if i > 0 {
			head = tail
		}
		p.cv.Text(XY{best.X0, best.Y0 + LabelRow*(float64(i)+0.5)}, s, head)
	}
	return best
}

// clear reports whether a place is free of labels, levels and lines; faint lines don't count.
func (p *plotArea) clear(place Box) bool {
	if slices.ContainsFunc(p.taken, place.overlaps) {
		return false
	}
	room := Box{place.X0 - 3, place.Y0 - 3, place.X1 + 3, place.Y1 + 3}
	for _, l := range p.c.Levels {
		if y := p.py(l.At); y > room.Y0 && y < room.Y1 {
			return false
		}
	}
	for n, course := range p.courses {
		for i := 1; i < len(course) && !p.c.Lines[n].Faint; i++ {
			a, b := course[i-1], course[i]
			if max(a.X, b.X) < room.X0 || min(a.X, b.X) > room.X1 || max(a.Y, b.Y) < room.Y0 || min(a.Y, b.Y) > room.Y1 {
				continue
			}
			steps := math.Ceil(math.Hypot(b.X-a.X, b.Y-a.Y)/3) + 1
			for k := range int(steps) + 1 {
				x, y := a.X+(b.X-a.X)*float64(k)/steps, a.Y+(b.Y-a.Y)*float64(k)/steps
				if x > room.X0 && x < room.X1 && y > room.Y0 && y < room.Y1 {
					return false
				}
			}
		}
	}
	return true
}

// niceTicks puts at most `most` ticks at multiples of 1, 2 or 5 times a power of ten. Their labels
// are short, e.g. 250k or 1M.
func niceTicks(lo, hi float64, most int) []Tick {
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
	var out []Tick
	for i := math.Ceil(lo / step); i*step <= hi*(1+1e-9); i++ {
		out = append(out, Tick{i * step, figure.Short(i * step)})
	}
	return out
}

// decadeTicks puts ticks at 1, 2 and 5 times each power of ten. If the range is wide, or there is
// room for few ticks only, it puts them only at the powers of ten.
func decadeTicks(lo, hi float64, most int) []Tick {
	var out []Tick
	parts := []float64{1, 2, 5}
	if hi/lo > 2e3 || 3*math.Log10(hi/lo) > float64(most)+2 {
		parts = parts[:1]
	}
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range parts {
			if v := m * math.Pow(10, e); v >= lo && v <= hi {
				out = append(out, Tick{v, figure.Short(v)})
			}
		}
	}
	return out
}

// A line is rough if it has at least fewestSmoothed points, a range of at least roughness times its
// mean, and crosses its mean at least fewestPasses times.
const (
	fewestSmoothed = 48
	roughness      = 0.1
	fewestPasses   = 6
)

// Smoothed returns the moving mean of a line that goes up and down repeatedly, e.g. the rate of a
// table whose indexes grow with each period. The mean is over about one wave. For other lines,
// Smoothed returns nil: a mean would blur their turns.
func Smoothed(y []float64) []float64 {
	mean, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for _, v := range y {
		mean += v / float64(len(y))
		low, high = min(low, v), max(high, v)
	}
	if len(y) < fewestSmoothed || !(high-low >= roughness*mean) { // false for NaN
		return nil
	}
	// A wave must pass the mean by a tenth of the range; anything smaller is noise.
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
