package parse

import (
	"github.com/rowmill/rowmill/internal/sqltext"
	"strings"
)

// new returns an expression that begins at from and ends after the token that was read last.
func (p *parser) new(kind Kind, from int, args ...*Expr) *Expr {
	if len(p.slab) == 0 {
		p.slab = make([]Expr, 8)
	}
	e := &p.slab[0]
	p.slab = p.slab[1:]
	e.Span, e.Kind, e.Args = sqltext.Span{From: from, To: p.end()}, kind, args
	return e
}

// prec returns the precedence of an operator, or 0 for a word that isn't an operator.
func (p *parser) prec(op string) int {
	switch {
	case p.syn.Introducer:
		if op == "||" && !p.syn.ConcatPipes {
			return precIntroducer["OR"]
		}
		return precIntroducer[op]
	case p.syn.Casts:
		if n := precCasts[op]; n > 0 || op == "" {
			return n
		}
		if sqltext.UserOperator(op) {
			return precCasts["other"]
		}
		return 0
	}
	return precPlain[op]
}

func (p *parser) expr() *Expr { return p.operand(1) }

// operand reads an expression of operators that bind at least as tightly as min.
func (p *parser) operand(min int) *Expr {
	p.enter()
	defer p.leave()
	left := p.prefix(min)
	predicate := false // the last operator was one of predicates: how it binds with another one isn't certain
	for {
		t := p.peek()
		op, not := t.Word, false
		if op == "" {
			return left
		}
		if op == "NOT" {
			op, not = p.at(1).Word, true
			if !p.at(1).IsOne("BETWEEN", "LIKE", "IN", "REGEXP", "RLIKE", "ILIKE", "SIMILAR", "GLOB") {
				return left
			}
		}
		prec := p.prec(op)
		if prec == 0 || prec < min {
			return left
		}
		if predicates[op] {
			if predicate {
				p.fail(t, "a condition such as LIKE or BETWEEN as the operand of another, without parentheses")
			}
			predicate = true
		} else {
			predicate = false
		}
		if not {
			p.next()
		}
		p.next()
		left = p.infix(left, op, not, prec)
	}
}

// predicates are operators whose order of precedence differs between versions of servers.
var predicates = map[string]bool{
	"BETWEEN": true, "LIKE": true, "IN": true, "REGEXP": true, "RLIKE": true, "ILIKE": true, "SIMILAR": true, "GLOB": true, "SOUNDS": true, "MEMBER": true,
}

// infix reads what follows an operator.
func (p *parser) infix(left *Expr, op string, not bool, prec int) *Expr {
	name, kind := op, Binary
	var args []*Expr
	switch op {
	case "IS":
		return p.is(left, prec)
	case "ISNULL", "NOTNULL":
		kind, name, not, args = IsTest, "NULL", op == "NOTNULL", []*Expr{left}
	case "COLLATE":
		t := p.peek()
		if t.Kind == sqltext.String && p.syn.Introducer {
			p.next()
			name = unquote(p.of(t))
		} else if name = p.collation(); p.syn.Introducer {
			name = strings.ToLower(name)
		}
		kind, args = Collate, []*Expr{left}
	case "BETWEEN":
		low := p.operand(prec + 1)
		p.expect("AND")
		kind, name, args = Between, "", []*Expr{left, low, p.operand(prec + 1)}
	case "IN":
		return p.in(left, not)
	case "SIMILAR", "SOUNDS":
		name += " " + p.expect(map[string]string{"SIMILAR": "TO", "SOUNDS": "LIKE"}[op]).Word
		args = p.pattern(left, prec)
	case "LIKE", "ILIKE":
		args = p.pattern(left, prec)
	case "MEMBER":
		p.accept("OF")
		name = "MEMBER OF"
		p.expect("(")
		args = []*Expr{left, p.expr()}
		p.expect(")")
	case "AT":
		if p.peek().Kind != sqltext.Word || !strings.EqualFold(p.of(p.peek()), "TIME") {
			p.unexpected()
		}
		p.next()
		p.expect("ZONE")
		name = "AT TIME ZONE"
		args = []*Expr{left, p.operand(prec + 1)}
	case "::":
		text := p.castType()
		e := p.new(Cast, left.From, left)
		e.Type = text
		return e
	case "[":
		kind, name, args = Index, "", []*Expr{left}
		for !p.accept("]") {
			if !p.accept(":") {
				args = append(args, p.expr())
			} else {
				name = ":"
			}
		}
	case "->", "->>":
		if p.syn.Introducer && (p.peek().Kind != sqltext.String || left.Kind != Column) {
			p.unexpected()
		}
		args = []*Expr{left, p.operand(prec + 1)}
	case "=", "==", "<=>", ">=", ">", "<=", "<", "<>", "!=":
		args = []*Expr{left, p.compared(prec)}
	default:
		switch {
		case op == "&&" && p.syn.Introducer:
			name = "AND"
		case op == "||" && !p.syn.ConcatPipes:
			name = "OR"
		}
		args = []*Expr{left, p.operand(prec + 1)}
	}
	e := p.new(kind, left.From, args...)
	e.Name, e.Not = name, not
	return e
}

