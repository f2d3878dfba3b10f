package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/sqltext"
	"github.com/rowmill/rowmill/internal/value"
)

// The beginnings of the column names in the temporary tables; a number follows, as in rowmill_k1.
// The columns are, in this order: keys of groups, values of DISTINCT aggregates, parts of
// aggregates, whole aggregates, columns to sort by, and elements of the select list.
const (
	keyName   = "rowmill_k"
	valueName = "rowmill_v"
	partName  = "rowmill_p"
	wholeName = "rowmill_a"
	sortName  = "rowmill_s"
	itemName  = "rowmill_c"
)

// A key is an expression that the block groups by.
type key struct {
	expr *parse.Expr
	text string
	col  engine.ResultColumn
	used bool // the answer shows the value, so that it matters which of equal values it is
	// bytes is an expression that tells equal values apart by their texts, such as 'a' and 'A'; "" if
	// equal values have equal texts.
	bytes string
}

// Exact reports a column whose values rowmill compares and orders as the server does.
func Exact(c engine.ResultColumn) bool {
	return c.Class == engine.ClassInt || c.Class == engine.ClassBytes || c.Class == engine.ClassTime || c.Class == engine.ClassDecimal && c.Scale >= 0
}

// An aggregate is a call of an aggregate function in the block.
type aggregate struct {
	call   *parse.Expr
	args   []string
	inputs []engine.ResultColumn
	result engine.ResultColumn
	recipe engine.Recipe
	// parts are indexes in grouped.parts. An aggregate with Recipe.Group or Recipe.Keyed has one.
	parts []int
}

// A part is a column of the group table, after the keys.
type part struct {
	name     string
	text     string // its SQL in the query of a piece; "" if pieces don't have the column
	whole    string // its SQL over the block's rows, which gives the column's type
	merge    string // its SQL over the rows of pieces, such as SUM(rowmill_p1)
	step     engine.MergeStep
	steps    bool // step is set
	integers bool // Recipe.Integers
}

// A grouped is the state of splitting a block with groups.
type grouped struct {
	*block
	super  bool // the statement has subtotals
	parts  []part
	values []string // arguments of DISTINCT aggregates, by which pieces group, too
	merges bool     // every part has a step
	sorts  []sortElement
	window bool // the element that is being rendered has a window function
	// ambiguous reports that a query of Merge.Ties looks for values that are Rules.Ambiguous.
	ambiguous bool
}

func (b *block) splitGroups() error {
	g := &grouped{block: b, merges: true}
	g.super = b.sel.Rollup || b.sel.Sets
	for _, step := range []func() error{g.checkAliases, g.findKeys, g.findAggregates, g.checkRollup, g.checkTwice, g.describeGroups, g.checkTypes} {
		if err := step(); err != nil {
			return err
		}
	}
	if g.disjoint() {
		b.plan.Disjoint = true
		return b.splitRows()
	}
	if err := g.makeParts(); err != nil {
		return err
	}
	return g.write()
}

// checkTypes refuses groups over a join if the type of a column depends on which table the server
// sorts. The server may sort a table for DISTINCT aggregates, and for keys of a table other than
// the one whose partitions the pieces divide.
func (g *grouped) checkTypes() error {
	if !g.plan.Joined {
		return nil
	}
	ofOther := func(k *key) bool {
		return parse.Any(k.expr, func(e *parse.Expr) bool { return e.Kind == parse.Column && !g.hasColumn(g.cut.from, e.Names) })
	}
	if !slices.ContainsFunc(g.keys, ofOther) && !slices.ContainsFunc(g.aggregates, func(a *aggregate) bool { return a.call.Distinct }) {
		return nil
	}
	for _, c := range g.plan.Columns {
		if c.Provisional {
			return refuse(typeUncertain, c.Name)
		}
	}
	for _, a := range g.aggregates { // MariaDB describes MIN and MAX of an INT expression as BIGINT, and returns INT if it sorts
		if len(a.inputs) == 1 && a.result.Class == engine.ClassInt && a.inputs[0].Class == engine.ClassInt && (a.call.Name == "min" || a.call.Name == "max") && a.inputs[0].Native != a.result.Native {
			return refuse(typeUncertain, g.of(a.call.Span))
		}
	}
	return nil
}

