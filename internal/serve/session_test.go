package serve

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestSessionsOfTheClient has states of a session that pieces, which are other sessions, can't
// have: answers are those of the client's own connection.
func TestSessionsOfTheClient(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		setup := x.client(t)
		other := x.name[:min(len(x.name), 50)] + "_o"
		execute(t, setup, "CREATE TABLE p (id INT PRIMARY KEY, v INT, at DATETIME) PARTITION BY HASH (id) PARTITIONS 4",
			"INSERT INTO p VALUES (1, 1, '2001-01-01'), (2, 2, '2010-01-01'), (3, 4, '2010-01-01'), (4, 8, '2010-01-01')",
			"CREATE TABLE d (id INT PRIMARY KEY, v INT)", "INSERT INTO d VALUES (1, 1), (2, 1), (3, 1), (4, 1)",
			"CREATE DATABASE "+other, "CREATE TABLE "+other+".p LIKE p", "INSERT INTO "+other+".p VALUES (1, 100, NULL), (2, 100, NULL)",
			"CREATE PROCEDURE begins() BEGIN START TRANSACTION; INSERT INTO p VALUES (5, 16, '2010-01-01'); SIGNAL SQLSTATE '45000'; END",
			"ANALYZE TABLE p, d, "+other+".p")
		t.Cleanup(func() { execute(t, connect(t, x.config(true)), "DROP DATABASE "+other) })
		for _, test := range []struct {
			name    string
			before  []string // errors don't matter
			query   string
			args    []any
			want    string
			prepare string // between its preparation and its execution
		}{
			{"the time is set after a query in pieces", []string{"SELECT SUM(v) FROM p", "SET TIMESTAMP = 1000000000"},
				"SELECT COUNT(*), NOW() FROM p WHERE at < NOW()", nil, "\n1|2001-09-09", ""},
			{"a procedure begins a transaction and fails", []string{"CALL begins()"}, "SELECT SUM(v) + 0 FROM p", nil, "\n31|", ""},
			{"parameters on both sides of the table", nil,
				"WITH c AS (SELECT id FROM d WHERE v < ?) SELECT SUM(p.v) FROM c JOIN p ON p.id = c.id WHERE CAST(p.v AS CHAR) <> ?", []any{7, strings.Repeat("1", 3000)}, "\n15|", ""},
			{"no rows of answers", []string{"SET sql_select_limit = 0"}, "SELECT SUM(v) - 0 FROM p LIMIT 1", nil, "\n15|", ""},
			{"another database after the preparation", nil, "SELECT SUM(v) FROM p WHERE v > ?", nil, "\n15|", "USE " + other},
			{"a temporary table with the name of a CTE", []string{"CREATE TEMPORARY TABLE d (id INT, v INT)", "INSERT INTO d VALUES (1, 1)"},
				"WITH d AS (SELECT * FROM d) SELECT SUM(p.v) FROM p JOIN d ON d.id = p.id", nil, "\n1|", ""},
			{"a temporary table with the name of a CTE of a subquery", []string{"CREATE TEMPORARY TABLE d (id INT, v INT)", "INSERT INTO d VALUES (1, 1)"},
				"SELECT SUM(p.v) FROM p JOIN d ON d.id = p.id WHERE EXISTS (WITH d AS (SELECT 1 AS a) SELECT a FROM d)", nil, "\n1|", ""},
		} {
			clear(x.shapes[:])
			db := x.client(t)
			for _, q := range test.before {
				_, _ = db.Exec(q)
			}
			before := a.ran.Load()
			var got string
			var err error
			if test.prepare != "" {
				s, failed := db.Prepare("SELECT SUM(v) FROM p WHERE v > ?")
				if failed != nil {
					t.Fatal(failed)
				}
				execute(t, db, test.prepare)
				err = s.QueryRow(0).Scan(&got)
				got = "\n" + got + "|"
			} else {
				got, err = answer(db, test.query, test.args...)
			}
			if err != nil || !strings.Contains(got, test.want) {
				t.Errorf("%s: got %q, %v; want %q; in pieces: %v", test.name, got, err, test.want, a.ran.Load() > before)
			}
			db.Close()
		}
	})
}

// TestPanicEndsOneSession makes the state of one session impossible: it alone is closed, and
// counted, and its loop goes on.
func TestPanicEndsOneSession(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x := start(t, kind, nil)
		through := dialRaw(t, "tcp", x.address, x.name, 0, 0)
		c := x.connected()[0]
		for c.phase.Load() != phaseLoop {
			time.Sleep(time.Millisecond)
		}
		others := make([]*rawClient, 2*len(x.loops.list))
		for i := range others {
			others[i] = dialRaw(t, "tcp", x.address, x.name, 0, 0)
		}
		c.turn.mu.Lock()
		c.user.w = 1 << 30
		c.turn.mu.Unlock()
		if _, err := through.Conn.Write([]byte{1, 0, 0, 0, 0x0E}); err != nil {
			t.Fatal(err)
		}
		if n, err := through.Conn.Read(make([]byte, 100)); err == nil {
			t.Errorf("the session goes on: %d bytes", n)
		}
		for _, o := range others {
			if got := o.command(0x0E, ""); len(got) == 0 {
				t.Error("another session doesn't go on")
			}
		}
		r := httptest.NewRecorder()
		x.Handler().ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(r.Body.String(), "rowmill_serve_panics_total 1\n") {
			t.Error("it isn't counted")
		}
	})
}

// TestRecordedStatements has the server record the statements of a session: they are the client's
// own.
func TestRecordedStatements(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		execute(t, x.client(t), "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO p VALUES (1, 1), (2, 2)", "ANALYZE TABLE p")
		const report = "SELECT v, COUNT(*) FROM p GROUP BY v ORDER BY v"
		for _, test := range []struct{ set, read string }{
			{"SET profiling = 1", "SELECT COUNT(DISTINCT QUERY_ID) FROM information_schema.PROFILING"},
			{"SET @@SESSION.Optimizer_Trace = 'enabled=on'", "SELECT QUERY FROM information_schema.OPTIMIZER_TRACE"},
		} {
			clear(x.shapes[:])
			through, direct := dialRaw(t, "tcp", x.address, x.name, 0, 0), dialRaw(t, x.wire.Network, x.wire.Address, x.name, 0, 0)
			before := a.ran.Load()
			for i, q := range []string{"SET sql_notes = 0", report, test.set, report, test.read} {
				if got, want := through.command(mysqlwire.ComQuery, q), direct.command(mysqlwire.ComQuery, q); !sameAnswer(got, want) {
					t.Errorf("%s, then %d: %s:\n got %q\nwant %q", test.set, i, q, got, want)
				}
			}
			through.command(mysqlwire.ComReset, "")
			through.command(mysqlwire.ComQuery, report)
			if n := a.ran.Load() - before; n != 2 {
				t.Errorf("%s: %d in pieces, want those before and after", test.set, n)
			}
		}
	})
}

// TestEmptyPacket sends a packet without a command: the session ends with an error.
func TestEmptyPacket(t *testing.T) {
	x := start(t, "mariadb", nil)
	through, _ := x.pair(t, 0, 0)
	_ = through.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := through.Conn.Write([]byte{0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if p, err := through.packet(1 << 16); err != nil || mysqlwire.ReadError(p[mysqlwire.HeaderSize:]).Code != codeUnknownCommand {
		t.Errorf("got %q, %v", p, err)
	}
	if p, err := through.packet(1 << 16); err == nil {
		t.Errorf("the session goes on: %q", p)
	}
}

// TestLostConnections ends the idle connections for pieces, as a restart of the server does: the
// queries that find out are passed on, and their like are in pieces again at once.
func TestLostConnections(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, _ := startCounting(t, kind, nil)
		own := connect(t, x.config(true))
		execute(t, own, "CREATE TABLE p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO p VALUES (1, 1), (2, 2)", "ANALYZE TABLE p")
		db := x.client(t)
		var id int64
		if err := db.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		inPieces := func(tries int) bool {
			for range tries {
				if got, err := answer(db, "SELECT SUM(v), COUNT(*) FROM p"); err != nil || !strings.HasSuffix(got, "\n3|2|") {
					t.Fatalf("%s, %v", got, err)
				}
				notes, err := answer(db, "SHOW WARNINGS")
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(notes, "answered in 4 pieces") {
					return true
				}
				t.Log(notes)
			}
			return false
		}
		if !inPieces(1) {
			t.Fatal("not in pieces")
		}
		rows, err := own.Query("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND ID <> CONNECTION_ID() AND ID <> ?", x.name, id)
		if err != nil {
			t.Fatal(err)
		}
		var kills []string
		for rows.Next() {
			var other int64
			if err := rows.Scan(&other); err != nil {
				t.Fatal(err)
			}
			kills = append(kills, fmt.Sprintf("KILL %d", other))
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		execute(t, own, kills...)
		if !inPieces(10) {
			t.Error("not in pieces afterwards")
		}
	})
}
