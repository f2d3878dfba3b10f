package parse

import (
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/sqltext"
)

// maxDepth limits how deep a statement may be nested.
const maxDepth = 200

// A parser reads tokens. At a token that it can't read, a method panics with a *sqltext.Error.
// Parse recovers and returns the error: no panic leaves the package.
type parser struct {
	cursor
	slab []Expr
}

// Parse reads one SELECT statement, which may end with a semicolon. The text is in UTF-8. Its error
// is a *sqltext.Error.
func Parse(text string, syntax sqltext.Syntax) (q *Query, err error) {
	if !utf8.ValidString(text) {
		return nil, sqltext.ErrorAt(text, 0, "a text that isn't UTF-8")
	}
	p := &parser{cursor: cursor{text: text, syn: syntax}}
	if err := p.scan(); err != nil {
		return nil, err
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *sqltext.Error:
			q, err = nil, r
		default:
			panic(r)
		}
	}()
	if t := p.peek(); t.Kind == sqltext.Word && t.Word != "SELECT" && t.Word != "WITH" {
		p.fail(t, "not a SELECT")
	}
	q = p.query()
	p.accept(";")
	if t := p.peek(); t.Kind != sqltext.End {
		p.unexpected()
	}
	return q, nil
}

// query reads a query expression without parentheses around it.
func (p *parser) query() *Query {
	p.enter()
	defer p.leave()
	q := &Query{Span: sqltext.Span{From: p.peek().From}}
	if p.accept("WITH") {
		q.Recursive = p.accept("RECURSIVE")
		p.list(func() { q.With = append(q.With, p.cte()) })
	}
	if p.peek().Is("(") {
		q.First = p.parenthesized()
	} else {
		q.Body = p.selection()
	}
	for p.peek().IsOne("UNION", "INTERSECT", "EXCEPT") {
		b := Branch{Op: p.next().Word}
		b.All = p.accept("ALL")
		if !b.All {
			p.accept("DISTINCT")
		}
		b.From = p.peek().From
		if p.peek().Is("(") {
			b.Query = p.parenthesized()
		} else {
			sel := p.selection()
			b.Query = &Query{Span: sel.Span, Body: sel, Tail: sqltext.Span{From: sel.To, To: sel.To}}
		}
		b.To = p.end()
		q.Rest = append(q.Rest, b)
	}
	p.tail(q)
	q.To = p.end()
	if q.First != nil && q.With == nil && q.Rest == nil && q.Tail.From == q.Tail.To {
		return q.First
	}
	return q
}

// parenthesized reads a query in parentheses.
func (p *parser) parenthesized() *Query {
	p.expect("(")
	if t := p.peek(); !t.IsOne("SELECT", "WITH", "(") {
		p.unexpected()
	}
	q := p.query()
	p.expect(")")
	return q
}

func (p *parser) cte() CTE {
	c := CTE{Span: sqltext.Span{From: p.peek().From}, Name: p.name()}
	if p.peek().Is("(") {
		c.Columns = p.names()
	}
	p.expect("AS")
	if p.accept("NOT") {
		p.expect("MATERIALIZED")
	} else {
		p.accept("MATERIALIZED")
	}
	c.Query = p.parenthesized()
	c.To = p.end()
	return c
}

// tail reads ORDER BY, LIMIT and OFFSET.
func (p *parser) tail(q *Query) {
	from := p.peek().From
	start := p.i
	if p.accept("ORDER") {
		p.expect("BY")
		q.OrderBy = p.orders()
	}
	for {
		switch t := p.peek(); {
		case t.Is("LIMIT") && q.Limit == nil:
			p.next()
			if p.peek().Is("ALL") {
				p.fail(p.peek(), "LIMIT ALL")
			}
			q.Limit = p.expr()
			if p.peek().Is(",") && p.syn.LimitComma && q.Offset == nil {
				p.next()
				q.Offset = q.Limit
				q.Limit = p.expr()
			}
			if p.peek().Is("ROWS") {
				p.fail(p.peek(), "ROWS EXAMINED")
			}
		case t.Is("OFFSET") && q.Offset == nil:
			p.next()
			q.Offset = p.expr()
			if p.peek().IsOne("ROW", "ROWS") {
				p.next()
			}
		case t.Is("FETCH") && q.Limit == nil:
			p.next()
			if !p.accept("FIRST") {
				p.expect("NEXT")
			}
			if p.peek().IsOne("ROW", "ROWS") {
				p.fail(t, "FETCH without a number")
			}
			q.Limit = p.expr()
			if !p.accept("ROW") {
				p.expect("ROWS")
			}
			if p.peek().Is("WITH") {
				p.fail(p.peek(), "WITH TIES")
			}
			p.expect("ONLY")
		default:
			if p.i == start {
				q.Tail = sqltext.Span{From: p.end(), To: p.end()}
			} else {
				q.Tail = sqltext.Span{From: from, To: p.end()}
			}
			return
		}
	}
}