// checkRollup refuses WITH ROLLUP if the server may compute other subtotals than the merge does.
func (g *grouped) checkRollup() error {
	if !g.sel.Rollup {
		return nil
	}
	for _, c := range g.plan.Columns {
		if c.Provisional && g.plan.Joined {
			return refuse(typeUncertain, c.Name) // the type depends on which table is sorted
		}
	}
	equal := func(e *parse.Expr) bool { return e.Kind == parse.Binary && (e.Name == "=" || e.Name == "<=>") }
	if g.traits.KeepsKeys || g.traits.KeepsNames && parse.Any(g.sel.Where, equal) {
		if err := g.checkRollupNames(); err != nil {
			return err
		}
	}
	if !g.traits.KeepsKeys {
		return nil
	}
	if g.sel.Distinct {
		return refuse(rollupKept, "DISTINCT")
	}
	// The server rewrites some expressions, such as NOT x, before it compares them with the keys. If
	// it doesn't recognize a key, a subtotal has the value of the last row in place of NULL.
	for _, e := range append(outputs(g.query), g.sel.Having) {
		if err := parse.Check(e, func(e *parse.Expr) (bool, error) {
			if i := g.keyOf(e); i >= 0 && e != g.keys[i].expr && parse.Bare(e).Kind != parse.Column {
				return false, refuse(rollupKept, "repeats "+g.of(e.Span)+", which it groups by: an alias, or a position, would be certain")
			}
			return true, nil
		}); err != nil {
			return err
		}
	}
	for _, a := range g.aggregates {
		if a.call.Distinct {
			return refuse(rollupKept, g.of(a.call.Span))
		}
	}
	return nil
}

// checkRollupNames refuses WITH ROLLUP if a key is selected twice, or if another element of the
// select list has the key's name.
func (g *grouped) checkRollupNames() error {
	seen := map[int]bool{}
	for at, it := range g.sel.Items {
		i := g.keyOf(it.Expr)
		name, err := g.nameOf(at)
		if err != nil {
			return err
		}
		for other, k := range g.keys {
			if e := parse.Bare(k.expr); other != i && e.Kind == parse.Column && g.sameName(e.Names[len(e.Names)-1], name) {
				return refuse(rollupNames, k.text)
			}
		}
		if i >= 0 && seen[i] {
			return refuse(rollupNames, g.keys[i].text)
		}
		seen[i] = true
	}
	return nil
}

// checkTwice refuses a select list with the same column of a derived table twice, as in x AS a, x
// AS b: some servers give both columns of the result the same name.
func (g *grouped) checkTwice() error {
	if !g.merged || !g.traits.SwapsNames {
		return nil
	}
	for i, it := range g.sel.Items {
		if it.Expr != nil && parse.Bare(it.Expr).Kind == parse.Column && slices.ContainsFunc(g.sel.Items[:i], func(before parse.Item) bool {
			return before.Expr != nil && before.Alias != it.Alias && g.equal(parse.Bare(before.Expr), parse.Bare(it.Expr))
		}) {
			return refuse(swappedNames, g.of(it.Expr.Span))
		}
	}
	return nil
}

// hasAggregates reports whether the select list, HAVING or ORDER BY has an aggregate.
func (b *block) hasAggregates() bool {
	return slices.ContainsFunc(append(outputs(b.query), b.sel.Having), b.hasAggregate)
}

