package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// Statements around the inserts.
const (
	beginStatement    = "BEGIN"
	commitStatement   = "COMMIT"
	rollbackStatement = "ROLLBACK"
	warningsQuery     = "SHOW WARNINGS LIMIT 5"
)

// A writer inserts batches on one connection.
type writer struct {
	engine.Link[*conn]
	db     *server
	table  *engine.Table
	method engine.Method
	enc    encoder
	buf    []byte // a statement of text
	limit  int    // of a statement, in bytes
	small  int    // the constant smallBatch, except in benchmarks

	// for the prepared method
	stmts  map[int]driver.Stmt // by number of rows
	binder binder
	source source // for the load method
}

// sources numbers the streams of all writers, because the driver identifies a stream by its name.
var sources atomic.Int64

func (db *server) Writer(ctx context.Context, t *engine.Table, m engine.Method) (engine.Writer, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	w := &writer{db: db, table: t, method: m, enc: newEncoder(db.dialect, t), small: smallBatch}
	// A longer row is sent alone, up to the server's limit.
	w.limit = max(db.maxPacket/2, 1024)
	switch m {
	case engine.Single, engine.Multi, engine.Prepared:
	case engine.Load:
		w.source.open()
	default:
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("mysql: no insert method %q", m))
	}
	w.Dial = w.dial
	if err := w.Connect(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *writer) dial(ctx context.Context) (*conn, error) {
	w.stmts = map[int]driver.Stmt{}
	return w.db.dialWith(ctx, inserting, func(c *conn) (err error) {
		// The server reports skipped rows and changed values only by warnings.
		if w.enc.ignore || w.method == engine.Load {
			err = c.keepWarnings()
			w.enc.warnings = c.warnings
		}
		return err
	})
}

func (w *writer) Close() error {
	w.Drop()
	w.source.close()
	return nil
}

func (w *writer) Write(ctx context.Context, b *engine.Batch) (engine.Ack, error) {
	var ack engine.Ack
	err := w.Do(ctx, func() (err error) {
		ack, err = w.write(b)
		return classify(err)
	})
	if err != nil {
		return engine.Ack{}, engine.About(ctx, err, "insert into "+w.table.Name)
	}
	return ack, nil
}

// smallBatch is the largest number of rows in a batch for which waiting for the answer costs at
// least as much CPU time as encoding the statement: see socket.
const smallBatch = 20

// write sends a batch as one transaction. A single statement commits by itself, unless the writer
// may have to roll it back: see check.
func (w *writer) write(b *engine.Batch) (engine.Ack, error) {
	var ack engine.Ack
	rows := b.Rows()
	if rows <= w.small || w.method == engine.Single && w.small > 0 {
		if err := w.Conn.block(); err != nil {
			return ack, err
		}
	}
	transaction := false
	for from := 0; from < rows; {
		to := w.encode(b, from)
		if from == 0 && (to < rows || w.method == engine.Load || w.enc.ignore && rows > 1) {
			transaction = true
			if err := w.Conn.runAll(beginStatement); err != nil {
				return ack, err
			}
		}
		affected, err := w.send(b, from, to)
		if err != nil {
			return ack, err
		}
		skipped, err := w.check(to-from, affected)
		if err != nil {
			return ack, err
		}
		ack.Rows += affected
		ack.Skipped += skipped
		from = to
	}
	if transaction {
		return ack, w.Conn.runAll(commitStatement)
	}
	return ack, nil
}

// encode returns the first row that doesn't belong to the statement beginning with the given row.
// If the method sends statements as text, encode also encodes the statement.
func (w *writer) encode(b *engine.Batch, row int) (next int) {
	to := b.Rows()
	switch w.method {
	case engine.Prepared:
		return min(row+w.enc.perStatement(), to)
	case engine.Load:
		return row + min(to-row, w.enc.rowLimit())
	case engine.Single:
		to = row + 1
	}
	w.buf, next = w.enc.appendInsert(append(w.buf[:0], emptyHead[:]...), b, row, to, w.limit)
	return next
}