// pattern reads the right operand of LIKE, and ESCAPE if it follows.
func (p *parser) pattern(left *Expr, prec int) []*Expr {
	args := []*Expr{left, p.operand(prec + 1)}
	if p.accept("ESCAPE") {
		args = append(args, p.operand(prec+1))
	}
	return args
}

// compared reads the right operand of a comparison.
func (p *parser) compared(prec int) *Expr {
	t := p.peek()
	if !t.IsOne("ANY", "SOME", "ALL") || !p.at(1).Is("(") {
		return p.operand(prec + 1)
	}
	name := t.Word
	if name == "SOME" {
		name = "ANY"
	}
	p.next()
	if p.isQuery(p.i + 1) {
		e := p.subquery(Subquery, t.From)
		e.Name = name
		return e
	}
	if !p.syn.Casts {
		p.unexpected()
	}
	p.next()
	arg := p.expr()
	p.expect(")")
	e := p.new(Call, t.From, arg)
	e.Name = strings.ToLower(name)
	return e
}

// is reads what follows IS.
func (p *parser) is(left *Expr, prec int) *Expr {
	not := p.accept("NOT")
	t := p.peek()
	args := []*Expr{left}
	kind, name := IsTest, t.Word
	switch {
	case t.IsOne("NULL", "TRUE", "FALSE"), t.Is("UNKNOWN") && (p.syn.Introducer || p.syn.Casts):
		p.next()
		if next := p.peek(); !p.syn.Introducer && !p.syn.Casts && p.prec(next.Word) > prec {
			p.fail(next, "an operator after IS "+name)
		}
	case t.Is("DISTINCT") && p.at(1).Is("FROM") && !p.syn.Introducer:
		p.next()
		p.next()
		name = "DISTINCT FROM"
		args = append(args, p.operand(prec+1))
	case !p.syn.Introducer && !p.syn.Casts:
		kind, name = Binary, "IS"
		args = append(args, p.operand(prec+1))
	default:
		p.unexpected()
	}
	e := p.new(kind, left.From, args...)
	e.Name, e.Not = name, not
	return e
}

// in reads what follows IN.
func (p *parser) in(left *Expr, not bool) *Expr {
	t := p.peek()
	if !t.Is("(") {
		p.fail(t, "IN without (")
	}
	args := []*Expr{left}
	var q *Query
	if p.at(1).Is("(") && p.isQuery(p.i+1) && p.closing(p.i+1) == p.closing(p.i)-1 {
		p.fail(t, "IN with a query in double parentheses")
	}
	if p.isQuery(p.i + 1) {
		q = p.parenthesized()
	} else {
		args = append(args, p.args()...)
	}
	e := p.new(In, left.From, args...)
	e.Not, e.Query = not, q
	return e
}

// collation reads the name of a collation.
func (p *parser) collation() string {
	var name string
	if p.peek().Is("BINARY") {
		name = p.next().Word
	} else {
		name = p.name()
	}
	for p.accept(".") {
		name += "." + p.member()
	}
	return name
}

