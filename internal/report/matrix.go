package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// MatrixFormat is the format of the output of Matrix.JSON.
const MatrixFormat = "rowmill.matrix/1"

// A Matrix is the analysis of an insert-method matrix: which choices matter, and
// which cells are best. It analyses the logarithm of the mean rate of each run,
// because choices multiply a rate.
type Matrix struct {
	Format  string          `json:"format"` // MatrixFormat
	Source  string          `json:"source"`
	Factors []result.Factor `json:"factors"`
	// Asked counts the runs that the matrix has, Done the complete ones, which are analysed.
	Asked int `json:"runs_asked"`
	Done  int `json:"runs_done"`
	// Problems lists what a reader must know before reading the figures.
	Problems []string         `json:"problems"`
	LeftOut  []result.LeftOut `json:"left_out"`
	// Shares are the shares of the variance of the rate's logarithm (eta squared) explained by
	// each choice, by each pair of choices beyond that, and the remainder; they add up to 1.
	Shares []Share `json:"shares"`
	// NoiseRatio is e to the power of the standard deviation of repeats of a cell.
	NoiseRatio *float64 `json:"noise_ratio"`
	// Effects compares the levels of each choice with its first.
	Effects []Effect `json:"effects"`
	// Cells are the cells with runs, the fastest first, those without complete runs last.
	Cells []MatrixCell `json:"cells"`
	// Recommended are the recommended cells, one for each number of indexes: which indexes a
	// table needs depends on its queries.
	Recommended []Recommendation  `json:"recommended"`
	Baseline    *MatrixComparison `json:"baseline,omitempty"`

	run    *result.Run // the header of the first one
	noise  sumOfSquares
	varied []int // factors with several levels among the cells with a rate
}

// A Share is one source of the variation between runs.
type Share struct {
	// Of is the choice or the pair of choices; empty for remainders, which Name identifies.
	Of   []string `json:"of"`
	Name string   `json:"name"`
	// Share is a share of the total sum of squares. For unbalanced data, the part that several
	// choices explain together may be negative.
	Share float64 `json:"share"`
	DF    int     `json:"degrees_of_freedom"`
	// F and P test the share against Against, "noise" or "rest".
	F       *float64 `json:"f"`
	P       *float64 `json:"p"`
	Against string   `json:"against,omitempty"`
}

// An Effect compares one level of a choice with its first level.
type Effect struct {
	Factor string `json:"factor"`
	Level  string `json:"level"`
	Base   string `json:"base"`
	// Ratio is the geometric mean of the rates relative to those of Base, all else being equal;
	// if cells are missing, it is fitted without interactions. It is null if it can't be
	// separated from the effects of other choices.
	Ratio *float64 `json:"ratio"`
	// Low and High are the extreme ratios of the Pairs of cells that differ in nothing else.
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Pairs int      `json:"pairs"`
}

// A MatrixCell is one combination of levels.
type MatrixCell struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
	// Rate is the geometric mean of Rates, of the complete runs; null without one.
	Rate  *float64  `json:"rows_per_second"`
	Rates []float64 `json:"rates"`
	// ClientBound is true if rowmill itself limited one of the runs.
	ClientBound bool `json:"client_bound,omitempty"`
	// Failures are the errors of its failed runs.
	Failures []string `json:"failures,omitempty"`

	runs []*result.Record // complete ones
}

// A Recommendation is the fastest cell at the strongest durability, of a number of indexes.
type Recommendation struct {
	Indexes string  `json:"indexes"`
	Cell    string  `json:"cell"`
	Rate    float64 `json:"rows_per_second"`
	// Alike counts the other cells with the same indexes and durability that are slower by no
	// more than noise, by Student's t at 95%; 0 without repeats.
	Alike int `json:"alike"`
	// Weaker is the weakest durability measured, and Gain the ratio by which the same cell is
	// faster with it.
	Weaker string   `json:"weaker,omitempty"`
	Gain   *float64 `json:"gain"`
	// Cheapest is the cell in which full durability costs least, among those at least half as
	// fast, and CheapestGain its gain.
	Cheapest     string   `json:"cheapest_durability,omitempty"`
	CheapestGain *float64 `json:"cheapest_gain"`
}

