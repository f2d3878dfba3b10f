package parse

import (
	"github.com/rowmill/rowmill/internal/sqltext"
	"slices"
	"strings"
	"testing"
)

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ syntax, text, want string }{
		{"all", "", "an end where more is expected, line 1 column 1"},
		{"all", "UPDATE t SET a = 1", "not a SELECT, line 1 column 1"},
		{"all", "TABLE t", "not a SELECT, line 1 column 1"},
		{"all", "VALUES (1)", "not a SELECT, line 1 column 1"},
		{"all", "EXPLAIN SELECT 1", "not a SELECT, line 1 column 1"},
		{"all", "SELECT 1; SELECT 2", "unknown syntax at SELECT, line 1 column 11"},
		{"all", "SELECT a\nFROM t\n  FOR UPDATE", "FOR, which locks rows or reads others, line 3 column 3"},
		{"all", "SELECT a FROM t LOCK IN SHARE MODE", "LOCK IN SHARE MODE, line 1 column 17"},
		{"all", "SELECT a INTO b FROM t", "SELECT ... INTO, line 1 column 10"},
		{"all", "SELECT 'é', (a", "a ( without its ), line 1 column 13"},
		{"all", "SELECT a)", "a ) without its (, line 1 column 9"},
		{"all", "SELECT 'a", "a ' without its end, line 1 column 8"},
		{"all", "SELECT a /* b", "a comment without an end, line 1 column 10"},
		{"all", "SELECT a FROM t UNION", "an end where more is expected, line 1 column 22"},
		{"all", "SELECT a FROM t UNION VALUES (1)", "VALUES, line 1 column 23"},
		{"all", "SELECT a FROM f(1)", "a function in FROM, line 1 column 15"},
		{"all", "SELECT a FROM t ORDER BY a FETCH FIRST ROW ONLY", "FETCH without a number, line 1 column 28"},
		{"all", "SELECT a FROM t FETCH FIRST 1 ROWS WITH TIES", "WITH TIES, line 1 column 36"},
		{"my", "SELECT a FROM t USE INDEX FOR ORDER BY (i)", "an index hint, line 1 column 17"},
		{"my", "SELECT a FROM t AS x FORCE INDEX (i)", "an index hint, line 1 column 22"},
		{"my", "SELECT a FROM t IGNORE KEY (j)", "IGNORE NULLS or an index hint, line 1 column 17"},
		{"my", "SELECT a FROM t FOR SYSTEM_TIME ALL", "FOR, which locks rows or reads others, line 1 column 17"},
		{"pg", "SELECT a FROM t TABLESAMPLE SYSTEM (1)", "unknown syntax at TABLESAMPLE, line 1 column 17"},
		{"lite", "SELECT a FROM t INDEXED BY i", "unknown syntax at INDEXED, line 1 column 17"},
		{"all", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "WITHIN GROUP, line 1 column 29"},
		{"all", "SELECT first_value(a) IGNORE NULLS OVER w", "IGNORE NULLS or an index hint, line 1 column 23"},
		{"all", "SELECT MATCH (a) AGAINST ('x')", "MATCH ... AGAINST, line 1 column 8"},
		{"all", "SELECT a LIKE b LIKE c", "a condition such as LIKE or BETWEEN as the operand of another, without parentheses, line 1 column 17"},
		{"all", "SELECT a = NOT b", "NOT within an expression, line 1 column 12"},
		{"all", "SELECT a IN ((SELECT 1))", "IN with a query in double parentheses, line 1 column 13"},
		{"all", "SELECT * FROM (a JOIN b ON 1 = 1) x", "an alias of a join, line 1 column 15"},
		{"all", "SELECT 1a", "a name that begins with a digit, line 1 column 8"},
		{"all", "SELECT t.5 FROM t", "unknown syntax at 5, line 1 column 10"},
		{"all", "SELECT a FROM t /*+ x */", "an optimizer hint that isn't after SELECT, line 1 column 17"},
		{"all", "SELECT " + strings.Repeat("(", 500) + "1" + strings.Repeat(")", 500), "a statement that is nested too deeply, line 1 column 207"},
		{"all", "SELECT a FROM t GROUP BY a DESC", "GROUP BY with an order, line 1 column 28"},
		{"all", "SELECT \xff", "a text that isn't UTF-8, line 1 column 1"},
		{"my", "SELECT @x", "user variable @x, line 1 column 8"},
		{"my", "SELECT @@sql_mode", "user variable @@sql_mode, line 1 column 8"},
		{"my", "SELECT a /*!50000 , b */ FROM t", "executable comment, line 1 column 10"},
		{"my", "SELECT a /*M! , b */ FROM t", "executable comment, line 1 column 10"},
		{"my", "SELECT COUNT (a) FROM t", "a space between COUNT and (, line 1 column 8"},
		{"my", "SELECT a FROM t FULL JOIN u USING (x)", "FULL JOIN, line 1 column 17"},
		{"my", "SELECT a FROM t JOIN u JOIN v ON 1 ON 2", "a join without a condition before another join, line 1 column 24"},
		{"my", "SELECT a FROM t CROSS JOIN u RIGHT JOIN v ON 1", "a join after one without a condition, line 1 column 30"},
		{"my", "SELECT INTERVAL (1) + 2 DAY", "an unknown form of INTERVAL, line 1 column 8"},
		{"my", "SELECT _nocharset'x'", "an unknown character set, line 1 column 8"},
		{"my", "SELECT a FROM t LIMIT 1 ROWS EXAMINED 5", "ROWS EXAMINED, line 1 column 25"},
		{"my", "SELECT a FROM t PROCEDURE analyse()", "PROCEDURE, line 1 column 17"},
		{"my", "SELECT NEXT VALUE FOR s", "NEXT VALUE, line 1 column 8"},
		{"high", "SELECT NOT a", "NOT as HIGH_NOT_PRECEDENCE has it, line 1 column 8"},
		{"my", "SELECT $a", "a name that begins with $, line 1 column 8"},
		{"pg", "SELECT DISTINCT ON (a) a FROM t", "DISTINCT ON, line 1 column 8"},
		{"pg", "SELECT a FROM ONLY t", "ONLY, line 1 column 15"},
		{"pg", "SELECT 'a' 'b'", "adjacent strings, line 1 column 12"},
		{"pg", "SELECT foo 'b'", "an unknown type before a string, line 1 column 8"},
		{"pg", `SELECT U&"a"`, "U& escapes, line 1 column 8"},
		{"pg", "SELECT " + strings.Repeat("x", 64), ""},
		{"pg", "SELECT a FROM t LIMIT ALL", "LIMIT ALL, line 1 column 23"},
		{"pg", "SELECT a FROM t GROUP BY DISTINCT a", "GROUP BY DISTINCT, line 1 column 26"},
		{"pg", "SELECT (a).b", "unknown syntax at ., line 1 column 11"},
		{"pg", "SELECT a JOIN b", "unknown syntax at JOIN, line 1 column 10"},
		{"lite", "SELECT a NOT NULL", "unknown syntax at NOT, line 1 column 10"},
		{"lite", "SELECT a IN t", "IN without (, line 1 column 13"},
		{"lite", "SELECT :name", "unknown syntax at :, line 1 column 8"},
		{"lite", "SELECT a MATCH 'x'", "unknown syntax at MATCH, line 1 column 10"},
	} {
		kinds := strings.Fields(c.syntax)
		if c.syntax == "all" {
			kinds = []string{"my", "pg", "lite"}
		}
		for _, kind := range kinds {
			q, err := Parse(c.text, syntaxes[kind])
			switch {
			case err == nil:
				t.Errorf("%s: %s: no error but %s", kind, c.text, show(c.text, q))
			case c.want != "" && err.Error() != c.want:
				t.Errorf("%s: %s: %q, want %q", kind, c.text, err, c.want)
			}
		}
	}
}

