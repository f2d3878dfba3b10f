package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// Every connection is made here, with the settings that rowmill relies on. An administrator's
// choices, such as auto_increment_increment and sql_log_bin, stay as they are.

// A purpose is what a connection is for.
type purpose int

const (
	inserting   purpose = iota // and querying
	maintaining                // engine.Connect{Maintenance: true}
	loading                    // a loader's
	reading                    // engine.Reader: a query of a client
)

// A setting is a session variable and its value, in SET syntax.
type setting struct{ name, value string }

// Sessions are strict, have backslash escapes, which the literals of inserts need, and use UTC.
const (
	sqlMode  = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
	timeZone = "'+00:00'"
	// keepMode is for copying rows: it stores 0 in an AUTO_INCREMENT column, instead of a new value.
	keepMode = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'"
)

// netWrite is how long, in seconds, the server waits for a client that doesn't read its result.
const netWrite = "3600"

// names sets the character set of statements and results, and the collation of literals.
const names = "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci"

// common returns the settings of every session.
func common() []setting {
	return []setting{
		{"sql_mode", sqlMode},
		{"time_zone", timeZone},
		// Each statement is a transaction by itself, and COMMIT only commits.
		{"autocommit", "1"},
		{"completion_type", "'NO_CHAIN'"},
		// IS NULL doesn't find the last inserted row; a DELETE needs no key; results are not cut off.
		{"sql_auto_is_null", "0"},
		{"sql_safe_updates", "0"},
		{"sql_select_limit", "18446744073709551615"},
		{"sql_big_selects", "1"},
		// If either of these checks is off, and the table was empty when the transaction began, MariaDB
		// can't roll back a single insert: it would also undo the transaction's earlier inserts.
		{"unique_checks", "1"},
		{"foreign_key_checks", "1"},
		// Quotients, such as averages, have four more digits than the dividend.
		{"div_precision_increment", "4"},
		// A reader of many rows may pause while it waits for another server.
		{"net_write_timeout", netWrite},
		// SHOW CREATE TABLE quotes names.
		{"sql_quote_show_create", "1"},
	}
}

// session renders the statements that prepare a new connection.
func (d dialect) session(p purpose) []string {
	if p == reading {
		return readSettings()
	}
	set := common()
	isolation := "REPEATABLE READ"
	// A statement-based binary log requires the level REPEATABLE READ. At that level, INSERT ...
	// SELECT locks the rows it reads and the gaps between them, and loaders' inserts lock gaps.
	if p != inserting && !d.statements {
		isolation = "READ COMMITTED"
	}
	with := func(name string, value any) { set = append(set, setting{name, fmt.Sprint(value)}) }
	switch p {
	case maintaining:
		set[0].value = keepMode
		with("lock_wait_timeout", lockWait)
		with("innodb_lock_wait_timeout", rowLockWait)
		// If the administrator forces table copies, DROP PARTITION moves rows instead of dropping them.
		if d.mariadb {
			with("alter_algorithm", "'DEFAULT'")
		} else {
			with("old_alter_table", "OFF")
		}
	case loading:
		set[0].value = keepMode
		// Without notes, for example about rounded decimals, INSERT IGNORE warns only about rows.
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

// timeLimit removes the limit on a statement's time. MySQL and MariaDB have different names for it;
// each server takes the other's name for a comment.
const timeLimit = " /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */"

// attempts are settings that a version may lack, or that may require a privilege.
var attempts = []string{
	// Without this setting, a TIMESTAMP column may get ON UPDATE without being declared so, and take
	// NULL for the current time.
	"SET SESSION explicit_defaults_for_timestamp = ON",
}

// Error numbers for a variable that the server lacks, or that a session can't set.
const (
	errUnknownVariable  = 1193
	errGlobalVariable   = 1229
	errVariableReadOnly = 1238
)

// refusedSetting reports whether an attempt was refused.
func refusedSetting(err error) bool {
	return serverError(err, errPrivilege, errUnknownVariable, errVariableReadOnly, errGlobalVariable)
}

// A connector makes connections of one purpose.
type connector struct {
	cfg *mysql.Config
	db  *server
	purpose
}

// connector returns a connector for a configuration.
func (db *server) connector(cfg *mysql.Config, p purpose) (driver.Connector, error) {
	if _, err := mysql.NewConnector(cfg); err != nil {
		return nil, fmt.Errorf("target %s: %w", db.target, err)
	}
	return &connector{cfg, db, p}, nil
}

func (*connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// usualPacket is the assumed largest packet until the server has been asked.
const usualPacket = 64 << 20

// Connect implements driver.Connector.
//
// Connect tells the driver the server's max_allowed_packet. Otherwise the driver would query it
// while the server still limits the time of statements. What Connect tells is the value that the
// previous connection has read. If the new connection reads another value, Connect closes it and
// connects again with that value. Servers behind one address may have different values, so from the
// second attempt on, Connect accepts a connection whose server allows more than the driver was
// told.
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

// prepared makes a connection and returns the max_allowed_packet of its session.
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

// sign marks a connection as maintenance, if that is its purpose.
func (c *connector) sign(ctx context.Context, conn driver.Conn) {
	if c.purpose != maintaining {
		return
	}
	if id, err := numberOf(ctx, conn, "SELECT CONNECTION_ID()"); err == nil {
		c.db.sign(ctx, id)
	}
}

// numberOf returns the single integer that a query returns.
func numberOf(ctx context.Context, conn driver.Conn, q string) (int64, error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, q, nil)
	if err != nil {
		return 0, err
	}
	var n int64
	err = engine.EachDriverRow(rows, func(values []driver.Value) (err error) {
		n, err = numberIn(values[0])
		return err
	})
	return n, err
}

// numberIn returns an integer that the driver has read, as text or from the binary protocol.
func numberIn(v driver.Value) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case uint64:
		return int64(v), nil
	case []byte:
		return strconv.ParseInt(string(v), 10, 64)
	}
	return 0, fmt.Errorf("got %T, want an integer", v)
}

