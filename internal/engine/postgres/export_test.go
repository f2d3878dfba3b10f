package postgres

import (
	"context"
	"errors"
	"net"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

// Internals for the tests of package postgres_test, which may import testdb.

const LockTries = lockTries

func (db *DB) Target() engine.Target                                   { return db.target }
func (db *DB) Config() *pgconn.Config                                  { return db.config.Copy() }
func (db *DB) SetLockTries(n int)                                      { db.lockTries = n }
func (db *DB) SetCopyRows(n int)                                       { db.copyRows = n }
func (db *DB) SetQuietWait(d time.Duration)                            { db.quietWait = d }
func (db *DB) Dial(ctx context.Context) (*pgconn.PgConn, error)        { return db.dial(ctx) }
func (db *DB) Password() string                                        { return db.config.Password }
func (db *DB) Query(ctx context.Context, q string) ([][][]byte, error) { return db.query(ctx, q) }

// PID returns the server's process ID for the connection of a writer, a querier or a
// loader.
func PID(of any) int64 { return int64(linked(of).pid) }

func linked(of any) *wire {
	switch of := of.(type) {
	case *writer:
		return of.Conn
	case *querier:
		return of.Conn
	}
	return engine.ConnOf(of.(engine.Loader)).(*loader).Conn
}

// Run runs a statement on such a connection, within a loader's transaction.
func Run(of any, q string) error {
	if l, is := of.(engine.Loader); is {
		if err := engine.ConnOf(l).(*loader).begun(); err != nil {
			return err
		}
	}
	return linked(of).run(q)
}

// SetLongest sets the lengths, in bytes, at which a loader splits and refuses
// statements.
func SetLongest(l engine.Loader, t *engine.Table, cut, longest int) {
	of := engine.ConnOf(l).(*loader)
	of.encoder(t).limit, of.longest = cut, longest
}

// Binary reports whether a loader sends rows of a table by COPY in binary format at present.
func Binary(l engine.Loader, t *engine.Table) bool {
	e := engine.ConnOf(l).(*loader).encoder(t)
	return e.forms != nil && e.plain == 0 && !e.noCopy
}

// SetNotice sets the function that gets the notices of new connections, and ends those that are
// idle.
func (db *DB) SetNotice(fn pgconn.NoticeHandler) error {
	db.config.OnNotice = fn
	return errors.Join(db.plain.Close(), db.pool.Close(), db.reads.Close(), db.openPools())
}

// SetBefore sets the hook that is called with a step's connection before its
// statements are sent.
func (db *DB) SetBefore(fn func(c *pgconn.PgConn, statements []string)) { db.before = fn }

var Bind = bind

// LingerInWrites delays the return of each write by d after the server has the
// bytes, for connections opened later. This happens on a machine with more
// runnable threads than cores.
func (db *DB) LingerInWrites(d time.Duration) {
	dial := db.config.DialFunc
	db.config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return lingering{c, d}, err
	}
}

type lingering struct {
	net.Conn
	time.Duration
}

func (c lingering) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	time.Sleep(c.Duration)
	return n, err
}

// A DriverWriter inserts batches as text through the driver, for comparison.
type DriverWriter struct {
	conn *pgconn.PgConn
	enc  encoder
	buf  []byte
}

func NewDriverWriter(ctx context.Context, db *DB, t *engine.Table) (*DriverWriter, error) {
	c, err := db.dial(ctx)
	return &DriverWriter{conn: c, enc: newEncoder(db.dialect, t)}, err
}

func (w *DriverWriter) Write(ctx context.Context, b *engine.Batch) (engine.Ack, error) {
	w.buf, _ = w.enc.appendInsert(w.buf[:0], b, 0, b.Rows())
	results, err := w.conn.Exec(ctx, unsafe.String(unsafe.SliceData(w.buf), len(w.buf))).ReadAll()
	if err != nil {
		return engine.Ack{}, err
	}
	return engine.Ack{Rows: results[0].CommandTag.RowsAffected()}, nil
}

func (w *DriverWriter) Close() { discard(w.conn) }
