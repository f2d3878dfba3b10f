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
	db     *DB
	table  *engine.Table
	method engine.Method
	enc    encoder
	buf    []byte
	limit  int   // of a statement, in bytes
	small  int   // the constant smallBatch, except in benchmarks
	ends   []int // where each statement of a batch ends in buf
	upTo   []int // the first row after each statement's rows

	// for the prepared method
	stmts  map[int]driver.Stmt // by number of rows
	binder binder
	// for the load method
	source string
	load   string // the statement
	stream stream
}

// sources numbers the streams of all writers: the driver identifies them by name.
var sources atomic.Int64

// Writer implements engine.DB.
func (db *DB) Writer(ctx context.Context, t *engine.Table, m engine.Method) (engine.Writer, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	for _, c := range t.Columns {
		if c.Type == engine.Binary {
			return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("mysql: column %s of table %s: only loaders write bytes", c.Name, t.Name))
		}
	}
	w := &writer{db: db, table: t, method: m, enc: newEncoder(db.dialect, t), small: smallBatch}
	// Half of the server's limit leaves room for the row that exceeds it.
	w.limit = max(db.maxPacket/2, 1024)
	switch m {
	case engine.Single, engine.Multi, engine.Prepared:
	case engine.Load:
		w.source = fmt.Sprintf("rowmill-%d", sources.Add(1))
		w.load = w.enc.load(w.source)
		mysql.RegisterReaderHandler(w.source, func() io.Reader { return &w.stream })
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
	c, err := w.db.dial(ctx)
	if err != nil || !w.enc.ignore && w.method != engine.Load {
		return c, err
	}
	// Only warnings report rows that were skipped or values that were changed.
	if err = c.watch.Begin(ctx); err == nil {
		err = c.keepWarnings()
		w.enc.warnings = c.warnings
		if c.watch.End() {
			err = ctx.Err()
		}
	}
	if err != nil {
		return nil, errors.Join(err, unlessLost(c.Close()))
	}
	return c, nil
}

func (w *writer) Close() error {
	w.Drop()
	if w.source != "" {
		mysql.DeregisterReaderHandler(w.source)
	}
	return nil
}

func (w *writer) Write(ctx context.Context, b *engine.Batch) (engine.Ack, error) {
	if err := w.Enter(ctx); err != nil {
		return engine.Ack{}, about(ctx, "insert into", w.table, err)
	}
	ack, err := w.write(b)
	if err != nil {
		return ack, w.undo(ctx, err)
	}
	return ack, w.Leave(ctx, nil, true)
}

// smallBatch is the largest number of rows for which waiting for the answer costs
// the client at least as much CPU time as encoding the statement: see socket. The
// single method waits for each row, whatever the batch size.
const smallBatch = 20

func (w *writer) write(b *engine.Batch) (engine.Ack, error) {
	if b.Rows() <= w.small || w.method == engine.Single && w.small > 0 {
		if err := w.Conn.block(); err != nil {
			return engine.Ack{}, err
		}
	}
	switch {
	case b.Rows() == 0:
		return engine.Ack{}, nil
	case w.method == engine.Prepared:
		return w.writePrepared(b)
	case w.method == engine.Load:
		return w.writeLoad(b)
	}
	return w.writeText(b)
}

// undo rolls back a failed batch: it sends ROLLBACK if the server refused the
// batch, and drops a connection that is lost or was interrupted.
func (w *writer) undo(ctx context.Context, err error) error {
	var server *mysql.MySQLError
	refused := errors.As(err, &server) || errors.Is(err, mysql.ErrPktTooLarge)
	err = fmt.Errorf("insert into %s: %w", w.table.Name, classify(err))
	usable := refused && !errors.Is(err, engine.ErrConnectionLost) && w.Conn.Rollback() == nil
	return w.Leave(ctx, err, usable)
}

