package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// hole stands in the query of a piece where the table's name and the piece's partitions belong.
const hole = '\x00'

// A block is the SELECT that is split, with the table in its FROM that is divided among pieces.
type block struct {
	*splitter
	query *parse.Query
	sel   *parse.Select
	cut   *use
	// alias is the name by which the query calls the table; edit puts the hole in the table's place.
	alias string
	edit  parse.Edit
	// direct reports that the table stands in the block's own FROM, not in a derived table or CTE.
	direct bool
	// merged reports that the block reads a derived table or CTE: its columns may be expressions.
	merged bool
	// nested reports that the block is only a part of the statement: the server computes the rest
	// from the block's rows.
	nested bool

	shown       []engine.ResultColumn // of the block's query; nil until its names are asked for
	fromColumns map[string]bool       // in lower case where case doesn't matter; nil until they are asked for
	offset      int64
	limit       int64 // -1 is none
	keys        []*key
	aggregates  []*aggregate
}

// choose finds the SELECT that is split: the statement's own, or the SELECT of a derived table or
// CTE.
func (x *splitter) choose() (*block, error) {
	b, err := x.block(x.query)
	if err == nil {
		return b, nil
	}
	if b := x.nestedBlock(); b != nil {
		return b, nil
	}
	return nil, err
}

// block returns the block of a query. Of the partitioned tables that can be divided among the
// pieces, it chooses the largest.
func (x *splitter) block(q *parse.Query) (*block, error) {
	if q.First != nil || len(q.Rest) > 0 {
		return nil, refuse(fromEngine, "it has a set operation, or clauses behind the parentheses around it")
	}
	var list []*use
	for _, f := range q.Body.From {
		x.collect(f, &list)
	}
	var best *use
	size := func(u *use) (rows int64) {
		for _, p := range u.table.Parts {
			rows += max(p.Rows, 0)
		}
		return rows
	}
	for _, u := range list {
		switch t := u.table; {
		case t.Refusal != "" || len(t.Parts) == 0:
		case best == nil || size(u) > size(best):
			best = u
		}
	}
	if best == nil && x.options.ByRange {
		for _, u := range list {
			if t := u.table; best == nil && t.Refusal == "" && len(t.Parts) == 0 && len(t.PrimaryKey) > 0 {
				best = u
			}
		}
	}
	if best == nil {
		return nil, x.uncut(list)
	}
	b := &block{splitter: x, query: q, sel: q.Body, cut: best, limit: -1}
	b.alias = called(best.from)
	written := best.from.Span
	if best.from.Alias == "" {
		written = best.from.Name
	}
	name := x.asWritten(x.of(written), b.alias)
	if name == "" {
		return nil, refuse(nameUncertain, best.from.Table)
	}
	b.edit = parse.Edit{Span: best.from.Span, Text: string(hole) + " AS " + name}
	for _, f := range q.Body.From {
		for _, leaf := range f.Tables() {
			b.direct = b.direct || leaf == best.from
			u := x.useOf(leaf)
			b.merged = b.merged || u == nil || u.cte != nil
		}
	}
	return b, b.limits()
}

// uncut says why no table can be cut.
func (x *splitter) uncut(list []*use) error {
	for _, u := range list {
		if u.table.Refusal != "" {
			return refuse(fromServer, u.table.Name, u.table.Refusal)
		}
	}
	for _, u := range x.uses {
		if u.cte == nil && len(u.table.Parts) > 0 {
			if x.obstacle == "" {
				return refuse(onlySubquery, u.table.Name)
			}
			return refuse(fromEngine, x.obstacle)
		}
	}
	return refuse(noPartitions)
}

// called is the name by which a query calls an operand of FROM.
func called(f *parse.From) string { return cmp.Or(f.Alias, f.Table) }

