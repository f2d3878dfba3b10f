package mysql

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// A loader inserts rows of several tables in one transaction, with text statements,
// on a connection of its own.
//
// A savepoint before each Insert makes it possible to roll back that Insert alone.
// It is omitted if the transaction is still empty, or if the Insert is one
// statement without IGNORE, which the server rolls back by itself. MyRocks has no
// such savepoints: there, the statements are recorded and sent again without the
// refused Insert.
type loader struct {
	engine.Link[*conn]
	db    *DB
	state loaderState
	// inserted is set if the transaction has rows.
	inserted bool
	limit    int // of a statement, in bytes
	warnings int // the number of warnings that the server keeps per statement
	encoders map[*engine.Table]*encoder
	buf      []byte
	journal  journal
}

type loaderState int

const (
	idle   loaderState = iota // between transactions
	open                      // within one
	over                      // a transaction failed: Reset is required
	closed                    // permanently
)

const (
	// loaderWait is how long, in seconds, a loader waits for a row lock and for a
	// table lock. A change of a table's periods finishes within that time, and so
	// does a transaction of another loader.
	loaderWait = 10
	// mostEncoders limits the cached encoders: each change of a declaration creates
	// new tables.
	mostEncoders = 256

	savepoint   = "SAVEPOINT rowmill"
	toSavepoint = "ROLLBACK TO SAVEPOINT rowmill"

	// errInterrupted is the error of a statement that was killed. The loader treats
	// it like a deadlock: the transaction can be retried.
	errInterrupted = 1317
)