// IsMatrix reports whether the runs belong to one matrix.
func IsMatrix(recs []result.Record) bool {
	for i := range recs {
		r, first := &recs[i], &recs[0]
		if r.Run.Cell == nil || !r.Run.Cell.Valid() || r.Source != first.Source || !sameFactors(r.Run.Cell, first.Run.Cell) {
			return false
		}
	}
	return len(recs) > 0
}

func sameFactors(a, b *result.Cell) bool {
	return slices.EqualFunc(a.Factors, b.Factors, func(x, y result.Factor) bool {
		return x.Name == y.Name && slices.Equal(x.Levels, y.Levels)
	})
}

// NewMatrix analyses the runs of one matrix. Of several runs of a repeat of a cell, as after
// an interruption and a resume, the last complete one counts.
func NewMatrix(recs []result.Record) (*Matrix, error) {
	if len(recs) == 0 {
		return nil, errNoRuns
	}
	if !IsMatrix(recs) {
		return nil, errors.New("report: these runs are not those of one matrix")
	}
	first := &recs[0].Run
	m := &Matrix{
		Format: MatrixFormat, Source: recs[0].Source, Factors: first.Cell.Factors, Asked: first.Cell.Runs,
		Problems: []string{}, LeftOut: append([]result.LeftOut{}, first.Cell.LeftOut...), Shares: []Share{}, Effects: []Effect{},
		Cells: []MatrixCell{}, Recommended: []Recommendation{}, run: first,
	}
	m.gather(recs)
	m.analyse()
	m.recommend()
	m.warn(recs)
	return m, nil
}

// gather collects the runs that count, by cell.
func (m *Matrix) gather(recs []result.Record) {
	type place struct {
		key    string
		repeat int
	}
	worth := func(r *result.Record) int {
		switch {
		case r == nil || r.Broken() && r.Stopped() != "failed":
			return 0
		case r.Stopped() == "failed" || r.End.Failure != "":
			return 1
		}
		return 2
	}
	counts := map[place]*result.Record{}
	var order []place
	for i := range recs {
		r := &recs[i]
		at := place{r.Run.Cell.Key(), r.Run.Repeat}
		if counts[at] == nil {
			order = append(order, at)
		}
		if worth(r) >= worth(counts[at]) {
			counts[at] = r
		}
	}
	slices.SortStableFunc(order, func(x, y place) int { return cmp.Compare(x.repeat, y.repeat) })
	for _, at := range order {
		r := counts[at]
		c := m.cell(r.Run.Cell.Levels)
		if c == nil {
			m.Cells = append(m.Cells, MatrixCell{Name: r.Run.Cell.Name(), Levels: r.Run.Cell.Levels, Rates: []float64{}})
			c = &m.Cells[len(m.Cells)-1]
		}
		switch s := r.Summary(); {
		case worth(r) == 0:
		case worth(r) == 1:
			c.Failures = append(c.Failures, r.End.Failure)
		case !(s.RowsPerSecond > 0):
			c.Failures = append(c.Failures, "no rows were inserted")
		default:
			c.Rates, c.runs = append(c.Rates, s.RowsPerSecond), append(c.runs, r)
			c.ClientBound = c.ClientBound || s.Client.Bound
			m.Done++
		}
	}
	for i := range m.Cells {
		if c := &m.Cells[i]; len(c.Rates) > 0 {
			c.Rate = new(geometricMean(c.Rates))
		}
	}
	slices.SortStableFunc(m.Cells, func(a, b MatrixCell) int { return cmp.Compare(b.rate(), a.rate()) })
}

// cell returns the cell with the given levels; nil if there is none.
func (m *Matrix) cell(levels []string) *MatrixCell {
	i := slices.IndexFunc(m.Cells, func(c MatrixCell) bool { return slices.Equal(c.Levels, levels) })
	if i < 0 {
		return nil
	}
	return &m.Cells[i]
}

// beside returns the rate of the cell that differs from c only in its level of a
// factor; 0 without one.
func (m *Matrix) beside(c *MatrixCell, factor int, level string) float64 {
	levels := slices.Clone(c.Levels)
	levels[factor] = level
	return m.cell(levels).rate()
}

// rate returns the cell's rate, 0 without one.
func (c *MatrixCell) rate() float64 {
	if c == nil || c.Rate == nil {
		return 0
	}
	return *c.Rate
}

