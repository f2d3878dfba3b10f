package query

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestPlan: a query is in pieces if that is worth it, and else whole, with the reason.
func TestPlan(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		do(t, f.Reader, "CREATE TABLE plain (id INT NOT NULL PRIMARY KEY, d DECIMAL(10,2))", "INSERT INTO plain SELECT id, d FROM t",
			"CREATE TABLE heap (id INT, d DECIMAL(10,2))", "CREATE TABLE nothing (id INT NOT NULL PRIMARY KEY, d DECIMAL(10,2))")
		if kind == "postgres" {
			do(t, f.Reader, "ANALYZE")
		}
		for _, c := range []struct {
			name, query, whole string
			o                  Options
			pieces             int
		}{
			{name: "small", query: "SELECT COUNT(*), SUM(d) FROM t", whole: "it reads only about"},
			{name: "always", query: "SELECT COUNT(*), SUM(d) FROM t", o: Options{Always: true, Parallel: 2}, pieces: 6},
			{name: "more sessions than partitions", query: "SELECT COUNT(*), SUM(d) FROM t", o: Options{Always: true, Parallel: 9}, pieces: 10},
			{name: "pruned to one", query: "SELECT COUNT(*), SUM(d) FROM t WHERE id < 50", whole: "only one partition"},
			{name: "pruned to three", query: "SELECT COUNT(*), SUM(d) FROM t WHERE id BETWEEN 150 AND 350", o: Options{Always: true}, pieces: 3},
			{name: "plain", query: "SELECT COUNT(*), SUM(d) FROM plain", o: Options{Always: true}, whole: "partition"},
			{name: "ranges", query: "SELECT COUNT(*), SUM(d) FROM plain", o: Options{Always: true, ByRange: true, Parallel: 2}, pieces: 8},
			{name: "ranges of an alias", query: "SELECT p.d, COUNT(*) FROM plain AS p WHERE p.id > 10 GROUP BY p.d ORDER BY p.d", o: Options{Always: true, ByRange: true, Parallel: 2}, pieces: 8},
			{name: "ranges and counts alone", query: "SELECT COUNT(*), COUNT(d) FROM plain", o: Options{Always: true, ByRange: true, Parallel: 2}, pieces: 8, whole: map[bool]string{true: "counts alone"}[f.Semantics(f.state).CountsAll]},
			{name: "ranges without a key", query: "SELECT COUNT(*), SUM(d) FROM heap", o: Options{Always: true, ByRange: true}, whole: "with --by-range, a primary key"},
			{name: "ranges of an empty table", query: "SELECT COUNT(*), SUM(d) FROM nothing", o: Options{Always: true, ByRange: true}, whole: "empty"},
		} {
			r := f.runner(c.o)
			p, err := r.Plan(within(t), c.query, f.state)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if (p.Whole != "") != (c.whole != "") || !strings.Contains(p.Whole, c.whole) {
				t.Errorf("%s: whole because %q, want %q", c.name, p.Whole, c.whole)
				continue
			}
			if p.Whole == "" && len(p.Pieces) != c.pieces {
				t.Errorf("%s: %d pieces, want %d: %+v", c.name, len(p.Pieces), c.pieces, p.Pieces)
			}
			if report := f.same(r, p, strings.Contains(c.query, "ORDER BY")); report.Rerun != "" {
				t.Errorf("%s: run again: %s", c.name, report.Rerun)
			}
		}
	})
}