// Loader implements engine.Keeper.
func (db *DB) Loader(ctx context.Context) (engine.Loader, error) {
	l := &loader{db: db, encoders: map[*engine.Table]*encoder{}, journal: journal{on: db.dialect.rocksdb()}}
	l.Dial = l.dial
	if err := l.Connect(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *loader) dial(ctx context.Context) (*conn, error) {
	c, err := l.db.dialFor(ctx, loading)
	if err != nil {
		return nil, err
	}
	if err = c.watch.Begin(ctx); err == nil {
		err = l.prepare(c)
		if c.watch.End() {
			err = ctx.Err()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare a connection for inserts: %w", classify(err)), unlessLost(c.Close()))
	}
	l.state, l.inserted = idle, false
	l.journal.reset()
	return c, nil
}

func (l *loader) prepare(c *conn) error {
	if err := c.keepWarnings(); err != nil {
		return fmt.Errorf("%s: %w", engine.FirstWords(allWarnings), err)
	}
	l.warnings = c.warnings
	// The server's limit may have changed since the DB was opened.
	packet, err := c.number("SELECT @@max_allowed_packet")
	if err != nil {
		return err
	}
	c.largest = min(int(packet), maxPacket-1)
	// A larger row is sent alone, up to the server's limit.
	l.limit = max(min(int(packet)/2, c.largest), 1024)
	return nil
}

// enter checks that the loader is in the given state, and makes the end of ctx
// interrupt the operation.
func (l *loader) enter(ctx context.Context, state loaderState) error {
	switch {
	case l.state == closed:
		return errors.New("the loader is closed")
	case l.state == over && !l.Lost():
		return errors.New("the transaction is over")
	case l.state != state && state == idle && !l.Lost():
		return errors.New("a transaction has begun already")
	case l.state != state && !l.Lost():
		return errors.New("no transaction has begun")
	}
	if err := l.Enter(ctx); err != nil {
		l.state = over
		return err
	}
	return nil
}

// fail ends a transaction after an error and rolls it back.
func (l *loader) fail(ctx context.Context, err error) error {
	var server *mysql.MySQLError
	err = classify(err)
	usable := errors.As(err, &server) && !errors.Is(err, engine.ErrConnectionLost)
	if serverError(err, errInterrupted) { // KILL QUERY, or a server shutdown
		err = engine.Classed(engine.ErrDeadlock, err)
	}
	l.state, l.inserted = over, false
	return l.Leave(ctx, err, usable && l.Conn.Rollback() == nil)
}

func (l *loader) Begin(ctx context.Context) error {
	err := l.enter(ctx, idle)
	if err == nil {
		if _, err = l.Conn.run(beginStatement); err == nil {
			l.Conn.watch.End()
			l.state, l.inserted = open, false
			l.journal.reset()
			return nil
		}
		err = l.fail(ctx, err)
	}
	return fmt.Errorf("begin a transaction: %w", err)
}

func (l *loader) Commit(ctx context.Context) error {
	err := l.enter(ctx, open)
	if err == nil {
		if _, err = l.Conn.run(commitStatement); err == nil {
			l.Conn.watch.End()
			l.state = idle
			return nil
		}
		if err = l.fail(ctx, err); l.Lost() {
			// The commit may have been executed before ctx ended.
			err = engine.Classed(engine.ErrConnectionLost, err)
		}
	}
	return fmt.Errorf("commit: %w", err)
}

// Reset implements engine.Loader: it rolls back, or dials again.
func (l *loader) Reset(ctx context.Context) error {
	if l.state == closed {
		return errors.New("the loader is closed")
	}
	err := l.Link.Reset(ctx)
	if err == nil {
		l.state, l.inserted = idle, false
	}
	return err
}

// Close implements engine.Loader. The server rolls back.
func (l *loader) Close() error {
	l.Drop()
	l.state = closed
	return nil
}

func (l *loader) encoder(t *engine.Table) *encoder {
	e := l.encoders[t]
	if e == nil {
		if len(l.encoders) == mostEncoders {
			clear(l.encoders)
		}
		// A key assigned by the server is left out: loader sessions store a literal 0.
		without := *t
		without.Columns, without.ServerKey = t.Inserted(), ""
		made := newEncoder(l.db.dialect, &without)
		e = &made
		l.encoders[t] = e
	}
	e.warnings = cmp.Or(l.warnings, mostWarnings)
	return e
}

func (l *loader) Insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int) (engine.Ack, error) {
	err := l.enter(ctx, open)
	if err == nil {
		e := l.encoder(t)
		if err = engine.CheckRows(t, b, from, to); err != nil {
			l.Conn.watch.End()
			l.state = over
		} else {
			var ack engine.Ack
			if ack, err = l.insert(e, b, from, to); err == nil {
				l.Conn.watch.End()
				l.inserted = l.inserted || from < to
				return ack, nil
			}
			err = l.undo(ctx, err)
		}
	}
	return engine.Ack{}, fmt.Errorf("insert into %s: %w", t.Name, err)
}

// Has implements engine.Loader with one statement, whose result has one bit per row.
func (l *loader) Has(ctx context.Context, rows ...engine.Rows) ([]bool, error) {
	err := l.enter(ctx, open)
	if err == nil {
		if err = engine.CheckHas(rows); err != nil {
			l.Conn.watch.End()
			l.state = over
			return nil, err
		}
		q := []byte("SELECT 0")
		for i, r := range rows {
			e := l.encoder(r.Table)
			q = fmt.Appendf(q, " + %d * EXISTS (SELECT 1 FROM %s WHERE (%s) = ", 1<<i, e.table, e.names)
			q = append(e.appendRow(q, r.Batch, 0), ')')
		}
		var bits int64
		if bits, err = l.Conn.number(string(q)); err == nil {
			l.Conn.watch.End()
			out := make([]bool, len(rows))
			for i := range out {
				out[i] = bits>>i&1 != 0
			}
			return out, nil
		}
		err = l.fail(ctx, err)
	}
	return nil, fmt.Errorf("look for rows: %w", err)
}

// refusal is an error of refused rows, with the way to roll them back.
type refusal struct {
	error
	back takeBack
}

// takeBack is the action that rolls back a refused Insert.
type takeBack int

const (
	nothing takeBack = iota // the server has rolled it back
	toSaved                 // roll back to the savepoint
	all                     // begin again: the transaction had no other rows
	again                   // begin again and replay the earlier statements
)

// undo rolls back one Insert whose rows were refused, or ends the transaction.
func (l *loader) undo(ctx context.Context, err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		return l.fail(ctx, err)
	}
	var failed error
	switch r.back {
	case toSaved:
		_, failed = l.Conn.run(toSavepoint)
	case all, again:
		if _, failed = l.Conn.run(rollbackStatement); failed == nil {
			_, failed = l.Conn.run(beginStatement)
		}
		if failed == nil && r.back == again {
			failed = l.repeat()
		}
	}
	if failed != nil {
		return l.fail(ctx, fmt.Errorf("roll back rows that were refused (%v): %w", r.error, failed))
	}
	if l.Conn.watch.End() {
		// ctx ended after the answer: the connection is usable, but the transaction
		// is over.
		l.state = over
		return ctx.Err()
	}
	return r.error
}

