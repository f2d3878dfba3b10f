package statistics

import (
	"math"
	"slices"
)

// Versus has one figure of both sides; a figure that isn't known is nil. Ratio is B/A.
type Versus struct {
	A     *float64 `json:"a"`
	B     *float64 `json:"b"`
	Ratio *float64 `json:"ratio"`
}

func versus(a, b float64) Versus {
	v := Versus{A: Known(a), B: Known(b)}
	if v.A != nil && v.B != nil && a != 0 {
		v.Ratio = Known(b / a)
	}
	return v
}

// Known returns a pointer to a figure; nil if the figure is NaN or infinite.
func Known(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

// Value returns the figure, NaN for nil.
func Value(f *float64) float64 {
	if f == nil {
		return math.NaN()
	}
	return *f
}

// Over compares a figure over several pairs of runs: A and B are the medians of the sides, Ratio is
// the geometric mean of the pairs' ratios. If that mean is undefined, as for values of 0, Ratio is
// the ratio of the medians.
func Over(pairs [][2]float64) Versus {
	var sides [2][]float64
	var logs float64
	for _, p := range pairs {
		for k, v := range p {
			if !math.IsNaN(v) {
				sides[k] = append(sides[k], v)
			}
		}
		logs += math.Log(p[1]/p[0]) / float64(len(pairs))
	}
	v := versus(Median(sides[0]), Median(sides[1]))
	if r := Known(math.Exp(logs)); len(pairs) > 1 && v.Ratio != nil && r != nil && *r > 0 {
		v.Ratio = r
	}
	return v
}

// Median returns the median; NaN for an empty list.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// A Change says how side B differs from side A over pairs of runs. Ratio is above 1 if B is better.
type Change struct {
	Versus
	// Repeats has the figures of each pair.
	Repeats []Versus `json:"repeats"`
	// Interval is the 95% confidence interval of the ratio; nil if there is too little data. From
	// says what the interval is based on: BetweenRuns, or WithinRuns for one pair.
	Interval *Bounds `json:"ratio_95"`
	From     string  `json:"interval_from,omitempty"`
	Verdict  string  `json:"verdict"`
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

// NewChange compares a figure over pairs of runs. smaller means that the smaller figure is better.
// splits has a Split for each pair, or is nil. It gives a single pair an interval, and may widen
// the interval of several pairs.
func NewChange(pairs [][2]float64, smaller bool, splits []Split) Change {
	c := Change{Versus: Over(pairs), Repeats: []Versus{}}
	reversed := c.Reversed()
	var logs []float64
	for _, p := range pairs {
		one := versus(p[0], p[1])
		if smaller {
			one.Ratio = Known(p[0] / p[1])
		}
		c.Repeats, logs = append(c.Repeats, one), append(logs, math.Log(Value(one.Ratio)))
	}
	if smaller {
		c.Ratio = Known(1 / Value(c.Ratio))
	}
	c.Interval, c.From = RatioBounds(logs, splits)
	c.Verdict = Judge(c.Interval)
	if reversed && c.From == BetweenRuns && c.Verdict != Unknown {
		c.Verdict = NoDifference
	}
	return c
}

// Reversed reports whether the medians contradict the ratio, which is the mean of the pairs'
// ratios: for example, B's median is greater than A's, and the ratio is below 1.
func (v *Versus) Reversed() bool { return (Value(v.Ratio)-1)*(Value(v.B)-Value(v.A)) < 0 }

// Judge returns the verdict on a ratio that has the interval b.
func Judge(b *Bounds) string {
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

// Chance returns the p-value of the change by Student's t. It uses the variance between repeats of
// a cell: the one pooled over all cells of the experiment, or this cell's own if that is greater.
// The result is NaN if no cell has repeats.
func (c *Change) Chance(pooled SumOfSquares) float64 {
	s2 := pooled.Variance()
	if len(c.Repeats) > 1 {
		var a, b []float64
		for _, r := range c.Repeats {
			a, b = append(a, math.Log(Value(r.A))), append(b, math.Log(Value(r.B)))
		}
		_, va := MeanVariance(a)
		_, vb := MeanVariance(b)
		s2 = max(s2, (va+vb)/2) // if s2 is NaN, it stays NaN
	}
	return TailT(math.Log(Value(c.Ratio))/math.Sqrt(2*s2/float64(len(c.Repeats))), pooled.DF)
}
