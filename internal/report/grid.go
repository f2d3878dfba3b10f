package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// A grid is the model of every experiment of several factors: each combination of their levels that was measured is a
// cell, with a sample for each of its runs.
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
	rec     *result.Record
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
	whole := slices.DeleteFunc(slices.Clone(c.samples), func(s sample) bool { return !complete(s.rec) })
	if len(whole) == 0 {
		return c.samples
	}
	return whole
}

func complete(r *result.Record) bool { return (&view{rec: r}).incomplete() == "" }

// incomplete reports whether no run of the cell came to its end.
func (c *gridCell) incomplete() bool {
	return !slices.ContainsFunc(c.samples, func(s sample) bool { return complete(s.rec) })
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
		out = append(out, s.rec)
	}
	return out
}

// figureOf returns a figure of one of the cell's runs.
func (c *gridCell) figureOf(r *result.Record, figure int) float64 {
	return c.samples[slices.IndexFunc(c.samples, func(s sample) bool { return s.rec == r })].figures[figure]
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
			if v := s.figures[figure]; v > 0 && complete(s.rec) {
				out = append(out, statistics.Observation{Levels: at, Y: math.Log(v)})
			}
		}
	}
	return out
}

// A change is how a cell differs from another, over pairs of their runs: Ratio is above 1 if it is the better one.
type change struct {
	Versus
	Repeats  []Versus
	Interval *Bounds
	Verdict  string
}

// changed compares a figure of the pairs that matched found, which are nil if there is nothing to compare. smaller is
// set for figures of which the smaller is the better.
func changed(pairs [][2]*result.Record, figure func(side int, r *result.Record) float64, smaller bool) *change {
	var values [][2]float64
	var logs []float64
	out := &change{Verdict: Unknown}
	for _, p := range pairs {
		a, b := figure(0, p[0]), figure(1, p[1])
		if !(a > 0 && b > 0) || unfinished(p) != "" {
			continue
		}
		values, logs = append(values, [2]float64{a, b}), append(logs, math.Log(b/a))
		out.Repeats = append(out.Repeats, versus(a, b))
	}
	if len(values) == 0 {
		return nil
	}
	out.Versus = over(values)
	reversed := out.reversed()
	if smaller {
		out.Ratio = known(1 / deref(out.Ratio))
		for i := range logs {
			logs[i] = -logs[i]
			out.Repeats[i].Ratio = known(math.Exp(logs[i]))
		}
	}
	if len(logs) > 1 {
		out.Interval, _ = statistics.RatioBounds(logs, nil)
		out.Verdict = judged(out.Interval, reversed)
	}
	return out
}

// reversed reports whether the medians say the reverse of the ratio, which is the mean of those of the pairs.
func (v *Versus) reversed() bool { return (deref(v.Ratio)-1)*(deref(v.B)-deref(v.A)) < 0 }

// judged is the verdict on a ratio: no headline may say more than its interval, or the reverse of the medians beside it.
func judged(b *Bounds, reversed bool) string {
	if b != nil && reversed {
		return NoDifference
	}
	return verdictOf(b)
}

// cantTell says that two can't be told apart, with their medians; "" if they can, or if one run of each is no evidence.
func cantTell(v *Versus, b *Bounds, verdict, names, at string, format func(float64) string) string {
	if verdict != NoDifference {
		return ""
	}
	return fmt.Sprintf("%s can't be told apart%s: %s against %s, ratio %s (95%% interval %s..%s)", names, at, format(deref(v.B)), format(deref(v.A)), ratio(deref(v.Ratio)),
		ratio(b.Low), ratio(b.High))
}

// text is the ratio with its interval.
func (c *change) text() string {
	if c == nil || c.Ratio == nil {
		return none
	}
	out := ratio(*c.Ratio)
	if b := c.Interval; b != nil {
		out += fmt.Sprintf(" (%s..%s)", ratio(b.Low), ratio(b.High))
	}
	return out
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
