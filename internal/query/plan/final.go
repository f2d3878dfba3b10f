package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// write writes the statements of the plan.
func (g *grouped) write() error {
	p, m := g.plan, &g.plan.Merge
	if g.limit >= 0 && len(g.query.OrderBy) == 0 && len(g.keys) > 0 {
		return refuse(unorderedLimit)
	}
	if g.offset > 0 && len(g.keys) == 0 && g.traits.KeepsOneRow {
		return refuse(offsetOfOne)
	}
	if g.offset > 0 && g.sel.Distinct && g.traits.LosesOffset && !slices.ContainsFunc(g.sel.Items, func(it parse.Item) bool {
		return it.Star || it.Expr.Kind == parse.Column
	}) {
		return refuse(lostOffset)
	}
	items, err := g.items()
	if err != nil {
		return err
	}
	if err := g.onlyCounts(); err != nil {
		return err
	}
	final := "SELECT "
	if g.sel.Distinct && (len(g.sel.GroupBy) > 0 || g.hasAggregates()) {
		for _, c := range p.Columns {
			if c.Class == engine.ClassText || c.Class == engine.ClassFloat || c.Class == engine.ClassOther {
				return refuse(equalValues, c.Name)
			}
		}
		final += "DISTINCT "
	}
	having := ""
	if g.sel.Having != nil {
		text, err := g.render(g.sel.Having, inHaving)
		if err != nil {
			return err
		}
		having = " WHERE " + text
	}
	final += strings.Join(items, ", ") + " FROM " + g.temporary(GroupTable) + having
	unique, err := g.findSorts()
	if err != nil {
		return err
	}
	before := " ORDER BY "
	for _, s := range g.sorts {
		final += before + s.text + direction(s.Order)
		before = ", "
	}
	final += g.limitText(g.limit, g.offset)
	m.Final, m.Unique, m.Kind = final, unique, OnServer
	if err := g.writePartial(); err != nil {
		return err
	}
	g.writeTies(items, having, unique)
	g.inMemory()
	if g.nested {
		m.Final = g.outside(final)
	}
	return nil
}

// onlyCounts refuses a query whose pieces may count otherwise than the whole query. If a query
// selects only counts, over all rows, some servers return COUNT(*) for COUNT(x). They do so in
// pieces that read partitions, too, but not in pieces that read a key range or a roll-up. It isn't
// known which of their versions do so for COUNT(x)+1.
func (g *grouped) onlyCounts() error {
	if len(g.keys) > 0 || g.sel.Where != nil || !g.traits.CountsAll {
		return nil
	}
	several := false
	for _, a := range g.aggregates {
		if a.call.Name != "count" || a.call.Distinct {
			return nil
		}
		several = several || !a.call.Star
	}
	for _, it := range g.sel.Items {
		if several && (len(g.cut.table.Parts) == 0 || it.Expr != nil && !g.isAggregate(parse.Bare(it.Expr))) {
			return refuse(countsAlone)
		}
	}
	g.plan.OnlyCounts = several && len(g.aggregates) > 1
	return nil
}

// limitText is the clause LIMIT; "" if limit is -1.
func (b *block) limitText(limit, offset int64) string {
	if limit < 0 {
		return ""
	}
	s := " LIMIT " + strconv.FormatInt(limit, 10)
	if offset > 0 {
		s += " OFFSET " + strconv.FormatInt(offset, 10)
	}
	return s
}

// items returns the select list, computed from the columns of the group table.
func (g *grouped) items() (list []string, err error) {
	var named []engine.ResultColumn
	if g.nested {
		if named, err = g.describeAs(len(g.sel.Items), g.of(g.query.Span)); err != nil {
			return nil, err
		}
	}
	for i, it := range g.sel.Items {
		if it.Star {
			return nil, refuse(noParts, "a star over groups")
		}
		g.window = false
		text, err := g.render(it.Expr, inItems)
		if err != nil {
			return nil, err
		}
		if g.window && !g.nested && i < len(g.plan.Columns) {
			if c := g.plan.Columns[i].Class; c == engine.ClassText || c == engine.ClassOther {
				return nil, refuse(equalValues, g.of(it.Span))
			}
		}
		if g.nested {
			text += " AS " + g.quote(named[i].Name)
		}
		list = append(list, text)
	}
	return list, nil
}

