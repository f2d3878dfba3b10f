package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/sqltext"
	"github.com/rowmill/rowmill/internal/value"
)

// A splitter makes the plan of one statement.
type splitter struct {
	ctx     context.Context
	facts   Facts
	options Options
	syntax  sqltext.Syntax
	traits  engine.Semantics
	text    string
	query   *parse.Query
	plan    *Plan
	uses    []*use
	ctes    []*cte
	limited []*parse.Query // queries within the statement that have a LIMIT
	tables  map[string]*engine.TableParts
	// clocks are the calls of functions that return the current time.
	clocks []sqltext.Span
	// functions are the names of the functions that the statement calls.
	functions []string
	// joined reports that a column's table may be uncertain: by USING, NATURAL, or unknown columns.
	joined bool
	// shared are the folded names of columns that several operands of one FROM have.
	shared []string
	// selects are all SELECTs of the statement, and spelled all names in it.
	selects []*parse.Select
	spelled []string
	// scanned reports that all functions and tables are known.
	scanned bool
	// obstacle is why a table can't be cut: the first reason that collect found.
	obstacle string
	slower   func(*Plan) string // nil for a branch
}

// Split makes the plan of a statement for a session with the given settings. If a split isn't
// certain to be exact, the plan passes the statement on whole, and Plan.Whole says why. As soon as
// the partitions to read are known, Split calls slower; if slower returns why a split would be
// slower, the statement is passed on whole, too. An error comes from the connection or the context.
func Split(ctx context.Context, f Facts, text string, st engine.State, o Options, slower func(*Plan) string) (*Plan, error) {
	p := &Plan{Statement: Statement{Text: text, State: st}, EstimatedRows: -1}
	p.Merge.Limit = -1
	x := &splitter{ctx: ctx, facts: f, options: o, syntax: f.Syntax(st), traits: f.Semantics(st), text: text, plan: p, tables: map[string]*engine.TableParts{}, slower: slower}
	err := x.split()
	p.Harmless = x.scanned
	var why refusal
	if errors.As(err, &why) {
		p.Whole = string(why)
		return p, nil
	}
	return p, err
}

func (x *splitter) split() (err error) {
	if why := x.facts.StateRefusal(x.plan.State); why != "" {
		return refuse(fromEngine, why)
	}
	if strings.ContainsRune(x.text, hole) {
		return refuse(zeroByte)
	}
	x.text = strings.TrimRight(x.text, "; \t\r\n")
	if err := x.parse(); err != nil {
		return err
	}
	original := x.text
	if len(x.clocks) > 0 {
		if err := x.stopClock(); err != nil {
			return err
		}
	}
	if len(x.uses) == 0 {
		x.scanned = len(x.functions) == 0
		return refuse(noTable)
	}
	switch why, err := x.facts.UserFunction(x.ctx, x.text, x.functions); {
	case err != nil:
		return x.failed("the catalog doesn't list functions", err)
	case why != "":
		return refuse(fromEngine, why)
	}
	for _, u := range x.uses {
		if u.cte == nil {
			x.plan.Tables = append(x.plan.Tables, [2]string{u.from.Database, u.from.Table})
		}
	}
	if len(x.query.Rest) > 0 {
		return x.splitUnion(original)
	}
	tables := 0
	for _, u := range x.uses {
		if u.cte == nil {
			tables++
			if u.table, err = x.describeTable(u.from); err != nil {
				return err
			}
		}
	}
	x.scanned = true
	if err := x.checkScopes(); err != nil {
		return err
	}
	if err := errors.Join(x.checkSubqueries(), x.checkClockColumns()); err != nil {
		return err
	}
	b, err := x.choose()
	if err != nil {
		return err
	}
	x.plan.Alone = tables == 1
	for _, q := range x.limited {
		if q != b.query {
			return refuse(limitBelow)
		}
	}
	if err := x.explain(b); err != nil {
		return err
	}
	if x.slower != nil {
		if why := x.slower(x.plan); why != "" {
			return refuse(fromEngine, why)
		}
	}
	if x.plan.Columns, err = x.describe(original); err != nil {
		return err
	}
	x.plan.Sample[0], x.plan.Sample[1], _ = strings.Cut(x.of(sqltext.Span{To: len(x.text)}, b.edit), string(hole))
	if err := b.split(); err != nil {
		return err
	}
	if x.plan.Merge.Kind == OnServer {
		x.carry()
	}
	return nil
}

