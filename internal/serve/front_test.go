package serve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }

// kinds are the servers that the front is for.
var kinds = []string{"mariadb", "mysql"}

// A fixture is a front before the database of a test.
type fixture struct {
	*Front
	db      engine.DB
	wire    engine.Wire
	name    string // of the database
	address string
	stop    func()
}

// start starts a front. change changes its options, unless it is nil.
func start(t testing.TB, kind string, change func(*Options)) *fixture {
	t.Helper()
	return startOn(t, testdb.Open(t, kind), change)
}

func startOn(t testing.TB, db engine.DB, change func(*Options)) *fixture {
	t.Helper()
	at, err := engine.ParseTarget(db.Info().Target)
	if err != nil {
		t.Fatal(err)
	}
	x := &fixture{db: db, wire: db.(engine.Wired).Wire(), name: at.Path}
	o := Options{Wire: x.wire, Reader: db.(engine.Reader), Say: func(line string) { t.Log(line) }}
	if change != nil {
		change(&o)
	}
	if x.Front, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var served error
	all.Go(func() { served = x.Serve(ctx, l) })
	x.stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		if served != nil {
			t.Errorf("serve: %v", served)
		}
	})
	t.Cleanup(x.stop)
	return x
}

// config returns the configuration of a client of the front, or of the server itself.
func (x *fixture) config(direct bool) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.DBName = "root", x.name
	c.Net, c.Addr = "tcp", x.address
	c.AllowNativePasswords, c.Timeout = true, 20*time.Second
	if direct {
		c.Net, c.Addr = x.wire.Network, x.wire.Address
	}
	return c
}

// connect opens a client of one connection.
func connect(t testing.TB, c *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func (x *fixture) client(t testing.TB) *sql.DB { return connect(t, x.config(false)) }

func execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%.100s: %v", q, err)
		}
	}
}

// answer returns all results of a statement as text.
func answer(db *sql.DB, q string, args ...any) (string, error) {
	rows, err := db.Query(q, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var out strings.Builder
	for {
		types, err := rows.ColumnTypes()
		if err != nil {
			return "", err
		}
		values, places := make([]sql.RawBytes, len(types)), make([]any, len(types))
		for i, c := range types {
			fmt.Fprintf(&out, "[%s %s]", c.Name(), c.DatabaseTypeName())
			places[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(places...); err != nil {
				return "", err
			}
			out.WriteByte('\n')
			for _, v := range values {
				if v == nil {
					out.WriteString("NULL|")
				} else {
					fmt.Fprintf(&out, "%s|", v)
				}
			}
		}
		if err := rows.Err(); err != nil {
			return "", err
		}
		if !rows.NextResultSet() {
			return out.String(), rows.Err()
		}
		out.WriteString("\n--\n")
	}
}

func TestPassesOn(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x := start(t, kind, nil)
		c := x.config(false)
		c.MultiStatements, c.AllowAllFiles, c.MaxAllowedPacket = true, true, 60<<20
		through := connect(t, c)
		execute(t, through,
			"CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(50), body LONGTEXT)",
			"INSERT INTO t VALUES (1, 'one', NULL), (2, '', 'x'), (3, NULL, REPEAT('y', 300000))")
		for _, test := range []struct {
			query string
			args  []any
		}{
			{"SELECT * FROM t ORDER BY id", nil},
			{"SELECT id, name FROM t WHERE id < ? ORDER BY id", []any{3}},
			{"SELECT name FROM t WHERE id = ? OR body = ?", []any{2, strings.Repeat("z", 70000)}},
			{"SELECT 1 AS a; SELECT 2 AS b, 3 AS c; SELECT id FROM t WHERE id > 100", nil},
			{"SELECT no_such_column FROM t", nil},
			{"SELEC", nil},
			{"SELECT 1/0", nil},
			{"SHOW WARNINGS", nil},
			{"SELECT REPEAT('a', 17000000) AS a, 5 AS b", nil},
			{"SELECT '" + strings.Repeat("b", 17<<20) + "' AS a", nil},
			{"SELECT LENGTH(?) AS a", []any{strings.Repeat("c", 20000)}},
			{"SELECT '' AS a FROM t", nil},
			{"EXPLAIN SELECT * FROM t", nil},
			{"DO 1", nil},
		} {
			got, err := answer(through, test.query, test.args...)
			direct := x.config(true)
			direct.MultiStatements, direct.MaxAllowedPacket = true, c.MaxAllowedPacket
			want, wantErr := answer(connect(t, direct), test.query, test.args...)
			if test.query == "SHOW WARNINGS" {
				if !strings.Contains(got, "1365") {
					t.Errorf("warnings of the statement before: %s", got)
				}
				continue
			}
			// The server may close the connection over a packet that is too large for it.
			var number *mysql.MySQLError
			if err != nil && wantErr != nil && !errors.As(wantErr, &number) {
				continue
			}
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%.60s: got %.200q, %v; want %.200q, %v", test.query, got, err, want, wantErr)
			}
		}
		execute(t, through, "BEGIN", "INSERT INTO t VALUES (4, 'four', NULL)")
		if got, _ := answer(through, "SELECT COUNT(*) FROM t"); !strings.Contains(got, "4|") {
			t.Errorf("in the transaction: %s", got)
		}
		execute(t, through, "ROLLBACK")
		if got, _ := answer(through, "SELECT COUNT(*) FROM t"); !strings.Contains(got, "3|") {
			t.Errorf("after the rollback: %s", got)
		}
	})
}
