package sqlite

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestTempTableKeepsValues sends values of all types through a temporary table, as pieces do, and
// compares them in SQLite: with declared types and without, as their own texts where these are
// enough.
func TestTempTableKeepsValues(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, engine.Target{Scheme: "sqlite"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		`CREATE TABLE loose ("a ""b" , n NUMERIC, v VARCHAR(20), r DOUBLE PRECISION, i)`,
		`INSERT INTO loose VALUES (1, 1, 'x', 1, 1), (1.0, 1.5, '1', 0.1, NULL), ('1', '1e400', '', 9e999, x''), (x'31', x'', NULL, -9e999, ''), (NULL, -0.0, 'a' || char(0) || 'b', 3.3 * 1.1, 'it''s'),
(9223372036854775807, 9007199254740993, CAST(x'ff00fe' AS TEXT), 5e-324, -9223372036854775808), (0.1 + 0.2, 1e15 + 0.3, 'ä', 1.7976931348623157e308, x'00ff')`,
		"CREATE TABLE strict (i INTEGER, t TEXT, b BLOB, r REAL) STRICT",
		"INSERT INTO strict VALUES (1, 'a' || char(0), x'00', 1), (NULL, NULL, NULL, NULL), (-9223372036854775808, '', x'', 0.1 + 0.2)",
		`CREATE TABLE odd (x "PRIMARY KEY", y "a;b", z ANY)`,
	} {
		if _, err := db.SQL().ExecContext(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	read := func() *engine.Session {
		s, err := db.ReadSession(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	for _, query := range []string{`SELECT "a ""b", n, v, r, i, n + 0 AS e, typeof(i) AS t FROM loose`, "SELECT i, t, b, r, -r AS m FROM strict"} {
		c, merge := read(), read()
		cols, err := db.DescribeQuery(ctx, c, query)
		if err != nil {
			t.Fatal(err)
		}
		var list, same []string
		for i, col := range cols {
			name := dialect{}.Quote(col.Name)
			text := name
			if carried := db.Carry(col, name); carried != "" {
				text, cols[i].Carried = carried+" AS "+name, true
			}
			list = append(list, text)
			same = append(same, "x."+name+" IS y."+name, "typeof(x."+name+") = typeof(y."+name+")", "quote(x."+name+") = quote(y."+name+")", "hex(x."+name+") = hex(y."+name+")")
		}
		table, err := db.TempTable(ctx, merge, `it"s`, query, cols)
		if err != nil {
			t.Fatal(err)
		}
		var rows []byte
		n := 0
		err = c.Text(ctx, "SELECT "+strings.Join(list, ", ")+" FROM ("+query+")", nil, func(values [][]byte) (err error) {
			n++
			rows, err = table.Append(rows, values)
			return err
		})
		if err == nil {
			err = table.Insert(ctx, rows)
		}
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		q := `SELECT count(*) FROM temp."it""s" AS x WHERE EXISTS (SELECT 1 FROM (` + query + `) AS y WHERE ` + strings.Join(same, " AND ") + ")"
		if err := merge.Text(ctx, q, nil, func(v [][]byte) error { found = string(v[0]); return nil }); err != nil {
			t.Fatal(err)
		}
		if want := map[int]string{7: "7", 3: "3"}[n]; found != want {
			t.Errorf("%s: %s of %d rows are as they were", query, found, n)
		}
		for i, want := range cols { // the declared types, by which columns are compared
			if have, err := merge.Describe(ctx, `SELECT * FROM temp."it""s"`); err != nil || have[i].Native != want.Native {
				t.Errorf("%s: column %+v, %v, want %+v", query, have[i], err, want)
			}
		}
	}
	// What a column can't be declared as, and what has not been carried, is refused.
	for _, query := range []string{"SELECT x FROM odd", "SELECT y FROM odd", "SELECT n FROM loose"} {
		cols, err := db.DescribeQuery(ctx, read(), query)
		if err != nil {
			t.Fatal(err)
		}
		cols[0].Carried = !strings.Contains(query, "loose")
		if _, err := db.TempTable(ctx, read(), "x", query, cols); !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("%s: %v", query, err)
		}
	}
}
