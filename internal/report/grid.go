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

// A grid is the model of an experiment with several factors, e.g. servers and numbers of clients. A
// cell is a measured combination of their levels, and has a sample for each of its runs.
type grid struct {
	factors []result.Factor
	cells   []*gridCell
}

// A gridCell is one combination of levels, which are in the order of the factors.
type gridCell struct {
	levels  []string
	samples []sample
}

// A sample has the figures that one run measured in a cell. A run may have samples in several
// cells.
type sample struct {
	v       *view
	figures []float64 // NaN: not known
	// If the first of the figures is the median of several measurements, low and high are their
	// extremes; else low and high are 0.
	low, high float64
}

func newGrid(factors ...string) *grid {
	g := &grid{}
	for _, name := range factors {
		g.factors = append(g.factors, result.Factor{Name: name})
	}
	return g
}

// add adds a sample to its cell. The levels of a factor are in the order of their first samples.
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

// name identifies a cell by the factors that have several levels, e.g. "server=MariaDB clients=8".
func (g *grid) name(c *gridCell) string {
	var parts []string
	for f, factor := range g.factors {
		if len(factor.Levels) > 1 && c.levels[f] != "" {
			parts = append(parts, factor.Name+"="+c.levels[f])
		}
	}
	return strings.Join(parts, " ")
}

// counted returns the samples of the complete runs; all samples if no run is complete.
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

// incomplete reports whether the cell has no complete run.
func (c *gridCell) incomplete() bool {
	return !slices.ContainsFunc(c.samples, func(s sample) bool { return complete(s.v.rec) })
}

// middle returns the median of a figure over the counted samples; NaN without a figure.
func (c *gridCell) middle(figure int) float64 {
	var all []float64
	for _, s := range c.counted() {
		if v := s.figures[figure]; !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return statistics.Median(all)
}

// extremes returns the least and the greatest value of the first figure over the counted samples.
// If a sample's figure is a median of several measurements, the least and the greatest of these
// count, too.
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

// observations returns the logarithms of a figure of the complete runs in the selected cells.
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

// changed compares a figure of the runs of each pair; nil if no pair has the figure. smaller means
// that a smaller figure is better.
func changed(pairs [][2]*result.Record, figure func(side int, r *result.Record) float64, smaller bool) *statistics.Change {
	var values [][2]float64
	for _, p := range pairs {
		if a, b := figure(0, p[0]), figure(1, p[1]); a > 0 && b > 0 && unfinished(p) == "" {
			values = append(values, [2]float64{a, b})
		}
	}
	if len(values) == 0 {
		return nil
	}
	out := statistics.NewChange(values, smaller, nil)
	return &out
}

// cantTell returns a sentence that the two sides of a comparison can't be told apart, with their
// medians. It returns "" if the sides can be told apart.
func cantTell(c *statistics.Change, names, at string, format func(float64) string) string {
	if c.Verdict != statistics.NoDifference {
		return ""
	}
	return fmt.Sprintf("%s can't be told apart%s: %s against %s, ratio %s (95%% interval %s)",
		names, at, format(statistics.Value(c.B)), format(statistics.Value(c.A)), ratio(statistics.Value(c.Ratio)), interval(c.Interval))
}

// changeText is the ratio with its interval.
func changeText(c *statistics.Change) string {
	if c == nil || c.Ratio == nil {
		return none
	}
	return document.Listed(" ", ratio(*c.Ratio), onlyIf(c.Interval != nil, "("+interval(c.Interval)+")"))
}

// changedBy describes a ratio that differs from 1, e.g. "slower by 12% (95% interval 8%..15%)".
func changedBy(c *statistics.Change, name string) string {
	r, b := *c.Ratio, c.Interval
	switch {
	case r < 1:
		return fmt.Sprintf("slower by %s (%s%s..%s)", percent(1-r), name, percent(1-b.High), percent(1-b.Low))
	case r > 10: // a multiple reads better than a percentage
		return fmt.Sprintf("%s as fast (%s%s)", ratio(r), name, interval(b))
	}
	return fmt.Sprintf("faster by %s (%s%s..%s)", percent(r-1), name, percent(b.Low-1), percent(b.High-1))
}

// interval formats the interval of a ratio, e.g. "0.85x..0.92x".
func interval(b *statistics.Bounds) string {
	if b == nil {
		return ""
	}
	return ratio(b.Low) + ".." + ratio(b.High)
}

// sorted sorts the levels of a factor, which are numbers.
func (g *grid) sorted(factor int) {
	slices.SortStableFunc(g.factors[factor].Levels, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}

// number returns a level as a number, e.g. of clients; NaN if it is none.
func number(level string) float64 {
	v, err := strconv.ParseFloat(level, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
