package statistics

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rowmill/rowmill/result"
)

func TestFitLine(t *testing.T) {
	l, ok := FitLine([]float64{0, 1, 2, 3}, []float64{5, 7, 9, 11})
	if !ok || l.Fixed != 5 || l.Slope != 2 || l.Low != 2 || l.High != 2 || l.R2 != 1 || l.At(10) != 25 {
		t.Errorf("a line: %+v", l)
	}
	// By hand: the means are 2 and 3.6, Sxx 10, Sxy 6, and the squares of the residuals add up to 1.6,
	// on 3 degrees of freedom.
	l, _ = FitLine([]float64{0, 1, 2, 3, 4}, []float64{2, 4, 3, 4, 5})
	if wide := 3.1824 * math.Sqrt(1.6/3/10); math.Abs(l.Slope-0.6) > 1e-9 || math.Abs(l.Fixed-2.4) > 1e-9 || math.Abs(l.High-l.Slope-wide) > 1e-9 || math.Abs(l.R2-(1-1.6/5.2)) > 1e-9 {
		t.Errorf("%+v", l)
	}
	for name, x := range map[string][]float64{"two points": {1, 2}, "one place": {3, 3, 3}, "none": nil} {
		if l, ok := FitLine(x, make([]float64, len(x))); ok {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// TestFitLineInterval: of lines through noisy points, 95% of the intervals have the slope.
func TestFitLineInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := 0
	for range 1000 {
		var x, y []float64
		for i := range 8 {
			x, y = append(x, float64(i)), append(y, 3+0.5*float64(i)+rng.NormFloat64())
		}
		if l, _ := FitLine(x, y); l.Low <= 0.5 && 0.5 <= l.High {
			in++
		}
	}
	if in < 930 || in > 970 {
		t.Errorf("%d of 1000 intervals have the slope", in)
	}
}

func TestTablesFits(t *testing.T) {
	var costs []result.TablesCost
	for i := 1; i <= 4; i++ {
		costs = append(costs, result.TablesCost{Phase: result.TablesCreated, Objects: 100 * i, PSSBytes: int64(1000 + 700*i), Files: 7})
		costs = append(costs, result.TablesCost{Phase: result.TablesHeld, Connections: i, Objects: 400, PSSBytes: int64(5000 + 30*i)})
	}
	got := TablesFits(costs)
	if len(got) != 3 || got[0].Slope != 7 || got[0].Figure != "pss_bytes" || got[1].Figure != "files" || got[1].Slope != 0 || got[2].Slope != 30 || got[2].Against != "connections" {
		t.Errorf("%+v", got)
	}
}
