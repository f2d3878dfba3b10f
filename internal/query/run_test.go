package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// servers are the kinds whose tables a plan by hand can cut.
var servers = []string{"mariadb", "mysql", "postgres"}

// openReader opens a private database.
func openReader(t testing.TB, kind string) engine.Reader {
	t.Helper()
	db, ok := testdb.Open(t, kind).(engine.Reader)
	if !ok {
		t.Fatalf("%s can't be read in pieces", kind)
	}
	return db
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// do runs statements.
func do(t testing.TB, db engine.Reader, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := db.SQL().ExecContext(within(t), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// A fixture is a table of ten partitions of 100 rows, on a server, with what plans by hand need.
type fixture struct {
	engine.Reader
	t     testing.TB
	kind  string
	sleep string // a condition that takes a minute
	state engine.State
	table *engine.TableParts
	s     *engine.Session
}

// sessionOf opens a session, which is closed at the end of the test, and returns it with its state.
func sessionOf(ctx context.Context, t testing.TB, db engine.Reader) (*engine.Session, engine.State) {
	t.Helper()
	s, err := db.ReadSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	st, err := db.ReadState(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	return s, st
}

// newFixture creates the table t (id, g, d, s): g is a text of 7 values, d a decimal or NULL, s a
// text.
func newFixture(t testing.TB, kind string) *fixture {
	t.Helper()
	f := &fixture{Reader: openReader(t, kind), t: t, kind: kind, sleep: "SLEEP(60) = 0"}
	create := []string{"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, g VARCHAR(10), d DECIMAL(10,2), s VARCHAR(30)) PARTITION BY RANGE (id)"}
	if kind == "postgres" {
		f.sleep = "(SELECT pg_sleep(60)) IS NULL"
		for i := range 10 {
			create = append(create, fmt.Sprintf("CREATE TABLE p%d PARTITION OF t FOR VALUES FROM (%d) TO (%d)", i, 100*i, 100*(i+1)))
		}
	} else {
		parts := make([]string, 10)
		for i := range parts {
			parts[i] = fmt.Sprintf("PARTITION p%d VALUES LESS THAN (%d)", i, 100*(i+1))
		}
		create[0] += " (" + strings.Join(parts, ", ") + ")"
	}
	rows := make([]string, 1000)
	for i := range rows {
		d := "NULL"
		if i%5 > 0 {
			d = fmt.Sprintf("%d.%02d", i*37%1000, i%100)
		}
		rows[i] = fmt.Sprintf("(%d, 'g%d', %s, 'it''s \\\\ %d')", i, i%7, d, i%13)
	}
	do(t, f.Reader, append(create, "INSERT INTO t VALUES "+strings.Join(rows, ", "))...)
	ctx := within(t)
	f.s, f.state = sessionOf(ctx, t, f.Reader)
	var err error
	if f.table, err = f.TableParts(ctx, f.s, "", "t"); err != nil {
		t.Fatal(err)
	}
	return f
}

// plan completes a plan, whose partial has the table at $: a piece for every two partitions.
func (f *fixture) plan(text, partial string, keys int, m plan.Merge) *plan.Plan {
	f.t.Helper()
	p := &plan.Plan{Statement: plan.Statement{Text: text, State: f.state}, Source: plan.Source{Table: f.table}, Partials: plan.Partials{Keys: keys}, Merge: m}
	p.Partial[0], p.Partial[1], _ = strings.Cut(partial, "$")
	for i := 0; i < len(f.table.Parts); i += 2 {
		p.Pieces = append(p.Pieces, plan.Piece{Parts: []string{f.table.Parts[i].Name, f.table.Parts[i+1].Name}, Rows: int64(100 + i)})
	}
	p.Columns = f.describe(text)
	p.PartialColumns = f.describe(p.PieceText(f.Reader, 0))
	return p
}

func (f *fixture) describe(q string) []engine.ResultColumn {
	f.t.Helper()
	cols, err := f.DescribeQuery(within(f.t), f.s, q)
	if err != nil {
		f.t.Fatalf("describe %s: %v", q, err)
	}
	return cols
}

// runner returns a Runner that is closed when the test ends.
func (f *fixture) runner(o Options) *Runner {
	if o.Parallel == 0 {
		o.Parallel = 3
	}
	r := New(f.Reader, o)
	f.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			f.t.Errorf("close: %v", err)
		}
	})
	return r
}

// askAlike plans queries, which each have an order or one row, and compares their answers whole and
// as planned: each must be whole because of that, or in pieces if it is "".
func (f *fixture) askAlike(r *Runner, whole string, queries ...string) {
	f.t.Helper()
	for _, query := range queries {
		p, err := r.Plan(within(f.t), query, f.state)
		if err != nil {
			f.t.Fatal(err)
		}
		if (p.Whole != "") != (whole != "") || !strings.Contains(p.Whole, whole) {
			f.t.Errorf("%s: whole because %q, want %q", query, p.Whole, whole)
		}
		f.same(r, p, true)
	}
}

// same runs a plan and its statement whole, and compares: in order if ordered.
func (f *fixture) same(r *Runner, p *plan.Plan, ordered bool) *Report {
	f.t.Helper()
	var whole, pieces rowsSink
	if _, err := r.Run(within(f.t), &plan.Plan{Statement: plan.Statement{Text: p.Text, State: p.State}, Whole: "to compare"}, &whole); err != nil {
		f.t.Fatalf("whole: %v", err)
	}
	report, err := r.Run(within(f.t), p, &pieces)
	if err != nil {
		f.t.Fatalf("in pieces: %v", err)
	}
	if int(report.Rows) != len(pieces.rows) {
		f.t.Errorf("%d rows are reported, %d were passed on", report.Rows, len(pieces.rows))
	}
	if !ordered {
		slices.Sort(whole.rows)
		slices.Sort(pieces.rows)
	}
	if !slices.Equal(whole.rows, pieces.rows) {
		f.t.Errorf("%s:\nwhole  %q\npieces %q", p.Text, whole.rows, pieces.rows)
	}
	if len(whole.columns) != len(pieces.columns) {
		f.t.Fatalf("%d columns and %d", len(whole.columns), len(pieces.columns))
	}
	for i, c := range whole.columns {
		if got := pieces.columns[i]; got.Name != c.Name || got.Native != c.Native {
			f.t.Errorf("column %d is %s %s, and not %s %s", i+1, got.Name, got.Native, c.Name, c.Native)
		}
	}
	return report
}

var twoSums = []engine.MergeStep{engine.MergeSum, engine.MergeSum}

// Plans that a splitter makes of typical statements.
func (f *fixture) concatenated() *plan.Plan {
	return f.plan("SELECT id, s, d FROM t WHERE id % 3 = 0", "SELECT id, s, d FROM $ AS t WHERE id % 3 = 0", 0, plan.Merge{Kind: plan.Concatenate, Limit: -1})
}

func (f *fixture) inMemory() *plan.Plan {
	average, quotient, final := "AVG(d)", plan.Output{Key: -1, Parts: []int{1, 2}, Final: engine.FinalQuotient}, "SELECT k, p1, p2, p1 / p2"
	if f.kind == "postgres" { // its averages have no fixed number of digits
		average, quotient, final = "SUM(d)", plan.Output{Key: -1, Parts: []int{1}}, "SELECT k, p1, p2, p1"
	}
	return f.plan("SELECT id % 11 AS k, SUM(d), COUNT(d) AS n, "+average+" FROM t GROUP BY k ORDER BY n DESC, k",
		"SELECT id % 11 AS k, SUM(d) AS p1, COUNT(d) AS p2 FROM $ AS t GROUP BY 1", 1, plan.Merge{
			Kind: plan.InMemory, Limit: -1, Steps: twoSums,
			Outputs: []plan.Output{{Key: 0}, {Key: -1, Parts: []int{1}}, {Key: -1, Parts: []int{2}, Zero: true}, quotient},
			OrderBy: []plan.SortKey{{Output: 2, Desc: true}, {Output: 0}},
			Typed:   "SELECT id % 11 AS k, SUM(d) AS p1, COUNT(d) AS p2 FROM t GROUP BY k",
			Groups:  "SELECT k, SUM(p1), SUM(p2) FROM rowmill_partial GROUP BY k",
			Final:   final + " FROM rowmill_group ORDER BY p2 DESC, k",
		})
}

func (f *fixture) onServer() *plan.Plan {
	return f.plan("SELECT g, SUM(d) AS x, COUNT(*) FROM t GROUP BY g HAVING SUM(d) > 1000 ORDER BY g",
		"SELECT g AS k1, SUM(d) AS p1, COUNT(*) AS p2 FROM $ AS t GROUP BY g", 1, plan.Merge{
			Kind: plan.OnServer, Limit: -1, Steps: twoSums,
			Typed:  "SELECT g AS k1, SUM(d) AS p1, COUNT(*) AS p2 FROM t GROUP BY g",
			Groups: "SELECT k1, SUM(p1), SUM(p2) FROM rowmill_partial GROUP BY k1",
			Final:  "SELECT k1 AS g, p1, p2 FROM rowmill_group WHERE p1 > 1000 ORDER BY k1",
		})
}

func TestRun(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		var done []Progress
		r := f.runner(Options{Progress: func(p Progress) { done = append(done, p) }})
		for range 2 { // the second time with idle sessions
			done = nil
			if report := f.same(r, f.concatenated(), false); report.Rerun != "" || report.Moved != 334 {
				t.Errorf("concatenated: %+v", report)
			}
			if n := len(done); n != 5 || done[4].Done != 5 || done[4].Pieces != 5 || done[4].Moved != 334 || done[4].Left != 0 {
				t.Errorf("progress %+v", done)
			}
			if report := f.same(r, f.inMemory(), true); report.Rerun != "" || report.Server || report.Moved != 55 {
				t.Errorf("in memory: %+v", report)
			}
			if report := f.same(r, f.onServer(), true); report.Rerun != "" || !report.Server || report.Moved != 35 {
				t.Errorf("on the server: %+v", report)
			}
		}
		tiny := f.runner(Options{Memory: 1}) // every row is spilled
		if report := f.same(tiny, f.inMemory(), true); report.Rerun != "" || !report.Server {
			t.Errorf("in little memory: %+v", report)
		}
		if report := f.same(tiny, f.concatenated(), false); report.Rerun != "" {
			t.Errorf("in little memory: %+v", report)
		}
	})
}

// TestOrderOfGroups has groups without ORDER BY in the order of their keys: merged in memory, on
// the server, and in pieces alone. MariaDB's own have it, too.
func TestOrderOfGroups(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		for _, q := range []struct{ text, by string }{
			{"SELECT id % 17 - 8 AS k, COUNT(*) FROM t GROUP BY id % 17 - 8", "1"},
			{"SELECT COUNT(*), MIN(id) FROM t GROUP BY id % 17", "2"},
			{"SELECT DISTINCT id % 17 - 8 FROM t", "1"},
			{"SELECT CASE WHEN id % 5 > 0 THEN id % 5 END AS k, id % 11, COUNT(*) FROM t GROUP BY 1, 2", "1, 2"},
			{"SELECT g, COUNT(*) FROM t GROUP BY g", "1"},
			{"SELECT g, id % 4 + 8, COUNT(*) FROM t GROUP BY 2, 1 HAVING COUNT(*) > 2", "2, 1"},
			{"SELECT id, COUNT(*) FROM t WHERE id < 400 GROUP BY id -- each in one partition", "1"},
			{"SELECT id % 7, id, COUNT(*) FROM t WHERE id < 400 GROUP BY 1, 2", "1, 2"},
		} {
			var want rowsSink
			read := func(text string) {
				want.rows = nil
				if err := f.s.Text(within(t), text, nil, want.Row); err != nil {
					t.Fatal(err)
				}
			}
			read(q.text + "\nORDER BY " + q.by)
			for n := range 3 {
				r := f.runner(Options{Always: true, Parallel: 1 + n})
				p, err := r.Plan(within(t), q.text, f.state)
				if err != nil || p.Whole != "" {
					t.Fatalf("%s: %v, whole: %s", q.text, err, p.Whole)
				}
				var got rowsSink
				if report, err := r.Run(within(t), p, &got); err != nil || report.Rerun != "" || !slices.Equal(got.rows, want.rows) {
					t.Errorf("%s: %v, run again: %q:\n got %.300q\nwant %.300q", q.text, err, report.Rerun, got.rows, want.rows)
				}
			}
			if sorted := want.rows; kind == "mariadb" && !strings.Contains(q.text, "DISTINCT") {
				if read(q.text); !slices.Equal(want.rows, sorted) {
					t.Errorf("%s: the server has\n%.300q, and not\n%.300q", q.text, want.rows, sorted)
				}
			}
		}
		if kind == "postgres" {
			return
		}
		// Of texts that the collation takes for equal, the server shows the first that it reads.
		do(t, f.Reader, "UPDATE t SET g = UPPER(g) WHERE id % 3 = 1")
		r := f.runner(Options{Always: true})
		p, err := r.Plan(within(t), "SELECT g, COUNT(*) FROM t GROUP BY g", f.state)
		if err != nil {
			t.Fatal(err)
		}
		if report := f.same(r, p, true); !strings.Contains(report.Rerun, "rows tie") {
			t.Errorf("equal texts: %+v", report)
		}
	})
}

// TestWholeKeepsSession keeps the session of a whole query that changes nothing in it: the next one
// is planned on the same connection.
func TestWholeKeepsSession(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		r := f.runner(Options{ReadOnly: true})
		unknown := map[bool]string{true: "SELECT set_config('work_mem', '64kB', false), count(*) FROM t", false: "SELECT @x := 1, COUNT(*) FROM t"}[kind == "postgres"]
		for _, c := range []struct {
			text string
			kept int
		}{{"SELECT COUNT(*) FROM t WHERE id < 5", 1}, {"SELECT MAX(id) FROM t WHERE id < 5", 1}, {unknown, 0}} {
			p, err := r.Plan(within(t), c.text, f.state)
			if err == nil && p.Whole != "" {
				_, err = r.Run(within(t), p, &rowsSink{})
			}
			if n := len(r.nodes[0].plain.idle); err != nil || n != c.kept {
				t.Errorf("%s: %d sessions are kept, want %d: %v, %+v", c.text, n, c.kept, err, p)
			}
		}
	})
}

func TestRunAgainWhole(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		r := f.runner(Options{})
		for _, c := range []struct {
			name, want string
			change     func(*plan.Plan)
			plan       *plan.Plan
		}{
			{name: "ties", want: "tie", plan: f.onServer(), change: func(p *plan.Plan) { p.Merge.Ties = []string{"SELECT 1 FROM rowmill_group LIMIT 1"} }},
			{name: "another type", want: "column x has type", plan: f.onServer(), change: func(p *plan.Plan) { p.Merge.Final = "SELECT k1, p2, p1 FROM rowmill_group" }},
			{name: "fewer columns", want: "returns 1 columns", plan: f.onServer(), change: func(p *plan.Plan) { p.Merge.Final = "SELECT k1 FROM rowmill_group" }},
			{name: "an error of the server", want: "merge groups", plan: f.onServer(), change: func(p *plan.Plan) { p.Merge.Groups = "SELECT nothing FROM rowmill_partial" }},
			{name: "a value that doesn't fit", want: "merg", plan: f.onServer(), change: func(p *plan.Plan) {
				p.Merge.Groups = "SELECT k1, SUM(p1), 1e60 FROM rowmill_partial GROUP BY k1"
			}},
			{name: "no memory and no statements", want: "doesn't fit in memory", plan: f.inMemory(), change: func(p *plan.Plan) { p.Merge.Final = "" }},
			{name: "no pieces", want: "no partition", plan: f.inMemory(), change: func(p *plan.Plan) { p.Pieces = nil }},
		} {
			c.change(c.plan)
			if strings.Contains(c.name, "memory") {
				r = f.runner(Options{Memory: 1})
			}
			if report := f.same(r, c.plan, true); !strings.Contains(report.Rerun, c.want) || report.Server {
				t.Errorf("%s: run again because %q, want %q", c.name, report.Rerun, c.want)
			}
		}
		// Rows that move to another partition after the plan, or come in one, are read.
		p := f.inMemory()
		if kind == "postgres" {
			do(t, f.Reader, "CREATE TABLE p10 PARTITION OF t FOR VALUES FROM (1000) TO (1100)", "INSERT INTO t VALUES (1001, 'g1', 5, 's')")
		} else {
			do(t, f.Reader, "ALTER TABLE t REORGANIZE PARTITION p9 INTO (PARTITION p9 VALUES LESS THAN (950), PARTITION p10 VALUES LESS THAN (1000))")
		}
		if report := f.same(f.runner(Options{}), p, true); !strings.Contains(report.Rerun, "altered") {
			t.Errorf("altered: run again because %q", report.Rerun)
		}
	})
}

// TestFailedPieceEndsTheOthers: its error names it, and nothing runs on.
func TestFailedPieceEndsTheOthers(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		r := f.runner(Options{})
		for _, p := range []*plan.Plan{f.concatenated(), f.inMemory(), f.onServer()} {
			for i := range p.Pieces {
				p.Pieces[i] = plan.Piece{Where: f.sleep}
			}
			p.Pieces[1] = plan.Piece{Where: "no_such_column > 0"}
			begin := time.Now()
			_, err := r.Run(within(t), p, &rowsSink{})
			if err == nil || !strings.Contains(err.Error(), "read the rows of t with no_such_column > 0") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			f.idle()
		}
		f.same(r, f.concatenated(), false)
	})
}

// TestEndedQueryRunsNowhere: when ctx ends, so has everything on the server when Run returns.
func TestEndedQueryRunsNowhere(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		r := f.runner(Options{})
		plans := []*plan.Plan{f.concatenated(), f.inMemory(), f.onServer(), {Statement: plan.Statement{Text: "SELECT id FROM t WHERE " + f.sleep, State: f.state}, Whole: "sleep"}}
		for i, p := range plans {
			for k := range p.Pieces {
				p.Pieces[k] = plan.Piece{Where: f.sleep}
			}
			ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
			_, err := r.Run(ctx, p, &rowsSink{})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("plan %d: error %v", i, err)
			}
			f.idle()
		}
	})
}

// idle checks that no statement of another session runs on the server in this database.
func (f *fixture) idle() {
	f.t.Helper()
	q := "SELECT CONCAT(ID, ' ', STATE, ': ', INFO) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND INFO NOT LIKE '%IS_FREE_LOCK%' AND INFO <> 'ROLLBACK'" // that is how the end of a connection is awaited; a transaction's may have been answered already
	if f.kind == "postgres" {
		q = "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND backend_type = 'client backend'"
	}
	var running []string
	for range 20 { // a server may list a statement for a moment that it has answered
		var err error
		if running, err = engine.List[string](within(f.t), f.Reader, f.SQL(), q); err != nil {
			f.t.Fatal(err)
		}
		if len(running) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.t.Errorf("statements run on: %q", running)
}

// TestErrorOfSinkEndsTheQuery: such as a pager that was closed.
func TestErrorOfSinkEndsTheQuery(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		r := f.runner(Options{})
		for _, p := range []*plan.Plan{f.concatenated(), f.inMemory(), f.onServer(), {Statement: plan.Statement{Text: "SELECT id FROM t", State: f.state}, Whole: "to see"}} {
			full := errors.New("the disk is full")
			if _, err := r.Run(within(t), p, failingSink{full}); !errors.Is(err, full) {
				t.Errorf("error %v", err)
			}
			f.idle()
		}
	})
}

type failingSink struct{ err error }

func (failingSink) Columns([]engine.ResultColumn) error { return nil }
func (s failingSink) Row([][]byte) error                { return s.err }
