package report

import (
	"cmp"
	"math"
	"slices"
)

// tailF returns the probability that F with the given degrees of freedom is at
// least f (Abramowitz and Stegun 26.6.2).
func tailF(f float64, over, under int) float64 {
	if math.IsNaN(f) || over < 1 || under < 1 {
		return math.NaN()
	}
	if f <= 0 {
		return 1
	}
	a, b := float64(under)/2, float64(over)/2
	return incompleteBeta(float64(under)/(float64(under)+float64(over)*f), a, b)
}

// tailT returns the two-sided tail probability of Student's t distribution: of a
// value at least as far from 0 as t.
func tailT(t float64, freedom int) float64 { return tailF(t*t, 1, freedom) }

// incompleteBeta returns the regularized incomplete beta function I_x(a, b). It uses
// the continued fraction 26.5.8 of Abramowitz and Stegun in Lentz's form, which
// converges fast below the mean, and the symmetry I_x(a,b) = 1-I_{1-x}(b,a) above
// it.
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

// holm adjusts the p-values of several simultaneous tests, so that the probability
// of rejecting any true hypothesis by rejecting values below 5% is at most 5%,
// whatever the dependence between the tests (Holm 1979). NaN stays NaN and doesn't
// count.
func holm(p []float64) []float64 {
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
