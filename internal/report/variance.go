package report

import (
	"math"
	"slices"
)

// Analysis of variance by least squares, for data that may be unbalanced. The sums of squares
// are of type II (Yates 1934; Langsrud 2003): that of a factor is what it explains beyond all
// terms that don't contain it, that of an interaction of two what it explains beyond all other
// terms. They don't depend on the coding or order of levels, and equal the classical sums for
// balanced data.

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

// variance returns the mean square; NaN without degrees of freedom.
func (s sumOfSquares) variance() float64 {
	if s.df == 0 {
		return math.NaN()
	}
	return s.ss / float64(s.df)
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
	v := variance{noise: withinCells(obs), total: leftBy(obs, size, nil)}
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
	v.terms, v.pairs = slices.Concat(mains, pairs), len(pairs) > 0
	v.rest = leftBy(obs, size, v.terms)
	if v.rest.df == 0 && v.noise.df == 0 {
		// No degrees of freedom remain for testing the interactions.
		v.terms, v.pairs = mains, false
		v.rest = leftBy(obs, size, v.terms)
	}
	for _, t := range v.terms {
		others := slices.DeleteFunc(slices.Clone(v.terms), func(u term) bool { return u.holds(t) })
		without, with := leftBy(obs, size, others), leftBy(obs, size, append(others, t))
		v.of = append(v.of, sumOfSquares{max(0, without.ss-with.ss), without.df - with.df})
	}
	return v
}

func leftBy(obs []observation, size []int, terms []term) sumOfSquares {
	var s space
	s.add(ones(len(obs)))
	for _, t := range terms {
		for _, c := range columnsOf(obs, size, t) {
			s.add(c)
		}
	}
	df := len(obs) - len(s)
	if df <= 0 {
		return sumOfSquares{}
	}
	r := s.residual(values(obs))
	return sumOfSquares{dot(r, r), df}
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
func withinCells(obs []observation) (out sumOfSquares) {
	for i := range obs {
		var same []float64
		first := true
		for j := range obs {
			if slices.Equal(obs[i].levels, obs[j].levels) {
				same, first = append(same, obs[j].y), first && j >= i
			}
		}
		if n := len(same); n > 1 && first {
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

// leastSquares returns the least-squares coefficients of the columns for y; NaN for
// a column that depends on those before it. A coefficient is that of the column's
// part orthogonal to all others (Frisch and Waugh 1933).
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

// dependent is the threshold for a column's length after subtracting its projection
// onto the others: a shorter remainder is rounding error. Indicators have lengths of
// at least 1, and float64 errs by 1e-16 per operation.
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

// residual returns the component of y orthogonal to the space, by Gram-Schmidt, which
// done twice is as accurate as Householder reflections (Giraud and others 2005).
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

func values(obs []observation) []float64 {
	out := make([]float64, len(obs))
	for i := range obs {
		out[i] = obs[i].y
	}
	return out
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }
