package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

// A loader inserts rows of several tables in one transaction.
//
// A refused row undoes everything that the transaction has done since the last
// savepoint. Each Insert but the first therefore sets a savepoint, sent in the same
// packet, and releases it: subtransactions cost the server, so only one is open at
// a time. The first Insert needs none; if it fails, the transaction is begun again.
type loader struct {
	engine.Link[*wire]
	db       *server
	encoders map[*engine.Table]*encoder
	buf      []byte
	longest  int    // maximum length of a statement, in bytes
	undo     string // the statement that undoes the current Insert; "" if nothing was sent
	// pending means that the BEGIN is yet to be sent: with the first COPY, or alone.
	pending bool
}

const (
	// loadLockWait is how long an INSERT of a loader waits for another
	// transaction that has a row of the same key, or for a change of the table.
	loadLockWait = "10s"
	// longestStatement is the longest message that the server accepts, less the
	// overhead of the protocol (PQ_LARGE_MESSAGE_LIMIT in libpq.h).
	longestStatement = 1<<30 - 1<<10
	// copyRows is the number of rows from which COPY is faster than a statement, in spite
	// of two more round trips.
	copyRows = 200
	// mostEncoders is the number of tables whose encoders are kept.
	mostEncoders = 100
)

// loadSession are the settings of a loader's connection. The loader reads no answer while it sends
// rows by COPY. Triggers and functions can raise messages for each row: without the second setting,
// these would fill the connection's buffers until both sides waited for each other.
var loadSession = []string{"SET lock_timeout = '" + loadLockWait + "'", "SET client_min_messages = 'error'"}

// Statements of a loader's transaction. Deferred constraints are checked by
// each INSERT, because an error at COMMIT could not be attributed to a row.
const (
	loadBegin     = "BEGIN ISOLATION LEVEL READ COMMITTED; SET CONSTRAINTS ALL IMMEDIATE"
	loadAgain     = "ROLLBACK; " + loadBegin
	loadSavepoint = "SAVEPOINT rowmill"
	loadRelease   = "; RELEASE rowmill"
	loadBack      = "ROLLBACK TO rowmill" + loadRelease
)

// Loader implements engine.Keeper. The server's settings determine durability.
func (db *server) Loader(ctx context.Context) (engine.Loader, error) {
	l := &loader{db: db, encoders: map[*engine.Table]*encoder{}, longest: longestStatement}
	l.Dial = func(ctx context.Context) (*wire, error) {
		return db.dialWire(ctx, loadSession...)
	}
	return engine.NewLoader(db, l), l.Connect(ctx)
}

func (l *loader) Leave(ctx context.Context, err error) error { return l.Fail(ctx, err) }

// Begin implements engine.LoaderConn. BEGIN goes with the first COPY, which saves a round trip.
func (l *loader) Begin(context.Context) error {
	l.pending = true
	return nil
}

// begun sends the BEGIN unless it was sent.
func (l *loader) begun() error {
	if !l.pending {
		return nil
	}
	l.pending = false
	return l.Conn.run(loadBegin)
}

func (l *loader) Commit(context.Context) error {
	if err := l.begun(); err != nil {
		return err
	}
	return l.Conn.run(commitStatement)
}

func (l *loader) encoder(t *engine.Table) *encoder {
	e, _ := engine.Cached(l.encoders, mostEncoders, t, nil, func() (*encoder, error) {
		e := newEncoder(l.db.dialect, t)
		return &e, nil
	})
	if e.err = nil; e.update != nil {
		e.update.err = nil
	}
	return e
}

// Insert implements engine.LoaderConn. It tries COPY if there are many rows. If COPY isn't
// possible, or the server refuses one of the rows or has its key already, Insert uses as few
// statements as possible.
func (l *loader) Insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int, more bool) (engine.Ack, error) {
	e := l.encoder(t)
	l.undo = ""
	ack, done, err := l.copy(ctx, e, t, b, from, to, more)
	if err != nil || done {
		return ack, err
	}
	if err := l.begun(); err != nil {
		return ack, err
	}
	return l.insert(e, t, b, from, to, more)
}

// copyPause is how many Inserts into a table don't try COPY after COPY has met a row that exists.
// It is also how many don't try binary COPY after a value without a binary form. In both cases the
// rows must be sent a second time, and the next Inserts are likely to have more such rows.
const copyPause = 16