func TestStatements(t *testing.T) {
	for _, c := range []struct {
		syntax, text string
		want         []string // nil is an error
	}{
		{"all", "", []string{}},
		{"all", " ; ;-- x\n;", []string{}},
		{"all", "SELECT 1; SELECT ';' ; /* ; */ x", []string{"SELECT 1", "SELECT ';'", "x"}},
		{"my", "SELECT `;`, \";\" # ;\n; SELECT '\\';'", []string{"SELECT `;`, \";\"", "SELECT '\\';'"}},
		{"my", "/*!40101 SET NAMES 'utf8' */; SELECT 1", []string{"/*!40101 SET NAMES 'utf8' */", "SELECT 1"}},
		{"my", "/*!40101 SELECT 1; */ SELECT 1", nil},
		{"my", "/*!40101 SELECT '*/' */ SELECT 1", nil},
		{"my", "SET @x = 1; SELECT @x", []string{"SET @x = 1", "SELECT @x"}},
		{"my", "CREATE PROCEDURE p() BEGIN SELECT 1; END; SELECT 2", nil},
		{"my", "CREATE PROCEDURE p() SELECT 1; SELECT 2", []string{"CREATE PROCEDURE p() SELECT 1", "SELECT 2"}},
		{"my", "BEGIN; SELECT 1; COMMIT", []string{"BEGIN", "SELECT 1", "COMMIT"}},
		{"my", "BEGIN NOT ATOMIC SELECT 1; END", nil},
		{"my", "IF 1 THEN SELECT 1; END IF", nil},
		{"pg", "SELECT $$;$$; SELECT $a$ $$;$$ $a$, E'\\';'", []string{"SELECT $$;$$", "SELECT $a$ $$;$$ $a$, E'\\';'"}},
		{"pg", "SELECT /* /* ; */ ; */ 1; SELECT ';\\'", []string{"SELECT /* /* ; */ ; */ 1", "SELECT ';\\'"}},
		{"lite", "SELECT [;]; SELECT 2", []string{"SELECT [;]", "SELECT 2"}},
		{"lite", "CREATE TRIGGER t AFTER INSERT ON u BEGIN SELECT 1; END; SELECT 2", nil},
	} {
		kinds := strings.Fields(c.syntax)
		if c.syntax == "all" {
			kinds = []string{"my", "pg", "lite"}
		}
		for _, kind := range kinds {
			spans, err := Statements(c.text, syntaxes[kind])
			got := []string{}
			for _, s := range spans {
				got = append(got, s.Of(c.text))
			}
			if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(got, c.want) {
				t.Errorf("%s: %s: %q, %v; want %q", kind, c.text, got, err, c.want)
			}
		}
	}
}