// carry handles columns whose usual texts don't tell the exact values; in SQLite, they lack digits
// of floating-point numbers, and the value's type. It changes the query of the pieces, so that they
// return texts from which a temporary table gets the exact values.
func (x *splitter) carry() {
	p := x.plan
	var list []string
	carries := false
	for i, c := range p.PartialColumns {
		name := x.quote(c.Name)
		if text := x.facts.Carry(c, name); text != "" {
			p.PartialColumns[i].Carried, carries = true, true
			name = text + " AS " + name
		}
		list = append(list, name)
	}
	if carries {
		p.Partial[0] = "SELECT " + strings.Join(list, ", ") + " FROM (" + p.Partial[0]
		p.Partial[1] += ") AS rowmill_rows"
	}
}

// parse parses the statement, and collects its tables, CTEs and functions.
func (x *splitter) parse() (err error) {
	if x.query, err = parse.Parse(x.text, x.syntax); err != nil {
		return refuse(fromEngine, err)
	}
	x.uses, x.ctes, x.limited, x.clocks = nil, nil, nil, nil
	return x.scan(x.query, nil, false)
}

// stopClock replaces functions such as NOW() by the current time, because the sessions of the
// pieces would call them at different times.
func (x *splitter) stopClock() error {
	list := make([]string, len(x.clocks))
	for i, span := range x.clocks {
		list[i] = x.facts.ClockValue(x.of(span))
	}
	values, err := x.facts.Values(x.ctx, "SELECT "+strings.Join(list, ", "))
	if err == nil && len(values) != len(x.clocks) {
		err = fmt.Errorf("%d values of %d", len(values), len(x.clocks))
	}
	if err != nil {
		return x.failed("the server doesn't tell the time", err)
	}
	var edits []parse.Edit
	for i, span := range x.clocks {
		edits = append(edits, parse.Edit{Span: span, Text: "(" + values[i] + ")"})
	}
	x.text, x.plan.Clock = parse.Replace(x.text, edits), true
	return x.parse()
}

// failed refuses to split the statement after an error of the server, so that it is passed on
// whole. It returns an error of the connection, or of the context, unchanged.
func (x *splitter) failed(what string, err error) error {
	if Unanswered(x.ctx, err) {
		return err
	}
	return refuse(fromServer, what, err)
}

// temporary is the name of a temporary table in a statement.
func (x *splitter) temporary(table string) string { return x.traits.TempSchema + table }

// Unanswered reports an error that is not the server's answer: the server can't be reached, or the
// context has ended.
func Unanswered(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, engine.ErrConnectionLost) || errors.Is(err, engine.ErrUnreachable)
}

func (x *splitter) describe(query string) ([]engine.ResultColumn, error) {
	cols, err := x.facts.DescribeQuery(x.ctx, query)
	if err != nil {
		return nil, x.failed("the server doesn't describe it", err)
	}
	return cols, nil
}

// describeAs is describe for a query with n columns. For n = 0 it doesn't ask the server.
func (x *splitter) describeAs(n int, query string) ([]engine.ResultColumn, error) {
	if n == 0 {
		return nil, nil
	}
	cols, err := x.describe(query)
	if err == nil {
		err = wantColumns(cols, n)
	}
	return cols, err
}

// wantColumns refuses a query if the server doesn't see n columns in it.
func wantColumns(cols []engine.ResultColumn, n int) error {
	if len(cols) != n {
		return refuse(otherColumns, len(cols), n)
	}
	return nil
}

func (x *splitter) describeTable(f *parse.From) (*engine.TableParts, error) {
	name := f.Database + "\x00" + f.Table
	if t := x.tables[name]; t != nil {
		return t, nil
	}
	t, err := x.facts.TableParts(x.ctx, f.Database, f.Table)
	switch {
	case errors.Is(err, engine.ErrNoTable):
		return nil, refuse(view, f.Table)
	case err != nil:
		return nil, x.failed("the catalog doesn't describe "+f.Table, err)
	}
	if t.Fleeting != "" {
		return nil, refuse(fleetingColumn, t.Fleeting, t.Name)
	}
	x.tables[name] = t
	return t, nil
}

// explain asks the server how it would execute the query: which partitions it would read, and
// whether in parallel. It refuses the split if each piece would read another large table again.
func (x *splitter) explain(b *block) error {
	planned, err := x.facts.ExplainQuery(x.ctx, x.text)
	if err != nil {
		return x.failed("the server refuses it", err)
	}
	t := b.cut.table
	p := x.plan
	p.Table, p.Alias, p.Namesakes = t, b.alias, 0
	for _, u := range x.uses {
		if strings.EqualFold(called(u.from), b.alias) {
			p.Namesakes++
		}
	}
	if planned.Tables != nil && len(planned.Tables) == 0 {
		return refuse(notRead)
	}
	read, rows := planned.Of(t, b.alias, p.Namesakes)
	p.EstimatedRows = rows
	if len(t.Parts) > 0 {
		chosen := b.cut.from.Partitions
		p.Named = chosen
		for _, i := range read {
			name := t.Parts[i].Name
			if len(chosen) > 0 && !slices.ContainsFunc(chosen, func(c string) bool { return strings.EqualFold(c, name) }) {
				return refuse(partitionsUncertain)
			}
			p.Parts = append(p.Parts, name)
		}
		p.Pruned = len(t.Parts) - len(p.Parts)
	}
	p.Parallel, p.Joined = planned.Parallel, len(x.uses) > 1
	if x.options.Always {
		return nil
	}
	for _, pt := range planned.Tables {
		if !strings.EqualFold(pt.Alias, b.alias) && (len(x.uses) > 1 || !t.Has(pt.Parts)) && p.EstimatedRows > 0 && pt.Rows > p.EstimatedRows/4 {
			return refuse(readsAgain, pt.Alias, pt.Rows)
		}
	}
	return nil
}