// findKeys finds the keys: the elements of GROUP BY, or of the select list for DISTINCT.
func (g *grouped) findKeys() error {
	s := g.sel
	if len(s.GroupBy) == 0 && s.Distinct && !g.hasAggregates() {
		for _, it := range s.Items {
			if it.Star {
				return refuse(noParts, "DISTINCT of a star")
			}
			if !constant(it.Expr) {
				if err := g.addKey(it.Expr); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, e := range s.GroupBy {
		if err := g.eachKey(e, func(e *parse.Expr) error {
			r, _, err := g.element(e, inGroupBy)
			if err == nil && s.Sets && constant(r) {
				err = refuse(constantInSets, g.of(r.Span))
			}
			if err == nil {
				err = g.addKey(r)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// constant reports an expression that has the same value for all rows.
func constant(e *parse.Expr) bool {
	return !parse.Any(e, func(e *parse.Expr) bool {
		return e.Kind == parse.Column || e.Query != nil || e.Over != nil || e.Kind == parse.Call && len(e.Args) == 0
	})
}

// eachKey calls fn for the expressions in an element of GROUP BY, such as ROLLUP (a, b).
func (g *grouped) eachKey(e *parse.Expr, fn func(*parse.Expr) error) error {
	if g.sel.Sets && (e.Kind == parse.Call && grouping[e.Name] || e.Kind == parse.Row) {
		for _, a := range e.Args {
			if err := g.eachKey(a, fn); err != nil {
				return err
			}
		}
		return nil
	}
	return fn(e)
}

func (g *grouped) addKey(e *parse.Expr) error {
	if g.keyOf(e) >= 0 {
		return nil
	}
	if err := parse.Check(e, func(e *parse.Expr) (bool, error) {
		if e.Query != nil || e.Kind == parse.Row || e.Over != nil || g.isAggregate(e) {
			return false, refuse(noParts, "a subquery, a row, an aggregate or a window function as a key")
		}
		if e.Kind == parse.Column && len(e.Names) == 1 {
			return true, g.onlyColumn(e)
		}
		return true, nil
	}); err != nil {
		return err
	}
	g.keys = append(g.keys, &key{expr: e, text: g.of(e.Span)})
	return nil
}

// onlyColumn refuses a name within an expression if it may be an alias.
func (b *block) onlyColumn(e *parse.Expr) error {
	for _, it := range b.sel.Items {
		if it.Alias == "" || !b.sameName(it.Alias, e.Names[0]) || b.equal(it.Expr, e) {
			continue
		}
		if column, err := b.isColumn(e.Names[0]); err != nil {
			return err
		} else if !column {
			return refuse(aliasWithin, e.Names[0])
		}
	}
	return nil
}

func (g *grouped) keyOf(e *parse.Expr) int {
	return slices.IndexFunc(g.keys, func(k *key) bool { return g.equal(k.expr, e) })
}

// findAggregates finds the aggregates in the select list, HAVING, ORDER BY and named windows.
func (g *grouped) findAggregates() error {
	list := append(outputs(g.query), g.sel.Having)
	for _, w := range g.sel.Windows {
		list = append(list, w.Over.Exprs()...)
	}
	items := 0
	for _, it := range g.sel.Items {
		if it.Expr != nil {
			items++
		}
	}
	for i, e := range list {
		if err := parse.Check(e, func(e *parse.Expr) (bool, error) {
			if g.keyOf(e) < 0 && g.isAggregate(e) {
				return false, g.addAggregate(e, i >= items)
			}
			return g.keyOf(e) < 0, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// addAggregate adds a call, unless the list already has the same call. later says that the call is
// in a clause after the select list, such as HAVING, and so may use the select list's aliases.
func (g *grouped) addAggregate(e *parse.Expr, later bool) error {
	if g.aggregateOf(e) != nil {
		return nil
	}
	for _, a := range append(slices.Clone(e.Args), e.Filter) {
		if err := parse.Check(a, func(a *parse.Expr) (bool, error) {
			if a.Query != nil {
				return false, refuse(noParts, "a subquery in an aggregate")
			}
			if later && a.Kind == parse.Column && len(a.Names) == 1 && slices.ContainsFunc(g.sel.Items, func(it parse.Item) bool {
				return it.Alias != "" && g.sameName(it.Alias, a.Names[0]) && !g.equal(it.Expr, a)
			}) {
				return false, refuse(nameOfSeveral, a.Names[0])
			}
			return true, nil
		}); err != nil {
			return err
		}
	}
	a := &aggregate{call: e}
	for _, arg := range e.Args {
		text := g.of(arg.Span)
		if e.Filter != nil {
			text = "CASE WHEN " + g.of(e.Filter.Span) + " THEN " + text + " END"
		}
		a.args = append(a.args, text)
	}
	if e.Star && e.Filter != nil {
		a.args = []string{"CASE WHEN " + g.of(e.Filter.Span) + " THEN 1 END"}
	}
	g.aggregates = append(g.aggregates, a)
	return nil
}

func (g *grouped) aggregateOf(e *parse.Expr) *aggregate {
	if i := slices.IndexFunc(g.aggregates, func(a *aggregate) bool { return g.equal(a.call, e) }); i >= 0 {
		return g.aggregates[i]
	}
	return nil
}

// describeGroups asks the server for the types of keys, aggregates and their arguments.
func (g *grouped) describeGroups() error {
	var list, inputs []string
	for i, k := range g.keys {
		list = append(list, fmt.Sprintf("%s AS %s%d", k.text, keyName, i+1))
	}
	for i, a := range g.aggregates {
		if g.isKeyed(a) {
			continue
		}
		list = append(list, fmt.Sprintf("%s AS %s%d", g.of(a.call.Span), wholeName, i+1))
		for _, arg := range a.args {
			inputs = append(inputs, fmt.Sprintf("%s AS %s%d", arg, valueName, len(inputs)+1))
		}
	}
	if len(list) == 0 {
		return refuse(noParts, "HAVING or DISTINCT without a key and an aggregate")
	}
	cols, err := g.describeAs(len(list), g.unhole(g.begin()+strings.Join(list, ", ")+g.rows()+g.groupBy(nil)))
	if err != nil {
		return err
	}
	for i, k := range g.keys {
		k.col, k.bytes = cols[i], g.facts.Bytes(cols[i], k.text)
	}
	n := len(g.keys)
	in, err := g.describeAs(len(inputs), g.unhole(g.begin()+strings.Join(inputs, ", ")+g.rows()))
	if err != nil {
		return err
	}
	for _, a := range g.aggregates {
		if g.isKeyed(a) {
			continue
		}
		a.result, n = cols[n], n+1
		a.inputs, in = in[:len(a.args)], in[len(a.args):]
		if g.keyUse() == engine.KeyWindows && g.facts.Ambiguous(a.result, "x", engine.KeyWindows) == "TRUE" {
			return refuse(windowOrder, g.of(a.call.Span))
		}
	}
	for _, k := range g.keys {
		if err := g.checkKey(k); err != nil {
			return err
		}
	}
	return nil
}

// checkKey refuses a key whose text doesn't tell which group a row belongs to.
func (g *grouped) checkKey(k *key) error {
	switch c := k.col; {
	case g.facts.Ambiguous(c, k.text, g.keyUse()) == "TRUE", c.Class == engine.ClassOther,
		c.Class == engine.ClassFloat && !c.AllDigits && g.facts.Carry(c, k.text) == "",
		g.traits.Affinity && parse.Bare(k.expr).Kind == parse.Column && c.Native == "": // the column may have no type
		return refuse(keyAmbiguous, k.text)
	case g.otherDigits(k.expr, c), g.traits.HiddenDigits && c.Class == engine.ClassDecimal && divided(k.expr):
		return refuse(keyDigits, k.text)
	}
	return nil
}

// keyUse is the purpose for which the merge compares keys, for Rules.Ambiguous.
func (g *grouped) keyUse() engine.KeyUse {
	if g.hasWindows(g.query) {
		return engine.KeyWindows
	}
	return engine.KeySorts
}

// isKeyed reports a call of GROUPING, which tells subtotals from groups.
func (g *grouped) isKeyed(a *aggregate) bool { return a.call.Name == "grouping" }

// groupBy returns the GROUP BY clause of a query whose first columns are the keys. If names is nil,
// the clause lists the keys' positions. Otherwise it lists the names; if the statement has
// subtotals, such as ROLLUP (a, b), the clause has the same ones.
func (g *grouped) groupBy(names []string) string {
	if len(g.keys) == 0 {
		return ""
	}
	if names == nil {
		names = positions(len(g.keys))
	} else if g.super {
		return g.subtotals(names)
	}
	return " GROUP BY " + strings.Join(names, ", ")
}

// subtotals is the statement's own GROUP BY, such as ROLLUP (a, b), with names in place of its
// keys.
func (g *grouped) subtotals(names []string) string {
	var edits []parse.Edit
	for _, e := range g.sel.GroupBy {
		_ = g.eachKey(e, func(e *parse.Expr) error {
			r, _, _ := g.element(e, inGroupBy) // known since findKeys
			edits = append(edits, parse.Edit{Span: e.Span, Text: names[g.keyOf(r)]})
			return nil
		})
	}
	text := " GROUP BY " + g.of(g.sel.GroupSpan, edits...)
	if g.sel.Rollup {
		text += " WITH ROLLUP"
	}
	return text
}

// positions returns "1", "2" and so on.
func positions(n int) []string { return names("", n) }

// names returns names with numbers, such as a1, a2.
func names(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, prefix+strconv.Itoa(i+1))
	}
	return list
}

// disjoint reports that all rows of a group are in one partition, because the partitioning columns
// are keys: then each piece computes whole groups. A statement without ORDER BY returns its groups
// in the order of the keys, and so the first key has to be the partitioning column.
func (g *grouped) disjoint() bool {
	t := g.cut.table
	if len(t.By) == 0 || len(t.Parts) == 0 || !g.direct || g.super || g.sel.Distinct || g.nested || g.hasWindows(g.query) {
		return false
	}
	for _, k := range g.keys {
		if k.bytes != "" || g.facts.Ambiguous(k.col, k.text, engine.KeySorts) != "" || g.traits.ZeroDates && k.col.Temporal.Dated() {
			return false
		}
	}
	if !g.groupsBy(t.By) || len(g.query.OrderBy) == 0 && (g.traits.UnorderedParts || !t.Period || !g.keyIs(g.keys[0], t.By[0])) {
		return false
	}
	for _, a := range g.aggregates {
		if r, ok := g.recipe(a); !ok || r.Order && !g.options.Inexact || r.Tie != "" || r.Cut && g.storesGroups() {
			return false
		}
	}
	return !g.hasOthers()
}

// groupsBy reports whether these columns of the table are keys.
func (g *grouped) groupsBy(columns []string) bool {
	return !slices.ContainsFunc(columns, func(c string) bool {
		return !slices.ContainsFunc(g.keys, func(k *key) bool { return g.keyIs(k, c) })
	})
}

// keyIs reports a key that is the table's column of this name.
func (g *grouped) keyIs(k *key, column string) bool {
	names := k.expr.Names
	return k.expr.Kind == parse.Column && g.sameName(names[len(names)-1], column) &&
		(len(names) == 2 && g.sameName(names[0], g.alias) || len(names) == 1 && len(g.uses) == 1)
}

// hasOthers reports whether the query has a column that is neither a key nor aggregated, or a
// subquery, which may contain such a column. Servers without LooseColumns permit the column if the
// keys include the primary key of its table; but a piece may read from a union of partitions, which
// has no primary key.
func (g *grouped) hasOthers() bool {
	if t := g.cut.table; g.traits.LooseColumns && len(g.uses) == 1 && len(t.PrimaryKey) > 0 && g.groupsBy(t.PrimaryKey) {
		return false // a group is one row
	}
	for _, e := range append(outputs(g.query), g.sel.Having) {
		if parse.Check(e, func(e *parse.Expr) (bool, error) {
			if g.keyOf(e) >= 0 || g.isAggregate(e) {
				return false, nil
			}
			r, err := g.resolve(e, inHaving)
			if err == nil && r == nil && (e.Kind == parse.Column || e.Query != nil) {
				err = refuse(looseColumn, g.of(e.Span))
			}
			return r == nil, err
		}) != nil {
			return true
		}
	}
	return false
}

// recipe returns how an aggregate is computed from parts.
func (g *grouped) recipe(a *aggregate) (engine.Recipe, bool) {
	e := a.call
	c := engine.AggregateCall{
		Name: e.Name, Distinct: e.Distinct, Star: e.Star && e.Filter == nil, Args: a.args, Inputs: a.inputs,
		Ordered: len(e.OrderBy) > 0, Separator: e.Separator, Result: a.result, Grouped: len(g.keys) > 0, Divided: g.merged && g.splitter.query.Any(isDivision), Computed: g.merged,
		Quotients: g.quotients(), QuotientDigits: g.traits.QuotientDigits,
	}
	if len(e.OrderBy) == 1 && len(e.Args) > 0 && g.equal(e.OrderBy[0].Expr, e.Args[0]) {
		c.SelfOrdered = true
		c.Order = strings.TrimSpace(g.of(sqltext.Span{From: e.OrderBy[0].Expr.To, To: e.OrderBy[0].To}))
	}
	for _, arg := range e.Args {
		c.Divided, c.Fractions, c.Computed = c.Divided || divided(arg), c.Fractions || g.fractional(arg), c.Computed || computed(arg)
	}
	if e.Filter != nil && (c.Ordered || c.Separator != "") {
		return engine.Recipe{}, false
	}
	return g.facts.Aggregate(c)
}

// fractional reports whether an expression has a number such as 1.5, or the name of a FLOAT or
// DOUBLE column of some table.
func (x *splitter) fractional(e *parse.Expr) bool {
	return parse.Any(e, func(e *parse.Expr) bool {
		switch e.Kind {
		case parse.Literal:
			return !strings.HasPrefix(e.Name, "'") && strings.ContainsAny(e.Name, ".eE") && strings.ContainsAny(e.Name, "0123456789")
		case parse.Column:
			return x.hasColumnOf(value.Float, e)
		}
		return false
	})
}

// hasColumnOf reports whether some table of the statement has a column of this kind with the name
// of e.
func (x *splitter) hasColumnOf(kind value.Kind, e *parse.Expr) bool {
	return slices.ContainsFunc(x.uses, func(u *use) bool {
		return u.table != nil && slices.ContainsFunc(u.table.Columns, func(c engine.SchemaColumn) bool {
			return c.Kind == kind && x.sameName(c.Name, e.Names[len(e.Names)-1])
		})
	})
}

func isDivision(e *parse.Expr) bool { return e.Kind == parse.Binary && e.Name == "/" }

// divided reports a division in an expression.
func divided(e *parse.Expr) bool { return parse.Any(e, isDivision) }

// quotients counts the divisions and the averages over a window in the statement.
func (x *splitter) quotients() (n int) {
	x.query.Walk(nil, func(e *parse.Expr) bool {
		if isDivision(e) || e.Kind == parse.Call && e.Name == "avg" && e.Over != nil {
			n++
		}
		return true
	})
	return n
}

// widestDecimal is the most digits of a decimal number on servers with HiddenDigits.
const widestDecimal = 65

// otherDigits reports whether an expression is a decimal number whose digits may change when it is
// stored: the result of a function may have fewer digits than its type, and a computed number may
// have more digits than the widest type. Callers look for divisions themselves.
func (b *block) otherDigits(e *parse.Expr, c engine.ResultColumn) bool {
	return b.traits.HiddenDigits && c.Class == engine.ClassDecimal && (b.merged || c.Scale < 0 || b.computedValue(e) || c.Precision >= widestDecimal && parse.Bare(e).Kind != parse.Column)
}

// computedValue is as computed, but accepts aggregates: they keep the digits of their arguments.
func (x *splitter) computedValue(e *parse.Expr) bool {
	return parse.Any(e, func(e *parse.Expr) bool { return !arithmetic(e) && !x.isAggregate(e) })
}

// arithmetic reports a column, a literal, or an operator.
func arithmetic(e *parse.Expr) bool {
	switch e.Kind {
	case parse.Literal, parse.Column, parse.Unary, parse.Binary, parse.Paren:
		return true
	}
	return false
}

// computed reports an expression with more than columns, literals and operators: a function, CASE.
func computed(e *parse.Expr) bool {
	return parse.Any(e, func(e *parse.Expr) bool { return !arithmetic(e) })
}

// makeParts makes the columns of the group table that follow the keys.
func (g *grouped) makeParts() error {
	for _, a := range g.aggregates {
		r, ok := g.recipe(a)
		switch {
		case !ok || r.Keyed && !g.super:
			return refuse(noParts, g.of(a.call.Span))
		case r.Order && !g.options.Inexact:
			return refuse(lastDigits, g.of(a.call.Span))
		}
		a.recipe = r
		switch {
		case r.Keyed:
			var keys, texts []string
			for _, arg := range a.call.Args {
				i := g.keyOf(arg)
				if i < 0 {
					return refuse(noParts, g.of(a.call.Span))
				}
				keys, texts = append(keys, keyName+strconv.Itoa(i+1)), append(texts, g.keys[i].text)
			}
			g.addPart(a, part{name: wholeName, whole: fill(r.Merge[0], texts), merge: fill(r.Merge[0], keys)})
		case len(r.Group) > 0:
			var values []string
			for _, v := range r.Group {
				i := slices.Index(g.values, v)
				if i < 0 {
					i = len(g.values)
					g.values = append(g.values, v)
				}
				values = append(values, valueName+strconv.Itoa(i+1))
			}
			g.merges = false
			for i, merge := range r.Merge {
				p := part{name: wholeName, whole: g.of(a.call.Span), merge: fill(merge, values)}
				if r.Typed != nil {
					p.whole = fill(r.Typed[i], a.args)
				}
				g.addPart(a, p)
			}
		default:
			for i, text := range r.Parts {
				p := part{name: partName, text: fill(text, a.args), integers: r.Integers}
				if p.whole = p.text; r.Typed != nil {
					p.whole = fill(r.Typed[i], a.args)
				}
				if g.merges = g.merges && r.Steps != nil; r.Steps != nil {
					p.step, p.steps = r.Steps[i], true
				}
				p.merge = r.Merge[i]
				g.addPart(a, p)
			}
		}
	}
	return nil
}

// addPart adds a column for an aggregate, unless another aggregate has the same column.
func (g *grouped) addPart(a *aggregate, p part) {
	for i, q := range g.parts {
		if p.text != "" && q.text == p.text && p.steps == q.steps && p.step == q.step && (q.merge == p.merge || q.merge == fill(p.merge, []string{q.name})) {
			a.parts = append(a.parts, i)
			return
		}
	}
	p.name += strconv.Itoa(len(g.parts) + 1)
	if p.text != "" {
		p.merge = fill(p.merge, []string{p.name})
	}
	a.parts = append(a.parts, len(g.parts))
	g.parts = append(g.parts, p)
}

// fill replaces $1, $2 and so on in a text by arguments. It adds parentheses around an argument,
// unless the argument is a name, or the text has parentheses directly around it: SUM($1) and $1 /
// $2 become SUM(a + b) and (a + b) / c.
func fill(text string, args []string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '$' && i+1 < len(text) && text[i+1] >= '1' && text[i+1] <= '9' {
			if n := int(text[i+1] - '1'); n < len(args) {
				alone := i > 0 && text[i-1] == '(' && i+2 < len(text) && text[i+2] == ')'
				if i++; alone || isName(args[n]) {
					b.WriteString(args[n])
				} else {
					b.WriteString("(" + args[n] + ")")
				}
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// isName reports a name without quotes, which needs no parentheses.
func isName(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}
