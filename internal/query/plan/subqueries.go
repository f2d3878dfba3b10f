package plan

import (
	"slices"

	"github.com/rowmill/rowmill/internal/query/parse"
)

// checkSubqueries refuses aggregates in subqueries whose arguments have columns, but none that is
// certainly of the subquery: an aggregate is computed by the query that its columns belong to, so
// that (SELECT SUM(t.x)) makes a group of the rows of t.
func (x *splitter) checkSubqueries() (err error) {
	x.query.Walk(nil, func(e *parse.Expr) bool {
		if err == nil && e.Query != nil {
			err = x.checkSubquery(e.Query)
		}
		return err == nil
	})
	return err
}

// checkSubquery checks the aggregates of a subquery, and of the queries that it reads from. Those
// in the subqueries within it are checked with those.
func (x *splitter) checkSubquery(q *parse.Query) (err error) {
	q.Walk(func(q *parse.Query) bool {
		if err != nil || q.Body == nil {
			return err == nil
		}
		s := q.Body
		list := append(outputs(q), s.Where, s.Having)
		list = append(list, s.GroupBy...)
		for _, f := range s.From {
			for joins := []*parse.From{f}; len(joins) > 0; joins = joins[1:] {
				if j := joins[0]; j.Left != nil {
					list, joins = append(list, j.On), append(joins, j.Left, j.Right)
				}
			}
		}
		for _, e := range list {
			parse.Walk(e, func(e *parse.Expr) bool {
				if err == nil && x.isAggregate(e) && !x.computedBy(s, e) {
					err = refuse(outerAggregate, x.of(e.Span))
				}
				return err == nil
			})
		}
		return err == nil
	}, nil)
	return err
}

// computedBy reports whether a SELECT certainly computes an aggregate in it. It does if the
// aggregate has no columns, or one of the SELECT's own FROM. In SELECT (SELECT SUM(t.x) FROM u)
// FROM t, the outer SELECT computes the aggregate.
func (x *splitter) computedBy(s *parse.Select, call *parse.Expr) bool {
	columns, own := false, false
	parse.Walk(call, func(e *parse.Expr) bool {
		if e.Query != nil { // of which columns may be
			columns = true
		}
		if e.Kind == parse.Column {
			columns = true
			own = own || slices.ContainsFunc(s.From, func(f *parse.From) bool {
				return slices.ContainsFunc(f.Tables(), func(f *parse.From) bool { return x.hasColumn(f, e.Names) })
			})
		}
		return !own
	})
	return own || !columns
}

// hasColumn reports whether an operand of FROM certainly has a column of this name.
func (x *splitter) hasColumn(f *parse.From, names []string) bool {
	if len(names) > 1 {
		name := f.Alias
		if name == "" {
			name = f.Table
		}
		return x.sameName(name, names[len(names)-2])
	}
	if u := x.useOf(f); u != nil && u.table != nil && len(f.Columns) == 0 {
		for _, c := range u.table.Columns {
			if x.sameName(c.Name, names[0]) {
				return true
			}
		}
		return false
	}
	q := f.Query
	if u := x.useOf(f); u != nil && u.cte != nil {
		q = u.cte.Query
	}
	if q == nil || q.Body == nil || len(f.Columns) > 0 {
		return false
	}
	for _, it := range q.Body.Items {
		name := it.Alias
		if name == "" && it.Expr != nil && it.Expr.Kind == parse.Column {
			name = it.Expr.Names[len(it.Expr.Names)-1]
		}
		if x.sameName(name, names[0]) {
			return true
		}
	}
	return false
}