func TestNormal(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"select a\n from t -- x\n where a='x'", " SELECT a FROM /* y */ t WHERE a='x';", true},
		{"SELECT 'A'", "SELECT 'a'", false},
		{"SELECT a FROM T", "SELECT a FROM t", false},
		{"SELECT t.select FROM t", "SELECT t.SELECT FROM t", false},
		{"SELECT a AS select_", "SELECT a AS SELECT_", false},
		{"SELECT 'a  b'", "SELECT 'a b'", false},
		{"SELECT a--/* x */1", "SELECT a--1", false},
		{"SELECT /*+ x */ a", "SELECT a", false},
		{"SELECT a - -1", "SELECT a", false},
		{"SELECT `a  b`", "SELECT `a b`", false},
	} {
		a, errA := Normal(c.a, mySyntax)
		b, errB := Normal(c.b, mySyntax)
		if errA != nil || errB != nil || (a == b) != c.same {
			t.Errorf("%q and %q have the forms %q and %q: %v, %v", c.a, c.b, a, b, errA, errB)
		}
	}
	if _, err := Normal("SELECT 1; SELECT 2", mySyntax); err == nil {
		t.Error("two statements have a normal form")
	}
}

// parsed returns the expression of SELECT.
func parsed(t *testing.T, kind, expr string) (string, *Expr) {
	t.Helper()
	text := "SELECT " + expr + " FROM t"
	q, err := Parse(text, syntaxes[kind])
	if err != nil {
		t.Fatal(err)
	}
	return text, q.Body.Items[0].Expr
}

func TestEqual(t *testing.T) {
	fold := func(a, b []string) bool { return strings.EqualFold(a[len(a)-1], b[len(b)-1]) }
	for _, c := range []struct {
		kind, a, b string
		same       func(a, b []string) bool
		want       bool
	}{
		{"my", "date(ts)", "DATE( /* x */ ts )", nil, true},
		{"my", "a + 1", "(a) + 1", nil, true},
		{"my", "a + 1", "a + 01", nil, false},
		{"my", "a", "A", nil, false},
		{"my", "a", "t.A", fold, true},
		{"my", "f('x')", "f('X')", nil, false},
		{"my", "(a + b) * c", "a + b * c", nil, false},
		{"my", "a LIKE 'x'", "a NOT LIKE 'x'", nil, false},
		{"my", "EXTRACT(DAY FROM a)", "extract(day from a)", nil, true},
		{"my", "EXTRACT(DAY FROM a)", "EXTRACT(YEAR FROM a)", nil, false},
		{"my", "SUM(a)", "SUM(DISTINCT a)", nil, false},
		{"my", "COUNT(*)", "count(*)", nil, true},
		{"my", "COUNT(*)", "COUNT(a)", nil, false},
		{"my", "GROUP_CONCAT(a ORDER BY b)", "GROUP_CONCAT(a ORDER BY b DESC)", nil, false},
		{"my", "TRIM(LEADING 'x' FROM a)", "TRIM(TRAILING 'x' FROM a)", nil, false},
		{"my", "CAST(a AS CHAR)", "CAST(a AS SIGNED)", nil, false},
		{"my", "(SELECT 1)", "(SELECT 1)", nil, false},
		{"my", "?", "?", nil, false},
		{"my", "d.f(a)", "d.f(a)", nil, false},
		{"my", "a COLLATE utf8mb4_bin", "a COLLATE UTF8MB4_BIN", nil, true},
		{"my", "CASE a WHEN b THEN c END", "CASE WHEN a THEN b ELSE c END", nil, false},
		{"my", "a IS NULL", "a IS TRUE", nil, false},
		{"pg", "substring(a for 3)", "substring(a, 3)", nil, false},
		{"pg", "sum(a) FILTER (WHERE b)", "sum(a)", nil, false},
	} {
		_, a := parsed(t, c.kind, c.a)
		_, b := parsed(t, c.kind, c.b)
		if got := Equal(a, b, c.same); got != c.want || Equal(b, a, c.same) != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
		if !Equal(a, a, nil) {
			t.Errorf("%s isn't equal to itself", c.a)
		}
	}
}

