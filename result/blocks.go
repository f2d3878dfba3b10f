package result

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The block bootstrap over time (Künsch 1989): blocks of neighbouring intervals are
// drawn with replacement. Disturbances of a machine last for some time, so
// neighbouring intervals are not independent. A run is divided into about 20 blocks;
// for a run of a day, a block is longer than an hour. A thousand rounds settle the
// second digit of a 95% interval.
const (
	blocksInRun     = 20
	bootstrapRounds = 1000
	// leastDrawn is the minimum share of rounds that must yield a value.
	leastDrawn = 0.9
)

// resampled returns the 95% interval of a statistic over n intervals. For each
// round, statistic is called with the starts of the blocks drawn and their length,
// and returns NaN if it has no value. The result is nil if too many rounds have no
// value.
func resampled(n int, statistic func(from []int, length int) float64) *[2]float64 {
	length := max(1, n/blocksInRun)
	// A constant seed, so that the same record always gives the same report.
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

// A fourfold table counts intervals: below target or on target, with or without a
// cause.
type fourfold struct{ belowWith, belowWithout, onWith, onWithout float64 }

func (f fourfold) plus(o fourfold, sign float64) fourfold {
	return fourfold{f.belowWith + sign*o.belowWith, f.belowWithout + sign*o.belowWithout, f.onWith + sign*o.onWith, f.onWithout + sign*o.onWithout}
}

// shares returns the share of the intervals below target, and of those on target,
// that had the cause.
func (f fourfold) shares() (below, on float64) {
	return safeShare(f.belowWith, f.belowWithout), safeShare(f.onWith, f.onWithout)
}

func safeShare(with, without float64) float64 {
	if with+without == 0 {
		return 0
	}
	return with / (with + without)
}

// explained returns the population attributable fraction in Miettinen's form (1974):
// p * (1 - 1/RR), where p is the share of the intervals below target that had the
// cause, and RR is the risk ratio of being below target with the cause to without
// it. It estimates the share of the time below target that would not have occurred
// if intervals with the cause were below target as rarely as those without. It is
// NaN if no interval is below target.
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

// prefixes holds cumulative fourfold tables: element i covers the first i intervals.
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

// moments holds sums over pairs of ranks.
type moments struct{ n, x, y, xx, yy, xy float64 }

func (m moments) plus(o moments, sign float64) moments {
	return moments{m.n + sign*o.n, m.x + sign*o.x, m.y + sign*o.y, m.xx + sign*o.xx, m.yy + sign*o.yy, m.xy + sign*o.xy}
}

// correlation returns Pearson's correlation coefficient; NaN if either side is
// constant.
func (m moments) correlation() float64 {
	vx, vy := m.n*m.xx-m.x*m.x, m.n*m.yy-m.y*m.y
	// The remainder of cancelling sums is rounding error, not variance.
	if tiny := 1e-9 * m.n; vx <= tiny*m.xx || vy <= tiny*m.yy {
		return math.NaN()
	}
	return max(-1, min(1, (m.n*m.xy-m.x*m.y)/math.Sqrt(vx*vy)))
}

// spearman returns the rank correlation of values with ranks (Spearman 1904; equal
// values share their mean rank) and its interval, computed from the ranks within the
// whole run. Both are nil if they cannot be computed.
func spearman(values, ranksOf []float64, sign float64) (*float64, *[2]float64) {
	mine := ranks(values)
	centre := float64(len(values)+1) / 2 // centred, to keep the sums small
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
