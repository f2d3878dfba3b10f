package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	db       *DB
	open     bool // whether a transaction is open
	inserted bool // whether the transaction has inserted anything
	encoders map[*engine.Table]*encoder
	buf      []byte
	ends     []int // end offset in buf of each message of an Insert
	longest  int   // maximum length of a statement, in bytes
	closed   bool
}

const (
	// loadLockWait is how long an INSERT of a loader waits for another
	// transaction that has a row of the same key, or for a change of the table.
	loadLockWait = "10s"
	// longestStatement is the longest message that the server accepts, less the
	// overhead of the protocol (PQ_LARGE_MESSAGE_LIMIT in libpq.h).
	longestStatement = 1<<30 - 1<<10
	// mostEncoders is the number of tables whose encoders are kept.
	mostEncoders = 100
)

// Statements of a loader's transaction. Deferred constraints are checked by
// each INSERT, because an error at COMMIT could not be attributed to a row.
const (
	loadBegin     = "BEGIN ISOLATION LEVEL READ COMMITTED; SET CONSTRAINTS ALL IMMEDIATE"
	loadAgain     = "ROLLBACK; " + loadBegin
	loadSavepoint = "SAVEPOINT rowmill"
	loadRelease   = "; RELEASE rowmill"
	loadBack      = "ROLLBACK TO rowmill" + loadRelease
)

var errNoTransaction = errors.New("no transaction is open")

