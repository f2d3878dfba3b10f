package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A concatenating Answerer splits every query over one table into its partitions, and concatenates.
type concatenating struct {
	*query.Runner
	reader engine.Reader
	ran    atomic.Int64 // queries in pieces
	fail   atomic.Bool  // pieces fail
}

func (a *concatenating) Plan(ctx context.Context, text string, st engine.State) (*plan.Plan, error) {
	q, err := parse.Parse(text, a.reader.Syntax(st))
	if err != nil || q.Body == nil || len(q.Body.From) != 1 || q.Body.From[0].Table == "" {
		return &plan.Plan{Whole: "it can't be split"}, nil
	}
	from := q.Body.From[0]
	s, err := a.reader.ReadSession(ctx, st)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	cols, err := a.reader.DescribeQuery(ctx, s, text)
	if err != nil {
		return nil, err
	}
	table, err := a.reader.TableParts(ctx, s, from.Database, from.Table)
	if err != nil {
		return &plan.Plan{Whole: err.Error()}, nil
	}
	if len(table.Parts) < 2 {
		return &plan.Plan{Whole: "only one partition"}, nil
	}
	p := &plan.Plan{Statement: plan.Statement{Text: text, State: st, Columns: cols}, Partials: plan.Partials{PartialColumns: cols, Keys: len(cols)}, Source: plan.Source{Table: table, Alias: from.Alias}}
	if p.Alias == "" {
		p.Alias = from.Table
	}
	p.Partial = [2]string{text[:from.Name.From], text[from.Name.To:]}
	for _, part := range table.Parts {
		p.Parts = append(p.Parts, part.Name)
		p.Pieces = append(p.Pieces, plan.Piece{Parts: []string{part.Name}, Rows: part.Rows})
	}
	return p, nil
}

func (a *concatenating) Run(ctx context.Context, p *plan.Plan, s query.Sink) (*query.Report, error) {
	a.ran.Add(1)
	if a.fail.Load() {
		return nil, errors.New("pieces fail in this test")
	}
	return a.Runner.Run(ctx, p, s)
}

