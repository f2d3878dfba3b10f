package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/rowmill/rowmill/result"
)

// PNGOptions contains the options of PNG. The zero value is the documented default.
type PNGOptions struct {
	// Width and Height are in pixels; 0 means 1200 by 675, or 1200 by 1000 for
	// constant loads.
	Width, Height int
	// Title replaces the title made from the first run's header.
	Title string
	// Log draws the rate on a logarithmic axis.
	Log bool
	// Elapsed aligns constant loads by the time since their start instead of the
	// time of day.
	Elapsed bool
}

// The minimum and maximum side of a picture in pixels: the text doesn't fit into
// smaller pictures, and larger ones take too much memory.
const (
	minSide = 300
	maxSide = 8000
)

// Validate checks the options.
func (o PNGOptions) Validate() error {
	for _, side := range []int{o.Width, o.Height} {
		if side != 0 && (side < minSide || side > maxSide) {
			return fmt.Errorf("picture of %d x %d pixels: each side takes %d to %d", o.Width, o.Height, minSide, maxSide)
		}
	}
	return nil
}

// dpi makes a point 4/3 of a pixel, as in browsers.
const dpi = 96

func px(n float64) vg.Length { return vg.Length(n) * vg.Inch / dpi }

var (
	inkColour   = color.NRGBA{0x1f, 0x29, 0x37, 0xff}
	mutedColour = color.NRGBA{0x5b, 0x65, 0x73, 0xff}
	gridColour  = color.NRGBA{0xe6, 0xe9, 0xee, 0xff}
)

// steadyHeight is the default height of a picture of constant loads in pixels.
const steadyHeight = 1000

// PNG writes a picture of the rate against rows, with all runs in one plot; for runs
// of bench steady, a picture of the rate, latency and the machine's figures against
// time.
func PNG(w io.Writer, recs []result.Record, opts PNGOptions) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	if all, err := wholeOf(recs); err != nil {
		return err
	} else if all != nil {
		return all.PNG(w, opts)
	}
	vs, err := views(loads(recs))
	if err != nil {
		return err
	}
	if ss := steadies(vs); ss != nil {
		opts = opts.sized(steadyHeight)
		return writePicture(w, opts, newSteadyPicture(vs, ss, opts).draw)
	}
	opts = opts.sized(defaultHeight)
	return writePicture(w, opts, (&picture{vs: vs, styles: styles(vs), opts: opts}).draw)
}

// Default sizes of a picture in pixels.
const (
	defaultWidth  = 1200
	defaultHeight = 675
)

// sized returns the options with the default size if none was requested.
func (o PNGOptions) sized(height int) PNGOptions {
	if o.Width == 0 {
		o.Width = defaultWidth
	}
	if o.Height == 0 {
		o.Height = height
	}
	return o
}

