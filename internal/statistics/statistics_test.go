package statistics

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A world describes how simulated runs vary. Within a run, the logarithms of the
// times are autocorrelated (rho at a distance of a hundredth of the rows, standard
// deviation within), and a fiftieth of the parts stall fourfold; the level differs
// from run to run.
type world struct {
	name                 string
	rho, within, between float64
}

var worlds = []world{
	{"only within runs", 0.6, 0.2, 0},
	{"long waves", 0.95, 0.3, 0},
	{"both", 0.6, 0.2, 0.02},
	{"mostly between runs", 0.3, 0.1, 0.05},
	{"long waves and runs", 0.9, 0.2, 0.05},
}

func (w world) run(rng *rand.Rand) (times [bootParts]float64) {
	x, level := rng.NormFloat64()*w.within, rng.NormFloat64()*w.between
	for i := range times {
		x = w.rho*x + math.Sqrt(1-w.rho*w.rho)*w.within*rng.NormFloat64()
		times[i] = (0.2 + float64(i)/bootParts) * math.Exp(x+level)
		if rng.Float64() < 0.02 {
			times[i] *= 4
		}
	}
	return times
}

// cover returns the share of intervals that contain the true ratio, 1, and their mean width.
func (w world) cover(pairs, tries int, rng *rand.Rand) (share, width float64) {
	for range tries {
		logs, splits := make([]float64, pairs), make([]Split, pairs)
		for i := range splits {
			splits[i] = Split{w.run(rng), w.run(rng)}
			var a, b float64
			for j := range bootParts {
				a, b = a+splits[i].a[j], b+splits[i].b[j]
			}
			logs[i] = math.Log(a / b)
		}
		bounds, _ := RatioBounds(logs, splits)
		if bounds.Low <= 1 && 1 <= bounds.High {
			share += 1 / float64(tries)
		}
		width += math.Log(bounds.High/bounds.Low) / float64(tries)
	}
	return share, width
}

// From two pairs on, the 95% interval contains the true ratio in 95% of the cases. That of a
// single pair doesn't, as the report says. docs/statistics.md quotes this table.
func TestCoverage(t *testing.T) {
	const tries = 300
	for _, w := range worlds {
		for _, pairs := range []int{1, 2, 3, 5, 10} {
			share, width := w.cover(pairs, tries, rand.New(rand.NewPCG(7, uint64(pairs))))
			t.Logf("%-20s %2d pairs: %5.1f%% hold the truth, mean width %.3f", w.name, pairs, 100*share, width)
			switch {
			case pairs == 1 && share > 0.94:
				t.Errorf("%s: one pair covers %.3f: the warning in the text is wrong", w.name, share)
			// Three standard errors below a share of 0.95.
			case pairs > 1 && share < 0.95-3*math.Sqrt(0.95*0.05/tries):
				t.Errorf("%s: %d pairs cover %.3f", w.name, pairs, share)
			}
		}
	}
}