// storesGroups reports that the server may store groups in a temporary table before it evaluates
// expressions over them. It does so for windows, for DISTINCT, and for an ORDER BY that differs
// from GROUP BY.
func (g *grouped) storesGroups() bool {
	if g.hasWindows(g.query) {
		return true
	}
	by := g.sel.GroupBy
	if len(by) == 0 {
		return false
	}
	if g.sel.Distinct {
		return true
	}
	for i, o := range g.query.OrderBy {
		if i == len(by) {
			return true
		}
		sort, _, err := g.element(o.Expr, inOrderBy)
		if err != nil {
			return true
		}
		if key, _, err := g.element(by[i], inGroupBy); err != nil || !g.equal(sort, key) {
			return true
		}
	}
	return false
}

// render returns the SQL text for an expression, computed from the columns of the group table.
func (g *grouped) render(e *parse.Expr, in nameUse) (string, error) {
	return g.renderPart(e, in, false)
}

// renderPart renders an expression. part reports that it is a part of another expression.
func (g *grouped) renderPart(whole *parse.Expr, in nameUse, part bool) (string, error) {
	if err := g.checkOperands(whole, in, part); err != nil {
		return "", err
	}
	var edits []parse.Edit
	err := parse.Check(whole, func(e *parse.Expr) (bool, error) {
		within := part || e != whole
		replace := func(text string) { edits = append(edits, parse.Edit{Span: e.Span, Text: text}) }
		r, err := g.resolve(e, in)
		if err != nil {
			return false, err
		}
		if r != nil {
			text, err := g.renderPart(r, inItems, within)
			replace("(" + text + ")")
			return false, err
		}
		if i := g.keyOf(e); i >= 0 {
			k := g.keys[i]
			k.used = true
			text := g.keyValue(i)
			if within && parse.Bare(k.expr).Kind != parse.Column {
				text = g.noColumn(text, k.col)
			}
			replace(text)
			return false, nil
		}
		switch {
		case e.Query != nil:
			return false, refuse(noParts, "a subquery over groups")
		case g.isAggregate(e):
			a := g.aggregateOf(e)
			if within && (a.recipe.Alone || a.recipe.Cut && (g.storesGroups() || g.traits.EvenAverages && g.takesIntegers(whole))) {
				return false, refuse(digitsWithin, g.of(e.Span))
			}
			text := g.value(a)
			if within && a.call.Name != "count" {
				text = g.noColumn(text, a.result)
			}
			replace(text)
			return false, nil
		case e.Over != nil:
			if err := g.checkWindow(e, whole); err != nil || e.Over.Name == "" {
				return true, err
			}
			text, err := g.windowText(e)
			edits = append(edits, parse.Edit{Span: e.Over.Span, Text: text})
			return true, err
		case e.Kind == parse.Column:
			return false, refuse(looseColumn, g.of(e.Span))
		}
		return true, nil
	})
	if err != nil {
		return "", err
	}
	return g.of(whole.Span, edits...), nil
}

// ofDecimals are functions that don't take a decimal number for an integer.
var ofDecimals = map[string]bool{
	"abs": true, "ceil": true, "ceiling": true, "coalesce": true, "concat": true, "floor": true, "format": true, "from_unixtime": true, "greatest": true, "if": true,
	"ifnull": true, "isnull": true, "least": true, "nullif": true, "round": true, "sign": true, "sqrt": true, "truncate": true,
}

// takesIntegers reports whether an expression has a bit operation, DIV, or a function that may take
// integers, such as HEX. It ignores the arguments of aggregates.
func (g *grouped) takesIntegers(whole *parse.Expr) (found bool) {
	parse.Walk(whole, func(e *parse.Expr) (within bool) {
		switch e.Kind {
		case parse.Unary, parse.Binary:
			found = found || slices.Contains([]string{"&", "|", "^", "~", "<<", ">>", "DIV"}, e.Name)
		case parse.Call:
			if g.isAggregate(e) {
				return false
			}
			found = found || !ofDecimals[e.Name]
		}
		return true
	})
	return found
}