func (p *parser) orders() (list []Order) {
	p.list(func() {
		o := Order{Span: sqltext.Span{From: p.peek().From}}
		o.Expr = p.expr()
		if !p.accept("ASC") {
			o.Desc = p.accept("DESC")
		}
		if p.accept("NULLS") {
			t := p.next()
			if !t.IsOne("FIRST", "LAST") {
				p.fail(t, "unknown syntax after NULLS")
			}
			o.Nulls = t.Word
		}
		o.To = p.end()
		list = append(list, o)
	})
	return list
}

// selection reads a SELECT with its clauses.
func (p *parser) selection() *Select {
	s := &Select{Span: sqltext.Span{From: p.peek().From}}
	p.expect("SELECT")
	p.options(s)
	s.ItemsSpan.From = p.peek().From
	p.list(func() { s.Items = append(s.Items, p.item()) })
	s.ItemsSpan.To = p.end()
	if p.accept("FROM") {
		s.FromSpan.From = p.peek().From
		s.From = p.fromList()
		s.FromSpan.To = p.end()
	}
	if p.accept("WHERE") {
		s.Where = p.expr()
	}
	if p.accept("GROUP") {
		p.expect("BY")
		p.groupBy(s)
	}
	if p.accept("HAVING") {
		s.Having = p.expr()
	}
	if p.accept("WINDOW") {
		p.list(func() {
			w := Window{Name: p.name()}
			p.expect("AS")
			w.Over = p.over()
			s.Windows = append(s.Windows, w)
		})
	}
	s.To = p.end()
	return s
}

// options reads what stands between SELECT and its list.
func (p *parser) options(s *Select) {
	for {
		switch t := p.peek(); {
		case t.Kind == sqltext.Hint:
			s.Options = append(s.Options, p.of(t))
		case t.Is("DISTINCT"), t.Is("DISTINCTROW") && p.syn.Introducer:
			s.Distinct = true
			if p.at(1).Is("ON") {
				p.fail(t, "DISTINCT ON")
			}
		case t.Is("ALL"):
		case t.Kind == sqltext.Word && p.syn.Introducer && options[t.Word]:
			s.Options = append(s.Options, t.Word)
		default:
			return
		}
		p.next()
	}
}

func (p *parser) item() Item {
	it := Item{Span: sqltext.Span{From: p.peek().From}}
	if p.accept("*") {
		it.Star = true
		it.To = p.end()
		return it
	}
	// t.* and d.t.*
	for n := 1; p.at(n).Is(".") && n <= 3; n += 2 {
		if p.at(n + 1).Is("*") {
			it.Star = true
			for range n / 2 {
				p.name()
				p.next()
			}
			it.Table = p.name()
			p.next()
			p.next()
			it.To = p.end()
			return it
		}
	}
	it.Expr = p.expr()
	it.Alias = p.alias(true)
	it.To = p.end()
	return it
}

// groupBy reads the operand of GROUP BY.
func (p *parser) groupBy(s *Select) {
	if p.peek().IsOne("ALL", "DISTINCT") {
		p.fail(p.peek(), "GROUP BY "+p.peek().Word)
	}
	s.GroupSpan.From = p.peek().From
	p.list(func() {
		s.GroupBy = append(s.GroupBy, p.groupElement(s))
		if p.peek().IsOne("ASC", "DESC") {
			p.fail(p.peek(), "GROUP BY with an order")
		}
	})
	s.GroupSpan.To = p.end()
	if p.peek().Is("WITH") && p.at(1).Is("ROLLUP") && p.syn.WithRollup {
		p.next()
		p.next()
		s.Rollup = true
	}
}

// groupElement reads an element of GROUP BY or of GROUPING SETS.
func (p *parser) groupElement(s *Select) *Expr {
	t := p.peek()
	name := ""
	switch {
	case t.Is("(") && p.at(1).Is(")"):
		p.next()
		p.next()
		s.Sets = true
		return p.new(Row, t.From)
	case t.IsOne("ROLLUP", "CUBE") && p.at(1).Is("("):
		name = strings.ToLower(t.Word)
	case t.Is("GROUPING") && p.at(1).Is("SETS"):
		name = "grouping sets"
		p.next()
	default:
		return p.expr()
	}
	p.enter()
	defer p.leave()
	p.next()
	p.expect("(")
	s.Sets = true
	var args []*Expr
	p.list(func() { args = append(args, p.groupElement(s)) })
	p.expect(")")
	e := p.new(Call, t.From, args...)
	e.Name = name
	return e
}
