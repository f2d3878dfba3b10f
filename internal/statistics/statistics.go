// Package statistics judges rates, times and their ratios by intervals of ratios, analysis of
// variance, and significance tests, corrected for the number of tests. docs/statistics.md gives the
// methods, their sources, and how they were checked.
//
//	bounds, basis := statistics.RatioBounds([]float64{math.Log(0.9), math.Log(0.92)}, nil)
package statistics

import (
	"cmp"
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
	// WithinRuns: the variation of the rate within the two runs, without the variation between runs.
	WithinRuns = "within runs"
	// BetweenRuns: the variation of the ratio from pair to pair.
	BetweenRuns = "between runs"
)

// The block bootstrap divides the rows into equal parts, and draws parts with replacement. It draws
// blocks of neighbouring parts, because the rates of neighbours depend on each other. A block is
// longer than a checkpoint's stall. With a thousand rounds, two digits of a 95% interval are
// reproducible. With two hundred rounds, a variance is reproducible to within a tenth.
const (
	bootParts      = 100
	bootBlock      = 5
	intervalRounds = 1000
	varianceRounds = 200
)

// A Split contains the seconds that two runs took for each of equal parts of the rows.
type Split struct{ a, b [bootParts]float64 }

// NewSplit divides two runs into equal parts; ok is false if a run has fewer points than parts.
func NewSplit(a, b result.Curve, rows int64) (s Split, ok bool) {
	if len(a) <= bootParts || len(b) <= bootParts {
		return s, false
	}
	for i := range bootParts {
		from, to := float64(rows)*float64(i)/bootParts, float64(rows)*float64(i+1)/bootParts
		s.a[i], s.b[i] = a.TimeAt(to)-a.TimeAt(from), b.TimeAt(to)-b.TimeAt(from)
	}
	return s, true
}

// resample makes rounds of Künsch's moving block bootstrap (1989). Of each round it returns the
// logarithm of the ratio of the two mean rates, in sorted order; nil if a logarithm is not a finite
// number. Blocks are drawn for both runs together: a rate that falls equally in both adds nothing
// to the spread.
func (s *Split) resample(rounds int) []float64 {
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

// RatioBounds returns the 95% interval of the ratio of two mean rates, and the interval's basis:
// WithinRuns or BetweenRuns. logs contains the logarithm of the ratio for each pair of runs. splits
// contains a Split of each pair that could be split.
//
// With one pair, the interval is the percentile interval of the block bootstrap within the runs.
// With several pairs, it is Student's interval of the logarithms, because percentiles of a
// bootstrap over few pairs are too narrow (Efron and Tibshirani 1993, chapters 12 and 13). It uses
// the greater of two variances, between the pairs and within the pairs: two or three pairs can be
// alike by chance, and would make the interval too narrow.
func RatioBounds(logs []float64, splits []Split) (*Bounds, string) {
	if len(logs) == 1 {
		if len(splits) == 0 {
			return nil, ""
		}
		drawn := splits[0].resample(intervalRounds)
		if drawn == nil {
			return nil, ""
		}
		return &Bounds{math.Exp(drawn[intervalRounds*25/1000]), math.Exp(drawn[intervalRounds*975/1000-1])}, WithinRuns
	}
	centre, variance := MeanVariance(logs)
	var inner float64
	for i := range splits {
		if drawn := splits[i].resample(varianceRounds); drawn != nil {
			_, v := MeanVariance(drawn)
			inner += v / float64(len(splits))
		}
	}
	half := Student975(len(logs)-1) * math.Sqrt(max(variance, inner)/float64(len(logs)))
	b := Bounds{math.Exp(centre - half), math.Exp(centre + half)}
	if math.IsNaN(b.Low) || math.IsInf(b.High, 0) {
		return nil, ""
	}
	return &b, BetweenRuns
}

// MeanVariance returns the mean of the values and their variance, over n-1.
func MeanVariance(values []float64) (mean, variance float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / (n - 1)
	}
	return mean, variance
}

func GeometricMean(values []float64) float64 {
	var logs float64
	for _, v := range values {
		logs += math.Log(v) / float64(len(values))
	}
	return math.Exp(logs)
}

