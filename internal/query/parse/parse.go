package parse

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/engine"
)

// maxDepth limits how deep a statement may be nested.
const maxDepth = 200

// A parser reads tokens. A method that finds what it can't read panics with an *Error, which Parse
// returns; no panic leaves the package.
type parser struct {
	text   string
	syn    engine.Syntax
	tokens []Token // with an End
	match  []int32 // of each ( the index of its ), else 0
	i      int
	depth  int
	slab   []Expr
}

// Parse reads one SELECT statement, which may end with a semicolon. The text is in UTF-8. Its error is an *Error.
func Parse(text string, syntax engine.Syntax) (q *Query, err error) {
	if !utf8.ValidString(text) {
		return nil, errorAt(text, 0, "a text that isn't UTF-8")
	}
	p := &parser{text: text, syn: syntax}
	if err := p.scan(); err != nil {
		return nil, err
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			q, err = nil, r
		default:
			panic(r)
		}
	}()
	if t := p.peek(); t.Kind == Word && t.Word != "SELECT" && t.Word != "WITH" {
		p.fail(t, "not a SELECT")
	}
	q = p.query()
	p.accept(";")
	if t := p.peek(); t.Kind != End {
		p.unexpected()
	}
	return q, nil
}

// scan reads all tokens and matches parentheses.
func (p *parser) scan() error {
	p.tokens = make([]Token, 0, len(p.text)/5+8)
	var open []int32
	for s := NewScanner(p.text, p.syn); ; {
		t, err := s.Next()
		if err != nil {
			return err
		}
		switch {
		case t.Kind == UserVar:
			return errorAt(p.text, t.From, "user variable "+shorten(p.text[t.From:t.To]))
		case t.Kind == Executable:
			return errorAt(p.text, t.From, "executable comment")
		case t.Word == "(" && t.Kind == Operator:
			open = append(open, int32(len(p.tokens)))
		case t.Word == ")" && t.Kind == Operator:
			if len(open) == 0 {
				return errorAt(p.text, t.From, "a ) without its (")
			}
			if p.match == nil {
				p.match = make([]int32, cap(p.tokens))
			}
			from := int(open[len(open)-1])
			if from >= len(p.match) {
				p.match = append(p.match, make([]int32, cap(p.tokens)-len(p.match))...)
			}
			p.match[from] = int32(len(p.tokens))
			open = open[:len(open)-1]
		}
		p.tokens = append(p.tokens, t)
		if t.Kind == End {
			break
		}
	}
	if len(open) > 0 {
		return errorAt(p.text, p.tokens[open[len(open)-1]].From, "a ( without its )")
	}
	return nil
}

// closing returns the index of the ) of the ( at an index.
func (p *parser) closing(i int) int { return int(p.match[i]) }

func shorten(s string) string {
	const limit = 40
	if utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit]) + "..."
	}
	return s
}

func (p *parser) fail(t Token, reason string) {
	panic(errorAt(p.text, t.From, reason))
}

// reasons name what words mean that the parser meets where it knows no use for them.
var reasons = map[string]string{
	"INTO": "SELECT ... INTO", "FOR": "FOR, which locks rows or reads others", "LOCK": "LOCK IN SHARE MODE", "PROCEDURE": "PROCEDURE", "AGAINST": "MATCH ... AGAINST",
	"WITHIN": "WITHIN GROUP", "QUALIFY": "QUALIFY", "TABLE": "a TABLE statement", "VALUES": "VALUES", "RETURNING": "RETURNING",
	"RESPECT": "RESPECT NULLS", "IGNORE": "IGNORE NULLS", "OPERATOR": "OPERATOR()", "FULL": "FULL JOIN",
}

// unexpected fails at the next token.
func (p *parser) unexpected() {
	t := p.peek()
	if reason := reasons[t.Word]; reason != "" && t.Kind == Word {
		p.fail(t, reason)
	}
	switch t.Kind {
	case End:
		p.fail(t, "an end where more is expected")
	case Hint:
		p.fail(t, "an optimizer hint that isn't after SELECT")
	case Operator:
		if t.Word == ";" {
			p.fail(t, "several statements")
		}
	}
	p.fail(t, "unknown syntax at "+shorten(p.text[t.From:t.To]))
}

func (p *parser) peek() Token { return p.tokens[p.i] }

// at returns the token n places after the next one.
func (p *parser) at(n int) Token { return p.tokens[min(p.i+n, len(p.tokens)-1)] }

func (p *parser) next() Token {
	t := p.tokens[p.i]
	if t.Kind != End {
		p.i++
	}
	return t
}

// is reports whether a token is this keyword or operator.
func (t Token) is(word string) bool {
	return t.Word == word && (t.Kind == Word || t.Kind == Operator)
}

// isOne reports whether a token is one of these keywords or operators.
func (t Token) isOne(words ...string) bool {
	return t.Word != "" && slices.Contains(words, t.Word)
}