// A use is an occurrence of a table or of a CTE.
type use struct {
	from  *parse.From
	cte   *cte // nil for a table
	table *engine.TableParts
}

// A cte is a CTE that is in scope, with the number of its occurrences.
type cte struct {
	*parse.CTE
	recursive bool
	uses      int
}

// scan collects the tables, CTEs and functions of a query, and refuses constructs that may give
// another answer in a piece. exists says that the query is the operand of EXISTS: a LIMIT in it
// doesn't change the answer.
func (x *splitter) scan(q *parse.Query, scope []*cte, exists bool) error {
	scope = slices.Clip(scope)
	for i := range q.With {
		c := &cte{CTE: &q.With[i], recursive: q.Recursive}
		x.ctes = append(x.ctes, c)
		inner := scope
		if q.Recursive {
			inner = append(scope, c)
		}
		if err := x.scan(c.Query, inner, false); err != nil {
			return err
		}
		scope = append(scope, c)
	}
	if q.Limit != nil && q != x.query && !exists {
		x.limited = append(x.limited, q)
	}
	if q.First != nil {
		if err := x.scan(q.First, scope, false); err != nil {
			return err
		}
	}
	if q.Body != nil {
		if err := x.scanSelect(q.Body, scope); err != nil {
			return err
		}
	}
	for _, b := range q.Rest {
		if err := x.scan(b.Query, scope, false); err != nil {
			return err
		}
	}
	for _, o := range q.OrderBy {
		if err := x.scanExpr(o.Expr, scope); err != nil {
			return err
		}
	}
	return errors.Join(x.scanExpr(q.Limit, scope), x.scanExpr(q.Offset, scope))
}

func (x *splitter) scanSelect(s *parse.Select, scope []*cte) error {
	for _, o := range s.Options {
		if o != "SQL_NO_CACHE" && o != straightJoin {
			return refuse(selectOption, o)
		}
	}
	for _, f := range s.From {
		if err := x.scanFrom(f, scope); err != nil {
			return err
		}
	}
	x.selects = append(x.selects, s)
	list := slices.Concat(s.GroupBy, []*parse.Expr{s.Where, s.Having})
	for _, it := range s.Items {
		list = append(list, it.Expr)
		x.spell(it.Alias)
	}
	for _, w := range s.Windows {
		list = append(list, w.Over.PartitionBy...)
		for _, o := range w.Over.OrderBy {
			list = append(list, o.Expr)
		}
	}
	for _, e := range list {
		if err := x.scanExpr(e, scope); err != nil {
			return err
		}
	}
	return nil
}

func (x *splitter) scanFrom(f *parse.From, scope []*cte) error {
	switch {
	case f.Left != nil:
		x.joined = x.joined || f.Natural || len(f.Using) > 0
		if err := x.scanFrom(f.Left, scope); err != nil {
			return err
		}
		if err := x.scanFrom(f.Right, scope); err != nil {
			return err
		}
		return x.scanExpr(f.On, scope)
	case f.Query != nil:
		return x.scan(f.Query, scope, false)
	}
	u := &use{from: f}
	x.uses = append(x.uses, u)
	if f.Database != "" {
		return nil
	}
	for _, c := range slices.Backward(scope) {
		if strings.EqualFold(c.Name, f.Table) {
			if c.Name != f.Table {
				return refuse(caseOfCTE, f.Table)
			}
			u.cte = c
			c.uses++
			break
		}
	}
	return nil
}

