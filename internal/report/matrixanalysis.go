package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// analyse fills in the shares and effects.
func (m *Matrix) analyse() {
	var obs []observation
	for _, c := range m.Cells {
		for _, rate := range c.Rates {
			o := observation{y: math.Log(rate)}
			for f := range m.Factors {
				o.levels = append(o.levels, slices.Index(m.Factors[f].Levels, c.Levels[f]))
			}
			obs = append(obs, o)
		}
	}
	if len(obs) == 0 {
		return
	}
	// Levels without a complete run are omitted.
	size := make([]int, len(m.Factors))
	levels := make([][]int, len(m.Factors)) // those with complete runs
	for f := range size {
		for l := range m.Factors[f].Levels {
			if slices.ContainsFunc(obs, func(o observation) bool { return o.levels[f] == l }) {
				levels[f] = append(levels[f], l)
			}
		}
		for i := range obs {
			obs[i].levels[f] = slices.Index(levels[f], obs[i].levels[f])
		}
		if size[f] = len(levels[f]); size[f] > 1 {
			m.varied = append(m.varied, f)
		}
	}
	v := analyse(obs, size)
	m.shares(&v)
	if m.noise = v.noise; v.noise.df > 0 {
		ratio := math.Exp(math.Sqrt(v.noise.ss / float64(v.noise.df)))
		m.NoiseRatio = &ratio
	}
	effects := effectsOf(obs, size)
	for _, f := range m.varied {
		for i := 1; i < size[f]; i++ {
			name := func(i int) string { return m.Factors[f].Levels[levels[f][i]] }
			e := Effect{Factor: m.Factors[f].Name, Level: name(i), Base: name(0)}
			e.Ratio = known(math.Exp(effects[f][i]))
			m.matched(&e, f)
			m.Effects = append(m.Effects, e)
		}
	}
}

// matched finds the pairs of cells that differ only in an effect's levels.
func (m *Matrix) matched(e *Effect, factor int) {
	for _, c := range m.Cells {
		if c.Rate == nil || c.Levels[factor] != e.Level {
			continue
		}
		other := slices.Clone(c.Levels)
		other[factor] = e.Base
		base, ok := m.rate[strings.Join(other, "\x00")]
		if !ok {
			continue
		}
		ratio := *c.Rate / base
		if e.Pairs++; e.Pairs == 1 {
			low, high := ratio, ratio
			e.Low, e.High = &low, &high
		}
		*e.Low, *e.High = min(*e.Low, ratio), max(*e.High, ratio)
	}
}

// shares derives the table of shares from an analysis.
func (m *Matrix) shares(v *variance) {
	if v.total.df < 1 || v.total.ss <= 0 {
		return
	}
	test := v.noise
	against := "noise"
	if test.df == 0 {
		test, against = v.rest, "rest"
	}
	rest := v.total.ss
	for i, t := range v.terms {
		s := Share{Share: v.of[i].ss / v.total.ss, DF: v.of[i].df}
		for _, f := range t {
			s.Of = append(s.Of, m.Factors[f].Name)
		}
		s.Name = strings.Join(s.Of, " x ")
		rest -= v.of[i].ss
		if s.DF == 0 {
			continue
		}
		if test.df > 0 && test.ss > 0 {
			f := v.of[i].ss / float64(s.DF) / (test.ss / float64(test.df))
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
	if v.noise.df > 0 {
		if more := (sumOfSquares{max(0, v.rest.ss-v.noise.ss), v.rest.df - v.noise.df}); more.df > 0 {
			remain("three choices or more", more)
		}
		remain("noise: repeats differ", v.noise)
	} else if v.rest.df > 0 {
		what := "more than two choices, and noise"
		if !v.pairs {
			what = "two choices, and noise"
		}
		remain(what, v.rest)
	}
	// If all cells have the same number of runs, only rounding error remains.
	if rest -= v.rest.ss; math.Abs(rest) > 1e-6*v.total.ss {
		remain("shared: cells are missing", sumOfSquares{rest, 0})
	}
}

// durabilities lists the durability levels, the strongest first.
var durabilities = []string{"full", "relaxed", "none"}

// recommend determines the recommended cells.
func (m *Matrix) recommend() {
	find := func(name string) int {
		return slices.IndexFunc(m.Factors, func(f result.Factor) bool { return f.Name == name })
	}
	indexes, durability := find("indexes"), find("durability")
	if indexes < 0 {
		return
	}
	var strong, weak string
	if durability >= 0 {
		there := func(d string) bool {
			return slices.ContainsFunc(m.Cells, func(c MatrixCell) bool { return c.Rate != nil && c.Levels[durability] == d })
		}
		for _, d := range durabilities {
			if there(d) {
				if strong == "" {
					strong = d
				}
				weak = d
			}
		}
	}
	gain := func(c *MatrixCell) float64 {
		levels := slices.Clone(c.Levels)
		levels[durability] = weak
		if rate, ok := m.rate[strings.Join(levels, "\x00")]; ok {
			return rate / *c.Rate
		}
		return math.NaN()
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
				best = c
				out = &Recommendation{Indexes: level, Cell: c.Name, Rate: *c.Rate}
			} else if m.alike(best, c) {
				out.Alike++
			}
			if strong == weak || *c.Rate < out.Rate/2 {
				continue
			}
			g := known(gain(c))
			if c.Name == out.Cell {
				out.Weaker, out.Gain = weak, g
			}
			if g != nil && (out.CheapestGain == nil || *g < *out.CheapestGain) {
				out.Cheapest, out.CheapestGain = c.Name, g
			}
		}
		if out != nil {
			m.Recommended = append(m.Recommended, *out)
		}
	}
}

// alike reports whether noise explains the difference between two cells.
func (m *Matrix) alike(a, b *MatrixCell) bool {
	if m.noise.df == 0 {
		return false
	}
	n := 1/float64(len(a.Rates)) + 1/float64(len(b.Rates))
	return math.Abs(math.Log(*a.Rate / *b.Rate)) < student975(m.noise.df)*math.Sqrt(m.noise.ss/float64(m.noise.df)*n)
}