// startSplitting starts a front that splits queries.
func startSplitting(t testing.TB, kind string, change func(*Options)) (*fixture, *concatenating) {
	t.Helper()
	a := &concatenating{}
	x := start(t, kind, func(o *Options) {
		a.reader = o.Reader
		a.Runner = query.New(o.Reader, query.Options{Parallel: 2, NoRerun: true})
		o.Answer, o.MaxPieces, o.Parallel = a, 4, 2
		if change != nil {
			change(o)
		}
	})
	t.Cleanup(func() {
		x.stop()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return x, a
}

// table creates a table with columns of all types.
func table(t testing.TB, x *fixture) {
	t.Helper()
	execute(t, x.client(t),
		"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, bi BIGINT UNSIGNED, de DECIMAL(12,3), "+
			"vc VARCHAR(300), tx TEXT, bl BLOB, en ENUM('a','b'), se SET('x','y'), bt BIT(9), dt DATE, dm DATETIME(3), ts TIMESTAMP NULL, tm TIME(2), ye YEAR, js JSON, fl DOUBLE, "+
			"zf INT(6) ZEROFILL) CHARACTER SET utf8mb4 PARTITION BY HASH (id) PARTITIONS 4",
		"INSERT INTO t VALUES (1, -5, 65535, -8388608, 18446744073709551615, -123.456, 'é', '', x'00FF27', 'a', 'x,y', b'101', '2024-02-29', '2024-02-29 00:00:00', '2024-02-29 10:11:12', '-100:10:11.5', 2024, '{\"a\": 1}', 1.5, 42)",
		"INSERT INTO t (id) VALUES (2), (3)",
		"INSERT INTO t (id, vc, dm, tm) VALUES (4, REPEAT('z', 260), '1999-01-01 23:59:59.125', '00:00:00'), (5, 'it''s \\\\ \"q\"', NULL, '10:00:00')")
}

func TestAnswersInPieces(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startSplitting(t, kind, nil)
		table(t, x)
		for _, caps := range []struct{ caps, extended uint32 }{{0, 0}, {mysqlwire.CapDeprecateEOF, 0}, {mysqlwire.CapDeprecateEOF | mysqlwire.CapAttributes, 0x1F}, {0, 0x1F}} {
			direct := dialRaw(t, x.wire.Network, x.wire.Address, x.name, caps.caps, caps.extended)
			through := dialRaw(t, "tcp", x.address, x.name, caps.caps, caps.extended)
			through.command(mysqlwire.ComQuery, "SET SESSION sql_notes = 0") // no count of notes in the last packet
			direct.command(mysqlwire.ComQuery, "SET SESSION sql_notes = 0")
			for i, q := range []string{
				"SELECT * FROM t",
				"SELECT id, vc AS name FROM t WHERE id < 4",
				"SELECT vc FROM t AS x WHERE x.id = 4 OR x.vc = 'é'",
				"SELECT id FROM t WHERE id > 100",
				"select `id`+1, CONCAT(vc, 'ä') from `t` where id > 0",
			} {
				// Another shape each time: a shape is not looked at for a while once it has been
				// passed on whole.
				before := a.ran.Load()
				got, want := through.command(mysqlwire.ComQuery, q), direct.command(mysqlwire.ComQuery, q)
				if a.ran.Load() == before {
					t.Errorf("%d: %s: not in pieces", i, q)
				}
				if !sameAnswer(got, want) {
					t.Errorf("caps %x %x: %s:\n got %q\nwant %q", caps.caps, caps.extended, q, got, want)
				}
			}
			if caps.caps&mysqlwire.CapAttributes != 0 {
				continue
			}
			for _, q := range []string{"SELECT * FROM t WHERE id < ?", "SELECT id, ti, si, mi, bi, de, vc, tx, bl, en, se, bt, dt, dm, ts, ye, js, zf FROM t WHERE id < ?"} {
				for _, bound := range []int64{4, 100} {
					before := a.ran.Load()
					got, want := through.execute(q, bound), direct.execute(q, bound)
					if !sameAnswer(got, want) {
						t.Errorf("caps %x %x: %s:\n got %q\nwant %q", caps.caps, caps.extended, q, got, want)
					}
					// MySQL converts parameters for TIME and YEAR by other rules than literals, and
					// MariaDB's libraries keep definitions.
					may := !strings.Contains(q, "*") && kind == "mariadb" && caps.extended&mysqlwire.CapCacheMeta == 0
					if split := a.ran.Load() > before; split && strings.Contains(q, "*") && !bytes.Equal(got[0], want[0]) || split != may && !strings.Contains(q, "*") {
						t.Errorf("%s: in pieces: %v", q, split)
					}
				}
			}
		}
	})
}

// sameAnswer compares packets byte by byte; rows, which have no order here, in any order.
func sameAnswer(got, want [][]byte) bool {
	if len(got) != len(want) {
		return false
	}
	rows := map[string]int{}
	for i := range got {
		if got[i][3] != want[i][3] {
			return false
		}
		rows[string(got[i][mysqlwire.HeaderSize:])]++
		rows[string(want[i][mysqlwire.HeaderSize:])]--
	}
	for _, n := range rows {
		if n != 0 {
			return false
		}
	}
	return len(got) > 0 && bytes.Equal(got[0], want[0]) && bytes.Equal(got[len(got)-1], want[len(want)-1])
}

// execute prepares and executes a query with one parameter, and returns the packets of the result.
func (r *rawClient) execute(q string, value int64) [][]byte {
	r.t.Helper()
	r.command(mysqlwire.ComStmtPrepare, q)
	id := binary.LittleEndian.AppendUint32(nil, r.reply.statement)
	p := string(id) + "\x00\x01\x00\x00\x00\x00\x01\x08\x00"
	return r.command(mysqlwire.ComStmtExecute, p+string(binary.LittleEndian.AppendUint64(nil, uint64(value))))
}