// writeText sends the batch as INSERT statements of text: one for each row, or as
// few as the server's limit for a statement's length allows.
func (w *writer) writeText(b *engine.Batch) (engine.Ack, error) {
	w.buf, w.ends, w.upTo = w.buf[:0], w.ends[:0], w.upTo[:0]
	rows := b.Rows()
	var head [packetHead]byte
	for i := 0; i < rows; {
		start := len(w.buf)
		w.buf = append(w.buf, head[:]...)
		w.buf = append(w.buf, w.enc.prefix...)
		w.buf = w.enc.appendRow(w.buf, b, i)
		end := min(rows, i+w.enc.rowLimit())
		for i++; i < end && w.method == engine.Multi && len(w.buf)-start < w.limit; i++ {
			w.buf = append(w.buf, ',')
			w.buf = w.enc.appendRow(w.buf, b, i)
		}
		w.ends, w.upTo = append(w.ends, len(w.buf)), append(w.upTo, i)
	}
	return w.inTransaction(w.upTo, func(i int) (int64, error) {
		from := 0
		if i > 0 {
			from = w.ends[i-1]
		}
		return w.Conn.send(w.buf[from:w.ends[i]])
	})
}

// inTransaction runs a batch's statements as one transaction and adds up the rows
// they affected. upTo has for each statement the first row after its own. A single
// statement commits by itself, unless it may have to be rolled back: see skipped.
func (w *writer) inTransaction(upTo []int, run func(i int) (affected int64, err error)) (engine.Ack, error) {
	rows := upTo[len(upTo)-1]
	transaction := len(upTo) > 1 || w.enc.ignore && rows > 1
	if transaction {
		if _, err := w.Conn.run(beginStatement); err != nil {
			return engine.Ack{}, err
		}
	}
	var ack engine.Ack
	from := 0
	for i, to := range upTo {
		affected, err := run(i)
		if err != nil {
			return engine.Ack{}, err
		}
		ack.Rows += affected
		if w.enc.ignore {
			skipped, err := w.skipped(to-from, affected)
			if err != nil {
				return engine.Ack{}, err
			}
			ack.Skipped += skipped
		}
		from = to
	}
	if transaction {
		if _, err := w.Conn.run(commitStatement); err != nil {
			return engine.Ack{}, err
		}
	}
	return ack, nil
}

// writePrepared sends the batch as bound values.
func (w *writer) writePrepared(b *engine.Batch) (engine.Ack, error) {
	rows := b.Rows()
	per := min(rows, w.enc.perStatement())
	w.upTo = w.upTo[:0]
	for row := 0; row < rows; {
		row = min(row+per, rows)
		w.upTo = append(w.upTo, row)
	}
	return w.inTransaction(w.upTo, func(i int) (int64, error) {
		from, to := i*per, w.upTo[i]
		stmt, err := w.statement(to - from)
		if err != nil {
			return 0, err
		}
		//lint:ignore SA1019 ExecContext copies all the values first
		res, err := stmt.Exec(w.binder.bind(b, from, to))
		if err != nil {
			return 0, err
		}
		return res.RowsAffected()
	})
}

// maxStatements is the number of prepared statements that a writer keeps, each for
// a number of rows: the usual number, the rest of a batch, and a few more.
const maxStatements = 4

func (w *writer) statement(rows int) (driver.Stmt, error) {
	return engine.Cached(w.stmts, maxStatements, rows, driver.Stmt.Close, func() (driver.Stmt, error) {
		return w.Conn.conn.Prepare(w.enc.placeholders(rows))
	})
}

// writeLoad streams the batch. LOAD DATA LOCAL implies IGNORE: the server skips
// invalid rows with a warning, and adjusts invalid values. So the batch is
// committed only if the server accepted every row without a warning.
func (w *writer) writeLoad(b *engine.Batch) (engine.Ack, error) {
	if _, err := w.Conn.run(beginStatement); err != nil {
		return engine.Ack{}, err
	}
	var ack engine.Ack
	for from := 0; from < b.Rows(); {
		to := from + min(b.Rows()-from, w.enc.rowLimit())
		if err := w.loadRows(b, from, to, &ack); err != nil {
			return engine.Ack{}, err
		}
		from = to
	}
	if _, err := w.Conn.run(commitStatement); err != nil {
		return engine.Ack{}, err
	}
	return ack, nil
}

// loadRows streams rows [from, to) of a batch and adds the result to ack.
func (w *writer) loadRows(b *engine.Batch, from, to int, ack *engine.Ack) error {
	w.stream = stream{enc: &w.enc, batch: b, row: from, to: to, buf: w.stream.buf[:0]}
	res, err := w.Conn.run(w.load)
	if errors.Is(classify(err), engine.ErrUnsupported) {
		return engine.Hinted(err, "SET GLOBAL local_infile = ON on the server, or another insert method")
	}
	if err != nil {
		return err
	}
	affected, err := res.RowsAffected()
	if err != nil {
		return err
	}
	ack.Rows += affected
	if w.enc.ignore {
		skipped, err := w.skipped(to-from, affected)
		ack.Skipped += skipped
		return err
	}
	warnings, err := w.Conn.listWarnings(warningsQuery)
	if err != nil {
		return err
	}
	if affected != int64(to-from) || len(warnings) > 0 {
		return refused("load data", affected, to-from, warnings)
	}
	return nil
}

