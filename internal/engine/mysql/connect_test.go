package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestFirstStatements: a connection sends no query before its settings, one of
// which removes the server's limit on a statement's time.
func TestFirstStatements(t *testing.T) { onEachOwn(t, testFirstStatements) }

func testFirstStatements(t *testing.T, db *mysql.DB) {
	setGlobal(t, db, "log_output", "'TABLE'")
	setGlobal(t, db, "general_log", "1")
	conn, err := testdb.Open(t, db.Info().Engine+ownServer).(*mysql.DB).SQL().Conn(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rows, err := conn.QueryContext(within(t), "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE thread_id = CONNECTION_ID() AND command_type = 'Query'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	limited := true
	for limited && rows.Next() {
		var q string
		if err := rows.Scan(&q); err != nil {
			t.Fatal(err)
		}
		if limited = !strings.Contains(q, "max_statement_time = 0"); limited && !strings.HasPrefix(q, "SET ") {
			t.Errorf("before the limit of a statement's time is lifted: %s", q)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
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

// setGlobal sets a global variable until the test ends.
func setGlobal(t *testing.T, db *mysql.DB, name, value string) {
	t.Helper()
	var before string
	if err := db.SQL().QueryRowContext(within(t), "SELECT @@GLOBAL."+name).Scan(&before); err != nil {
		t.Fatal(err)
	}
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
