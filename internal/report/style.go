package report

import (
	"fmt"
	"strings"
)

// A style determines how the lines of one run are drawn, the same in every picture.
type style struct {
	colour int // index in palette
	// dash contains the lengths of strokes and gaps in pixels; empty means solid.
	dash []float64
}

// palette is that of Okabe and Ito (2008), whose colours people with any common
// colour blindness can distinguish, without its yellow, which is too faint on white.
// The colours for a dark background are lighter shades of the same hues.
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

// The palette indexes of the first run of each layout, so that a layout has the same
// colour in every report.
const (
	rollingColour = 0
	plainColour   = 1
)

// nthStyle returns the style of the n-th of several lines: a colour and, beyond the
// palette, a dash.
func nthStyle(n int) style {
	s := style{colour: n % len(palette)}
	if round := n / len(palette); round > 0 {
		s.dash = []float64{float64(2 + 2*round), 3}
	}
	return s
}

// styles assigns each run its style: a colour for the run, a dash for its layout, so
// that neither colour nor dash alone carries the meaning.
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