// A conn is a driver's connection without database/sql, for one goroutine. When a context ends, the
// conn's watch interrupts the conn. Without the watch, the driver would have to get the context,
// and would then wake a goroutine for every statement.
type conn struct {
	db   *server
	conn driver.Conn
	net  *socket
	exec driver.ExecerContext
	id   int64 // the server's connection id, for KILL
	// wrapped is set if the driver may encrypt the traffic on net.
	wrapped bool
	largest int // largest packet that is sent without the driver, in bytes
	answers packets
	warned  int // the number of warnings of the last send; -1 if unknown
	// warnings is the number of warnings that the server keeps per statement: see keepWarnings.
	warnings int
	watch    *engine.Watch
}

// dial opens a connection for inserting and querying.
func (db *server) dial(ctx context.Context) (*conn, error) { return db.dialWith(ctx, inserting, nil) }

// dialWith opens a connection for a purpose, and calls prepare with it unless prepare is nil.
func (db *server) dialWith(ctx context.Context, p purpose, prepare func(*conn) error) (*conn, error) {
	c := &conn{db: db, wrapped: db.config.TLSConfig != "false", largest: min(db.maxPacket, mysqlwire.MaxPayload-1)}
	cfg := db.config.Clone()
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: connectTimeout}
		nc, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.net = &socket{Conn: nc}
		c.watch = engine.NewWatch(c.net)
		return c.net, nil
	}
	connector, err := db.connector(cfg, p)
	if err != nil {
		return nil, err
	}
	if c.conn, err = connector.Connect(ctx); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the driver may report only a bad connection
		}
		return nil, db.unreachable(err)
	}
	c.exec, c.answers.src = c.conn.(driver.ExecerContext), c.net
	if c.id, err = c.number("SELECT CONNECTION_ID()"); err == nil {
		err = c.hold()
	}
	if err != nil {
		return nil, errors.Join(db.unreachable(err), c.Close())
	}
	if prepare == nil {
		return c, nil
	}
	if err = c.watch.Begin(ctx); err == nil {
		err = prepare(c)
		if c.watch.End() {
			err = ctx.Err()
		}
	}
	if err != nil {
		return nil, errors.Join(engine.About(ctx, classify(err), "prepare a connection for inserts"), unlessLost(c.Close()))
	}
	return c, nil
}

// run executes a text statement.
func (c *conn) run(q string) (driver.Result, error) {
	return c.exec.ExecContext(context.Background(), q, nil)
}

// runAll executes text statements in order, until one fails.
func (c *conn) runAll(statements ...string) error {
	for _, q := range statements {
		if _, err := c.run(q); err != nil {
			return err
		}
	}
	return nil
}

// runBytes executes a statement in a buffer, which must not change during the call.
func (c *conn) runBytes(q []byte) (driver.Result, error) {
	return c.run(unsafe.String(unsafe.SliceData(q), len(q)))
}

// number returns the single integer that a query returns.
func (c *conn) number(q string) (int64, error) {
	return numberOf(context.Background(), c.conn, q)
}

// block makes the connection wait without Go's poller from now on: see socket.
func (c *conn) block() error { return c.watch.Hold(c.net.block) }

func (c *conn) Watch() *engine.Watch { return c.watch }

func (c *conn) Rollback() error { return c.runAll(rollbackStatement) }

// Answered implements engine.Linked. If a packet is too large, the driver sends nothing.
func (c *conn) Answered(err error) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) || errors.Is(err, mysql.ErrPktTooLarge)
}

// Kill implements engine.Linked. An error means that the connection or the server is gone.
func (c *conn) Kill(ctx context.Context) { _ = c.db.kill(ctx, c.id) }

func (c *conn) Close() error {
	c.watch.Close()
	return c.conn.Close()
}

// Each connection holds a lock of its own. The server releases this lock only after the
// connection's last transaction: see kill.
const (
	connectionLock = "CONCAT('rowmill connection ', %s)"
	holdLock       = "SELECT COALESCE(GET_LOCK(%s, 0), 0)"
	lockIsFree     = "SELECT COALESCE(IS_FREE_LOCK(%s), 1)"
)

// hold takes the connection's lock, except on a cluster that has no GET_LOCK.
func (c *conn) hold() error {
	_, err := c.number(fmt.Sprintf(holdLock, fmt.Sprintf(connectionLock, "CONNECTION_ID()")))
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		return nil
	}
	return err
}

// killWait limits the wait for a killed connection.
const killWait = 5 * time.Second

// kill ends a connection on the server and waits until it has ended: see engine.Linked.
//
// MySQL 9.7 removes a killed connection from the list at once, while its commit may still be
// running. So kill also waits for the release of the connection's lock: the server holds that lock
// until the commit ends.
func (db *server) kill(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWait)
	defer cancel()
	if _, err := db.pool.ExecContext(ctx, fmt.Sprintf("KILL %d", id)); err != nil && !serverError(err, errNoThread) {
		return fmt.Errorf("end connection %d: %w", id, classify(err))
	}
	free := fmt.Sprintf(lockIsFree, fmt.Sprintf(connectionLock, fmt.Sprint(id)))
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		listed, isFree := 0, 0
		err := db.pool.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE ID = %d", db.dialect.sessions(), id)).Scan(&listed)
		if err != nil && !missing(err) { // without access to the list, the lock decides
			return fmt.Errorf("wait for the end of connection %d: %w", id, classify(err))
		}
		if err := db.pool.QueryRowContext(ctx, free).Scan(&isFree); err != nil {
			isFree = 1 // the server has no such locks
		}
		if listed == 0 && isFree == 1 {
			return nil
		}
		time.Sleep(pause)
	}
}

// errNoThread is the error of KILL for a connection that doesn't exist.
const errNoThread = 1094

// ownLock and a connection's number make the name of a lock that marks the connection as
// maintenance. Any process can query the lock, with any account and without the performance schema.
const ownLock = "rowmill.connection."

// sign marks a connection as maintenance, if it can. The mark is a lock, held by the leases'
// session: if the connection itself held it, the lock would interfere with LOCK TABLES.
func (db *server) sign(ctx context.Context, id int64) {
	lock := quoteText(ownLock + strconv.FormatInt(id, 10))
	_, _ = db.leases.Take(ctx, db, db.pool, "of a connection", leaseWords(lock))
}