// Pairs alike by chance don't make the interval narrower than the variation within runs.
func TestPairsAlikeByChance(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	logs, splits := make([]float64, 3), make([]Split, 3)
	for i := range splits {
		splits[i] = Split{worlds[0].run(rng), worlds[0].run(rng)}
	}
	bounds, _ := RatioBounds(logs, splits)
	if bounds.High/bounds.Low < 1.1 {
		t.Errorf("three equal ratios of noisy runs: %+v", bounds)
	}
	if bare, _ := RatioBounds(logs, nil); bare.Low != 1 || bare.High != 1 {
		t.Errorf("three equal ratios of runs without parts: %+v", bare)
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func data(rows ...[]float64) (obs []Observation) {
	for _, r := range rows {
		n := len(r) - 1
		o := Observation{Y: r[n]}
		for _, l := range r[:n] {
			o.Levels = append(o.Levels, int(l))
		}
		obs = append(obs, o)
	}
	return obs
}

// TestBalanced: two factors, two values in each cell. Calculated by hand: cell means
// 1.5, 3.5, 5.5, 11.5; mean 5.5; A: 4*((2.5-5.5)²+(8.5-5.5)²) = 72; B:
// 4*((3.5-5.5)²+ (7.5-5.5)²) = 32; both together 2*Σ(cell-5.5)² = 112, so AB is
// 112-72-32 = 8; within cells 4*0.5 = 2.
func TestBalanced(t *testing.T) {
	v := Analyse(data([]float64{0, 0, 1}, []float64{0, 0, 2}, []float64{0, 1, 3}, []float64{0, 1, 4},
		[]float64{1, 0, 5}, []float64{1, 0, 6}, []float64{1, 1, 11}, []float64{1, 1, 12}), []int{2, 2})
	for i, want := range []float64{72, 32, 8} {
		near(t, "sum of squares", v.Of[i].SS, want, 1e-9)
		near(t, "degrees of freedom", float64(v.Of[i].DF), 1, 0)
	}
	near(t, "total", v.Total.SS, 114, 1e-9)
	near(t, "rest", v.Rest.SS, 2, 1e-9)
	near(t, "noise", v.Noise.SS, 2, 1e-9)
	if v.Rest.DF != 4 || v.Noise.DF != 4 || v.Total.DF != 7 {
		t.Errorf("degrees of freedom: %+v", v)
	}
}

// TestUnbalanced: values 1, 3 at (0,0), 4 at (0,1), 5 at (1,0), none at (1,1).
// Calculated by hand: with both factors the fit is the cells' means, with a residual
// of 2. Without A, B's means are 3 (of 1, 3, 5) and 4, with a residual of 8, so A
// explains 6. Without B, A's are 8/3 and 5, with a residual of 14/3, so B explains
// 8/3. The sum of squares about the mean 13/4 is 35/4.
func TestUnbalanced(t *testing.T) {
	obs := data([]float64{0, 0, 1}, []float64{0, 0, 3}, []float64{0, 1, 4}, []float64{1, 0, 5})
	v := Analyse(obs, []int{2, 2})
	near(t, "A", v.Of[0].SS, 6, 1e-9)
	near(t, "B", v.Of[1].SS, 8.0/3, 1e-9)
	near(t, "total", v.Total.SS, 35.0/4, 1e-9)
	near(t, "rest", v.Rest.SS, 2, 1e-9)
	if v.Of[2].DF != 0 || v.Of[2].SS > 1e-9 {
		t.Errorf("the interaction, of which one cell is missing, has %+v", v.Of[2])
	}
	e := Effects(obs, []int{2, 2})
	near(t, "effect of A", e[0][1], 3, 1e-9) // 5 against 2
	near(t, "effect of B", e[1][1], 2, 1e-9) // 4 against 2
}

// TestNoRepeats: without repeats, only the highest interaction is left for testing.
func TestNoRepeats(t *testing.T) {
	v := Analyse(data([]float64{0, 0, 1}, []float64{0, 1, 3}, []float64{1, 0, 5}, []float64{1, 1, 11}), []int{2, 2})
	if v.Pairs || len(v.Terms) != 2 || v.Rest.DF != 1 {
		t.Errorf("%+v", v)
	}
	near(t, "rest", v.Rest.SS, 4, 1e-9) // (1-3-5+11)²/4
	var obs []Observation
	for i := range 8 {
		obs = append(obs, Observation{[]int{i & 1, i >> 1 & 1, i >> 2}, float64(i)})
	}
	if v = Analyse(obs, []int{2, 2, 2}); !v.Pairs || v.Rest.DF != 1 || v.Noise.DF != 0 {
		t.Errorf("%+v", v)
	}
	near(t, "third factor", v.Of[2].SS, 32, 1e-9)
}

// TestLevelOrder: type II sums don't depend on the numbering of levels.
func TestLevelOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a, b []Observation
	for range 40 {
		l := []int{rng.IntN(3), rng.IntN(2), rng.IntN(4)}
		y := float64(l[0]) + float64(l[0]*l[2]) + rng.NormFloat64()
		a = append(a, Observation{l, y})
		b = append(b, Observation{[]int{2 - l[0], 1 - l[1], (l[2] + 1) % 4}, y})
	}
	size := []int{3, 2, 4}
	v, w := Analyse(a, size), Analyse(b, size)
	for i := range v.Of {
		near(t, "sum", w.Of[i].SS, v.Of[i].SS, 1e-8)
		if v.Of[i].DF != w.Of[i].DF {
			t.Errorf("term %v has %d and %d degrees of freedom", v.Terms[i], v.Of[i].DF, w.Of[i].DF)
		}
	}
	near(t, "rest", w.Rest.SS, v.Rest.SS, 1e-8)
}

// TestUntold: levels that occur only together have no determinable effects.
func TestUntold(t *testing.T) {
	e := Effects(data([]float64{0, 0, 1}, []float64{1, 1, 5}), []int{2, 2})
	if !math.IsNaN(e[1][1]) {
		t.Errorf("effects %v", e)
	}
	if v := Analyse(nil, []int{2, 2}); v.Total.SS != 0 {
		t.Errorf("of nothing: %+v", v)
	}
}

// TestTails compares with quantiles from printed tables, and the quantile with its tail.
func TestTails(t *testing.T) {
	near(t, "quantile of t of 4", Student975(4), 2.776, 0.001)
	for _, freedom := range []int{1, 2, 10, 11, 15, 30, 120, 1e5} {
		near(t, "tail of the quantile of t", TailT(Student975(freedom), freedom), 0.05, 1e-4)
	}
	if !math.IsInf(Student975(0), 1) {
		t.Error("a bound without any freedom")
	}
	near(t, "t of 30", TailT(2.7500, 30), 0.01, 1e-5)
	near(t, "F of 1, 4", TailF(7.7086, 1, 4), 0.05, 1e-5)
	near(t, "F of 5, 20", TailF(4.1027, 5, 20), 0.01, 1e-5)
	near(t, "F of 0", TailF(0, 3, 3), 1, 0)
	near(t, "F far out", TailF(1e6, 2, 200), 0, 1e-12)
}

func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, math.NaN(), 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, math.NaN(), 0.06, 0.06, 0.02} {
		if i == 1 {
			if !math.IsNaN(got[i]) {
				t.Errorf("of none: %v", got[i])
			}
			continue
		}
		near(t, "adjusted p", got[i], want, 1e-12)
	}
}
