package document

import (
	"math"
	"strings"
	"testing"
)

// A texts is a canvas that keeps what is written on it.
type texts struct {
	at map[string]XY
}

func (c *texts) Stroke([]XY, Pen)                      {}
func (c *texts) Dot(XY, float64, string, bool, string) {}
func (c *texts) Text(at XY, s string, _ Face)          { c.at[s] = at }

// TestAxisTicks: no tick of a logarithmic axis repeats another.
func TestAxisTicks(t *testing.T) {
	t.Parallel()
	for e := -6.0; e < 10; e++ {
		seen := map[string]bool{}
		for _, tick := range decadeTicks(math.Pow(10, e), math.Pow(10, e+2.5), mostTicks) {
			if seen[tick.Label] {
				t.Errorf("%s is there twice, for %v", tick.Label, tick.At)
			}
			seen[tick.Label] = true
		}
	}
}

// TestLowLabels: the labels of lines stand above the axis, also of lines near it, and titles within
// their charts.
func TestLowLabels(t *testing.T) {
	t.Parallel()
	cv := &texts{at: map[string]XY{}}
	end := []string{"2 rows/s", "in the last tenth"}
	c := &Chart{Title: strings.Repeat("long ", 50), Ends: true, Lines: []Line{{Name: "high", X: []float64{0, 9}, Y: []float64{900, 900}}, {Name: "low", X: []float64{0, 9}, Y: []float64{2, 2}, End: end}}}
	c.draw(cv, Box{0, 0, 600, 300})
	if low, axis := cv.at[end[1]].Y+LabelRow/2, cv.at["0"].Y; low >= axis {
		t.Errorf("the label ends at %v, the axis is at %v", low, axis)
	}
	for s := range cv.at {
		if strings.HasPrefix(s, "long") && textWidthOf(s, 14, true) > 620 {
			t.Errorf("a title of %.0f pixels over a chart of 600", textWidthOf(s, 14, true))
		}
	}
}
