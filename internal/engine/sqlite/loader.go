package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A loader inserts rows of several tables in one transaction.
//
// All writers take turns on the DB's connection. A transaction holds the turn
// from Begin until Commit, Reset, Close, or an error that ends it. Until then the
// caller must not wait for another operation that writes through the same DB,
// such as a Writer, Try, or another loader: that would be a deadlock. Begin waits
// for a limited time, a Writer until its context ends.
//
// Each Insert except the first of a transaction has a savepoint. SQLite copies
// every page at its first change after the savepoint, so that rows take up to
// twice as long with three secondary indexes.
//
// Rows of a rolling table are inserted into the tables of their periods, which
// runs the triggers of those tables. The loader makes the checks of the view's
// triggers itself: the type of column By, and that a period exists.
type loader struct {
	db     *DB
	tables map[*engine.Table]*destination
	schema int64 // PRAGMA schema_version of the tables, -1 before the first
	buf    []byte

	open     bool      // a transaction is open and holds the turn
	began    time.Time // when the transaction acquired the file's lock
	inserted bool      // the transaction has inserted rows
	closed   bool
}

const (
	savepointStatement = "SAVEPOINT rowmill"
	releaseStatement   = "RELEASE rowmill"
	backStatement      = "ROLLBACK TO rowmill"

	// bytesPerCall limits the data of a call, in bytes; rowsPerCall limits its rows.
	bytesPerCall = 1 << 20
	// mostStatements limits the prepared statements of one table: one of some
	// 10 KB for each period with inserted rows.
	mostStatements = 64
	// mostTables limits the number of cached destinations.
	mostTables = 100
)

// Loader implements engine.Keeper.
func (db *DB) Loader(ctx context.Context) (engine.Loader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &loader{db: db, tables: map[*engine.Table]*destination{}, schema: -1}, nil
}

// Begin implements engine.Loader. It first waits for the end of a gap (see
// pace.go), then up to busyTimeout for the turn, and then, as any statement, for a
// lock of another process. The end of ctx interrupts all waits except the last.
func (l *loader) Begin(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("begin a transaction: %w", classify(err))
	}
	return nil
}

func (l *loader) begin(ctx context.Context) error {
	switch {
	case l.closed:
		return errors.New("the loader is closed")
	case l.open:
		return errors.New("one is open already")
	}
	bounded, cancel := context.WithTimeout(ctx, busyTimeout*time.Millisecond)
	defer cancel()
	if err := l.db.loads.wait(ctx); err != nil {
		return err
	}
	if err := l.db.lock(bounded); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = engine.Classed(engine.ErrLockTimeout, fmt.Errorf("%s: another transaction of this process is open", l.db.path))
		}
		return err
	}
	l.open, l.inserted = true, false
	if err := l.start(); err != nil {
		return errors.Join(err, l.end())
	}
	return nil
}

// start begins a transaction. The caller holds the turn.
func (l *loader) start() error {
	if err := l.db.run(beginStatement); err != nil {
		return err
	}
	if l.began.IsZero() {
		l.began = time.Now()
	}
	version, err := queryInt(l.db.write, "PRAGMA schema_version")
	if err == nil && version != l.schema {
		l.forget() // this or another process may have created or dropped periods
		l.schema = version
	}
	return err
}

// end rolls back the open transaction, if any, and releases the turn.
func (l *loader) end() error {
	if !l.open {
		return nil
	}
	l.open, l.inserted = false, false
	defer l.db.unlock()
	err := l.db.rollback()
	if !l.began.IsZero() {
		l.db.loads.loaded(l.began)
		l.began = time.Time{}
	}
	return err
}

func (l *loader) Commit(ctx context.Context) error {
	if !l.open {
		return fmt.Errorf("commit: %w", errNoTransaction)
	}
	err := ctx.Err()
	if err == nil {
		if err = l.db.run(commitStatement); err != nil {
			err = fmt.Errorf("commit: %w", classify(err))
		}
	}
	return errors.Join(err, l.end())
}

var errNoTransaction = errors.New("no transaction is open")

func (l *loader) Reset(context.Context) error { return l.end() }

// Close implements engine.Loader. It needs no turn, because SQLite locks the
// connection while it frees a statement.
func (l *loader) Close() error {
	l.closed = true
	l.forget()
	return l.end()
}

// forget closes the prepared statements and forgets the periods.
func (l *loader) forget() {
	for _, d := range l.tables {
		d.forget()
	}
	clear(l.tables)
}

