package report

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rowmill/rowmill/result"
)

// Bounds are the bounds of a figure's interval.
type Bounds struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// What the width of an interval is based on.
const (
	// withinRuns: the variation of the rate within the two runs, without the
	// variation between runs.
	withinRuns = "within runs"
	// betweenRuns: the variation of the ratio from pair to pair.
	betweenRuns = "between runs"
)

// The block bootstrap: equal parts of the rows are drawn with replacement, in blocks
// of neighbours because neighbouring rates depend on each other. A block is longer
// than a checkpoint's stall, and there are enough blocks to draw from. A thousand
// rounds settle the second digit of a 95% interval; two hundred settle a variance to
// a tenth.
const (
	bootParts      = 100
	bootBlock      = 5
	intervalRounds = 1000
	varianceRounds = 200
)

// A split contains the seconds that the two runs of a pair took for each of equal
// parts of the rows.
type split struct{ a, b [bootParts]float64 }

// newSplit divides two runs at the same rows. ok is false for runs with fewer points
// than parts.
func newSplit(a, b result.Curve, rows int64) (s split, ok bool) {
	if len(a) <= bootParts || len(b) <= bootParts {
		return s, false
	}
	for i := range bootParts {
		from, to := float64(rows)*float64(i)/bootParts, float64(rows)*float64(i+1)/bootParts
		s.a[i], s.b[i] = a.TimeAt(to)-a.TimeAt(from), b.TimeAt(to)-b.TimeAt(from)
	}
	return s, true
}

// resample returns the sorted logarithms of the ratio of the two mean rates in
// rounds of Künsch's moving block bootstrap (1989); nil if one is not a finite
// number. Blocks are drawn for both runs together, so that a rate that falls equally
// in both adds nothing to the spread.
func (s *split) resample(rounds int) []float64 {
	// A constant seed, so that the same records always give the same report.
	rng := rand.New(rand.NewPCG(1, 95))
	logs := make([]float64, rounds)
	for i := range logs {
		var sa, sb float64
		for range bootParts / bootBlock {
			at := rng.IntN(bootParts - bootBlock + 1)
			for j := at; j < at+bootBlock; j++ {
				sa += s.a[j]
				sb += s.b[j]
			}
		}
		logs[i] = math.Log(sa / sb)
		if math.IsNaN(logs[i]) || math.IsInf(logs[i], 0) {
			return nil
		}
	}
	slices.Sort(logs)
	return logs
}

// ratioBounds returns the 95% interval of the ratio of two mean rates, and its
// basis. logs contains the logarithm of the ratio in each pair of runs; splits
// contains the pairs' splits, possibly fewer.
//
// With one pair it is the percentile interval of the block bootstrap within the
// runs. With more pairs it is Student's interval over the pairs' logarithms: with
// few pairs, the percentiles of a bootstrap are too narrow (Efron and Tibshirani
// 1993, chapters 12 and 13), because a resampled variance is on average too small by
// a factor of (n-1)/n and ignores its own uncertainty. The variance has two levels:
// pairs, and blocks within them. The latter is already part of the variation between
// pairs, so it isn't added; but it is known from many more values, and the variation
// between pairs can't truly be smaller, so the greater of the two is used. This
// prevents too narrow an interval from two or three pairs that are alike by chance.
func ratioBounds(logs []float64, splits []split) (*Bounds, string) {
	if len(logs) == 1 {
		if len(splits) == 0 {
			return nil, ""
		}
		drawn := splits[0].resample(intervalRounds)
		if drawn == nil {
			return nil, ""
		}
		return &Bounds{math.Exp(drawn[intervalRounds*25/1000]), math.Exp(drawn[intervalRounds*975/1000-1])}, withinRuns
	}
	centre, variance := meanVariance(logs)
	var inner float64
	for i := range splits {
		if drawn := splits[i].resample(varianceRounds); drawn != nil {
			_, v := meanVariance(drawn)
			inner += v / float64(len(splits))
		}
	}
	half := student975(len(logs)-1) * math.Sqrt(max(variance, inner)/float64(len(logs)))
	b := Bounds{math.Exp(centre - half), math.Exp(centre + half)}
	if math.IsNaN(b.Low) || math.IsInf(b.High, 0) {
		return nil, ""
	}
	return &b, betweenRuns
}

// meanVariance returns the mean of the values and their variance, over n-1.
func meanVariance(values []float64) (mean, variance float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / (n - 1)
	}
	return mean, variance
}

// student975 returns the 97.5% quantile of Student's t distribution: tabulated up to
// ten degrees of freedom, beyond that an expansion about the normal quantile
// (Abramowitz and Stegun 26.7.5), which is accurate to 0.0005 there.
func student975(freedom int) float64 {
	table := []float64{12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281}
	if freedom < 1 {
		return math.Inf(1)
	}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	const z = 1.959964
	v := float64(freedom)
	z3, z5, z7 := math.Pow(z, 3), math.Pow(z, 5), math.Pow(z, 7)
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v)
}

// Verdicts of a comparison.
const (
	// NoDifference means that the interval of the ratio contains 1.
	NoDifference = "no difference shown"
	Faster       = "faster"
	Slower       = "slower"
	// Unknown means that there is no interval.
	Unknown = "unknown"
)

func verdictOf(b *Bounds) string {
	switch {
	case b == nil:
		return Unknown
	case b.High < 1:
		return Slower
	case b.Low > 1:
		return Faster
	}
	return NoDifference
}
