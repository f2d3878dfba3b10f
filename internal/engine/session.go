package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
)

// A Session is one connection of its own for statements, typed rows, and a transaction. It begins
// with the settings of connections that insert (strict, UTC); SetState changes the settings of this
// session only. While a method runs, only ID may be called.
//
// Call Rollback after any error: some servers leave the transaction open. If ctx ends during a
// call, the server ends the connection before the call returns. After that, as after
// ErrConnectionLost, the session can only be closed.
type Session struct {
	db    Killer
	words SessionWords
	conn  *sql.Conn // nil if it is lost
	tx    *sql.Tx   // nil outside of a transaction
	id    int64
	ended TextEnd
	known State // settings that the session has; others are not known
}

// SessionWords are an engine's statements for the sessions of its connections.
type SessionWords struct {
	// ID is a query for the connection's id on the server; "" if connections have no ids.
	ID string
	// Get is a query for a setting, Set a statement that changes it. Both may refuse a name.
	Get func(name string) (string, error)
	Set func(name, value string) (string, error)
	// Export is a query for a name of the transaction's snapshot. Import is the statement that uses
	// this snapshot in another transaction. Without Capabilities.SharesSnapshots, they are "" and nil.
	Export string
	Import func(snapshot string) string
	// Prepares reports that numbers are exact only in the results of prepared statements.
	Prepares bool
	// Text and Describe do the work of the Session's methods of these names, on the driver's
	// connection; they may be nil. Text ends with the first error of head or row.
	Text     func(ctx context.Context, conn any, query string, head func([]ResultColumn) error, row func(values [][]byte) error) (TextEnd, error)
	Describe func(ctx context.Context, conn any, query string) ([]ResultColumn, error)
	// SetAll returns the statements that give a session the settings st. from are the settings that
	// the session is known to have. If SetAll is nil, Set is called for each setting.
	SetAll func(st, from State) ([]string, error)
	// Fixed are settings that a session keeps from its beginning to its end.
	Fixed []string
	// Consistent is a statement after which an open transaction sees all that is committed, or "".
	Consistent string
}

// A Transaction describes how a transaction is begun.
type Transaction struct {
	// Isolation is the isolation level; the zero value is the session's.
	Isolation sql.IsolationLevel
	ReadOnly  bool
	// Snapshot is a name from Session.Snapshot of another session, whose transaction is still open. If
	// Isolation is LevelRepeatableRead, the two transactions see the same rows.
	Snapshot string
}

// A Killer is a Driver that ends connections: see Keeper.Kill.
type Killer interface {
	Driver
	Kill(ctx context.Context, id int64) error
}

// OpenSession opens a session with settings on a new connection of a pool.
func OpenSession(ctx context.Context, db Killer, pool *sql.DB, w SessionWords, st State) (*Session, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", db.Classify(err))
	}
	s := &Session{db: db, words: w, conn: conn}
	if w.ID != "" {
		if err := conn.QueryRowContext(ctx, w.ID).Scan(&s.id); err != nil {
			return nil, errors.Join(fmt.Errorf("open a session: %w", db.Classify(err)), s.discard())
		}
	}
	if err := s.SetStates(ctx, st); err != nil {
		return nil, errors.Join(fmt.Errorf("open a session: %w", err), s.discard())
	}
	return s, nil
}

// ID is the connection's id on the server, for Keeper.Kill; 0 for an embedded engine.
func (s *Session) ID() int64 { return s.id }

// Lost reports whether the connection broke, or was closed because a statement was interrupted.
func (s *Session) Lost() bool { return s.conn == nil }

// discard closes the connection: with changed settings, it must not return to the pool.
func (s *Session) discard() error {
	if s.tx != nil {
		_ = s.tx.Rollback() // the end of the connection does it in any case
	}
	conn := s.conn
	s.conn, s.tx, s.known = nil, nil, nil
	if conn == nil {
		return nil
	}
	return DiscardConn(s.db, conn)
}