// keyValue returns the SQL text for a key, computed from the columns of the group table. A server
// with Affinity, such as SQLite, compares columns and expressions by different rules. The text for
// such a server keeps the form of the key: a+1 gives (+rowmill_k1), CAST(a AS TEXT) gives
// CAST(rowmill_k1 AS TEXT).
func (g *grouped) keyValue(i int) string {
	name := keyName + strconv.Itoa(i+1)
	e := parse.Bare(g.keys[i].expr)
	switch {
	case !g.traits.Affinity || e.Kind == parse.Column:
		return name
	case e.Kind == parse.Cast:
		return g.of(e.Span, parse.Edit{Span: e.Args[0].Span, Text: name})
	}
	return "(+" + name + ")"
}

// value returns the SQL text for an aggregate, computed from the columns of the group table. For
// example, AVG(x) is the sum of its partial sums divided by the sum of its partial counts.
func (g *grouped) value(a *aggregate) string {
	return fill(cmp.Or(a.recipe.Value, "$1"), g.partNames(a))
}

// partNames are the names of the columns with the parts of an aggregate.
func (g *grouped) partNames(a *aggregate) (list []string) {
	for _, i := range a.parts {
		list = append(list, g.parts[i].name)
	}
	return list
}

// checkWindow refuses window functions whose result depends on the order of peers. Peers are rows
// that are equal in the window's PARTITION BY and ORDER BY.
func (g *grouped) checkWindow(e, whole *parse.Expr) error {
	g.window = true
	o, err := g.windowOf(e)
	if err == nil {
		err = g.checkNames(o)
	}
	if err != nil {
		return err
	}
	unique, peers := g.tellsApart(o.Exprs()), ofPeers[e.Name]
	if r := g.facts.Function(e.Name, len(e.Args)); r == engine.AggregateFunction {
		peers = o.Frame.From == o.Frame.To && map[string]bool{"count": true, "sum": true, "avg": true, "min": true, "max": true}[e.Name]
		for i, it := range g.sel.Items {
			if it.Expr == whole && (g.nested || i < len(g.plan.Columns) && g.plan.Columns[i].Class == engine.ClassFloat) && e.Name != "count" {
				return refuse(lastDigits, g.of(e.Span))
			}
		}
		if len(e.Args) > 1 || e.Distinct {
			return refuse(windowOfGroups, g.of(e.Span))
		}
		if err := g.checkWindowed(e); err != nil {
			return err
		}
	}
	if !unique && !peers {
		return refuse(equalGroups, g.of(e.Span))
	}
	return nil
}

// checkWindowed refuses an aggregate over a window if its result isn't certain. A sum of binary
// fractions depends on the order of additions. The minimum of the equal decimals 1.5 and 1.50 may
// be either text.
func (g *grouped) checkWindowed(e *parse.Expr) error {
	if e.Name == "count" || len(e.Args) == 0 {
		return nil
	}
	return parse.Check(e.Args[0], func(x *parse.Expr) (bool, error) {
		var c engine.ResultColumn
		of := []*parse.Expr{x}
		switch i := g.keyOf(x); {
		case i >= 0:
			c = g.keys[i].col
		case g.isAggregate(x):
			c, of = g.aggregateOf(x).result, x.Args
		default:
			return true, nil
		}
		switch {
		case e.Name == "avg" && c.Class == engine.ClassInt && g.traits.ShortTypes && slices.ContainsFunc(of, computed):
			return false, refuse(shortType, g.of(e.Span))
		case c.Class == engine.ClassFloat && (e.Name == "sum" || e.Name == "avg"):
			return false, refuse(lastDigits, g.of(e.Span))
		case c.Class == engine.ClassDecimal && c.Scale < 0 && (e.Name == "min" || e.Name == "max"):
			return false, refuse(equalValues, g.of(e.Span))
		}
		return false, nil
	})
}

