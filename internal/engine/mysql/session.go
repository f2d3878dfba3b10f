package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// Every connection is made here and begins with the session settings that rowmill
// relies on: defaults that an administrator has set for other programs must not
// leave rows uncommitted, change the meaning of a statement, or truncate a result.
// The user's own choices, such as auto_increment_increment and sql_log_bin, are not
// changed.

// A purpose is what a connection is for.
type purpose int

const (
	inserting   purpose = iota // and querying
	maintaining                // engine.Session{Maintenance: true}
	loading                    // a loader's
)

// A setting is a session variable and its value, in SET syntax.
type setting struct{ name, value string }

// Every connection gets a known sql_mode: strict, so that invalid values are refused,
// and with backslash escapes, which the literals of inserts require. Times are UTC.
const (
	sqlMode  = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
	timeZone = "'+00:00'"
	// keepMode is for maintenance, which copies rows: a 0 in an AUTO_INCREMENT
	// column is an ordinary value.
	keepMode = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'"
)

// names sets the character set of statements and results, and the collation in
// which literals are compared.
const names = "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci"

// common returns the settings of every session.
func common() []setting {
	return []setting{
		{"sql_mode", sqlMode},
		{"time_zone", timeZone},
		// Each statement is a transaction by itself, and COMMIT only commits.
		{"autocommit", "1"},
		{"completion_type", "'NO_CHAIN'"},
		// IS NULL doesn't match the last inserted row; a DELETE needs no key;
		// results are not truncated.
		{"sql_auto_is_null", "0"},
		{"sql_safe_updates", "0"},
		{"sql_select_limit", "18446744073709551615"},
		{"sql_big_selects", "1"},
		// If either is off, MariaDB can roll back an insert into an empty table
		// only completely, together with all earlier inserts.
		{"unique_checks", "1"},
		{"foreign_key_checks", "1"},
		// Quotients, such as averages, have four more digits than the dividend.
		{"div_precision_increment", "4"},
		// SHOW CREATE TABLE quotes names.
		{"sql_quote_show_create", "1"},
	}
}

// session renders the statements that prepare a new connection.
func (d dialect) session(p purpose) []string {
	set := common()
	isolation := "REPEATABLE READ"
	// With REPEATABLE READ, INSERT ... SELECT in roll-ups and rebuilds would lock the
	// rows it reads and the gaps between them against inserts, and loaders' inserts
	// would lock gaps. A statement-based binary log requires REPEATABLE READ.
	if p != inserting && !d.statements {
		isolation = "READ COMMITTED"
	}
	with := func(name string, value any) { set = append(set, setting{name, fmt.Sprint(value)}) }
	switch p {
	case maintaining:
		set[0].value = keepMode
		with("lock_wait_timeout", lockWait)
		with("innodb_lock_wait_timeout", rowLockWait)
		// With forced table copies, DROP PARTITION would move rows instead of
		// dropping them.
		if d.mariadb {
			with("alter_algorithm", "'DEFAULT'")
		} else {
			with("old_alter_table", "OFF")
		}
	case loading:
		set[0].value = keepMode
		// Notes, such as the one about a rounded decimal, don't refuse a row. They
		// are suppressed, so that all warnings of INSERT IGNORE are about rows.
		with("sql_notes", 0)
		with("lock_wait_timeout", loaderWait)
		with("innodb_lock_wait_timeout", loaderWait)
		if d.rocksdb() {
			with("rocksdb_lock_wait_timeout", loaderWait)
		}
	}
	list := make([]string, len(set))
	for i, s := range set {
		list[i] = s.name + " = " + s.value
	}
	return append([]string{
		names,
		"SET SESSION " + strings.Join(list, ", ") + timeLimit,
		"SET SESSION TRANSACTION ISOLATION LEVEL " + isolation + ", READ WRITE",
	}, attempts...)
}

// timeLimit removes the limit on a statement's time, because reading a period takes
// minutes. MySQL and MariaDB have different names for it, and a connection is prepared
// before the kind of server is known: each server ignores the other's comment.
const timeLimit = " /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */"

