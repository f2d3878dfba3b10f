package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// branchTable is the name of the temporary table with a branch's answer, before its number.
const branchTable = "rowmill_branch"

// A Branch is one SELECT of a set operation, with a plan of its own.
type Branch struct {
	*Plan
	// Table is the temporary table that stores the branch's answer; "" if it isn't stored. Make is a
	// query whose result has the names and types of the table's columns. Stored has the indexes of
	// those columns of the answer that are in the table.
	Table, Make string
	Stored      []int
}

// A branch is one SELECT of a set operation, in the text of the statement.
type branch struct {
	query *parse.Query
	span  sqltext.Span
	plan  *Plan
	// rows reports a branch without groups and LIMIT, constant a branch that reads no table.
	rows, constant bool
}

// branches returns the branches of a set operation.
func branches(q *parse.Query) (list []*branch) {
	if q.First != nil {
		list = append(list, &branch{query: q.First, span: q.First.Span})
	} else {
		list = append(list, &branch{query: &parse.Query{Span: q.Body.Span, Body: q.Body}, span: q.Body.Span})
	}
	for _, b := range q.Rest {
		list = append(list, &branch{query: b.Query, span: b.Query.Span})
	}
	return list
}

// splitUnion makes the plan of a set operation. Each branch is split, or run whole if the method
// certain permits it. The answers of a UNION ALL that changes no types are passed on one branch
// after the other. For other operations, the server computes the answer from temporary tables.
func (x *splitter) splitUnion(original string) (err error) {
	p, q := x.plan, x.query
	o := &block{splitter: x, query: q, limit: -1}
	if err := o.limits(); err != nil {
		return err
	}
	if o.limit >= 0 && len(q.OrderBy) == 0 {
		return refuse(unorderedLimit)
	}
	if p.Columns, err = x.describe(original); err != nil {
		return err
	}
	with := sqltext.Span{From: q.From, To: q.From}
	if n := len(q.With); n > 0 {
		with.To = q.With[n-1].To
	}
	list := branches(q)
	all := true
	for _, b := range q.Rest {
		all = all && b.All && b.Op == "UNION"
	}
	for i, b := range list {
		switch {
		case b.query.First != nil || len(b.query.Rest) > 0:
			return refuse(setForm, "another one within it")
		case len(q.With) > 0 && len(b.query.With) > 0:
			return refuse(setForm, "CTEs of a branch beside its own")
		}
		if err := x.planBranch(b, with); err != nil {
			return err
		}
		if why := b.plan.Whole; why != "" && b.plan.Certain == "" {
			return refuse(fromEngine, b.plan.Uncertain(i))
		}
		if err := wantColumns(b.plan.Columns, len(p.Columns)); err != nil {
			return err
		}
		for k, it := range b.query.Body.Items {
			// What a function returns may have fewer digits than its type.
			if x.traits.HiddenDigits && it.Expr != nil && mayBeDecimal(b, k) && x.computedValue(it.Expr) {
				return refuse(rowDigits, x.of(it.Span))
			}
		}
		p.Branches = append(p.Branches, Branch{Plan: b.plan})
	}
	if all && len(q.OrderBy) == 0 && x.passes(list) {
		p.Merge.Kind = Concatenate
		return nil
	}
	return x.storeBranches(o, list, all, with)
}

// mayBeDecimal reports whether an element of a branch's select list may be a decimal number. With
// one star in the list, the number of columns tells which column the element is. With several
// stars, it may be any column, and mayBeDecimal returns true.
func mayBeDecimal(b *branch, item int) bool {
	items, cols := b.query.Body.Items, b.plan.Columns
	if stars(items[:item]) > 0 {
		item += len(cols) - len(items)
	}
	return stars(items) > 1 || item >= len(cols) || cols[item].Class == engine.ClassDecimal
}

// planBranch makes the plan of a branch.
func (x *splitter) planBranch(b *branch, with sqltext.Span) error {
	text := x.of(with) + " " + x.of(b.span)
	p := &Plan{Statement: Statement{Text: text, State: x.plan.State, InUnion: true}, EstimatedRows: -1}
	p.Merge.Limit = -1
	y := &splitter{ctx: x.ctx, facts: x.facts, options: x.options, syntax: x.syntax, traits: x.traits, text: text, plan: p, tables: x.tables}
	b.plan = p
	var why refusal
	err := y.split()
	switch {
	case errors.As(err, &why):
		p.Whole = string(why)
	case err != nil:
		return err
	}
	if y.query == nil {
		return nil
	}
	b.constant = len(y.uses) == 0
	b.rows = !b.constant && y.query.Body != nil && !y.isGrouped(y.query) && y.query.Limit == nil
	if err := y.certain(); err == nil {
		p.Certain = y.text
	} else if !errors.As(err, &why) {
		return err
	} else {
		p.Why = string(why)
	}
	if p.Whole != "" && p.Certain != "" {
		if p.Columns, err = y.describe(y.text); err != nil {
			return err
		}
		planned, err := x.facts.ExplainQuery(x.ctx, y.text)
		if err != nil {
			return x.failed("the server refuses it", err)
		}
		p.EstimatedRows = planned.Rows
	}
	return nil
}

