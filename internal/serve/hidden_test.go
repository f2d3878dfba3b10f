package serve

import (
	"database/sql"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/serve/session"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestHiddenState changes the state of sessions in ways that their statements don't show, and
// compares the answers that follow with the server's own, while another session has rows that
// aren't committed.
func TestHiddenState(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		own := connect(t, x.config(true))
		isolation := "tx_isolation"
		if kind == "mysql" {
			isolation = "transaction_isolation"
		}
		execute(t, own, "CREATE TABLE p (id INT PRIMARY KEY, v INT) ENGINE=InnoDB PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS THAN (100))",
			"INSERT INTO p VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)", "CREATE TABLE l LIKE p", "INSERT INTO l SELECT * FROM p", "ANALYZE TABLE p, l",
			"CREATE FUNCTION found() RETURNS INT NO SQL RETURN FOUND_ROWS()", "CREATE VIEW seen AS SELECT FOUND_ROWS() AS n FROM p WHERE id = 1",
			"CREATE PROCEDURE dirty() SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "CREATE PROCEDURE found_in() SELECT FOUND_ROWS()",
			"CREATE TABLE m (v INT) ENGINE=MyISAM", "INSERT INTO m VALUES (1), (2)", "CREATE FUNCTION counts() RETURNS BIGINT NO SQL RETURN ROW_COUNT()", "CREATE VIEW counted AS SELECT counts() AS k",
			"CREATE FUNCTION calls() RETURNS INT NO SQL BEGIN SET @calls = COALESCE(@calls, 0) + 1; RETURN @calls; END", "CREATE VIEW counting AS SELECT calls() AS n",
			"CREATE FUNCTION dirties() RETURNS INT NO SQL BEGIN SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; RETURN 1; END")
		writer := connect(t, x.config(true))
		execute(t, writer, "BEGIN", "INSERT INTO p VALUES (50, 1000)")
		const report, rows, locked = "SELECT v, COUNT(*) FROM p GROUP BY v ORDER BY v", "SELECT v FROM p GROUP BY v ORDER BY v", "SELECT v, COUNT(*) FROM l GROUP BY v ORDER BY v"
		for i, test := range []struct {
			only       string // a kind
			statements []string
			split      int
		}{
			{"", []string{report}, 1},
			{"", []string{"SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "SET @a = 1", "SELECT 1 FROM DUAL", report, "COMMIT", report}, 0},
			{"", []string{"SET @@" + isolation + " = 'READ-UNCOMMITTED'", report}, 0},
			{"", []string{"CALL dirty()", report, report}, 0},
			{"mariadb", []string{"EXECUTE IMMEDIATE 'SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED'", report, report}, 0},
			{"mariadb", []string{"SET STATEMENT max_statement_time = 100 FOR CALL dirty()", report, report}, 0},
			{"mariadb", []string{"PREPARE s FROM 'SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED'", "SET STATEMENT max_statement_time = 100 FOR EXECUTE s", report, report}, 0},
			{"", []string{"PREPARE s FROM 'CALL dirty()'", "EXECUTE s", report, report}, 0},
			{"", []string{"BEGIN", "COMMIT", report}, 1},
			{"", []string{"LOCK TABLES l READ", locked, "UNLOCK TABLES", locked + " DESC"}, 0},
			{"mariadb", []string{"EXECUTE IMMEDIATE 'LOCK TABLES l READ'", "SELECT 1 FROM l", locked}, 0}, {"mariadb", []string{"BEGIN NOT ATOMIC SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; END", report, report}, 0},
			{"mariadb", []string{"PREPARE s FROM 'LOCK TABLES l READ'", "EXECUTE s", "SELECT 1 FROM l", locked}, 0},
			{"", []string{rows, "SELECT found()", report, report}, 1},
			{"", []string{rows, "SELECT n FROM seen"}, 1}, {"", []string{rows, "CALL found_in()"}, 1}, {"", []string{rows, "SELECT FOUND_ROWS()"}, 1},
			{"", []string{rows + " LIMIT 4", "SELECT found()"}, 1}, {"", []string{rows + " LIMIT 2 OFFSET 3", "SELECT found()"}, 1}, {"", []string{rows + " LIMIT 0", "SELECT found()"}, 0},
			{"", []string{rows, rows + " LIMIT 3", "SELECT n FROM seen", "SELECT n FROM seen"}, 2},
			{"", []string{"SELECT id FROM p LIMIT 6", "SELECT n FROM seen"}, 0}, {"", []string{"SELECT id FROM p LIMIT 5", "SELECT v + found() FROM p LIMIT 1"}, 0},
			{"mysql", []string{"SET SESSION default_collation_for_utf8mb4 = utf8mb4_general_ci", "SELECT SUM(_utf8mb4'ß' = _utf8mb4's'), COUNT(*) FROM p"}, 1},
			{"mariadb", []string{"VALUES (dirties())", report, report}, 0}, {"mariadb", []string{"INSERT INTO m VALUES (dirties())", "SELECT 1", report, report}, 0},
			{"mariadb", []string{"SHOW TABLES WHERE dirties()", report, report}, 0}, {"mariadb", []string{"DELETE FROM m WHERE dirties() = 0", report, report}, 0},
			{"", []string{"INSERT INTO m VALUES (1), (2), (3)", "SELECT k FROM counted"}, 0}, {"", []string{"INSERT INTO m VALUES (1)", "SELECT k FROM counted", report}, 1},
			{"", []string{"SET @a = 1", "SELECT k FROM counted"}, 0}, {"", []string{"DO 0", "SELECT k FROM counted", "SELECT k FROM counted"}, 0},
			{"", []string{"SELECT v FROM p", "SET @a = 1", "SELECT k, n FROM counted, seen"}, 1}, {"", []string{rows, "SELECT k FROM counted"}, 1},
			{"", []string{"SELECT * FROM counting", "SELECT n FROM counting", "WITH c AS (SELECT * FROM counting) SELECT SUM(n) FROM c, p", "SELECT @calls"}, 0},
			{"", []string{rows + " LIMIT 2 OFFSET 3", "SELECT n FROM seen"}, 1}, {"", []string{rows + " LIMIT 5 OFFSET 7", "SELECT n FROM seen"}, 1},
			{"", []string{rows + " LIMIT 50 OFFSET 2", "SELECT n FROM seen"}, 1},
			{"", []string{"SELECT SQL_CALC_FOUND_ROWS 1 FROM p, l, l AS a, l AS b, l AS c, l AS d LIMIT 1", "SELECT n FROM seen", "SELECT n FROM seen"}, 0},
			{"", []string{rows, "SELECT found() /* " + strings.Repeat("long ", session.MaxText/4) + "*/"}, 1},
		} {
			if test.only != "" && test.only != kind {
				continue
			}
			clear(x.shapes[:])
			before := a.ran.Load()
			through, direct := x.client(t), connect(t, x.config(true))
			for _, q := range test.statements {
				got, err := answer(through, q)
				want, wantErr := answer(direct, q)
				if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("%d: %.100s: got %q, %v; want %q, %v", i, q, got, err, want, wantErr)
				}
			}
			if n := int(a.ran.Load() - before); n != test.split {
				t.Errorf("%d: %.100q: %d in pieces, want %d", i, test.statements, n, test.split)
			}
			through.Close()
			direct.Close()
		}
	})
}

