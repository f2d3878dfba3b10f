package report

import (
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A panel is one chart of a speed test: a figure over the number of clients, with a
// line for each contender.
type panel struct {
	title string
	log   bool
	lines []panelLine
}

type panelLine struct {
	clients []int
	values  []float64
}

// panels returns the panels of an operation: the rate, and the latency below it.
func (o *SpeedOperation) panels() (rate, latency panel) {
	rate.title = o.name() + ", " + o.Counts + "/s"
	latency.title, latency.log = "p99, ms", true
	if o.Counts == countsOperations {
		rate.title, latency.title = o.name()+", rows/s inserted", "p99 of inserts, ms"
	}
	for i := range o.Courses {
		var r, l panelLine
		for _, c := range o.Courses[i].Cells {
			v := c.Rate
			if c.InsertedRows != nil {
				v = *c.InsertedRows // selects are only in the table
			}
			r.clients, r.values = append(r.clients, c.Clients), append(r.values, v)
			for _, op := range []string{"insert", o.Operation} {
				if lat, ok := c.LatencyUS[op]; ok && lat.P99 > 0 {
					l.clients, l.values = append(l.clients, c.Clients), append(l.values, lat.P99/1e3)
					break
				}
			}
		}
		rate.lines, latency.lines = append(rate.lines, r), append(latency.lines, l)
	}
	return rate, latency
}

// span returns the lowest and the highest value of the panel; 0.1 and 1 if no value
// is above 0.
func (p *panel) span() (low, top float64) {
	low, top = math.Inf(1), 0
	for _, l := range p.lines {
		for _, v := range l.values {
			low, top = min(low, v), max(top, v)
		}
	}
	if top == 0 {
		return 0.1, 1
	}
	return low, top
}

// clients returns the numbers of clients of all lines, for the ticks.
func (p *panel) clients() []int {
	seen := map[int]bool{}
	var out []int
	for _, l := range p.lines {
		for _, n := range l.clients {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}

// logMargin is the factor by which a logarithmic axis extends below and above the
// values: with 2, at least two ticks are on it.
const logMargin = 2

// clientsAxis returns the position of a number of clients. The axis is logarithmic
// because measurements double the number of clients.
func clientsAxis(n int) float64 { return math.Log2(float64(n)) }

// speedStyle returns a contender's style: a colour and, beyond the palette, a dash.
func speedStyle(i int) style {
	s := palette[i%len(palette)]
	if round := i / len(palette); round > 0 {
		s.dash = []float64{float64(2 + 2*round), 3}
	}
	return s
}

// draw draws the panels, one column per operation.
func (t *SpeedTest) draw(dc draw.Canvas, opts PNGOptions) error {
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	left, top := dc.Min.X+px(marginSide), dc.Max.Y
	room := dc.Max.X - left - px(marginSide)
	title := opts.Title
	if title == "" {
		title = t.title()
	}
	fitted(dc, textStyle(26, inkColour, true), vg.Point{X: left, Y: top - px(18)}, room, title)
	fitted(dc, textStyle(15, mutedColour, false), vg.Point{X: left, Y: top - px(53)}, room, t.subtitle())
	legend := textStyle(15, inkColour, false)
	x, y := left, top-px(84)
	for i, c := range t.Contenders {
		if x+px(50)+legend.Width(c.Label) > dc.Max.X {
			break
		}
		dc.StrokeLine2(contenderLine(i), x, y-px(8), x+px(40), y-px(8))
		dc.FillText(legend, vg.Point{X: x + px(48), Y: y}, c.Label)
		x += px(76) + legend.Width(c.Label)
	}
	body := draw.Crop(dc, px(marginSide), -px(marginSide), px(marginBottom), -px(116))
	width := (body.Max.X - body.Min.X) / vg.Length(len(t.Operations))
	height := body.Max.Y - body.Min.Y
	for i := range t.Operations {
		rate, latency := t.Operations[i].panels()
		rate.log = opts.Log
		column := draw.Crop(body, vg.Length(i)*width, vg.Length(i+1)*width-(body.Max.X-body.Min.X), 0, 0)
		if err := rate.draw(draw.Crop(column, 0, -px(16), height*2/5, 0), false); err != nil {
			return err
		}
		if err := latency.draw(draw.Crop(column, 0, -px(16), 0, -height*3/5), true); err != nil {
			return err
		}
	}
	return nil
}

func contenderLine(i int) draw.LineStyle {
	s := speedStyle(i)
	line := draw.LineStyle{Color: rgb(s.light), Width: px(3)}
	for _, d := range s.dash {
		line.Dashes = append(line.Dashes, px(1.6*d))
	}
	return line
}

// draw draws one panel; named adds the name of the clients axis.
func (p *panel) draw(dc draw.Canvas, named bool) error {
	fitted(dc, textStyle(14, inkColour, true), vg.Point{X: dc.Min.X, Y: dc.Max.Y}, dc.Max.X-dc.Min.X, p.title)
	pl := plot.New()
	pl.BackgroundColor = nil
	low, top := p.span()
	for _, a := range []*plot.Axis{&pl.X, &pl.Y} {
		a.Label.TextStyle = textStyle(13, mutedColour, false)
		a.Tick.Label = textStyle(13, mutedColour, false)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = text.XCenter, text.YTop
		a.Tick.LineStyle.Color, a.Tick.Length = gridColour, px(4)
		a.LineStyle.Color, a.LineStyle.Width = mutedColour, px(1)
		a.Padding = 0
	}
	pl.Y.Tick.Label.XAlign, pl.Y.Tick.Label.YAlign = text.XRight, text.YCenter
	pl.Y.LineStyle.Width, pl.Y.Tick.Length = 0, 0
	pl.Y.Tick.Marker = plot.TickerFunc(niceTicks)
	if named {
		pl.X.Label.Text = "clients"
	}
	var ticks []plot.Tick
	for _, n := range p.clients() {
		ticks = append(ticks, plot.Tick{Value: clientsAxis(n), Label: strconv.Itoa(n)})
	}
	pl.X.Tick.Marker = plot.ConstantTicks(ticks)
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color, grid.Horizontal.Width = gridColour, px(1)
	pl.Add(grid)
	for i, l := range p.lines {
		if err := l.add(pl, i); err != nil {
			return err
		}
	}
	pl.Y.Min, pl.Y.Max = 0, top*1.1
	if p.log {
		pl.Y.Min, pl.Y.Max = low/logMargin, top*logMargin
		pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decadeTicks)
	}
	// Some space left of the first and right of the last number of clients.
	pl.X.Min, pl.X.Max = pl.X.Min-0.2, pl.X.Max+0.2
	if len(ticks) == 0 {
		pl.X.Min, pl.X.Max = 0, 1
	}
	pl.Draw(draw.Crop(dc, 0, 0, 0, -px(22)))
	return nil
}

// add draws a contender's line with a dot at each cell.
func (l *panelLine) add(pl *plot.Plot, i int) error {
	var pts plotter.XYs
	for j, n := range l.clients {
		if v := l.values[j]; !math.IsNaN(v) && !math.IsInf(v, 0) && v > 0 {
			pts = append(pts, plotter.XY{X: clientsAxis(n), Y: v})
		}
	}
	if len(pts) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(pts)
	if err != nil {
		return err
	}
	line.LineStyle = contenderLine(i)
	dots.GlyphStyle = draw.GlyphStyle{Color: line.Color, Radius: px(4), Shape: draw.CircleGlyph{}}
	pl.Add(line, dots)
	return nil
}

// PNG writes the panels as a picture.
func (t *SpeedTest) PNG(w io.Writer, opts PNGOptions) error {
	opts = opts.sized(defaultHeight)
	return writePicture(w, opts, func(dc draw.Canvas) error { return t.draw(dc, opts) })
}
