package rollup

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/rowmill/rowmill/internal/value"
)

// bucketOf returns an expression for the start of the bucket that contains a position. endOf
// returns one for the end of the bucket that begins at a position.
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

func (s *Set) endOf(l *level, pos string) string {
	b := l.Every.Bucketing()
	if b.Months > 0 {
		return s.sums.MonthStart(fmt.Sprintf("(%s + %d)", s.sums.Month(pos), b.Months))
	}
	return fmt.Sprintf("(%s + %d)", pos, b.Step)
}

// A selection is a query under construction: an inner query that reads rows, and an outer query
// that groups them.
type selection struct {
	s     *Set
	l     *level
	inner []string          // columns of the inner query
	named map[string]string // their names, by expression
	// rootOutside means that a third, outermost query computes square roots: old versions of SQLite
	// compute a root by a query of its own, which may not contain an aggregate.
	rootOutside bool
}

// in adds an expression over the rows to the inner query, and returns its name in the outer one.
func (q *selection) in(expr string) string {
	if name, ok := q.named[expr]; ok {
		return name
	}
	name := fmt.Sprintf("q.c%d", len(q.inner))
	q.inner = append(q.inner, expr+" AS "+name[2:])
	q.named[expr] = name
	return name
}

// window returns a window expression over the rows of the same bucket and group.
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

func (q *selection) bucket() string {
	return q.s.bucketOf(q.l, q.s.db.Words().Position(q.s.table, q.s.sourceOf(q.l).column))
}

// selectRows renders the query that computes a level's rows from the rows of its source that meet a
// condition. If readable is true, the query has only the readable columns, and computes distinct
// and percentile exactly. If readable is false, the rows of the query are to be merged with rows of
// other queries: sketches are NULL, and square roots are omitted.
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
	var around []string // columns of the outermost query
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
		strings.Join(out, ", "), strings.Join(q.inner, ", "), s.sourceOf(l).from, where, strings.Join(group, ", "))
	if q.rootOutside && roots && readable {
		return fmt.Sprintf("SELECT %s\nFROM (%s) v", strings.Join(around, ", "), grouped)
	}
	return grouped
}

func (q *selection) raw(a *aggregate) []string {
	w := q.s.sums
	if a.Column == "" {
		return []string{"COUNT(*)"}
	}
	col := q.s.quote(a.Column)
	v := q.in(col)
	n := "COUNT(" + v + ")"
	sum := "SUM(" + v + ")"
	if a.col.Kind == value.Float {
		sum = "SUM(" + w.AsDouble(v) + ")" // 64 bits, even if the column has 32
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
			// The variance is computed in two passes. The mean of the squares minus the square of
			// the mean would lose all digits if the mean is large.
			m := q.window("AVG("+col+")", "")
			d := "(" + v + " - " + m + ")"
			variance = "AVG(" + d + " * " + d + ")"
		}
		variance = w.AsDouble(variance)
		return []string{q.spread(a, variance), n, mean, variance + " * " + n}
	}
	return q.end(a.Func, col, q.s.quote(q.s.declared.Time))
}

// end returns expressions for the first or the last value and for its time. Among several values at
// one time, the least is the first and the greatest is the last, so that the result is
// deterministic.
func (q *selection) end(fn, value, at string) []string {
	direction := ""
	if fn == "last" {
		direction = " DESC"
	}
	v := q.in(value)
	first := q.window("ROW_NUMBER()", fmt.Sprintf("CASE WHEN %s IS NULL THEN 1 ELSE 0 END, %s%s, %s%s", value, at, direction, value, direction))
	pick := func(x string) string {
		return "MAX(CASE WHEN " + first + " = 1 AND " + v + " IS NOT NULL THEN " + x + " END)"
	}
	return []string{pick(v), pick(q.in(at))}
}

func (q *selection) spread(a *aggregate, variance string) string {
	if a.Func == "stddev" && !q.rootOutside {
		return q.s.sums.SquareRoot(variance)
	}
	return variance
}

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
		// The formula merges any number of parts. It is from Chan, Golub, LeVeque, Updating
		// formulae and a pairwise algorithm for computing sample variances (1979).
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
	return q.end(a.Func, stored(""), stored(sufAt))
}

func (q *selection) exact(a *aggregate) string {
	col := q.s.quote(a.Column)
	v := q.in(col)
	if a.Func == "distinct" {
		return "COUNT(DISTINCT " + v + ")"
	}
	// The result is the value of the nearest rank: the least value for which at least this
	// percentage of all values are not greater. The percentage is a fraction of two integers.
	num, den := percentRatio(a.Percent)
	rank := q.window("ROW_NUMBER()", fmt.Sprintf("CASE WHEN %s IS NULL THEN 1 ELSE 0 END, %s", col, col))
	n := q.window("COUNT("+col+")", "")
	return fmt.Sprintf("MAX(CASE WHEN %s * %d >= %s * %d AND (%s - 1) * %d < %s * %d THEN %s END)",
		rank, den, n, num, rank, den, n, num, q.s.sums.AsDouble(v))
}