// shows reports that a line is in the metrics.
func (x *fixture) shows(line string) bool {
	w := httptest.NewRecorder()
	x.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return strings.Contains(w.Body.String(), "\n"+line)
}

// A faulty reader panics when a piece of the last partition is read, and in the front itself.
type faulty struct {
	engine.Reader
	piece, front atomic.Bool
}

func (r *faulty) PartFrom(t *engine.TableParts, parts []string) string {
	if r.piece.Load() && len(parts) > 1 {
		panic("a bug in a piece")
	}
	return r.Reader.PartFrom(t, parts)
}

func (r *faulty) StateRefusal(st engine.State) string {
	if r.front.Load() {
		panic("a bug in the front")
	}
	return r.Reader.StateRefusal(st)
}

// TestBugPassesOneQueryOn panics in a goroutine of a piece, and while a query is looked at: the
// query is answered whole, the error is logged once with its stack, and the same and other clients
// go on.
func TestBugPassesOneQueryOn(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		r, a := &faulty{}, &counting{}
		var mu sync.Mutex
		var log []string
		x := start(t, kind, func(o *Options) {
			r.Reader = o.Reader
			o.Reader = r
			a.options(o)
			o.Say = func(line string) {
				mu.Lock()
				defer mu.Unlock()
				log = append(log, line)
			}
		})
		t.Cleanup(func() {
			x.stop()
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
		db, other := x.client(t), x.client(t)
		execute(t, db, "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 40", "INSERT INTO p VALUES (1, 1), (2, 2), (3, 4), (4, 8)", "ANALYZE TABLE p")
		for i, in := range []*atomic.Bool{&r.piece, &r.front} {
			in.Store(true)
			if got, err := answer(db, "SELECT SUM(v), "+strings.Repeat("MAX(id), ", i)+"COUNT(*) FROM p"); err != nil || !strings.Contains(got, "15|") {
				t.Errorf("%d: %s, %v", i, got, err)
			}
			in.Store(false)
			mu.Lock()
			bugs := 0
			for _, line := range log {
				if strings.Contains(line, "goroutine ") && strings.Contains(line, "an error of rowmill") {
					bugs++
				}
			}
			mu.Unlock()
			if bugs != i+1 || len(log) != bugs || !x.shows(fmt.Sprintf("rowmill_serve_panics_total %d\n", i+1)) {
				t.Errorf("%d errors are logged, and not as many counted: %q", bugs, log)
			}
		}
		for _, db := range []*sql.DB{db, other} {
			if got, err := answer(db, "SELECT MIN(v), SUM(v) FROM p"); err != nil || !strings.Contains(got, "1|15|") {
				t.Errorf("%s, %v", got, err)
			}
		}
		// An answer is counted once it has been sent.
		testdb.Until(t, "the queries afterwards are in pieces", func() bool { return x.shows("rowmill_serve_split_total 2\n") })
	})
}

