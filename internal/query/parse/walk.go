package parse

import "slices"

// Walk calls visit for an expression and, if it returns true, for the expressions within it, in the
// order of the text. The expressions of FILTER, ORDER BY and OVER come last. Walk doesn't enter
// subqueries: see Expr.Query.
func Walk(e *Expr, visit func(*Expr) bool) {
	if e == nil || !visit(e) {
		return
	}
	for _, a := range e.Args {
		Walk(a, visit)
	}
	for _, o := range e.OrderBy {
		Walk(o.Expr, visit)
	}
	Walk(e.Filter, visit)
	e.Over.walk(visit)
}

func (o *Over) walk(visit func(*Expr) bool) {
	if o == nil {
		return
	}
	for _, x := range o.Exprs() {
		Walk(x, visit)
	}
}

// Exprs returns the expressions of PARTITION BY and of ORDER BY.
func (o *Over) Exprs() []*Expr {
	list := slices.Clone(o.PartitionBy)
	for _, by := range o.OrderBy {
		list = append(list, by.Expr)
	}
	return list
}

// Any calls the function is for an expression and for the expressions within it, and reports
// whether any call returns true. Any doesn't enter queries.
func Any(e *Expr, is func(*Expr) bool) bool {
	found := false
	Walk(e, func(e *Expr) bool {
		found = found || is(e)
		return !found
	})
	return found
}

// Check walks an expression as Walk does, and returns the first error of visit.
func Check(e *Expr, visit func(*Expr) (within bool, err error)) (err error) {
	Walk(e, func(e *Expr) (within bool) {
		if err == nil {
			within, err = visit(e)
		}
		return within && err == nil
	})
	return err
}

// Any reports whether is returns true for an expression of the query, or of a query within it.
func (q *Query) Any(is func(*Expr) bool) bool {
	found := false
	q.Walk(nil, func(e *Expr) bool {
		found = found || is(e)
		return !found
	})
	return found
}

// Joins returns the joins in FROM, each before the joins that are its operands.
func (s *Select) Joins() (list []*From) {
	for from := slices.Clone(s.From); len(from) > 0; from = from[1:] {
		if j := from[0]; j.Left != nil {
			list, from = append(list, j), append(from, j.Left, j.Right)
		}
	}
	return list
}

// Walk calls query for a query. If query returns true, Walk calls expr for each expression, as the
// function Walk does. It then walks the queries within: in WITH, in FROM, in expressions, and the
// branches of a set operation. Either function may be nil.
func (q *Query) Walk(query func(*Query) bool, expr func(*Expr) bool) {
	if q == nil || query != nil && !query(q) {
		return
	}
	visit := func(e *Expr) bool {
		if expr != nil && !expr(e) {
			return false
		}
		e.Query.Walk(query, expr)
		return true
	}
	for _, c := range q.With {
		c.Query.Walk(query, expr)
	}
	q.First.Walk(query, expr)
	if s := q.Body; s != nil {
		for _, it := range s.Items {
			Walk(it.Expr, visit)
		}
		for _, f := range s.From {
			f.walk(query, expr, visit)
		}
		Walk(s.Where, visit)
		for _, e := range s.GroupBy {
			Walk(e, visit)
		}
		Walk(s.Having, visit)
		for _, w := range s.Windows {
			w.Over.walk(visit)
		}
	}
	for _, b := range q.Rest {
		b.Query.Walk(query, expr)
	}
	for _, o := range q.OrderBy {
		Walk(o.Expr, visit)
	}
	Walk(q.Limit, visit)
	Walk(q.Offset, visit)
}

func (f *From) walk(query func(*Query) bool, expr, visit func(*Expr) bool) {
	if f == nil {
		return
	}
	f.Query.Walk(query, expr)
	f.Left.walk(query, expr, visit)
	f.Right.walk(query, expr, visit)
	Walk(f.On, visit)
}

// Tables returns the tables and derived tables that an operand of FROM joins, in the order of the
// text.
func (f *From) Tables() []*From {
	if f.Left == nil {
		return []*From{f}
	}
	return append(f.Left.Tables(), f.Right.Tables()...)
}

// Conjuncts returns the conditions that AND joins at the top of a condition, without parentheses
// around them. For nil there are none.
func Conjuncts(e *Expr) []*Expr {
	if e == nil {
		return nil
	}
	bare := Bare(e)
	if bare.Kind == Binary && bare.Name == "AND" {
		return append(Conjuncts(bare.Args[0]), Conjuncts(bare.Args[1])...)
	}
	return []*Expr{bare}
}

// Bare returns an expression without the parentheses around it.
func Bare(e *Expr) *Expr {
	for e.Kind == Paren {
		e = e.Args[0]
	}
	return e
}

// Equal reports whether two expressions are the same, apart from white space, comments,
// parentheses, and the case of keywords and functions. same compares names of columns; nil compares
// them byte for byte. Two expressions with queries are never the same.
func Equal(a, b *Expr, same func(a, b []string) bool) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	a, b = Bare(a), Bare(b)
	if a == b {
		return true
	}
	if a.Kind != b.Kind || a.Name != b.Name || a.Not != b.Not || a.Star != b.Star || a.Distinct != b.Distinct || a.Separator != b.Separator ||
		a.Qualified != b.Qualified || a.Type != b.Type || a.Unit != b.Unit || a.Query != nil || b.Query != nil || a.Limited || b.Limited || a.Kind == Param {
		return false
	}
	if a.Kind == Column {
		if same == nil {
			return slices.Equal(a.Names, b.Names)
		}
		return same(a.Names, b.Names)
	}
	equal := func(a, b *Expr) bool { return Equal(a, b, same) }
	if a.Qualified || a.Over != nil || b.Over != nil {
		// The schema of the function, or a named window, may differ.
		return false
	}
	return slices.EqualFunc(a.Args, b.Args, equal) && Equal(a.Filter, b.Filter, same) &&
		slices.EqualFunc(a.OrderBy, b.OrderBy, func(a, b Order) bool {
			return a.Desc == b.Desc && a.Nulls == b.Nulls && equal(a.Expr, b.Expr)
		})
}

// Flipped has for each comparison the one with its operands exchanged: a < b is b > a.
var Flipped = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