// windowText returns the definition of a named window, over the columns of the group table.
func (g *grouped) windowText(e *parse.Expr) (string, error) {
	o, err := g.windowOf(e)
	if err != nil {
		return "", err
	}
	var edits []parse.Edit
	for _, by := range o.Exprs() {
		text, err := g.render(by, inItems)
		if err != nil {
			return "", err
		}
		edits = append(edits, parse.Edit{Span: by.Span, Text: text})
	}
	return g.of(o.Span, edits...), nil
}

// A sortElement is an element of ORDER BY over groups: an element of the select list, or, if item
// is -1, an expression. text is its position or its SQL text.
type sortElement struct {
	parse.Order
	expr *parse.Expr
	item int
	text string
}

// findSorts finds the elements of ORDER BY. It finds none if there is a single group. unique
// reports that no two groups are equal in all elements.
func (g *grouped) findSorts() (unique bool, err error) {
	if len(g.keys) == 0 {
		return true, nil
	}
	var by []*parse.Expr
	for _, o := range g.query.OrderBy {
		if kind := parse.Bare(o.Expr).Kind; g.sel.Distinct && g.traits.ForgetsRows && kind != parse.Column && kind != parse.Literal {
			return false, refuse(lostRows, g.of(o.Expr.Span))
		}
		s := sortElement{Order: o}
		if s.expr, s.item, err = g.element(o.Expr, inOrderBy); err != nil {
			return false, err
		}
		s.text = strconv.Itoa(s.item + 1)
		if s.item < 0 {
			if err = g.checkSort(s.expr); err != nil {
				return false, err
			}
			if s.text, err = g.render(s.expr, inHaving); err != nil {
				return false, err
			}
		}
		g.sorts, by = append(g.sorts, s), append(by, s.expr)
	}
	return g.tellsApart(by), nil
}

// tellsApart reports whether all groups differ in a list of expressions: it has all keys.
func (g *grouped) tellsApart(list []*parse.Expr) bool {
	return !g.super && !slices.ContainsFunc(g.keys, func(k *key) bool {
		return !slices.ContainsFunc(list, func(e *parse.Expr) bool { return g.equal(e, k.expr) })
	})
}

// checkSort refuses an ORDER BY expression that contains an alias of the select list, such as ORDER
// BY n+1 for COUNT(*) AS n, if the server sorts wrongly by such expressions.
func (g *grouped) checkSort(e *parse.Expr) error {
	if !g.traits.MissortsAliases {
		return nil
	}
	return parse.Check(e, func(x *parse.Expr) (bool, error) {
		r, err := g.resolve(x, inHaving)
		if r != nil {
			err = refuse(sortsByAlias, g.of(e.Span))
		}
		return true, err
	})
}

// direction returns the suffix of an element of ORDER BY, such as DESC NULLS LAST.
func direction(o parse.Order) string {
	s := ""
	if o.Desc {
		s = " DESC"
	}
	if o.Nulls != "" {
		s += " NULLS " + o.Nulls
	}
	return s
}