func TestPassedOnWhole(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startSplitting(t, kind, nil)
		table(t, x)
		execute(t, x.client(t),
			"CREATE VIEW v AS SELECT * FROM t WHERE vc <> USER()", "CREATE TABLE plain (id INT PRIMARY KEY, a INT)",
			"CREATE TABLE own (id INT PRIMARY KEY, b INT) PARTITION BY HASH (id) PARTITIONS 2", "INSERT INTO own VALUES (1, 1), (2, 2)")
		n := 0
		for _, test := range []struct {
			name   string
			before []string
			query  string
			after  []string
		}{
			{"a transaction", []string{"BEGIN"}, "SELECT id FROM t", []string{"COMMIT"}},
			{"no autocommit", []string{"SET autocommit = 0"}, "SELECT id FROM t", []string{"SET autocommit = 1"}},
			{"locked tables", []string{"LOCK TABLES t WRITE"}, "SELECT id FROM t", nil},
			{"locked by a statement as text", []string{"PREPARE s FROM 'SELECT 1'", "EXECUTE s"}, "SELECT id FROM t", nil},
			{"a temporary table", []string{"CREATE TEMPORARY TABLE own (id INT, b INT)", "INSERT INTO own VALUES (7, 7)"}, "SELECT id, b FROM own", []string{"DROP TEMPORARY TABLE own"}},
			{"a view", nil, "SELECT id FROM v", nil},
			{"the next transaction", []string{"SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"}, "SELECT id FROM t", nil},
			{"read uncommitted", []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"}, "SELECT id FROM t", []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"}},
			{"a clock that stands", []string{"SET timestamp = 1000000000"}, "SELECT id, NOW() FROM t", []string{"SET timestamp = DEFAULT"}},
			{"latin1", []string{"SET NAMES latin1"}, "SELECT id FROM t", []string{"SET NAMES utf8mb4"}},
			{"two statements", nil, "SELECT id FROM t; SELECT id FROM t", nil},
			{"a comment behind the semicolon", nil, "SELECT id FROM t; -- x", nil}, // which is a statement without an answer
			{"two comments behind the semicolon", nil, "SELECT id FROM t ; /* x */ # y", nil},
			{"a function of the user", []string{"CREATE FUNCTION twice (x INT) RETURNS INT DETERMINISTIC RETURN 2 * x"}, "SELECT twice(id) FROM t", nil},
			{"a variable", nil, "SELECT @a := id FROM t", nil},
			{"an error", nil, "SELECT nothing FROM t", nil},
			{"no partitions", nil, "SELECT id FROM plain", nil},
		} {
			n++
			c := x.config(false)
			c.MultiStatements = true
			db := connect(t, c)
			execute(t, db, test.before...)
			ran := a.ran.Load()
			q := strings.Replace(test.query, "id", strings.Repeat(" ", n)+"id", 1)
			got, err := answer(db, q)
			if a.ran.Load() != ran {
				t.Errorf("%s: in pieces", test.name)
			}
			if test.name == "a temporary table" && !strings.Contains(got, "7|7") {
				t.Errorf("%s: %s, %v", test.name, got, err)
			}
			execute(t, db, test.after...)
			if test.after == nil {
				db.Close()
				continue
			}
			if _, err := answer(db, fmt.Sprintf("SELECT %d, id FROM t", n)+strings.Repeat(" ", n)); err != nil {
				t.Error(err)
			}
			if a.ran.Load() == ran {
				t.Errorf("%s: not in pieces afterwards", test.name)
			}
		}
	})
}

func TestPrivileges(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startSplitting(t, kind, nil)
		table(t, x)
		user := "u" + x.name[:min(20, len(x.name))]
		native := "IDENTIFIED BY 'secret'"
		if kind == "mysql" {
			native = "IDENTIFIED WITH mysql_native_password BY 'secret'"
		}
		execute(t, x.client(t), "CREATE TABLE u LIKE t", "CREATE USER "+user+" "+native, "GRANT SELECT ON "+x.name+".t TO "+user, "GRANT SELECT (id, ti) ON "+x.name+".u TO "+user)
		t.Cleanup(func() { execute(t, connect(t, x.config(true)), "DROP USER "+user) })
		c := x.config(false)
		c.User, c.Passwd, c.AllowNativePasswords = user, "secret", true
		db := connect(t, c)
		if got, err := answer(db, "SELECT id, ti FROM t"); err != nil || a.ran.Load() != 1 {
			t.Errorf("permitted columns: %s, %v, %d in pieces", got, err, a.ran.Load())
		}
		for _, q := range []string{"SELECT id, vc FROM u", "SELECT id FROM u WHERE vc > ''", "SELECT COUNT(*) FROM mysql.user"} {
			var e *mysql.MySQLError
			if got, err := answer(db, q); !errors.As(err, &e) || e.Number != 1143 && e.Number != 1142 || a.ran.Load() != 1 {
				t.Errorf("%s: %s, %v", q, got, err)
			}
		}
		c.Passwd = "wrong"
		var e *mysql.MySQLError
		if err := connect(t, c).Ping(); !errors.As(err, &e) || e.Number != 1045 {
			t.Errorf("a wrong password: %v", err)
		}
	})
}

