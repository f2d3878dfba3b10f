package plan

import (
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// splitRows splits a block whose pieces return rows of the answer: the block has no groups, or each
// group has all its rows in one partition.
func (b *block) splitRows() error {
	p := b.plan
	switch {
	case b.hasWindows(b.query) && !b.windowsApart():
		return refuse(windowsOfRows)
	case len(b.query.OrderBy) == 0 && b.limit >= 0:
		return refuse(unorderedLimit)
	case len(b.query.OrderBy) > 0 && b.limit < 0 && !b.isGrouped(b.query) && !b.options.Always:
		return refuse(sortsAll)
	}
	p.Merge.Rows, p.Keys = true, len(p.Columns)
	p.Disjoint = p.Disjoint || b.hasWindows(b.query)
	if len(b.query.OrderBy) == 0 {
		p.Merge.Kind = Concatenate
		query := b.of(sqltext.Span{From: b.query.From, To: len(b.text)}, b.edit)
		if len(b.keys) > 0 {
			query += "\nORDER BY " + b.groupTexts() // a comment may end the text
		}
		return b.setPartial(query)
	}
	return b.splitOrdered()
}

// splitOrdered splits a block with ORDER BY. If the block has a limit, each piece returns one row
// more: the extra row shows whether rows tie at the limit.
func (b *block) splitOrdered() error {
	p := b.plan
	if err := b.checkAliases(); err != nil {
		return err
	}
	names, list, err := b.rowItems()
	if err != nil {
		return err
	}
	var sorts, by, directions, inner []string
	hidden := 0  // columns to sort by that the answer doesn't have
	same := true // rows that are equal in ORDER BY are identical: it has all columns, and they are exact
	sorted, quotients := map[string]bool{}, map[string]bool{}
	for _, o := range b.query.OrderBy {
		e, item, err := b.element(o.Expr, inOrderBy)
		if err != nil {
			return err
		}
		name, at := "", 0 // of the column to sort by
		if item >= 0 {
			at = b.column(item)
			name = names[at]
		} else {
			text, err := b.rowSort(e)
			if err != nil {
				return err
			}
			hidden++
			at, name = len(p.Columns)+hidden-1, sortName+strconv.Itoa(hidden)
			list = append(list, text+" AS "+name)
		}
		inner = append(inner, strconv.Itoa(at+1)+direction(o))
		sorted[name], quotients[name] = true, b.hasQuotient(e)
		sorts = append(sorts, name+direction(o))
		by, directions = append(by, name), append(directions, direction(o))
	}
	for i, name := range names {
		if p.Columns[i].Class == engine.ClassOther {
			return refuse(notStored, "the column "+p.Columns[i].Name)
		}
		same = same && Exact(p.Columns[i]) && sorted[name]
	}
	query := b.begin()
	if b.sel.Distinct {
		query += "DISTINCT "
	}
	query += strings.Join(list, ", ") + b.rows()
	if len(b.sel.GroupBy) > 0 {
		query += " GROUP BY " + b.groupTexts()
	}
	if b.sel.Having != nil {
		having, err := b.rowSort(b.sel.Having)
		if err != nil {
			return err
		}
		query += " HAVING " + having
	}
	query += " ORDER BY " + strings.Join(inner, ", ")
	if b.limit >= 0 {
		query += b.limitText(b.offset+b.limit+1, 0)
	}
	if err := b.setPartial(query); err != nil {
		return err
	}
	for i, c := range p.PartialColumns {
		name := sortName + strconv.Itoa(i-len(names)+1)
		if i < len(names) {
			name = names[i]
		}
		if a := b.facts.Ambiguous(c, name, engine.KeySorts); a != "" && (i >= len(names) || sorted[name]) {
			p.Merge.Ties = append(p.Merge.Ties, "SELECT 1 FROM "+b.temporary(PartialTable)+" WHERE "+a+" LIMIT 1")
		}
		if c.Class == engine.ClassDecimal && b.traits.HiddenDigits && quotients[name] {
			return refuse(sortsByQuotient)
		}
		if c.Class == engine.ClassOther {
			return refuse(notStored, "what it sorts by")
		}
	}
	m := &p.Merge
	m.Kind = OnServer
	m.Final = "SELECT " + strings.Join(names, ", ") + " FROM " + b.temporary(PartialTable) + " ORDER BY " + strings.Join(sorts, ", ") + b.limitText(b.limit, b.offset)
	if b.limit >= 0 && !same {
		m.Ties = append(m.Ties, b.limitTies(by, directions, b.temporary(PartialTable))...)
	}
	return nil
}

// hasQuotient reports a division in an element of ORDER BY, or in the expression of an alias in it.
func (b *block) hasQuotient(e *parse.Expr) bool {
	return parse.Any(e, func(x *parse.Expr) bool {
		r, err := b.resolve(x, inHaving)
		return err != nil || isDivision(x) || divided(r)
	})
}

// stars counts the stars of a select list.
func stars(items []parse.Item) (n int) {
	for _, it := range items {
		if it.Star {
			n++
		}
	}
	return n
}

// rowItems returns list, the select list of a piece, and columns: the quoted names that the
// answer's columns have in the piece's result.
func (b *block) rowItems() (columns, list []string, err error) {
	p := b.plan
	if stars(b.sel.Items) > 1 {
		return nil, nil, refuse(severalStars)
	}
	seen := map[string]bool{}
	for i, it := range b.sel.Items {
		if it.Star {
			list = append(list, b.of(it.Span))
			for range len(p.Columns) - len(b.sel.Items) + 1 {
				name := p.Columns[len(columns)].Name
				low := strings.ToLower(name)
				if seen[low] || strings.HasPrefix(low, "rowmill_") {
					return nil, nil, refuse(sameColumns, name)
				}
				seen[low] = true
				columns = append(columns, b.quote(name))
			}
			continue
		}
		if n := len(columns); n < len(p.Columns) && b.otherDigits(it.Expr, p.Columns[n]) {
			return nil, nil, refuse(rowDigits, b.of(it.Span))
		}
		name := itemName + strconv.Itoa(i+1)
		list = append(list, b.of(it.Expr.Span)+" AS "+name)
		columns = append(columns, name)
	}
	return columns, list, wantColumns(p.Columns, len(columns))
}

// column returns the index that an element of the select list has among the columns of the answer.
func (b *block) column(item int) int { return b.columnOf(item, len(b.plan.Columns)) }

// columnOf returns the index, among the columns of a result, of an element of the select list. item
// is the element's index in the list. A star before the element stands for all columns that don't
// belong to other elements.
func (b *block) columnOf(item, columns int) int {
	if stars(b.sel.Items[:item]) > 0 {
		return item + columns - len(b.sel.Items)
	}
	return item
}

// rowSort is the text of an expression of ORDER BY or HAVING, with its aliases replaced.
func (b *block) rowSort(e *parse.Expr) (string, error) {
	var edits []parse.Edit
	err := parse.Check(e, func(e *parse.Expr) (bool, error) {
		if e.Query != nil {
			return false, refuse(noParts, "a subquery in HAVING or ORDER BY")
		}
		r, err := b.resolve(e, inHaving)
		if r == nil || err != nil {
			return true, err
		}
		if b.traits.MissortsAliases && parse.Any(r, func(e *parse.Expr) bool { return e.Over != nil }) {
			return false, refuse(sortsByAlias, b.of(e.Span))
		}
		edits = append(edits, parse.Edit{Span: e.Span, Text: "(" + b.of(r.Span) + ")"})
		return false, nil
	})
	if err != nil {
		return "", err
	}
	return b.of(e.Span, edits...), nil
}

// groupTexts is GROUP BY with the expressions themselves in place of positions and aliases.
func (b *block) groupTexts() string {
	var list []string
	for _, k := range b.keys {
		list = append(list, k.text)
	}
	return strings.Join(list, ", ")
}