// TestWhyWhole says in SHOW WARNINGS why a query was passed on whole, unless the server has
// warnings of its own.
func TestWhyWhole(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, _ := startCounting(t, kind, nil)
		table(t, x)
		user := "w" + x.name[:min(20, len(x.name))]
		execute(t, connect(t, x.config(true)), "CREATE USER "+user, "GRANT SELECT (id, ti) ON "+x.name+".t TO "+user)
		t.Cleanup(func() { execute(t, connect(t, x.config(true)), "DROP USER "+user) })
		c := x.config(false)
		c.User = user
		few, all := connect(t, c), x.client(t)
		for range 2 { // looked at, and of the same shape afterwards
			if got, err := answer(few, "SELECT COUNT(*), MAX(ti) FROM t"); err != nil || !strings.Contains(got, "5|") {
				t.Errorf("%s, %v", got, err)
			}
			if got, _ := answer(few, "SHOW WARNINGS"); !strings.Contains(got, "rowmill: passed on whole: ") || !strings.Contains(got, "SHOW") {
				t.Errorf("privileges for columns: %s", got)
			}
		}
		for _, test := range []struct{ query, want string }{
			{"SELECT SLEEP(0), id FROM t", "function sleep"}, {"SELECT 1 / 0 FROM t", "1365"}, {"SELECT id FROM t WHERE id = 1", "rowmill"}, {"DO 1", ""}, {"SET sql_notes = 0", ""},
		} {
			if _, err := answer(all, test.query); err != nil && !strings.HasPrefix(test.query, "SELECT") {
				t.Error(err)
			}
			got, err := answer(all, "SHOW WARNINGS")
			if err != nil || !strings.Contains(got, test.want) || strings.Contains(got, "rowmill") != (test.want != "" && test.want != "1365") {
				t.Errorf("%s: %s, %v", test.query, got, err)
			}
		}
		// A session that wants no notes gets none, whatever is known of the query's shape; nor does
		// one that begins anew.
		const big = "SELECT SQL_BIG_RESULT COUNT(*) FROM t"
		if _, err := answer(all, big); err != nil {
			t.Error(err)
		}
		for _, commands := range [][]string{{"SET sql_notes = 0", big}, {"SET sql_notes = 0", "BEGIN", "SELECT COUNT(*) FROM t"}, {big, "reset"}} {
			through, direct := x.pair(t, 0, 0)
			for _, q := range append(commands, "SHOW WARNINGS") {
				what := byte(mysqlwire.ComQuery)
				if q == "reset" {
					what, q = mysqlwire.ComReset, ""
				}
				if got, want := through.command(what, q), direct.command(what, q); !sameAnswer(got, want) {
					t.Errorf("%q: %s:\n got %q\nwant %q", commands, q, got, want)
				}
			}
		}
	})
}

// TestShortTimes finds columns of TIME and YEAR whatever the quotes of the session are.
func TestShortTimes(t *testing.T) {
	for ddl, want := range map[string]bool{
		"  `a``b` time(3) NOT NULL,": true, "  \"a\"\"b c\" year(4),": true, "  ti time DEFAULT NULL": true,
		"  `time` int,": false, "  year int,": false, "  `a` timestamp,": false, "  \"time\" varchar(9) COMMENT ' time',": false,
	} {
		if got := shortTimes.MatchString("CREATE TABLE t (\n" + ddl + "\n)"); got != want {
			t.Errorf("%s: %v, want %v", ddl, got, want)
		}
	}
}
