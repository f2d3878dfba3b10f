package mysql

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/engine"
)

// A loader inserts rows of several tables in one transaction, as statements of
// text, on a connection of its own.
//
// To take back one Insert, a savepoint stands before it, unless nothing else is
// in the transaction or the Insert is one statement, which the server takes back
// by itself. MyRocks has no such savepoints: there the transaction's statements
// are kept, and sent again up to the one that was refused.
type loader struct {
	db    *DB
	conn  *conn // nil when it is lost
	state loaderState
	// inserted tells that the transaction has rows.
	inserted bool
	limit    int // of a statement, in bytes
	warnings int // that the connection keeps of a statement
	encoders map[*engine.Table]*encoder
	buf      []byte
	journal  journal
}

type loaderState int

const (
	idle   loaderState = iota // between transactions
	open                      // within one
	over                      // a transaction failed: only Reset helps
	closed                    // for good
)

const (
	// loaderWait is how long, in seconds, a loader waits for a row and for a
	// table. A change of a table's periods is done within, and a transaction of
	// another loader.
	loaderWait = 10
	// mostEncoders bounds what is kept of tables, which come anew with each
	// change of a declaration.
	mostEncoders = 256

	savepoint   = "SAVEPOINT rowmill"
	toSavepoint = "ROLLBACK TO SAVEPOINT rowmill"
	rollback    = "ROLLBACK"

	// errInterrupted is about a statement that somebody has ended. To a loader
	// it is as a deadlock's end: the transaction may be tried again.
	errInterrupted = 1317
)

