package report

import (
	"math"
	"slices"
)

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
