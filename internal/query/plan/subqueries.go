package plan

import (
	"cmp"
	"slices"

	"github.com/rowmill/rowmill/internal/query/parse"
)

// checkSubqueries refuses a subquery that contains an aggregate of the outer query. An aggregate
// belongs to the query whose columns it reads: the SUM in SELECT (SELECT SUM(t.x)) FROM t belongs
// to the outer query, which therefore returns one row.
func (x *splitter) checkSubqueries() (err error) {
	x.query.Walk(nil, func(e *parse.Expr) bool {
		if err == nil && e.Query != nil {
			err = x.checkSubquery(e.Query)
		}
		return err == nil
	})
	return err
}

// checkSubquery refuses an aggregate of a subquery, of its derived tables or of its CTEs that may
// belong to an outer query. The caller calls checkSubquery for each nested subquery, too.
func (x *splitter) checkSubquery(q *parse.Query) (err error) {
	q.Walk(func(q *parse.Query) bool {
		if err != nil || q.Body == nil {
			return err == nil
		}
		s := q.Body
		list := append(append(outputs(q), s.Where, s.Having), s.GroupBy...)
		for _, j := range s.Joins() {
			list = append(list, j.On)
		}
		for _, e := range list {
			err = cmp.Or(err, parse.Check(e, func(e *parse.Expr) (bool, error) {
				if x.isAggregate(e) && !x.computedBy(s, e) {
					return false, refuse(outerAggregate, x.of(e.Span))
				}
				return true, nil
			}))
		}
		return err == nil
	}, nil)
	return err
}

// computedBy reports whether an aggregate written in a SELECT certainly belongs to this SELECT, not
// to an outer one: the aggregate names no columns, or a column of the SELECT's own FROM.
func (x *splitter) computedBy(s *parse.Select, call *parse.Expr) bool {
	// A subquery may have columns.
	columns := parse.Any(call, func(e *parse.Expr) bool { return e.Query != nil || e.Kind == parse.Column })
	return !columns || parse.Any(call, func(e *parse.Expr) bool {
		return e.Kind == parse.Column && slices.ContainsFunc(s.From, func(f *parse.From) bool {
			return slices.ContainsFunc(f.Tables(), func(f *parse.From) bool { return x.hasColumn(f, e.Names) })
		})
	})
}

// hasColumn reports whether an operand of FROM certainly has a column of this name.
func (x *splitter) hasColumn(f *parse.From, names []string) bool {
	if len(names) > 1 {
		return x.sameName(called(f), names[len(names)-2])
	}
	columns, _ := x.columnsOf(f)
	return len(f.Columns) == 0 && slices.ContainsFunc(columns, func(c string) bool { return x.sameName(c, names[0]) })
}
