//go:build !cgo

package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"

	sqlite3 "modernc.org/sqlite"
	sqlite3lib "modernc.org/sqlite/lib"
)

// Without cgo, SQLite is the C code that modernc.org/sqlite translated to Go. A
// connection behaves like that in driver_cgo.go: it returns the same error texts
// and codes, and the same types of values.

// version returns SQLite's version.
func version() string { return sqlite3lib.SQLITE_VERSION }

// pure returns the driver with the functions that registerFunctions describes.
var pure = sync.OnceValues(func() (*sqlite3.Driver, error) {
	d := &sqlite3.Driver{}
	scalar := func(name string, fn func(values []driver.Value) driver.Value) error {
		return d.RegisterFunction(name, &sqlite3.FunctionImpl{NArgs: -1, Deterministic: true,
			Scalar: func(_ *sqlite3.FunctionContext, values []driver.Value) (driver.Value, error) { return fn(values), nil }})
	}
	return d, errors.Join(
		scalar("rowmill_text", func(values []driver.Value) driver.Value { return textOf(values[0]) }),
		scalar("rowmill_carry", func(values []driver.Value) driver.Value { return carried(values[0]) }),
		scalar("rowmill_row", func(values []driver.Value) driver.Value { return appendRow(nil, anys(values)) }),
		d.RegisterFunction("rowmill_hash", &sqlite3.FunctionImpl{NArgs: -1, Deterministic: true,
			MakeAggregate: func(sqlite3.FunctionContext) (sqlite3.AggregateFunction, error) { return &pureHash{}, nil }}),
	)
})

// registerFunctions adds the functions that AsText, RowHash and Carry use. Here it does
// nothing, because pure has already registered them with the driver.
func registerFunctions(*connection) error { return nil }

// A pureHash adapts rowHash to the driver's interface.
type pureHash struct{ rowHash }

func (h *pureHash) Step(_ *sqlite3.FunctionContext, values []driver.Value) error {
	h.rowHash.Step(anys(values)...)
	return nil
}

func (h *pureHash) WindowInverse(*sqlite3.FunctionContext, []driver.Value) error {
	return errors.New("rowmill_hash is no window function")
}

func (h *pureHash) WindowValue(*sqlite3.FunctionContext) (driver.Value, error) { return h.Done(), nil }
func (h *pureHash) Final(*sqlite3.FunctionContext)                             {}

func anys(values []driver.Value) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

// pureOptions make the driver write times, and read numeric times, as the cgo driver does.
const pureOptions = "_time_format=sqlite&_inttotime=1"

// newDriver returns the driver.
func newDriver() driver.Driver { return &sqlite3.Driver{} }

// openConnection opens the file of a URL with driver options.
func openConnection(url string) (*connection, error) {
	d, err := pure()
	if err == nil {
		err = giveHandles()
	}
	if err != nil {
		return nil, err
	}
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	c, err := d.Open(url + sep + pureOptions)
	if err != nil {
		return nil, opening(err)
	}
	raw := c.(driverConn)
	n, err := newNative(raw) // the connection's first statement, which reads the file
	if err != nil {
		return nil, errors.Join(opening(err), c.Close())
	}
	return &connection{raw: raw, native: n}, nil
}

// opening converts the error of a failed open, for which no connection is left to
// read details from.
func opening(err error) error {
	var e *sqlite3.Error
	if !errors.As(err, &e) {
		return err
	}
	text, _, _ := strings.Cut(e.Error(), ": ")
	return &failure{codes{result: e.Code()}, text}
}

// codesOf returns the codes of an SQLite error; ok is false for any other error.
func codesOf(err error) (c codes, ok bool) {
	var own *failure
	if !errors.As(err, &own) {
		return codes{}, false
	}
	return own.codes, true
}

// driverConn is the interface of the driver's connections.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	Exec(query string, args []driver.Value) (driver.Result, error)
	Query(query string, args []driver.Value) (driver.Rows, error)
}

// A connection is a connection of the driver whose errors have SQLite's own text.
type connection struct {
	raw    driverConn
	native *native
}

// own converts a driver's error to a failure.
func (c *connection) own(err error) error {
	var e *sqlite3.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	if last, ok := c.native.last(e.Code()); ok {
		return last
	}
	return &failure{codes: codes{result: e.Code()}, text: e.Error()}
}

func (c *connection) result(r driver.Result, err error) (driver.Result, error) {
	return r, c.own(err)
}

func (c *connection) Exec(query string, args []driver.Value) (driver.Result, error) {
	return c.result(c.raw.Exec(query, args))
}

func (c *connection) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.result(c.raw.ExecContext(ctx, query, args))
}

func (c *connection) Query(query string, args []driver.Value) (driver.Rows, error) {
	return c.rows(c.raw.Query(query, args))
}

func (c *connection) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.rows(c.raw.QueryContext(ctx, query, args))
}

func (c *connection) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *connection) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.raw.PrepareContext(ctx, query)
	return &pureStmt{s, c}, c.own(err)
}

func (c *connection) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *connection) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.raw.BeginTx(ctx, o)
	return &pureTx{tx, c}, c.own(err)
}

func (c *connection) Ping(ctx context.Context) error         { return c.own(c.raw.Ping(ctx)) }
func (c *connection) ResetSession(ctx context.Context) error { return c.raw.ResetSession(ctx) }
func (c *connection) IsValid() bool                          { return c.raw.IsValid() }

// AutoCommit reports whether no transaction is open.
func (c *connection) AutoCommit() bool { return c.native.autoCommit() }

// SetLimit sets one of SQLite's limits and returns its previous value.
func (c *connection) SetLimit(id, value int) int { return c.native.limit(id, value) }

func (c *connection) Close() error {
	err := c.own(c.raw.Close())
	c.native.release()
	return err
}

// A pureTx is a transaction of a connection.
type pureTx struct {
	driver.Tx
	c *connection
}

func (t *pureTx) Commit() error   { return t.c.own(t.Tx.Commit()) }
func (t *pureTx) Rollback() error { return t.c.own(t.Tx.Rollback()) }

// A pureStmt is a statement of a connection.
type pureStmt struct {
	driver.Stmt
	c *connection
}

func (s *pureStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.c.result(s.Stmt.Exec(args)) //nolint:staticcheck // what has no context has none here
}

func (s *pureStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.result(s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args))
}

func (s *pureStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.rows(s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args))
}

func (s *pureStmt) Close() error { return s.c.own(s.Stmt.Close()) }

// pureRows are rows of a connection.
type pureRows struct {
	driver.Rows
	c *connection
	// truths are the indexes of columns that are declared BOOLEAN.
	truths []int
}

func (c *connection) rows(r driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, c.own(err)
	}
	out := &pureRows{Rows: r, c: c}
	if typed, ok := r.(driver.RowsColumnTypeDatabaseTypeName); ok {
		for i := range r.Columns() {
			if strings.EqualFold(typed.ColumnTypeDatabaseTypeName(i), "boolean") {
				out.truths = append(out.truths, i)
			}
		}
	}
	return out, nil
}

func (r *pureRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == nil {
		for _, i := range r.truths {
			if n, ok := dest[i].(int64); ok {
				dest[i] = n > 0
			}
		}
		for i := range dest {
			if b, ok := dest[i].([]byte); ok && b == nil {
				dest[i] = []byte{} // a nil []byte would mean NULL
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return r.c.own(err)
}

func (r *pureRows) Close() error { return r.c.own(r.Rows.Close()) }

func (r *pureRows) ColumnTypeDatabaseTypeName(i int) string {
	if typed, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return typed.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}