// accept moves over the next token if it is this keyword or operator.
func (p *parser) accept(word string) bool {
	if p.tokens[p.i].Word == word {
		p.i++
		return true
	}
	return false
}

func (p *parser) expect(word string) Token {
	if !p.peek().is(word) {
		p.unexpected()
	}
	return p.next()
}

// end returns the end of the last token.
func (p *parser) end() int { return p.tokens[p.i-1].To }

// text of a token.
func (p *parser) of(t Token) string { return p.text[t.From:t.To] }

func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.peek(), "a statement that is nested too deeply")
	}
}

func (p *parser) leave() { p.depth-- }

// isQuery reports whether a query begins at the index of a token, which may be in parentheses that
// belong to the query alone.
func (p *parser) isQuery(i int) bool {
	// ((SELECT 1) + 1) isn't one, ((SELECT 1) UNION (SELECT 2)) is: what follows the inner parentheses decides.
	query := true
	for p.tokens[i].is("(") {
		after := p.tokens[p.closing(i)+1]
		query = after.is(")") || after.isOne("UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH")
		if !query {
			return false
		}
		i++
	}
	return p.tokens[i].isOne("SELECT", "WITH")
}

// query reads a query expression without parentheres around it.
func (p *parser) query() *Query {
	p.enter()
	defer p.leave()
	q := &Query{Span: Span{From: p.peek().From}}
	if p.accept("WITH") {
		q.Recursive = p.accept("RECURSIVE")
		for {
			q.With = append(q.With, p.cte())
			if !p.accept(",") {
				break
			}
		}
	}
	if p.peek().is("(") {
		q.First = p.parenthesized()
	} else {
		q.Body = p.selection()
	}
	for p.peek().isOne("UNION", "INTERSECT", "EXCEPT") {
		b := Branch{Op: p.next().Word}
		b.All = p.accept("ALL")
		if !b.All {
			p.accept("DISTINCT")
		}
		b.From = p.peek().From
		if p.peek().is("(") {
			b.Query = p.parenthesized()
		} else {
			sel := p.selection()
			b.Query = &Query{Span: sel.Span, Body: sel, Tail: Span{sel.To, sel.To}}
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
	if t := p.peek(); !t.isOne("SELECT", "WITH", "(") {
		p.unexpected()
	}
	q := p.query()
	p.expect(")")
	return q
}

func (p *parser) cte() CTE {
	c := CTE{Span: Span{From: p.peek().From}, Name: p.name()}
	if p.peek().is("(") {
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
		case t.is("LIMIT") && q.Limit == nil:
			p.next()
			if p.peek().is("ALL") {
				p.fail(p.peek(), "LIMIT ALL")
			}
			q.Limit = p.expr()
			if p.peek().is(",") && p.syn.LimitComma && q.Offset == nil {
				p.next()
				q.Offset = q.Limit
				q.Limit = p.expr()
			}
			if p.peek().is("ROWS") {
				p.fail(p.peek(), "ROWS EXAMINED")
			}
		case t.is("OFFSET") && q.Offset == nil:
			p.next()
			q.Offset = p.expr()
			if p.peek().isOne("ROW", "ROWS") {
				p.next()
			}
		case t.is("FETCH") && q.Limit == nil:
			p.next()
			if !p.accept("FIRST") {
				p.expect("NEXT")
			}
			if p.peek().isOne("ROW", "ROWS") {
				p.fail(t, "FETCH without a number")
			}
			q.Limit = p.expr()
			if !p.accept("ROW") {
				p.expect("ROWS")
			}
			if p.peek().is("WITH") {
				p.fail(p.peek(), "WITH TIES")
			}
			p.expect("ONLY")
		default:
			if p.i == start {
				q.Tail = Span{p.end(), p.end()}
			} else {
				q.Tail = Span{from, p.end()}
			}
			return
		}
	}
}

func (p *parser) orders() (list []Order) {
	for {
		o := Order{Span: Span{From: p.peek().From}}
		o.Expr = p.expr()
		if !p.accept("ASC") {
			o.Desc = p.accept("DESC")
		}
		if p.accept("NULLS") {
			if t := p.next(); !t.isOne("FIRST", "LAST") {
				p.fail(t, "unknown syntax after NULLS")
			} else {
				o.Nulls = t.Word
			}
		}
		o.To = p.end()
		list = append(list, o)
		if !p.accept(",") {
			return list
		}
	}
}

// selection reads a SELECT with its clauses.
func (p *parser) selection() *Select {
	s := &Select{Span: Span{From: p.peek().From}}
	p.expect("SELECT")
	p.options(s)
	s.ItemsSpan.From = p.peek().From
	for {
		s.Items = append(s.Items, p.item())
		if !p.accept(",") {
			break
		}
	}
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
		for {
			w := Window{Name: p.name()}
			p.expect("AS")
			w.Over = p.over()
			s.Windows = append(s.Windows, w)
			if !p.accept(",") {
				break
			}
		}
	}
	s.To = p.end()
	return s
}

