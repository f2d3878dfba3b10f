package query

import (
	"os"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestSQLite compares the queries of testdata/sqlite.txt about rolling tables in a file, whole and
// split. Before a query stands + if it is split, or a part of the reason for which it is whole.
func TestSQLite(t *testing.T) {
	d := &differential{kind: "sqlite", reader: testdb.Open(t, "sqlite").(engine.Reader)}
	statements := []string{
		"CREATE TABLE IF NOT EXISTS rowmill_periods (table_name TEXT, name TEXT, lower INTEGER, upper INTEGER)",
		"CREATE TABLE d (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT",
		"INSERT INTO d VALUES (1, 'one'), (2, 'Two'), (3, 'Ä')",
		"CREATE TABLE loose (id, x INTEGER)", "INSERT INTO loose VALUES (1, 1), ('1', 'x'), (2.0, 2)",
		"CREATE TABLE nocase (id INTEGER PRIMARY KEY, x TEXT COLLATE NOCASE) STRICT", "INSERT INTO nocase VALUES (1, 'a'), (2, 'A')",
	}
	// rolling appends a rolling table of three periods, the last of them empty. $ in rows is the
	// number of the period.
	rolling := func(name, columns, create, rows string) {
		var terms []string
		for i, p := range []string{"1", "2", "3"} {
			store := name + "_" + p
			terms = append(terms, "SELECT "+columns+` FROM "`+store+`"`)
			statements = append(statements, "CREATE TABLE "+store+create, "INSERT INTO rowmill_periods VALUES ('"+name+"', '"+p+"', "+p+", "+p+" + 1)")
			if i < 2 {
				statements = append(statements, "WITH RECURSIVE i(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM i WHERE i < 99) INSERT INTO "+store+" SELECT "+strings.ReplaceAll(rows, "$", p)+" FROM i")
			}
		}
		statements = append(statements, "CREATE VIEW "+name+" AS\n"+strings.Join(terms, "\nUNION ALL "))
	}
	rolling("r", `"s", "ts", "n", "v", "note", "big", "huge"`,
		" (s INTEGER NOT NULL, ts TEXT NOT NULL, n INTEGER, v REAL, note TEXT, big INTEGER, huge INTEGER, PRIMARY KEY (s, ts)) STRICT",
		`i % 7, '2026-01-0$ 00:00:' || printf('%02d', i), iif(i % 11 = 0, NULL, i * 37 % 101 - 30), i * 0.37 - 5.55,
CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a' WHEN 3 THEN 'A' ELSE 'Ä' END, 90000000000000 + i, iif(i = 0 AND $ = 1, 9223372036854775807, -1)`)
	// Values of all types in one column, declared types of several words, texts with a zero byte.
	rolling("e", `"id", "at", "price", "name", "x", "odd name", "bin"`,
		` (id INTEGER PRIMARY KEY, at DATETIME, price DECIMAL(10,2), name VARCHAR(20), x, "odd name" DOUBLE PRECISION, bin BLOB)`,
		`i + 100 * $, date('2026-01-01', i || ' days'), i % 4 * 0.5, CASE i % 6 WHEN 0 THEN 'a' || char(0) || i % 12 WHEN 1 THEN i % 9 WHEN 2 THEN NULL ELSE 'n''' || i % 3 END,
CASE i % 5 WHEN 0 THEN i % 3 WHEN 1 THEN i % 3 + 0.5 WHEN 2 THEN 't' || i % 3 WHEN 3 THEN x'00ff' ELSE NULL END, i / 3.0, CAST('b' || i % 3 AS BLOB)`)
	do(t, d.reader, statements...)
	d.compareOn(t, 2)
	list, err := os.ReadFile("testdata/sqlite.txt")
	if err != nil {
		t.Fatal(err)
	}
	split, all := 0, 0
	t.Run("query", func(t *testing.T) {
		for query := range strings.SplitSeq(strings.TrimSpace(string(list)), "\n") {
			want, text, found := strings.Cut(query, " | ")
			if !found {
				continue // a comment
			}
			if all++; want == "+" {
				split++
			}
			t.Run(text, func(t *testing.T) {
				t.Parallel()
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
	})
	if float64(split) < leastSplit*float64(all) {
		t.Errorf("%d of %d queries are split: want at least %.0f%%", split, all, leastSplit*100)
	}
}