// insert sends the rows in as few statements as possible.
func (l *loader) insert(e *encoder, b *engine.Batch, from, to int) (engine.Ack, error) {
	var ack engine.Ack
	back := nothing
	l.journal.mark()
	for row := from; row < to; {
		next := l.encode(e, b, row, to)
		if row == from && (next < to || e.ignore) {
			switch {
			case !l.inserted:
				back = all
			case l.journal.on:
				back = again
			default:
				if _, err := l.Conn.run(savepoint); err != nil {
					return engine.Ack{}, err
				}
				back = toSaved
			}
		}
		affected, err := l.Conn.send(l.buf)
		if err == nil {
			ack.Rows += affected
			var skipped int64
			if e.ignore {
				skipped, err = l.Conn.skipped(next-row, affected)
				ack.Skipped += skipped
			}
			if err == nil {
				l.journal.add(l.buf, affected)
			}
		}
		if err != nil {
			l.journal.back()
			if classed := classify(err); errors.Is(classed, engine.ErrRefused) {
				return engine.Ack{}, &refusal{classed, back}
			}
			return engine.Ack{}, err
		}
		row = next
	}
	return ack, nil
}

// encode encodes one statement with the rows from row on, up to to or the size
// limit, and returns the first row after them.
func (l *loader) encode(e *encoder, b *engine.Batch, row, to int) int {
	var head [packetHead]byte
	l.buf = append(append(l.buf[:0], head[:]...), e.prefix...)
	l.buf = e.appendRow(l.buf, b, row)
	last := row + min(to-row, e.rowLimit())
	for row++; row < last; row++ {
		fits := len(l.buf)
		l.buf = e.appendRow(append(l.buf, ','), b, row)
		if len(l.buf) > l.limit {
			l.buf = l.buf[:fits]
			break
		}
	}
	return row
}

// A journal records the statements of a transaction, to send them again.
type journal struct {
	on       bool
	buf      []byte
	ends     []int
	affected []int64
	marked   int
}

func (j *journal) reset() {
	j.buf, j.ends, j.affected, j.marked = j.buf[:0], j.ends[:0], j.affected[:0], 0
}

// mark records where an Insert begins, and back removes the statements since then.
func (j *journal) mark() { j.marked = len(j.ends) }

func (j *journal) back() {
	j.ends, j.affected = j.ends[:j.marked], j.affected[:j.marked]
	end := 0
	if j.marked > 0 {
		end = j.ends[j.marked-1]
	}
	j.buf = j.buf[:end]
}

func (j *journal) add(statement []byte, affected int64) {
	if j.on {
		j.buf = append(j.buf, statement...)
		j.ends, j.affected = append(j.ends, len(j.buf)), append(j.affected, affected)
	}
}

// repeat sends the recorded statements again. If one affects another number of
// rows, because other transactions have inserted or deleted the same keys
// meanwhile, the transaction fails as a deadlock.
func (l *loader) repeat() error {
	from := 0
	for i, to := range l.journal.ends {
		affected, err := l.Conn.send(l.journal.buf[from:to])
		if err == nil && affected != l.journal.affected[i] || errors.Is(classify(err), engine.ErrRefused) {
			return engine.Classed(engine.ErrDeadlock, errors.Join(errors.New("another transaction has inserted the same keys"),
				&mysql.MySQLError{Message: "the transaction was rolled back"}))
		}
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}