// send sends the statement for rows [from, to).
func (w *writer) send(b *engine.Batch, from, to int) (affected int64, err error) {
	w.Conn.warned = -1 // the driver doesn't report the number
	var res driver.Result
	switch w.method {
	case engine.Prepared:
		res, err = w.sendPrepared(b, from, to)
	case engine.Load:
		affected, err = w.source.load(w.Conn, &w.enc, b, from, to)
		if errors.Is(classify(err), engine.ErrUnsupported) {
			err = engine.Hinted(err, "SET GLOBAL local_infile = ON on the server, or another insert method")
		}
		return affected, err
	default:
		return w.Conn.send(w.buf)
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// maxStatements is the number of prepared statements that a writer keeps. Each inserts a fixed
// number of rows. Most batches need two of them: for a full statement, and for the rest of the
// rows.
const maxStatements = 4

func (w *writer) sendPrepared(b *engine.Batch, from, to int) (driver.Result, error) {
	stmt, err := engine.Cached(w.stmts, maxStatements, to-from, driver.Stmt.Close, func() (driver.Stmt, error) {
		return w.Conn.conn.Prepare(w.enc.placeholders(to - from))
	})
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 ExecContext copies all the values first
	return stmt.Exec(w.binder.bind(b, from, to))
}

// check returns how many rows the last statement has skipped because their keys exist. It fails if
// the server has skipped or changed a row for another reason, such as an invalid value in LOAD DATA
// LOCAL, which implies IGNORE. After such a failure, the batch must be rolled back.
func (w *writer) check(sent int, affected int64) (skipped int64, err error) {
	switch {
	case w.enc.ignore && sent == 1 && affected == 1:
		return 0, nil // a generated row is valid, and asking for warnings would cost a round trip
	case w.enc.ignore:
		return w.Conn.skipped(sent, affected)
	case w.method != engine.Load:
		return 0, nil
	}
	return w.Conn.loaded(sent, affected, false)
}

// listWarnings returns warnings of the last statement.
func (c *conn) listWarnings(query string) ([]mysql.MySQLError, error) {
	rows, err := c.conn.(driver.QueryerContext).QueryContext(context.Background(), query, nil)
	if err != nil {
		return nil, err
	}
	var out []mysql.MySQLError
	err = engine.EachDriverRow(rows, func(values []driver.Value) error {
		code, _ := values[1].(int64)
		text, _ := values[2].([]byte)
		out = append(out, mysql.MySQLError{Number: uint16(code), Message: string(text)})
		return nil
	})
	return out, err
}

// refused is the error for rows that the server did not accept unchanged.
func refused(what string, took int64, sent int, warnings []mysql.MySQLError) error {
	err := fmt.Errorf("%s: the server took %d of %s", what, took, figure.Plural(sent, "row", "rows"))
	if len(warnings) == 0 {
		// The server has no error number 0, but the error's type marks the connection as usable.
		warnings = []mysql.MySQLError{{Message: "none"}}
	}
	// The warning's number determines the error's class.
	return fmt.Errorf("%w; its first warning: %w", err, &warnings[0])
}

// streamChunk is the number of bytes that a stream encodes before they are read.
const streamChunk = 64 << 10

// A stream is a batch in the format of LOAD DATA. It encodes rows when they are read.
type stream struct {
	enc   *encoder
	batch *engine.Batch
	row   int // the next row, and the first that is not sent
	to    int
	buf   []byte
	off   int
	sent  int // bytes
}

func (s *stream) Read(p []byte) (int, error) {
	if s.off == len(s.buf) {
		s.buf, s.off = s.fill(s.buf[:0]), 0
		if len(s.buf) == 0 {
			return 0, io.EOF
		}
	}
	n := copy(p, s.buf[s.off:])
	s.off += n
	return n, nil
}

// fill appends the next rows to dst. After the last row it appends nothing.
func (s *stream) fill(dst []byte) []byte {
	from := len(dst)
	for ; s.row < s.to && len(dst)-from < streamChunk; s.row++ {
		dst = s.enc.appendLine(dst, s.batch, s.row)
	}
	s.sent += len(dst) - from
	return dst
}

// INSERT IGNORE also skips rows outside every partition, and adjusts invalid values, with warnings.
// The warnings are read if rows are missing, and always after a statement with several rows.

const (
	// mostWarnings is the largest number of warnings that a session can keep. So it is also the
	// largest number of rows in an INSERT IGNORE.
	mostWarnings    = 65535
	allWarnings     = "SET SESSION max_error_count = 65535"
	keptWarnings    = "SELECT @@SESSION.max_error_count"
	allWarningQuery = "SHOW WARNINGS"
	// duplicateKey is the warning of a skipped row.
	duplicateKey = 1062
)

// keepWarnings makes the server keep as many warnings as it can. In newer MySQL, an account needs a
// privilege to raise the default of 1024. With ignore, a statement has at most as many rows as the
// server keeps warnings.
func (c *conn) keepWarnings() error {
	_, err := c.run(allWarnings)
	if err == nil {
		c.warnings = mostWarnings
		return nil
	}
	if !refusedSetting(err) {
		return err
	}
	kept, err := c.number(keptWarnings)
	if err != nil {
		return err
	}
	if kept == 0 {
		return engine.Hinted(engine.Classed(engine.ErrUnsupported, errors.New("the server keeps no warnings, which tell why a row was left out")),
			"SET PERSIST max_error_count = 1024, or GRANT SESSION_VARIABLES_ADMIN ON *.* TO the target's user")
	}
	c.warnings = int(kept)
	return nil
}

// rowLimit returns the largest number of rows in a statement.
func (e *encoder) rowLimit() int {
	if e.ignore {
		return e.warnings
	}
	return math.MaxInt
}

// skipped does the work of check for an INSERT IGNORE.
func (c *conn) skipped(sent int, affected int64) (int64, error) {
	missing := int64(sent) - affected
	if missing == 0 && c.warned == 0 {
		return 0, nil
	}
	warnings, err := c.listWarnings(allWarningQuery)
	if err != nil {
		return 0, err
	}
	duplicates := int64(0)
	for i := range warnings {
		if warnings[i].Number != duplicateKey {
			// The first warning determines the error's class.
			return 0, refused("insert ignore", affected, sent, warnings[i:])
		}
		duplicates++
	}
	if duplicates != missing {
		return 0, c.unexplained(sent, affected, duplicates)
	}
	return missing, nil
}

// unexplained is the error for missing rows about which the server has not warned.
func (c *conn) unexplained(sent int, affected, duplicates int64) error {
	err := fmt.Errorf("insert ignore: the server took %d of %s and warned of %s", affected, figure.Plural(sent, "row", "rows"), figure.Plural(duplicates, "duplicate", "duplicates"))
	if duplicates == int64(c.warnings) {
		err = engine.Hinted(err, "smaller batches: the session keeps %d warnings", c.warnings)
	}
	// It isn't a server's error, but its type marks the connection as usable.
	return errors.Join(err, &mysql.MySQLError{Message: "duplicates that can't be counted"})
}
