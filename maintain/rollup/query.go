package rollup

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/rowmill/rowmill/engine"
)

// bucketOf is an expression for the position at which the bucket of a position
// begins.
func (s *Set) bucketOf(l *level, pos string) string {
	b := l.Every.Bucketing()
	if b.Months > 0 {
		m := s.sums.Month(pos)
		if b.Months > 1 {
			m = fmt.Sprintf("(%s - %s %% %d)", m, m, b.Months)
		}
		return s.sums.MonthStart(m)
	}
	// Remainders have the sign of the dividend on every server.
	return fmt.Sprintf("(%s - ((%s - %d) %% %d + %d) %% %d)", pos, pos, b.Origin, b.Step, b.Step, b.Step)
}

// endOf is an expression for the position at which the bucket that begins at a
// position ends.
func (s *Set) endOf(l *level, pos string) string {
	b := l.Every.Bucketing()
	if b.Months > 0 {
		return s.sums.MonthStart(fmt.Sprintf("(%s + %d)", s.sums.Month(pos), b.Months))
	}
	return fmt.Sprintf("(%s + %d)", pos, b.Step)
}

// A selection is a query under construction: an inner one that reads rows, and
// an outer one that groups them.
type selection struct {
	s     *Set
	l     *level
	inner []string          // columns of the inner query
	named map[string]string // their names, by expression
	// rootOutside has roots drawn by a third query around the outer one: where
	// a root is a query itself, old SQLite can't have an aggregate in it.
	rootOutside bool
}

// in returns the name, in the outer query, of an expression over the rows.
func (q *selection) in(expr string) string {
	if name, ok := q.named[expr]; ok {
		return name
	}
	name := fmt.Sprintf("q.c%d", len(q.inner))
	q.inner = append(q.inner, expr+" AS "+name[2:])
	q.named[expr] = name
	return name
}

// window returns an expression over the rows of each one's group.
func (q *selection) window(fn, order string) string {
	by := "(PARTITION BY " + q.bucket()
	for _, c := range q.l.by {
		by += ", " + q.s.quote(c.Name)
	}
	if order != "" {
		by += " ORDER BY " + order
	}
	return q.in(fn + " OVER " + by + ")")
}

// bucket is the position of a row's bucket, in the inner query.
func (q *selection) bucket() string {
	w := q.s.db.Words()
	if q.l.from == nil {
		return q.s.bucketOf(q.l, w.Position(q.s.table, q.s.quote(q.s.declared.Time)))
	}
	return q.s.bucketOf(q.l, w.Position(q.s.table, q.s.quote(Bucket)))
}

// source is what a level is computed from.
func (s *Set) source(l *level) string {
	if l.from == nil {
		return s.quote(s.table.Name)
	}
	return s.quote(l.from.Name)
}

// sourceTime is the column of the source that says when.
func (s *Set) sourceTime(l *level) string {
	if l.from == nil {
		return s.quote(s.declared.Time)
	}
	return s.quote(Bucket)
}

