package report

import (
	"fmt"
	"html/template"
	"strings"
)

// svgWidths are the widths of a chart, by the number of charts beside each other; the page
// scales it.
var svgWidths = []float64{1160, 560, 370}

const svgHeight = 300

// An svg is a canvas of a page. Colours are classes that follow the theme: the page's policy
// allows no inline styles.
type svg struct{ strings.Builder }

// SVG draws the chart for a page.
func (c *chart) SVG(beside int) template.HTML {
	width, height := svgWidths[min(beside, len(svgWidths))-1], c.Height
	if height == 0 {
		height = svgHeight
	}
	var out svg
	label := c.Title
	if c.Note != "" {
		label += ", " + c.Note
	}
	fmt.Fprintf(&out, `<svg class="chart-svg" role="img" viewBox="0 0 %g %g" aria-label="%s">`, width, height, template.HTMLEscapeString(oneLine(label)))
	titled := *c
	titled.Title, titled.Note = "", "" // the page's heading says it
	titled.draw(&out, box{0, 0, width, height})
	out.WriteString("</svg>")
	return template.HTML(out.String())
}

func (s *svg) stroke(pts []xy, p pen) {
	class := "s-" + p.paint
	if p.faint {
		class += " faint"
	}
	fmt.Fprintf(s, `<polyline class="%s" stroke-width="%g"`, class, p.width)
	if len(p.dash) > 0 {
		fmt.Fprintf(s, ` stroke-dasharray="%s"`, strings.Trim(fmt.Sprint(p.dash), "[]"))
	}
	s.WriteString(` points="`)
	for i, pt := range pts {
		if i > 0 {
			s.WriteByte(' ')
		}
		fmt.Fprintf(s, "%.1f,%.1f", pt.x, pt.y)
	}
	s.WriteString(`"/>`)
}

// titled ends an element, with a description for the reader who points at it.
func (s *svg) titled(element, tip string) {
	if tip == "" {
		s.WriteString("/>")
		return
	}
	fmt.Fprintf(s, "><title>%s</title></%s>", template.HTMLEscapeString(oneLine(tip)), element)
}

func (s *svg) fill(from, to xy, paint, tip string) {
	fmt.Fprintf(s, `<rect class="f-%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"`, paint, from.x, from.y, to.x-from.x, to.y-from.y)
	s.titled("rect", tip)
}

func (s *svg) dot(at xy, radius float64, paint string, cross bool, tip string) {
	if cross {
		fmt.Fprintf(s, `<path class="s-%s" stroke-width="2.5" d="M%.1f %.1fl%g %gm%g 0l%g %g"`, paint, at.x-radius, at.y-radius, 2*radius, 2*radius, -2*radius, 2*radius, -2*radius)
		s.titled("path", tip)
		return
	}
	fmt.Fprintf(s, `<circle class="f-%s" cx="%.1f" cy="%.1f" r="%g"`, paint, at.x, at.y, radius)
	s.titled("circle", tip)
}

func (s *svg) text(at xy, text string, f face) {
	weight := ""
	if f.bold {
		weight = ` font-weight="600"`
	}
	fmt.Fprintf(s, `<text class="f-%s" x="%.1f" y="%.1f" dy=".35em" font-size="%g" text-anchor="%s"%s>%s</text>`, f.paint, at.x, at.y, f.size,
		[]string{"start", "middle", "end"}[f.align+1], weight, template.HTMLEscapeString(oneLine(text)))
}

// paintCSS defines the colours of lines and blocks, for both themes.
func paintCSS() string {
	var light, dark, rules strings.Builder
	rule := func(name string) {
		fmt.Fprintf(&rules, ".s-%s { stroke: var(--%s); fill: none; } .f-%s { fill: var(--%s); }\n", name, name, name, name)
	}
	for i, c := range palette {
		name := style{colour: i}.paint()
		fmt.Fprintf(&light, " --%s: %s;", name, c.light)
		fmt.Fprintf(&dark, " --%s: %s;", name, c.dark)
		rule(name)
	}
	for i, c := range heatColours {
		name := fmt.Sprintf("b%d", i)
		fmt.Fprintf(&light, " --%s: %s;", name, c)
		rule(name)
	}
	for _, name := range []string{"ink", "muted", "grid", "bad", "accent"} {
		rule(name)
	}
	return fmt.Sprintf(":root {%s }\n:root[data-theme=\"dark\"] {%s }\n%s.f-ground { fill: var(--panel); } .faint { opacity: .35; }\n", light.String(), dark.String(), rules.String())
}

// A style determines how the lines of one run are drawn, the same in every picture.
type style struct {
	colour int // index in palette
	// dash contains the lengths of strokes and gaps in pixels; empty means solid.
	dash []float64
}

// palette is that of Okabe and Ito (2008), which people with any common colour blindness can
// distinguish, without its yellow, which is too faint on white; dark is for dark backgrounds.
var palette = []struct{ light, dark string }{
	{"#0072b2", "#56b4e9"}, // blue
	{"#d55e00", "#ff8a3d"}, // vermilion
	{"#007f5f", "#2fc99a"}, // bluish green
	{"#a8508a", "#e09cc6"}, // reddish purple
	{"#8a6d00", "#e6b800"}, // ochre
	{"#4b5563", "#b6bfca"}, // grey
}

func (s style) light() string { return palette[s.colour].light }
func (s style) dark() string  { return palette[s.colour].dark }
func (s style) paint() string { return fmt.Sprintf("p%d", s.colour) }

// Dash is the dash as an attribute of SVG.
func (s style) Dash() string { return strings.Trim(fmt.Sprint(s.dash), "[]") }

// Paint is the name of the colour, as a class of the page.
func (s style) Paint() string { return s.paint() }

// The palette indexes of the first run of each layout, the same in every report.
const (
	rollingColour = 0
	plainColour   = 1
)

// nthStyle returns the style of the n-th line: a colour and, beyond the palette, a dash.
func nthStyle(n int) style {
	s := style{colour: n % len(palette)}
	if round := n / len(palette); round > 0 {
		s.dash = []float64{float64(2 + 2*round), 3}
	}
	return s
}

// styles assigns each run a colour, and a dash for its layout, so that neither alone carries
// the meaning.
func styles(vs []view) []style {
	out := make([]style, len(vs))
	used := map[int]bool{}
	pick := func(i, n int) {
		used[n] = true
		out[i] = nthStyle(n)
		if vs[i].rec.Run.Layout != "rolling" && out[i].dash == nil {
			out[i].dash = []float64{7, 3}
		}
	}
	first := map[string]int{"rolling": rollingColour, "plain": plainColour}
	var rest []int
	for i := range vs {
		if r := vs[i].repeats; r != nil && r[0] != i {
			continue // gets the style of the first repeat, below
		}
		if n, ok := first[vs[i].rec.Run.Layout]; ok && !used[n] {
			pick(i, n)
			continue
		}
		rest = append(rest, i)
	}
	next := 0
	for _, i := range rest {
		for used[next] {
			next++
		}
		pick(i, next)
	}
	for i := range vs {
		if r := vs[i].repeats; r != nil {
			out[i] = out[r[0]]
		}
	}
	return out
}
