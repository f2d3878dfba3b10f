package result

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The block bootstrap over time (Künsch 1989): stretches of neighbours are
// drawn with replacement, because what disturbs a machine lasts, so that
// neighbours are anything but independent. A run is about 20 blocks long: of a
// day, a block is more than an hour. A thousand rounds settle the second digit
// of a 95% interval.
const (
	blocksInRun     = 20
	bootstrapRounds = 1000
	// leastDrawn is the share of the rounds that must have given a figure.
	leastDrawn = 0.9
)

// resampled returns the 95% interval of a figure over n intervals: statistic
// gets the blocks [from, to) of a round, and gives NaN where it has no value.
// Nil where too many rounds have none.
func resampled(n int, statistic func(from []int, length int) float64) *[2]float64 {
	length := max(1, n/blocksInRun)
	// The same draws for the same record, so that reports are reproducible.
	rng := rand.New(rand.NewPCG(1, 95))
	from := make([]int, (n+length-1)/length)
	drawn := make([]float64, 0, bootstrapRounds)
	for range bootstrapRounds {
		for i := range from {
			from[i] = rng.IntN(n - length + 1)
		}
		if v := statistic(from, length); !math.IsNaN(v) {
			drawn = append(drawn, v)
		}
	}
	if float64(len(drawn)) < leastDrawn*bootstrapRounds {
		return nil
	}
	slices.Sort(drawn)
	return &[2]float64{drawn[len(drawn)*25/1000], drawn[len(drawn)*975/1000-1]}
}

// A fourfold table counts intervals: below target or on it, with a cause or
// without.
type fourfold struct{ belowWith, belowWithout, onWith, onWithout float64 }

func (f fourfold) plus(o fourfold, sign float64) fourfold {
	return fourfold{f.belowWith + sign*o.belowWith, f.belowWithout + sign*o.belowWithout, f.onWith + sign*o.onWith, f.onWithout + sign*o.onWithout}
}

// shares returns how many of those below, and of those on target, had it.
func (f fourfold) shares() (below, on float64) {
	return safeShare(f.belowWith, f.belowWithout), safeShare(f.onWith, f.onWithout)
}

func safeShare(with, without float64) float64 {
	if with+without == 0 {
		return 0
	}
	return with / (with + without)
}

// explained is the population attributable fraction in Miettinen's form (1974):
// the share p of the cases that were exposed, times 1 - 1/RR, where RR is how
// many times likelier an interval with the cause is below target. It is the
// share of the time below target that would not have been, if intervals with
// the cause had been below as rarely as those without; NaN without any below.
func (f fourfold) explained() float64 {
	if f.belowWith+f.belowWithout == 0 {
		return math.NaN()
	}
	if f.belowWith == 0 {
		return 0
	}
	exposed := f.belowWith / (f.belowWith + f.onWith)
	others := safeShare(f.belowWithout, f.onWithout)
	p, _ := f.shares()
	return p * (1 - others/exposed)
}

// prefixes are fourfold tables of the first so many intervals.
type prefixes []fourfold

func tables(ivs []judged, has []bool) prefixes {
	out := make(prefixes, len(ivs)+1)
	for i := range ivs {
		f := out[i]
		switch below := ivs[i].below(); {
		case below && has[i]:
			f.belowWith++
		case below:
			f.belowWithout++
		case has[i]:
			f.onWith++
		default:
			f.onWithout++
		}
		out[i+1] = f
	}
	return out
}

func (p prefixes) sum(from, to int) fourfold { return p[to].plus(p[from], -1) }

func (p prefixes) explainedIn95() *[2]float64 {
	return resampled(len(p)-1, func(from []int, length int) float64 {
		var sum fourfold
		for _, at := range from {
			sum = sum.plus(p.sum(at, at+length), 1)
		}
		return sum.explained()
	})
}

// moments are sums over pairs of ranks.
type moments struct{ n, x, y, xx, yy, xy float64 }

func (m moments) plus(o moments, sign float64) moments {
	return moments{m.n + sign*o.n, m.x + sign*o.x, m.y + sign*o.y, m.xx + sign*o.xx, m.yy + sign*o.yy, m.xy + sign*o.xy}
}

// correlation is Pearson's, NaN where one side never changes.
func (m moments) correlation() float64 {
	vx, vy := m.n*m.xx-m.x*m.x, m.n*m.yy-m.y*m.y
	// What is left of sums that cancel out is no variance.
	if tiny := 1e-9 * m.n; vx <= tiny*m.xx || vy <= tiny*m.yy {
		return math.NaN()
	}
	return max(-1, min(1, (m.n*m.xy-m.x*m.y)/math.Sqrt(vx*vy)))
}

// spearman returns the rank correlation of values with ranks (Spearman 1904;
// equal values share their mean rank) and its interval, in which the ranks are
// those of the whole run. Nil where there is none.
func spearman(values, ranksOf []float64, sign float64) (*float64, *[2]float64) {
	mine := ranks(values)
	centre := float64(len(values)+1) / 2 // keeps the sums small
	sums := make([]moments, len(values)+1)
	for i := range mine {
		sums[i+1] = sums[i]
		if math.IsNaN(mine[i]) || math.IsNaN(ranksOf[i]) {
			continue
		}
		x, y := sign*(mine[i]-centre), ranksOf[i]-centre
		sums[i+1] = sums[i].plus(moments{1, x, y, x * x, y * y, x * y}, 1)
	}
	rho := sums[len(values)].correlation()
	if math.IsNaN(rho) {
		return nil, nil
	}
	return &rho, resampled(len(values), func(from []int, length int) float64 {
		var sum moments
		for _, at := range from {
			sum = sum.plus(sums[at+length].plus(sums[at], -1), 1)
		}
		return sum.correlation()
	})
}
