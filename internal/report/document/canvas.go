package document

import (
	"cmp"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"strconv"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/rowmill/rowmill/internal/figure"
)

// svgWidths are the widths at which a chart is drawn if its row has one chart, two charts, and
// three charts. The page scales the charts.
var svgWidths = []float64{1160, 560, 370}

const svgHeight = 300

// An svg is a canvas for a page. It names colours by classes, which the theme defines, because the
// page's policy allows no inline styles.
type svg struct{ strings.Builder }

// SVG draws the chart for a page.
func (c *Chart) SVG(beside int) template.HTML {
	width, height := svgWidths[min(beside, len(svgWidths))-1], cmp.Or(c.Height, svgHeight)
	var out svg
	fmt.Fprintf(&out, `<svg class="chart-svg" role="img" viewBox="0 0 %g %g" aria-label="%s">`, width, height, template.HTMLEscapeString(figure.OneLine(Listed(", ", c.Title, c.Note))))
	titled := *c
	titled.Title, titled.Note = "", "" // the page's heading says it
	titled.draw(&out, Box{0, 0, width, height})
	out.WriteString("</svg>")
	return template.HTML(out.String())
}

func (s *svg) Stroke(pts []XY, p Pen) {
	class := p.paint
	if p.faint {
		class += " faint"
	}
	fmt.Fprintf(s, `<polyline class="s-%s" stroke-width="%g"`, class, p.width)
	if len(p.Dashes) > 0 {
		fmt.Fprintf(s, ` stroke-dasharray="%s"`, strings.Trim(fmt.Sprint(p.Dashes), "[]"))
	}
	s.WriteString(` points="`)
	for i, pt := range pts {
		if i > 0 {
			s.WriteByte(' ')
		}
		fmt.Fprintf(s, "%.1f,%.1f", pt.X, pt.Y)
	}
	s.WriteString(`"/>`)
}

// titled ends an element. It adds tip, which readers see when they point at the element.
func (s *svg) titled(element, tip string) {
	if tip == "" {
		s.WriteString("/>")
		return
	}
	fmt.Fprintf(s, "><title>%s</title></%s>", template.HTMLEscapeString(figure.OneLine(tip)), element)
}

func (s *svg) Dot(at XY, radius float64, paint string, cross bool, tip string) {
	if cross {
		fmt.Fprintf(s, `<path class="s-%s" stroke-width="2.5" d="M%.1f %.1fl%g %gm%g 0l%g %g"`, paint, at.X-radius, at.Y-radius, 2*radius, 2*radius, -2*radius, 2*radius, -2*radius)
		s.titled("path", tip)
		return
	}
	fmt.Fprintf(s, `<circle class="f-%s" cx="%.1f" cy="%.1f" r="%g"`, paint, at.X, at.Y, radius)
	s.titled("circle", tip)
}

func (s *svg) Text(at XY, text string, f Face) {
	weight := ""
	if f.bold {
		weight = ` font-weight="600"`
	}
	fmt.Fprintf(s, `<text class="f-%s" x="%.1f" y="%.1f" dy=".35em" font-size="%g" text-anchor="%s"%s>%s</text>`, f.paint, at.X, at.Y, f.size,
		[]string{"start", "middle", "end"}[f.align+1], weight, template.HTMLEscapeString(figure.OneLine(text)))
}

// paintCSS defines the colours of lines, for both themes.
func paintCSS() string {
	var light, dark, rules strings.Builder
	rule := func(name string) {
		fmt.Fprintf(&rules, ".s-%s { stroke: var(--%s); fill: none; } .f-%s { fill: var(--%s); }\n", name, name, name, name)
	}
	for i, c := range Palette {
		name := Style{Colour: i}.paint()
		fmt.Fprintf(&light, " --%s: %s;", name, c.Light)
		fmt.Fprintf(&dark, " --%s: %s;", name, c.Dark)
		rule(name)
	}
	for _, name := range []string{"ink", "muted", "grid", "bad", "accent"} {
		rule(name)
	}
	return fmt.Sprintf(":root {%s }\n:root[data-theme=\"dark\"] {%s }\n%s.f-ground { fill: var(--panel); } .faint { opacity: .35; }\n", light.String(), dark.String(), rules.String())
}

// A Style determines how the lines of one run are drawn, the same in every picture.
type Style struct {
	Colour int // index in palette
	// Dashes contains the lengths of strokes and gaps in pixels; empty means solid.
	Dashes []float64
}

// Palette has the colours of Okabe and Ito (2008), which people with any common colour blindness
// can distinguish. It lacks their yellow, which is too faint on white. Dark is for dark
// backgrounds.
var Palette = []struct{ Light, Dark string }{
	{"#0072b2", "#56b4e9"}, // blue
	{"#d55e00", "#ff8a3d"}, // vermilion
	{"#007f5f", "#2fc99a"}, // bluish green
	{"#a8508a", "#e09cc6"}, // reddish purple
	{"#8a6d00", "#e6b800"}, // ochre
	{"#4b5563", "#b6bfca"}, // grey
}

func (s Style) paint() string { return fmt.Sprintf("p%d", s.Colour) }

// Dash returns the dashes as an attribute of SVG.
func (s Style) Dash() string { return strings.Trim(fmt.Sprint(s.Dashes), "[]") }

// Paint returns the name of the colour, as a class of the page.
func (s Style) Paint() string { return s.paint() }

// The palette indexes of the first run of each layout. Other runs have the colours after these.
const (
	RollingColour = 0
	PlainColour   = 1
)

// NthStyle returns the style of the n-th line: a colour and, beyond the palette, a dash.
func NthStyle(n int) Style {
	s := Style{Colour: n % len(Palette)}
	if round := n / len(Palette); round > 0 {
		s.Dashes = []float64{float64(2 + 2*round), 3}
	}
	return s
}

// PNGOptions contains the options of PNG. The zero value is the documented default.
type PNGOptions struct {
	// Width and Height are in pixels; 0 means 1200 by 675, or more for several rows of charts.
	Width, Height int
	// Title replaces the title made from the first run's header.
	Title string
	// Log draws the rate on a logarithmic axis.
	Log bool
}

// The minimum and maximum side of a picture in pixels: text needs room, and pixels memory.
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

// A Picture is what PNG draws: rows of charts below a heading and one legend.
type Picture struct {
	// Lines are sentences below the subtitle.
	Lines  []string
	Legend []Key
	Rows   []Charts
	Height int // in pixels, if the options give none
}

// A Key is one entry of a legend.
type Key struct {
	Label string
	Style Style
}

// Default sizes of a picture in pixels.
const (
	defaultWidth  = 1200
	DefaultHeight = 675
)

// Space in a picture, in pixels.
const (
	pictureSide   = 22
	pictureBottom = 14
	rowGap        = 10
	leastRow      = 44
)