// Student975 returns the 97.5% quantile of Student's t distribution: tabulated up to ten
// degrees of freedom, then an expansion about the normal quantile (Abramowitz and Stegun
// 26.7.5), accurate to 0.0005.
func Student975(freedom int) float64 {
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

// TailF returns the probability that F is at least f (Abramowitz and Stegun 26.6.2).
func TailF(f float64, over, under int) float64 {
	if math.IsNaN(f) || over < 1 || under < 1 {
		return math.NaN()
	}
	if f <= 0 {
		return 1
	}
	a, b := float64(under)/2, float64(over)/2
	return incompleteBeta(float64(under)/(float64(under)+float64(over)*f), a, b)
}

// TailT returns the probability of a value at least as far from 0 as t, of Student's t.
func TailT(t float64, freedom int) float64 { return TailF(t*t, 1, freedom) }

// incompleteBeta returns the regularized incomplete beta function I_x(a, b), by the continued
// fraction 26.5.8 of Abramowitz and Stegun in Lentz's form, which converges fast below the
// mean, and the symmetry I_x(a,b) = 1-I_{1-x}(b,a) above it.
func incompleteBeta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - incompleteBeta(1-x, b, a)
	}
	const tiny, steps, enough = 1e-300, 500, 1e-15
	apart := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/apart(1-(a+b)*x/(a+1))
	sum := d
	for m := 1.0; m <= steps; m++ {
		for _, n := range [2]float64{
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			d, c = 1/apart(1+n*d), apart(1+n/c)
			sum *= c * d
		}
		if math.Abs(c*d-1) < enough {
			break
		}
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	return sum * math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log(1-x)) / a
}