// do runs fn on the connection, and classifies its error. It closes a connection that is lost or
// was interrupted.
func (s *Session) do(ctx context.Context, what string, fn func() error) error {
	if s.conn == nil {
		return Classed(ErrConnectionLost, fmt.Errorf("%s: the connection is lost", what))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.db.Classify(fn())
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		s.kill(ctx)
		return errors.Join(ctx.Err(), s.discard())
	}
	if _, bug := errors.AsType[*Bug](err); bug { // the rest of a result may be unread
		s.kill(ctx)
		err = errors.Join(err, s.discard())
	}
	if errors.Is(err, ErrConnectionLost) {
		err = errors.Join(err, s.discard())
	}
	return fmt.Errorf("%s: %w", what, err)
}

// on returns what runs statements: the transaction if one is open, else the connection. The
// connection must not run a transaction's statements: on driver.ErrBadConn, package sql would wait
// for the transaction's end.
func (s *Session) on() Exec {
	if s.tx != nil {
		return s.tx
	}
	return s.conn
}

// raw passes the driver's connection to fn. An error of fn doesn't close the connection: see on.
func (s *Session) raw(fn func(c any) error) error {
	var failed error
	// After a panic, package sql would wait for the transaction's end.
	err := s.conn.Raw(func(c any) error {
		failed = Guarded(func() error { return fn(c) })
		return nil
	})
	if err != nil {
		return err
	}
	return failed
}

// kill ends the connection on the server. An error is ignored: if the server is gone, so is the
// connection.
func (s *Session) kill(ctx context.Context) {
	if s.id != 0 {
		_ = s.db.Kill(context.WithoutCancel(ctx), s.id)
	}
}

// Exec runs a statement and returns the number of rows that it affected. Values of args replace
// question marks: see Driver.Bind.
func (s *Session) Exec(ctx context.Context, query string, args ...any) (affected int64, err error) {
	s.forget()
	err = s.do(ctx, FirstWords(query), func() error {
		if len(args) > 0 {
			query = s.db.Bind(query)
		}
		r, err := s.on().ExecContext(ctx, query, args...)
		if err == nil {
			affected, err = r.RowsAffected()
		}
		return err
	})
	return affected, err
}

// Query passes the rows of a query to fn, in batches that it reuses, until there are no more rows
// or fn returns an error. cols have the types of the query's columns.
func (s *Session) Query(ctx context.Context, cols []Column, fn func(rows *Batch) error, query string, args ...any) error {
	var own error
	err := s.do(ctx, FirstWords(query), func() error {
		if len(args) > 0 {
			query = s.db.Bind(query)
		}
		return s.raw(func(c any) error {
			rows, end, err := s.rows(ctx, c, query, args)
			if err != nil {
				return err
			}
			err = ScanDriverRows(dynamicRows{rows, cols}, cols, func(b *Batch) error {
				own = fn(b)
				return own
			})
			closed := errors.Join(rows.Close(), end())
			if own != nil {
				return nil
			}
			return errors.Join(err, closed)
		})
	})
	if own != nil {
		return errors.Join(own, err)
	}
	return err
}

// rows runs a query on a driver's connection. The caller closes the rows, and then calls end.
func (s *Session) rows(ctx context.Context, c any, query string, args []any) (rows driver.Rows, end func() error, err error) {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return nil, nil, fmt.Errorf("value %d: %w", i+1, err)
		}
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	if !s.words.Prepares {
		rows, err = c.(driver.QueryerContext).QueryContext(ctx, query, values)
		return rows, func() error { return nil }, err
	}
	stmt, err := c.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, nil, err
	}
	if rows, err = stmt.(driver.StmtQueryContext).QueryContext(ctx, values); err != nil {
		return nil, nil, errors.Join(err, stmt.Close())
	}
	return rows, stmt.Close, nil
}

// dynamicRows are rows whose numbers become text in columns of text, and truth values integers.
type dynamicRows struct {
	driver.Rows
	cols []Column
}

