package report

// A style is how the lines of one run are drawn, the same in every picture.
type style struct {
	// light and dark are the colours on light and on dark ground, as #rrggbb.
	light, dark string
	// dash is the lengths of strokes and gaps in pixels; empty is solid.
	dash []float64
}

// palette is that of Okabe and Ito (2008), which people with any of the common
// colour blindnesses tell apart, without its yellow, which is too faint on
// white; the colours for dark ground are the same hues, lighter.
var palette = []style{
	{light: "#0072b2", dark: "#56b4e9"}, // blue
	{light: "#d55e00", dark: "#ff8a3d"}, // vermilion
	{light: "#007f5f", dark: "#2fc99a"}, // bluish green
	{light: "#a8508a", dark: "#e09cc6"}, // reddish purple
	{light: "#8a6d00", dark: "#e6b800"}, // ochre
	{light: "#4b5563", dark: "#b6bfca"}, // grey
}

// Which colours of the palette the first runs of the two layouts take, so that
// a layout looks the same in every report.
const (
	rollingColour = 0
	plainColour   = 1
)

// styles gives each run its style: a colour for the run, a dash for its layout,
// so that neither colour nor dash alone carries the meaning.
func styles(vs []view) []style {
	out := make([]style, len(vs))
	used := map[int]bool{}
	pick := func(i, colour int) {
		used[colour] = true
		out[i] = palette[colour%len(palette)]
		if vs[i].rec.Run.Layout != "rolling" {
			out[i].dash = []float64{7, 3}
		}
		// Beyond the palette's length its colours repeat with another dash.
		if round := colour / len(palette); round > 0 {
			out[i].dash = []float64{float64(2 + round), 3}
		}
	}
	first := map[string]int{"rolling": rollingColour, "plain": plainColour}
	var rest []int
	for i := range vs {
		if r := vs[i].repeats; r != nil && r[0] != i {
			continue // takes the style of the first of them, below
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
