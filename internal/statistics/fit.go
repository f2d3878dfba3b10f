package statistics

import (
	"math"

	"github.com/rowmill/rowmill/result"
)

// A Line is a straight line through points, by least squares: Fixed + Slope*x. Low and High are the
// 95% confidence interval of Slope. R2 is the share of the points' variation that the line
// explains.
type Line struct {
	Fixed  float64 `json:"fixed"`
	Slope  float64 `json:"slope"`
	Low    float64 `json:"slope_low_95"`
	High   float64 `json:"slope_high_95"`
	R2     float64 `json:"r_squared"`
	Points int     `json:"points"`
}

// At returns the line's value.
func (l Line) At(x float64) float64 { return l.Fixed + l.Slope*x }

// FitLine fits a line to points; ok is false if there are fewer than three points, or all have the
// same x.
func FitLine(x, y []float64) (l Line, ok bool) {
	n := float64(len(x))
	mx, vx := MeanVariance(x)
	my, vy := MeanVariance(y)
	if len(x) < 3 || !(vx > 0) {
		return l, false
	}
	var xy, residual float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
	}
	l = Line{Slope: xy / (vx * (n - 1)), Points: len(x), R2: 1}
	l.Fixed = my - l.Slope*mx
	for i := range x {
		residual += (y[i] - l.At(x[i])) * (y[i] - l.At(x[i]))
	}
	wide := Student975(len(x)-2) * math.Sqrt(residual/(n-2)/(vx*(n-1)))
	l.Low, l.High = l.Slope-wide, l.Slope+wide
	if vy > 0 {
		l.R2 = 1 - residual/(vy*(n-1))
	}
	return l, true
}

// A TablesFit is how a figure of `bench tables` grows.
type TablesFit struct {
	// Figure is the figure's name in result.TablesCost, Phase the phase of the points. Against is
	// the x of the line: "objects", "opened" or "connections".
	Figure  string `json:"figure"`
	Phase   string `json:"phase"`
	Against string `json:"against"`
	// Opened is the number of tables or partitions that each connection has open in phase TablesHeld.
	Opened int `json:"opened,omitempty"`
	Line
}

// TablesFits fits lines to the costs of a run. A figure that was not measured has no line.
func TablesFits(costs []result.TablesCost) (out []TablesFit) {
	pss := func(c *result.TablesCost) float64 { return float64(c.PSSBytes) }
	against := map[string]string{result.TablesCreated: "objects", result.TablesOpened: "opened", result.TablesIdle: "connections", result.TablesHeld: "connections"}
	for _, f := range []struct {
		figure, phase string
		y             func(*result.TablesCost) float64
	}{
		{"pss_bytes", result.TablesCreated, pss},
		{"disk_bytes", result.TablesCreated, func(c *result.TablesCost) float64 { return float64(c.DiskBytes) }},
		{"dictionary_bytes", result.TablesCreated, func(c *result.TablesCost) float64 { return float64(c.DictionaryBytes) }},
		{"files", result.TablesCreated, func(c *result.TablesCost) float64 { return float64(c.Files) }},
		{"open_files", result.TablesCreated, func(c *result.TablesCost) float64 { return float64(c.OpenFiles) }},
		{"create_seconds", result.TablesCreated, func(c *result.TablesCost) float64 { return c.CreateSeconds }},
		{"schema_seconds", result.TablesCreated, func(c *result.TablesCost) float64 { return c.SchemaSeconds }},
		{"list_seconds", result.TablesCreated, func(c *result.TablesCost) float64 { return c.ListSeconds }},
		{"add_seconds", result.TablesCreated, func(c *result.TablesCost) float64 { return c.AddSeconds }},
		{"pss_bytes", result.TablesOpened, pss},
		{"pss_bytes", result.TablesIdle, pss},
		{"pss_bytes", result.TablesHeld, pss},
	} {
		var x, y []float64
		measured, held := false, 0
		for i := range costs {
			if c := &costs[i]; c.Phase == f.phase {
				at := map[string]int{"objects": c.Objects, "opened": c.Opened, "connections": c.Connections}[against[f.phase]]
				x, y = append(x, float64(at)), append(y, f.y(c))
				if f.phase == result.TablesHeld {
					held = c.Opened
				}
				measured = measured || y[len(y)-1] > 0
			}
		}
		if line, ok := FitLine(x, y); ok && measured {
			out = append(out, TablesFit{f.figure, f.phase, against[f.phase], held, line})
		}
	}
	return out
}
