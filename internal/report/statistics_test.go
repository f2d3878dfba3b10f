package report

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestStudent(t *testing.T) {
	// From published tables.
	for freedom, want := range map[int]float64{1: 12.706, 2: 4.303, 4: 2.776, 10: 2.228, 11: 2.201, 15: 2.131, 20: 2.086, 30: 2.042, 120: 1.980, 1e6: 1.960} {
		if got := student975(freedom); math.Abs(got-want) > 0.0011 {
			t.Errorf("%d degrees of freedom: %.4f, want %.3f", freedom, got, want)
		}
	}
	if !math.IsInf(student975(0), 1) {
		t.Error("a bound without any freedom")
	}
}

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

// cover returns the share of intervals that contain the true ratio, 1, and their
// mean width, as a difference of logarithms.
func (w world) cover(pairs, tries int, rng *rand.Rand) (share, width float64) {
	for range tries {
		logs, splits := make([]float64, pairs), make([]split, pairs)
		for i := range splits {
			splits[i] = split{w.run(rng), w.run(rng)}
			var a, b float64
			for j := range bootParts {
				a, b = a+splits[i].a[j], b+splits[i].b[j]
			}
			logs[i] = math.Log(a / b)
		}
		bounds, _ := ratioBounds(logs, splits)
		if bounds.Low <= 1 && 1 <= bounds.High {
			share += 1 / float64(tries)
		}
		width += math.Log(bounds.High/bounds.Low) / float64(tries)
	}
	return share, width
}

// From two pairs on, the 95% interval contains the true ratio in 95% of the cases,
// within the error of the simulation. That of a single pair doesn't, so the report
// states its limitation. docs/statistics.md quotes this table: go test -run
// TestCoverage -v.
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

// Many pairs make a narrow interval around the true ratio.
func TestIntervalNarrows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, c := range []struct {
		pairs int
		width float64 // maximum
	}{{3, 0.8}, {10, 0.25}, {40, 0.09}} {
		logs, splits := make([]float64, c.pairs), make([]split, c.pairs)
		for i := range splits {
			splits[i] = split{worlds[3].run(rng), worlds[3].run(rng)}
			var a, b float64
			for j := range bootParts {
				splits[i].b[j] /= 0.8
				a, b = a+splits[i].a[j], b+splits[i].b[j]
			}
			logs[i] = math.Log(a / b)
		}
		bounds, from := ratioBounds(logs, splits)
		if from != betweenRuns || bounds.Low > 0.8 || bounds.High < 0.8 || math.Log(bounds.High/bounds.Low) > c.width {
			t.Errorf("%d pairs: %+v %s, want 0.8 in it and at most %.2f wide", c.pairs, bounds, from, c.width)
		}
	}
}

// Pairs that are alike by chance don't make the interval narrower than the variation
// within the runs.
func TestPairsAlikeByChance(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	logs, splits := make([]float64, 3), make([]split, 3)
	for i := range splits {
		splits[i] = split{worlds[0].run(rng), worlds[0].run(rng)}
	}
	bounds, _ := ratioBounds(logs, splits)
	if bounds.High/bounds.Low < 1.1 {
		t.Errorf("three equal ratios of noisy runs: %+v", bounds)
	}
	if bare, _ := ratioBounds(logs, nil); bare.Low != 1 || bare.High != 1 {
		t.Errorf("three equal ratios of runs without parts: %+v", bare)
	}
}