// copy inserts rows by COPY. If it returns no error and done is false, the transaction has none of
// the rows, and they must be sent as statements: they are few, their types don't allow COPY, or the
// server has refused one, which may only be a duplicate to skip.
func (l *loader) copy(ctx context.Context, e *encoder, t *engine.Table, b *engine.Batch, from, to int, more bool) (ack engine.Ack, done bool, err error) {
	if to-from < l.db.copyRows || e.noCopy {
		return ack, false, nil
	}
	if e.pause > 0 {
		e.pause--
		return ack, false, nil
	}
	if e.copy == "" {
		schema, err := l.db.catalog().Describe(ctx, t.Name)
		if err != nil {
			e.pause = copyPause // the INSERT will report the error, such as a table that isn't there
			return ack, false, nil
		}
		if !copies(t.Inserted(), schema) {
			e.noCopy = true
			return ack, false, nil
		}
		e.copy, e.forms = e.copyText(""), binaryForms(t.Inserted(), schema)
		e.verify = e.sameTypes(schema)
	}
	if l.undo = loadAgain; more {
		l.undo = loadBack
		if err := l.Conn.run(loadSavepoint); err != nil {
			return ack, false, err
		}
	}
	statement, forms := e.copy, e.forms
	if e.plain > 0 {
		e.plain--
		forms = nil
	}
	if forms != nil {
		statement = e.copyStatement() + "; " + e.verify
	}
	if l.pending { // in one message, so that COPY never runs outside the transaction
		statement, l.pending = loadBegin+"; "+statement, false
	}
	var r reply
	err = l.Conn.copyRows(&l.buf, statement, e, e.copyRow(forms, b), forms != nil, from, to, copyChunk, &r)
	if err == nil && r.came > 0 || forms != nil && mistyped(err) { // the types of the columns have changed
		if e.forms, err = nil, l.Undo(); err != nil {
			return ack, false, err
		}
		return l.copy(ctx, e, t, b, from, to, more)
	}
	if err == nil && more {
		err = l.Conn.run(loadRelease[len("; "):])
	}
	if err == nil {
		return r.ack(to-from, t.Ignore || t.Update), true, nil
	}
	class := classify(err)
	if !l.Conn.Answered(err) || errors.Is(class, engine.ErrConnectionLost) || engine.Retryable(class) || errors.Is(class, engine.ErrDiskFull) {
		return ack, false, err
	}
	switch {
	case errors.Is(class, engine.ErrDuplicateKey):
		e.pause = copyPause
	case !errors.Is(class, engine.ErrRefused):
		e.noCopy = true // such as for a view, or a table with row security
	}
	e.err = nil
	if err := l.Undo(); err != nil || !errors.Is(class, errText) {
		return ack, false, err
	}
	e.plain = copyPause
	return l.copy(ctx, e, t, b, from, to, more)
}

// insert inserts rows by statements. The savepoint is a separate message, sent together with the
// first statement: it is set even if the server can't parse that statement. The message with the
// last rows also releases the savepoint.
func (l *loader) insert(e *encoder, t *engine.Table, b *engine.Batch, from, to int, more bool) (engine.Ack, error) {
	var r reply
	l.undo = ""
	for row := from; row < to; {
		first := row
		l.buf = l.buf[:0]
		if more && first == from {
			l.buf = appendQuery(l.buf, loadSavepoint)
		}
		var start int
		l.buf, start = beginMessage(l.buf, 'Q')
		l.buf, row = e.appendInsert(l.buf, b, first, to)
		if more && row == to && e.update == nil {
			l.buf = append(l.buf, loadRelease...)
		}
		l.buf = append(l.buf, 0)
		endMessage(l.buf, start)
		if n := len(l.buf) - start; e.err == nil && n > l.longest {
			e.err = fmt.Errorf("rows %d to %d are a statement of %d bytes, more than PostgreSQL takes", first-from+1, row-from, n)
		}
		if e.err != nil {
			return engine.Ack{}, engine.Classed(engine.ErrRefused, e.err)
		}
		if l.undo = loadAgain; more {
			l.undo = loadBack
		}
		err := l.Conn.exchange(l.buf, &r)
		if more && first == from && (err == nil || l.Conn.Answered(err)) { // that was the savepoint's reply
			err = l.Conn.finish(&r)
		}
		if err != nil {
			return engine.Ack{}, err
		}
	}
	ack := r.ack(to-from, t.Ignore || t.Update)
	if e.update == nil {
		return ack, nil
	}
	return ack, l.update(e, b, from, to, more, &ack)
}

func (l *loader) Undo() error {
	if l.undo == "" {
		return nil
	}
	return l.Conn.run(l.undo)
}

// Has implements engine.LoaderConn. It sends one message with a statement for each row.
func (l *loader) Has(_ context.Context, rows []engine.Rows) ([]bool, error) {
	if err := l.begun(); err != nil {
		return nil, err
	}
	q, start := beginMessage(nil, 'Q')
	for _, r := range rows {
		e := newEncoder(l.db.dialect, r.Table)
		q = fmt.Appendf(q, "SELECT 1 FROM %s WHERE (%s) = ", e.table, e.names)
		q = append(e.appendRow(q, r.Batch, 0), " LIMIT 1;"...)
		if e.err != nil {
			return nil, fmt.Errorf("%w: %w", errUnsent, e.err)
		}
	}
	q = append(q, 0)
	endMessage(q, start)
	if err := l.Conn.send(q); err != nil {
		return nil, err
	}
	var r reply
	has := make([]bool, len(rows))
	for i := range has {
		before := r.rows
		if err := l.Conn.await(&r, i+1); err != nil {
			return nil, err
		}
		has[i] = r.rows > before
	}
	return has, l.Conn.finish(&r)
}
