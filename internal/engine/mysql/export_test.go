package mysql

import (
	"context"
	"database/sql"
	"math"

	"github.com/rowmill/rowmill/internal/engine"
)

// Internals for the external tests, which can use package testdb.

const (
	LockTries = lockTries
	SQLMode   = sqlMode
	KeepMode  = keepMode
)

func (db *DB) Pool() *sql.DB         { return db.pool }
func (db *DB) Changes() *sql.DB      { return db.changes }
func (db *DB) Target() engine.Target { return db.target }
func (db *DB) SetLockTries(n int)    { db.lockTries = n }
func (db *DB) SetLoadRows(n int)     { db.loadRows = n }
func (db *DB) SetSplitRows(n int)    { db.splitRows = n }

// ConnectionID returns the server's id of the connection of a writer, a querier or a
// loader.
func ConnectionID(of any) int64 { return linked(of).id }

func loaderOf(l engine.Loader) *loader { return engine.ConnOf(l).(*loader) }

func linked(of any) *conn {
	switch of := of.(type) {
	case *writer:
		return of.Conn
	case *querier:
		return of.Conn
	}
	return loaderOf(of.(engine.Loader)).Conn
}

// CountersConnectionID returns the server's id of the counters' connection, 0 if it
// is lost.
func CountersConnectionID(ctx context.Context, c engine.Counters) (id int64) {
	_ = c.(*engine.Sampler[*sql.Conn]).Conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id)
	return id
}

// Run runs a statement on such a connection, and Number a query for a number.
func Run(of any, q string) error {
	_, err := linked(of).run(q)
	return err
}

func Number(of any, query string) (int64, error) { return linked(of).number(query) }

func QuoteText(s string) string { return quoteText(s) }

// ReadMyCnf returns the user and password of an option file.
func ReadMyCnf(path string) (user, password string, err error) {
	o, err := readMyCnf(context.Background(), path)
	return o.user, o.password, err
}

// UseDriver makes a querier execute through the driver, as with TLS.
func UseDriver(q engine.Querier) { q.(*querier).Conn.wrapped = true }

// LeaseConnectionID returns the server's id of the connection that holds a lock.
func (db *DB) LeaseConnectionID(ctx context.Context, name string) (id int64) {
	lock := lockName(db.dialect.stored(db.config.DBName), db.dialect.stored(name))
	_ = db.pool.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+quoteText(lock)+")").Scan(&id)
	return id
}

// Interrupt sets a function to call before each statement of a change; if it
// returns an error, the change fails and its connection is discarded.
func (db *DB) Interrupt(fn func(statement string) error) { db.interrupt = fn }

// LimitLoader sets the maximum length of a loader's statements.
func LimitLoader(l engine.Loader, bytes int) { loaderOf(l).limit = bytes }

// SendBy makes a writer send through the driver or not, and block its thread or not,
// whatever the size of the batch.
func SendBy(w engine.Writer, driver, blocking bool) {
	w.(*writer).Conn.wrapped, w.(*writer).small = driver, 0
	if blocking {
		w.(*writer).small = math.MaxInt
	}
}

// LoadByDriver makes a loader send through the driver, as with TLS.
func LoadByDriver(l engine.Loader) { loaderOf(l).Conn.wrapped = true }
