package parse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sqltext"
)

// The lexical rules of the servers, as their engines give them.
var (
	mySyntax = sqltext.Syntax{Backslash: true, DoubleQuoted: true, Backquoted: true, Introducer: true, HashComments: true, DashSpace: true, ExecutableComments: true,
		WithRollup: true, LimitComma: true, UserVars: true}
	pgSyntax   = sqltext.Syntax{Dollar: true, Prefixed: true, NestedComments: true, ConcatPipes: true, Casts: true}
	liteSyntax = sqltext.Syntax{Backquoted: true, Bracketed: true, ConcatPipes: true, LimitComma: true}
	syntaxes   = map[string]sqltext.Syntax{"my": mySyntax, "pg": pgSyntax, "lite": liteSyntax, "high": {HighNot: true}}
)

// dump writes a tree with its spans as text.
type dump struct {
	text string
	b    strings.Builder
}

func show(text string, q *Query) string {
	d := &dump{text: text}
	d.query(q)
	return d.b.String()
}

func (d *dump) f(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

func (d *dump) query(q *Query) {
	for i, c := range q.With {
		d.f("with%s %s%v[%s] as (", map[bool]string{true: " recursive"}[q.Recursive], c.Name, c.Columns, c.Of(d.text)[:1])
		if i >= 0 {
			d.query(c.Query)
		}
		d.f(") ")
	}
	if q.First != nil {
		d.f("(")
		d.query(q.First)
		d.f(")")
	} else {
		d.selection(q.Body)
	}
	for _, b := range q.Rest {
		d.f(" %s", b.Op)
		if b.All {
			d.f(" ALL")
		}
		d.f(" {")
		d.query(b.Query)
		d.f("}")
	}
	d.orders(" order", q.OrderBy)
	d.maybe(" limit ", q.Limit)
	d.maybe(" offset ", q.Offset)
	if q.Tail.From < q.Tail.To {
		d.f(" tail<%s>", q.Tail.Of(d.text))
	}
}

func (d *dump) orders(name string, list []Order) {
	for _, o := range list {
		d.f("%s ", name)
		d.expr(o.Expr)
		if o.Desc {
			d.f(" desc")
		}
		if o.Nulls != "" {
			d.f(" nulls %s", o.Nulls)
		}
	}
}

func (d *dump) maybe(name string, e *Expr) {
	if e != nil {
		d.f("%s", name)
		d.expr(e)
	}
}

func (d *dump) selection(s *Select) {
	d.f("select")
	if s.Distinct {
		d.f(" distinct")
	}
	for _, o := range s.Options {
		d.f(" %s", o)
	}
	for _, it := range s.Items {
		d.f(" [")
		if it.Star {
			d.f("%s*", it.Table)
		} else {
			d.expr(it.Expr)
		}
		if it.Alias != "" {
			d.f(" as %s", it.Alias)
		}
		d.f("]")
	}
	for _, f := range s.From {
		d.f(" from ")
		d.from(f)
	}
	d.maybe(" where ", s.Where)
	for _, e := range s.GroupBy {
		d.maybe(" group ", e)
	}
	if s.Rollup {
		d.f(" rollup")
	}
	if s.Sets {
		d.f(" sets")
	}
	d.maybe(" having ", s.Having)
	for _, w := range s.Windows {
		d.f(" window %s", w.Name)
		d.over(w.Over)
	}
}

func (d *dump) from(f *From) {
	if f.Lateral {
		d.f("lateral ")
	}
	switch {
	case f.Query != nil:
		d.f("(")
		d.query(f.Query)
		d.f(")")
	case f.Join != "":
		d.f("{")
		d.from(f.Left)
		if f.Natural {
			d.f(" natural")
		}
		d.f(" %s ", f.Join)
		d.from(f.Right)
		d.maybe(" on ", f.On)
		if f.Using != nil {
			d.f(" using%v", f.Using)
		}
		d.f("}")
	default:
		if f.Database != "" {
			d.f("%s.", f.Database)
		}
		d.f("%s", f.Table)
		if got := f.Name.Of(d.text); got != f.Table {
			d.f("<%s>", got)
		}
		if f.Partitions != nil {
			d.f(" part%v", f.Partitions)
		}
	}
	if f.Alias != "" {
		d.f(" as %s", f.Alias)
	}
	if f.Columns != nil {
		d.f("%v", f.Columns)
	}
}

func (d *dump) over(o *Over) {
	d.f(" over(%s", o.Name)
	for _, e := range o.PartitionBy {
		d.maybe(" by ", e)
	}
	d.orders(" order", o.OrderBy)
	if o.Frame.To > 0 {
		d.f(" %s", o.Frame.Of(d.text))
	}
	d.f(")")
}

func (d *dump) expr(e *Expr) {
	not := ""
	if e.Not {
		not = "not "
	}
	list := func(name string) {
		d.f("(%s%s", not, name)
		for _, a := range e.Args {
			d.f(" ")
			d.expr(a)
		}
		if e.Query != nil {
			d.f(" ")
			d.query(e.Query)
		}
		d.f(")")
	}
	switch e.Kind {
	case Literal:
		d.f("%s", e.Name)
		if got := e.Of(d.text); got != e.Name {
			d.f("<%s>", got)
		}
	case Column:
		d.f("%s", strings.Join(e.Names, "."))
	case Param:
		d.f("%s", e.Of(d.text))
	case Call:
		d.f("%s", e.Name)
		if e.Qualified {
			d.f("!qualified")
		}
		if e.Unit != "" {
			d.f("!%s", e.Unit)
		}
		d.f("(")
		if e.Star {
			d.f("*")
		}
		if e.Distinct {
			d.f("distinct")
		}
		for i, a := range e.Args {
			if i > 0 || e.Distinct {
				d.f(" ")
			}
			d.expr(a)
		}
		d.orders(" order", e.OrderBy)
		if e.Separator != "" {
			d.f(" separator %s", e.Separator)
		}
		if e.Limited {
			d.f(" limited")
		}
		d.f(")")
		d.maybe(" filter ", e.Filter)
		if e.Over != nil {
			d.over(e.Over)
		}
	case Unary, Binary:
		list(e.Name)
	case Between:
		list("between")
	case In:
		list("in")
	case Exists:
		list("exists")
	case Subquery:
		list("query" + e.Name)
	case Case:
		list(e.Name)
	case Cast:
		list(e.Name + "::" + e.Type)
	case Row:
		list("row")
	case Paren:
		list("paren")
	case IsTest:
		list("is " + e.Name)
	case IntervalOf:
		list("interval " + e.Unit)
	case Collate:
		list("collate " + e.Name)
	case Array:
		list("array")
	case Index:
		list("index" + e.Name)
	default:
		d.f("KIND %d", e.Kind)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ syntax, text, want string }{
		{"all", "SELECT 1", "select [1]"},
		{"all", " select 1 ; ", "select [1]"},
		{"all", "SELECT a, b AS x, c y, t.*, * FROM t", "select [a] [b as x] [c as y] [t*] [*] from t"},
		{"all", "SELECT d.t.*, d.t.a FROM d . t -- end\n", "select [t*] [d.t.a] from d.t<d . t>"},
		{"all", "SELECT DISTINCT a/* x */FROM t", "select distinct [a] from t"},
		{"all", "SELECT ALL a FROM t WHERE a = 1 OR b = 2 AND NOT c = 3", "select [a] from t where (OR (= a 1) (AND (= b 2) (NOT (= c 3))))"},
		{"all", "SELECT a BETWEEN 1 AND 2 AND b NOT BETWEEN c + 1 AND d", "select [(AND (between a 1 2) (not between b (+ c 1) d))]"},
		{"all", "SELECT a IN (1, 2) OR a NOT IN (SELECT x FROM u)", "select [(OR (in a 1 2) (not in a select [x] from u))]"},
		{"all", "SELECT a LIKE 'x' ESCAPE '!' AND b NOT LIKE c", "select [(AND (LIKE a 'x' '!') (not LIKE b c))]"},
		{"all", "SELECT a IS NULL, b IS NOT NULL, c IS NOT TRUE", "select [(is NULL a)] [(not is NULL b)] [(not is TRUE c)]"},
		{"all", "SELECT a = b IS NULL FROM t", "select [(is NULL (= a b))] from t"},
		{"all", "SELECT 1 + 2 * 3 - -a", "select [(- (+ 1 (* 2 3)) (- a))]"},
		{"all", "SELECT (a), (a, b) = (1, 2), (SELECT 1), ((SELECT 1) + 1), ((SELECT 1))", "select [(paren a)] [(= (row a b) (row 1 2))] [(query select [1])] [(paren (+ (query select [1]) 1))] [(query select [1])]"},
		{"all", "SELECT EXISTS (SELECT 1), NOT EXISTS ((SELECT 1) UNION (SELECT 2))", "select [(exists select [1])] [(NOT (exists (select [1]) UNION {select [2]}))]"},
		{"all", "SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END, CASE WHEN a THEN b WHEN c THEN d END z", "select [(CASE x WHEN a 1 'x' 'y')] [(CASE WHEN a b c d) as z]"},
		{"all", "SELECT COUNT(*), Sum(a), count(DISTINCT a, b), COUNT(ALL a), f()", "select [count(*)] [sum(a)] [count(distinct a b)] [count(a)] [f()]"},
		{"all", "SELECT CAST(a AS decimal(10, 2)), cast( b AS CHAR )", "select [(cast::decimal(10, 2) a)] [(cast::CHAR b)]"},
		{"all", "SELECT db.f(1), a.b.c", "select [f!qualified(1)] [a.b.c]"},
		{"all", "SELECT sum(a) OVER (PARTITION BY b, c ORDER BY d DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) s, rank() OVER w FROM t WINDOW w AS (ORDER BY a)",
			"select [sum(a) over( by b by c order d desc ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) as s] [rank() over(w)] from t window w over( order a)"},
		{"all", "SELECT sum(a) FILTER (WHERE b > 1) FROM t", "select [sum(a) filter (> b 1)] from t"},
		{"all", "SELECT a COLLATE c = b", "select [(= (collate c a) b)]"},
		{"all", "SELECT CURRENT_TIMESTAMP, current_date", "select [current_timestamp()] [current_date()]"},
		{"all", "SELECT a FROM t GROUP BY a, b + 1 HAVING count(*) > 1 ORDER BY a DESC, 2 LIMIT 5 OFFSET 2",
			"select [a] from t group a group (+ b 1) having (> count(*) 1) order a desc order 2 limit 5 offset 2 tail<ORDER BY a DESC, 2 LIMIT 5 OFFSET 2>"},
		{"my lite", "SELECT a FROM t LIMIT 2, 5", "select [a] from t limit 5 offset 2 tail<LIMIT 2, 5>"},
		{"all", "SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS ONLY", "select [a] from t order a limit 3 tail<ORDER BY a FETCH FIRST 3 ROWS ONLY>"},
		{"all", "SELECT a FROM t OFFSET 2 ROWS FETCH NEXT 3 ROW ONLY", "select [a] from t limit 3 offset 2 tail<OFFSET 2 ROWS FETCH NEXT 3 ROW ONLY>"},
		{"pg lite", "SELECT a FROM t ORDER BY a NULLS LAST", "select [a] from t order a nulls LAST tail<ORDER BY a NULLS LAST>"},
		{"all", "SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY 1", "select [a] from t UNION ALL {select [b] from u} order 1 tail<ORDER BY 1>"},
		{"all", "(SELECT a FROM t ORDER BY a LIMIT 1) EXCEPT (SELECT b) LIMIT 2", "(select [a] from t order a limit 1 tail<ORDER BY a LIMIT 1>) EXCEPT {select [b]} limit 2 tail<LIMIT 2>"},
		{"all", "((SELECT a))", "select [a]"},
		{"all", "SELECT 1 INTERSECT SELECT 2 UNION DISTINCT (SELECT 3 LIMIT 1)", "select [1] INTERSECT {select [2]} UNION {select [3] limit 1 tail<LIMIT 1>}"},
		{"all", "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x), y AS (SELECT 2) SELECT n FROM x",
			"with recursive x[n][x] as (select [1] UNION ALL {select [(+ n 1)] from x}) with recursive y[][y] as (select [2]) select [n] from x"},
		{"all", "SELECT * FROM a, b AS c JOIN d ON c.x = d.x LEFT OUTER JOIN e USING (x, y)",
			"select [*] from a from {{b as c INNER d on (= c.x d.x)} LEFT e using[x y]}"},
		{"all", "SELECT * FROM a NATURAL LEFT JOIN b CROSS JOIN c", "select [*] from {{a natural LEFT b} CROSS c}"},
		{"all", "SELECT * FROM (a JOIN b ON a.x = b.x) LEFT JOIN (c JOIN d USING (x)) ON 1 = 1", "select [*] from {{a INNER b on (= a.x b.x)} LEFT {c INNER d using[x]} on (= 1 1)}"},
		{"all", "SELECT * FROM (SELECT 1 AS a) AS x(b), LATERAL (SELECT 2) y, ((SELECT 3) UNION (SELECT 4)) z, ((SELECT 5) q JOIN r USING (k))",
			"select [*] from (select [1 as a]) as x[b] from lateral (select [2]) as y from ((select [3]) UNION {select [4]}) as z from {(select [5]) as q INNER r using[k]}"},
		{"pg lite", `SELECT "a b"."c""d" FROM t`, `select [a b.c"d] from t`},
		{"all", "SELECT x'41', 'it''s'", "select [x'41'] ['it''s']"},
		{"my", "SELECT `a``b`, \"text\", 'it\\'s', 'a' 'b', _utf8mb4'x' y, _binary X'41', N'z', 0x1F, 0b01, b'1', 1.5e-3, .5, 1.",
			"select [a`b] [\"text\"] ['it\\'s'] ['a' 'b'] [_utf8mb4'x' as y] [_binary X'41'] [N'z'] [0x1F] [0b01] [b'1'] [1.5e-3] [.5] [1.]"},
		{"my", "SELECT a 'x', b AS 'y z', c AS `d`", "select [a as x] [b as y z] [c as d]"},
		{"my", "SELECT a # rest\n, b --1\n, c -- rest\n", "select [a] [(- b (- 1))] [c]"},
		{"my", "SELECT SQL_NO_CACHE STRAIGHT_JOIN DISTINCTROW a FROM t", "select distinct SQL_NO_CACHE STRAIGHT_JOIN [a] from t"},
		{"all", "SELECT /*+ NO_MERGE(t) */ a FROM t", "select /*+ NO_MERGE(t) */ [a] from t"},
		{"my", "SELECT a || b && c XOR d", "select [(OR a (XOR (AND b c) d))]"},
		{"pg lite", "SELECT a || b = c AND d", "select [(AND (= (|| a b) c) d)]"},
		{"my", "SELECT a DIV 2 MOD 3, MOD(a, 2), LEFT(a, 1), IF(a, b, c), !a, ~a, BINARY a = b", "select [(MOD (DIV a 2) 3)] [mod(a 2)] [left(a 1)] [if(a b c)] [(! a)] [(~ a)] [(= (BINARY a) b)]"},
		{"my", "SELECT a REGEXP 'x', a NOT RLIKE 'y', a SOUNDS LIKE b, 1 MEMBER OF (a), a->'$.x', t.a->>'$.y' FROM t",
			"select [(REGEXP a 'x')] [(not RLIKE a 'y')] [(SOUNDS LIKE a b)] [(MEMBER OF 1 a)] [(-> a '$.x')] [(->> t.a '$.y')] from t"},
		{"my", "SELECT a + INTERVAL 1 DAY, INTERVAL (a + 1) hour_minute + b, INTERVAL(1, 2, 3), DATE_ADD(a, INTERVAL b MONTH), DATE '2020-01-01'",
			"select [(+ a (interval DAY 1))] [(+ (interval HOUR_MINUTE (paren (+ a 1))) b)] [interval(1 2 3)] [date_add(a (interval MONTH b))] [DATE '2020-01-01']"},
		{"my", "SELECT TIMESTAMPDIFF(DAY, a, b), EXTRACT(YEAR_MONTH FROM a), GET_FORMAT(DATE, 'EUR'), CONVERT(a USING utf8mb4), CONVERT(a, UNSIGNED), CHAR(65 USING latin1)",
			"select [timestampdiff!DAY(a b)] [extract!YEAR_MONTH(a)] [get_format!DATE('EUR')] [(convert::utf8mb4 a)] [(convert::UNSIGNED a)] [char(65)]"},
		{"all", "SELECT TRIM(LEADING 'x' FROM a), TRIM(a), SUBSTRING(a FROM 2 FOR 3), POSITION('x' IN a)",
			"select [trim!LEADING FROM('x' a)] [trim(a)] [substring(a 2 3)] [position('x' a)]"},
		{"my", "SELECT GROUP_CONCAT(DISTINCT a, b ORDER BY c DESC, d SEPARATOR '; ' LIMIT 2) FROM t", "select [group_concat(distinct a b order c desc order d separator '; ' limited)] from t"},
		{"my", "SELECT a FROM t GROUP BY a, b WITH ROLLUP HAVING a", "select [a] from t group a group b rollup having a"},
		{"all", "SELECT a FROM t GROUP BY ROLLUP(a, (b, c)), GROUPING SETS ((a), (), CUBE(b))", "select [a] from t group rollup(a (row b c)) group grouping sets((paren a) (row) cube(b)) sets"},
		{"my", "SELECT a FROM d.t PARTITION (p0, p1) AS x", "select [a] from d.t<d.t> part[p0 p1] as x"},
		{"my", "SELECT a = ANY (SELECT 1), a > ALL (SELECT 2), a <=> b, a < SOME (SELECT 3)", "select [(= a (queryANY select [1]))] [(> a (queryALL select [2]))] [(<=> a b)] [(< a (queryANY select [3]))]"},
		{"my", "SELECT * FROM a STRAIGHT_JOIN b ON 1 JOIN c", "select [*] from {{a INNER b on 1} CROSS c}"},
		{"my", "SELECT user, offset, `select`, t.select FROM t", "select [user] [offset] [select] [t.select] from t"},
		{"pg", "SELECT Foo, \"Foo\", T.Bar FROM S.T AS Q", "select [foo] [Foo] [t.bar] from s.t<S.T> as q"},
		{"pg", "SELECT a::int + 1, b::varchar(10)[], c::timestamp with time zone, d::double precision", "select [(+ (::int a) 1)] [(::varchar(10)[] b)] [(::timestamp with time zone c)] [(::double precision d)]"},
		{"pg", "SELECT E'a\\'b', $$x'y$$, $t$ $$ $t$, $1, U::text, B'01', 'a\\'", "select [E'a\\'b'] [$$x'y$$] [$t$ $$ $t$] [$1] [(::text u)] [B'01'] ['a\\']"},
		{"pg", "SELECT a=-1, a @> b, a #>> c, @a, a !~* 'x', a ? 'k'", "select [(= a (- 1))] [(@> a b)] [(#>> a c)] [(@ a)] [(!~* a 'x')] [(? a 'k')]"},
		{"pg", "SELECT date '2020-01-01', interval '1' day, timestamp with time zone 'x', int4 '5', interval '1 day' AS i", "select [date '2020-01-01'] [interval '1' day] [timestamp with time zone 'x'] [int4 '5'] [interval '1 day' as i]"},
		{"pg", "SELECT ARRAY[1, 2], ARRAY(SELECT 1), a[1], a[1:2], a = ANY (b), a ILIKE 'x', a SIMILAR TO 'y', ts AT TIME ZONE 'utc', a IS DISTINCT FROM b",
			"select [(array 1 2)] [(array select [1])] [(index a 1)] [(index: a 1 2)] [(= a any(b))] [(ILIKE a 'x')] [(SIMILAR TO a 'y')] [(AT TIME ZONE ts 'utc')] [(is DISTINCT FROM a b)]"},
		{"pg", "SELECT string_agg(a, ',' ORDER BY b), user, extract(epoch from a) /* a /* b */ c */ FROM t x",
			"select [string_agg(a ',' order b)] [user()] [extract!EPOCH(a)] from t as x"},
		{"pg lite", "SELECT a ISNULL, b NOTNULL FROM t", "select [(is NULL a)] [(not is NULL b)] from t"},
		{"lite", "SELECT [a b], `c`, \"d\", ?1, a == b, a IS b, a IS NOT b, a GLOB 'x*', a -> 'b', a FROM t",
			"select [a b] [c] [d] [?1] [(== a b)] [(IS a b)] [(not IS a b)] [(GLOB a 'x*')] [(-> a 'b')] [a] from t"},
		{"lite", "SELECT * FROM a, b LEFT JOIN c ON 1, d", "select [*] from {{a CROSS b} LEFT c on 1} from d"},
		{"my pg", "SELECT * FROM a, b LEFT JOIN c ON 1, d", "select [*] from a from {b LEFT c on 1} from d"},
		{"lite", "SELECT a < b = c | d", "select [(= (< a b) (| c d))]"},
		{"my lite", "SELECT a FROM t WHERE a = ?", "select [a] from t where (= a ?)"},
	} {
		kinds := strings.Fields(c.syntax)
		if c.syntax == "all" {
			kinds = []string{"my", "pg", "lite"}
		}
		for _, kind := range kinds {
			q, err := Parse(c.text, syntaxes[kind])
			if c.want == "" {
				if err == nil {
					t.Errorf("%s: %s: no error", kind, c.text)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", kind, c.text, err)
				continue
			}
			want := c.want
			if kind == "lite" {
				want = strings.Replace(want, "from a from {{b as c INNER d on (= c.x d.x)}", "from {{{a CROSS b as c} INNER d on (= c.x d.x)}", 1)
			}
			if got := show(c.text, q); got != want {
				t.Errorf("%s: %s\n got %s\nwant %s", kind, c.text, got, want)
			}
			checkSpans(t, c.text, q)
		}
	}
}