// attempts are settings that a server may refuse: in some versions they don't exist
// or need a privilege. See also keepWarnings.
var attempts = []string{
	// A TIMESTAMP column has only the properties in its definition, without the
	// server's implicit default and ON UPDATE, and NULL doesn't mean the current time.
	"SET SESSION explicit_defaults_for_timestamp = ON",
}

// Error numbers of a variable that the server doesn't have, or that can't be set
// for a session.
const (
	errUnknownVariable = 1193
	errGlobalVariable  = 1229
)

// refusedSetting reports whether an attempt was refused.
func refusedSetting(err error) bool {
	return serverError(err, errPrivilege, errUnknownVariable, errVariableReadOnly, errGlobalVariable)
}

// A connector makes connections of one purpose.
type connector struct {
	cfg *mysql.Config
	db  *DB
	purpose
}

// connector returns a connector for a configuration.
func (db *DB) connector(cfg *mysql.Config, p purpose) (driver.Connector, error) {
	if _, err := mysql.NewConnector(cfg); err != nil {
		return nil, fmt.Errorf("target %s: %w", db.target, err)
	}
	return &connector{cfg, db, p}, nil
}

// Driver implements driver.Connector.
func (*connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// usualPacket is the largest packet that is assumed before the server was asked.
const usualPacket = 64 << 20

// Connect implements driver.Connector.
//
// The driver gets the server's largest packet in its configuration. Otherwise it
// would query it before any setting is made, and the server's limit on a
// statement's time could end that query. The value is the last connection's. If it
// was wrong, the connection is made again; from the second attempt on, only if it
// was too large: servers behind one address may differ.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	told := c.db.packet.Load()
	if told == 0 {
		told = usualPacket
	}
	for again := false; ; again = true {
		conn, found, err := c.prepared(ctx, told)
		if err != nil {
			return nil, err
		}
		c.db.packet.Store(found)
		if found == told || again && found > told {
			c.sign(ctx, conn)
			return conn, nil
		}
		if err := conn.Close(); err != nil {
			return nil, err
		}
		told = found
	}
}

// prepared makes a connection and returns the largest packet of its session.
func (c *connector) prepared(ctx context.Context, packet int64) (driver.Conn, int64, error) {
	cfg := c.cfg.Clone()
	cfg.MaxAllowedPacket = int(packet - 1)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, 0, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, q := range c.db.dialect.session(c.purpose) {
		_, err := conn.(driver.ExecerContext).ExecContext(ctx, q, nil)
		if slices.Contains(attempts, q) && refusedSetting(err) {
			continue
		}
		if err != nil {
			return nil, 0, errors.Join(fmt.Errorf("prepare session: %s: %w", engine.FirstWords(q), err), conn.Close())
		}
	}
	packet, err = numberOf(ctx, conn, "SELECT @@max_allowed_packet")
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("prepare session: %w", err), conn.Close())
	}
	return conn, packet, nil
}

// sign marks a maintenance connection as such.
func (c *connector) sign(ctx context.Context, conn driver.Conn) {
	if c.purpose != maintaining {
		return
	}
	if id, err := numberOf(ctx, conn, "SELECT CONNECTION_ID()"); err == nil {
		c.db.own.sign(ctx, c.db, id)
	}
}

// numberOf returns the single integer that a query returns.
func numberOf(ctx context.Context, conn driver.Conn, q string) (int64, error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, q, nil)
	if err != nil {
		return 0, err
	}
	value := make([]driver.Value, 1)
	if err := errors.Join(rows.Next(value), rows.Close()); err != nil {
		return 0, err
	}
	switch v := value[0].(type) {
	case int64:
		return v, nil
	case uint64:
		return int64(v), nil
	case []byte:
		return strconv.ParseInt(string(v), 10, 64)
	}
	return 0, fmt.Errorf("%s: got %T, want an integer", q, value[0])
}
