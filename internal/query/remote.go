package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// A head may have tables whose rows are on other servers, such as MariaDB with Spider. The head
// rewrites queries for these servers, not always with the same meaning (engine.RemoteReader). So
// rowmill replaces such a table by a derived table: the head fetches the table's rows, and
// evaluates the query itself. Only a piece whose expressions are all known to be rewritten
// correctly may be passed on by the head, together with its aggregation.

// fetch sets Piece.Text of the pieces for which the head has to fetch rows.
func (r *Runner) fetch(ctx context.Context, s *engine.Session, p *plan.Plan) error {
	remote, list, err := r.remotes(ctx, s)
	if err != nil || len(list) == 0 {
		return err
	}
	for i := range p.Pieces {
		piece := &p.Pieces[i]
		if piece.Table != nil { // of a node
			return nil
		}
		text := p.PieceText(r.nodes[0].Reader, i)
		if p.Table.Rewritten && r.passable(text, p) {
			pushed, err := remote.Pushed(ctx, s, text)
			if err != nil {
				return err
			}
			if pushed {
				continue
			}
		}
		guarded, names, err := r.guard(ctx, s, p.State, text, remote, list)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			piece.Text, p.Fetched = guarded, names
		}
	}
	return nil
}

// fetched returns why a set operation that reads a table of other servers isn't split; else "".
func (r *Runner) fetched(ctx context.Context, s *engine.Session, p *plan.Plan) (string, error) {
	remote, list, err := r.remotes(ctx, s)
	if err != nil || len(list) == 0 {
		return "", err
	}
	if _, names, err := r.guard(ctx, s, p.State, p.Text, remote, list); err != nil || len(names) == 0 {
		return "", err
	}
	return "it has a set operation, and a table of other servers", nil
}

// remotes returns the tables for which the head rewrites queries; most servers have none.
func (r *Runner) remotes(ctx context.Context, s *engine.Session) (engine.RemoteReader, []engine.RemoteTable, error) {
	remote, ok := r.nodes[0].Reader.(engine.RemoteReader)
	if !ok {
		return nil, nil, nil
	}
	list, err := remote.RemoteTables(ctx, s)
	if err != nil {
		return nil, nil, fmt.Errorf("list the tables of other servers: %w", err)
	}
	return remote, list, nil
}

const remoteHint = "the query in another form; a client of the server gives an answer, which may be wrong"

// harmless are the first words of statements that read no rows.
var harmless = []string{"SHOW", "DESCRIBE", "DESC", "EXPLAIN", "HELP"}