// selectRows renders the query that computes a level's rows from the rows of its
// source that meet a condition: the bucket, the groups, the number of
// raw rows and the aggregates' columns, in which sketches are NULL and roots
// aren't drawn: they are to be merged with those of other rows. Readable asks for
// the readable columns alone, distinct and percentile computed exactly.
func (s *Set) selectRows(l *level, where string, readable bool) string {
	q := &selection{s: s, l: l, named: map[string]string{}, rootOutside: !readable || s.sums.Variance("x") == ""}
	b := q.in(q.bucket())
	group := []string{b}
	out := []string{s.db.Words().FromPosition(s.table, b) + " AS " + s.quote(Bucket)}
	for _, c := range l.by {
		g := q.in(s.quote(c.Name))
		group = append(group, g)
		out = append(out, g+" AS "+s.quote(c.Name))
	}
	rows := "COUNT(*)"
	if l.from != nil {
		rows = "SUM(" + q.in(s.quote(RawRows)) + ")"
	}
	out = append(out, rows+" AS "+s.quote(RawRows))
	var around []string // columns of the query around it
	for _, name := range append(l.key(), RawRows) {
		around = append(around, s.quote(name))
	}
	roots := false
	for i := range l.aggs {
		a := &l.aggs[i]
		var exprs []string
		switch {
		case a.sketched() && readable:
			exprs = []string{q.exact(a)}
		case a.sketched():
			exprs = []string{"NULL", "NULL"}
		case l.from == nil:
			exprs = q.raw(a)
		default:
			exprs = q.merged(a)
		}
		for j, suffix := range a.suffixes() {
			if j == 0 || !readable {
				name := s.quote(a.Name + suffix)
				out = append(out, exprs[j]+" AS "+name)
				if j == 0 && a.Func == "stddev" {
					roots = true
					name = s.sums.SquareRoot("v."+name) + " AS " + name
				}
				around = append(around, name)
			}
		}
	}
	if where != "" {
		where = " WHERE " + where
	}
	grouped := fmt.Sprintf("SELECT %s\nFROM (SELECT %s FROM %s%s) q\nGROUP BY %s",
		strings.Join(out, ", "), strings.Join(q.inner, ", "), s.source(l), where, strings.Join(group, ", "))
	if q.rootOutside && roots && readable {
		return fmt.Sprintf("SELECT %s\nFROM (%s) v", strings.Join(around, ", "), grouped)
	}
	return grouped
}

// raw returns the columns of an aggregate over raw rows.
func (q *selection) raw(a *aggregate) []string {
	w := q.s.sums
	if a.Column == "" {
		return []string{"COUNT(*)"}
	}
	col := q.s.quote(a.Column)
	v := q.in(col)
	n := "COUNT(" + v + ")"
	sum := "SUM(" + v + ")"
	if a.col.Kind == engine.KindFloat {
		sum = "SUM(" + w.AsDouble(v) + ")" // of 64 bits, also where the column has 32
	}
	switch a.Func {
	case "count":
		return []string{n}
	case "sum":
		return []string{sum}
	case "avg":
		return []string{w.AsDouble(sum) + " / NULLIF(" + n + ", 0)", n, sum}
	case "min", "max":
		return []string{strings.ToUpper(a.Func) + "(" + v + ")"}
	case "stddev", "variance":
		mean := w.AsDouble("AVG(" + v + ")")
		variance := w.Variance(v)
		if variance == "" {
			// In two passes, as the sum of squares less the square of the
			// sum loses all digits where the mean is large.
			m := q.window("AVG("+col+")", "")
			d := "(" + v + " - " + m + ")"
			variance = "AVG(" + d + " * " + d + ")"
		}
		variance = w.AsDouble(variance)
		return []string{q.spread(a, variance), n, mean, variance + " * " + n}
	}
	first := q.window("ROW_NUMBER()", q.order(a.Func, col, q.s.quote(q.s.declared.Time)))
	pick := func(x string) string {
		return "MAX(CASE WHEN " + first + " = 1 AND " + v + " IS NOT NULL THEN " + x + " END)"
	}
	return []string{pick(v), pick(q.in(q.s.quote(q.s.declared.Time)))}
}

// order puts the row of a first or last value before all others. Of several at
// the same instant it is the least for first and the greatest for last, so
// that it is always the same one.
func (q *selection) order(fn, value, at string) string {
	direction := ""
	if fn == "last" {
		direction = " DESC"
	}
	return fmt.Sprintf("CASE WHEN %s IS NULL THEN 1 ELSE 0 END, %s%s, %s%s", value, at, direction, value, direction)
}

// spread makes a variance what the aggregate asks for, unless its root is drawn
// outside.
func (q *selection) spread(a *aggregate, variance string) string {
	if a.Func == "stddev" && !q.rootOutside {
		return q.s.sums.SquareRoot(variance)
	}
	return variance
}

