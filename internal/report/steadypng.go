package report

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A steadyPicture draws constant loads: the panels above each other over the time of
// day, and below them the hours, darker the longer the load was below target.
type steadyPicture struct {
	vs      []steadyView
	styles  []style
	opts    PNGOptions
	buckets [][]bucket
	panels  []steadyPanel
	from    float64 // the ends of the axis
	to      float64
}

func newSteadyPicture(vs []view, ss []steadyView, opts PNGOptions) *steadyPicture {
	p := &steadyPicture{vs: ss, styles: styles(vs), opts: opts, from: math.Inf(1), to: math.Inf(-1)}
	for i := range ss {
		p.styles[i] = palette[i%len(palette)]
		bs, _ := buckets(ss[i].rec.Intervals)
		p.buckets = append(p.buckets, bs)
		begin := p.begin(i)
		p.from, p.to = min(p.from, begin), max(p.to, begin+ss[i].sum.Seconds)
	}
	if p.to <= p.from {
		p.to = p.from + 1
	}
	p.panels = steadyPanels(ss, p.buckets)
	return p
}

// begin returns the position of a run's start on the axis.
func (p *steadyPicture) begin(i int) float64 {
	if p.opts.Elapsed {
		return 0
	}
	return p.vs[i].shift
}

// Space in pixels.
const (
	steadyLeft, steadyRight = 92, 24
	steadyTop               = 104
	steadyTitle             = 22 // above each panel
	steadyAxis              = 30 // below the last
	steadyStrip             = 16 // the hours of one run on one day
)

func (p *steadyPicture) draw(dc draw.Canvas) error {
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	p.heading(dc)
	strips := p.strips()
	bottom := dc.Min.Y + px(16)
	if len(strips) > 0 {
		bottom += px(44 + steadyStrip*float64(len(strips)))
		p.heat(dc, dc.Min.Y+px(12), strips)
	}
	top := dc.Max.Y - px(steadyTop)
	height := (top - bottom - px(steadyAxis)) / vg.Length(len(p.panels))
	if height < px(2*steadyTitle) {
		return fmt.Errorf("%d panels need a higher picture", len(p.panels))
	}
	for n := range p.panels {
		area := draw.Canvas{Canvas: dc.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: dc.Min.X + px(steadyLeft), Y: top - height*vg.Length(n+1)},
			Max: vg.Point{X: dc.Max.X - px(steadyRight), Y: top - height*vg.Length(n) - px(steadyTitle)},
		}}
		if err := p.panel(area, &p.panels[n], n == len(p.panels)-1); err != nil {
			return err
		}
	}
	return nil
}

func (p *steadyPicture) heading(dc draw.Canvas) {
	left, top := dc.Min.X+px(marginSide), dc.Max.Y
	room := dc.Max.X - left - px(marginSide)
	title := p.opts.Title
	if title == "" {
		title = "A constant load of " + p.vs[0].target() + ", and what the machine had for it"
	}
	fitted(dc, textStyle(24, inkColour, true), vg.Point{X: left, Y: top - px(14)}, room, title)
	line := ""
	if len(p.vs) == 1 {
		line = p.vs[0].label + ": " + p.vs[0].below()
	} else {
		for i := range p.vs {
			line += fmt.Sprintf("%s: %s of the time below target   ", p.vs[i].label, percent(p.vs[i].s.BelowShare))
		}
	}
	fitted(dc, textStyle(15, mutedColour, false), vg.Point{X: left, Y: top - px(46)}, room, line)
	var what []string
	for i := range p.vs[0].s.Causes {
		if c := &p.vs[0].s.Causes[i]; c.Attributed > 0 {
			what = append(what, c.Name+" "+percent(c.Attributed))
		}
	}
	if len(p.vs) == 1 && p.vs[0].s.BelowSeconds > 0 && p.vs[0].s.Unjudged == "" {
		what = append(what, "unexplained "+percent(p.vs[0].s.Unexplained))
		fitted(dc, textStyle(15, mutedColour, false), vg.Point{X: left, Y: top - px(68)}, room, "what went with that: "+strings.Join(what, ", "))
	}
	if len(p.vs) < 2 {
		return
	}
	x := left
	for i := range p.vs {
		name := textStyle(15, rgb(p.styles[i].light), true)
		dc.StrokeLine2(draw.LineStyle{Color: rgb(p.styles[i].light), Width: px(3)}, x, top-px(78), x+px(30), top-px(78))
		fitted(dc, name, vg.Point{X: x + px(36), Y: top - px(70)}, room, p.vs[i].label)
		x += px(60) + name.Width(oneLine(p.vs[i].label))
	}
}

// panel draws one chart into the given area.
func (p *steadyPicture) panel(area draw.Canvas, panel *steadyPanel, last bool) error {
	title := panel.Title
	if len(p.vs) == 1 && len(panel.Lines) > 1 {
		title += ": " + panel.Lines[0].Label + ", dashed " + panel.Lines[1].Label
	}
	area.FillText(textStyle(14, inkColour, true), vg.Point{X: area.Min.X, Y: area.Max.Y + px(steadyTitle-3)}, title)
	top := panel.Least
	if panel.Target > 0 {
		top = max(top, 1.1*panel.Target)
	}
	for i := range panel.Lines {
		for k, v := range panel.Lines[i].Mean {
			if panel.Lines[i].Hi != nil {
				v = panel.Lines[i].Hi[k]
			}
			if v > top { // false for NaN
				top = v
			}
		}
	}
	if top <= 0 {
		top = 1
	}
	top *= 1.06
	x := func(at float64) vg.Length {
		return area.Min.X + (area.Max.X-area.Min.X)*vg.Length((at-p.from)/(p.to-p.from))
	}
	y := func(v float64) vg.Length {
		return area.Min.Y + (area.Max.Y-area.Min.Y)*vg.Length(min(max(v/top, 0), 1))
	}
	grid := draw.LineStyle{Color: gridColour, Width: px(1)}
	labels := textStyle(12, mutedColour, false)
	labels.XAlign, labels.YAlign = text.XRight, text.YCenter
	for _, tick := range sparseTicks(top) {
		area.StrokeLine2(grid, area.Min.X, y(tick), area.Max.X, y(tick))
		area.FillText(labels, vg.Point{X: area.Min.X - px(6), Y: y(tick)}, inPanel(tick, panel.Unit))
	}
	labels.XAlign, labels.YAlign = text.XCenter, text.YTop
	for _, tick := range p.timeTicks() {
		area.StrokeLine2(grid, x(tick.Value), area.Min.Y, x(tick.Value), area.Max.Y)
		if last {
			area.FillText(labels, vg.Point{X: x(tick.Value), Y: area.Min.Y - px(5)}, tick.Label)
		}
	}
	if panel.Target > 0 {
		area.StrokeLine2(draw.LineStyle{Color: mutedColour, Width: px(1), Dashes: []vg.Length{px(4), px(3)}}, area.Min.X, y(panel.Target), area.Max.X, y(panel.Target))
	}
	for i := range panel.Lines {
		p.line(area, &panel.Lines[i], x, y)
	}
	area.StrokeLine2(draw.LineStyle{Color: mutedColour, Width: px(1)}, area.Min.X, area.Min.Y, area.Max.X, area.Min.Y)
	return nil
}

// line draws a figure and, behind it, the range between its minimum and maximum;
// missing figures leave a gap in the line.
func (p *steadyPicture) line(area draw.Canvas, l *stripLine, x, y func(float64) vg.Length) {
	colour := rgb(p.styles[l.Run].light)
	at := p.vs[l.Run].axis(p.buckets[l.Run])
	begin := p.begin(l.Run)
	style := draw.LineStyle{Color: colour, Width: px(1.6)}
	if l.Second {
		style.Dashes = []vg.Length{px(4), px(3)}
	}
	faint := colour.(color.NRGBA)
	faint.A = 0x50
	var part []vg.Point
	flush := func() {
		if len(part) == 1 {
			area.DrawGlyph(draw.GlyphStyle{Color: colour, Radius: px(2), Shape: draw.CircleGlyph{}}, part[0])
		} else if len(part) > 1 {
			area.StrokeLines(style, part)
		}
		part = nil
	}
	for k, v := range l.Mean {
		if math.IsNaN(v) {
			flush()
			continue
		}
		where := x(begin + at[k])
		if l.Hi != nil && !l.Second && y(l.Hi[k])-y(l.Lo[k]) > px(1) {
			area.StrokeLine2(draw.LineStyle{Color: faint, Width: px(1.5)}, where, y(l.Lo[k]), where, y(l.Hi[k]))
		}
		part = append(part, vg.Point{X: where, Y: y(v)})
	}
	flush()
}

