package mysql

import (
	"context"
	"database/sql/driver"
	"net"
	"time"
	"unsafe"

	"github.com/go-sql-driver/mysql"
)

// A conn is a driver's connection used without database/sql: one goroutine
// owns it, and a statement costs two system calls and two small allocations.
//
// Calls go to the driver with a context that can't be cancelled, because the
// driver wakes a goroutine for every statement of one that can. Instead,
// interruptOn closes the network connection under a running statement.
type conn struct {
	conn driver.Conn
	net  net.Conn
	exec driver.ExecerContext
}

// dial opens a connection for inserting.
func (db *DB) dial(ctx context.Context) (*conn, error) {
	c := &conn{}
	cfg := db.config.Clone()
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: connectTimeout}
		nc, err := d.DialContext(ctx, network, addr)
		c.net = nc
		return nc, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	if c.conn, err = connector.Connect(ctx); err != nil {
		return nil, db.unreachable(err)
	}
	c.exec = c.conn.(driver.ExecerContext)
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

// interruptOn makes the end of ctx break off whatever runs on the connection,
// which is lost with it. The returned function ends the watch.
func (c *conn) interruptOn(ctx context.Context) (stop func()) {
	end := context.AfterFunc(ctx, func() {
		// A past deadline fails the reads and writes that wait now.
		_ = c.net.SetDeadline(time.Unix(1, 0))
	})
	return func() { end() }
}

// Close closes the connection.
func (c *conn) Close() error { return c.conn.Close() }
