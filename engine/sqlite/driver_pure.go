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

// Without cgo, SQLite is the C code that modernc.org/sqlite has translated to Go.
// A connection behaves as the one of driver_cgo.go does: with the same texts and
// codes of errors, and the same types of values.

// version returns SQLite's version.
func version() string { return sqlite3lib.SQLITE_VERSION }

// pure is the driver with the functions that registerFunctions speaks of.
var pure = sync.OnceValues(func() (*sqlite3.Driver, error) {
	d := &sqlite3.Driver{}
	scalar := func(name string, fn func(values []driver.Value) driver.Value) error {
		return d.RegisterFunction(name, &sqlite3.FunctionImpl{NArgs: -1, Deterministic: true,
			Scalar: func(_ *sqlite3.FunctionContext, values []driver.Value) (driver.Value, error) { return fn(values), nil }})
	}
	return d, errors.Join(
		scalar("rowmill_text", func(values []driver.Value) driver.Value { return textOf(values[0]) }),
		scalar("rowmill_row", func(values []driver.Value) driver.Value { return appendRow(nil, anys(values)) }),
		d.RegisterFunction("rowmill_hash", &sqlite3.FunctionImpl{NArgs: -1, Deterministic: true,
			MakeAggregate: func(sqlite3.FunctionContext) (sqlite3.AggregateFunction, error) { return &pureHash{}, nil }}),
	)
})

// registerFunctions adds the functions that AsText and RowHash use: the driver
// has added them already.
func registerFunctions(*connection) error { return nil }

// A pureHash is a rowHash as the driver calls it.
type pureHash struct{ rowHash }

func (h *pureHash) Step(_ *sqlite3.FunctionContext, values []driver.Value) error {
	h.rowHash.Step(anys(values)...)
	return nil
}

func (h *pureHash) WindowInverse(*sqlite3.FunctionContext, []driver.Value) error {
	return errors.New("rowmill_hash is no window function")
}

func (h *pureHash) WindowValue(*sqlite3.FunctionContext) (driver.Value, error) { return h.Done(), nil }

func (h *pureHash) Final(*sqlite3.FunctionContext) {}

func anys(values []driver.Value) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

// pureOptions make the driver write times, and read those that are numbers, as
// the one with cgo does.
const pureOptions = "_time_format=sqlite&_inttotime=1"

// newDriver returns the driver.
func newDriver() driver.Driver { return &sqlite3.Driver{} }

// openConnection opens a file, named by a URL with the driver's options.
func openConnection(url string) (*connection, error) {
	d, err := pure()
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
	raw, ok := c.(driverConn)
	if !ok {
		return nil, errors.Join(errElsewhere, c.Close())
	}
	n, err := newNative(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &connection{raw: raw, native: n}, nil
}

// opening returns the error of a file that could not be opened, of which there
// is no connection to ask.
func opening(err error) error {
	var e *sqlite3.Error
	if !errors.As(err, &e) {
		return err
	}
	text, _, _ := strings.Cut(e.Error(), ": ")
	return &failure{codes{result: e.Code()}, text}
}

// codesOf returns what SQLite's error says; ok is false for any other.
func codesOf(err error) (c codes, ok bool) {
	var own *failure
	if !errors.As(err, &own) {
		return codes{}, false
	}
	return own.codes, true
}

// driverConn is what the driver's connections do.
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

// A connection is one of the driver, whose errors have SQLite's own text.
type connection struct {
	raw    driverConn
	native *native
}

// own returns a driver's error as a failure.
func (c *connection) own(err error) error {
	var e *sqlite3.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	f := &failure{codes: codes{result: e.Code()}, text: e.Error()}
	if last, ok := c.native.last(e.Code()); ok {
		f = last
	}
	return f
}

func (c *connection) Exec(query string, args []driver.Value) (driver.Result, error) {
	r, err := c.raw.Exec(query, args)
	return r, c.own(err)
}

func (c *connection) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.raw.ExecContext(ctx, query, args)
	return r, c.own(err)
}

func (c *connection) Query(query string, args []driver.Value) (driver.Rows, error) {
	r, err := c.raw.Query(query, args)
	return c.rows(r, err)
}

func (c *connection) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.raw.QueryContext(ctx, query, args)
	return c.rows(r, err)
}

func (c *connection) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *connection) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.raw.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.own(err)
	}
	return &pureStmt{s, c}, nil
}

func (c *connection) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *connection) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.raw.BeginTx(ctx, o)
	if err != nil {
		return nil, c.own(err)
	}
	return &pureTx{tx, c}, nil
}

func (c *connection) Ping(ctx context.Context) error         { return c.own(c.raw.Ping(ctx)) }
func (c *connection) ResetSession(ctx context.Context) error { return c.raw.ResetSession(ctx) }
func (c *connection) IsValid() bool                          { return c.raw.IsValid() }

// AutoCommit reports whether no transaction is open.
func (c *connection) AutoCommit() bool { return c.native.autoCommit() }

// SetLimit sets one of SQLite's limits and returns what it was.
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
	r, err := s.Stmt.Exec(args) //nolint:staticcheck // what has no context has none here
	return r, s.c.own(err)
}

func (s *pureStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	r, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	return r, s.c.own(err)
}

func (s *pureStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	r, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	return s.c.rows(r, err)
}

func (s *pureStmt) Close() error { return s.c.own(s.Stmt.Close()) }

// pureRows are rows of a connection.
type pureRows struct {
	driver.Rows
	c *connection
	// truths are the columns that are declared BOOLEAN.
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
				dest[i] = []byte{} // NULL is no []byte
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return r.c.own(err)
}

func (r *pureRows) Close() error { return r.c.own(r.Rows.Close()) }

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (r *pureRows) ColumnTypeDatabaseTypeName(i int) string {
	if typed, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return typed.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

// errElsewhere is about a driver whose connections are no longer as this
// package knows them.
var errElsewhere = errors.New("this version of the SQLite driver keeps its connection elsewhere")