// collect appends the tables of f that may be cut: each row of the result needs at most one row of
// such a table. In t LEFT JOIN u, for example, u may not be cut: a row of t without a match in one
// partition of u may have a match in another.
func (x *splitter) collect(f *parse.From, list *[]*use) {
	obstacle := func(format string, args ...any) {
		if x.obstacle == "" {
			x.obstacle = fmt.Sprintf(format, args...)
		}
	}
	u, q := x.useOf(f), f.Query
	name := "the derived table " + called(f)
	if u != nil && u.cte != nil {
		q, name = u.cte.Query, "the CTE "+u.cte.Name
	}
	switch {
	case f.Left != nil:
		for i, side := range []*parse.From{f.Left, f.Right} {
			if f.Join == "FULL" || f.Join == []string{"RIGHT", "LEFT"}[i] {
				obstacle("%s is on the side of an outer join whose rows may be missing", called(side.Tables()[0]))
			} else {
				x.collect(side, list)
			}
		}
	case u != nil && u.cte != nil && u.cte.uses > 1:
		obstacle("%s is read several times", name)
	case u != nil && u.cte != nil && u.cte.recursive:
		obstacle("%s is recursive", name)
	case q != nil && (f.Lateral || !x.plain(q)):
		obstacle("%s has groups, a limit, window functions or a set operation", name)
	case q != nil:
		for _, inner := range q.Body.From {
			x.collect(inner, list)
		}
	case len(f.Columns) > 0:
		obstacle("%s is read with other names for its columns", called(f))
	case u != nil:
		*list = append(*list, u)
	}
}

func (x *splitter) useOf(f *parse.From) *use {
	for _, u := range x.uses {
		if u.from == f {
			return u
		}
	}
	return nil
}

// plain reports whether a query only joins, filters and computes row by row.
func (x *splitter) plain(q *parse.Query) bool {
	return q.First == nil && len(q.Rest) == 0 && len(q.With) == 0 && q.Limit == nil && q.Offset == nil && len(q.Body.From) > 0 &&
		!x.isGrouped(q) && !x.hasWindows(q)
}

// isGrouped reports whether a query has groups. An aggregate without GROUP BY makes one group.
func (x *splitter) isGrouped(q *parse.Query) bool {
	s := q.Body
	if s.Distinct || len(s.GroupBy) > 0 || s.Having != nil {
		return true
	}
	return slices.ContainsFunc(outputs(q), x.hasAggregate)
}

// hasAggregate reports an aggregate in an expression.
func (x *splitter) hasAggregate(e *parse.Expr) bool { return parse.Any(e, x.isAggregate) }

func (x *splitter) hasWindows(q *parse.Query) bool {
	return len(q.Body.Windows) > 0 || slices.ContainsFunc(outputs(q), func(e *parse.Expr) bool {
		return parse.Any(e, func(e *parse.Expr) bool { return e.Over != nil })
	})
}

// outputs returns the expressions of the select list and of ORDER BY.
func outputs(q *parse.Query) (list []*parse.Expr) {
	for _, it := range q.Body.Items {
		if it.Expr != nil {
			list = append(list, it.Expr)
		}
	}
	for _, o := range q.OrderBy {
		list = append(list, o.Expr)
	}
	return list
}

// isAggregate reports a call of an aggregate function without OVER.
func (x *splitter) isAggregate(e *parse.Expr) bool {
	return e.Kind == parse.Call && e.Over == nil && x.facts.Function(e.Name, len(e.Args)) == engine.AggregateFunction
}

// limits reads LIMIT and OFFSET.
func (b *block) limits() error {
	for _, l := range []struct {
		expr *parse.Expr
		into *int64
	}{{b.query.Limit, &b.limit}, {b.query.Offset, &b.offset}} {
		if l.expr == nil {
			continue
		}
		n, err := strconv.ParseInt(l.expr.Name, 10, 64)
		if l.expr.Kind != parse.Literal || err != nil || n < 0 || n > 1<<40 {
			return refuse(limitForm)
		}
		*l.into = n
	}
	if b.limit == 0 || b.limit < 0 && b.query.Offset != nil {
		return refuse(limitForm)
	}
	return nil
}