// Loader implements engine.Keeper.
func (db *DB) Loader(ctx context.Context) (engine.Loader, error) {
	l := &loader{db: db, encoders: map[*engine.Table]*encoder{}, journal: journal{on: db.dialect.rocksdb()}}
	if err := l.dial(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *loader) dial(ctx context.Context) error {
	conn, err := l.db.dialFor(ctx, loading)
	if err != nil {
		return err
	}
	l.conn = conn
	if err = conn.watch.Begin(ctx); err == nil {
		err = l.prepare()
		if conn.watch.End() {
			err = ctx.Err()
		}
	}
	if err != nil {
		l.drop()
		return fmt.Errorf("prepare a connection for inserts: %w", classify(err))
	}
	l.state, l.inserted = idle, false
	l.journal.reset()
	return nil
}

func (l *loader) prepare() error {
	if err := l.conn.keepWarnings(); err != nil {
		return fmt.Errorf("%s: %w", engine.FirstWords(allWarnings), err)
	}
	l.warnings = l.conn.warnings
	// The server may have got another limit since the DB was opened.
	packet, err := l.conn.number("SELECT @@max_allowed_packet")
	if err != nil {
		return err
	}
	l.conn.largest = min(int(packet), maxPacket-1)
	// A row that is larger goes alone, up to what the server accepts.
	l.limit = max(min(int(packet)/2, l.conn.largest), 1024)
	return nil
}

// drop lets go of the connection, which may be broken.
func (l *loader) drop() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// enter checks that the loader is in a state for what is to be done, and has the
// end of ctx break it off.
func (l *loader) enter(ctx context.Context, state loaderState) error {
	switch {
	case l.state == closed:
		return errors.New("the loader is closed")
	case l.conn == nil:
		return engine.Classed(engine.ErrConnectionLost, errors.New("the connection is lost"))
	case l.state == over:
		return errors.New("the transaction is over")
	case l.state != state && state == idle:
		return errors.New("a transaction has begun already")
	case l.state != state:
		return errors.New("no transaction has begun")
	}
	if err := l.conn.watch.Begin(ctx); err != nil {
		l.state = over
		return err
	}
	return nil
}

// fail ends a transaction for an error, and leaves nothing of it.
func (l *loader) fail(ctx context.Context, err error) error {
	var server *mysql.MySQLError
	err = classify(err)
	good := errors.As(err, &server) && !errors.Is(err, engine.ErrConnectionLost)
	if serverError(err, errInterrupted) { // KILL QUERY, or a server that shuts down
		err = engine.Classed(engine.ErrDeadlock, err)
	}
	if good {
		_, failed := l.conn.run(rollback)
		good = failed == nil
	}
	l.state, l.inserted = over, false
	if l.conn.watch.End() {
		l.db.kill(ctx, l.conn.id)
		err, good = ctx.Err(), false
	}
	if !good {
		l.drop()
	}
	return err
}

// Begin implements engine.Loader.
func (l *loader) Begin(ctx context.Context) error {
	err := l.enter(ctx, idle)
	if err == nil {
		if _, err = l.conn.run(beginStatement); err == nil {
			l.conn.watch.End()
			l.state, l.inserted = open, false
			l.journal.reset()
			return nil
		}
		err = l.fail(ctx, err)
	}
	return fmt.Errorf("begin a transaction: %w", err)
}

// Commit implements engine.Loader.
func (l *loader) Commit(ctx context.Context) error {
	err := l.enter(ctx, open)
	if err == nil {
		if _, err = l.conn.run(commitStatement); err == nil {
			l.conn.watch.End()
			l.state = idle
			return nil
		}
		if err = l.fail(ctx, err); l.conn == nil {
			// The end of ctx may have come too late to prevent it.
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
	if l.conn != nil {
		if err := l.conn.watch.Begin(ctx); err != nil {
			return err
		}
		_, err := l.conn.run(rollback)
		if !l.conn.watch.End() && err == nil {
			l.state, l.inserted = idle, false
			return nil
		}
		l.state = over
		l.drop()
	}
	return l.dial(ctx)
}

// Close implements engine.Loader. The server rolls back.
func (l *loader) Close() error {
	l.drop()
	l.state = closed
	return nil
}

// encoder returns that of a table.
func (l *loader) encoder(t *engine.Table) *encoder {
	e := l.encoders[t]
	if e == nil {
		if len(l.encoders) == mostEncoders {
			clear(l.encoders)
		}
		// A key that the server assigns is left out: a literal 0 is kept here.
		without := *t
		without.Columns, without.ServerKey = t.Inserted(), ""
		made := newEncoder(l.db.dialect, &without)
		e = &made
		l.encoders[t] = e
	}
	e.warnings = cmp.Or(l.warnings, mostWarnings)
	return e
}

// Insert implements engine.Loader.
func (l *loader) Insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int) (engine.Ack, error) {
	err := l.enter(ctx, open)
	if err == nil {
		e := l.encoder(t)
		if err = engine.CheckRows(t, b, from, to); err != nil {
			l.conn.watch.End()
			l.state = over
		} else {
			var ack engine.Ack
			if ack, err = l.insert(e, b, from, to); err == nil {
				l.conn.watch.End()
				l.inserted = l.inserted || from < to
				return ack, nil
			}
			err = l.undo(ctx, err)
		}
	}
	return engine.Ack{}, fmt.Errorf("insert into %s: %w", t.Name, err)
}

// Has implements engine.Loader: one statement, whose answer has a bit for each row.
func (l *loader) Has(ctx context.Context, rows ...engine.Rows) ([]bool, error) {
	err := l.enter(ctx, open)
	if err == nil {
		if err = engine.CheckHas(rows); err != nil {
			l.conn.watch.End()
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
		if bits, err = l.conn.number(string(q)); err == nil {
			l.conn.watch.End()
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

// refusal is an error of rows, and how they are taken back.
type refusal struct {
	error
	back takeBack
}

// takeBack is what has to be done for nothing of an Insert to stay.
type takeBack int

const (
	nothing takeBack = iota // the server has done it
	toSaved                 // back to the savepoint
	all                     // begin anew: there was nothing else
	again                   // begin anew and send what was there
)

// undo takes back one Insert whose rows were refused, or ends the transaction.
func (l *loader) undo(ctx context.Context, err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		return l.fail(ctx, err)
	}
	var failed error
	switch r.back {
	case toSaved:
		_, failed = l.conn.run(toSavepoint)
	case all, again:
		if _, failed = l.conn.run(rollback); failed == nil {
			_, failed = l.conn.run(beginStatement)
		}
		if failed == nil && r.back == again {
			failed = l.repeat()
		}
	}
	if failed != nil {
		return l.fail(ctx, fmt.Errorf("take back rows that were refused (%v): %w", r.error, failed))
	}
	if l.conn.watch.End() {
		// It came after the answer: the connection is in order, and the
		// transaction over all the same.
		l.state = over
		return ctx.Err()
	}
	return r.error
}

// insert sends the rows in as few statements as they fit.
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
				if _, err := l.conn.run(savepoint); err != nil {
					return engine.Ack{}, err
				}
				back = toSaved
			}
		}
		affected, err := l.conn.send(l.buf)
		if err == nil {
			ack.Rows += affected
			var skipped int64
			if e.ignore {
				skipped, err = l.conn.skipped(next-row, affected)
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

// encode makes a statement of rows from row on, up to to or as many as fit, and
// returns the first that it doesn't have.
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

// A journal keeps the statements of a transaction, to send them again.
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

// mark remembers where an Insert begins, and back forgets what came since.
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

// repeat sends the statements that the transaction had. Where others have
// inserted meanwhile what they skipped or didn't, the transaction can't go on.
func (l *loader) repeat() error {
	from := 0
	for i, to := range l.journal.ends {
		affected, err := l.conn.send(l.journal.buf[from:to])
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