// Holm adjusts the p-values of several simultaneous tests (Holm 1979). If every hypothesis with an
// adjusted value below 5% is rejected, the probability that any of them is true is at most 5%. NaN
// doesn't count as a test.
func Holm(p []float64) []float64 {
	out := slices.Clone(p)
	var order []int
	for i := range p {
		if !math.IsNaN(p[i]) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	highest := 0.0
	for k, i := range order {
		highest = max(highest, min(1, p[i]*float64(len(order)-k)))
		out[i] = highest
	}
	return out
}

// Analysis of variance by least squares, for data that may be unbalanced. The sums of squares are
// of type II (Yates 1934; Langsrud 2003): a factor's sum is what the factor explains beyond all
// terms that don't contain it; an interaction's sum is what it explains beyond all other terms. The
// sums don't depend on the order of levels, and equal the classical sums for balanced data.

// An Observation is one value, with the index of its level of each factor.
type Observation struct {
	Levels []int
	Y      float64
}

// A term is one factor, or an interaction of two, by their indexes.
type term []int

func (t term) holds(u term) bool {
	return !slices.ContainsFunc(u, func(f int) bool { return !slices.Contains(t, f) })
}

// SumOfSquares is the variation explained by one source.
type SumOfSquares struct {
	SS float64
	DF int
}

// Variance returns the mean square; NaN without degrees of freedom.
func (s SumOfSquares) Variance() float64 {
	if s.DF == 0 {
		return math.NaN()
	}
	return s.SS / float64(s.DF)
}

// Variance is an analysis of variance.
type Variance struct {
	Total SumOfSquares // about the mean
	Terms []term
	Of    []SumOfSquares // of each term, type II
	// Rest is the residual of the model, Noise its part that is due to differences within cells.
	Rest, Noise SumOfSquares
	// Pairs is true if the model contains interactions.
	Pairs bool
}

// Analyse fits all factors and, if there are enough values, all interactions of two factors. size
// is the number of levels of each factor.
func Analyse(obs []Observation, size []int) Variance {
	v := Variance{Noise: WithinCells(obs), Total: leftBy(obs, size, nil)}
	var mains, pairs []term
	for f := range size {
		if size[f] > 1 {
			mains = append(mains, term{f})
		}
	}
	for i, t := range mains {
		for _, u := range mains[i+1:] {
			pairs = append(pairs, term{t[0], u[0]})
		}
	}
	v.Terms, v.Pairs = slices.Concat(mains, pairs), len(pairs) > 0
	v.Rest = leftBy(obs, size, v.Terms)
	if v.Rest.DF == 0 && v.Noise.DF == 0 {
		// No degrees of freedom remain for testing the interactions.
		v.Terms, v.Pairs = mains, false
		v.Rest = leftBy(obs, size, v.Terms)
	}
	for _, t := range v.Terms {
		others := slices.DeleteFunc(slices.Clone(v.Terms), func(u term) bool { return u.holds(t) })
		without, with := leftBy(obs, size, others), leftBy(obs, size, append(others, t))
		v.Of = append(v.Of, SumOfSquares{max(0, without.SS-with.SS), without.DF - with.DF})
	}
	return v
}

func leftBy(obs []Observation, size []int, terms []term) SumOfSquares {
	var s space
	s.add(ones(len(obs)))
	for _, t := range terms {
		for _, c := range columnsOf(obs, size, t) {
			s.add(c)
		}
	}
	df := len(obs) - len(s)
	if df <= 0 {
		return SumOfSquares{}
	}
	r := s.residual(values(obs))
	return SumOfSquares{dot(r, r), df}
}

// columnsOf returns a column for each level of a factor except the first: 1 for observations at
// that level, 0 for others. For an interaction it returns the products of its factors' columns.
// Which level is left out makes no difference to a model that also has the columns of the single
// factors.
func columnsOf(obs []Observation, size []int, t term) [][]float64 {
	out := [][]float64{ones(len(obs))}
	for _, f := range t {
		var next [][]float64
		for _, c := range out {
			for level := 1; level < size[f]; level++ {
				d := slices.Clone(c)
				for i := range d {
					if obs[i].Levels[f] != level {
						d[i] = 0
					}
				}
				next = append(next, d)
			}
		}
		out = next
	}
	return out
}

// WithinCells returns the sum of squares of values within their cells.
func WithinCells(obs []Observation) (out SumOfSquares) {
	for i := range obs {
		var same []float64
		first := true
		for j := range obs {
			if slices.Equal(obs[i].Levels, obs[j].Levels) {
				same, first = append(same, obs[j].Y), first && j >= i
			}
		}
		if n := len(same); n > 1 && first {
			_, s2 := MeanVariance(same)
			out.SS += s2 * float64(n-1)
			out.DF += n - 1
		}
	}
	return out
}

// Effects fits the factors without interactions. For each level of each factor it returns the
// difference from the value at the first level, all else being equal; NaN if the existing cells
// don't determine it.
func Effects(obs []Observation, size []int) [][]float64 {
	columns := [][]float64{ones(len(obs))}
	for f := range size {
		columns = append(columns, columnsOf(obs, size, term{f})...)
	}
	beta := leastSquares(columns, values(obs))[1:]
	out := make([][]float64, len(size))
	for f := range size {
		n := size[f] - 1
		out[f] = append(make([]float64, 1, size[f]), beta[:n]...)
		beta = beta[n:]
	}
	return out
}

// leastSquares returns the least-squares coefficients of the columns for y; NaN for a column that
// depends on earlier columns. A column's coefficient is computed from the part of the column that
// is orthogonal to all others (Frisch and Waugh 1933).
func leastSquares(columns [][]float64, y []float64) []float64 {
	beta := make([]float64, len(columns))
	var all space
	for j, c := range columns {
		if !all.add(c) {
			beta[j] = math.NaN()
		}
	}
	for j, c := range columns {
		if math.IsNaN(beta[j]) {
			continue
		}
		var others space
		for k := range columns {
			if k != j && !math.IsNaN(beta[k]) {
				others.add(columns[k])
			}
		}
		r := others.residual(c)
		beta[j] = dot(r, y) / dot(r, r)
	}
	return beta
}

// A space is the span of columns, as an orthonormal basis.
type space [][]float64

// dependent is the threshold for a column's length after subtracting its projection onto the
// others: a shorter remainder counts as rounding error. Indicators have lengths of at least 1, and
// float64 errs by 1e-16 per operation.
const dependent = 1e-9

// add extends the space by a column; it returns false if the column is already in it.
func (s *space) add(column []float64) bool {
	r := s.residual(column)
	length := math.Sqrt(dot(r, r))
	if !(length > dependent*math.Sqrt(dot(column, column))) {
		return false
	}
	for i := range r {
		r[i] /= length
	}
	*s = append(*s, r)
	return true
}

// residual returns the component of y orthogonal to the space, by Gram-Schmidt. Done twice,
// Gram-Schmidt is as accurate as Householder reflections (Giraud and others 2005).
func (s space) residual(y []float64) []float64 {
	r := slices.Clone(y)
	for range 2 {
		for _, b := range s {
			d := dot(b, r)
			for i := range r {
				r[i] -= d * b[i]
			}
		}
	}
	return r
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func values(obs []Observation) []float64 {
	out := make([]float64, len(obs))
	for i := range obs {
		out[i] = obs[i].Y
	}
	return out
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }
