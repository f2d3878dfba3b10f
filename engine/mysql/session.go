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

	"github.com/rowmill/rowmill/engine"
)

// Every connection is made here, and begins with all that rowmill relies on:
// what a server's administrator has made the default for other programs must
// not leave rows uncommitted, change what a statement means, or cut a result.
// What is a matter of the user's is left alone, such as
// auto_increment_increment and sql_log_bin.

// A purpose is what a connection is for.
type purpose int

const (
	inserting   purpose = iota // and querying
	maintaining                // engine.Session{Maintenance: true}
	loading                    // a loader's
)

// A setting is a session variable and its value, as SET has it.
type setting struct{ name, value string }

// Every connection gets a known sql_mode: strict, so that no value is bent, and
// with backslash escapes, which the literals of inserts rely on. Times are UTC.
const (
	sqlMode  = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
	timeZone = "'+00:00'"
	// keepMode is for maintenance, which copies rows: a 0 in an AUTO_INCREMENT
	// column is a value like any other.
	keepMode = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'"
)

// names is the character set of what is sent and received, and the collation in
// which literals are compared.
const names = "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci"

// common are the settings of every session.
func common() []setting {
	return []setting{
		{"sql_mode", sqlMode},
		{"time_zone", timeZone},
		// A statement by itself is a transaction, and COMMIT only commits.
		{"autocommit", "1"},
		{"completion_type", "'NO_CHAIN'"},
		// IS NULL finds no row that was inserted last; a DELETE needs no key;
		// a result has all of its rows.
		{"sql_auto_is_null", "0"},
		{"sql_safe_updates", "0"},
		{"sql_select_limit", "18446744073709551615"},
		{"sql_big_selects", "1"},
		// Without both, MariaDB takes an insert into an empty table back only
		// whole, and with all that was inserted before it.
		{"unique_checks", "1"},
		{"foreign_key_checks", "1"},
		// Of averages and other quotients: four more digits than the dividend.
		{"div_precision_increment", "4"},
		// SHOW CREATE TABLE quotes names.
		{"sql_quote_show_create", "1"},
	}
}

// session renders the statements with which a connection begins.
func (d dialect) session(p purpose) []string {
	set := common()
	isolation := "REPEATABLE READ"
	// INSERT ... SELECT, by which roll-ups and rebuilds read, would lock the rows
	// it reads, and the gaps between them, against inserts; those of loaders
	// would lock gaps. A binary log of statements can't have it otherwise.
	if p != inserting && !d.statements {
		isolation = "READ COMMITTED"
	}
	with := func(name string, value any) { set = append(set, setting{name, fmt.Sprint(value)}) }
	switch p {
	case maintaining:
		set[0].value = keepMode
		with("lock_wait_timeout", lockWait)
		with("innodb_lock_wait_timeout", rowLockWait)
		// Forced table copies make DROP PARTITION move rows instead of dropping.
		if d.mariadb {
			with("alter_algorithm", "'DEFAULT'")
		} else {
			with("old_alter_table", "OFF")
		}
	case loading:
		set[0].value = keepMode
		// A note, as of a decimal that is rounded, is nothing that a row is
		// refused for: it isn't kept, so that all warnings of INSERT IGNORE are
		// of rows.
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

// timeLimit lifts the limit of a statement's time, since a period is read for
// minutes. MySQL and MariaDB call it differently, and a connection is prepared
// before it is known which of the two answers: each passes over the other's
// comment.
const timeLimit = " /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */"

// attempts are settings that a server may refuse: some versions allow them to
// some accounts only, or don't have them. Another is keepWarnings.
var attempts = []string{
	// A TIMESTAMP is what its definition says, without a default and an ON
	// UPDATE of the server's own, and NULL isn't the present.
	"SET SESSION explicit_defaults_for_timestamp = ON",
}

// Numbers of the errors of a variable that a server doesn't have, or not for a
// session.
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

// connector returns what makes connections of a configuration.
func (db *DB) connector(cfg *mysql.Config, p purpose) (driver.Connector, error) {
	if _, err := mysql.NewConnector(cfg); err != nil {
		return nil, fmt.Errorf("target %s: %w", db.target, err)
	}
	return &connector{cfg, db, p}, nil
}

// Driver implements driver.Connector.
func (*connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// usualPacket is the largest packet of a server that has not been asked.
const usualPacket = 64 << 20

// Connect implements driver.Connector.
//
// The driver is told the largest packet that the server takes. It would ask
// otherwise, by a query before any setting, which the server's limit of a
// statement's time may end. It is told what the last connection found; where
// that was wrong, a connection is made anew, unless the server takes more than
// the one before it: servers behind one address may differ.
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

// prepared makes a connection, and returns the largest packet of its session.
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

// sign says of a connection of maintenance that it is one.
func (c *connector) sign(ctx context.Context, conn driver.Conn) {
	if c.purpose != maintaining {
		return
	}
	if id, err := numberOf(ctx, conn, "SELECT CONNECTION_ID()"); err == nil {
		c.db.own.sign(ctx, c.db, id)
	}
}

// numberOf returns the one integer that a query gives.
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
