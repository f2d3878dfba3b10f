package parse

import (
	"github.com/rowmill/rowmill/internal/sqltext"
	"strings"
)

// adjacent fails if a function's name must be followed by ( without a space, and isn't.
func (p *parser) adjacent(name sqltext.Token) {
	if p.syn.Introducer && p.peek().From != name.To && adjacent[strings.ToLower(p.of(name))] {
		p.fail(name, "a space between "+shorten(p.of(name))+" and (")
	}
}

// call reads a call of a function without a schema.
func (p *parser) call() *Expr {
	t := p.next()
	p.adjacent(t)
	return p.callArgs(t.From, strings.ToLower(p.of(t)), false)
}

// callArgs reads the arguments of a function and clauses such as FILTER after them.
func (p *parser) callArgs(from int, name string, qualified bool) *Expr {
	e := p.new(Call, from)
	e.Name, e.Qualified = name, qualified
	p.expect("(")
	if p.accept("*") {
		e.Star = true
		p.expect(")")
		return p.windowed(e)
	}
	if p.accept("DISTINCT") {
		e.Distinct = true
	} else {
		p.accept("ALL")
	}
	if !p.peek().Is(")") {
		p.list(func() { e.Args = append(e.Args, p.expr()) })
	}
	if p.accept("ORDER") {
		p.expect("BY")
		e.OrderBy = p.orders()
	}
	if p.accept("SEPARATOR") {
		if p.peek().Kind != sqltext.String {
			p.unexpected()
		}
		e.Separator = p.of(p.next())
	}
	if p.accept("LIMIT") {
		e.Limited = true
		p.expr()
		if p.accept(",") || p.accept("OFFSET") {
			p.expr()
		}
	}
	if name == "char" && p.syn.Introducer && p.accept("USING") {
		e.Type = p.collation()
	}
	p.expect(")")
	return p.windowed(e)
}

// windowed reads FILTER and OVER.
func (p *parser) windowed(e *Expr) *Expr {
	if p.peek().Is("FILTER") && p.at(1).Is("(") {
		p.next()
		p.next()
		p.expect("WHERE")
		e.Filter = p.expr()
		p.expect(")")
	}
	if p.peek().Is("WITHIN") {
		p.unexpected()
	}
	if p.accept("OVER") {
		if p.peek().Is("(") {
			e.Over = p.over()
		} else {
			t := p.peek()
			e.Over = &Over{Span: t.Span, Name: p.name()}
		}
	}
	e.To = p.end()
	return e
}

// over reads the definition of a window in parentheses.
func (p *parser) over() *Over {
	o := &Over{Span: sqltext.Span{From: p.peek().From}}
	closing := p.closing(p.i)
	p.expect("(")
	if t := p.peek(); (t.Kind == sqltext.Word || t.Kind == sqltext.Quoted) && !t.IsOne("PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS") {
		o.Name = p.name()
	}
	if p.accept("PARTITION") {
		p.expect("BY")
		p.list(func() { o.PartitionBy = append(o.PartitionBy, p.expr()) })
	}
	if p.accept("ORDER") {
		p.expect("BY")
		o.OrderBy = p.orders()
	}
	if t := p.peek(); t.IsOne("ROWS", "RANGE", "GROUPS") {
		for p.i < closing {
			if p.next().Word == "SELECT" {
				p.fail(t, "a query within a window's frame")
			}
		}
		o.Frame = sqltext.Span{From: t.From, To: p.end()}
	}
	p.expect(")")
	o.To = p.end()
	return o
}

// extract reads EXTRACT (unit FROM x).
func (p *parser) extract() *Expr {
	t := p.next()
	p.adjacent(t)
	p.next()
	unit := p.next()
	p.expect("FROM")
	x := p.expr()
	p.expect(")")
	e := p.new(Call, t.From, x)
	e.Name, e.Unit = "extract", strings.ToUpper(p.of(unit))
	return e
}

// textCall reads calls whose arguments may be separated by words: TRIM, SUBSTRING, OVERLAY.
func (p *parser) textCall() *Expr {
	t := p.next()
	p.adjacent(t)
	p.expect("(")
	var args []*Expr
	unit := ""
	if p.peek().IsOne("BOTH", "LEADING", "TRAILING") && t.Is("TRIM") {
		unit = p.next().Word
	}
	if t.Is("TRIM") && p.accept("FROM") {
		unit += " FROM"
	}
	for {
		args = append(args, p.expr())
		switch sep := p.peek(); {
		case t.Is("TRIM") && sep.Is("FROM"):
			// The order of the arguments depends on FROM.
			unit += " FROM"
		case sep.Is("FOR") && len(args) == 1:
			unit = "FOR"
		}
		if !p.peek().IsOne(",", "FROM", "FOR", "PLACING") {
			break
		}
		p.next()
	}
	p.expect(")")
	e := p.new(Call, t.From, args...)
	e.Name, e.Unit = strings.ToLower(t.Word), unit
	return e
}

// position reads POSITION (x IN y).
func (p *parser) position() *Expr {
	t := p.next()
	p.adjacent(t)
	p.expect("(")
	x := p.operand(p.prec("IN") + 1)
	p.expect("IN")
	y := p.expr()
	p.expect(")")
	e := p.new(Call, t.From, x, y)
	e.Name = "position"
	return e
}

// unitCall reads a call whose first argument is a unit.
func (p *parser) unitCall() *Expr {
	t := p.next()
	p.expect("(")
	unit := p.next()
	if !units[unit.Word] && !(t.Is("GET_FORMAT") && unit.IsOne("DATE", "TIME", "TIMESTAMP")) {
		p.fail(unit, "an unknown unit")
	}
	e := p.new(Call, t.From)
	e.Name, e.Unit = strings.ToLower(t.Word), unit.Word
	for p.accept(",") {
		e.Args = append(e.Args, p.expr())
	}
	p.expect(")")
	e.To = p.end()
	return e
}