func TestConjuncts(t *testing.T) {
	text, e := parsed(t, "my", "(a = 1 AND (b BETWEEN 1 AND 2 && (c OR d AND e))) AND NOT (f AND g)")
	var got []string
	for _, c := range Conjuncts(e) {
		got = append(got, c.Of(text))
	}
	if want := []string{"a = 1", "b BETWEEN 1 AND 2", "c OR d AND e", "NOT (f AND g)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if Conjuncts(nil) != nil {
		t.Error("conjuncts of nothing")
	}
}

func TestWalk(t *testing.T) {
	const text = `WITH w AS (SELECT c1) SELECT c2, f(c3 ORDER BY c4) FILTER (WHERE c5) OVER (PARTITION BY c6 ORDER BY c7), (SELECT c8)
FROM (SELECT c9) a JOIN b ON c10 WHERE c11 IN (SELECT c12) GROUP BY c13 HAVING c14 WINDOW x AS (ORDER BY c15) UNION SELECT c16 ORDER BY c17 LIMIT c18 OFFSET c19`
	q, err := Parse(text, pgSyntax)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	queries := 0
	q.Walk(func(*Query) bool { queries++; return true }, func(e *Expr) bool {
		if e.Kind == Column {
			got = append(got, e.Names[0])
		}
		return true
	})
	if want := strings.Fields("c1 c2 c3 c4 c5 c6 c7 c8 c9 c10 c12 c11 c13 c14 c15 c16 c17 c18 c19"); !slices.Equal(got, want) || queries != 6 {
		t.Errorf("%q in %d queries", got, queries)
	}
	// A visit that returns false ends there.
	got = nil
	q.Walk(func(x *Query) bool { return x == q }, func(e *Expr) bool {
		got = append(got, e.Of(text)[:2])
		return e.Kind != Call
	})
	if want := strings.Fields("c2 f( (S c1 c1 c1 c1 c1 c1 c1 c1 c1"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestReplace(t *testing.T) {
	got := Replace("SELECT a FROM t", []Edit{{sqltext.Span{From: 14, To: 15}, "u"}, {sqltext.Span{From: 7, To: 8}, ""}, {sqltext.Span{From: 7, To: 7}, "b, "}, {sqltext.Span{From: 7, To: 7}, "c"}})
	if got != "SELECT b, c FROM u" {
		t.Errorf("%q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("spans that overlap don't panic")
		}
	}()
	Replace("abc", []Edit{{sqltext.Span{From: 0, To: 2}, ""}, {sqltext.Span{From: 1, To: 3}, ""}})
}

// Classifying a statement by its first words needs no parse.
func TestScannerFirstWords(t *testing.T) {
	s := sqltext.NewScanner("/* x */ start /* y */ TRANSACTION \"", mySyntax)
	a, _ := s.Next()
	b, _ := s.Next()
	if _, err := s.Next(); a.Word != "START" || b.Word != "TRANSACTION" || err == nil {
		t.Errorf("%v %v %v", a, b, err)
	}
	if n := testing.AllocsPerRun(10, func() {
		s := sqltext.NewScanner(dashboard, mySyntax)
		for t, _ := s.Next(); t.Kind != sqltext.End; t, _ = s.Next() {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