// writePicture draws a picture of the size given by the options and writes it.
func writePicture(w io.Writer, opts PNGOptions, drawing func(draw.Canvas) error) error {
	canvas := vgimg.NewWith(vgimg.UseWH(px(float64(opts.Width)), px(float64(opts.Height))), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	if err := drawing(draw.New(canvas)); err != nil {
		return fmt.Errorf("draw picture: %w", err)
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

type picture struct {
	vs     []view
	styles []style
	opts   PNGOptions
}

// Space around the plot in pixels: above for the title, two lines of description and
// the legend; on the right for the labels of the lines' ends.
const (
	marginTop    = 142
	marginSide   = 22
	marginBottom = 16
	marginLabels = 138
)

func (p *picture) draw(dc draw.Canvas) error {
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	pl := plot.New()
	pl.BackgroundColor = nil
	top := p.axes(pl)
	for i := range p.vs {
		if err := p.line(pl, i); err != nil {
			return err
		}
	}
	if pl.X.Max <= pl.X.Min || math.IsInf(pl.X.Max, 0) {
		pl.X.Max = 1
	}
	pl.X.Min, pl.Y.Max = 0, top
	if p.opts.Log {
		pl.Y.Min = p.lowest()
	} else {
		pl.Y.Min = 0
	}
	body := draw.Crop(dc, px(marginSide), -px(marginLabels), px(marginBottom), -px(marginTop))
	pl.Draw(body)
	data := pl.DataCanvas(body)
	p.heading(dc)
	p.knees(data, pl)
	p.ends(data, pl)
	return nil
}

// axes sets up grid, labels and ticks, and returns the upper end of the rate axis.
func (p *picture) axes(pl *plot.Plot) float64 {
	pl.X.Label.Text = "rows inserted"
	for _, a := range []*plot.Axis{&pl.X, &pl.Y} {
		a.Label.TextStyle = textStyle(14, mutedColour, false)
		a.Label.Padding = px(2)
		a.Tick.Label = textStyle(14, mutedColour, false)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = text.XCenter, text.YTop
		a.Tick.LineStyle.Color, a.Tick.Length = gridColour, px(5)
		a.LineStyle.Color, a.LineStyle.Width = mutedColour, px(1)
		a.Padding = 0
		a.Tick.Marker = plot.TickerFunc(niceTicks)
	}
	pl.Y.Tick.Label.XAlign, pl.Y.Tick.Label.YAlign = text.XRight, text.YCenter
	pl.Y.LineStyle.Width, pl.Y.Tick.Length = 0, 0
	if p.opts.Log {
		pl.Y.Scale, pl.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decadeTicks)
	}
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color, grid.Horizontal.Width = gridColour, px(1)
	pl.Add(grid)
	highest := 1.0
	for i := range p.vs {
		for _, pt := range p.vs[i].course() {
			highest = max(highest, pt.Y)
		}
	}
	if p.opts.Log {
		return highest * 1.3
	}
	return highest * 1.08
}

// lowest returns the lower end of a logarithmic axis: slightly below the lowest
// rate, and at most four decades below the highest.
func (p *picture) lowest() float64 {
	low, high := math.Inf(1), 1.0
	for i := range p.vs {
		for _, pt := range p.vs[i].course() {
			high = max(high, pt.Y)
			if pt.Y > 0 {
				low = min(low, pt.Y)
			}
		}
	}
	if math.IsInf(low, 0) {
		return 0.1
	}
	return max(low*0.7, high/1e4)
}

// pictureWindows is the maximum number of points per line; with 150, single stalls
// are visible at 1200 pixels and the line stays thin.
const pictureWindows = 150

// partBatches is the minimum number of batches of each client per window: rows
// arrive in whole batches, so the rate of a smaller window is arbitrary.
const partBatches = 4

// steady returns the number of windows, at most n, into which the run's rows can be
// divided.
func (v *view) steady(n int) int {
	batch := max(1, v.rec.Run.Batch) * max(1, v.rec.Run.Writers)
	return max(1, min(n, int(v.curve.Rows())/(partBatches*batch)))
}

// course returns the run's rate over rows; each point is the mean over an equal part
// of the rows, placed in the middle of that part.
func (v *view) course() plotter.XYs {
	total := v.curve.Rows()
	n := min(v.steady(pictureWindows), len(v.curve)-1)
	if total <= 0 || n < 1 {
		return nil
	}
	var out plotter.XYs
	for i, rate := range v.curve.Windows(n) {
		if !math.IsNaN(rate) && !math.IsInf(rate, 0) {
			out = append(out, plotter.XY{X: total * (float64(i) + 0.5) / float64(n), Y: rate})
		}
	}
	return out
}

func (p *picture) line(pl *plot.Plot, i int) error {
	pts := p.vs[i].course()
	pl.X.Max = max(pl.X.Max, p.vs[i].curve.Rows())
	if len(pts) == 0 {
		return nil
	}
	if p.opts.Log {
		floor := p.lowest()
		for j := range pts {
			pts[j].Y = max(pts[j].Y, floor)
		}
	}
	if len(pts) == 1 {
		dot, err := plotter.NewScatter(pts)
		if err != nil {
			return err
		}
		dot.GlyphStyle = draw.GlyphStyle{Color: rgb(p.styles[i].light), Radius: px(5), Shape: draw.CircleGlyph{}}
		pl.Add(dot)
		return nil
	}
	l, err := plotter.NewLine(pts)
	if err != nil {
		return err
	}
	l.LineStyle = p.lineStyle(i)
	pl.Add(l)
	return nil
}

func (p *picture) lineStyle(i int) draw.LineStyle {
	s := draw.LineStyle{Color: rgb(p.styles[i].light), Width: px(3)}
	if p.vs[i].minor {
		s.Width = px(1)
	}
	for _, d := range p.styles[i].dash {
		s.Dashes = append(s.Dashes, px(1.6*d))
	}
	return s
}

// heading writes the title, the description, the legend, and the label of the rate
// axis above it: upright text is easier to read than rotated text.
func (p *picture) heading(dc draw.Canvas) {
	left, top := dc.Min.X+px(marginSide), dc.Max.Y
	room := dc.Max.X - left - px(marginSide)
	title := p.opts.Title
	if title == "" {
		title = p.title()
	}
	fitted(dc, textStyle(26, inkColour, true), vg.Point{X: left, Y: top - px(18)}, room, title)
	fitted(dc, textStyle(15, mutedColour, false), vg.Point{X: left, Y: top - px(53)}, room, p.subtitle())
	style := textStyle(15, inkColour, false)
	x, y := left, top-px(84)
	scale := ""
	if p.opts.Log {
		scale = ", logarithmic"
	}
	dc.FillText(textStyle(14, mutedColour, false), vg.Point{X: left, Y: top - px(116)}, "rows inserted per second (rows/s)"+scale)
	for _, i := range leaders(p.vs) {
		name := p.vs[i].bundleLabel()
		if x+px(50)+style.Width(name) > dc.Max.X {
			break
		}
		dc.StrokeLine2(p.lineStyle(i), x, y-px(8), x+px(40), y-px(8))
		dc.FillText(style, vg.Point{X: x + px(48), Y: y}, oneLine(name))
		x += px(76) + style.Width(name)
	}
}

// mostKnees is the maximum number of runs whose knees are marked: more labels would
// cover each other and the lines.
const mostKnees = 4

// knees marks the knee of each run on its line.
func (p *picture) knees(data draw.Canvas, pl *plot.Plot) {
	tx, ty := pl.Transforms(&data)
	for i := range p.vs {
		v := &p.vs[i]
		if v.sum.Knee == nil || v.minor || len(leaders(p.vs)) > mostKnees {
			continue
		}
		at := float64(v.sum.Knee.Rows)
		x, y := tx(at), ty(p.clamp(pl, v.rateAt(at)))
		dash := draw.LineStyle{Color: mutedColour, Width: px(1), Dashes: []vg.Length{px(3), px(3)}}
		data.StrokeLine2(dash, x, data.Min.Y, x, data.Max.Y)
		data.DrawGlyph(draw.GlyphStyle{Color: color.White, Radius: px(8), Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
		data.DrawGlyph(draw.GlyphStyle{Color: rgb(p.styles[i].light), Radius: px(6), Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
		s := textStyle(15, inkColour, true)
		label := fmt.Sprintf("knee of %s at %s rows", v.label, short(at))
		pt := vg.Point{X: x + px(14), Y: y + px(10)}
		if pt.X+s.Width(label) > data.Max.X {
			pt.X, s.XAlign = x-px(14), text.XRight
		}
		data.FillText(s, pt, label)
	}
}

func (p *picture) clamp(pl *plot.Plot, y float64) float64 { return min(max(y, pl.Y.Min), pl.Y.Max) }

// rateAt returns the rate of the run's line at a number of rows.
func (v *view) rateAt(rows float64) float64 {
	pts := v.course()
	i := slices.IndexFunc(pts, func(pt plotter.XY) bool { return pt.X >= rows })
	switch {
	case len(pts) == 0:
		return 0
	case i < 0:
		return pts[len(pts)-1].Y
	case i == 0:
		return pts[0].Y
	}
	a, b := pts[i-1], pts[i]
	return a.Y + (b.Y-a.Y)*(rows-a.X)/(b.X-a.X)
}

// ends writes each run's last rate at the end of its line, without overlaps.
func (p *picture) ends(data draw.Canvas, pl *plot.Plot) {
	tx, ty := pl.Transforms(&data)
	type label struct {
		i    int
		x, y vg.Length
	}
	var labels []label
	for i := range p.vs {
		pts := p.vs[i].course()
		if len(pts) == 0 || p.vs[i].minor {
			continue
		}
		last := pts[len(pts)-1]
		labels = append(labels, label{i, tx(last.X), ty(p.clamp(pl, last.Y))})
	}
	slices.SortStableFunc(labels, func(a, b label) int { return int(math.Copysign(1, float64(a.y-b.y))) })
	const height = 40 // two lines of text, in pixels
	floor := data.Min.Y + px(height/2)
	for _, l := range labels {
		y := max(l.y, floor)
		floor = y + px(height)
		// A line that ends early is labelled at its end, on a white background, so
		// that the lines below don't cross the text.
		pt := vg.Point{X: l.x + px(9), Y: y}
		name, rate := textStyle(15, rgb(p.styles[l.i].light), true), textStyle(14, inkColour, false)
		name.YAlign, rate.YAlign = text.YBottom, text.YTop
		first, second := oneLine(p.vs[l.i].label), short(p.vs[l.i].sum.Rate.Last)+" rows/s"
		if l.x < data.Max.X-px(20) {
			width := max(name.Width(first), rate.Width(second)) + px(6)
			box := vg.Rectangle{Min: vg.Point{X: pt.X - px(3), Y: y - px(18)}, Max: vg.Point{X: pt.X + width, Y: y + px(18)}}
			data.SetColor(color.White)
			data.Fill(box.Path())
		}
		data.FillText(name, pt, first)
		data.FillText(rate, pt, second)
	}
}

func textStyle(size float64, c color.Color, bold bool) draw.TextStyle {
	f := font.From(plot.DefaultFont, px(size))
	f.Variant = "Sans"
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: c, Font: f, XAlign: text.XLeft, YAlign: text.YTop, Handler: plot.DefaultTextHandler}
}

// fitted writes a line of text, truncated with an ellipsis if it is too long.
func fitted(dc draw.Canvas, s draw.TextStyle, at vg.Point, room vg.Length, line string) {
	line = oneLine(line)
	if s.Width(line) > room {
		runes := []rune(line)
		for len(runes) > 1 && s.Width(string(runes)+"...") > room {
			runes = runes[:len(runes)-1]
		}
		line = string(runes) + "..."
	}
	dc.FillText(s, at, line)
}

func rgb(hex string) color.Color {
	n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 24)
	if err != nil {
		return color.Black
	}
	return color.NRGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff}
}

// niceTicks puts about six ticks at multiples of 1, 2 or 5 times a power of
// ten, labelled 250k, 1M.
func niceTicks(lo, hi float64) []plot.Tick {
	if hi <= lo {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/6)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(step*m) <= 7 {
			step *= m
			break
		}
	}
	var out []plot.Tick
	for i := math.Ceil(lo / step); i*step <= hi*(1+1e-9); i++ {
		out = append(out, plot.Tick{Value: i * step, Label: short(i * step)})
	}
	return out
}

// decadeTicks puts ticks at 1, 2 and 5 times each power of ten.
func decadeTicks(lo, hi float64) []plot.Tick {
	var out []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= lo && v <= hi {
				out = append(out, plot.Tick{Value: v, Label: short(v)})
			}
		}
	}
	return out
}