// A destination is a table into which rows are inserted, with its periods.
type destination struct {
	db    *DB
	table engine.Table // with the columns of batches
	// For a rolling table: the index of column By in a batch, the value of one
	// unit of it in units of a position (0 for times), the periods, and the names
	// of their tables.
	by     int
	unit   int64
	parts  []rolling.Partition
	stores []string

	columns int
	stmts   map[string]stmt // by the name of the table
}

func (d *destination) forget() {
	for _, s := range d.stmts {
		s.close()
	}
	clear(d.stmts)
}

// destination returns the destination for a table, within a transaction.
func (l *loader) destination(t *engine.Table) (*destination, error) {
	if d := l.tables[t]; d != nil {
		return d, nil
	}
	d := &destination{db: l.db, table: *t, by: -1, stmts: map[string]stmt{}}
	d.table.Columns, d.table.ServerKey = t.Inserted(), ""
	if t.Rolling() {
		d.unit = epochOf(t)
		d.by = slices.IndexFunc(d.table.Columns, func(c engine.Column) bool { return strings.EqualFold(c.Name, t.By) })
		if d.by < 0 {
			return nil, fmt.Errorf("the rows have no column %s, by which the table rolls", t.By)
		}
		var err error
		if d.parts, err = periods(l.db.write, t); err != nil {
			return nil, err
		}
		if len(d.parts) == 0 {
			return nil, engine.Classed(engine.ErrNoTable, errors.New("no such table, or it has no periods"))
		}
		for _, p := range d.parts {
			d.stores = append(d.stores, store(t, p))
		}
	}
	if len(l.tables) >= mostTables {
		l.forget()
	}
	l.tables[t] = d
	return d, nil
}

// fits returns an error if the vector of column By has the wrong type. Text other
// than a time in the format of the bounds would be stored in a period in which no
// query searches for it.
func (d *destination) fits(b *engine.Batch) error {
	if !d.table.Rolling() {
		return nil
	}
	kind := b.Columns[d.by].Type
	switch {
	case d.unit == 0 && kind != engine.Time:
		return fmt.Errorf("the table rolls by times in %s, and the rows have none", d.table.By)
	case d.unit > 0 && kind != engine.Int32 && kind != engine.Int64:
		return fmt.Errorf("the table rolls by integers in %s, and the rows have none", d.table.By)
	}
	return nil
}

// position returns the position of row i, or false if it has none.
func (d *destination) position(b *engine.Batch, i int) (pos int64, ok bool) {
	v := &b.Columns[d.by]
	if v.Null(i) {
		return 0, false
	}
	if d.unit <= 1 {
		return v.Ints[i], true
	}
	n := v.Ints[i]
	if high, low := bits.Mul64(uint64(max(n, -n)), uint64(d.unit)); high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	return n * d.unit, true
}

// route returns the table for row from, and the end of the run of rows for the
// same table.
func (d *destination) route(b *engine.Batch, from, to int) (string, int, error) {
	if !d.table.Rolling() {
		return d.table.Name, to, nil
	}
	pos, ok := d.position(b, from)
	i := -1
	if ok {
		i = rolling.Find(d.parts, pos)
	}
	if i < 0 {
		value := "NULL"
		if v := &b.Columns[d.by]; !v.Null(from) {
			value = string(v.AppendText(nil, from))
		}
		return "", 0, engine.Classed(engine.ErrNoPartition, engine.Classed(engine.ErrRefused,
			fmt.Errorf("row outside every period: %s = %s", d.table.By, value)))
	}
	end := from + 1
	for ; end < to; end++ {
		if pos, ok = d.position(b, end); !ok || !d.parts[i].Contains(pos) {
			break
		}
	}
	return d.stores[i], end, nil
}

// statement returns the INSERT of one row into a table.
func (d *destination) statement(name string) (stmt, error) {
	drop := func(s stmt) error { s.close(); return nil }
	return engine.Cached(d.stmts, mostStatements, name, drop, func() (stmt, error) {
		e := newEncoder(dialect{}, &d.table, name)
		d.columns = e.columns
		return d.db.handle.prepare(e.placeholders(1))
	})
}