// split completes the plan.
func (b *block) split() error {
	// In a piece that reads a range of the key, NATURAL would join by invisible columns, too.
	if len(b.cut.table.Parts) == 0 && slices.ContainsFunc(b.sel.Joins(), func(j *parse.From) bool { return j.Natural }) {
		return refuse(naturalByRange)
	}
	if b.nested {
		if err := b.checkOuter(); err != nil {
			return err
		}
	}
	if b.isGrouped(b.query) {
		return b.splitGroups()
	}
	return b.splitRows()
}

// checkAliases refuses an alias of the select list in WHERE or ON, which some servers permit. The
// query of a piece has no such alias: if the alias is written in double quotes, these servers would
// read it as a text in that query.
func (b *block) checkAliases() (err error) {
	if !b.traits.AliasesInWhere {
		return nil
	}
	visit := func(e *parse.Expr) bool {
		if err == nil && e.Kind == parse.Column && len(e.Names) == 1 {
			err = b.onlyColumn(e)
		}
		return err == nil
	}
	list := []*parse.Expr{b.sel.Where}
	for _, j := range b.sel.Joins() {
		list = append(list, j.On)
	}
	for _, e := range list {
		parse.Walk(e, func(e *parse.Expr) bool {
			e.Query.Walk(nil, visit)
			return visit(e)
		})
	}
	return err
}

// begin is the text before the block's select list: WITH and its queries, and SELECT.
func (b *block) begin() string {
	text := b.of(sqltext.Span{From: b.query.From, To: b.sel.Span.From}, b.edit) + "SELECT "
	if slices.Contains(b.sel.Options, straightJoin) {
		text += straightJoin + " "
	}
	return text
}

// straightJoin is the option of SELECT that joins the tables in the order of the text.
const straightJoin = "STRAIGHT_JOIN"

// rows is the text from FROM to the end of WHERE.
func (b *block) rows() string {
	s := " FROM " + b.of(b.sel.FromSpan, b.edit)
	if b.sel.Where != nil {
		s += " WHERE " + b.of(b.sel.Where.Span)
	}
	return s
}

// unhole returns a query in which the hole is the table itself.
func (b *block) unhole(query string) string {
	if b.cut == nil {
		return query
	}
	return strings.Replace(query, string(hole), b.of(b.cut.from.Name), 1)
}

// setPartial sets the query of a piece, and describes it.
func (b *block) setPartial(query string) (err error) {
	before, after, found := strings.Cut(query, string(hole))
	if !found || strings.ContainsRune(after, hole) {
		return refuse(placeUncertain, b.alias)
	}
	b.plan.Partial = [2]string{before, after}
	b.plan.PartialColumns, err = b.describe(b.unhole(query))
	return err
}

// asWritten returns a name as it is written at the end of a text, with its quotes; "" if the text
// doesn't certainly end with the name. For example, for the text "db.t AS `x`" and the name x it
// returns "`x`".
func (x *splitter) asWritten(text, name string) string {
	quote := text[len(text)-1:]
	if quote == "]" {
		quote = "["
	}
	if strings.Contains("`\"[", quote) {
		for i := len(text) - 2; i >= 0; i-- {
			if text[i:i+1] == quote && strings.ReplaceAll(text[i+1:len(text)-1], quote+quote, quote) == name {
				return text[i:]
			}
		}
		return ""
	}
	if n := len(text) - len(name); n >= 0 && strings.EqualFold(text[n:], name) {
		return text[n:]
	}
	return ""
}

func (x *splitter) quote(name string) string { return x.facts.Quote(name) }

// sameNames reports whether two names certainly stand for the same column. For example, t.a and a
// stand for the same column if no other table of the query has a column a.
func (x *splitter) sameNames(a, b []string) bool {
	if !x.sameName(a[len(a)-1], b[len(b)-1]) {
		return false
	}
	if len(a) != len(b) && (x.joined || x.isShared(a[len(a)-1])) {
		return false
	}
	return len(a) == 1 || len(b) == 1 || a[0] == b[0]
}

