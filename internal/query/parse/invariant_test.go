package parse

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/sqltext"
)

// checkSpans fails unless the spans of a tree lie within those of what contains them, in order.
func checkSpans(t *testing.T, text string, q *Query) {
	t.Helper()
	within := func(what string, inner, outer sqltext.Span) {
		t.Helper()
		if inner.From < outer.From || inner.To > outer.To || inner.From > inner.To {
			t.Fatalf("%q: %s %v isn't within %v", text, what, inner, outer)
		}
	}
	var query func(q *Query, outer sqltext.Span)
	expr := func(e *Expr, outer sqltext.Span) {
		if e == nil {
			return
		}
		var visit func(e *Expr, outer sqltext.Span)
		visit = func(e *Expr, outer sqltext.Span) {
			within("expression", e.Span, outer)
			if e.From == e.To || strings.TrimSpace(e.Of(text)) != e.Of(text) {
				t.Fatalf("%q: expression %q is empty or has space around it", text, e.Of(text))
			}
			if e.Query != nil {
				query(e.Query, e.Span)
			}
			first := true
			Walk(e, func(x *Expr) bool {
				if first {
					first = false
					return true
				}
				visit(x, e.Span)
				return false
			})
		}
		visit(e, outer)
	}
	var from func(f *From, outer sqltext.Span)
	from = func(f *From, outer sqltext.Span) {
		within("operand of FROM", f.Span, outer)
		if f.Table != "" {
			within("table", f.Name, f.Span)
		}
		if f.Query != nil {
			query(f.Query, f.Span)
		}
		if f.Left != nil {
			from(f.Left, f.Span)
			from(f.Right, f.Span)
		}
		expr(f.On, f.Span)
	}
	selection := func(s *Select, outer sqltext.Span) {
		within("select", s.Span, outer)
		within("list", s.ItemsSpan, s.Span)
		for _, it := range s.Items {
			within("item", it.Span, s.ItemsSpan)
			expr(it.Expr, it.Span)
		}
		if s.From != nil {
			within("from", s.FromSpan, s.Span)
		}
		for _, f := range s.From {
			from(f, s.FromSpan)
		}
		expr(s.Where, s.Span)
		for _, e := range s.GroupBy {
			if e.To > e.From {
				within("group", e.Span, s.GroupSpan)
			}
		}
		expr(s.Having, s.Span)
	}
	query = func(q *Query, outer sqltext.Span) {
		within("query", q.Span, outer)
		for _, c := range q.With {
			within("with", c.Span, q.Span)
			query(c.Query, c.Span)
		}
		if (q.First == nil) == (q.Body == nil) {
			t.Fatalf("%q: a query has to have either First or Body", text)
		}
		if q.First != nil {
			query(q.First, q.Span)
		} else {
			selection(q.Body, q.Span)
		}
		for _, b := range q.Rest {
			within("branch", b.Span, q.Span)
			query(b.Query, b.Span)
		}
		within("tail", q.Tail, q.Span)
		for _, o := range q.OrderBy {
			within("order", o.Span, q.Tail)
			expr(o.Expr, o.Span)
		}
		expr(q.Limit, q.Tail)
		expr(q.Offset, q.Tail)
	}
	query(q, sqltext.Span{From: 0, To: len(text)})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"SELECT a, COUNT(DISTINCT b) c FROM t AS x LEFT JOIN u USING (k) WHERE a BETWEEN 1 AND 2 AND b IN (SELECT 1) GROUP BY a WITH ROLLUP HAVING c > 1 ORDER BY 1 DESC LIMIT 2, 3;",
		"(SELECT 1) UNION ALL (SELECT `a``b`, \"x\" FROM [t]) ORDER BY 1",
		"WITH RECURSIVE x AS (SELECT 1) SELECT CASE WHEN a THEN 'b\\'' ELSE -1.5e3 END, GROUP_CONCAT(a ORDER BY b SEPARATOR ',') FROM x",
		"SELECT a::int, E'\\'', $$a$$, interval '1' day, ARRAY[1], a[1:2], f(x) FILTER (WHERE y) OVER (PARTITION BY z ROWS 1 PRECEDING) FROM (a JOIN b ON c)",
		"SELECT /*+ x */ a /*! b */ -- c\n # d\n, INTERVAL (1) DAY, EXTRACT(day FROM a), TRIM(BOTH FROM x), @x, ?",
	} {
		for n := range 3 {
			f.Add(text, n)
		}
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		syntax := []sqltext.Syntax{mySyntax, pgSyntax, liteSyntax}[uint(n)%3]
		checkTokens(t, text, syntax)
		if normal, err := Normal(text, syntax); err == nil && utf8.ValidString(text) {
			again, err := Normal(normal, syntax)
			if err != nil || again != normal {
				t.Fatalf("%q: normal form %q has the normal form %q, %v", text, normal, again, err)
			}
			a, err1 := Parse(text, syntax)
			b, err2 := Parse(normal, syntax)
			if (err1 == nil) != (err2 == nil) {
				t.Fatalf("%q: %v, but its normal form %q: %v", text, err1, normal, err2)
			}
			if err1 == nil && !strings.EqualFold(show(text, a), show(normal, b)) && a.Tail.From == a.Tail.To && !strings.Contains(show(text, a), "::") {
				t.Fatalf("%q is %s\nits normal form %q is %s", text, show(text, a), normal, show(normal, b))
			}
		}
		if list, err := Statements(text, syntax); err == nil {
			at := 0
			for _, s := range list {
				if s.From < at || s.To <= s.From {
					t.Fatalf("%q: statements %v", text, list)
				}
				at = s.To
			}
		}
		if q, err := Parse(text, syntax); err == nil {
			checkSpans(t, text, q)
		} else if e := err.(*sqltext.Error); e.Line < 1 || e.Column < 1 || e.Reason == "" {
			t.Fatalf("%q: error %#v", text, e)
		}
	})
}

// checkTokens fails unless the tokens are parts of the text in order, with nothing but white space
// and comments between them.
func checkTokens(t *testing.T, text string, syntax sqltext.Syntax) {
	t.Helper()
	tokens, err := tokenize(text, syntax)
	if err != nil {
		return
	}
	at := 0
	var edits []Edit
	for _, k := range append(tokens, sqltext.Token{Span: sqltext.Span{From: len(text), To: len(text)}}) {
		if k.From < at || k.To < k.From || k.To > len(text) {
			t.Fatalf("%q: token %v after %d", text, k, at)
		}
		if gap := strings.TrimSpace(text[at:k.From]); gap != "" && !strings.HasPrefix(gap, "/*") && !strings.HasPrefix(gap, "--") && !strings.HasPrefix(gap, "#") {
			t.Fatalf("%q: %q between tokens", text, gap)
		}
		edits = append(edits, Edit{k.Span, text[k.From:k.To]})
		at = k.To
	}
	if got := Replace(text, edits); got != text {
		t.Fatalf("%q: replaced by the same it is %q", text, got)
	}
	if got := Replace(text, nil); got != text {
		t.Fatalf("%q: with nothing replaced it is %q", text, got)
	}
}

// tokenize returns the tokens of a text, without an End.
func tokenize(text string, syntax sqltext.Syntax) ([]sqltext.Token, error) {
	tokens := make([]sqltext.Token, 0, len(text)/4+4)
	for s := sqltext.NewScanner(text, syntax); ; {
		t, err := s.Next()
		if err != nil {
			return nil, err
		}
		if t.Kind == sqltext.End {
			return tokens, nil
		}
		tokens = append(tokens, t)
	}
}
