package parse

import (
	"strings"

	"github.com/rowmill/rowmill/internal/sqltext"
)

// A cursor is a place among the tokens of a text. Like the methods of a parser, its methods panic
// with a *sqltext.Error at a token that they can't read.
type cursor struct {
	text   string
	syn    sqltext.Syntax
	tokens []sqltext.Token // with an End
	match  []int32         // of each token: the index of its ) if it is a (, else 0
	i      int
	depth  int
}

// scan reads all tokens and matches parentheses.
func (c *cursor) scan() error {
	c.tokens = make([]sqltext.Token, 0, len(c.text)/5+8)
	c.match = make([]int32, 0, cap(c.tokens))
	var open []int32
	for s := sqltext.NewScanner(c.text, c.syn); ; {
		t, err := s.Next()
		if err != nil {
			return err
		}
		switch {
		case t.Kind == sqltext.UserVar:
			return sqltext.ErrorAt(c.text, t.From, "user variable "+shorten(c.text[t.From:t.To]))
		case t.Kind == sqltext.Executable:
			return sqltext.ErrorAt(c.text, t.From, "executable comment")
		case t.Word == "(" && t.Kind == sqltext.Operator:
			open = append(open, int32(len(c.tokens)))
		case t.Word == ")" && t.Kind == sqltext.Operator:
			if len(open) == 0 {
				return sqltext.ErrorAt(c.text, t.From, "a ) without its (")
			}
			c.match[open[len(open)-1]] = int32(len(c.tokens))
			open = open[:len(open)-1]
		}
		c.tokens, c.match = append(c.tokens, t), append(c.match, 0)
		if t.Kind == sqltext.End {
			break
		}
	}
	if len(open) > 0 {
		return sqltext.ErrorAt(c.text, c.tokens[open[len(open)-1]].From, "a ( without its )")
	}
	return nil
}

// closing returns the index of the ) that closes the ( at index i.
func (c *cursor) closing(i int) int { return int(c.match[i]) }

// shorten returns a text for a message. Of a long text it returns the beginning.
func shorten(s string) string {
	const limit = 40
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return s
}

func (c *cursor) fail(t sqltext.Token, reason string) {
	panic(sqltext.ErrorAt(c.text, t.From, reason))
}

// reasons names the construct that the parser doesn't read, by the word at which the parser fails.
var reasons = map[string]string{
	"INTO": "SELECT ... INTO", "FOR": "FOR, which locks rows or reads others", "LOCK": "LOCK IN SHARE MODE", "PROCEDURE": "PROCEDURE", "AGAINST": "MATCH ... AGAINST",
	"WITHIN": "WITHIN GROUP", "QUALIFY": "QUALIFY", "TABLE": "a TABLE statement", "VALUES": "VALUES", "RETURNING": "RETURNING",
	"RESPECT": "RESPECT NULLS", "IGNORE": "IGNORE NULLS or an index hint", "OPERATOR": "OPERATOR()", "FULL": "FULL JOIN", "USE": "an index hint", "FORCE": "an index hint",
}

// unexpected fails at the next token.
func (c *cursor) unexpected() {
	t := c.peek()
	if reason := reasons[t.Word]; reason != "" && t.Kind == sqltext.Word {
		c.fail(t, reason)
	}
	switch {
	case t.Kind == sqltext.End:
		c.fail(t, "an end where more is expected")
	case t.Kind == sqltext.Hint:
		c.fail(t, "an optimizer hint that isn't after SELECT")
	case t.Is(";"):
		c.fail(t, "several statements")
	}
	c.fail(t, "unknown syntax at "+shorten(c.text[t.From:t.To]))
}

func (c *cursor) peek() sqltext.Token { return c.tokens[c.i] }

// at returns the token n places after the next one.
func (c *cursor) at(n int) sqltext.Token { return c.tokens[min(c.i+n, len(c.tokens)-1)] }

func (c *cursor) next() sqltext.Token {
	t := c.tokens[c.i]
	if t.Kind != sqltext.End {
		c.i++
	}
	return t
}