// TestSettingsOfTheServer writes a table's name in another case than the catalog has it, and
// connects when packets have to be shorter than the front's own statements. The server is its own,
// which takes half a second.
func TestSettingsOfTheServer(t *testing.T) {
	t.Parallel()
	x, a := startSplitting(t, "mariadb?set=lower_case_table_names=1", nil)
	execute(t, x.client(t), "CREATE TABLE Big (id INT NOT NULL PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 4", "INSERT INTO big VALUES (1), (2), (3), (4), (5)")
	db, direct := x.client(t), connect(t, x.config(true))
	for i, q := range []string{"SELECT Big.id FROM Big WHERE id = 4 OR id > 100", "SELECT B.id FROM BIG AS B WHERE id = 4 OR id > 100"} {
		got, err := answer(db, q)
		want, wantErr := answer(direct, q)
		if got != want || err != nil || wantErr != nil || a.ran.Load() != int64(i)+1 {
			how, _ := answer(db, "SHOW WARNINGS")
			t.Errorf("%s: %s, %v; want %s, %v; %d answers in pieces; %s", q, got, err, want, wantErr, a.ran.Load(), how)
		}
	}
	execute(t, direct, "SET GLOBAL max_allowed_packet = 1024, GLOBAL net_buffer_length = 1024, GLOBAL lc_time_names = 'fi_FI'")
	short := x.client(t)
	for _, q := range []string{"SELECT @@lc_time_names", "SELECT b.id FROM Big AS b WHERE id = 4 OR id > 100", "SHOW WARNINGS"} {
		got, err := answer(short, q)
		if want := map[byte]string{'@': "\nfi_FI|", 'b': "\n4|", 'R': "max_allowed_packet"}[q[7]]; err != nil || !strings.Contains(got, want) {
			t.Errorf("with short packets: %s: %s, %v", q, got, err)
		}
	}
}

func TestShowWarnings(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startSplitting(t, kind, nil)
		table(t, x)
		db := x.client(t)
		if _, err := answer(db, "SELECT id FROM t"); err != nil || a.ran.Load() != 1 {
			t.Fatal(err)
		}
		got, err := answer(db, "SHOW WARNINGS")
		if err != nil || !strings.Contains(got, "Note|1105|rowmill: answered in 4 pieces of t") {
			t.Errorf("%s, %v", got, err)
		}
		// A driver that raises warnings as errors goes by their number.
		raw, own := x.pair(t, 0, 0)
		const q = "SELECT id + 0 FROM t WHERE id = 4 OR id > 100"
		before := a.ran.Load()
		if got, want := raw.command(mysqlwire.ComQuery, q), own.command(mysqlwire.ComQuery, q); !sameAnswer(got, want) || a.ran.Load() != before+1 {
			t.Errorf("%s:\n got %q\nwant %q, %d in pieces", q, got, want, a.ran.Load()-before)
		}
		for _, test := range []struct{ query, want string }{{"SELECT FOUND_ROWS()", "\n5|"}, {"SHOW WARNINGS", "]"}} {
			if got, err := answer(db, test.query); err != nil || !strings.HasSuffix(got, test.want) {
				t.Errorf("%s: %s, %v", test.query, got, err)
			}
		}
		if _, err := answer(db, "SELECT id FROM t"); err != nil {
			t.Error(err)
		}
		if count, err := answer(db, "show count(*) warnings"); err != nil || !strings.HasSuffix(count, "\n0|") {
			t.Errorf("%s, %v", count, err)
		}
		// Warnings about values: as on the server, also if rows have been passed on before they
		// were known.
		execute(t, db, "UPDATE t SET tx = REPEAT('x', 60000)", "SET sql_mode = 'ERROR_FOR_DIVISION_BY_ZERO'")
		direct := connect(t, x.config(true))
		execute(t, direct, "SET sql_mode = 'ERROR_FOR_DIVISION_BY_ZERO'")
		for _, q := range []string{"SELECT id, 1 / (id - 4) FROM t WHERE id = 4 OR id > 100", "SELECT id, tx, 1 / (id - 4), id - 4 FROM t"} {
			for _, q := range []string{q, "SHOW COUNT(*) WARNINGS", q, "SHOW WARNINGS"} {
				got, err := answer(db, q)
				want, wantErr := answer(direct, q)
				if len(got) != len(want) || err != nil || wantErr != nil || len(want) < 2000 && strings.Contains(q, "SHOW") && got != want {
					t.Errorf("%s: %.200s, %v; want %.200s, %v", q, got, err, want, wantErr)
				}
			}
		}
		ran := a.ran.Load()
		a.fail.Store(true)
		if got, err := answer(db, "SELECT id, id FROM t"); err != nil || strings.Count(got, "\n") != 5 || a.ran.Load() != ran+1 {
			t.Errorf("pieces that fail: %s, %v", got, err)
		}
	})
}

