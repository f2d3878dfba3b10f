package query

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestRangesCoverEveryRowOnce cuts tables by ranges of keys of several types: each row is in one
// piece.
func TestRangesCoverEveryRowOnce(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb", "mysql", "postgres"}, func(t *testing.T, kind string) {
		ctx := within(t)
		db := openReader(t, kind)
		r := New(db, Options{})
		defer r.Close()
		s, err := db.ReadSession(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		serial := func(format string, each func(i int) any) []string {
			var rows []string
			for i := range 3000 {
				rows = append(rows, fmt.Sprintf("("+format+")", each(i)))
			}
			return rows
		}
		day := func(i int) any { return fmt.Sprintf("%04d-%02d-%02d", 1990+i/336, 1+i/28%12, 1+i%28) }
		for _, c := range []struct {
			name, column, key string
			rows              []string
			whole             string
			not               string // a kind that has no such column, or whose texts of it aren't certain
		}{
			{name: "serial", column: "k INT NOT NULL", rows: serial("%d", func(i int) any { return i - 1000 })},
			{name: "skewed", column: "k BIGINT NOT NULL", rows: append(serial("%d", func(i int) any { return i }), "(1000000000000)", "(-9000000000000)")},
			{name: "extreme", column: "k BIGINT NOT NULL", rows: append(serial("%d", func(i int) any { return i }), "(9223372036854775807)", "(-9223372036854775808)")},
			{name: "unsigned", column: "k BIGINT UNSIGNED NOT NULL", rows: append(serial("%d", func(i int) any { return i }), "(18446744073709551615)"), whole: "aren't certain", not: "postgres"},
			{name: "dates", column: "k DATE NOT NULL", rows: serial("'%s'", day)},
			{name: "times", column: "k TIMESTAMP(3) NOT NULL", rows: serial("'%s 12:34:56.789'", day), not: "mysql mariadb"},
			{name: "moments", column: "k DATETIME(6) NOT NULL", rows: serial("'%s 12:34:56.000789'", day), not: "postgres"},
			{name: "decimals", column: "k DECIMAL(12,3) NOT NULL", rows: serial("%d.125", func(i int) any { return i - 1500 })},
			{name: "composite", column: "k INT NOT NULL, l INT NOT NULL DEFAULT 0", key: "k, l", rows: serial("%d, 7", func(i int) any { return i })},
			{name: "constant", column: "k INT NOT NULL, l INT NOT NULL", key: "k, l", rows: serial("5, %d", func(i int) any { return i }), whole: "too few values"},
			{name: "two", column: "k INT NOT NULL", rows: []string{"(1)", "(2)"}},
			{name: "one", column: "k INT NOT NULL", rows: []string{"(1)"}, whole: "too few values"},
			{name: "empty", column: "k INT NOT NULL", whole: "is empty"},
			{name: "texts", column: "k VARCHAR(20) NOT NULL", rows: serial("'k%d'", func(i int) any { return i }), whole: "aren't certain"},
			{name: "no key", column: "k INT NOT NULL", key: "-", rows: []string{"(1)", "(2)"}, whole: "primary key"},
		} {
			if strings.Contains(c.not, kind) {
				continue
			}
			table := strings.ReplaceAll(c.name, " ", "_")
			key := c.key
			if key == "" {
				key = "k"
			}
			create := "CREATE TABLE r_" + table + " (" + c.column + ", PRIMARY KEY (" + key + "))"
			if key == "-" {
				create = "CREATE TABLE r_" + table + " (" + c.column + ")"
			}
			do(t, db, create)
			if len(c.rows) > 0 {
				do(t, db, "INSERT INTO r_"+table+" VALUES "+strings.Join(c.rows, ", "))
			}
			if kind == "postgres" {
				do(t, db, "ANALYZE r_"+table)
			}
			parts, err := db.TableParts(ctx, s, "", "r_"+table)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			p := &plan.Plan{Source: plan.Source{Table: parts}, EstimatedRows: 3000, Partials: plan.Partials{Partial: [2]string{"SELECT COUNT(*) FROM ", " AS x"}}}
			if p.Pieces, err = r.ranges(ctx, s, p, 8); err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if c.whole != "" {
				if !strings.Contains(p.Whole, c.whole) || p.Pieces != nil {
					t.Errorf("%s: whole because %q, want %q; pieces %+v", c.name, p.Whole, c.whole, p.Pieces)
				}
				continue
			}
			if p.Whole != "" {
				t.Errorf("%s: whole because %s", c.name, p.Whole)
				continue
			}
			total, largest := 0, 0
			for i := range p.Pieces {
				if err := s.Text(ctx, p.PieceText(db, i), func([]engine.ResultColumn) error { return nil }, func(v [][]byte) error {
					n, err := strconv.Atoi(string(v[0]))
					total += n
					largest = max(largest, n)
					return err
				}); err != nil {
					t.Fatalf("%s, %s: %v", c.name, p.Pieces[i].Where, err)
				}
			}
			if total != len(c.rows) {
				t.Errorf("%s: the pieces have %d rows, and not %d: %+v", c.name, total, len(c.rows), p.Pieces)
			}
			if len(p.Pieces) < 2 || len(p.Pieces) > 8 {
				t.Errorf("%s: %d pieces", c.name, len(p.Pieces))
			}
			if len(c.rows) > 100 && largest > len(c.rows)*2/5 {
				t.Errorf("%s: a piece has %d of %d rows: %+v", c.name, largest, len(c.rows), p.Pieces)
			}
		}
	})
}

// TestRangesOfATableWithInvisibleColumns: a star in a piece, which names all columns, would have
// those, too; the query is run whole.
func TestRangesOfATableWithInvisibleColumns(t *testing.T) {
	f := newFixture(t, "mariadb")
	do(t, f.Reader, "CREATE TABLE hidden (id INT NOT NULL PRIMARY KEY, h INT INVISIBLE, v INT)", "INSERT INTO hidden SELECT id, id FROM t")
	r := f.runner(Options{Always: true, ByRange: true, Parallel: 2})
	for _, q := range []string{"SELECT * FROM hidden WHERE v > 3", "SELECT * FROM hidden ORDER BY v, id LIMIT 5"} {
		p, err := r.Plan(within(t), q, f.state)
		if err != nil {
			t.Fatal(err)
		}
		a := newAnswer()
		report, err := r.Run(within(t), p, a)
		if err != nil || len(a.cols) != 2 || len(a.rows) == 0 || p.Whole+report.Rerun == "" {
			t.Errorf("%s: %v, %d columns, %d rows, whole %q %q", q, err, len(a.cols), len(a.rows), p.Whole, report.Rerun)
		}
	}
}