func (m *Matrix) runs() (out []*result.Record) {
	for i := range m.Cells {
		out = append(out, m.Cells[i].runs...)
	}
	return out
}

// warn collects the problems that a reader must know.
func (m *Matrix) warn(recs []result.Record) {
	add := func(format string, args ...any) { m.Problems = append(m.Problems, fmt.Sprintf(format, args...)) }
	failed, bound, short, unproven := 0, 0, 0, 0
	for _, c := range m.Cells {
		failed += len(c.Failures)
		if c.ClientBound {
			bound++
		}
	}
	for _, r := range m.runs() {
		if r.End.Stopped == "max-time" && r.Run.Rows > 0 {
			short++
		}
		if r.End.Verified == nil {
			unproven++
		}
	}
	are := func(n int) string { return map[bool]string{true: "is", false: "are"}[n == 1] }
	if left := m.Asked - m.Done - failed; left > 0 {
		add("incomplete: %s of %s %s not done; rowmill bench matrix --resume %s goes on", plural(left, "run", "runs"), count(m.Asked), are(left), m.Source)
	}
	if failed > 0 {
		add("%s failed and %s not in the analysis", plural(failed, "run", "runs"), are(failed))
	}
	if m.NoiseRatio == nil {
		add("no cell was run twice: interactions and noise can't be told apart, so a small share may be either; --repeat 2 tells")
	}
	if short > 0 {
		add("%s ended by --max-time before the rows asked for: a slow cell is measured while its table is smaller than that of a fast one", plural(short, "run was", "runs were"))
	}
	if bound > 0 {
		add("in %s rowmill itself was the limit: the database could take more there", plural(bound, "cell", "cells"))
	}
	if unproven > 0 {
		add("%s not verified: the rows in the table were not compared with those sent", plural(unproven, "run was", "runs were"))
	}
	for _, same := range []struct {
		what string
		of   func(*result.Run) string
	}{
		{"server versions", func(r *result.Run) string { return r.ServerVersion }},
		{"versions of rowmill", func(r *result.Run) string { return r.Rowmill }},
		{"processors", func(r *result.Run) string { return r.Machine.CPU }},
		{"cache sizes", func(r *result.Run) string { return sizeOrNone(r.CacheBytes) }},
	} {
		var values []string
		for i := range recs {
			if v := same.of(&recs[i].Run); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) > 1 {
			add("the runs have different %s: %s", same.what, strings.Join(values, ", "))
		}
	}
}

// analyse fills in the shares and effects.
func (m *Matrix) analyse() {
	// Levels without a complete run are omitted.
	levels := make([][]string, len(m.Factors))
	size := make([]int, len(m.Factors))
	for f := range levels {
		levels[f] = slices.DeleteFunc(slices.Clone(m.Factors[f].Levels), func(level string) bool {
			return !slices.ContainsFunc(m.Cells, func(c MatrixCell) bool { return c.Rate != nil && c.Levels[f] == level })
		})
		if size[f] = len(levels[f]); size[f] > 1 {
			m.varied = append(m.varied, f)
		}
	}
	var obs []observation
	for _, c := range m.Cells {
		for _, rate := range c.Rates {
			o := observation{y: math.Log(rate)}
			for f := range levels {
				o.levels = append(o.levels, slices.Index(levels[f], c.Levels[f]))
			}
			obs = append(obs, o)
		}
	}
	if len(obs) == 0 {
		return
	}
	v := analyse(obs, size)
	m.shares(&v)
	m.noise, m.NoiseRatio = v.noise, known(math.Exp(math.Sqrt(v.noise.variance())))
	effects := effectsOf(obs, size)
	for _, f := range m.varied {
		for i, level := range levels[f][1:] {
			e := Effect{Factor: m.Factors[f].Name, Level: level, Base: levels[f][0], Ratio: known(math.Exp(effects[f][i+1]))}
			var ratios []float64
			for k := range m.Cells {
				if c := &m.Cells[k]; c.Rate != nil && c.Levels[f] == level && m.beside(c, f, e.Base) > 0 {
					ratios = append(ratios, *c.Rate/m.beside(c, f, e.Base))
				}
			}
			if e.Pairs = len(ratios); e.Pairs > 0 {
				e.Low, e.High = new(slices.Min(ratios)), new(slices.Max(ratios))
			}
			m.Effects = append(m.Effects, e)
		}
	}
}