// prefix reads an operand with the operators before it.
func (p *parser) prefix(min int) *Expr {
	t := p.peek()
	prec := p.prec("unary")
	switch op := t.Word; {
	case op == "":
		return p.primary()
	case op == "NOT":
		prec = p.prec("NOT")
		if min > prec {
			p.fail(t, "NOT within an expression")
		}
		if p.syn.HighNot {
			p.fail(t, "NOT as HIGH_NOT_PRECEDENCE has it")
		}
	case op == "-", op == "+", op == "~" && !p.syn.Casts, op == "!" && p.syn.Introducer, op == "BINARY" && p.syn.Introducer:
	case p.syn.Casts && t.Kind == sqltext.Operator && sqltext.UserOperator(op) && precCasts[op] == 0:
		prec = precCasts["other"] + 1
	default:
		return p.primary()
	}
	p.next()
	arg := p.operand(prec)
	e := p.new(Unary, t.From, arg)
	e.Name = t.Word
	return e
}

// literal returns the literal from a place to the token that was read last.
func (p *parser) literal(from int) *Expr {
	e := p.new(Literal, from)
	e.Name = p.text[from:e.To]
	return e
}

// primary reads an operand without operators.
func (p *parser) primary() *Expr {
	t := p.peek()
	switch t.Kind {
	case sqltext.Number:
		p.next()
		return p.literal(t.From)
	case sqltext.Parameter:
		p.next()
		return p.new(Param, t.From)
	case sqltext.String:
		p.next()
		return p.strings(t.From, t)
	case sqltext.Quoted:
		return p.column()
	case sqltext.Operator:
		if t.Word == "(" {
			return p.parentheses()
		}
	case sqltext.Word:
		return p.wordOperand()
	}
	p.unexpected()
	return nil
}

// strings reads the rest of a literal of adjacent strings, such as 'a' 'b', whose first string is
// first. The literal begins at from.
func (p *parser) strings(from int, first sqltext.Token) *Expr {
	next := p.peek()
	if next.Kind == sqltext.String {
		switch c := p.text[first.From]; {
		case p.syn.Casts:
			p.fail(next, "adjacent strings")
		case p.syn.Introducer && c != 'x' && c != 'X' && c != 'b' && c != 'B':
			for p.peek().Kind == sqltext.String && !sqltext.Prefixed(p.text[p.peek().From:]) {
				p.next()
			}
		}
	}
	return p.literal(from)
}

// parentheses reads a query, a row or an expression in parentheses.
func (p *parser) parentheses() *Expr {
	t := p.peek()
	if p.isQuery(p.i + 1) {
		return p.subquery(Subquery, t.From)
	}
	args := p.args()
	kind := Paren
	if len(args) != 1 {
		kind = Row
	}
	return p.new(kind, t.From, args...)
}

// args reads (x, ...): one expression or more.
func (p *parser) args() (args []*Expr) {
	p.expect("(")
	p.list(func() { args = append(args, p.expr()) })
	p.expect(")")
	return args
}

// subquery reads a query in parentheses as an expression that begins at a place.
func (p *parser) subquery(kind Kind, from int) *Expr {
	q := p.parenthesized()
	e := p.new(kind, from)
	e.Query = q
	return e
}

