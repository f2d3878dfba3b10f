package session

import (
	"encoding/binary"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// A server knows the function ABS.
type server struct{}

func (server) Syntax(engine.State) sqltext.Syntax {
	return sqltext.Syntax{Backslash: true, DoubleQuoted: true, Backquoted: true, Introducer: true, HashComments: true, DashSpace: true, ExecutableComments: true, UserVars: true, LimitComma: true}
}

func (server) Function(name string, _ int) engine.FunctionKind {
	if name == "abs" {
		return engine.PureFunction
	}
	return engine.UnknownFunction
}

func command(what byte, payload string) []byte { return append([]byte{what}, payload...) }

const query, prepare, execution, id = mysqlwire.ComQuery, mysqlwire.ComStmtPrepare, mysqlwire.ComStmtExecute, "\x07\x00\x00\x00"

// TestSession has commands, and whether queries may be split after them.
func TestSession(t *testing.T) {
	const idle, open = mysqlwire.StatusAutocommit, mysqlwire.StatusAutocommit | mysqlwire.StatusInTransaction
	say := func(text string) []byte { return command(query, text) }
	for _, test := range []struct {
		name     string
		commands [][]byte
		last     Outcome
		want     *string
	}{
		{"nothing", nil, Outcome{Status: idle}, nil},
		{"a connector's start", [][]byte{say("SET NAMES utf8mb4"), say("SET autocommit=1"), say("SET sql_mode='STRICT_ALL_TABLES'"),
			say("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"), say("USE x"), command(mysqlwire.ComInitDB, "x")}, Outcome{Status: idle}, nil},
		{"a transaction", [][]byte{say("BEGIN")}, Outcome{Status: open}, &whyNotNow},
		{"after it", [][]byte{say("BEGIN"), say("COMMIT")}, Outcome{Status: idle}, nil},
		{"autocommit is off", [][]byte{say("SET autocommit=0")}, Outcome{}, &whyManual},
		{"rows were changed", [][]byte{say("UPDATE t SET a = 1")}, Outcome{Status: idle, Affected: true}, &whyNotNow},
		{"SET TRANSACTION", [][]byte{say("SET TRANSACTION READ ONLY"), say("COMMIT"), say("SELECT 1")}, Outcome{Status: idle}, &whyRelayed},
		{"a procedure", [][]byte{say("CALL p()")}, Outcome{Status: idle}, &whyRelayed},
		{"profiling", [][]byte{say("SET profiling = 1"), say("SET profiling = 0")}, Outcome{Status: idle}, &whyRelayed},
		{"an unknown function", [][]byte{say("SELECT f(1)")}, Outcome{Status: idle}, &whyRelayed},
		{"several results", [][]byte{say("SELECT 1; USE x")}, Outcome{Status: idle, Several: true}, &whyRelayed},
		{"the preparation of a SET", [][]byte{command(prepare, "SET sql_mode = ''")}, Outcome{Status: idle}, &whyRelayed},
		{"COM_RESET_CONNECTION", [][]byte{say("CALL p()"), command(mysqlwire.ComReset, "")}, Outcome{Status: idle}, nil},
		{"COM_CHANGE_USER", [][]byte{say("LOCK TABLES t READ"), command(mysqlwire.ComChangeUser, "u")}, Outcome{Status: idle}, nil},
	} {
		s := Session{Server: server{}}
		for _, c := range test.commands {
			s.Note(c, true)
		}
		s.After(test.last)
		if got := s.Refusal(); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		kind, shape := s.Asks(say("SELECT a FROM t"))
		if (kind == Query) != (test.want == nil) || (shape != 0) != (kind == Query) || s.Why != test.want {
			t.Errorf("%s: kind %d, shape %d, why %v", test.name, kind, shape, s.Why)
		}
	}
}

// TestPreparedStatements has commands about a prepared statement with one parameter, and whether
// its next execution may be split.
func TestPreparedStatements(t *testing.T) {
	const run, open, bound = "\x00\x01\x00\x00\x00\x00\x00", "\x01\x01\x00\x00\x00\x00\x00", "\x00\x01\x00\x00\x00\x00\x01\x08\x00"
	for _, test := range []struct {
		name     string
		commands [][]byte
		split    bool
	}{
		{"nothing", nil, true},
		{"statements about rows", [][]byte{command(query, "SELECT 1"), command(query, "INSERT INTO t VALUES (1)")}, true},
		{"an execution", [][]byte{command(execution, id+bound), command(execution, id+run)}, true},
		{"USE", [][]byte{command(query, "USE x")}, false},
		{"COM_INIT_DB", [][]byte{command(mysqlwire.ComInitDB, "x")}, false},
		{"SET", [][]byte{command(query, "SET sql_mode = ''")}, false},
		{"a value in parts", [][]byte{command(mysqlwire.ComStmtLongData, id+"\x00\x00a"), command(mysqlwire.ComStmtReset, id)}, false},
		{"a cursor", [][]byte{command(execution, id+open), command(execution, id+run)}, false},
		{"an execution of the last one", [][]byte{command(execution, "\xff\xff\xff\xff"+run)}, false},
		{"another statement is closed", [][]byte{command(mysqlwire.ComStmtClose, "\x08\x00\x00\x00")}, true},
		{"it is closed", [][]byte{command(mysqlwire.ComStmtClose, id)}, false},
		{"a reset", [][]byte{command(mysqlwire.ComReset, "")}, false},
		{"a reset, and a new preparation", [][]byte{command(mysqlwire.ComReset, ""), command(prepare, "SELECT a FROM t WHERE b = ?")}, true},
	} {
		s := Session{Server: server{}}
		done := Outcome{Status: mysqlwire.StatusAutocommit, Statement: binary.LittleEndian.Uint32([]byte(id)), Params: 1}
		for _, c := range append([][]byte{command(prepare, "SELECT a FROM t WHERE b = ?")}, test.commands...) {
			s.Note(c, true)
			s.After(done)
		}
		if kind, _ := s.Asks(command(execution, id+run)); (kind == Query) != test.split {
			t.Errorf("%s: kind %d", test.name, kind)
		}
	}
}

// TestTypes adds the types of parameters to an execution that lacks them.
func TestTypes(t *testing.T) {
	st := &Statement{Params: 1}
	s := Session{Statements: map[uint32]*Statement{7: st}}
	full := command(execution, id+"\x00\x01\x00\x00\x00\x00\x01\x08\x00\x05\x00\x00\x00\x00\x00\x00\x00")
	short := command(execution, id+"\x00\x01\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00")
	if st.Unsent = st.NoteTypes(full); s.Lacking(full) != nil || s.Lacking(short) != st {
		t.Error("the types that the server lacks aren't known")
	}
	if got := st.WithTypes(short); string(got) != string(full) {
		t.Errorf("%q", got)
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]Kind{
		"SELECT 1": Query, "  /* a */ select 1": Query, "(SELECT 1) UNION (SELECT 2)": Query, "-- x\n# y\nWITH c AS (SELECT 1) SELECT 1": Query,
		"SELECTED": Other, "INSERT INTO t SELECT 1": Other, "": Other, "/* not ended": Other, "--": Other,
		"KILL 5": Kill, "kill query 5": Kill, "/*!40101 SET NAMES utf8 */": Other, "SELECT 1;": Query, "SELECT ';' FROM t": Query, "SHOW WARNINGS": Show,
	} {
		if got := kindOf([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestRelays has statements after which a session is relayed.
func TestRelays(t *testing.T) {
	s := Session{Server: server{}}
	for text, want := range map[string]bool{
		"SET TRANSACTION READ ONLY": true, "set /* x */ transaction isolation level serializable": true, "SET @@tx_isolation = 'READ-UNCOMMITTED'": true,
		"SET transaction_isolation = 'x'": true, "SET SESSION sql_mode = '', @@tx_isolation = 'x'": true,
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY": false, "SET @@session.tx_isolation = 'x'": false, "SET GLOBAL transaction_isolation = 'x'": false,
		"SET NAMES utf8mb4": false, "set session_track_system_variables = CONCAT(@@global.session_track_system_variables, ',tx_isolation'), NAMES utf8mb4": false, "SET \"tx_isolation\" = 'x'": true, "SET @a = f()": true, "SET @a = ABS(-1), @b = 'f (1)'": false, "USE x": false, "ALTER TABLE t ADD a INT": false,
		"SET STATEMENT max_statement_time=1 FOR SELECT 1": true, "SET /*!100000 STATEMENT a=1 FOR*/ EXECUTE p": true,
		"CALL p()": true, "EXECUTE s": true, "EXECUTE IMMEDIATE 'x'": true, "BEGIN": false, "BEGIN NOT ATOMIC CALL p(); END": true, "LOCK TABLES t READ": true, "FLUSH TABLES WITH READ LOCK": true, "INSERT INTO t VALUES ('a; b')": false, "nonsense": true, "": true,
		"/*!40101 SET TRANSACTION READ ONLY */": true, "DO f()": true, "DO 1": false, "SET profiling = 1": true, "SELECT * FROM information_schema.PROFILING": false,
		"SELECT abs (1), (2), 3 / (4), COUNT(*) AS 'f(1)' FROM t WHERE a IN (1) AND b <> \"it\\\"s f(1)\" -- f(1)": false, "SELECT /* ' */ f(1), 'x'": true,
		"SELECT f (1)": true, "SELECT x.abs(1)": true, "SELECT `f`(1)": true, "SELECT \"f\"(1)": true, "SELECT f/**/(1)": true, "SELECT /*!1 f(1)*/": true,
		"WITH RECURSIVE c (n) AS (SELECT 1) SELECT * FROM (SELECT n FROM c) AS d (m)": false, "SELECT 'not ended (": true,
		"INSERT INTO t VALUES (f(1))": true, "INSERT INTO t (a, b) VALUES (1, ABS(2)), (3, 'f(4)')": false, "INSERT INTO x.t (a) VALUE (f(1))": true, "REPLACE t SELECT f()": true,
		"VALUES (f())": true, "values (1), (2)": false, "UPDATE t SET a = f()": true, "DELETE FROM t WHERE a IN (1)": false, "SHOW TABLES WHERE f()": true,
		"SHOW COUNT(*) WARNINGS": false, "EXPLAIN SELECT f()": true,
	} {
		if got := s.Relays([]byte(text), true); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if s.Relays([]byte("INSERT INTO t (a) VALUES ('x'), ('cut (o"), false) {
		t.Error("the beginning of a long text")
	}
}

func TestShape(t *testing.T) {
	same := []string{"SELECT a FROM t1 WHERE b = 5 AND c = 'x'", "SELECT a FROM t1 WHERE b = 77 AND c = 'it''s'", `SELECT a FROM t1 WHERE b = 1.5 AND c = "\"y"`}
	if Shape([]byte(same[0]), "") != Shape([]byte(same[2]), "") {
		t.Error("statements that differ in values alone have different shapes")
	}
	if Shape([]byte(same[0]), "a") == Shape([]byte(same[0]), "b") {
		t.Error("two accounts have one shape")
	}
	for _, other := range []string{"SELECT a FROM t2 WHERE b = 5 AND c = 'x'", "SELECT a FROM t1 WHERE b = 5", ""} {
		if Shape([]byte(other), "") == Shape([]byte(same[0]), "") {
			t.Errorf("%q has the same shape", other)
		}
	}
}

func FuzzSession(f *testing.F) {
	f.Add(command(query, "SET TRANSACTION READ ONLY; LOCK"), command(execution, id))
	f.Add(command(prepare, "SELECT a FROM t WHERE b = ?"), command(execution, id+"\x00\x01\x00\x00\x00\x00\x01\x08\x00"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s := Session{Server: server{}, Attributes: len(a) > 20}
		for _, p := range [][]byte{a, b} {
			if len(p) == 0 {
				continue
			}
			s.Asks(p)
			s.Lacking(p)
			s.Note(p, true)
			s.After(Outcome{Status: mysqlwire.StatusAutocommit, Statement: 7, Params: 1})
			relayed := s.Relayed
			s.Note(command(query, "SELECT 1"), true)
			if relayed && (!s.Relayed || s.Refusal() == nil) {
				t.Errorf("%q: no longer relayed", p)
			}
			ShowsWarnings(p)
		}
	})
}