// sparseTicks returns two to four ticks from 0.
func sparseTicks(top float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(top/2)))
	for _, m := range []float64{1, 2, 5, 10} {
		if top/(step*m) <= 3.2 {
			step *= m
			break
		}
	}
	var out []float64
	for i := 0.0; i*step <= top; i++ {
		out = append(out, i*step)
	}
	return out
}

func inPanel(v float64, unit string) string {
	switch {
	case v == 0:
		return "0"
	case unit == "microseconds":
		return micros(v)
	case unit == "rows/s":
		return short(v)
	}
	return inUnit(v, unit)
}

// timeTicks returns up to a dozen ticks at round times.
func (p *steadyPicture) timeTicks() []plot.Tick {
	var out []plot.Tick
	step := 1.0
	for _, s := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800} {
		step = s
		if (p.to-p.from)/s <= 12 {
			break
		}
	}
	for at := math.Ceil(p.from/step) * step; at <= p.to; at += step {
		out = append(out, plot.Tick{Value: at, Label: p.timeLabel(at, step)})
	}
	return out
}

func (p *steadyPicture) timeLabel(at, step float64) string {
	if p.opts.Elapsed {
		return clock(at)
	}
	day := math.Floor(at / daySeconds)
	n := int(at - day*daySeconds)
	s := fmt.Sprintf("%02d:%02d", n/3600, n/60%60)
	if step < 60 {
		s += fmt.Sprintf(":%02d", n%60)
	}
	if p.to > daySeconds*1.5 || p.from < 0 { // days must be distinguished
		s = fmt.Sprintf("day %d %s", int(day)+1, s)
	}
	return s
}

// A strip contains the hours of one run on one day.
type strip struct {
	run, day int
	cells    [24]*hourCell
}

// strips returns a strip for each run and day, ordered by day.
func (p *steadyPicture) strips() []strip {
	var out []strip
	at := map[[2]int]int{}
	for i := range p.vs {
		for _, c := range p.vs[i].cells() {
			key := [2]int{i, c.day}
			n, ok := at[key]
			if !ok {
				n = len(out)
				at[key] = n
				out = append(out, strip{run: i, day: c.day})
			}
			out[n].cells[c.hour] = &c
		}
	}
	return out
}

// heat draws the strips upwards from the given position, with the hours below them.
func (p *steadyPicture) heat(dc draw.Canvas, bottom vg.Length, strips []strip) {
	left, right := dc.Min.X+px(steadyLeft), dc.Max.X-px(steadyRight)
	width := (right - left) / 24
	small := textStyle(11, mutedColour, false)
	small.XAlign = text.XCenter
	for h := range 24 {
		dc.FillText(small, vg.Point{X: left + width*(vg.Length(h)+0.5), Y: bottom + px(10)}, fmt.Sprintf("%02d", h))
	}
	y := bottom + px(12) + px(steadyStrip*float64(len(strips)))
	title := textStyle(12, inkColour, true)
	dc.FillText(title, vg.Point{X: left, Y: y + px(17)}, "time below target in each hour of the day")
	x := left + title.Width("time below target in each hour of the day") + px(24)
	for i, what := range heatLegend {
		fill(dc, heatColours[i], x, y+px(5), px(11), px(11))
		dc.FillText(textStyle(12, mutedColour, false), vg.Point{X: x + px(15), Y: y + px(17)}, what)
		x += px(28) + small.Width(what) + px(8)
	}
	for _, s := range strips {
		y -= px(steadyStrip)
		name := textStyle(11, rgb(p.styles[s.run].light), false)
		name.XAlign, name.YAlign = text.XRight, text.YCenter
		dc.FillText(name, vg.Point{X: left - px(6), Y: y + px(steadyStrip/2)}, p.vs[s.run].stripLabel(s.day))
		for h, c := range s.cells {
			colour := "#f1f3f5"
			if c != nil {
				colour = heatColours[heat(c.h.BelowShare())]
			}
			fill(dc, colour, left+width*vg.Length(h)+px(0.5), y+px(1), width-px(1), px(steadyStrip-2))
		}
	}
}

func (v *steadyView) stripLabel(day int) string {
	if v.s.Host != "" && len(v.s.Host) <= 12 {
		return fmt.Sprintf("%s %d", v.s.Host, day+1)
	}
	return fmt.Sprintf("day %d", day+1)
}

func fill(dc draw.Canvas, colour string, x, y, width, height vg.Length) {
	dc.SetColor(rgb(colour))
	dc.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + width, Y: y + height}}.Path())
}