// Uncertain says why a branch can neither be split nor run whole.
func (p *Plan) Uncertain(branch int) string {
	why := fmt.Sprintf("branch %d of its set operation can't be split: %s", branch+1, p.Whole)
	if p.Why != "" && p.Why != p.Whole {
		why += "; and " + p.Why
	}
	return why
}

// certain refuses a branch for which the server may choose among rows, such as a SELECT with LIMIT:
// by itself, the branch may return other rows than within the set operation.
func (x *splitter) certain() error {
	switch {
	case !x.scanned:
		return refuse(setForm, "a branch of which it isn't known what it reads")
	case len(x.limited) > 0 || x.query.Limit != nil:
		return refuse(limitBelow)
	}
	b := &block{splitter: x, limit: -1}
	return b.checkOuter()
}

// passes reports whether all columns of the branches have the types of the answer's columns.
func (x *splitter) passes(list []*branch) bool {
	for _, b := range list {
		for i, c := range b.plan.Columns {
			want := x.plan.Columns[i]
			if c.Class == engine.ClassOther || c.Class != want.Class || c.Native != want.Native || c.Scale != want.Scale || c.Width != want.Width ||
				c.Binary != want.Binary || c.Hex != want.Hex || c.Unsigned != want.Unsigned ||
				want.Provisional || c.Provisional || x.facts.Ambiguous(c, "x", engine.KeySorts) == "TRUE" {
				return false
			}
		}
	}
	return true
}

// storeBranches writes the statements that compute the operation in temporary tables.
func (x *splitter) storeBranches(o *block, list []*branch, all bool, with sqltext.Span) error {
	p, q := x.plan, x.query
	if x.facts.Capabilities().PeriodTables {
		return refuse(unionCollations)
	}
	for _, e := range q.OrderBy {
		if parse.Any(e.Expr, func(e *parse.Expr) bool { return e.Query != nil }) {
			return refuse(setForm, "an order by a subquery")
		}
	}
	filtered := slices.ContainsFunc(list, func(b *branch) bool {
		s := b.query.Body
		return s.Where != nil || slices.ContainsFunc(s.From, func(f *parse.From) bool { return f.Table == "" })
	})
	for _, b := range list {
		for i, c := range b.plan.Columns {
			// The server may compute numbers of several types in another type than it describes.
			want := p.Columns[i]
			if (c.Class == engine.ClassFloat || want.Class == engine.ClassFloat) && want.Class != c.Class || c.Unsigned != want.Unsigned {
				return refuse(branchTypes, want.Name)
			}
			// A quotient has more digits than its type. A column of the answer with room would store them.
			if x.traits.HiddenDigits && c.Class == engine.ClassDecimal && c.Scale < want.Scale && b.quotients() {
				return refuse(branchQuotients, want.Name)
			}
			if x.traits.DescribesAnyBranch && filtered && (c.Scale != want.Scale || c.Width != want.Width) {
				return refuse(branchSizes, want.Name)
			}
		}
	}
	for i, c := range p.Columns {
		switch {
		case x.facts.Ambiguous(c, "x", engine.KeySorts) == "TRUE" || x.facts.Carry(c, "x") != "":
			return refuse(notStored, "the column "+c.Name)
		case !all && (x.facts.Bytes(c, "x") != "" || c.Class == engine.ClassOther):
			return refuse(equalValues, c.Name)
		case slices.ContainsFunc(p.Columns[:i], func(d engine.ResultColumn) bool { return strings.EqualFold(c.Name, d.Name) }):
			return refuse(sameColumns, c.Name)
		}
	}
	edits := []parse.Edit{{Span: with}}
	for i, b := range list {
		if b.constant {
			continue
		}
		if rows := b.plan.EstimatedRows; b.rows && !x.options.Always && (rows < 0 || rows >= SmallRows) {
			return refuse(branchRows, i+1)
		}
		text, err := x.storeBranch(b, &p.Branches[i], branchTable+strconv.Itoa(i+1), with)
		if err != nil {
			return err
		}
		edits = append(edits, parse.Edit{Span: b.span, Text: text})
	}
	p.Merge.Kind = OnServer
	p.Merge.Final = strings.TrimSpace(x.of(q.Span, edits...))
	rows := x.of(sqltext.Span{From: q.From, To: q.Tail.From}, edits...) // with the line break after a comment
	for _, c := range p.Columns {
		if a := x.facts.Ambiguous(c, x.quote(c.Name), engine.KeySorts); a != "" && len(q.OrderBy) > 0 {
			p.Merge.Ties = append(p.Merge.Ties, "SELECT 1 FROM ("+rows+") AS rowmill_u WHERE "+a+" LIMIT 1")
		}
	}
	if o.limit < 0 {
		return nil
	}
	var by, directions []string
	sorted := map[string]bool{} // columns of ORDER BY whose values are equal only if they are identical
	for _, e := range q.OrderBy {
		c, err := x.orderedColumn(e.Expr)
		if err != nil {
			return err
		}
		sorted[c.Name] = Exact(c)
		by, directions = append(by, x.quote(c.Name)), append(directions, direction(e))
	}
	if slices.ContainsFunc(p.Columns, func(c engine.ResultColumn) bool { return !sorted[c.Name] }) {
		p.Merge.Ties = append(p.Merge.Ties, o.limitTies(by, directions, "("+rows+") AS rowmill_u")...)
	}
	return nil
}

