package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"time"
	"unsafe"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// A conn is a driver's connection used without database/sql: one goroutine owns it,
// and a statement costs two system calls and two small allocations.
//
// Calls pass the driver a context that can't be cancelled, because the driver wakes
// a goroutine for every statement with a cancellable one. Instead, the end of the
// context passed to watch.Begin fails all network calls until watch.End.
type conn struct {
	conn driver.Conn
	net  *socket
	exec driver.ExecerContext
	id   int64 // the server's connection id, for KILL
	// wrapped is set if the driver may encrypt the traffic on net.
	wrapped bool
	largest int // largest packet that is sent without the driver, in bytes
	answer  answer
	warned  int // the number of warnings of the last send; -1 if unknown
	// warnings is the number of warnings that the server keeps per statement: see
	// keepWarnings.
	warnings int
	watch    *engine.Watch
}

// dial opens a connection for inserting and querying.
func (db *DB) dial(ctx context.Context) (*conn, error) { return db.dialFor(ctx, inserting) }

func (db *DB) dialFor(ctx context.Context, p purpose) (*conn, error) {
	c := &conn{wrapped: db.config.TLSConfig != "false", largest: min(db.maxPacket, maxPacket-1)}
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
	c.exec = c.conn.(driver.ExecerContext)
	if c.id, err = c.number("SELECT CONNECTION_ID()"); err == nil {
		err = c.hold()
	}
	if err != nil {
		return nil, errors.Join(db.unreachable(err), c.Close())
	}
	return c, nil
}

// run executes a text statement.
func (c *conn) run(q string) (driver.Result, error) {
	return c.exec.ExecContext(context.Background(), q, nil)
}

// runBytes executes a statement in a buffer, which must not change during the call.
func (c *conn) runBytes(q []byte) (driver.Result, error) {
	return c.run(unsafe.String(unsafe.SliceData(q), len(q)))
}

// number returns the single integer that a query returns.
func (c *conn) number(q string) (int64, error) {
	return numberOf(context.Background(), c.conn, q)
}

// block makes the connection wait without Go's poller from this call on: see socket.
func (c *conn) block() error { return c.watch.Hold(c.net.block) }

func (c *conn) Close() error {
	c.watch.Close()
	return c.conn.Close()
}

// A connection holds a lock with a name of its own, which the server releases after
// the connection's last transaction has ended: see kill.
const (
	connectionLock = "CONCAT('rowmill connection ', %s)"
	holdLock       = "SELECT COALESCE(GET_LOCK(%s, 0), 0)"
	lockIsFree     = "SELECT COALESCE(IS_FREE_LOCK(%s), 1)"
)

// hold takes the connection's lock. On a cluster without such locks, only the list
// of connections is queried.
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

// kill ends a connection on the server and waits until it is gone. While a
// statement runs or waits for a lock, a server does not notice that the client has
// disconnected: the statement would finish, and commit, at any later time.
//
// MySQL 9.7 removes a connection from the list as soon as it is killed, while its
// commit may still be running; its lock is held until the commit ends.
func (db *DB) kill(ctx context.Context, id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWait)
	defer cancel()
	// KILL fails if the connection is already gone, or if the server is; in the
	// latter case the next query fails, too.
	_, _ = db.pool.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
	free := fmt.Sprintf(lockIsFree, fmt.Sprintf(connectionLock, fmt.Sprint(id)))
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		listed, isFree := 0, 0
		err := db.pool.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE ID = %d", db.dialect.sessions(), id)).Scan(&listed)
		if err != nil && !missing(err) { // without access to the list, the lock decides
			return
		}
		if err := db.pool.QueryRowContext(ctx, free).Scan(&isFree); err != nil {
			isFree = 1 // the server has no such locks
		}
		if listed == 0 && isFree == 1 {
			return
		}
		time.Sleep(pause)
	}
}