// accept moves over the next token if it is this keyword or operator.
func (c *cursor) accept(word string) bool {
	if c.tokens[c.i].Word == word {
		c.i++
		return true
	}
	return false
}

// list reads elements with commas between them.
func (c *cursor) list(element func()) {
	for element(); c.accept(","); {
		element()
	}
}

func (c *cursor) expect(word string) sqltext.Token {
	if !c.peek().Is(word) {
		c.unexpected()
	}
	return c.next()
}

// end returns the end of the token that was read last.
func (c *cursor) end() int { return c.tokens[c.i-1].To }

// of returns the text of a token.
func (c *cursor) of(t sqltext.Token) string { return c.text[t.From:t.To] }

func (c *cursor) enter() {
	if c.depth++; c.depth > maxDepth {
		c.fail(c.peek(), "a statement that is nested too deeply")
	}
}

func (c *cursor) leave() { c.depth-- }

// isQuery reports whether a query begins at token i. The query may be in parentheses, with nothing
// else inside them.
func (c *cursor) isQuery(i int) bool {
	// The token behind the inner parentheses decides: ((SELECT 1) UNION (SELECT 2)) is a query, and
	// ((SELECT 1) + 1) isn't.
	query := true
	for c.tokens[i].Is("(") {
		after := c.tokens[c.closing(i)+1]
		query = after.Is(")") || after.IsOne("UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH")
		if !query {
			return false
		}
		i++
	}
	return c.tokens[i].IsOne("SELECT", "WITH")
}

// alias reads [AS] name, if there is one. texts reports whether the name may be a string.
func (c *cursor) alias(texts bool) string {
	texts = texts && !c.syn.Casts
	t := c.peek()
	if c.accept("AS") {
		t = c.peek()
		if texts && t.Kind == sqltext.String && !sqltext.Prefixed(c.text[t.From:]) {
			return c.stringName(c.next())
		}
		if texts && t.Kind == sqltext.Word {
			// After AS of an expression, some servers permit any word.
			c.next()
			return c.fold(c.of(t))
		}
		return c.name()
	}
	switch {
	case t.Kind == sqltext.Quoted:
		return c.name()
	case t.Kind == sqltext.String && texts && !sqltext.Prefixed(c.text[t.From:]):
		return c.stringName(c.next())
	case t.Kind == sqltext.Word && !sqltext.LookUp(t.Word).NotAlias:
		return c.name()
	}
	return ""
}

// stringName returns the name that a string stands for.
func (c *cursor) stringName(t sqltext.Token) string {
	if strings.IndexByte(c.of(t), '\\') >= 0 || c.peek().Kind == sqltext.String {
		c.fail(t, "an alias that isn't simple")
	}
	return unquote(c.of(t))
}

// name reads a name.
func (c *cursor) name() string {
	t := c.peek()
	switch {
	case t.Kind == sqltext.Word && !sqltext.LookUp(t.Word).Reserved:
		c.next()
		return c.limited(t, c.fold(c.of(t)))
	case t.Kind == sqltext.Quoted:
		c.next()
		return c.limited(t, unquote(c.of(t)))
	}
	c.unexpected()
	return ""
}

// member reads a name after a point, where reserved words are names, too.
func (c *cursor) member() string {
	if t := c.peek(); t.Kind == sqltext.Word {
		c.next()
		return c.limited(t, c.fold(c.of(t)))
	}
	return c.name()
}

// maxName is the length in bytes to which servers with Syntax.Casts cut names without an error.
const maxName = 63

func (c *cursor) limited(t sqltext.Token, name string) string {
	if c.syn.Casts && len(name) > maxName {
		c.fail(t, "a name of more than 63 bytes")
	}
	return name
}

// fold returns a name without quotes as the server understands it: in lower case with Syntax.Casts.
func (c *cursor) fold(name string) string {
	if !c.syn.Casts {
		return name
	}
	return strings.Map(func(r rune) rune { // ASCII letters only
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
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
func (c *cursor) names() (list []string) {
	c.expect("(")
	c.list(func() { list = append(list, c.name()) })
	c.expect(")")
	return list
}