// merged returns the columns of an aggregate over rows of a finer level.
func (q *selection) merged(a *aggregate) []string {
	w := q.s.sums
	if a.Column == "" {
		return []string{"SUM(" + q.in(q.s.quote(RawRows)) + ")"}
	}
	stored := func(suffix string) string { return q.s.quote(a.src.Name + suffix) }
	switch a.Func {
	case "count", "sum":
		return []string{"SUM(" + q.in(stored("")) + ")"}
	case "min", "max":
		return []string{strings.ToUpper(a.Func) + "(" + q.in(stored("")) + ")"}
	case "avg":
		n, sum := "SUM("+q.in(stored(sufN))+")", "SUM("+q.in(stored(sufSum))+")"
		return []string{w.AsDouble(sum) + " / NULLIF(" + n + ", 0)", n, sum}
	case "stddev", "variance":
		// Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for
		// computing sample variances (1979), for any number of parts.
		n, mean, m2 := q.in(stored(sufN)), q.in("COALESCE("+stored(sufMean)+", 0)"), q.in("COALESCE("+stored(sufM2)+", 0)")
		weighted := stored(sufN) + " * COALESCE(" + stored(sufMean) + ", 0)"
		all := q.window("SUM("+stored(sufN)+")", "")
		total := q.window("SUM("+weighted+")", "")
		d := "(" + mean + " - " + total + " / NULLIF(" + all + ", 0))"
		squares := "SUM(" + m2 + " + " + n + " * " + d + " * " + d + ")"
		count := "SUM(" + n + ")"
		return []string{q.spread(a, w.AsDouble(squares)+" / NULLIF("+count+", 0)"), count,
			w.AsDouble("SUM("+n+" * "+mean+")") + " / NULLIF(" + count + ", 0)", "CASE WHEN " + count + " > 0 THEN " + squares + " END"}
	}
	at := stored(sufAt)
	first := q.window("ROW_NUMBER()", q.order(a.Func, stored(""), at))
	v := q.in(stored(""))
	pick := func(x string) string {
		return "MAX(CASE WHEN " + first + " = 1 AND " + v + " IS NOT NULL THEN " + x + " END)"
	}
	return []string{pick(v), pick(q.in(at))}
}

// exact returns what a sketch estimates, from raw rows.
func (q *selection) exact(a *aggregate) string {
	col := q.s.quote(a.Column)
	v := q.in(col)
	if a.Func == "distinct" {
		return "COUNT(DISTINCT " + v + ")"
	}
	// The nearest rank: the least value such that so many per cent of all are
	// not greater. The percentage is taken as a fraction of integers.
	num, den := percentRatio(a.Percent)
	rank := q.window("ROW_NUMBER()", fmt.Sprintf("CASE WHEN %s IS NULL THEN 1 ELSE 0 END, %s", col, col))
	n := q.window("COUNT("+col+")", "")
	return fmt.Sprintf("MAX(CASE WHEN %s * %d >= %s * %d AND (%s - 1) * %d < %s * %d THEN %s END)",
		rank, den, n, num, rank, den, n, num, q.s.sums.AsDouble(v))
}

// percentRatio returns a percentage as a fraction: 99.9 is 999/1000.
func percentRatio(percent float64) (num, den int64) {
	r, ok := new(big.Rat).SetString(fmt.Sprintf("%.6f", percent))
	if !ok {
		return 0, 1
	}
	r.Quo(r, big.NewRat(100, 1))
	return r.Num().Int64(), r.Denom().Int64()
}

// between is a condition on a column of times: literals, so that servers see
// at once which periods it rules out.
func (s *Set) between(column string, from, to int64) string {
	w := s.db.Words()
	return fmt.Sprintf("%s >= %s AND %s < %s", column, w.Literal(s.table, from), column, w.Literal(s.table, to))
}
