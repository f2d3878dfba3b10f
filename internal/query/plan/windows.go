package plan

import (
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// windowOf returns the window of a function, which may have a name.
func (b *block) windowOf(e *parse.Expr) (*parse.Over, error) {
	o := e.Over
	if o.Name == "" {
		return o, nil
	}
	var found *parse.Over
	for _, w := range b.sel.Windows {
		if strings.EqualFold(w.Name, o.Name) {
			if found != nil || w.Name != o.Name {
				return nil, refuse(windowUncertain, o.Name)
			}
			found = w.Over
		}
	}
	if found == nil || found.Name != "" || strings.HasPrefix(b.of(o.Span), "(") {
		return nil, refuse(windowOfWindow, e.Name)
	}
	return found, nil
}

// checkNames refuses names within a window that are those of columns and of other elements of the
// select list: servers differ in which of them they take.
func (b *block) checkNames(o *parse.Over) (err error) {
	list := slices.Clone(o.PartitionBy)
	for _, by := range o.OrderBy {
		list = append(list, by.Expr)
	}
	for _, e := range list {
		parse.Walk(e, func(e *parse.Expr) bool {
			for i := 0; i < len(b.sel.Items) && err == nil && e.Kind == parse.Column && len(e.Names) == 1; i++ {
				var name string
				if name, err = b.nameOf(i); err == nil && b.sameName(name, e.Names[0]) && !b.equal(b.sel.Items[i].Expr, e) {
					err = refuse(nameOfSeveral, e.Names[0])
				}
			}
			return err == nil
		})
	}
	return err
}

// ofPeers are window functions whose value is the same for rows that are equal in the order.
var ofPeers = map[string]bool{"rank": true, "dense_rank": true, "percent_rank": true, "cume_dist": true}

// windowsApart reports whether the windows over rows are those of pieces: all rows of one lie in
// one partition of the table, which is the only one, and no function depends on the order of rows
// that are equal in that of the window.
func (b *block) windowsApart() bool {
	t := b.cut.table
	if len(t.By) == 0 || len(t.Parts) == 0 || !b.direct || b.merged || b.nested || len(b.uses) != 1 {
		return false
	}
	apart := true
	for i, it := range append(slices.Clone(b.sel.Items), orderItems(b.query)...) {
		parse.Walk(it.Expr, func(e *parse.Expr) bool {
			if apart && e.Over != nil {
				apart = i < len(b.sel.Items) && b.windowApart(e, it)
			}
			return apart
		})
	}
	return apart
}

// orderItems are the elements of ORDER BY.
func orderItems(q *parse.Query) (list []parse.Item) {
	for _, o := range q.OrderBy {
		list = append(list, parse.Item{Span: o.Span, Expr: o.Expr})
	}
	return list
}

// returnsText reports a function that returns a text of another row, whose type isn't that
// described.
func (b *block) returnsText(e *parse.Expr, it parse.Item) bool {
	if !b.traits.MistypesNeighbours || len(e.Args) == 0 || e.Name == "ntile" {
		return false
	}
	n := slices.IndexFunc(b.sel.Items, func(x parse.Item) bool { return x.Expr == it.Expr })
	if n < 0 || b.column(n) >= len(b.plan.Columns) {
		return true
	}
	c := b.plan.Columns[b.column(n)]
	return c.Class == engine.ClassText || c.Class == engine.ClassBytes || c.Class == engine.ClassOther
}

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
	list := slices.Clone(o.PartitionBy)
	for _, by := range o.OrderBy {
		list = append(list, by.Expr)
	}
	for _, by := range t.By {
		if !has(o.PartitionBy, by) {
			return false
		}
	}
	unique := len(t.PrimaryKey) > 0
	for _, k := range t.PrimaryKey {
		unique = unique && has(list, k)
	}
	if b.facts.Function(e.Name, len(e.Args)) != engine.AggregateFunction {
		return ofPeers[e.Name] || unique && !b.returnsText(e, it)
	}
	if e.Distinct || e.Filter != nil || len(e.OrderBy) > 0 || !unique && o.Frame.From != o.Frame.To {
		return false
	}
	switch e.Name {
	case "count":
		return true
	case "sum", "avg", "min", "max":
	default:
		return false
	}
	// Sums of binary fractions depend on the order of the rows, and so does which of equal texts is
	// the least.
	if parse.Bare(it.Expr) != e {
		return false
	}
	n := slices.IndexFunc(b.sel.Items, func(x parse.Item) bool { return x.Expr == it.Expr })
	if n < 0 || b.column(n) >= len(b.plan.Columns) || slices.ContainsFunc(b.sel.Items[:n], func(x parse.Item) bool { return x.Star }) {
		return false
	}
	switch c := b.plan.Columns[n]; c.Class {
	case engine.ClassInt, engine.ClassBytes, engine.ClassTime:
		return true
	case engine.ClassDecimal:
		return c.Scale >= 0
	}
	return false
}
