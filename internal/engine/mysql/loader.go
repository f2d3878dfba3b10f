package mysql

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// A loader inserts rows of several tables in one transaction, with text statements and LOAD DATA.
//
// A savepoint before each Insert makes it possible to roll back that Insert alone. It is omitted if
// the transaction is still empty, or if the Insert is one statement without IGNORE, which the
// server rolls back by itself. MyRocks can't roll back to a savepoint: there, the loader records
// the statements, and sends them again without the refused Insert.
type loader struct {
	engine.Link[*conn]
	db       *server
	limit    int // of a statement, in bytes
	warnings int // the number of warnings that the server keeps per statement
	encoders map[*engine.Table]*encoder
	buf      []byte
	undo     []string // the statements that undo the current Insert
	journal  journal
	source   source
	noLoad   bool // the server refuses LOAD DATA LOCAL
}

const (
	// loadRows is the number of rows from which LOAD DATA is faster than a statement, although it
	// needs two more round trips.
	loadRows = 200
	// loaderWait is how long, in seconds, a loader waits for a row lock or a table lock. A change of a
	// table's periods, or another loader's transaction, finishes within that time.
	loaderWait = 10
	// mostEncoders limits the cached encoders: each change of a declaration makes new tables.
	mostEncoders = 256

	savepoint = "SAVEPOINT rowmill"

	// errInterrupted is the error of a statement that was killed. The loader treats
	// it like a deadlock: the transaction can be retried.
	errInterrupted = 1317
)

// Statements that undo an Insert. restart leaves an empty transaction.
var (
	toSavepoint = []string{"ROLLBACK TO SAVEPOINT rowmill"}
	restart     = []string{rollbackStatement, beginStatement}
)

func (db *server) Loader(ctx context.Context) (engine.Loader, error) {
	l := &loader{db: db, encoders: map[*engine.Table]*encoder{}, journal: journal{on: db.dialect.rocksdb()}}
	l.Dial = l.dial
	if err := l.Connect(ctx); err != nil {
		return nil, err
	}
	l.source.open()
	return engine.NewLoader(db, l), nil
}

func (l *loader) Close() error {
	l.source.close()
	return l.Link.Close()
}

func (l *loader) dial(ctx context.Context) (*conn, error) {
	return l.db.dialWith(ctx, loading, func(c *conn) error {
		if err := c.keepWarnings(); err != nil {
			return err
		}
		l.warnings = c.warnings
		// The server's limit may have changed since the DB was opened.
		packet, err := c.number("SELECT @@max_allowed_packet")
		c.largest = min(int(packet), mysqlwire.MaxPayload-1)
		// A larger row is sent alone, up to the server's limit.
		l.limit = max(min(int(packet)/2, c.largest), 1024)
		return err
	})
}

func (l *loader) Leave(ctx context.Context, err error) error {
	if serverError(err, errInterrupted) { // KILL QUERY, or a server shutdown
		err = engine.Classed(engine.ErrDeadlock, err)
	}
	return l.Fail(ctx, err)
}

func (l *loader) Begin(context.Context) error {
	l.journal = journal{on: l.journal.on, buf: l.journal.buf[:0], sent: l.journal.sent[:0]}
	return l.Conn.runAll(beginStatement)
}

func (l *loader) Commit(context.Context) error { return l.Conn.runAll(commitStatement) }

func (l *loader) encoder(t *engine.Table) *encoder {
	e, _ := engine.Cached(l.encoders, mostEncoders, t, nil, func() (*encoder, error) {
		// A server-assigned key is omitted: in a loader's session, a literal 0 would be stored.
		without := *t
		without.Columns, without.ServerKey = t.Inserted(), ""
		e := newEncoder(l.db.dialect, &without)
		return &e, nil
	})
	e.warnings = cmp.Or(l.warnings, mostWarnings)
	return e
}

// Has implements engine.LoaderConn with one statement, whose result has one bit per row.
func (l *loader) Has(_ context.Context, rows []engine.Rows) ([]bool, error) {
	q := []byte("SELECT 0")
	for i, r := range rows {
		e := l.encoder(r.Table)
		q = fmt.Appendf(q, " + %d * EXISTS (SELECT 1 FROM %s WHERE (%s) = ", 1<<i, e.table, e.names)
		q = append(e.appendRow(q, r.Batch, 0), ')')
	}
	bits, err := l.Conn.number(string(q))
	has := make([]bool, len(rows))
	for i := range has {
		has[i] = bits>>i&1 != 0
	}
	return has, err
}

// Insert implements engine.LoaderConn. It uses LOAD DATA if there are many rows and the server
// refuses none of them. Otherwise it uses as few statements as possible.
func (l *loader) Insert(_ context.Context, t *engine.Table, b *engine.Batch, from, to int, more bool) (engine.Ack, error) {
	e := l.encoder(t)
	l.undo, l.journal.marked = nil, len(l.journal.sent)
	ack, done, err := l.load(e, t, b, from, to, more)
	if err == nil && !done {
		ack, err = l.insert(e, b, from, to, more)
	}
	if err == nil && ack.Skipped > 0 && e.update != nil {
		err = l.update(e.update, b, from, to, &ack)
	}
	return ack, err
}

