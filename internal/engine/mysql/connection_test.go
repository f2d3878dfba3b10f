package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestHostile runs the suites on servers whose defaults all differ from the
// settings that sessions rely on: a part of the suites on one server, and nightly
// all of them on each.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, servers...) {
		t.Run(kind, func(t *testing.T) {
			hostile := testdb.Hostile(t, kind)
			enginetest.RunHostile(t, testdb.Nightly(), func(t testing.TB) engine.Keeper { return testdb.Open(t, hostile).(engine.Keeper) })
		})
	}
}

// TestHostileSessions: on such a server, connections of each kind have the same
// settings, however they were made and after each Reset.
func TestHostileSessions(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, servers...) {
		t.Run(kind, func(t *testing.T) { testHostileSessions(t, testdb.Open(t, testdb.Hostile(t, kind)).(*mysql.DB)) })
	}
}

func testHostileSessions(t *testing.T, db *mysql.DB) {
	isolation, readOnly, limit := "@@transaction_isolation", "@@transaction_read_only", "@@max_execution_time"
	if db.Info().Engine == "mariadb" {
		isolation, readOnly, limit = "@@tx_isolation", "@@tx_read_only", "@@max_statement_time"
	}
	base := []string{
		"@@autocommit = 1", "@@completion_type = 'NO_CHAIN'", readOnly + " = 0", limit + " = 0", "@@time_zone = '+00:00'",
		"@@sql_mode NOT LIKE '%NO_BACKSLASH%'", "@@sql_mode NOT LIKE '%ANSI%'", "@@sql_mode NOT LIKE '%PIPES%'", "@@sql_mode LIKE '%STRICT_ALL_TABLES%'",
		"@@sql_mode LIKE '%NO_ENGINE_SUBSTITUTION%'",
		"@@character_set_client = 'utf8mb4'", "@@character_set_results = 'utf8mb4'", "@@collation_connection = 'utf8mb4_general_ci'",
		"@@sql_auto_is_null = 0", "@@sql_safe_updates = 0", "@@sql_select_limit > 1000000", "@@sql_big_selects = 1", "@@unique_checks = 1",
		"@@foreign_key_checks = 1", "@@div_precision_increment = 4", "@@net_write_timeout = 3600", "@@explicit_defaults_for_timestamp = 1",
	}
	writing := append(slices.Clone(base), isolation+" = 'REPEATABLE-READ'")
	keeping := append(slices.Clone(base), isolation+" = 'READ-COMMITTED'", "@@lock_wait_timeout = 1", "@@innodb_lock_wait_timeout = 5",
		"@@sql_mode LIKE '%NO_AUTO_VALUE_ON_ZERO%'", "LENGTH(@@sql_mode) = LENGTH("+mysql.KeepMode+")")
	loading := append(slices.Clone(base), isolation+" = 'READ-COMMITTED'", "@@lock_wait_timeout = 10", "@@innodb_lock_wait_timeout = 10", "@@sql_notes = 0", "@@max_error_count = 65535",
		"@@sql_mode LIKE '%NO_AUTO_VALUE_ON_ZERO%'")
	check := func(who string, want []string, ask func(query string) (int64, error)) {
		t.Helper()
		for _, is := range want {
			if n, err := ask("SELECT " + is); n != 1 || err != nil {
				t.Errorf("%s: not %s: %v", who, is, err)
			}
		}
	}
	pooled := func(pool *sql.DB) func(string) (int64, error) {
		return func(q string) (n int64, err error) { return n, pool.QueryRowContext(within(t), q).Scan(&n) }
	}
	check("catalog", writing, pooled(db.Pool()))
	check("maintenance", keeping, pooled(db.SQL()))
	check("changes of periods", keeping, pooled(db.Changes()))
	w, l := smallWriter(t, db, engine.Multi), openLoader(t, db)
	for range 2 { // the second time, on another connection
		check("writer", append(slices.Clip(writing), "LENGTH(@@sql_mode) = LENGTH("+mysql.SQLMode+")"), func(q string) (int64, error) { return mysql.Number(w, q) })
		check("loader", loading, func(q string) (int64, error) { return mysql.Number(l, q) })
		db.Kill(within(t), mysql.ConnectionID(w))
		db.Kill(within(t), mysql.ConnectionID(l))
		for _, c := range []interface{ Reset(context.Context) error }{w, l} {
			must(t, c.Reset(within(t)))
		}
	}
}

// TestHostileWarnings: if the server keeps no warnings by default, every method
// still refuses rows whose values the server would truncate.
func TestHostileWarnings(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, servers...) {
		t.Run(kind, func(t *testing.T) {
			db := testdb.Open(t, kind+"?set=max_error_count=0").(*mysql.DB)
			table := small()
			table.Columns[1] = engine.Column{Name: "n", Type: engine.Varchar, Size: 2}
			must(t, db.Apply(within(t), engine.CreateTable{Table: table}))
			wide := small()
			wide.Columns[1] = engine.Column{Name: "n", Type: engine.Varchar, Size: 9}
			b := engine.NewBatch(wide.Columns)
			b.Columns[0].Ints = []int64{1}
			b.Columns[1].Bytes, b.Columns[1].Ends = []byte("too long"), []int{8}
			b.EndRow()
			for _, m := range db.Capabilities().Methods {
				w, err := db.Writer(within(t), wide, m)
				must(t, err)
				if ack, err := w.Write(within(t), b); !errors.Is(err, engine.ErrRefused) {
					t.Errorf("%s: %+v, %v", m, ack, err)
				}
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}
			if n := count(t, db); n != 0 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// TestHostileNames: on a server that stores table names in lower case, all changes
// of periods work for a table declared with upper-case letters.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, servers...) {
		t.Run(kind, func(t *testing.T) {
			folding := kind + "?set=lower_case_table_names=1"
			enginetest.RunNames(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, folding).(engine.Keeper) })
			t.Run("Lead", func(t *testing.T) {
				target := testdb.Target(t, folding)
				upper := target
				upper.Path = strings.ToUpper(target.Path)
				for i, at := range []engine.Target{target, upper} {
					db, err := mysql.Open(within(t), at)
					must(t, err)
					defer db.Close()
					lease, err := db.Lead(within(t), fmt.Sprint("a name that makes the lock's longer than a server takes, table ", []string{"Readings", "readings"}[i]))
					if i == 0 && err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						defer lease.Release()
					} else if err == nil {
						lease.Release()
						t.Error("two lead one table")
					}
				}
			})
		})
	}
}