// shares derives the table of shares from an analysis.
func (m *Matrix) shares(v *variance) {
	if v.total.df < 1 || v.total.ss <= 0 {
		return
	}
	test, against := v.noise, "noise"
	if test.df == 0 {
		test, against = v.rest, "rest"
	}
	rest := v.total.ss - v.rest.ss
	for i, t := range v.terms {
		rest -= v.of[i].ss
		if v.of[i].df == 0 {
			continue
		}
		s := Share{Share: v.of[i].ss / v.total.ss, DF: v.of[i].df}
		for _, f := range t {
			s.Of = append(s.Of, m.Factors[f].Name)
		}
		s.Name = strings.Join(s.Of, " x ")
		if test.df > 0 && test.ss > 0 {
			f := v.of[i].variance() / test.variance()
			s.F, s.P, s.Against = known(f), known(tailF(f, s.DF, test.df)), against
		}
		m.Shares = append(m.Shares, s)
	}
	slices.SortStableFunc(m.Shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(len(a.Of), len(b.Of)), cmp.Compare(b.Share, a.Share))
	})
	remain := func(name string, s sumOfSquares) {
		m.Shares = append(m.Shares, Share{Of: []string{}, Name: name, Share: s.ss / v.total.ss, DF: s.df})
	}
	switch more := (sumOfSquares{max(0, v.rest.ss-v.noise.ss), v.rest.df - v.noise.df}); {
	case v.noise.df > 0:
		if more.df > 0 {
			remain("three choices or more", more)
		}
		remain("noise: repeats differ", v.noise)
	case v.rest.df > 0 && v.pairs:
		remain("more than two choices, and noise", v.rest)
	case v.rest.df > 0:
		remain("two choices, and noise", v.rest)
	}
	// If all cells have the same number of runs, only rounding error remains.
	if math.Abs(rest) > 1e-6*v.total.ss {
		remain("shared: cells are missing", sumOfSquares{rest, 0})
	}
}

// durabilities lists the durability levels, the strongest first.
var durabilities = []string{"full", "relaxed", "none"}

func (m *Matrix) recommend() {
	find := func(name string) int {
		return slices.IndexFunc(m.Factors, func(f result.Factor) bool { return f.Name == name })
	}
	indexes, durability := find("indexes"), find("durability")
	if indexes < 0 {
		return
	}
	strong, weak := "", ""
	if durability >= 0 {
		there := slices.DeleteFunc(slices.Clone(durabilities), func(d string) bool {
			return !slices.ContainsFunc(m.Cells, func(c MatrixCell) bool { return c.Rate != nil && c.Levels[durability] == d })
		})
		if len(there) > 0 {
			strong, weak = there[0], there[len(there)-1]
		}
	}
	for _, level := range m.Factors[indexes].Levels {
		var out *Recommendation
		var best *MatrixCell
		for i := range m.Cells { // sorted, the fastest first
			c := &m.Cells[i]
			if c.Rate == nil || c.Levels[indexes] != level || strong != "" && c.Levels[durability] != strong {
				continue
			}
			if out == nil {
				best, out = c, &Recommendation{Indexes: level, Cell: c.Name, Rate: *c.Rate}
			} else if m.alike(best, c) {
				out.Alike++
			}
			if strong == weak || *c.Rate < out.Rate/2 {
				continue
			}
			var gain *float64
			if rate := m.beside(c, durability, weak); rate > 0 {
				gain = known(rate / *c.Rate)
			}
			if c == best {
				out.Weaker, out.Gain = weak, gain
			}
			if gain != nil && (out.CheapestGain == nil || *gain < *out.CheapestGain) {
				out.Cheapest, out.CheapestGain = c.Name, gain
			}
		}
		if out != nil {
			m.Recommended = append(m.Recommended, *out)
		}
	}
}

// alike reports whether noise explains the difference between two cells.
func (m *Matrix) alike(a, b *MatrixCell) bool {
	n := 1/float64(len(a.Rates)) + 1/float64(len(b.Rates))
	return math.Abs(math.Log(*a.Rate / *b.Rate)) < student975(m.noise.df)*math.Sqrt(m.noise.variance()*n) // false without noise
}
