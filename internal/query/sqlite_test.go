package query

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestSQLite compares queries of a rolling table in a file, whole and split. A query begins with +, or with the reason
// for which it is whole.
func TestSQLite(t *testing.T) {
	d := &differential{kind: "sqlite", reader: testdb.Open(t, "sqlite").(engine.Reader)}
	const columns = `"s", "ts", "n", "v", "note", "big"`
	const create = ` (s INTEGER NOT NULL, ts TEXT NOT NULL, n INTEGER, v REAL, note TEXT, big INTEGER, PRIMARY KEY (s, ts)) STRICT`
	statements := []string{
		"CREATE TABLE IF NOT EXISTS rowmill_periods (table_name TEXT, name TEXT, lower INTEGER, upper INTEGER)",
		"CREATE TABLE d (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT",
		"INSERT INTO d VALUES (1, 'one'), (2, 'Two'), (3, 'Ä')",
		"CREATE TABLE loose (id, x INTEGER)", "INSERT INTO loose VALUES (1, 1), ('1', 'x'), (2.0, 2)",
		"CREATE TABLE nocase (id INTEGER PRIMARY KEY, x TEXT COLLATE NOCASE) STRICT", "INSERT INTO nocase VALUES (1, 'a'), (2, 'A')",
	}
	var terms []string
	for i, p := range []string{"1", "2", "3"} {
		terms = append(terms, "SELECT "+columns+` FROM "r_`+p+`"`)
		statements = append(statements, "CREATE TABLE r_"+p+create, "INSERT INTO rowmill_periods VALUES ('r', '"+p+"', "+p+", "+p+" + 1)")
		if i < 2 { // the last is empty
			statements = append(statements, `WITH RECURSIVE i(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM i WHERE i < 99)
INSERT INTO r_`+p+` SELECT i % 7, '2026-01-0`+p+` 00:00:' || printf('%02d', i), iif(i % 11 = 0, NULL, i * 37 % 101 - 30), i * 0.37,
CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a' WHEN 3 THEN 'A' ELSE 'Ä' END, 90000000000000 FROM i`)
		}
	}
	do(t, d.reader, append(statements, "CREATE VIEW r AS\n"+strings.Join(terms, "\nUNION ALL "))...)
	d.compareOn(t, 2)
	for query := range strings.SplitSeq(strings.TrimSpace(`
+ SELECT count(*) FROM r
+ SELECT count(*), count(n), count(nullif(n, 5)), sum(n), min(n), max(n) FROM r
+ SELECT count(*), sum(n), min(n) FROM r WHERE ts > '2027'
+ SELECT s, count(*), sum(n), max(n) FROM r GROUP BY s
+ SELECT s, sum(n) FROM r WHERE ts > '2027' GROUP BY s
+ SELECT s AS a, sum(n) AS t FROM r WHERE ts >= '2026-01-02' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3
+ SELECT count(*) AS c, s FROM r GROUP BY s ORDER BY c, s DESC LIMIT 2 OFFSET 1
+ SELECT s, count(*) FROM r GROUP BY s ORDER BY s LIMIT 5 OFFSET 100
+ SELECT n, count(*) FROM r GROUP BY n ORDER BY n
+ SELECT n, s, min(n) FROM r GROUP BY n, s ORDER BY n DESC, s
+ SELECT note, count(*) FROM r GROUP BY note ORDER BY note
+ SELECT DISTINCT note FROM r ORDER BY 1 DESC
+ SELECT DISTINCT s, note FROM r
+ SELECT * FROM r WHERE n > 50
+ SELECT v, n || 'x' FROM r WHERE v < 9
+ SELECT name, count(*) FROM r JOIN d ON id = s GROUP BY name
+ SELECT d.name, sum(r.n) FROM r LEFT JOIN d ON d.id = r.s AND r.n > 0 GROUP BY d.name ORDER BY 1
+ SELECT count(*) FROM r WHERE s IN (SELECT id FROM d)
+ SELECT a.n FROM r a WHERE a.n = (SELECT max(b.n) FROM r b WHERE b.s = a.s)
+ WITH x AS (SELECT s, n FROM r WHERE n > 0) SELECT s, sum(n) FROM x GROUP BY s ORDER BY s
+ SELECT count(*) "a b", sum("n") AS [x y], max(`+"`n`"+`) FROM main."r" AS [r r] -- it's
+ SELECT "s" FROM r GROUP BY s
types SELECT -s AS s, count(*) FROM r WHERE note = 'Ä' GROUP BY r.s
run again SELECT sum(big) FROM r
types SELECT avg(n) FROM r
types SELECT sum(v) FROM r
types SELECT min(v), max(note) FROM r
types SELECT sum(n > 0) FROM r
types SELECT sum(n) + 1 FROM r
types SELECT s, sum(n) FROM r GROUP BY s HAVING sum(n) > 10
types SELECT n FROM r ORDER BY n LIMIT 3
types SELECT * FROM r ORDER BY ts, s LIMIT 3
groups SELECT note COLLATE NOCASE, count(*) FROM r GROUP BY 1
groups SELECT substr(ts, 1, 10), count(*) FROM r GROUP BY 1
groups SELECT v, count(*) FROM r GROUP BY v
groups SELECT l.x, count(*) FROM r JOIN loose AS l ON l.id = r.s GROUP BY l.x
groups SELECT nc.x, count(*) FROM r JOIN nocase AS nc ON nc.id = r.s GROUP BY nc.x
groups SELECT u.a, count(*) FROM r JOIN (SELECT s AS a FROM r UNION ALL SELECT name FROM d) AS u ON u.a = r.s GROUP BY u.a
VALUES SELECT w.a, count(*) FROM r JOIN (SELECT d.id AS a FROM d UNION ALL VALUES ('x'), (1)) AS w ON w.a = r.s GROUP BY w.a
groups SELECT "nosuch", count(*) FROM r GROUP BY 1
neither SELECT s, max(n), ts FROM r GROUP BY s
certainty SELECT count(DISTINCT s) FROM r
certainty SELECT group_concat(s) FROM r
window SELECT s, row_number() OVER (ORDER BY ts, s) FROM r
RANDOM SELECT random() IS NULL, count(*) FROM r
only SELECT count(*) FROM d WHERE id NOT IN (SELECT s FROM r)
missing SELECT name, count(n) FROM d LEFT JOIN r ON id = s GROUP BY name
`), "\n") {
		want, text, _ := strings.Cut(query, " SELECT ")
		text = "SELECT " + text
		if rest, ok := strings.CutPrefix(query, "+ "); ok {
			want, text = "+", rest
		}
		t.Run(text, func(t *testing.T) {
			how, err := d.compare(within(t), text, nil, nil)
			switch {
			case err != nil:
				t.Fatal(err)
			case want == "+" && how.whole != "":
				t.Errorf("it isn't split: %s", how.whole)
			case want != "+" && !strings.Contains(how.whole, want):
				t.Errorf("it is split, or whole for another reason than %q: %q", want, how.whole)
			}
		})
	}
}
