package query

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// splitTables are the tables of TestSplitWritesPlans: t has partitions by time, k by another
// column, dim has none.
var splitTables = map[string][]string{
	"mariadb": {
		`CREATE TABLE t (id INT NOT NULL, at DATETIME NOT NULL, host INT, name VARCHAR(20) COLLATE utf8mb4_general_ci, code VARBINARY(8), d DECIMAL(12,2), g DOUBLE, f FLOAT,
			n INT, e ENUM('a', 'b'), b BIT(3), long_text TEXT, PRIMARY KEY (id, at)) PARTITION BY RANGE COLUMNS (at) (PARTITION p1 VALUES LESS THAN ('2024-01-01'),
			PARTITION p2 VALUES LESS THAN ('2024-02-01'), PARTITION p3 VALUES LESS THAN ('2024-03-01'), PARTITION p4 VALUES LESS THAN (MAXVALUE))`,
		"CREATE TABLE k (id INT NOT NULL, region INT NOT NULL, n INT, PRIMARY KEY (id, region)) PARTITION BY HASH (region) PARTITIONS 4",
		"CREATE TABLE dim (id INT PRIMARY KEY, name VARCHAR(20), n INT)",
		"CREATE VIEW v AS SELECT * FROM t",
		"INSERT INTO t (id, at, host, n) VALUES (1, '2023-12-01', 1, 1), (2, '2024-01-02', 1, 2), (3, '2024-02-03', 2, 3), (4, '2024-03-04', 2, 4)",
		"INSERT INTO k VALUES (1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)",
		"INSERT INTO dim VALUES (1, 'a', 1), (2, 'b', 2)",
	},
	"postgres": {
		`CREATE TABLE t (id int NOT NULL, at timestamp NOT NULL, host int, name text, d numeric(12,2), g double precision, n int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)`,
		"CREATE FUNCTION ltrim(int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT $1'",
		"CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO ('2024-01-01')",
		"CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
		"CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM ('2024-02-01') TO (MAXVALUE)",
		"INSERT INTO t (id, at, host, n) VALUES (1, '2023-12-01', 1, 1), (2, '2024-01-02', 1, 2), (3, '2024-02-03', 2, 3)",
	},
}

// splitKinds are the servers of TestSplitWritesPlans, each with the list of its statements.
var splitKinds = map[string]string{"mariadb": "mariadb", "mysql": "mariadb", "postgres": "postgres"}

// TestSplitWritesPlans compares the plans of the statements of testdata/split with golden files:
// why a statement is whole, or what the pieces and the merge are.
func TestSplitWritesPlans(t *testing.T) {
	for kind, list := range splitKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := openReader(t, kind)
			do(t, db, splitTables[list]...)
			ctx := within(t)
			s, st := sessionOf(ctx, t, db)
			facts := &recordedFacts{t: t, asks: plan.SessionFacts(db, s), Answers: map[string]fact{}}
			comparePlans(t, kind, facts, st, func(text string, p *plan.Plan) {
				if p.Whole != "" || p.Table == nil {
					return
				}
				// The server has to accept what is written.
				for _, q := range []string{p.Partial[0] + db.PartFrom(p.Table, p.Parts[:1]) + p.Partial[1], p.Merge.Typed} {
					if q != "" {
						if _, err := db.DescribeQuery(ctx, s, q); err != nil {
							t.Errorf("%v\n%s", err, text)
						}
					}
				}
			})
			if *update {
				if err := facts.write(kind); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestPlansFromFacts makes the same plans without a server, of what the servers said when it was
// recorded.
func TestPlansFromFacts(t *testing.T) {
	if *update {
		t.Skip("the answers are being recorded")
	}
	plans := 0
	for kind := range splitKinds {
		comparePlans(t, kind, readFacts(t, kind), nil, func(string, *plan.Plan) { plans++ })
	}
	if plans < 200 {
		t.Errorf("%d plans, want at least 200", plans)
	}
}

// ownDatabase is the name of the test's database, which messages have.
var ownDatabase = regexp.MustCompile(`t[0-9_]+testsplitwritesplans_[a-z]+`)

// comparePlans compares the plans of a list of statements with its golden file, and calls check
// with each.
func comparePlans(t *testing.T, kind string, facts plan.Facts, st engine.State, check func(text string, p *plan.Plan)) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join("testdata", "split", splitKinds[kind]+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	spans, err := parse.Statements(string(list), facts.Syntax(st))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, span := range spans {
		text := span.Of(string(list))
		p, err := plan.Split(t.Context(), facts, text, st, plan.Options{Always: true}, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		fmt.Fprintf(&out, "%s\n%s\n", text, ownDatabase.ReplaceAllString(planText(p), "db"))
		check(text, p)
	}
	golden := filepath.Join("testdata", "split", kind+".golden")
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	w, g := strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Fatalf("%s line %d: got\n%s\nwant\n%s", golden, i+1, g[i], w[i])
		}
	}
	if len(w) != len(g) {
		t.Fatalf("%s: %d lines, want %d", golden, len(g), len(w))
	}
}

// planText is what a plan does, a line for each of its parts.
func planText(p *plan.Plan) string {
	if p.Whole != "" {
		return "    whole: " + p.Whole + "\n"
	}
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "    %s: %s\n", name, text)
		}
	}
	m := p.Merge
	for i := range p.Branches {
		b.WriteString(planText(p.Branches[i].Plan))
	}
	if p.Table == nil {
		line("branches", []string{"concatenated", "in memory", "on the server"}[m.Kind])
		return b.String()
	}
	line([]string{"concatenated", "in memory", "on the server"}[m.Kind], p.Partial[0]+"{"+p.Alias+"}"+p.Partial[1])
	if len(p.Parts) < len(p.Table.Parts) {
		line("partitions", strings.Join(p.Parts, " "))
	}
	if m.Kind == plan.InMemory {
		var outputs []string
		for _, o := range m.Outputs {
			text := fmt.Sprintf("parts %v", o.Parts)
			if o.Key >= 0 {
				text = fmt.Sprintf("key %d", o.Key)
			} else if o.Final == engine.FinalQuotient {
				text += " quotient"
			}
			outputs = append(outputs, text)
		}
		line("outputs", strings.Join(outputs, ", "))
		if len(m.OrderBy) > 0 {
			line("order", fmt.Sprintf("%+v unique %v", m.OrderBy, m.Unique))
		}
	}
	line("groups", m.Groups)
	line("final", m.Final)
	for _, q := range m.Ties {
		line("ties", q)
	}
	return b.String()
}

// TestSplitStopsTheClock checks that all pieces have one time: servers whose clock no setting stops
// get it in the text.
func TestSplitStopsTheClock(t *testing.T) {
	db := openReader(t, "postgres")
	do(t, db, splitTables["postgres"]...)
	ctx := within(t)
	r := New(db, Options{Always: true, Parallel: 2})
	defer r.Close()
	_, st := sessionOf(ctx, t, db)
	p, err := r.Plan(ctx, "SELECT now(), count(*), max(current_timestamp) = now() FROM t WHERE at < now() - interval '1 day' AND at < current_date", st)
	if err != nil || p.Whole != "" {
		t.Fatalf("%v, whole: %s", err, p.Whole)
	}
	if text := p.Partial[0] + p.Partial[1] + p.Merge.Final; strings.Contains(text, "now") || strings.Contains(text, "current") || strings.Contains(text, "local") {
		t.Errorf("a session would ask for its own time: %s", text)
	}
	if p.Columns[0].Name != "now" {
		t.Errorf("the first column is called %q, want now", p.Columns[0].Name)
	}
	var rows rowsSink
	if report, err := r.Run(ctx, p, &rows); err != nil || report.Rerun != "" || len(rows.rows) != 1 || !strings.Contains(rows.rows[0], "|3|t") {
		t.Errorf("%v, %+v, %q", err, report, rows.rows)
	}
}