// A sleepy reader lets queries sleep in pieces.
type sleepy struct{ engine.Reader }

func (s sleepy) Function(name string, args int) engine.FunctionKind {
	if name == "sleep" {
		return engine.PureFunction
	}
	return s.Reader.Function(name, args)
}

func TestKillEndsPieces(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startSplitting(t, kind, func(o *Options) { o.Reader = sleepy{o.Reader} })
		table(t, x)
		db, other := x.client(t), x.client(t)
		id, err := answer(db, "SELECT CONNECTION_ID()")
		if err != nil {
			t.Fatal(err)
		}
		id = strings.TrimSuffix(id[strings.IndexByte(id, '\n')+1:], "|")
		const q = "SELECT id FROM t WHERE SLEEP(IF(id = 4, 0, 30)) = 0"
		for i, end := range []string{"KILL QUERY " + id, "KILL " + id, ""} {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			if i == 2 {
				db = x.client(t)
			}
			go func() {
				rows, err := db.QueryContext(ctx, q+strings.Repeat(" ", i+1))
				if err == nil {
					for rows.Next() {
					}
					err = rows.Err()
					rows.Close()
				}
				done <- err
			}()
			testdb.Until(t, "the query is in pieces", func() bool { return a.ran.Load() > int64(i) })
			time.Sleep(100 * time.Millisecond)
			if end != "" {
				execute(t, other, end)
			} else {
				cancel()
			}
			select {
			case err := <-done:
				var e *mysql.MySQLError
				if i == 0 && (!errors.As(err, &e) || e.Number != codeInterrupted) || err == nil {
					t.Errorf("%q: %v", end, err)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%q: the query goes on", end)
			}
			cancel()
			testdb.Until(t, "no pieces run", func() bool {
				got, err := answer(other, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(IF(id%' AND ID <> CONNECTION_ID() AND DB = '"+x.name+"'")
				return err == nil && strings.HasSuffix(got, "\n0|")
			})
			if i == 0 {
				if got, err := answer(db, "SELECT 5"); err != nil || !strings.HasSuffix(got, "5|") {
					t.Errorf("after %s: %s, %v", end, got, err)
				}
			}
		}
	})
}

// TestUnconverted reads as MySQL's connector for Java does: without a character set of results.
func TestUnconverted(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startSplitting(t, kind, nil)
		table(t, x)
		execute(t, x.client(t), "CREATE TABLE l (id INT PRIMARY KEY, s VARCHAR(10) CHARACTER SET latin1, g VARCHAR(5) CHARACTER SET ascii, u VARCHAR(5) CHARACTER SET utf8mb3 COLLATE utf8mb3_unicode_ci) PARTITION BY HASH (id) PARTITIONS 2",
			"INSERT INTO l VALUES (1, 'é', 'e', 'ü'), (2, 'ß', 's', 'ö')")
		direct := dialRaw(t, x.wire.Network, x.wire.Address, x.name, 0, 0)
		through := dialRaw(t, "tcp", x.address, x.name, 0, 0)
		for _, test := range []struct {
			query string
			split bool
		}{{"SELECT id, vc, js, en FROM t", true}, {"SELECT s FROM l", false}, {"SELECT g, u FROM l", true}} {
			before := a.ran.Load()
			for _, c := range []*rawClient{direct, through} {
				c.command(mysqlwire.ComQuery, "SET character_set_results = NULL, sql_notes = 0")
			}
			got, want := through.command(mysqlwire.ComQuery, test.query), direct.command(mysqlwire.ComQuery, test.query)
			if !sameAnswer(got, want) {
				t.Errorf("%s:\n got %q\nwant %q", test.query, got, want)
			}
			// The pieces have run before the column is known.
			if test.split && a.ran.Load() == before {
				t.Errorf("%s: not in pieces", test.query)
			}
		}
	})
}