// wordOperand reads an operand that begins with a word.
func (p *parser) wordOperand() *Expr {
	t, next := p.peek(), p.at(1)
	called := next.Is("(")
	if next.Is(".") {
		return p.column()
	}
	switch t.Word {
	case "":
		switch {
		case p.syn.Introducer && p.text[t.From] == '_' && (next.Kind == sqltext.String || next.Kind == sqltext.Number):
			if !charsets[strings.ToLower(p.of(t))] {
				p.fail(t, "an unknown character set")
			}
			p.next()
			p.next()
			return p.strings(t.From, next)
		case p.syn.Casts && next.Kind == sqltext.String:
			return p.typedLiteral()
		}
	case "NULL", "TRUE", "FALSE":
		p.next()
		return p.literal(t.From)
	case "CASE":
		return p.caseWhen()
	case "EXISTS":
		p.next()
		if !p.isQuery(p.i+1) || !called {
			p.unexpected()
		}
		return p.subquery(Exists, t.From)
	case "CAST":
		if called {
			return p.cast()
		}
	case "CONVERT":
		if called && p.syn.Introducer {
			return p.cast()
		}
	case "INTERVAL":
		if p.syn.Introducer {
			return p.interval()
		}
		if p.syn.Casts && next.Kind == sqltext.String {
			return p.typedLiteral()
		}
	case "DATE", "TIME", "TIMESTAMP":
		if next.Kind == sqltext.String && (p.syn.Introducer || p.syn.Casts) || p.syn.Casts && next.IsOne("WITH", "WITHOUT") && p.at(2).Is("TIME") {
			return p.typedLiteral()
		}
	case "DOUBLE":
		if p.syn.Casts && next.Is("PRECISION") {
			p.fail(t, "DOUBLE PRECISION before a value")
		}
	case "ROW":
		if called {
			p.next()
			args := p.args()
			return p.new(Row, t.From, args...)
		}
	case "ARRAY":
		if p.syn.Casts {
			return p.array()
		}
	case "EXTRACT":
		if called && p.at(3).Is("FROM") {
			return p.extract()
		}
	case "TRIM", "SUBSTRING", "SUBSTR", "MID", "OVERLAY":
		if called {
			return p.textCall()
		}
	case "POSITION":
		if called {
			return p.position()
		}
	case "TIMESTAMPDIFF", "TIMESTAMPADD", "GET_FORMAT":
		if called && p.syn.Introducer {
			return p.unitCall()
		}
	case "MATCH":
		if called {
			p.fail(t, "MATCH ... AGAINST")
		}
	case "NEXT":
		if !called && next.Kind == sqltext.Word && strings.EqualFold(p.of(next), "VALUE") {
			p.fail(t, "NEXT VALUE")
		}
	}
	word := sqltext.LookUp(t.Word)
	switch {
	case called && (!word.Reserved || callable[t.Word]):
		return p.call()
	case word.Reserved:
		p.unexpected()
	case t.Word != "" && (bare[t.Word] || p.syn.Introducer && bareIntroducer[t.Word] || p.syn.Casts && bareCasts[t.Word]):
		p.next()
		e := p.new(Call, t.From)
		e.Name = strings.ToLower(t.Word)
		return p.windowed(e)
	case p.syn.Casts && next.Kind == sqltext.String:
		p.fail(t, "an unknown type before a string")
	}
	return p.column()
}

// column reads the name of a column, or the call of a function with a schema.
func (p *parser) column() *Expr {
	from := p.peek().From
	if p.at(1).Is("(") {
		p.fail(p.peek(), "a function's name in quotes")
	}
	names := make([]string, 1, 2)
	names[0] = p.name()
	for p.accept(".") {
		names = append(names, p.member())
	}
	if p.peek().Is("(") {
		if len(names) < 2 {
			p.unexpected()
		}
		return p.callArgs(from, strings.ToLower(names[len(names)-1]), true)
	}
	if len(names) > 3 {
		p.fail(sqltext.Token{Span: sqltext.Span{From: from}}, "a name of more than three parts")
	}
	e := p.new(Column, from)
	e.Names = names
	return e
}

// typedLiteral reads a literal with its type before it, such as DATE '...'.
func (p *parser) typedLiteral() *Expr {
	t := p.next()
	if p.syn.Casts && !literalTypes[strings.ToLower(p.of(t))] {
		p.fail(t, "an unknown type before a string")
	}
	if p.peek().IsOne("WITH", "WITHOUT") {
		p.next()
		p.expect("TIME")
		p.expect("ZONE")
	}
	if p.peek().Kind != sqltext.String {
		p.unexpected()
	}
	p.next()
	if next := p.peek(); next.Kind == sqltext.String {
		p.fail(next, "adjacent strings")
	}
	if t.Is("INTERVAL") && units[p.peek().Word] {
		p.next()
		if p.accept("TO") {
			p.next()
		}
		if p.peek().Is("(") {
			p.fail(t, "an interval with a precision")
		}
	}
	return p.literal(t.From)
}