// listWarnings returns warnings of the last statement.
func (c *conn) listWarnings(query string) ([]mysql.MySQLError, error) {
	rows, err := c.conn.(driver.QueryerContext).QueryContext(context.Background(), query, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []mysql.MySQLError
	values := make([]driver.Value, 3)
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		code, _ := values[1].(int64)
		text, _ := values[2].([]byte)
		out = append(out, mysql.MySQLError{Number: uint16(code), Message: string(text)})
	}
}

// refused is the error for rows that a server did not accept unchanged.
func refused(what string, took int64, sent int, warnings []mysql.MySQLError) error {
	err := fmt.Errorf("%s: the server took %d of %s", what, took, figure.Plural(sent, "row", "rows"))
	if len(warnings) == 0 {
		// Number 0 is not a server error number, but the type marks the connection
		// as usable.
		warnings = []mysql.MySQLError{{Message: "none"}}
	}
	// The warning's number determines the error's class.
	return fmt.Errorf("%w; its first warning: %w", err, &warnings[0])
}

// streamChunk is the number of bytes that a stream encodes ahead.
const streamChunk = 64 << 10

// A stream is a batch in the format of LOAD DATA, encoded as it is read.
type stream struct {
	enc   *encoder
	batch *engine.Batch
	row   int // the next row, and the first that is not sent
	to    int
	buf   []byte
	off   int
}

func (s *stream) Read(p []byte) (int, error) {
	if s.off == len(s.buf) {
		s.buf, s.off = s.buf[:0], 0
		for ; s.row < s.to && len(s.buf) < streamChunk; s.row++ {
			s.buf = s.enc.appendLine(s.buf, s.batch, s.row)
		}
		if len(s.buf) == 0 {
			return 0, io.EOF
		}
	}
	n := copy(p, s.buf[s.off:])
	s.off += n
	return n, nil
}

// INSERT IGNORE converts all errors of rows to warnings: a row whose key exists is
// skipped, as intended; but rows outside every partition are skipped, too, and
// invalid values are adjusted. The warnings distinguish these cases. So they are
// read if rows are missing, and always after a statement of several rows.

const (
	// mostWarnings is the largest number of warnings that a session can keep, and
	// so the largest number of rows in an INSERT IGNORE.
	mostWarnings    = 65535
	allWarnings     = "SET SESSION max_error_count = 65535"
	keptWarnings    = "SELECT @@SESSION.max_error_count"
	allWarningQuery = "SHOW WARNINGS"
	// duplicateKey is the warning of a skipped row.
	duplicateKey = 1062
)

// keepWarnings sets the number of warnings that the server keeps for the connection
// to the maximum. In newer MySQL, this needs a privilege: other accounts keep the
// server's value, 1024 by default, and send at most as many rows in a statement.
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

// skipped returns how many of the rows sent were skipped by the last statement
// because their keys exist. It fails if another reason can't be excluded; then the
// batch must be rolled back. A statement of a single row needs no rollback if the
// row was skipped.
func (w *writer) skipped(sent int, affected int64) (int64, error) {
	if sent == 1 && affected == 1 {
		return 0, nil
	}
	return w.Conn.skipped(sent, affected)
}

// skipped returns how many of the rows sent were skipped by the last statement because
// their keys exist. It fails if a row was skipped or changed for another reason.
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

// unexplained is the error for rows that no warning accounts for.
func (c *conn) unexplained(sent int, affected, duplicates int64) error {
	err := fmt.Errorf("insert ignore: the server took %d of %s and warned of %s", affected, figure.Plural(sent, "row", "rows"), figure.Plural(duplicates, "duplicate", "duplicates"))
	if duplicates == int64(c.warnings) {
		err = engine.Hinted(err, "smaller batches: the session keeps %d warnings", c.warnings)
	}
	// This is not a server error, but its type marks the connection as usable.
	return errors.Join(err, &mysql.MySQLError{Message: "duplicates that can't be counted"})
}
