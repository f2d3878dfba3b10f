package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// A grid is the model of every experiment of several factors: each combination of their levels that
// was measured is a cell, with a sample for each of its runs.
type grid struct {
	factors []result.Factor
	cells   []*gridCell
}

// A gridCell is one combination of levels, in the order of the factors.
type gridCell struct {
	levels  []string
	samples []sample
}

// A sample is what one run measured in a cell; one run may have samples in several cells.
type sample struct {
	v       *view
	figures []float64 // NaN: not known
	// low and high are the extremes behind the first figure; 0 if it is a single one.
	low, high float64
}

func newGrid(factors ...string) *grid {
	g := &grid{}
	for _, name := range factors {
		g.factors = append(g.factors, result.Factor{Name: name})
	}
	return g
}

// add puts a sample into its cell. Levels are in order of their first sample.
func (g *grid) add(s sample, levels ...string) {
	c := g.at(levels...)
	if c == nil {
		c = &gridCell{levels: levels}
		g.cells = append(g.cells, c)
		for f, level := range levels {
			if !slices.Contains(g.factors[f].Levels, level) {
				g.factors[f].Levels = append(g.factors[f].Levels, level)
			}
		}
	}
	c.samples = append(c.samples, s)
}

// at returns the cell with the given levels; nil if it wasn't measured.
func (g *grid) at(levels ...string) *gridCell {
	for _, c := range g.cells {
		if slices.Equal(c.levels, levels) {
			return c
		}
	}
	return nil
}

// name says which cell it is, by the factors that have several levels.
func (g *grid) name(c *gridCell) string {
	var parts []string
	for f, factor := range g.factors {
		if len(factor.Levels) > 1 && c.levels[f] != "" {
			parts = append(parts, factor.Name+"="+c.levels[f])
		}
	}
	return strings.Join(parts, " ")
}

// counted returns the samples of the runs that came to their end, or all if none did.
func (c *gridCell) counted() []sample {
	if c == nil {
		return nil
	}
	whole := slices.DeleteFunc(slices.Clone(c.samples), func(s sample) bool { return !complete(s.v.rec) })
	if len(whole) == 0 {
		return c.samples
	}
	return whole
}

func complete(r *result.Record) bool { return (&view{rec: r}).incomplete() == "" }

// incomplete reports whether no run of the cell came to its end.
func (c *gridCell) incomplete() bool {
	return !slices.ContainsFunc(c.samples, func(s sample) bool { return complete(s.v.rec) })
}

