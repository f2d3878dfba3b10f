package plan

import (
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// nestedBlock returns the block of a derived table or CTE with groups, if the statement reads no
// other table: then pieces compute the block, and the server the rest of the statement.
func (x *splitter) nestedBlock() *block {
	for _, q := range x.inner(x.query) {
		b, err := x.block(q)
		if err != nil || !x.isGrouped(q) || !x.alone(q) {
			continue
		}
		b.nested = true
		return b
	}
	return nil
}

// inner returns the queries of the derived tables and CTEs that a query reads.
func (x *splitter) inner(q *parse.Query) (list []*parse.Query) {
	if q.Body == nil {
		return nil
	}
	for _, f := range q.Body.From {
		for _, leaf := range f.Tables() {
			from := leaf.Query
			if u := x.useOf(leaf); u != nil && u.cte != nil && u.cte.uses == 1 && !u.cte.recursive {
				from = u.cte.Query
			}
			if from != nil && !leaf.Lateral {
				list = append(append(list, from), x.inner(from)...)
			}
		}
	}
	return list
}

// alone reports whether all tables of the statement are read within this query, and the query reads
// no CTE from outside.
func (x *splitter) alone(q *parse.Query) bool {
	for _, u := range x.uses {
		in := inside(u.from.Span, q.Span)
		if !in && u.cte == nil || in && u.cte != nil && !inside(u.cte.Span, q.Span) {
			return false
		}
	}
	return true
}

func inside(s, of sqltext.Span) bool { return s.From >= of.From && s.To <= of.To }

// checkOuter refuses a statement whose result may depend on the order in which the block's rows
// come.
func (b *block) checkOuter() (err error) {
	b.splitter.query.Walk(func(q *parse.Query) bool {
		if err == nil && q != b.query {
			err = b.checkOuterQuery(q)
		}
		return err == nil && q != b.query
	}, nil)
	return err
}

func (b *block) checkOuterQuery(q *parse.Query) error {
	x := b.splitter
	switch {
	case q.First != nil || len(q.Rest) > 0:
		return refuse(formAround, "a set operation")
	case len(q.Body.From) == 0:
		return nil
	case x.hasWindows(q):
		return refuse(formAround, "window functions")
	case q.Limit != nil:
		return refuse(limitBelow)
	}
	if !x.isGrouped(q) {
		return nil
	}
	s := q.Body
	if q != x.query && len(x.query.With) > 0 {
		return refuse(formAround, "groups of another CTE")
	}
	o := &block{splitter: x, query: q, sel: s, limit: -1, merged: true}
	var list, inputs []string
	var calls []*parse.Expr
	for _, e := range append(outputs(q), s.Having) {
		parse.Walk(e, func(e *parse.Expr) bool {
			if x.isAggregate(e) {
				calls = append(calls, e)
				return false
			}
			return true
		})
	}
	from := " FROM " + x.of(s.FromSpan)
	with := x.of(sqltext.Span{From: q.From, To: s.Span.From})
	for _, e := range calls {
		if e.Filter != nil || len(e.OrderBy) > 0 || e.Separator != "" {
			return refuse(aggregateAround, x.of(e.Span))
		}
		list = append(list, x.of(e.Span))
		for _, a := range e.Args {
			inputs = append(inputs, x.of(a.Span))
		}
	}
	var keys []string
	var grouped []*parse.Expr
	for _, e := range s.GroupBy {
		r, _, err := o.element(e, inGroupBy)
		if err != nil {
			return err
		}
		keys, grouped = append(keys, x.of(r.Span)), append(grouped, r)
	}
	if s.Sets {
		return refuse(formAround, "subtotals")
	}
	if s.Distinct {
		for _, it := range s.Items {
			if it.Star {
				return refuse(noParts, "DISTINCT of a star")
			}
			if len(calls) == 0 && len(s.GroupBy) == 0 {
				keys = append(keys, x.of(it.Expr.Span))
			}
		}
	}
	in, err := x.describeAs(len(keys)+len(inputs), with+"SELECT "+strings.Join(slices.Concat(keys, inputs), ", ")+from)
	if err != nil {
		return err
	}
	results, err := x.describeAs(len(list), with+"SELECT "+strings.Join(list, ", ")+from)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if x.facts.Bytes(in[i], k) != "" || in[i].Class == engine.ClassOther {
			return refuse(equalValues, k)
		}
	}
	if err := o.loose(append(outputs(q), s.Having), grouped); err != nil {
		return err
	}
	in = in[len(keys):]
	for i, e := range calls {
		c := engine.AggregateCall{Name: e.Name, Distinct: e.Distinct, Star: e.Star, Inputs: in[:len(e.Args)], Result: results[i]}
		for _, a := range e.Args {
			c.Args = append(c.Args, x.of(a.Span))
		}
		in = in[len(e.Args):]
		// The order of rows doesn't matter to an aggregate of integers.
		integers := !slices.ContainsFunc(c.Inputs, func(in engine.ResultColumn) bool { return in.Class != engine.ClassInt })
		switch r, ok := x.facts.Aggregate(c); {
		case !ok || r.Tie != "" && !integers || r.Keyed:
			return refuse(aggregateAround, x.of(e.Span))
		case r.Order && !x.options.Inexact:
			return refuse(lastDigits, x.of(e.Span))
		}
	}
	return nil
}

// loose refuses a column that is neither a key nor aggregated: servers that permit such a column
// take its value from any row of the group.
func (b *block) loose(list, keys []*parse.Expr) error {
	if !b.traits.LooseColumns || b.sel.Distinct && len(keys) == 0 && !b.hasAggregates() {
		return nil
	}
	for _, e := range list {
		if err := parse.Check(e, func(e *parse.Expr) (bool, error) {
			if b.isAggregate(e) || slices.ContainsFunc(keys, func(k *parse.Expr) bool { return b.equal(k, e) }) {
				return false, nil
			}
			r, err := b.resolve(e, inHaving)
			if e.Kind == parse.Column && r == nil && err == nil {
				err = refuse(looseColumn, b.of(e.Span))
			}
			return true, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// outside returns the statement with final, the merged rows, in place of the block. If the block
// has no LIMIT, outside adds one, because it makes the server store the merged rows. Without a
// LIMIT, the server might compute with more digits than the columns of a derived table have.
func (b *block) outside(final string) string {
	if b.limit < 0 {
		final += b.limitText(math.MaxInt64, 0)
	}
	return b.of(sqltext.Span{From: 0, To: len(b.text)}, parse.Edit{Span: b.query.Span, Text: final})
}
