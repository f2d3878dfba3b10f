package report_test

import (
	"image/png"
	"maps"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/result"
)

// The delay of replicas is shown in the same way for every kind of run that has it.
func TestDelays(t *testing.T) {
	for name, formats := range map[string][]string{"insert": {"txt"}, "ibench": {"txt"}, "matrix": {"txt"}, "steady": {"txt", "png"}, "mixed": {"txt", "md", "html", "png"}} {
		recs := stored(t, name)
		before := map[string]string{}
		for _, format := range formats {
			before[format] = render(t, format, recs)
		}
		for i := range recs {
			r := &recs[i]
			r.Run.Counters = append(r.Run.Counters, result.Counter{Name: result.FigureDelay, Group: "server", Unit: "seconds"})
			for k := range r.Intervals {
				c := map[string]float64{result.FigureDelay: 0.25, result.FigureDelayWorst: 1.5}
				maps.Copy(c, r.Intervals[k].Counters)
				r.Intervals[k].Counters = c
			}
		}
		for _, format := range formats {
			after := render(t, format, recs)
			if format == "png" {
				if a, b := pngHeight(t, before[format]), pngHeight(t, after); b <= a {
					t.Errorf("%s: the picture is %d pixels high with delays, %d without", name, b, a)
				}
				continue
			}
			for _, want := range []string{"Delay of the replicas", "250 ms", "1.5 s"} {
				if !strings.Contains(after, want) || strings.Contains(before[format], "Delay of") {
					t.Errorf("%s: no %q in\n%s", name, want, after)
				}
			}
		}
	}
}

func pngHeight(t *testing.T, picture string) int {
	t.Helper()
	c, err := png.DecodeConfig(strings.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	return c.Height
}
