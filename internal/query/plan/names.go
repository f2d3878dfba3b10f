package plan

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/rowmill/rowmill/internal/query/parse"
)

// spell notes a name that the statement uses.
func (x *splitter) spell(names ...string) { x.spelled = append(x.spelled, names...) }

// checkScopes refuses names that servers resolve in different ways. It also notes the column names
// that several operands of one FROM have.
func (x *splitter) checkScopes() error {
	operands := map[string]string{}
	for _, s := range x.selects {
		var tables []*parse.From
		for _, f := range s.From {
			tables = append(tables, f.Tables()...)
		}
		have := map[string]int{}
		for _, f := range tables {
			name := called(f)
			if old, found := operands[folded(name)]; found && old != name && x.traits.FoldsOperands {
				return refuse(caseOfOperands, old, name)
			}
			operands[folded(name)] = name
			x.spell(name)
			columns, known := x.columnsOf(f)
			x.spell(columns...)
			if len(tables) == 1 {
				continue
			}
			if !known {
				x.joined = true
			}
			for _, c := range columns {
				have[folded(c)]++
			}
		}
		for c, n := range have {
			if n > 1 {
				x.shared = append(x.shared, c)
			}
		}
	}
	return errors.Join(x.checkLetters(), x.checkCTEs())
}

// checkLetters refuses names that differ in the case of letters beyond ASCII, such as ä and Ä: not
// all servers know their case.
func (x *splitter) checkLetters() error {
	if !x.traits.FoldsColumns {
		return nil
	}
	first := map[string]string{}
	for _, name := range x.spelled {
		old, found := first[folded(name)]
		if !found {
			first[folded(name)] = name
		} else if old != name && strings.ContainsFunc(old+name, func(r rune) bool { return r > unicode.MaxASCII }) {
			return refuse(caseOfLetters, old, name)
		}
	}
	return nil
}

// checkCTEs refuses a CTE with the name of a table, or of the table of one period, such as t_2024:
// where a piece reads that table, some servers would read the CTE.
func (x *splitter) checkCTEs() error {
	if !x.traits.EarlyCTEs {
		return nil
	}
	for _, c := range x.ctes {
		for _, u := range x.uses {
			if u.table != nil && (strings.EqualFold(c.Name, u.from.Table) || strings.HasPrefix(folded(c.Name), folded(u.from.Table)+"_")) {
				return refuse(earlyCTE, c.Name)
			}
		}
	}
	return nil
}

// folded returns the same text for all names that are equal by strings.EqualFold.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for c := unicode.SimpleFold(r); c != r; c = unicode.SimpleFold(c) {
			least = min(least, c)
		}
		return least
	}, name)
}

// columnsOf returns the known column names of an operand of FROM. known reports that these are all
// its columns.
func (x *splitter) columnsOf(f *parse.From) (list []string, known bool) {
	u := x.useOf(f)
	if u != nil && u.table != nil {
		for _, c := range u.table.Columns {
			list = append(list, c.Name)
		}
		return append(list, f.Columns...), len(f.Columns) == 0
	}
	q, known := f.Query, len(f.Columns) == 0
	if u != nil && u.cte != nil {
		q, known = u.cte.Query, known && len(u.cte.Columns) == 0
		list = append(list, u.cte.Columns...)
	}
	list = append(list, f.Columns...)
	if q == nil || q.Body == nil {
		return list, false
	}
	for _, it := range q.Body.Items {
		switch {
		case it.Alias != "":
			list = append(list, it.Alias)
		case it.Expr != nil && it.Expr.Kind == parse.Column:
			list = append(list, it.Expr.Names[len(it.Expr.Names)-1])
		default:
			known = false
		}
	}
	return list, known
}

// isShared reports a name of a column that several operands of one FROM have.
func (x *splitter) isShared(name string) bool { return slices.Contains(x.shared, folded(name)) }

// checkUnnamed refuses a name e in ORDER BY if the server gives the same name to an element of the
// select list that has no alias, such as lower(v). ORDER BY would prefer that element to a column
// named e.
func (b *block) checkUnnamed(e *parse.Expr) error {
	for i, it := range b.sel.Items {
		if it.Alias != "" || it.Expr != nil && b.equal(it.Expr, e) {
			continue
		}
		name, err := b.nameOf(i)
		switch {
		case err != nil:
			return err
		case it.Star && it.Table != "" && b.joined, !it.Star && b.sameName(name, e.Names[0]):
			return refuse(nameOfItem, e.Names[0])
		}
	}
	return nil
}

// nameOf returns the name that other clauses have for an element of the select list; "" if it has
// none. Without an alias, PostgreSQL gives v::text the name v, and lower(v) the name lower. MySQL
// and MariaDB name an expression by its text, and a string by its value.
func (b *block) nameOf(item int) (string, error) {
	switch it := b.sel.Items[item]; {
	case it.Alias != "" || it.Star:
		return it.Alias, nil
	case it.Expr.Kind == parse.Column:
		return it.Expr.Names[len(it.Expr.Names)-1], nil
	case !b.traits.ImplicitNames:
		return "", nil
	}
	if b.shown == nil && b.query == b.splitter.query {
		b.shown = b.plan.Columns
	}
	if b.shown == nil {
		var err error
		if b.shown, err = b.describe(b.of(b.query.Span)); err != nil {
			return "", err
		}
	}
	at := b.columnOf(item, len(b.shown))
	if stars(b.sel.Items) > 1 || at >= len(b.shown) {
		return "", refuse(itemUnnamed)
	}
	return b.shown[at].Name, nil
}