// PNG writes a picture of the document's charts.
func (d *Document) PNG(w io.Writer, opts PNGOptions) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	p := &Picture{Lines: []string{"nothing to draw: no run came far enough"}}
	if d.Picture != nil {
		p = d.Picture(opts)
	}
	in := Box{0, 0, float64(cmp.Or(opts.Width, defaultWidth)), float64(cmp.Or(opts.Height, p.Height, DefaultHeight))}
	c := vgimg.NewWith(vgimg.UseWH(px(in.X1), px(in.Y1)), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	if err := p.Draw(&image{draw.New(c), in.Y1}, in, cmp.Or(opts.Title, d.Title), d.Subtitle); err != nil {
		return fmt.Errorf("draw picture: %w", err)
	}
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(w); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// Draw draws the picture.
func (p *Picture) Draw(cv Canvas, in Box, title, subtitle string) error {
	left, room := in.X0+pictureSide, in.X1-in.X0-2*pictureSide
	y := in.Y0 + 32
	cv.Text(XY{left, y}, fitted(title, 24, true, room), Face{24, "ink", true, -1})
	y += 30
	for _, s := range append([]string{subtitle}, p.Lines...) {
		if s != "" {
			cv.Text(XY{left, y}, fitted(s, 15, false, room), Face{15, "muted", false, -1})
			y += 22
		}
	}
	x := left
	for _, k := range p.Legend {
		width := textWidthOf(k.Label, 15, false)
		if x > left && x+44+width > in.X1 {
			x, y = left, y+20
		}
		cv.Stroke([]XY{{x, y + 4}, {x + 36, y + 4}}, Pen{paint: k.Style.paint(), width: 3, Dashes: k.Style.Dashes})
		cv.Text(XY{x + 44, y + 4}, figure.OneLine(k.Label), Face{15, "ink", false, -1})
		x += 72 + width
	}
	if len(p.Legend) > 0 {
		y += 22
	}
	y += 10
	total := 0.0
	for _, row := range p.Rows {
		total += Weight(row[0].Height)
	}
	height := in.Y1 - pictureBottom - y
	for _, row := range p.Rows {
		h := height * Weight(row[0].Height) / total
		if h < leastRow && len(p.Rows) > 1 {
			return fmt.Errorf("%d rows of charts need a higher picture", len(p.Rows))
		}
		widths := 0.0
		for _, c := range row {
			widths += Weight(c.Width)
		}
		x := left
		for _, c := range row {
			w := room * Weight(c.Width) / widths
			c.draw(cv, Box{x, y, x + w - 2*rowGap, y + h - rowGap})
			x += w
		}
		y += h
	}
	return nil
}

// Weight returns f, the height or width of a chart relative to other charts; 1 if f is 0.
func Weight(f float64) float64 { return cmp.Or(f, 1) }

// dpi makes a point 4/3 of a pixel, as in browsers.
const dpi = 96

func px(n float64) vg.Length { return vg.Length(n) * vg.Inch / dpi }

// An image is a canvas of pixels, whose y grows upwards.
type image struct {
	dc     draw.Canvas
	height float64
}

func (m *image) point(at XY) vg.Point { return vg.Point{X: px(at.X), Y: px(m.height - at.Y)} }

func (m *image) Stroke(pts []XY, p Pen) {
	line := draw.LineStyle{Color: colourOf(p.paint, p.faint), Width: px(p.width)}
	for _, d := range p.Dashes {
		line.Dashes = append(line.Dashes, px(1.4*d))
	}
	points := make([]vg.Point, len(pts))
	for i, at := range pts {
		points[i] = m.point(at)
	}
	m.dc.StrokeLines(line, points)
}

func (m *image) Dot(at XY, radius float64, paint string, cross bool, _ string) {
	if cross {
		m.Stroke([]XY{{at.X - radius, at.Y - radius}, {at.X + radius, at.Y + radius}}, Pen{paint: paint, width: 2.5})
		m.Stroke([]XY{{at.X + radius, at.Y - radius}, {at.X - radius, at.Y + radius}}, Pen{paint: paint, width: 2.5})
		return
	}
	m.dc.DrawGlyph(draw.GlyphStyle{Color: colourOf(paint, false), Radius: px(radius), Shape: draw.CircleGlyph{}}, m.point(at))
}

func (m *image) Text(at XY, s string, f Face) {
	style := textStyle(f.size, f.bold)
	style.Color = colourOf(f.paint, false)
	style.XAlign, style.YAlign = []text.XAlignment{text.XLeft, text.XCenter, text.XRight}[f.align+1], text.YCenter
	m.dc.FillText(style, m.point(at), s)
}

func textStyle(size float64, bold bool) text.Style {
	f := font.From(plot.DefaultFont, px(size))
	f.Variant = "Sans"
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Font: f, Handler: plot.DefaultTextHandler}
}

func textWidthOf(s string, size float64, bold bool) float64 {
	return float64(textStyle(size, bold).Width(figure.OneLine(s)) * dpi / vg.Inch)
}

// fitted returns a line of text, truncated with an ellipsis if it is too long.
func fitted(s string, size float64, bold bool, room float64) string {
	s = figure.OneLine(s)
	if textWidthOf(s, size, bold) <= room {
		return s
	}
	runes := []rune(s)
	for len(runes) > 1 && textWidthOf(string(runes)+"...", size, bold) > room {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "..."
}

var paints = map[string]string{"ink": "#1f2937", "muted": "#5b6573", "grid": "#e6e9ee", "ground": "#ffffff", "bad": "#a8200d", "accent": "#0b5cad"}

func colourOf(paint string, faint bool) color.Color {
	hex, ok := paints[paint]
	if n, err := strconv.Atoi(paint[1:]); !ok && err == nil {
		hex = Palette[n].Light
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 24) // no error: all colours are constants
	out := color.NRGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff}
	if faint {
		out.A = 0x59
	}
	return out
}
