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

	"github.com/rowmill/rowmill/engine"
)

// A conn is a driver's connection used without database/sql: one goroutine
// owns it, and a statement costs two system calls and two small allocations.
//
// Calls go to the driver with a context that can't be cancelled, because the
// driver wakes a goroutine for every statement of one that can. Instead, the
// end of the context that the connection's watch began with fails whatever
// runs on the network until the watch ends.
type conn struct {
	conn driver.Conn
	net  *socket
	exec driver.ExecerContext
	id   int64 // the server's number of it, for KILL
	// wrapped tells that what goes over net is encrypted by the driver.
	wrapped bool
	largest int // packet that goes without the driver, in bytes
	answer  answer
	warned  int // how many warnings the last send's answer counts; -1 where it is unknown
	// warnings is how many the server keeps of a statement: see keepWarnings.
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
			err = ctx.Err() // the driver may say only that the connection is bad
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

// run executes a statement of text.
func (c *conn) run(q string) (driver.Result, error) {
	return c.exec.ExecContext(context.Background(), q, nil)
}

// runBytes executes a statement in a buffer, which must not change meanwhile.
func (c *conn) runBytes(q []byte) (driver.Result, error) {
	return c.run(unsafe.String(unsafe.SliceData(q), len(q)))
}

// number returns the one integer that a query gives.
func (c *conn) number(q string) (int64, error) {
	return numberOf(context.Background(), c.conn, q)
}

// block lets the connection wait without Go's poller, from now on: see socket.
func (c *conn) block() error { return c.watch.Hold(c.net.block) }

// Close closes the connection.
func (c *conn) Close() error {
	c.watch.Close()
	return c.conn.Close()
}

// A connection holds a lock of its own name, which the server lets go of once
// the connection's last transaction is over: see kill.
const (
	connectionLock = "CONCAT('rowmill connection ', %s)"
	holdLock       = "SELECT COALESCE(GET_LOCK(%s, 0), 0)"
	lockIsFree     = "SELECT COALESCE(IS_FREE_LOCK(%s), 1)"
)

// hold takes the connection's lock. A cluster that has no such locks is asked for
// the list of connections alone.
func (c *conn) hold() error {
	_, err := c.number(fmt.Sprintf(holdLock, fmt.Sprintf(connectionLock, "CONNECTION_ID()")))
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		return nil
	}
	return err
}

// killWait bounds the wait for a connection that was killed.
const killWait = 5 * time.Second

// kill ends a connection on the server and waits until it is gone. A server
// does not notice that a client went away while a statement runs or waits for
// a lock: it would finish, and commit, at any later time.
//
// MySQL 9.7 leaves a connection out of the list from the moment it is killed,
// while its commit goes on; the lock is there until that is over.
func (db *DB) kill(ctx context.Context, id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWait)
	defer cancel()
	// An error is of a connection that is gone from the list, or of a server that
	// is gone: then the next one fails, too.
	_, _ = db.pool.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
	free := fmt.Sprintf(lockIsFree, fmt.Sprintf(connectionLock, fmt.Sprint(id)))
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		listed, isFree := 0, 0
		err := db.pool.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE ID = %d", db.dialect.sessions(), id)).Scan(&listed)
		if err != nil && !missing(err) { // without the list, there is the lock
			return
		}
		if err := db.pool.QueryRowContext(ctx, free).Scan(&isFree); err != nil {
			isFree = 1 // there are no such locks
		}
		if listed == 0 && isFree == 1 {
			return
		}
		time.Sleep(pause)
	}
}