// TestFirstStatements: a connection sends no query before its settings, one of
// which removes the server's limit on a statement's time.
func TestFirstStatements(t *testing.T) { onEachOwn(t, testFirstStatements) }

func testFirstStatements(t *testing.T, db *mysql.DB) {
	setGlobal(t, db, "log_output", "'TABLE'")
	setGlobal(t, db, "general_log", "1")
	conn, err := testdb.Open(t, db.Info().Engine+ownServer).(*mysql.DB).SQL().Conn(within(t))
	must(t, err)
	defer conn.Close()
	rows, err := conn.QueryContext(within(t), "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE thread_id = CONNECTION_ID() AND command_type = 'Query'")
	must(t, err)
	defer rows.Close()
	limited := true
	for limited && rows.Next() {
		var q string
		must(t, rows.Scan(&q))
		if limited = !strings.Contains(q, "max_statement_time = 0"); limited && !strings.HasPrefix(q, "SET ") {
			t.Errorf("before the limit of a statement's time is lifted: %s", q)
		}
	}
	must(t, rows.Err())
	if limited {
		t.Error("the connection did not lift the limit of a statement's time")
	}
}

// TestPacketOfConnection: each connection knows the server's current limit on a
// packet, also if it has changed since the previous connection. Larger packets are
// not sent, and smaller ones are.
func TestPacketOfConnection(t *testing.T) { onEachOwn(t, testPacketOfConnection) }

func testPacketOfConnection(t *testing.T, db *mysql.DB) {
	text := "SELECT LENGTH('" + strings.Repeat("x", 3<<20) + "')"
	ask := func(limit string) (length int, err error) {
		setGlobal(t, db, "max_allowed_packet", limit)
		// New connections: existing ones keep their limit.
		db.SQL().SetMaxIdleConns(0)
		var conn *sql.Conn
		if conn, err = db.SQL().Conn(within(t)); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = conn.QueryRowContext(within(t), text).Scan(&length)
		if bad := conn.PingContext(within(t)); bad != nil {
			t.Errorf("with max_allowed_packet %s, the connection ends: %v", limit, bad)
		}
		return length, err
	}
	for range 2 {
		if n, err := ask("33554432"); err != nil || n != 3<<20 {
			t.Errorf("below the largest packet: %d, %v", n, err)
		}
		if _, err := ask("2097152"); !errors.Is(err, driver.ErrPktTooLarge) {
			t.Errorf("above the largest packet: %v", err)
		}
	}
}

// TestPacketOfSession: functions return NULL beyond a limit that a session has from its beginning.
// A session with another one doesn't run pieces.
func TestPacketOfSession(t *testing.T) { onEachOwn(t, testPacketOfSession) }

func testPacketOfSession(t *testing.T, db *mysql.DB) {
	begin := func(limit string, st engine.State) (*engine.Session, engine.State, error) {
		setGlobal(t, db, "max_allowed_packet", limit)
		s, err := db.ReadSession(within(t), st)
		if err != nil {
			return nil, nil, err
		}
		t.Cleanup(func() { must(t, s.Close()) })
		st, err = db.ReadState(within(t), s)
		must(t, err)
		return s, st, nil
	}
	const large, small = "33554432", "2097152"
	_, ofClient, err := begin(large, nil)
	must(t, err)
	if _, _, err := begin(small, ofClient); err == nil || !strings.Contains(err.Error(), "max_allowed_packet is "+large+" for the session, and "+small+" for those that run pieces") {
		t.Errorf("a session for a client with a larger limit: %v", err)
	}
	_, own, err := begin(small, nil)
	must(t, err)
	s, _, err := begin(small, own)
	must(t, err)
	for range 2 {
		if err := s.SetStates(within(t), ofClient); err == nil {
			t.Error("a session takes another limit than its own")
		}
		must(t, s.SetStates(within(t), own))
		_, err := s.Exec(within(t), "SET @a = 1") // after which no other setting is known
		must(t, err)
	}
}

// setGlobal sets a global variable until the test ends.
func setGlobal(t *testing.T, db *mysql.DB, name, value string) {
	t.Helper()
	var before string
	must(t, db.SQL().QueryRowContext(within(t), "SELECT @@GLOBAL."+name).Scan(&before))
	set := func(ctx context.Context, value string) {
		t.Helper()
		if _, err := db.SQL().ExecContext(ctx, "SET GLOBAL "+name+" = "+value); err != nil {
			t.Errorf("set %s: %v", name, err)
		}
	}
	if strings.Trim(before, "0123456789") != "" {
		before = "'" + before + "'"
	}
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), before) })
	set(within(t), value)
}