// scanExpr refuses functions that may return another value in a piece.
func (x *splitter) scanExpr(e *parse.Expr, scope []*cte) (err error) {
	parse.Walk(e, func(e *parse.Expr) bool {
		if err != nil {
			return false
		}
		switch e.Kind {
		case parse.Param:
			err = refuse(parameter)
		case parse.Column:
			x.spell(e.Names...)
			switch {
			case len(e.Names) > 2:
				err = refuse(databaseOfColumn, strings.Join(e.Names, "."))
			case x.traits.SystemColumns[e.Names[len(e.Names)-1]]:
				err = refuse(systemColumn, e.Names[len(e.Names)-1])
			case x.traits.TableRows && len(e.Names) > 1:
				x.functions = append(x.functions, e.Names[len(e.Names)-1]) // t.f may be f(t)
			}
		case parse.Literal, parse.Cast:
			err = x.checkClock(e)
		case parse.Between, parse.Unary:
			if x.traits.MissesDates && (e.Not || e.Name == "NOT" || e.Name == "!") && parse.Any(e, betweenTexts) {
				err = refuse(datesOutside, x.of(e.Span))
			}
		case parse.Call:
			err = x.checkClock(e)
			switch {
			case err != nil:
			case e.Limited:
				err = refuse(limitBelow)
			case x.traits.TableRows && x.hasRow(e):
				err = refuse(rowType, x.of(e.Span))
			case grouping[e.Name]:
			case e.Qualified || x.facts.Function(e.Name, len(e.Args)) == engine.UnknownFunction:
				err = refuse(unknownFunction, strings.ToUpper(e.Name))
			case x.facts.Function(e.Name, len(e.Args)) == engine.ClockFunction:
				x.clocks = append(x.clocks, e.Span)
				return false
			case !slices.Contains(x.functions, e.Name):
				x.functions = append(x.functions, e.Name)
			}
		}
		if err == nil && e.Query != nil {
			err = x.scan(e.Query, scope, e.Kind == parse.Exists)
		}
		return err == nil
	})
	return err
}

// betweenTexts reports BETWEEN with a text as a bound.
func betweenTexts(e *parse.Expr) bool {
	return e.Kind == parse.Between && slices.ContainsFunc(e.Args[1:], func(a *parse.Expr) bool {
		return a.Kind == parse.Literal && strings.ContainsAny(a.Name, `'"`)
	})
}

// hasRow reports an expression with the name of a table, which stands for the table's row.
func (x *splitter) hasRow(e *parse.Expr) bool {
	return parse.Any(e, func(e *parse.Expr) bool {
		return e.Kind == parse.Column && len(e.Names) == 1 && slices.ContainsFunc(x.uses, func(u *use) bool { return x.sameName(called(u.from), e.Names[0]) })
	})
}

// checkClock refuses texts such as 'now' that a server may take for the current time.
func (x *splitter) checkClock(e *parse.Expr) error {
	if !x.traits.ClockTexts {
		return nil
	}
	var args []*parse.Expr
	switch e.Kind {
	case parse.Literal:
		text := e.Name
		if i := strings.IndexAny(text, "'$"); i >= 0 { // E or the name of a type may come before
			text = text[i:]
		}
		if clockTexts[strings.ToLower(strings.Trim(text, "'$ \t\r\n"))] {
			return refuse(clockText, e.Name)
		}
	case parse.Cast:
		if timeNames[firstWord(e.Type)] {
			args = e.Args
		}
	case parse.Call:
		if timeNames[e.Name] {
			args = e.Args
		}
	}
	for _, a := range args {
		if bare := parse.Bare(a); bare.Kind != parse.Literal && constant(bare) {
			return refuse(clockText, x.of(e.Span))
		}
	}
	return nil
}

// checkClockColumns refuses a text column that is cast to a time: it may have a text such as 'now'.
func (x *splitter) checkClockColumns() (err error) {
	if !x.traits.ClockTexts {
		return nil
	}
	x.query.Walk(nil, func(e *parse.Expr) bool {
		if err == nil && e.Kind == parse.Cast && timeNames[firstWord(e.Type)] && parse.Any(e.Args[0], func(a *parse.Expr) bool {
			return a.Kind == parse.Column && x.hasColumnOf(value.Text, a)
		}) {
			err = refuse(clockColumn, x.of(e.Span))
		}
		return err == nil
	})
	return err
}

// firstWord is the first word of the text of a type, in lower case.
func firstWord(text string) string {
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(text)), " ")
	return word
}

// clockTexts are texts that a server may read as the current time, including subsec and subsecond,
// which are modifiers in SQLite. timeNames are types and functions that convert texts to times.
var (
	clockTexts = engine.WordSet("now today tomorrow yesterday subsec subsecond")
	timeNames  = engine.WordSet("date time timetz timestamp timestamptz datetime julianday unixepoch strftime timediff")
)

// grouping are constructs in GROUP BY that the parser returns as calls of these names.
var grouping = map[string]bool{"rollup": true, "cube": true, "grouping sets": true}

// of returns the text of a span, changed by the edits that lie within it.
func (x *splitter) of(s sqltext.Span, edits ...parse.Edit) string {
	edits = slices.DeleteFunc(slices.Clone(edits), func(e parse.Edit) bool { return e.From < s.From || e.To > s.To })
	return parse.Replace(x.text[:s.To], edits)[s.From:]
}