// writePartial writes the query of a piece, and the query that merges partials into groups.
func (g *grouped) writePartial() error {
	m := &g.plan.Merge
	var partial, typed, groups []string
	for i, k := range g.keys {
		name := keyName + strconv.Itoa(i+1)
		partial = append(partial, k.text+" AS "+name)
		typed = append(typed, k.text+" AS "+name)
		groups = append(groups, name)
	}
	for i, v := range g.values {
		partial = append(partial, fmt.Sprintf("%s AS %s%d", v, valueName, i+1))
	}
	for _, p := range g.parts {
		if p.text != "" {
			partial = append(partial, p.text+" AS "+p.name)
		}
		typed = append(typed, p.whole+" AS "+p.name)
		groups = append(groups, p.merge+" AS "+p.name)
	}
	by := positions(len(g.keys) + len(g.values))
	for _, k := range g.keys {
		if k.bytes != "" {
			by = append(by, k.bytes)
		}
	}
	query := g.begin() + strings.Join(partial, ", ") + g.rows()
	if len(by) > 0 {
		query += " GROUP BY " + strings.Join(by, ", ")
	}
	if err := g.setPartial(query); err != nil {
		return err
	}
	g.plan.Keys = len(g.keys) + len(g.values)
	g.typeParts()
	if g.merges {
		m.Steps = []engine.MergeStep{}
		for _, p := range g.parts {
			if p.text != "" {
				m.Steps = append(m.Steps, p.step)
			}
		}
	}
	var texts []string
	for _, k := range g.keys {
		texts = append(texts, k.text)
	}
	if !g.super {
		texts = nil
	}
	m.Typed = g.unhole(g.begin() + strings.Join(typed, ", ") + g.rows() + g.groupBy(texts))
	keys := names(keyName, len(g.keys))
	m.Groups = "SELECT " + strings.Join(groups, ", ") + " FROM " + g.temporary(PartialTable) + g.groupBy(keys)
	if len(keys) > 0 && len(g.query.OrderBy) == 0 && !g.super { // Final reads groups in the order in which they are stored; subtotals come in the server's own order
		m.Groups += " ORDER BY " + strings.Join(keys, ", ")
	}
	return nil
}

// typeParts sets the class of the partial columns that hold integers, because a server without
// column types doesn't describe it.
func (g *grouped) typeParts() {
	i := g.plan.Keys
	for _, p := range g.parts {
		if p.text == "" {
			continue
		}
		if p.integers {
			g.plan.PartialColumns[i].Class = engine.ClassInt
		}
		i++
	}
}

// writeTies writes queries that return a row if SQL doesn't determine the answer: for example, if
// the rows on both sides of a LIMIT are equal in ORDER BY.
func (g *grouped) writeTies(items []string, having string, unique bool) {
	m := &g.plan.Merge
	exists := func(from, where string) {
		m.Ties = append(m.Ties, "SELECT 1 FROM "+from+" "+where+" LIMIT 1")
	}
	partials, groups := g.temporary(PartialTable), g.temporary(GroupTable)
	var several []string
	for i, k := range g.keys {
		if k.used && k.bytes != "" {
			name := keyName + strconv.Itoa(i+1)
			text := g.facts.Bytes(k.col, name)
			differs := "MIN(" + text + ") <> MAX(" + text + ")"
			if g.super { // subtotals group by fewer keys
				exists(partials, "GROUP BY "+name+" HAVING "+differs)
				continue
			}
			several = append(several, differs)
		}
	}
	if len(several) > 0 {
		exists(partials, "GROUP BY "+strings.Join(names(keyName, len(g.keys)), ", ")+" HAVING "+strings.Join(several, " OR "))
	}
	var ambiguous []string
	for i, c := range g.plan.PartialColumns[:g.plan.Keys] {
		name, uses := keyName+strconv.Itoa(i+1), []engine.KeyUse{g.keyUse()}
		switch {
		case i >= len(g.keys):
			name, uses[0] = valueName+strconv.Itoa(i-len(g.keys)+1), engine.KeyDistinct
		case g.super || len(g.values) > 0: // pieces group by more than the keys
			uses = append(uses, engine.KeyDistinct)
		}
		for _, use := range uses {
			if a := g.facts.Ambiguous(c, name, use); a != "" {
				ambiguous = append(ambiguous, a)
			}
		}
	}
	if g.ambiguous = len(ambiguous) > 0; g.ambiguous {
		exists(partials, "WHERE "+strings.Join(ambiguous, " OR "))
	}
	for _, s := range g.sorts {
		if s.item < 0 || s.item >= len(g.plan.Columns) || g.keyOf(s.expr) >= 0 {
			continue
		}
		if a := g.facts.Ambiguous(g.plan.Columns[s.item], sortName, engine.KeySorts); a != "" {
			g.ambiguous = true
			exists("(SELECT "+g.unnamed(items[s.item])+" AS "+sortName+" FROM "+groups+having+") rowmill_t", "WHERE "+a)
		}
	}
	var ties []string
	for _, a := range g.aggregates {
		if a.recipe.Tie != "" {
			ties = append(ties, "("+fill(a.recipe.Tie, g.partNames(a))+")")
		}
	}
	if len(ties) > 0 {
		exists(groups, "WHERE "+strings.Join(ties, " OR "))
	}
	if g.limit < 0 || unique {
		return
	}
	var texts, directions []string
	for _, s := range g.sorts {
		if s.item >= 0 {
			s.text = g.unnamed(items[s.item])
		}
		texts, directions = append(texts, s.text), append(directions, direction(s.Order))
	}
	m.Ties = append(m.Ties, g.limitTies(texts, directions, groups+having)...)
}

