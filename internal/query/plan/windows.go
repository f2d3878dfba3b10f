package plan

import (
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// windowOf returns the window of a function: its own, or one of the clause WINDOW that it names.
func (b *block) windowOf(e *parse.Expr) (*parse.Over, error) {
	o := e.Over
	if o.Name == "" {
		return o, nil
	}
	var named []parse.Window
	for _, w := range b.sel.Windows {
		if strings.EqualFold(w.Name, o.Name) {
			named = append(named, w)
		}
	}
	if len(named) != 1 || named[0].Name != o.Name || named[0].Over.Name != "" || strings.HasPrefix(b.of(o.Span), "(") {
		return nil, refuse(windowOfWindow, e.Name)
	}
	return named[0].Over, nil
}

// checkNames refuses a window that names a column if another element of the select list has the
// same name as the column: some servers read the name as the column, others as that element.
func (b *block) checkNames(o *parse.Over) error {
	for _, e := range o.Exprs() {
		if err := parse.Check(e, func(e *parse.Expr) (bool, error) {
			if e.Kind != parse.Column || len(e.Names) != 1 {
				return true, nil
			}
			for i, it := range b.sel.Items {
				name, err := b.nameOf(i)
				if err == nil && b.sameName(name, e.Names[0]) && !b.equal(it.Expr, e) {
					err = refuse(nameOfSeveral, e.Names[0])
				}
				if err != nil {
					return false, err
				}
			}
			return true, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// ofPeers are window functions with the same result for all rows equal in the window's ORDER BY.
var ofPeers = map[string]bool{"rank": true, "dense_rank": true, "percent_rank": true, "cume_dist": true}

// windowsApart reports whether pieces may compute the windows over rows: the query reads one table,
// each window lies within one partition of it, and no function depends on the order of equal rows.
func (b *block) windowsApart() bool {
	t := b.cut.table
	if len(t.By) == 0 || len(t.Parts) == 0 || !b.direct || b.merged || b.nested || len(b.uses) != 1 {
		return false
	}
	over := func(e *parse.Expr) bool { return e.Over != nil }
	return !slices.ContainsFunc(b.query.OrderBy, func(o parse.Order) bool { return parse.Any(o.Expr, over) }) &&
		!slices.ContainsFunc(b.sel.Items, func(it parse.Item) bool {
			return parse.Any(it.Expr, func(e *parse.Expr) bool { return over(e) && !b.windowApart(e, it) })
		})
}

// returnsText reports whether a window function, such as LAG, may return a text of another row.
// Some servers describe such a result with one type and send it with another.
func (b *block) returnsText(e *parse.Expr, it parse.Item) bool {
	if !b.traits.MistypesNeighbours || len(e.Args) == 0 || e.Name == "ntile" {
		return false
	}
	c := b.resultOf(it)
	return c == nil || c.Class == engine.ClassText || c.Class == engine.ClassBytes || c.Class == engine.ClassOther
}

// resultOf is the column of the answer for an element of the select list; nil if it is uncertain.
func (b *block) resultOf(it parse.Item) *engine.ResultColumn {
	n := b.column(slices.IndexFunc(b.sel.Items, func(x parse.Item) bool { return x.Expr == it.Expr }))
	if n >= len(b.plan.Columns) || stars(b.sel.Items) > 1 {
		return nil
	}
	return &b.plan.Columns[n]
}

// windowApart reports whether a window function over rows may be computed in pieces.
func (b *block) windowApart(e *parse.Expr, it parse.Item) bool {
	t := b.cut.table
	o, err := b.windowOf(e)
	if err != nil || b.checkNames(o) != nil {
		return false
	}
	has := func(list []*parse.Expr, column string) bool {
		return slices.ContainsFunc(list, func(e *parse.Expr) bool {
			return e.Kind == parse.Column && b.sameName(e.Names[len(e.Names)-1], column)
		})
	}
	if slices.ContainsFunc(t.By, func(by string) bool { return !has(o.PartitionBy, by) }) {
		return false
	}
	unique := len(t.PrimaryKey) > 0 && !slices.ContainsFunc(t.PrimaryKey, func(k string) bool { return !has(o.Exprs(), k) })
	if b.facts.Function(e.Name, len(e.Args)) != engine.AggregateFunction {
		return ofPeers[e.Name] || unique && !b.returnsText(e, it)
	}
	if e.Distinct || e.Filter != nil || len(e.OrderBy) > 0 || !unique && o.Frame.From != o.Frame.To {
		return false
	}
	// The order of rows changes sums of binary fractions. It also changes which of several texts that
	// compare as equal is the minimum.
	switch c := b.resultOf(it); {
	case e.Name == "count":
		return true
	case c == nil || parse.Bare(it.Expr) != e || !slices.Contains([]string{"sum", "avg", "min", "max"}, e.Name):
		return false
	default:
		return Exact(*c)
	}
}
