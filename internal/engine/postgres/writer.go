package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// A writer inserts batches on one connection.
type writer struct {
	engine.Link[*wire]
	table  *engine.Table
	method engine.Method
	enc    encoder
	buf    []byte
	copy   string // the COPY statement of method load
	// stmts has the prepared statements of the connection, by their number of rows.
	stmts map[int]bool
}

func (db *server) Writer(ctx context.Context, t *engine.Table, m engine.Method) (engine.Writer, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	switch m {
	case engine.Single, engine.Multi, engine.Prepared, engine.Pipeline, engine.Load:
	default:
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("postgres: no insert method %q", m))
	}
	if t.Ignore && m == engine.Load {
		return nil, engine.Classed(engine.ErrUnsupported, errors.New("postgres: COPY can't skip rows whose key exists"))
	}
	w := &writer{table: t, method: m, enc: newEncoder(db.dialect, t)}
	w.copy = w.enc.copyStatement()
	w.Dial = func(ctx context.Context) (*wire, error) {
		w.stmts = map[int]bool{}
		return db.dialWire(ctx)
	}
	return w, w.Connect(ctx)
}

func (w *writer) Write(ctx context.Context, b *engine.Batch) (engine.Ack, error) {
	var r reply
	if err := w.Do(ctx, func() error { return classify(w.write(b, &r)) }); err != nil {
		return engine.Ack{}, engine.About(ctx, err, "insert into "+w.table.Name)
	}
	return r.ack(b.Rows(), w.table.Ignore), nil
}

func (w *writer) write(b *engine.Batch, r *reply) error {
	w.buf, w.enc.err = w.buf[:0], nil
	switch {
	case b.Rows() == 0:
		return nil
	case w.method == engine.Prepared:
		return w.writeBound(b, r, min(b.Rows(), w.enc.perStatement()))
	case w.method == engine.Pipeline:
		return w.writeBound(b, r, 1)
	case w.method == engine.Load:
		return w.Conn.copyRows(&w.buf, w.copy, &w.enc, func(dst []byte, row int) []byte {
			dst = binary.BigEndian.AppendUint16(dst, uint16(len(b.Columns)))
			return w.enc.appendBinary(dst, b, row)
		}, true, 0, b.Rows(), copyChunk, r)
	}
	return w.writeText(b, r)
}

// errUnsent marks the error of a value that can't be encoded, after which the connection can still
// be used: nothing of the statement was sent, or the server has confirmed that the statement is
// canceled.
var errUnsent = errors.New("not sent")

// writeText sends the batch as INSERT statements of text: one per row with the method Single,
// otherwise as few as the limit on a statement's length allows.
func (w *writer) writeText(b *engine.Batch, r *reply) error {
	transaction := false
	for row := 0; row < b.Rows(); {
		to := b.Rows()
		if w.method == engine.Single {
			to = row + 1
		}
		first := row == 0
		var err error
		if w.buf, row, err = w.enc.appendMessage(w.buf[:0], b, row, to); err != nil {
			return err
		}
		if first && row < b.Rows() {
			transaction = true
			if err := w.Conn.run(beginStatement); err != nil {
				return err
			}
		}
		if err := w.Conn.exchange(w.buf, r); err != nil {
			return err
		}
	}
	if transaction {
		return w.Conn.run(commitStatement)
	}
	return nil
}

// maxStatements is how many prepared statements a connection keeps, one per number of rows: for the
// usual number, for the last rows of a batch, and two more.
const maxStatements = 4

// window is how many bytes of a batch are sent before the replies to the previous window are read:
// the server stops reading while nobody reads its replies. If each row has at least 30 bytes, the
// replies to two windows, 21 bytes for each row, fit into any socket buffer.
const window = 64 << 10

// writeBound sends the batch as values bound to prepared statements. per is the number of rows of
// each statement; the last statement takes the rest. All up to the final Sync is one transaction,
// without BEGIN and COMMIT.
func (w *writer) writeBound(b *engine.Batch, r *reply, per int) error {
	var prepared [2]int // by this batch: at most the usual size and the last rows
	news := prepared[:0]
	sent, before := 0, 0 // statements sent, and those sent before the current window
	for row := 0; row < b.Rows(); {
		n := min(per, b.Rows()-row)
		if !w.stmts[n] && !(len(news) > 0 && news[len(news)-1] == n) {
			w.forgetStatement()
			w.buf = w.appendParse(w.buf, n)
			news = append(news, n)
		}
		w.buf = w.appendBind(w.buf, b, row, row+n)
		if w.enc.err != nil {
			return w.enc.err // the caller drops the connection, which undoes what was sent
		}
		row += n
		sent++
		if len(w.buf) < window || row == b.Rows() {
			continue
		}
		w.buf = append(w.buf, 'H', 0, 0, 0, 4) // Flush: send the pending replies
		if err := w.Conn.send(w.buf); err != nil {
			return err
		}
		w.buf = w.buf[:0]
		if err := w.Conn.await(r, before); err != nil {
			return err
		}
		if r.err != nil {
			break
		}
		before = sent
	}
	w.buf = append(w.buf, 'S', 0, 0, 0, 4) // Sync
	if err := w.Conn.exchange(w.buf, r); err != nil {
		return err
	}
	for _, n := range news {
		w.stmts[n] = true
	}
	return nil
}

// forgetStatement makes room for another prepared statement.
func (w *writer) forgetStatement() {
	if len(w.stmts) < maxStatements {
		return
	}
	for n := range w.stmts {
		w.buf = appendClose(w.buf, n)
		delete(w.stmts, n)
		return
	}
}

// appendStatementName appends the name of the prepared statement for n rows.
func appendStatementName(dst []byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, 'r'), int64(n), 10), 0)
}

func appendClose(dst []byte, n int) []byte {
	dst, start := beginMessage(dst, 'C')
	dst = appendStatementName(append(dst, 'S'), n)
	endMessage(dst, start)
	return dst
}

// appendParse prepares the statement for n rows. A failed batch may have left a statement of the
// same name, so it is closed first; to close a statement that does not exist is no error.
func (w *writer) appendParse(dst []byte, n int) []byte {
	dst = appendClose(dst, n)
	dst, start := beginMessage(dst, 'P')
	dst = appendStatementName(dst, n)
	dst = append(append(dst, w.enc.placeholders(n)...), 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(n*len(w.enc.columns)))
	for range n {
		for _, c := range w.enc.columns {
			dst = binary.BigEndian.AppendUint32(dst, oids[c.Type])
		}
	}
	endMessage(dst, start)
	return dst
}

// appendBind binds rows [from, to) and executes the statement.
func (w *writer) appendBind(dst []byte, b *engine.Batch, from, to int) []byte {
	dst, start := beginMessage(dst, 'B')
	dst = append(dst, 0) // the unnamed portal
	dst = appendStatementName(dst, to-from)
	dst = append(dst, 0, 1, 0, 1) // one format for all values: binary
	dst = binary.BigEndian.AppendUint16(dst, uint16((to-from)*len(w.enc.columns)))
	for row := from; row < to; row++ {
		dst = w.enc.appendBinary(dst, b, row)
	}
	dst = append(dst, 0, 0) // no results
	endMessage(dst, start)
	// Execute the unnamed portal, for all of its rows.
	return append(dst, 'E', 0, 0, 0, 9, 0, 0, 0, 0, 0)
}

// copyHeader begins a COPY stream in binary format: a signature, no flags, no extension.
const copyHeader = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// copyChunk is how much of a COPY stream goes into one message, in bytes.
const copyChunk = 64 << 10
