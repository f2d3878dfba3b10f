package query

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestUnionIsExplainedAndChecked: the branches of a set operation are explained one by one,
// compared with the whole, and counted as one query's progress. A sink that fails ends it.
func TestUnionIsExplainedAndChecked(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		do(t, f.Reader, "CREATE TABLE plain (id INT NOT NULL PRIMARY KEY, d DECIMAL(10,2))", "INSERT INTO plain SELECT id, d FROM t WHERE id < 50")
		var last Progress
		r := f.runner(Options{Always: true, Parallel: 2, Progress: func(p Progress) { last = p }})
		for _, c := range []struct{ query, merge string }{
			{"SELECT g, COUNT(*) AS n, SUM(d) AS s FROM t GROUP BY g UNION ALL SELECT g, COUNT(*), MAX(d) FROM t WHERE id < 500 GROUP BY g", ""},
			{"SELECT id, d FROM t WHERE id > 900 UNION ALL SELECT id, d FROM plain", "concatenate"},
			{"SELECT id, d FROM t WHERE id > 900 UNION SELECT id, d FROM plain ORDER BY d DESC, id", "server"},
		} {
			p, err := r.Plan(within(t), c.query, f.state)
			if err != nil || p.Whole != "" {
				t.Fatalf("%s: whole because %q, %v", c.query, p.Whole, err)
			}
			e, err := r.Explain(within(t), p)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := e.Text(&text); err != nil {
				t.Fatal(err)
			}
			if c.merge != "" && (e.Merge != c.merge && kind != "mysql" || !strings.Contains(text.String(), "branch 1    table ") || !strings.Contains(text.String(), "branch 2    whole: no table that it reads has partitions")) {
				t.Errorf("%s: explained as\n%s", c.query, &text)
			}
			checked, err := r.Check(within(t), p)
			if err != nil || checked.All > 0 || checked.Report.Rerun != "" || checked.Rows == 0 {
				t.Errorf("%s: %v, %d differences, run again: %q", c.query, err, checked.All, checked.Report.Rerun)
			}
			if last.Pieces != len(p.Pieces) || last.Done != last.Pieces || last.Moved == 0 {
				t.Errorf("%s: progress %+v of %d pieces", c.query, last, len(p.Pieces))
			}
			full := errors.New("no more room")
			if _, err := r.Run(within(t), p, failingSink{full}); !errors.Is(err, full) {
				t.Errorf("%s: error %v, want that of the sink", c.query, err)
			}
		}
		// Small tables aren't worth it, and nor are rows that would be stored.
		if kind == "postgres" {
			return // which has no estimate of these tables
		}
		for query, why := range map[string]string{
			"SELECT id FROM t UNION ALL SELECT id FROM t":               "it reads only about",
			"SELECT g FROM t UNION SELECT g FROM t":                     "which of the equal values of g",
			"SELECT id FROM t UNION ALL (SELECT id FROM plain LIMIT 3)": "LIMIT",
		} {
			if p, err := f.runner(Options{}).Plan(within(t), query, f.state); err != nil || !strings.Contains(p.Whole, why) {
				t.Errorf("%s: whole because %q, %v", query, p.Whole, err)
			}
		}
	})
}