// middle is the median of a figure over the runs that count; NaN without.
func (c *gridCell) middle(figure int) float64 {
	var all []float64
	for _, s := range c.counted() {
		if v := s.figures[figure]; !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return middle(all)
}

// extremes are those of the first figure over the runs that count, and behind it.
func (c *gridCell) extremes() (low, high float64) {
	var all []float64
	for _, s := range c.counted() {
		if s.high > 0 {
			all = append(all, s.low, s.high)
		}
		all = append(all, s.figures[0])
	}
	return extremes(all)
}

// extremes returns the least and the greatest of some figures; NaN without.
func extremes(all []float64) (low, high float64) {
	if len(all) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(all), slices.Max(all)
}

// records returns the runs of the cell.
func (c *gridCell) records() (out []*result.Record) {
	for _, s := range c.samples {
		out = append(out, s.v.rec)
	}
	return out
}

// figureOf returns a figure of one of the cell's runs.
func (c *gridCell) figureOf(r *result.Record, figure int) float64 {
	return c.samples[slices.IndexFunc(c.samples, func(s sample) bool { return s.v.rec == r })].figures[figure]
}

// observations are the logarithms of a figure of the runs that came to their end, in some cells.
func (g *grid) observations(figure int, of func(c *gridCell) bool) (out []statistics.Observation) {
	for _, c := range g.cells {
		if !of(c) {
			continue
		}
		var at []int
		for f, level := range c.levels {
			at = append(at, slices.Index(g.factors[f].Levels, level))
		}
		for _, s := range c.samples {
			if v := s.figures[figure]; v > 0 && complete(s.v.rec) {
				out = append(out, statistics.Observation{Levels: at, Y: math.Log(v)})
			}
		}
	}
	return out
}

// Versus is one figure of both sides; null if unknown. Ratio is B/A.
type Versus struct {
	A     *float64 `json:"a"`
	B     *float64 `json:"b"`
	Ratio *float64 `json:"ratio"`
}

func versus(a, b float64) Versus {
	v := Versus{A: known(a), B: known(b)}
	if v.A != nil && v.B != nil && a != 0 {
		v.Ratio = known(b / a)
	}
	return v
}

// deref returns the figure, or NaN for nil.
func deref(f *float64) float64 {
	if f == nil {
		return math.NaN()
	}
	return *f
}

// A change is how a cell differs from another, over pairs of their runs: Ratio is above 1 if it is
// the better one.
type change struct {
	Versus
	// Repeats are the figures of each pair.
	Repeats []Versus `json:"repeats"`
	// Interval is the 95% confidence interval of the ratio; null if there is too little data. From is
	// "between runs", or "within runs" with one run per side.
	Interval *Bounds `json:"ratio_95"`
	From     string  `json:"interval_from,omitempty"`
	Verdict  string  `json:"verdict"`
}

// Bounds are the bounds of a figure's interval.
type Bounds = statistics.Bounds

// Verdicts of a comparison.
const (
	// NoDifference means that the interval of the ratio contains 1.
	NoDifference = "no difference shown"
	Faster       = "faster"
	Slower       = "slower"
	// Unknown means that there is no interval.
	Unknown = "unknown"
)

// changed compares a figure of the pairs that matched found; nil if there is nothing to compare.
// smaller is set for figures of which the smaller is the better.
func changed(pairs [][2]*result.Record, figure func(side int, r *result.Record) float64, smaller bool) *change {
	var values [][2]float64
	for _, p := range pairs {
		if a, b := figure(0, p[0]), figure(1, p[1]); a > 0 && b > 0 && unfinished(p) == "" {
			values = append(values, [2]float64{a, b})
		}
	}
	if len(values) == 0 {
		return nil
	}
	out := changeOf(values, smaller, nil)
	return &out
}

// changeOf compares a figure of pairs of runs, whose splits give one pair an interval, and several
// a wider one.
func changeOf(values [][2]float64, smaller bool, splits []statistics.Split) change {
	out := change{Versus: over(values), Repeats: []Versus{}}
	reversed := out.reversed()
	var logs []float64
	for _, v := range values {
		one := versus(v[0], v[1])
		if smaller {
			one.Ratio = known(v[0] / v[1])
		}
		out.Repeats, logs = append(out.Repeats, one), append(logs, math.Log(deref(one.Ratio)))
	}
	if smaller {
		out.Ratio = known(1 / deref(out.Ratio))
	}
	out.Interval, out.From = statistics.RatioBounds(logs, splits)
	out.Verdict = judged(out.Interval, out.From == statistics.BetweenRuns && reversed)
	return out
}

// over combines a figure over several pairs: the medians, and as ratio the geometric mean
// of the pairs' ratios, or that of the medians if it is undefined, as for a figure of 0.
func over(values [][2]float64) Versus {
	var a, b []float64
	var logs float64
	for _, v := range values {
		if !math.IsNaN(v[0]) {
			a = append(a, v[0])
		}
		if !math.IsNaN(v[1]) {
			b = append(b, v[1])
		}
		logs += math.Log(v[1]/v[0]) / float64(len(values))
	}
	v := versus(middle(a), middle(b))
	if r := math.Exp(logs); len(values) > 1 && v.Ratio != nil && !math.IsNaN(r) && !math.IsInf(r, 0) && r > 0 {
		v.Ratio = &r
	}
	return v
}

// middle returns the median; NaN for an empty list.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// reversed reports whether the medians say the reverse of the ratio, which is the mean of those of
// the pairs.
func (v *Versus) reversed() bool { return (deref(v.Ratio)-1)*(deref(v.B)-deref(v.A)) < 0 }

// judged is the verdict on a ratio: no headline may say more than its interval, or the reverse of
// the medians beside it.
func judged(b *Bounds, reversed bool) string {
	switch {
	case b == nil:
		return Unknown
	case b.High < 1 && !reversed:
		return Slower
	case b.Low > 1 && !reversed:
		return Faster
	}
	return NoDifference
}

// cantTell says that two can't be told apart, with their medians; "" if they can, or if one run of
// each is no evidence.
func (c *change) cantTell(names, at string, format func(float64) string) string {
	if c.Verdict != NoDifference {
		return ""
	}
	return fmt.Sprintf("%s can't be told apart%s: %s against %s, ratio %s (95%% interval %s)",
		names, at, format(deref(c.B)), format(deref(c.A)), ratio(deref(c.Ratio)), interval(c.Interval))
}

// text is the ratio with its interval.
func (c *change) text() string {
	if c == nil || c.Ratio == nil {
		return none
	}
	return document.Listed(" ", ratio(*c.Ratio), onlyIf(c.Interval != nil, "("+interval(c.Interval)+")"))
}

// by says by how much a ratio outside of 1 differs from it, with its named interval.
func (c *change) by(name string) string {
	r, b := *c.Ratio, c.Interval
	switch {
	case r < 1:
		return fmt.Sprintf("slower by %s (%s%s..%s)", percent(1-r), name, percent(1-b.High), percent(1-b.Low))
	case r > mostPercent:
		return fmt.Sprintf("%s as fast (%s%s)", ratio(r), name, interval(b))
	}
	return fmt.Sprintf("faster by %s (%s%s..%s)", percent(r-1), name, percent(b.Low-1), percent(b.High-1))
}

// interval is the text of an interval of a ratio.
func interval(b *Bounds) string {
	if b == nil {
		return ""
	}
	return ratio(b.Low) + ".." + ratio(b.High)
}

// sorted orders a factor's levels by their numbers.
func (g *grid) sorted(factor int) {
	slices.SortStableFunc(g.factors[factor].Levels, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}

// number is the number that a level is.
func number(level string) float64 {
	v, err := strconv.ParseFloat(level, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