// savepoint makes it possible to undo the current Insert.
func (l *loader) savepoint(more bool) error {
	if l.undo = restart; !more || l.journal.on {
		return nil
	}
	l.undo = toSavepoint
	return l.Conn.runAll(savepoint)
}

// load inserts rows by LOAD DATA. If done is false, none of the rows is in the transaction, and
// they must be sent as statements: they are few, their types don't allow LOAD DATA, or the server
// didn't accept all of them unchanged. In the last case, the statements will report what is wrong.
// While the journal is on, load doesn't try, because the journal can't record a LOAD DATA.
func (l *loader) load(e *encoder, t *engine.Table, b *engine.Batch, from, to int, more bool) (ack engine.Ack, done bool, err error) {
	if to-from < l.db.loadRows || l.noLoad || l.journal.on {
		return ack, false, nil
	}
	if e.loadable == nil {
		loadable, err := l.Conn.loadable(t.Name, t.Inserted())
		if err != nil {
			return ack, false, err
		}
		e.loadable = &loadable
	}
	if !e.loadable.fits(b, from, to) {
		return ack, false, nil
	}
	if err := l.savepoint(more); err != nil {
		return ack, false, err
	}
	for row := from; row < to && err == nil; {
		next := row + min(to-row, e.rowLimit())
		var affected, skipped int64
		if affected, err = l.source.load(l.Conn, e, b, row, next); err == nil {
			skipped, err = l.Conn.loaded(next-row, affected, e.ignore)
		}
		ack.Rows += affected
		ack.Skipped += skipped
		row = next
	}
	if err == nil {
		return ack, true, nil
	}
	class := classify(err)
	l.noLoad = errors.Is(class, engine.ErrUnsupported)
	if !l.noLoad && !errors.Is(class, engine.ErrRefused) {
		return engine.Ack{}, false, err
	}
	return engine.Ack{}, false, l.Undo()
}

// insert inserts rows by statements.
func (l *loader) insert(e *encoder, b *engine.Batch, from, to int, more bool) (ack engine.Ack, err error) {
	for row := from; row < to; {
		next := l.encode(e, b, row, to)
		if row == from && (next < to || e.ignore) {
			if err := l.savepoint(more); err != nil {
				return ack, err
			}
		}
		affected, err := l.Conn.send(l.buf)
		if err != nil {
			return ack, err
		}
		if e.ignore {
			skipped, err := l.Conn.skipped(next-row, affected)
			if err != nil {
				return ack, err
			}
			ack.Skipped += skipped
		}
		ack.Rows += affected
		l.journal.add(l.buf, affected)
		row = next
	}
	return ack, nil
}

// update is called after an Insert that has skipped rows because their key exists. It sends all
// rows of the Insert again, with an update of existing rows. The inserted rows have these values
// already, so that only the skipped rows change. The server counts each changed row as two affected
// rows.
func (l *loader) update(e *encoder, b *engine.Batch, from, to int, ack *engine.Ack) error {
	for row := from; row < to; {
		row = l.encode(e, b, row, to)
		affected, err := l.Conn.send(l.buf)
		if err != nil {
			return err
		}
		ack.Updated += affected / 2
		l.journal.add(l.buf, affected)
	}
	ack.Skipped -= ack.Updated
	return nil
}

func (l *loader) Undo() error {
	l.journal.sent = l.journal.sent[:l.journal.marked]
	l.journal.buf = l.journal.buf[:l.journal.end()]
	err := l.Conn.runAll(l.undo...)
	if err == nil && l.undo != nil {
		err = l.repeat()
	}
	return err
}

// encode encodes one statement with rows of b: the given row and the rows after it, but not row to
// or later ones, as far as the size limit allows. It returns the first row that isn't in the
// statement.
func (l *loader) encode(e *encoder, b *engine.Batch, row, to int) (next int) {
	l.buf, next = e.appendInsert(append(l.buf[:0], emptyHead[:]...), b, row, to, l.limit-packetHead)
	return next
}

// A journal records the statements of a transaction, so that they can be sent again.
type journal struct {
	on     bool
	buf    []byte
	sent   []statementSent
	marked int // the number of statements before the current Insert
}

type statementSent struct {
	end      int // in buf
	affected int64
}

func (j *journal) end() int {
	if len(j.sent) == 0 {
		return 0
	}
	return j.sent[len(j.sent)-1].end
}

func (j *journal) add(statement []byte, affected int64) {
	if j.on {
		j.buf = append(j.buf, statement...)
		j.sent = append(j.sent, statementSent{len(j.buf), affected})
	}
}

// repeat sends the recorded statements again. If one of them now affects a different number of
// rows, because other transactions have inserted or deleted the same keys, the transaction fails as
// a deadlock.
func (l *loader) repeat() error {
	from := 0
	for _, s := range l.journal.sent {
		affected, err := l.Conn.send(l.journal.buf[from:s.end])
		if err == nil && affected != s.affected || errors.Is(classify(err), engine.ErrRefused) {
			return engine.Classed(engine.ErrDeadlock, errors.Join(errors.New("another transaction has inserted the same keys"),
				&mysql.MySQLError{Message: "the transaction was rolled back"}))
		}
		if err != nil {
			return err
		}
		from = s.end
	}
	return nil
}