func percentRatio(percent float64) (num, den int64) {
	r, ok := new(big.Rat).SetString(fmt.Sprintf("%.6f", percent))
	if !ok {
		return 0, 1
	}
	r.Quo(r, big.NewRat(100, 1))
	return r.Num().Int64(), r.Denom().Int64()
}

// between returns a condition on a time column, with literals, so that servers can exclude
// periods during planning.
func (s *Set) between(column string, from, to int64) string {
	w := s.db.Words()
	return fmt.Sprintf("%s >= %s AND %s < %s", column, w.Literal(s.table, from), column, w.Literal(s.table, to))
}

func (l *level) view() string { return l.Name + "_live" }

// quoteText returns a literal of a name. New has rejected names that servers read differently.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// viewQuery renders the query of the level's live view.
//
// The view reads the roll-up's rows for buckets below the watermark that are neither stale nor
// noted as changed, and raw rows for all other buckets. Each step that changes the watermark, the
// stale buckets or the notes is one transaction, and a statement sees the state before or after it.
// The bounds of the raw rows are scalar subqueries, which servers evaluate before they choose the
// partitions to read.
func (s creator) viewQuery(l *level) string {
	w := s.db.Words()
	table, name := quoteText(s.table.Name), quoteText(l.Name)
	of := func(level, expr string) string {
		return fmt.Sprintf("(SELECT %s FROM rowmill_rollups WHERE table_name = %s AND name = %s)", expr, table, level)
	}
	at := func(column string) string { return of(name, w.FromPosition(s.table, column)) }
	// The level that is computed from raw rows records which raw rows are gone.
	root := l
	for root.from != nil {
		root = root.from
	}
	rootName := quoteText(root.Name)
	noted := func(pos string) string {
		return fmt.Sprintf("EXISTS (SELECT 1 FROM rowmill_touched n WHERE n.table_name = %s AND n.lower_pos < %s AND n.upper_pos >= %s)",
			table, s.endOf(l, pos), pos)
	}
	stale := func(pos string) string {
		return fmt.Sprintf("EXISTS (SELECT 1 FROM rowmill_stale s WHERE s.rollup_name = %s AND s.bucket = %s)", name, pos)
	}
	names := append(l.key(), RawRows)
	for _, a := range l.aggs {
		names = append(names, a.Name)
	}
	bucket := "r." + s.quote(Bucket)
	pos := w.Position(s.table, bucket)
	sealed := fmt.Sprintf("%s < %s", bucket, at("sealed_to"))
	if root != l {
		sealed += fmt.Sprintf(" OR %s < %s", bucket, of(rootName, w.FromPosition(s.table, "sealed_to")))
	}
	rolled := fmt.Sprintf("SELECT %s FROM %s r WHERE %s < %s AND (%s OR NOT (%s OR %s))",
		s.quote(names...), s.quote(l.Name), bucket, at("watermark"), sealed, stale(pos), noted(pos))

	raw := *l
	raw.from = nil
	column := s.quote(s.declared.Time)
	rawPos := s.bucketOf(&raw, w.Position(s.table, column))
	// All parts of the view that read raw rows begin above the sealed buckets, because the raw rows
	// of sealed buckets may have been removed.
	newer := s.selectRows(&raw, column+" >= "+at("watermark"), true)
	below := fmt.Sprintf("%s < %s AND %s >= %s", column, at("watermark"), column, at("sealed_to"))
	if root != l {
		below += fmt.Sprintf(" AND %s >= %s AND %s >= %s", column, of(rootName, w.FromPosition(s.table, "sealed_to")), rawPos, of(rootName, "sealed_to"))
	}
	edge := func(pos, from string) string {
		return fmt.Sprintf("(SELECT %s FROM %s)", w.FromPosition(s.table, pos), from)
	}
	ofStale := "rowmill_stale WHERE rollup_name = " + name
	again := s.selectRows(&raw, fmt.Sprintf("%s >= %s AND %s < %s AND %s AND %s",
		column, edge("MIN(bucket)", ofStale), column, edge(s.endOf(l, "MAX(bucket)"), ofStale),
		below, stale(rawPos)), true)
	late := s.selectRows(&raw, fmt.Sprintf("%s >= %s AND %s AND NOT %s AND %s",
		column, edge(s.bucketOf(l, "MIN(lower_pos)"), "rowmill_touched WHERE table_name = "+table),
		below, stale(rawPos), noted(rawPos)), true)
	return strings.Join([]string{rolled, newer, again, late}, "\nUNION ALL\n")
}