// guard returns the statement text with derived tables in place of the tables of list, and the
// names of the tables that it replaced. So the server can't write the query anew for the servers
// that have these tables' rows. guard returns an error if a table can't be replaced.
func (r *Runner) guard(ctx context.Context, s *engine.Session, st engine.State, text string, remote engine.RemoteReader, list []engine.RemoteTable) (string, []string, error) {
	refuse := func(name, format string, args ...any) (string, []string, error) {
		return "", nil, engine.Hinted(fmt.Errorf("%s has its rows on other servers, for which this one would write the query anew, not always with the same meaning; and it can't be kept from it: %s", name, fmt.Sprintf(format, args...)), remoteHint)
	}
	syntax := r.nodes[0].Syntax(st)
	q, err := parse.Parse(text, syntax)
	if err != nil {
		if first, _, _ := strings.Cut(engine.FirstWords(text), " "); slices.Contains(harmless, strings.ToUpper(first)) {
			return text, nil, nil
		}
		for _, t := range list {
			if named(text, t.Name) {
				return refuse(t.Name, "%s", err)
			}
		}
		return text, nil, nil
	}
	type place struct {
		from  *parse.From
		alone *parse.Select // the SELECT that reads no other table
	}
	var places []place
	var qualified *parse.Expr
	ctes, stars := map[string]bool{}, false
	each := func(s *parse.Select) {
		for _, it := range s.Items {
			stars = stars || it.Star
		}
		for _, f := range s.From {
			for _, t := range f.Tables() {
				if t.Query == nil {
					at := place{from: t}
					if len(s.From) == 1 && f.Left == nil {
						at.alone = s
					}
					places = append(places, at)
				}
			}
		}
		stars = stars || slices.ContainsFunc(s.Joins(), func(j *parse.From) bool { return j.Natural }) // which names no columns
	}
	q.Walk(func(q *parse.Query) bool {
		for _, c := range q.With {
			ctes[strings.ToLower(c.Name)] = true
		}
		if q.Body != nil {
			each(q.Body)
		}
		return true
	}, func(e *parse.Expr) bool {
		if e.Kind == parse.Column && len(e.Names) > 2 {
			qualified = e
		}
		return true
	})
	var edits []parse.Edit
	var names []string
	for _, at := range places {
		f := at.from
		i := slices.IndexFunc(list, func(t engine.RemoteTable) bool {
			return strings.EqualFold(t.Name, f.Table) && (f.Database == "" || strings.EqualFold(t.Database, f.Database))
		})
		if i < 0 {
			continue
		}
		if f.Database == "" && ctes[strings.ToLower(f.Table)] {
			return refuse(f.Table, "a part of WITH has its name")
		}
		t, err := r.nodes[0].TableParts(ctx, s, f.Database, f.Table)
		switch {
		case errors.Is(err, engine.ErrNoTable) && slices.ContainsFunc(list, func(t engine.RemoteTable) bool { return t.View && strings.EqualFold(t.Name, f.Table) }):
			return refuse("a table in the view "+f.Table, "the query reads it through the view")
		case errors.Is(err, engine.ErrNoTable):
			continue // of another database
		case err != nil:
			return "", nil, err
		case !t.Rewritten:
			continue
		case qualified != nil:
			return refuse(t.Name, "%s has the name of a database; an alias of the table would do", qualified.Of(text))
		}
		alias := cmp.Or(f.Alias, f.Table)
		where := ""
		if at.alone != nil {
			where = simpleConditions(r.nodes[0].Dialect(), at.alone.Where, t, alias, text)
		}
		columns := columnsIn(t, text, stars)
		if i := slices.IndexFunc(columns, func(name string) bool { return slices.Contains(t.Invisible, name) }); stars && i >= 0 {
			return refuse(t.Name, "it has a star or a NATURAL join, from which the server omits the invisible column %s, and names that column, too", columns[i])
		}
		rows := remote.RowsFrom(t, f.Partitions, columns, where)
		edits = append(edits, parse.Edit{Span: f.Span, Text: rows + " AS " + r.nodes[0].Dialect().Quote(alias)})
		if !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	return parse.Replace(text, edits), names, nil
}

// named reports that a text has a name, as a word.
func named(text, name string) bool {
	return regexp.MustCompile(`(?i)(?:^|[^\pL\pN_$])` + regexp.QuoteMeta(name) + `(?:$|[^\pL\pN_$])`).MatchString(text)
}

// fetchedText says that only rows of tables are read on other servers.
func fetchedText(names []string) string {
	return "the head reads the rows of " + strings.Join(names, ", ") + " from the nodes"
}

// namedAs returns a function that gives the columns of a guarded statement the names of the
// original statement's columns: the server makes a name from the text of an expression, which guard
// may change.
func (r *Runner) namedAs(ctx context.Context, s *engine.Session, text string, to func([]engine.ResultColumn) error) (func([]engine.ResultColumn) error, error) {
	want, err := r.nodes[0].DescribeQuery(ctx, s, text)
	if err != nil {
		return nil, err
	}
	return func(cols []engine.ResultColumn) error {
		if len(cols) != len(want) {
			return engine.Hinted(fmt.Errorf("the query with the rows of other servers in place has %d columns, and not %d", len(cols), len(want)), "the names of columns in the place of *")
		}
		cols = slices.Clone(cols)
		for i := range cols {
			cols[i].Name = want[i].Name
		}
		return to(cols)
	}, nil
}

// columnsIn returns a table's columns whose names may occur in a statement. If stars is true, it
// also returns all columns that aren't invisible. If this leaves no column, columnsIn returns the
// table's first one.
func columnsIn(t *engine.TableParts, text string, stars bool) (out []string) {
	for _, c := range t.Columns {
		odd := strings.ContainsFunc(c.Name, func(r rune) bool { return r > '~' || r == '`' || r == '"' })
		if odd || stars && !slices.Contains(t.Invisible, c.Name) || named(text, c.Name) {
			out = append(out, c.Name)
		}
	}
	if len(out) == 0 {
		out = append(out, t.Columns[0].Name)
	}
	return out
}

var (
	integerText = regexp.MustCompile(`^[0-9]{1,18}$`)
	timeText    = regexp.MustCompile(`^'[0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?'$`)
	numberText  = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+)?$`)
	simpleText  = regexp.MustCompile(`^'[ -&(-\[\]-~]*'$`)
	integerType = regexp.MustCompile(`(?i)^(?:tiny|small|medium|big)?int\b`)
	timeType    = regexp.MustCompile(`(?i)^(?:date|datetime)\b`)
	charType    = regexp.MustCompile(`(?i)^(?:char|varchar|enum)\b`)
	numberType  = regexp.MustCompile(`(?i)^(?:(?:tiny|small|medium|big)?int|decimal|year)\b`)
)

// simpleConditions returns those parts of a condition that compare a column of the table with
// integers, dates or times. It joins them by AND; "" if there are none. They reduce the rows that
// the head fetches; the query keeps the whole condition.
func simpleConditions(d engine.Dialect, where *parse.Expr, t *engine.TableParts, alias, text string) string {
	var list []string
	for _, e := range parse.Conjuncts(where) {
		if len(e.Args) < 2 || e.Not || e.Query != nil {
			continue
		}
		args := e.Args
		op, compares := e.Name, e.Kind == parse.Binary && parse.Flipped[e.Name] != ""
		if compares && parse.Bare(args[1]).Kind == parse.Column {
			args, op = []*parse.Expr{args[1], args[0]}, parse.Flipped[op]
		}
		c := columnOf(t, parse.Bare(args[0]), alias)
		if c == nil {
			continue
		}
		var values []string
		for _, a := range args[1:] {
			if v := fixed(c, parse.Bare(a), text); v != "" {
				values = append(values, v)
			}
		}
		switch name := d.Quote(c.Name); {
		case len(values) != len(args)-1:
		case compares:
			list = append(list, name+" "+op+" "+values[0])
		case e.Kind == parse.Between && len(values) == 2:
			list = append(list, name+" BETWEEN "+values[0]+" AND "+values[1])
		case e.Kind == parse.In:
			list = append(list, name+" IN ("+strings.Join(values, ", ")+")")
		}
	}
	return strings.Join(list, " AND ")
}

func columnOf(t *engine.TableParts, e *parse.Expr, alias string) *engine.SchemaColumn {
	if e.Kind != parse.Column || len(e.Names) > 2 || len(e.Names) == 2 && !strings.EqualFold(e.Names[0], alias) {
		return nil
	}
	name := e.Names[len(e.Names)-1]
	i := slices.IndexFunc(t.Columns, func(c engine.SchemaColumn) bool { return strings.EqualFold(c.Name, name) })
	if i < 0 {
		return nil
	}
	return &t.Columns[i]
}

// columnNamed is columnOf for the only table of a query.
func columnNamed(t *engine.TableParts, e *parse.Expr) *engine.SchemaColumn {
	if e.Kind != parse.Column {
		return nil
	}
	return columnOf(t, &parse.Expr{Kind: parse.Column, Names: e.Names[len(e.Names)-1:]}, "")
}

// comparedText reports whether e is a literal text, and the session's settings don't influence how
// the server compares it with the operand: by the collation of the operand's column, or as times.
func comparedText(t *engine.TableParts, operand, e *parse.Expr, text string) bool {
	if e.Kind != parse.Literal {
		return false
	}
	v, c := e.Of(text), columnNamed(t, operand)
	switch {
	case c == nil:
		return operand.Kind == parse.Call && operand.Name == "date" && isTime(v, "date")
	case timeType.MatchString(c.Native):
		return isTime(v, c.Native)
	}
	return charType.MatchString(c.Native) && simpleText.MatchString(v)
}

// isTime reports whether a literal is a valid date or time that a column of this type holds without
// loss: Spider converts the literal to the type.
func isTime(v, native string) bool {
	digits := 0 // of a fraction
	if at := strings.IndexByte(native, '('); at > 0 {
		digits, _ = strconv.Atoi(strings.TrimSuffix(native[at+1:], ")")) // 0 is safe: it permits no fraction
	}
	has := 0
	if _, fraction, ok := strings.Cut(v, "."); ok {
		has = len(fraction) - 1
	}
	if !timeText.MatchString(v) || has > digits || !strings.HasPrefix(strings.ToLower(native), "datetime") && len(v) > len("'2006-01-02'") {
		return false
	}
	_, err := time.Parse(time.DateTime, (v[1:len(v)-1] + " 00:00:00")[:len(time.DateTime)])
	return err == nil
}

// fixed returns the text of e if column c is of an integer type and e is an integer, or c is of a
// date or time type and e is the text of a value of that type. Otherwise fixed returns "".
func fixed(c *engine.SchemaColumn, e *parse.Expr, text string) string {
	sign := ""
	if e.Kind == parse.Unary && e.Name == "-" {
		sign, e = "-", parse.Bare(e.Args[0])
	}
	if e.Kind != parse.Literal {
		return ""
	}
	switch v := e.Of(text); {
	case integerType.MatchString(c.Native) && integerText.MatchString(v):
		return sign + v
	case timeType.MatchString(c.Native) && sign == "" && isTime(v, c.Native):
		return v
	}
	return ""
}

// passable reports whether a piece keeps its meaning if the head passes it on.
func (r *Runner) passable(text string, p *plan.Plan) bool {
	q, err := parse.Parse(text, r.nodes[0].Syntax(p.State))
	if err != nil || q.Body == nil || len(q.With)+len(q.Rest) > 0 {
		return false
	}
	s := q.Body
	if len(s.From) != 1 || s.From[0].Left != nil || s.From[0].Query != nil || s.Rollup || s.Sets || s.Having != nil || len(s.Windows) > 0 || len(s.Options) > 0 || q.Offset != nil {
		return false
	}
	list := append([]*parse.Expr{s.Where, q.Limit}, s.GroupBy...)
	for _, it := range s.Items {
		if it.Star {
			return false
		}
		list = append(list, it.Expr)
	}
	for _, o := range q.OrderBy {
		list = append(list, o.Expr)
	}
	return !slices.ContainsFunc(list, func(e *parse.Expr) bool { return e != nil && !passableExpr(p.Table, e, text) }) && varies(q, text)
}

// varies reports whether a query avoids two faults of Spider. If a result column is a constant,
// Spider returns the values of another column. If the condition fixes all columns of GROUP BY, the
// head drops the clause, and Spider returns a row for a group without rows.
func varies(q *parse.Query, text string) bool {
	s := q.Body
	expr := func(e *parse.Expr) *parse.Expr {
		if n, err := strconv.Atoi(e.Of(text)); err == nil && n >= 1 && n <= len(s.Items) { // its position
			return s.Items[n-1].Expr
		}
		return e
	}
	var list []*parse.Expr
	for _, it := range s.Items {
		list = append(list, it.Expr)
	}
	for _, e := range s.GroupBy {
		list = append(list, expr(e))
	}
	for _, o := range q.OrderBy {
		list = append(list, expr(o.Expr))
	}
	for _, e := range list {
		aggregate := e.Kind == parse.Call && slices.Contains([]string{"count", "sum", "min", "max"}, e.Name)
		if !aggregate && len(columnNames(e)) == 0 {
			return false
		}
	}
	fixed := map[string]bool{}
	parse.Walk(s.Where, func(e *parse.Expr) bool {
		binary := e.Kind == parse.Binary && slices.Contains([]string{"=", "<>", "!="}, e.Name)
		if binary || e.Kind == parse.Between || e.Kind == parse.IsTest || e.Kind == parse.In && len(e.Args) == 2 {
			for _, name := range columnNames(e) {
				fixed[name] = true
			}
		}
		return true
	})
	return len(s.GroupBy) == 0 || slices.ContainsFunc(s.GroupBy, func(e *parse.Expr) bool {
		return slices.ContainsFunc(columnNames(expr(e)), func(name string) bool { return !fixed[name] })
	})
}

// wholeNumbers reports an expression of integers only.
func wholeNumbers(t *engine.TableParts, e *parse.Expr, text string) bool {
	return !parse.Any(e, func(e *parse.Expr) bool {
		c := columnNamed(t, e)
		return e.Kind == parse.Call || e.Kind == parse.Literal && !integerText.MatchString(e.Of(text)) || c != nil && !integerType.MatchString(c.Native)
	})
}

// columnNames returns the names, in lower case, of the columns of an expression.
func columnNames(e *parse.Expr) (names []string) {
	parse.Walk(e, func(e *parse.Expr) bool {
		if e.Kind == parse.Column {
			names = append(names, strings.ToLower(e.Names[len(e.Names)-1]))
		}
		return true
	})
	return names
}

// passedOn are functions that the head sends to the nodes unchanged, and that depend on no setting
// of the session. An expression with a TIME column is never sent: converted to a date, a TIME gives
// the present date, which depends on the time zone.
var passedOn = engine.WordSet("count sum min max date year month day hour")

func passableExpr(t *engine.TableParts, e *parse.Expr, text string) bool {
	all := func(list []*parse.Expr) bool {
		return !slices.ContainsFunc(list, func(e *parse.Expr) bool { return !passableExpr(t, e, text) })
	}
	of := func(class valueClass, list []*parse.Expr) bool {
		return all(list) && !slices.ContainsFunc(list, func(e *parse.Expr) bool { return classOf(t, e) != class })
	}
	compared := func(list []*parse.Expr) bool {
		first := parse.Bare(list[0])
		return passableExpr(t, first, text) && !slices.ContainsFunc(list[1:], func(e *parse.Expr) bool {
			return !comparedText(t, first, parse.Bare(e), text) && !of(classOf(t, first), []*parse.Expr{e})
		})
	}
	switch e.Kind {
	case parse.Literal:
		v := e.Of(text)
		return numberText.MatchString(v) || strings.EqualFold(v, "TRUE") || strings.EqualFold(v, "FALSE")
	case parse.Column:
		c := columnNamed(t, e)
		return c != nil && (numberType.MatchString(c.Native) || timeType.MatchString(c.Native) || charType.MatchString(c.Native))
	case parse.Paren:
		return all(e.Args)
	case parse.Unary:
		return (e.Name == "-" || e.Name == "NOT") && of(asNumber, e.Args)
	case parse.Binary:
		switch e.Name {
		case "=", "<", "<=", ">", ">=", "<>", "!=":
			return compared(e.Args)
		case "+", "-", "*", "DIV", "AND", "OR":
			return of(asNumber, e.Args)
		case "%", "MOD": // a decimal may become -0.0
			return of(asNumber, e.Args) && wholeNumbers(t, e, text)
		}
		return false
	case parse.Between, parse.In:
		return e.Query == nil && compared(e.Args)
	case parse.IsTest:
		return e.Name == "NULL" && all(e.Args)
	case parse.Call:
		if !passedOn[e.Name] || e.Distinct || len(e.OrderBy) > 0 || e.Separator != "" || e.Limited || e.Filter != nil || e.Over != nil || e.Qualified || e.Unit != "" {
			return false
		}
		switch e.Name {
		case "count", "min", "max":
			return all(e.Args)
		case "sum":
			return of(asNumber, e.Args)
		}
		return of(asTime, e.Args)
	}
	return false
}

// A valueClass is how values are compared: as numbers, times or texts.
type valueClass int

const (
	asNumber valueClass = iota
	asTime
	asText // by the collation of a column
)

// classOf returns the class of a passable expression.
func classOf(t *engine.TableParts, e *parse.Expr) valueClass {
	e = parse.Bare(e)
	switch c := columnNamed(t, e); {
	case e.Kind == parse.Call && (e.Name == "min" || e.Name == "max"):
		return classOf(t, e.Args[0])
	case e.Kind == parse.Call && e.Name == "date", c != nil && timeType.MatchString(c.Native):
		return asTime
	case c != nil && charType.MatchString(c.Native):
		return asText
	}
	return asNumber
}
