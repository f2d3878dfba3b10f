package report

// A style determines how the lines of one run are drawn, the same in every picture.
type style struct {
	// light and dark are the colours on a light and on a dark background, as
	// #rrggbb.
	light, dark string
	// dash contains the lengths of strokes and gaps in pixels; empty means solid.
	dash []float64
}

// palette is that of Okabe and Ito (2008), whose colours people with any common
// colour blindness can distinguish, without its yellow, which is too faint on white.
// The colours for a dark background are lighter shades of the same hues.
var palette = []style{
	{light: "#0072b2", dark: "#56b4e9"}, // blue
	{light: "#d55e00", dark: "#ff8a3d"}, // vermilion
	{light: "#007f5f", dark: "#2fc99a"}, // bluish green
	{light: "#a8508a", dark: "#e09cc6"}, // reddish purple
	{light: "#8a6d00", dark: "#e6b800"}, // ochre
	{light: "#4b5563", dark: "#b6bfca"}, // grey
}

// The palette indexes of the first run of each layout, so that a layout has the same
// colour in every report.
const (
	rollingColour = 0
	plainColour   = 1
)

// styles assigns each run its style: a colour for the run, a dash for its layout, so
// that neither colour nor dash alone carries the meaning.
func styles(vs []view) []style {
	out := make([]style, len(vs))
	used := map[int]bool{}
	pick := func(i, colour int) {
		used[colour] = true
		out[i] = palette[colour%len(palette)]
		if vs[i].rec.Run.Layout != "rolling" {
			out[i].dash = []float64{7, 3}
		}
		// Beyond the palette's length, colours repeat with another dash.
		if round := colour / len(palette); round > 0 {
			out[i].dash = []float64{float64(2 + round), 3}
		}
	}
	first := map[string]int{"rolling": rollingColour, "plain": plainColour}
	var rest []int
	for i := range vs {
		if r := vs[i].repeats; r != nil && r[0] != i {
			continue // gets the style of the first repeat, below
		}
		if colour, ok := first[vs[i].rec.Run.Layout]; ok && !used[colour] {
			pick(i, colour)
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
