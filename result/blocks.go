package result

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The block bootstrap over time (Künsch 1989): blocks of neighbouring intervals are
// drawn with replacement, because disturbances of a machine last for some time. A run
// is divided into about 20 blocks; for a run of a day, a block is longer than an hour.
// A thousand rounds settle the second digit of a 95% interval.
const (
	blocksInRun     = 20
	bootstrapRounds = 1000
	// leastDrawn is the minimum share of rounds that must yield a value.
	leastDrawn = 0.9
)

// sums are sums over intervals: of a fourfold table, or of moments.
type sums [6]float64

func (s sums) plus(o sums, sign float64) sums {
	for i := range s {
		s[i] += sign * o[i]
	}
	return s
}

// prefixes holds cumulative sums: element i covers the first i intervals.
type prefixes []sums

func newPrefixes(n int, of func(i int) sums) prefixes {
	out := make(prefixes, n+1)
	for i := range n {
		out[i+1] = out[i].plus(of(i), 1)
	}
	return out
}

func (p prefixes) total() sums { return p[len(p)-1] }

// in95 returns the 95% interval of a statistic that is NaN where it has no value; nil
// if that is so in too many rounds.
func (p prefixes) in95(statistic func(sums) float64) *[2]float64 {
	n := len(p) - 1
	length := max(1, n/blocksInRun)
	// A constant seed, so that the same record always gives the same report.
	rng := rand.New(rand.NewPCG(1, 95))
	drawn := make([]float64, 0, bootstrapRounds)
	for range bootstrapRounds {
		var sum sums
		for range (n + length - 1) / length {
			at := rng.IntN(n - length + 1)
			sum = sum.plus(p[at+length].plus(p[at], -1), 1)
		}
		if v := statistic(sum); !math.IsNaN(v) {
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
const (
	belowWith = iota
	belowWithout
	onWith
	onWithout
)

// fourfolds counts the intervals, has telling which have the cause.
func fourfolds(ivs []judged, has []bool) prefixes {
	return newPrefixes(len(ivs), func(i int) (s sums) {
		cell := onWithout
		if ivs[i].below() {
			cell = belowWithout
		}
		if has[i] {
			cell--
		}
		s[cell] = 1
		return s
	})
}

func share(with, without float64) float64 {
	if with+without == 0 {
		return 0
	}
	return with / (with + without)
}

// explained returns the population attributable fraction of a fourfold table, in
// Miettinen's form (1974): p * (1 - 1/RR), where p is the share of the intervals below
// target that had the cause, and RR is the risk ratio of being below target with the
// cause to without it. It estimates the share of the time below target that would not
// have occurred if intervals with the cause were below target as rarely as those
// without. It is NaN if no interval is below target.
func explained(f sums) float64 {
	switch {
	case f[belowWith]+f[belowWithout] == 0:
		return math.NaN()
	case f[belowWith] == 0:
		return 0
	}
	exposed, others := share(f[belowWith], f[onWith]), share(f[belowWithout], f[onWithout])
	return share(f[belowWith], f[belowWithout]) * (1 - others/exposed)
}

// correlation returns Pearson's correlation coefficient of moments: n, x, y, xx, yy,
// xy. It is NaN if either side is constant.
func correlation(m sums) float64 {
	n, x, y, xx, yy, xy := m[0], m[1], m[2], m[3], m[4], m[5]
	vx, vy := n*xx-x*x, n*yy-y*y
	// The remainder of cancelling sums is rounding error, not variance.
	if tiny := 1e-9 * n; vx <= tiny*xx || vy <= tiny*yy {
		return math.NaN()
	}
	return max(-1, min(1, (n*xy-x*y)/math.Sqrt(vx*vy)))
}

// spearman returns the rank correlation of values with ranks (Spearman 1904; equal
// values share their mean rank) and its interval, computed from the ranks within the
// whole run. Both are nil if they cannot be computed.
func spearman(values, ranksOf []float64, sign float64) (*float64, *[2]float64) {
	mine := ranks(values)
	centre := float64(len(values)+1) / 2 // centred, to keep the sums small
	moments := newPrefixes(len(values), func(i int) sums {
		x, y := sign*(mine[i]-centre), ranksOf[i]-centre
		if math.IsNaN(x) || math.IsNaN(y) {
			return sums{}
		}
		return sums{1, x, y, x * x, y * y, x * y}
	})
	rho := correlation(moments.total())
	if math.IsNaN(rho) {
		return nil, nil
	}
	return &rho, moments.in95(correlation)
}