func (l *loader) Insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int) (engine.Ack, error) {
	if !l.open {
		return engine.Ack{}, fmt.Errorf("insert into %s: %w", t.Name, errNoTransaction)
	}
	n, err := l.insert(ctx, t, b, from, to)
	if err == nil {
		ack := engine.Ack{Rows: n}
		if t.Ignore {
			ack.Skipped = int64(to-from) - n
		}
		return ack, nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	} else {
		err = fmt.Errorf("insert into %s: %w", t.Name, classify(err))
	}
	if !errors.Is(err, engine.ErrRefused) {
		return engine.Ack{}, errors.Join(err, l.end())
	}
	if failed := l.back(); failed != nil {
		return engine.Ack{}, errors.Join(fmt.Errorf("%w, of rows that were refused: %v", failed, err), l.end())
	}
	return engine.Ack{}, err
}

// Has implements engine.Loader. It uses the connection that inserts: without a WAL,
// other connections would wait for that connection.
func (l *loader) Has(ctx context.Context, rows ...engine.Rows) ([]bool, error) {
	const what = "look for rows"
	if !l.open {
		return nil, fmt.Errorf("%s: %w", what, errNoTransaction)
	}
	err := errors.Join(ctx.Err(), engine.CheckHas(rows))
	have := make([]bool, len(rows))
	for i := 0; i < len(rows) && err == nil; i++ {
		have[i], err = l.has(rows[i])
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", what, classify(err)), l.end())
	}
	return have, nil
}

func (l *loader) has(r engine.Rows) (bool, error) {
	var names []string
	var args []driver.Value
	for i, c := range r.Table.Inserted() {
		names = append(names, dialect{}.Quote(c.Name)+" = ?")
		switch v := &r.Batch.Columns[i]; {
		case v.Null(0):
			args = append(args, nil)
		case v.Type == engine.Int32 || v.Type == engine.Int64:
			args = append(args, v.Ints[0])
		case v.Type == engine.Float32 || v.Type == engine.Float64:
			args = append(args, v.Floats[0])
		case v.Type == engine.Time:
			args = append(args, string(value.AppendTime(nil, v.Ints[0])))
		case v.Type == engine.Binary:
			args = append(args, v.Value(0))
		default:
			args = append(args, string(v.Value(0)))
		}
	}
	q := "SELECT 1 FROM " + dialect{}.Quote(r.Table.Name) + " WHERE " + strings.Join(names, " AND ") + " LIMIT 1"
	return has(l.db.write, q, args...)
}

// back rolls back to the savepoint, or, without one, rolls back the transaction
// and begins a new one. Other processes may write between the two.
func (l *loader) back() error {
	if !l.inserted {
		if err := l.db.rollback(); err != nil {
			return err
		}
		return classify(l.start())
	}
	if l.db.write.AutoCommit() { // ON CONFLICT ROLLBACK, or a trigger with RAISE(ROLLBACK)
		return errors.New("the table rolled the whole transaction back")
	}
	if err := l.db.run(backStatement); err != nil {
		return classify(err)
	}
	return classify(l.db.run(releaseStatement))
}

// insert returns how many rows were inserted.
func (l *loader) insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int) (int64, error) {
	if err := errors.Join(ctx.Err(), engine.CheckRows(t, b, from, to)); err != nil || from == to {
		return 0, err
	}
	d, err := l.destination(t)
	if err != nil {
		return 0, err
	}
	if err := d.fits(b); err != nil {
		return 0, err
	}
	delete(l.db.nextKey, t.Name) // set by a writer; these rows may change it
	if l.inserted {
		if err := l.db.run(savepointStatement); err != nil {
			return 0, err
		}
	}
	var n int64
	for from < to {
		name, end, err := d.route(b, from, to)
		if err != nil {
			return 0, err
		}
		done, err := l.rows(ctx, d, name, b, from, end)
		if err != nil {
			return 0, err
		}
		n += done
		from = end
	}
	if l.inserted {
		if err := l.db.run(releaseStatement); err != nil {
			return 0, err
		}
	}
	l.inserted = true
	return n, nil
}

// rows inserts rows [from, to) into one table.
func (l *loader) rows(ctx context.Context, d *destination, name string, b *engine.Batch, from, to int) (n int64, err error) {
	s, err := d.statement(name)
	if err != nil {
		return 0, err
	}
	e := encoder{columns: d.columns}
	for from < to {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		times := 0
		l.buf = l.buf[:0]
		for from < to && times < rowsPerCall && len(l.buf) < bytesPerCall {
			l.buf = e.appendBound(l.buf, b, from, 0)
			from++
			times++
		}
		done, err := s.insert(l.buf, d.columns, times)
		if err != nil {
			return 0, err
		}
		n += done
	}
	return n, nil
}