func (x *splitter) sameName(a, b string) bool {
	return SameColumn(x.traits, a, b)
}

// SameColumn compares names of columns as the server does.
func SameColumn(traits engine.Semantics, a, b string) bool {
	return a == b || traits.FoldsColumns && strings.EqualFold(a, b)
}

func (x *splitter) equal(a, b *parse.Expr) bool { return parse.Equal(a, b, x.sameNames) }

// isColumn reports whether the operand of FROM has a column of that name.
func (b *block) isColumn(name string) (bool, error) {
	fold := strings.ToLower
	if !b.traits.FoldsColumns {
		fold = strings.Clone // names without quotes are in lower case already
	}
	if b.traits.HiddenColumns[strings.ToLower(name)] {
		return false, refuse(hiddenColumn, name)
	}
	if b.fromColumns == nil {
		b.fromColumns = map[string]bool{}
		if from := b.sel.From; b.cut != nil && len(from) == 1 && from[0] == b.cut.from {
			for _, c := range b.cut.table.Columns {
				b.fromColumns[fold(c.Name)] = true
			}
		} else {
			cols, err := b.describe(b.unhole(b.begin() + "* FROM " + b.of(b.sel.FromSpan, b.edit)))
			if err != nil {
				return false, err
			}
			for _, c := range cols {
				b.fromColumns[fold(c.Name)] = true
			}
		}
	}
	return b.fromColumns[fold(name)], nil
}

// A nameUse is the clause in which a name stands. It decides whether the name may be an alias.
type nameUse int

const (
	inItems   nameUse = iota // and within aggregates: a column
	inGroupBy                // a column, else an alias
	inOrderBy                // as a whole element: an alias, else a column
	inHaving                 // and within elements of ORDER BY: an alias or a column
)

// resolve returns the element of the select list that has e as its alias; nil if e is no alias.
func (b *block) resolve(e *parse.Expr, in nameUse) (*parse.Expr, error) {
	if e.Kind != parse.Column || len(e.Names) != 1 || in == inItems {
		return nil, nil
	}
	var found []*parse.Expr
	for _, it := range b.sel.Items {
		if it.Alias != "" && b.sameName(it.Alias, e.Names[0]) && it.Expr != nil {
			found = append(found, it.Expr)
		}
	}
	if in == inOrderBy {
		if err := b.checkUnnamed(e); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 || !slices.ContainsFunc(found, func(f *parse.Expr) bool { return !b.equal(f, e) }) {
		return nil, nil
	}
	column := false
	if in != inOrderBy {
		var err error
		if column, err = b.isColumn(e.Names[0]); err != nil {
			return nil, err
		}
	}
	switch {
	case column && in == inGroupBy:
		return nil, nil
	case column, len(found) > 1:
		return nil, refuse(nameOfSeveral, e.Names[0])
	}
	return found[0], nil
}

// element returns the expression of an element of GROUP BY or ORDER BY, which may be a position or
// an alias. item is the expression's index in the select list, -1 if it isn't in the list.
func (b *block) element(e *parse.Expr, in nameUse) (_ *parse.Expr, item int, err error) {
	bare := parse.Bare(e)
	if bare.Kind == parse.Literal {
		n, err := strconv.Atoi(e.Name)
		if err != nil || n < 1 || n > len(b.sel.Items) || stars(b.sel.Items[:n]) > 0 {
			return nil, -1, refuse(constantKey, map[nameUse]string{inGroupBy: "GROUP BY", inOrderBy: "ORDER BY"}[in])
		}
		return b.sel.Items[n-1].Expr, n - 1, nil
	}
	r, err := b.resolve(bare, in)
	if err != nil {
		return nil, -1, err
	}
	if r != nil {
		bare = r
	}
	for i, it := range b.sel.Items {
		if it.Expr != nil && b.equal(it.Expr, bare) {
			return bare, i, nil
		}
	}
	return cmp.Or(r, e), -1, nil
}