// quotients reports a division or an average in a branch.
func (b *branch) quotients() bool {
	return b.query.Any(func(e *parse.Expr) bool { return isDivision(e) || e.Kind == parse.Call && e.Name == "avg" })
}

// storeBranch describes the temporary table for a branch's answer. It returns the query that
// replaces the branch. Literals of the branch aren't stored: the query repeats them, so that they
// keep their types.
func (x *splitter) storeBranch(b *branch, at *Branch, table string, with sqltext.Span) (string, error) {
	items, cols := b.query.Body.Items, b.plan.Columns
	single := len(items) == len(cols) && stars(items) == 0
	// In a subtotal, a literal that is a key is NULL.
	literals := single && !b.query.Body.Rollup && !b.query.Body.Sets
	var stored, list []string
	var edits []parse.Edit
	seen := map[string]bool{}
	for _, it := range items {
		if x.traits.NamedCollations && parse.Any(it.Expr, func(e *parse.Expr) bool { return e.Kind == parse.Collate }) {
			return "", refuse(branchCollation, x.of(it.Span))
		}
	}
	for i, c := range cols {
		name, as := x.quote(c.Name), ""
		if single && items[i].Alias == "" && parse.Bare(items[i].Expr).Kind != parse.Column {
			// The text of an expression may be too long for a name, or two may have the same text.
			name = itemName + strconv.Itoa(i+1)
			edits = append(edits, parse.Edit{Span: sqltext.Span{From: items[i].To, To: items[i].To}, Text: " AS " + name})
			if c.Name != "" && len(c.Name) <= shortName && strings.TrimSpace(c.Name) == c.Name {
				as = " AS " + x.quote(c.Name)
			}
		} else if low := strings.ToLower(c.Name); seen[low] || low == "" {
			return "", refuse(sameColumns, c.Name)
		} else {
			seen[low] = true
		}
		if literals && parse.Bare(items[i].Expr).Kind == parse.Literal {
			list = append(list, x.of(items[i].Span))
			continue
		}
		stored, list = append(stored, name), append(list, name+as)
		at.Stored = append(at.Stored, i)
	}
	if len(stored) == 0 {
		return "", refuse(setForm, "a branch of constants alone")
	}
	at.Table = table
	at.Make = "SELECT " + strings.Join(stored, ", ") + " FROM (" + x.of(with) + " " + x.of(b.span, edits...) + ") AS rowmill_rows"
	return "SELECT " + strings.Join(list, ", ") + " FROM " + x.temporary(table), nil
}

// shortName is the length in bytes that every server permits for a name.
const shortName = 63

// orderedColumn is the column that an element of a set operation's ORDER BY names.
func (x *splitter) orderedColumn(e *parse.Expr) (engine.ResultColumn, error) {
	cols := x.plan.Columns
	e = parse.Bare(e)
	at := -1
	switch {
	case e.Kind == parse.Literal:
		if n, err := strconv.Atoi(e.Name); err == nil {
			at = n - 1
		}
	case e.Kind == parse.Column && len(e.Names) == 1:
		at = slices.IndexFunc(cols, func(c engine.ResultColumn) bool { return x.sameName(c.Name, e.Names[0]) })
	}
	if at < 0 || at >= len(cols) {
		return engine.ResultColumn{}, refuse(setForm, "a limit, and an order by an expression")
	}
	return cols[at], nil
}