// options reads what stands between SELECT and its list.
func (p *parser) options(s *Select) {
	for {
		switch t := p.peek(); {
		case t.Kind == Hint:
			s.Options = append(s.Options, p.of(t))
		case t.is("DISTINCT"), t.is("DISTINCTROW") && p.syn.Introducer:
			s.Distinct = true
			if p.at(1).is("ON") {
				p.fail(t, "DISTINCT ON")
			}
		case t.is("ALL"):
		case t.Kind == Word && p.syn.Introducer && options[t.Word]:
			s.Options = append(s.Options, t.Word)
		default:
			return
		}
		p.next()
	}
}

func (p *parser) item() Item {
	it := Item{Span: Span{From: p.peek().From}}
	if p.accept("*") {
		it.Star = true
		it.To = p.end()
		return it
	}
	// t.* and d.t.*
	for n := 1; p.at(n).is(".") && n <= 3; n += 2 {
		if p.at(n + 1).is("*") {
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

// alias reads [AS] name, if there is one. Texts reports whether the name may be a string.
func (p *parser) alias(texts bool) string {
	texts = texts && !p.syn.Casts
	t := p.peek()
	if p.accept("AS") {
		t = p.peek()
		if texts && t.Kind == String && chars[p.text[t.From]]&charWord == 0 {
			return p.stringName(p.next())
		}
		if texts && t.Kind == Word {
			// After AS of an expression, some servers permit any word.
			p.next()
			return p.fold(p.of(t))
		}
		return p.name()
	}
	switch {
	case t.Kind == Quoted:
		return p.name()
	case t.Kind == String && texts && chars[p.text[t.From]]&charWord == 0:
		return p.stringName(p.next())
	case t.Kind == Word && !keyword(t.Word).notAlias:
		return p.name()
	}
	return ""
}

// stringName returns the name that a string stands for.
func (p *parser) stringName(t Token) string {
	if strings.IndexByte(p.of(t), '\\') >= 0 || p.peek().Kind == String {
		p.fail(t, "an alias that isn't simple")
	}
	return unquote(p.of(t))
}

// name reads a name.
func (p *parser) name() string {
	t := p.peek()
	switch {
	case t.Kind == Word && !keyword(t.Word).reserved:
		p.next()
		return p.limited(t, p.fold(p.of(t)))
	case t.Kind == Quoted:
		p.next()
		return p.limited(t, unquote(p.of(t)))
	}
	p.unexpected()
	return ""
}

// member reads a name after a point, where every word is one.
func (p *parser) member() string {
	if t := p.peek(); t.Kind == Word {
		p.next()
		return p.limited(t, p.fold(p.of(t)))
	}
	return p.name()
}

// maxName is the length in bytes at which servers with Syntax.Casts cut names, without an error.
const maxName = 63

func (p *parser) limited(t Token, name string) string {
	if p.syn.Casts && len(name) > maxName {
		p.fail(t, "a name of more than 63 bytes")
	}
	return name
}

// fold returns a name without quotes as the server takes it.
func (p *parser) fold(name string) string {
	if !p.syn.Casts {
		return name
	}
	for i := range len(name) {
		if c := name[i]; c >= 'A' && c <= 'Z' {
			return strings.Map(func(r rune) rune {
				if r >= 'A' && r <= 'Z' {
					r += 'a' - 'A'
				}
				return r
			}, name)
		}
	}
	return name
}

// unquote returns the name within quotes.
func unquote(s string) string {
	quote := s[:1]
	inner := s[1 : len(s)-1]
	if quote != "[" && strings.Contains(inner, quote) {
		inner = strings.ReplaceAll(inner, quote+quote, quote)
	}
	return inner
}

// names reads (name, ...).
func (p *parser) names() (list []string) {
	p.expect("(")
	for {
		list = append(list, p.name())
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return list
}

// groupBy reads the operand of GROUP BY.
func (p *parser) groupBy(s *Select) {
	if p.peek().isOne("ALL", "DISTINCT") {
		p.fail(p.peek(), "GROUP BY "+p.peek().Word)
	}
	s.GroupSpan.From = p.peek().From
	for {
		s.GroupBy = append(s.GroupBy, p.groupElement(s))
		if p.peek().isOne("ASC", "DESC") {
			p.fail(p.peek(), "GROUP BY with an order")
		}
		if !p.accept(",") {
			break
		}
	}
	s.GroupSpan.To = p.end()
	if p.peek().is("WITH") && p.at(1).is("ROLLUP") && p.syn.Rollup {
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
	case t.is("(") && p.at(1).is(")"):
		p.next()
		p.next()
		s.Sets = true
		return p.new(Row, t.From)
	case t.isOne("ROLLUP", "CUBE") && p.at(1).is("("):
		name = strings.ToLower(t.Word)
	case t.is("GROUPING") && p.at(1).is("SETS"):
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
	for {
		args = append(args, p.groupElement(s))
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	e := p.new(Call, t.From)
	e.Name, e.Args = name, args
	return e
}