// interval reads INTERVAL x unit, or a call of the function of that name.
func (p *parser) interval() *Expr {
	t := p.peek()
	if p.at(1).Is("(") {
		after := p.tokens[p.closing(p.i+1)+1]
		if !units[after.Word] {
			e := p.call()
			if len(e.Args) < 2 {
				p.fail(t, "an unknown form of INTERVAL")
			}
			return e
		}
	}
	p.next()
	x := p.expr()
	unit := p.next()
	if !units[unit.Word] {
		p.fail(unit, "an unknown unit of INTERVAL")
	}
	e := p.new(IntervalOf, t.From, x)
	e.Unit = unit.Word
	return e
}

func (p *parser) caseWhen() *Expr {
	t := p.next()
	var args []*Expr
	name := "CASE WHEN"
	if !p.peek().Is("WHEN") {
		args = append(args, p.expr())
		name = "CASE x WHEN"
	}
	for {
		p.expect("WHEN")
		args = append(args, p.expr())
		p.expect("THEN")
		args = append(args, p.expr())
		if !p.peek().Is("WHEN") {
			break
		}
	}
	if p.accept("ELSE") {
		args = append(args, p.expr())
	}
	p.expect("END")
	e := p.new(Case, t.From, args...)
	e.Name = name
	return e
}

// cast reads CAST (x AS type), CONVERT (x, type) and CONVERT (x USING name).
func (p *parser) cast() *Expr {
	t := p.next()
	p.adjacent(t)
	closing := p.closing(p.i)
	p.next()
	x := p.expr()
	switch {
	case t.Is("CAST"):
		p.expect("AS")
	case !p.accept("USING"):
		p.expect(",")
	}
	from := p.peek().From
	for p.i < closing {
		if t := p.next(); t.Kind != sqltext.Word && t.Kind != sqltext.Number && t.Kind != sqltext.Quoted && t.Kind != sqltext.String && !t.IsOne("(", ")", ",", ".", "[", "]") {
			p.i--
			p.unexpected()
		}
	}
	text := p.text[from:p.end()]
	if from > p.end() {
		p.unexpected()
	}
	p.expect(")")
	e := p.new(Cast, t.From, x)
	e.Name, e.Type = strings.ToLower(t.Word), text
	return e
}

// castType reads the type after ::.
func (p *parser) castType() string {
	from := p.peek().From
	t := p.peek()
	switch {
	case t.Is("DOUBLE"):
		p.next()
		p.expect("PRECISION")
	case t.Is("INTERVAL"):
		p.next()
		if units[p.peek().Word] {
			p.fail(t, "an interval with fields as a type")
		}
	default:
		p.name()
		for p.accept(".") {
			p.member()
		}
		p.accept("VARYING")
	}
	if p.accept("(") {
		p.list(func() {
			if p.peek().Kind != sqltext.Number {
				p.unexpected()
			}
			p.next()
		})
		p.expect(")")
	}
	if t.IsOne("TIME", "TIMESTAMP") && p.peek().IsOne("WITH", "WITHOUT") && p.at(1).Is("TIME") {
		p.next()
		p.next()
		p.expect("ZONE")
	}
	for p.accept("[") {
		if p.peek().Kind == sqltext.Number {
			p.next()
		}
		p.expect("]")
	}
	if p.peek().Is("ARRAY") {
		p.fail(p.peek(), "ARRAY after a type")
	}
	return p.text[from:p.end()]
}

func (p *parser) array() *Expr {
	t := p.next()
	if p.peek().Is("(") && p.isQuery(p.i+1) {
		return p.subquery(Array, t.From)
	}
	p.expect("[")
	var args []*Expr
	for !p.accept("]") {
		if p.peek().Is("[") {
			p.fail(p.peek(), "an array of arrays")
		}
		args = append(args, p.expr())
		if !p.peek().Is("]") {
			p.expect(",")
		}
	}
	return p.new(Array, t.From, args...)
}