// Loader implements engine.Keeper. The server's settings determine durability.
func (db *DB) Loader(ctx context.Context) (engine.Loader, error) {
	l := &loader{db: db, encoders: map[*engine.Table]*encoder{}, longest: longestStatement}
	l.Dial = l.dial
	if err := l.Connect(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *loader) dial(ctx context.Context) (*wire, error) {
	c, err := l.db.dialWire(ctx)
	if err != nil {
		return nil, err
	}
	if err = c.watch.Begin(ctx); err == nil {
		var r *reply
		if r, err = c.run("SET lock_timeout = '" + loadLockWait + "'"); err == nil && r.err != nil {
			err = r.err
		}
		if c.watch.End() {
			err = ctx.Err()
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("prepare session: %w", classify(err))
	}
	l.open, l.inserted = false, false
	return c, nil
}

// say executes a statement of the session or the transaction.
func (l *loader) say(ctx context.Context, what, statement string) error {
	if err := l.watch(ctx, what); err != nil {
		return err
	}
	r, err := l.Conn.run(statement)
	return l.end(ctx, what, err, r)
}

// watch begins the watch of ctx that end ends.
func (l *loader) watch(ctx context.Context, what string) error {
	if l.Lost() {
		return engine.Classed(engine.ErrConnectionLost, fmt.Errorf("%s: the connection is lost", what))
	}
	err := l.Enter(ctx)
	if err != nil && l.open {
		l.rollback()
	}
	return err
}

// end ends the watch and returns the error with its class: err, the
// connection's error, or else the server's error in r. After an error no
// transaction is open. A connection that was lost or interrupted is dropped.
func (l *loader) end(ctx context.Context, what string, err error, r *reply) error {
	usable := err == nil
	if err == nil && r.err != nil {
		err = r.err
	}
	if err != nil {
		err = classify(fmt.Errorf("%s: %w", what, err))
		usable = usable && !errors.Is(err, engine.ErrConnectionLost)
	}
	err = l.Leave(ctx, err, usable)
	if err != nil && !l.Lost() {
		l.rollback()
	}
	if l.Lost() {
		l.open, l.inserted = false, false
	}
	return err
}

// rollbackWait bounds the wait for the ROLLBACK of a failed transaction.
const rollbackWait = 5 * time.Second

// rollback ends the transaction, open or failed, regardless of the context.
func (l *loader) rollback() {
	l.open, l.inserted = false, false
	_ = l.Conn.net.SetDeadline(time.Now().Add(rollbackWait)) // on failure, Rollback fails too
	if l.Conn.Rollback() != nil {
		l.Drop()
		return
	}
	_ = l.Conn.net.SetDeadline(time.Time{})
}

func (l *loader) Begin(ctx context.Context) error {
	const what = "begin a transaction"
	if l.open {
		return fmt.Errorf("%s: one is open already", what)
	}
	err := l.say(ctx, what, loadBegin)
	l.open = err == nil
	return err
}

func (l *loader) Commit(ctx context.Context) error {
	const what = "commit"
	if !l.open && !l.Lost() {
		return fmt.Errorf("%s: %w", what, errNoTransaction)
	}
	err := l.say(ctx, what, commitStatement)
	l.open, l.inserted = false, false
	if l.Lost() && !errors.Is(err, engine.ErrConnectionLost) {
		// If ctx ended too late, the transaction may have been committed.
		err = engine.Classed(engine.ErrConnectionLost, err)
	}
	return err
}

// Reset implements engine.Loader. It rolls back, or opens a new connection.
func (l *loader) Reset(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.closed {
		return errors.New("the loader is closed")
	}
	if l.open {
		l.rollback()
	}
	if !l.Lost() {
		return nil
	}
	return l.Connect(ctx)
}

func (l *loader) Close() error {
	l.closed, l.open = true, false
	return l.Link.Close()
}

// encoder returns the encoder of a table.
func (l *loader) encoder(t *engine.Table) *encoder {
	e := l.encoders[t]
	if e == nil {
		if len(l.encoders) >= mostEncoders {
			clear(l.encoders)
		}
		made := newEncoder(l.db.dialect, t)
		e = &made
		l.encoders[t] = e
	}
	return e
}

func (l *loader) Insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int) (engine.Ack, error) {
	what := "insert into " + t.Name
	if !l.open && !l.Lost() {
		return engine.Ack{}, fmt.Errorf("%s: %w", what, errNoTransaction)
	}
	if err := l.watch(ctx, what); err != nil {
		return engine.Ack{}, err
	}
	var r reply
	if err := engine.CheckRows(t, b, from, to); err != nil || from == to {
		l.Conn.watch.End()
		if err != nil {
			l.rollback()
			err = fmt.Errorf("%s: %w", what, err)
		}
		return engine.Ack{}, err
	}
	if err := l.encode(l.encoder(t), b, from, to); err != nil { // nothing is sent
		l.Conn.watch.End()
		return engine.Ack{}, engine.Classed(engine.ErrRefused, fmt.Errorf("%s: %w", what, err))
	}
	err := l.send(&r)
	if err == nil && r.err != nil && refused(r.err) {
		back := loadAgain
		if l.inserted {
			back = loadBack
		}
		reply, broken := l.Conn.run(back)
		if broken == nil && reply.err == nil {
			l.Conn.watch.End()
			return engine.Ack{}, classify(fmt.Errorf("%s: %w", what, r.err))
		}
		err, r = broken, *reply
	}
	if err := l.end(ctx, what, err, &r); err != nil {
		return engine.Ack{}, err
	}
	l.inserted = true
	ack := engine.Ack{Rows: r.rows, Warnings: r.warnings}
	if t.Ignore {
		ack.Skipped = int64(to-from) - r.rows
	}
	return ack, nil
}

// Has implements engine.Loader. It sends one message with a statement for each row.
func (l *loader) Has(ctx context.Context, rows ...engine.Rows) ([]bool, error) {
	const what = "look for rows"
	if !l.open && !l.Lost() {
		return nil, fmt.Errorf("%s: %w", what, errNoTransaction)
	}
	if err := l.watch(ctx, what); err != nil {
		return nil, err
	}
	var r reply
	have := make([]bool, len(rows))
	err := engine.CheckHas(rows)
	q, start := beginMessage(nil, 'Q')
	for i := 0; i < len(rows) && err == nil; i++ {
		e := newEncoder(l.db.dialect, rows[i].Table)
		q = fmt.Appendf(q, "SELECT 1 FROM %s WHERE (%s) = ", e.table, e.names)
		q = append(e.appendRow(q, rows[i].Batch, 0), " LIMIT 1;"...)
		err = e.err
	}
	if err != nil { // nothing is sent
		l.Conn.watch.End()
		l.rollback()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	q = append(q, 0)
	endMessage(q, start)
	err = l.Conn.send(q)
	for i := 0; i < len(rows) && err == nil && r.err == nil; i++ {
		before := r.rows
		err = l.Conn.await(&r, i+1)
		have[i] = r.rows > before
	}
	if err == nil {
		err = l.Conn.finish(&r)
	}
	if err := l.end(ctx, what, err, &r); err != nil {
		return nil, err
	}
	return have, nil
}

// encode writes the messages of an Insert. The savepoint has a message of its
// own, so that it is set even if the server can't parse the others. The release
// is part of the last message.
func (l *loader) encode(e *encoder, b *engine.Batch, from, to int) error {
	l.buf, l.ends, e.err = l.buf[:0], l.ends[:0], nil
	if l.inserted {
		l.add(func(p []byte) []byte { return append(p, loadSavepoint...) })
	}
	for row := from; row < to; {
		first := row
		n := l.add(func(p []byte) []byte {
			p, row = e.appendInsert(p, b, row, to)
			if l.inserted && row == to {
				p = append(p, loadRelease...)
			}
			return p
		})
		if n > l.longest {
			return fmt.Errorf("rows %d to %d are a statement of %d bytes, more than PostgreSQL takes", first-from+1, row-from, n)
		}
	}
	return e.err
}

// add adds a message with a statement, and returns its length.
func (l *loader) add(statement func([]byte) []byte) int {
	var start int
	l.buf, start = beginMessage(l.buf, 'Q')
	l.buf = append(statement(l.buf), 0)
	endMessage(l.buf, start)
	l.ends = append(l.ends, len(l.buf))
	return len(l.buf) - start
}

// send sends the messages of encode. The savepoint goes together with the first
// statement; each further statement is sent after the one before has succeeded.
func (l *loader) send(r *reply) error {
	ends := l.ends
	if l.inserted {
		ends = ends[1:]
	}
	from := 0
	for i, end := range ends {
		if err := l.Conn.send(l.buf[from:end]); err != nil {
			return err
		}
		if i == 0 && l.inserted {
			if err := l.Conn.finish(r); err != nil {
				return err
			}
		}
		if err := l.Conn.finish(r); err != nil || r.err != nil {
			return err
		}
		from = end
	}
	return nil
}