// unnamed returns an element of the select list without its alias.
func (g *grouped) unnamed(item string) string {
	if g.nested {
		return item[:strings.LastIndex(item, " AS ")]
	}
	return item
}

// limitTies returns queries for both ends of a LIMIT. Each returns a row if the last row before the
// end and the first one after it are equal by ORDER BY. texts are the expressions of ORDER BY,
// directions their directions.
func (b *block) limitTies(texts, directions []string, from string) (list []string) {
	columns, sorts := make([]string, len(texts)), make([]string, len(texts))
	for i := range texts {
		columns[i], sorts[i] = texts[i]+" AS "+sortName+strconv.Itoa(i+1), strconv.Itoa(i+1)+directions[i]
	}
	ends := []int64{b.offset + b.limit}
	if b.offset > 0 {
		ends = append(ends, b.offset)
	}
	for _, end := range ends {
		list = append(list, "SELECT 1 FROM (SELECT "+strings.Join(columns, ", ")+" FROM "+from+" ORDER BY "+strings.Join(sorts, ", ")+b.limitText(2, end-1)+") rowmill_t GROUP BY "+
			strings.Join(names(sortName, len(sorts)), ", ")+" HAVING COUNT(*) > 1")
	}
	return list
}

// inMemory chooses the merge in memory, if rowmill can compute all of the answer as the server
// does.
func (g *grouped) inMemory() {
	m := &g.plan.Merge
	if !g.merges || g.super || g.nested || g.sel.Having != nil || g.ambiguous || len(m.Ties) > 0 && g.limit < 0 || g.sel.Distinct && len(g.sel.GroupBy) > 0 {
		return
	}
	if slices.ContainsFunc(g.keys, func(k *key) bool { return !Exact(k.col) }) {
		return
	}
	var outputs []Output
	var classes []engine.ResultClass
	for _, it := range g.sel.Items {
		if i := g.keyOf(it.Expr); i >= 0 {
			outputs, classes = append(outputs, Output{Key: i}), append(classes, g.keys[i].col.Class)
			continue
		}
		e := parse.Bare(it.Expr)
		if !g.isAggregate(e) {
			return
		}
		a := g.aggregateOf(e)
		if a.recipe.Steps == nil || a.recipe.Tie != "" {
			return
		}
		o := Output{Key: -1, Final: a.recipe.Final, Zero: a.recipe.Zero}
		class := a.result.Class
		if a.recipe.Integers {
			class = engine.ClassInt
			o.Class = class
		}
		for _, i := range a.parts {
			o.Parts = append(o.Parts, len(g.keys)+i)
		}
		outputs, classes = append(outputs, o), append(classes, class)
	}
	var sorts []SortKey
	for _, s := range g.sorts {
		if s.item < 0 || !slices.Contains([]engine.ResultClass{engine.ClassInt, engine.ClassDecimal, engine.ClassBytes, engine.ClassTime}, classes[s.item]) {
			return
		}
		k := SortKey{Output: s.item, Desc: s.Desc, NullsLast: g.traits.NullsLast != s.Desc}
		if s.Nulls != "" {
			k.NullsLast = s.Nulls == "LAST"
		}
		sorts = append(sorts, k)
	}
	m.Kind, m.Outputs, m.OrderBy, m.NullsLast, m.Limit, m.Offset = InMemory, outputs, sorts, g.traits.NullsLast, g.limit, g.offset
}
