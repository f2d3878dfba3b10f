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

// Analysis of variance by least squares, for data that may be unbalanced: cells may
// be missing, and may have different numbers of values.
//
// The sums of squares are of type II (Yates 1934; Langsrud 2003). The sum of a
// factor is what it explains beyond all terms that don't contain it; the sum of an
// interaction of two factors is what it explains beyond all other terms of the
// model. These sums don't depend on the coding or order of levels, respect
// marginality, and equal the classical sums for balanced data.

// An observation is one value, with the index of its level of each factor.
type observation struct {
	levels []int
	y      float64
}

// A term is one factor, or an interaction of two, by their indexes.
type term []int

func (t term) holds(u term) bool {
	return !slices.ContainsFunc(u, func(f int) bool { return !slices.Contains(t, f) })
}

// sumOfSquares is the variation explained by one source.
type sumOfSquares struct {
	ss float64
	df int
}

// variance is an analysis of variance.
type variance struct {
	total sumOfSquares // about the mean
	terms []term
	of    []sumOfSquares // of each term, type II
	// rest is the residual of the model, noise the part of it that values of the
	// same cell differ by.
	rest, noise sumOfSquares
	// pairs is true if the model contains interactions.
	pairs bool
}

// analyse fits all factors and, if there are enough values, all interactions of two.
// size is the number of levels of each factor.
func analyse(obs []observation, size []int) variance {
	y := make([]float64, len(obs))
	for i := range obs {
		y[i] = obs[i].y
	}
	v := variance{noise: withinCells(obs)}
	var empty space
	empty.addConstant(len(obs))
	v.total = sumOfSquares{sumSquares(empty.residual(y)), len(obs) - 1}
	var mains, pairs []term
	for f := range size {
		if size[f] > 1 {
			mains = append(mains, term{f})
		}
	}
	for i := range mains {
		for j := i + 1; j < len(mains); j++ {
			pairs = append(pairs, term{mains[i][0], mains[j][0]})
		}
	}
	v.terms, v.pairs = append(mains, pairs...), len(pairs) > 0
	if rest := leftBy(obs, y, size, v.terms); rest.df > 0 || v.noise.df > 0 {
		v.rest = rest
	} else {
		// No degrees of freedom would remain for testing the interactions.
		v.terms, v.pairs = mains, false
		v.rest = leftBy(obs, y, size, v.terms)
	}
	for _, t := range v.terms {
		var others []term
		for _, u := range v.terms {
			if !u.holds(t) {
				others = append(others, u)
			}
		}
		without, with := leftBy(obs, y, size, others), leftBy(obs, y, size, append(others, t))
		v.of = append(v.of, sumOfSquares{max(0, without.ss-with.ss), without.df - with.df})
	}
	return v
}

// leftBy returns the residual sum of squares of a model with the given terms.
func leftBy(obs []observation, y []float64, size []int, terms []term) sumOfSquares {
	var s space
	s.addConstant(len(obs))
	for _, t := range terms {
		for _, c := range columnsOf(obs, size, t) {
			s.add(c)
		}
	}
	df := len(obs) - len(s.basis)
	if df <= 0 {
		return sumOfSquares{0, 0}
	}
	return sumOfSquares{sumSquares(s.residual(y)), df}
}

// columnsOf returns the indicators of a term's levels except the first; for an
// interaction, their products. Only the space that they span together with the terms
// they contain matters.
func columnsOf(obs []observation, size []int, t term) [][]float64 {
	out := [][]float64{ones(len(obs))}
	for _, f := range t {
		var next [][]float64
		for _, c := range out {
			for level := 1; level < size[f]; level++ {
				d := slices.Clone(c)
				for i := range d {
					if obs[i].levels[f] != level {
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

// withinCells returns the sum of squares of values within their cells.
func withinCells(obs []observation) sumOfSquares {
	var out sumOfSquares
	taken := make([]bool, len(obs))
	for i := range obs {
		var same []float64
		for j := i; j < len(obs) && !taken[i]; j++ {
			if slices.Equal(obs[i].levels, obs[j].levels) {
				same = append(same, obs[j].y)
				taken[j] = j != i
			}
		}
		if n := len(same); n > 1 {
			_, s2 := meanVariance(same)
			out.ss += s2 * float64(n-1)
			out.df += n - 1
		}
	}
	return out
}

// effectsOf fits the factors without interactions. For each level of each factor it
// returns the difference to the value at the first level, all else being equal; NaN
// if the existing cells don't determine it.
func effectsOf(obs []observation, size []int) [][]float64 {
	var columns [][]float64
	columns = append(columns, ones(len(obs)))
	for f := range size {
		columns = append(columns, columnsOf(obs, size, term{f})...)
	}
	y := make([]float64, len(obs))
	for i := range obs {
		y[i] = obs[i].y
	}
	beta := leastSquares(columns, y)
	out := make([][]float64, len(size))
	at := 1
	for f := range size {
		out[f] = append(make([]float64, 1, size[f]), beta[at:at+size[f]-1]...)
		at += size[f] - 1
	}
	return out
}

// A space is the span of columns, as an orthonormal basis.
type space struct {
	basis [][]float64
	// triangle contains the coordinates of each column that was added and kept.
	triangle [][]float64
}

// dependent is the threshold for a column's length after subtracting its projection
// onto the others: a shorter remainder is rounding error. Indicators have lengths of
// at least 1, and float64 errs by 1e-16 per operation.
const dependent = 1e-9

// add extends the space by a column; it returns false if the column is already in
// the space. It applies Gram-Schmidt twice, which is as accurate as Householder
// reflections (Giraud and others 2005).
func (s *space) add(column []float64) bool {
	c := slices.Clone(column)
	length := math.Sqrt(sumSquares(c))
	coordinates := make([]float64, len(s.basis)+1)
	for range 2 {
		for k, b := range s.basis {
			d := dot(b, c)
			coordinates[k] += d
			for i := range c {
				c[i] -= d * b[i]
			}
		}
	}
	left := math.Sqrt(sumSquares(c))
	if length == 0 || left <= dependent*length {
		return false
	}
	for i := range c {
		c[i] /= left
	}
	coordinates[len(s.basis)] = left
	s.basis, s.triangle = append(s.basis, c), append(s.triangle, coordinates)
	return true
}

func (s *space) addConstant(n int) {
	if n > 0 {
		s.add(ones(n))
	}
}

// residual returns the component of y orthogonal to the space.
func (s *space) residual(y []float64) []float64 {
	r := slices.Clone(y)
	for range 2 {
		for _, b := range s.basis {
			d := dot(b, r)
			for i := range r {
				r[i] -= d * b[i]
			}
		}
	}
	return r
}

// leastSquares returns the least-squares coefficients of the columns for y; NaN for
// a column that depends on those before it.
func leastSquares(columns [][]float64, y []float64) []float64 {
	beta := make([]float64, len(columns))
	var s space
	var kept []int
	for j, c := range columns {
		beta[j] = math.NaN()
		if s.add(c) {
			kept = append(kept, j)
		}
	}
	for k := len(kept) - 1; k >= 0; k-- {
		v := dot(s.basis[k], y)
		for m := k + 1; m < len(kept); m++ {
			v -= s.triangle[m][k] * beta[kept[m]]
		}
		beta[kept[k]] = v / s.triangle[k][k]
	}
	return beta
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

func dot(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func sumSquares(v []float64) float64 { return dot(v, v) }