func (r dynamicRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	for i, c := range r.cols[:min(len(r.cols), len(dest))] {
		if v, ok := dest[i].(bool); ok {
			dest[i] = int64(0)
			if v {
				dest[i] = int64(1)
			}
		}
		if c.Type != Varchar && c.Type != Char && c.Type != Decimal {
			continue
		}
		switch v := dest[i].(type) {
		case int64:
			dest[i] = strconv.FormatInt(v, 10)
		case float64:
			dest[i] = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return err
}

// Begin begins a transaction.
func (s *Session) Begin(ctx context.Context, t Transaction) error {
	const what = "begin a transaction"
	if s.tx != nil {
		return fmt.Errorf("%s: one is open already", what)
	}
	if t.Snapshot != "" {
		if s.words.Import == nil {
			return Classed(ErrUnsupported, fmt.Errorf("%s: this server can't share a snapshot", what))
		}
		t.Isolation = sql.LevelRepeatableRead
	}
	return s.do(ctx, what, func() error {
		// The transaction outlives ctx. If ctx ends, it interrupts only the beginning of the transaction.
		lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, cancel)
		tx, err := s.conn.BeginTx(lasting, &sql.TxOptions{Isolation: t.Isolation, ReadOnly: t.ReadOnly})
		if err == nil && t.Snapshot != "" {
			if _, err = tx.ExecContext(ctx, s.words.Import(t.Snapshot)); err != nil {
				err = errors.Join(err, tx.Rollback())
			}
		}
		late := !stop()
		if err != nil {
			cancel()
			return err
		}
		s.tx = tx
		if late { // package sql ends the transaction, and perhaps the connection
			return ctx.Err()
		}
		return nil
	})
}

// Rollback rolls the transaction back. It does nothing if none is open.
func (s *Session) Rollback(ctx context.Context) error {
	if s.tx == nil {
		return nil
	}
	return s.do(ctx, "roll back", func() error {
		defer context.AfterFunc(ctx, func() { s.kill(ctx) })() // sql.Tx takes no context
		tx := s.tx
		s.tx = nil
		return tx.Rollback()
	})
}

// Snapshot returns a name for the snapshot of rows that the open transaction sees. Another
// session's Transaction can use it until this transaction ends.
func (s *Session) Snapshot(ctx context.Context) (name string, err error) {
	const what = "share a snapshot"
	if s.words.Export == "" {
		return "", Classed(ErrUnsupported, fmt.Errorf("%s: this server can't", what))
	}
	if s.tx == nil && s.conn != nil {
		return "", fmt.Errorf("%s: no transaction is open", what)
	}
	err = s.do(ctx, what, func() error { return s.on().QueryRowContext(ctx, s.words.Export).Scan(&name) })
	return name, err
}

// State returns a setting of the session by the server's name for it.
func (s *Session) State(ctx context.Context, name string) (string, error) {
	q, err := s.words.Get(name)
	if err != nil {
		return "", fmt.Errorf("setting %s: %w", name, err)
	}
	var v sql.NullString
	err = s.do(ctx, "setting "+name, func() error { return s.on().QueryRowContext(ctx, q).Scan(&v) })
	return v.String, err
}

// SetState changes a setting of the session.
func (s *Session) SetState(ctx context.Context, name, value string) error {
	q, err := s.words.Set(name, value)
	if err != nil {
		return fmt.Errorf("set %s=%s: %w", name, value, err)
	}
	s.forget()
	return s.do(ctx, "set "+name+"="+value, func() error {
		_, err := s.on().ExecContext(ctx, q)
		return err
	})
}

// Close closes the connection. The server rolls back an open transaction.
func (s *Session) Close() error { return s.discard() }

// DiscardConn closes a connection, which may be lost, instead of returning it to its pool.
func DiscardConn(db Driver, c *sql.Conn) error {
	err := errors.Join(c.Raw(func(any) error { return driver.ErrBadConn }), c.Close())
	if Disconnected(err) || errors.Is(db.Classify(err), ErrConnectionLost) {
		return nil
	}
	return err
}
