package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// rowsPerStatement is the number of rows of a prepared INSERT. SQLite allows 32766
// values, but more rows are not faster.
const rowsPerStatement = 1

// rowsPerCall is the number of rows for one call of SQLite. A canceled context is
// noticed between two calls.
const rowsPerCall = 256

// A writer inserts batches. All writers of a DB share its write connection.
type writer struct {
	db     *DB
	table  *engine.Table
	method engine.Method
	per    int // rows of a prepared statement
	by     int // index of column By in a batch, or -1
	name   string
	rows   *rows // for the table called name
	parts  []rolling.Partition
	stores []string // the names of the tables of parts
	epoch  int64
	buf    []byte
}

// rows has the statements for the table of one period or a plain table.
type rows struct {
	enc   encoder
	stmts map[int]stmt // by number of rows
}

// Writer implements engine.DB.
func (db *DB) Writer(ctx context.Context, t *engine.Table, m engine.Method) (engine.Writer, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if !slices.Contains(db.Capabilities().Methods, m) {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("sqlite: no insert method %q; it has %v", m, db.Capabilities().Methods))
	}
	w := &writer{db: db, table: t, method: m, per: max(1, min(rowsPerStatement, 32766/len(t.Columns))), epoch: -1}
	w.by = slices.IndexFunc(t.Inserted(), func(c engine.Column) bool { return c.Name == t.By })
	if err := db.lock(ctx); err != nil {
		return nil, err
	}
	defer db.unlock()
	return w, w.refresh(ctx)
}

// refresh reads the periods again if the schema has changed.
func (w *writer) refresh(ctx context.Context) error {
	if w.epoch == w.db.epoch {
		return nil
	}
	w.forget()
	if w.table.Rolling() {
		parts, err := w.db.Catalog().Partitions(ctx, w.table)
		if err != nil {
			return err
		}
		w.parts, w.stores = parts, w.stores[:0]
		for _, p := range parts {
			w.stores = append(w.stores, store(w.table, p))
		}
	}
	w.epoch = w.db.epoch
	return nil
}

// forget closes the prepared statements.
func (w *writer) forget() {
	if w.rows != nil {
		for _, s := range w.rows.stmts {
			s.close()
		}
	}
	w.name, w.rows = "", nil
}

func (w *writer) Reset(ctx context.Context) error {
	if err := w.db.lock(ctx); err != nil {
		return err
	}
	defer w.db.unlock()
	w.epoch = -1
	return errors.Join(w.db.rollback(), w.refresh(ctx))
}

func (w *writer) Close() error {
	w.db.turn <- struct{}{} // unlike lock, works after the DB was closed
	defer w.db.unlock()
	w.forget()
	return nil
}

func (w *writer) Write(ctx context.Context, b *engine.Batch) (engine.Ack, error) {
	if err := w.db.lock(ctx); err != nil {
		return engine.Ack{}, err
	}
	defer w.db.unlock()
	if err := w.refresh(ctx); err != nil {
		return engine.Ack{}, err
	}
	before := w.db.handle.totalChanges()
	if err := w.write(ctx, b); err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("insert into %s: %w", w.table.Name, classify(err))
		}
		delete(w.db.nextKey, w.table.Name)
		return engine.Ack{}, errors.Join(err, w.db.rollback())
	}
	ack := engine.Ack{Rows: int64(b.Rows())}
	if w.table.Ignore {
		ack.Rows = int64(w.db.handle.totalChanges() - before)
		ack.Skipped = int64(b.Rows()) - ack.Rows
	}
	return ack, nil
}

func (w *writer) write(ctx context.Context, b *engine.Batch) error {
	if b.Rows() == 0 {
		return nil
	}
	key, err := w.key()
	if err != nil {
		return err
	}
	one := w.oneStatement(b.Rows()) // a single statement needs no BEGIN
	if !one {
		if err := w.db.run(beginStatement); err != nil {
			return err
		}
	}
	for from := 0; from < b.Rows(); {
		name, to, err := w.route(b, from, key)
		if err != nil {
			return err
		}
		if err := w.insert(ctx, name, b, from, to, key+int64(from)); err != nil {
			return err
		}
		from = to
	}
	if !one {
		if err := w.db.run(commitStatement); err != nil {
			return err
		}
	}
	if w.table.ServerKey != "" {
		w.db.nextKey[w.table.Name] = key + int64(b.Rows())
	}
	return nil
}

// oneStatement reports whether a batch of n rows is always one statement,
// regardless of the periods of its rows.
func (w *writer) oneStatement(n int) bool {
	switch {
	case n == 1:
		return true
	case w.table.Rolling():
		return false
	case w.method == engine.Multi:
		return n <= rowsPerText
	}
	return w.method == engine.Prepared && n <= w.per
}

// route returns the table for row from, and the end of the run of rows for the
// same table.
func (w *writer) route(b *engine.Batch, from int, key int64) (string, int, error) {
	if !w.table.Rolling() {
		return w.table.Name, b.Rows(), nil
	}
	position := func(i int) int64 {
		if w.by < 0 { // the key that the engine assigns
			return key + int64(i)
		}
		return b.Columns[w.by].Ints[i] * max(epochOf(w.table), 1)
	}
	i := rolling.Find(w.parts, position(from))
	if i < 0 {
		return "", 0, engine.Classed(engine.ErrNoPartition, fmt.Errorf("row outside every period: %s = %s",
			w.table.By, w.table.Grid.Format(position(from))))
	}
	to := from + 1
	for to < b.Rows() && w.parts[i].Contains(position(to)) {
		to++
	}
	return w.stores[i], to, nil
}

func (w *writer) insert(ctx context.Context, name string, b *engine.Batch, from, to int, key int64) error {
	if w.rows == nil || w.name != name {
		w.forget() // statements of older periods would accumulate
		w.name, w.rows = name, &rows{enc: newEncoder(dialect{}, w.table, name), stmts: map[int]stmt{}}
	}
	for i := from; i < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(i+rowsPerCall, to)
		if w.method == engine.Multi {
			end = min(i+rowsPerText, to)
		}
		if err := w.call(b, i, end, key+int64(i-from)); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// rowsPerText is the maximum number of rows of an INSERT with literals. SQLite
// limits the length of a statement to 1 GB; only available memory limits parsing.
const rowsPerText = 1000

// call inserts rows [from, to) by the writer's method.
func (w *writer) call(b *engine.Batch, from, to int, key int64) error {
	e := &w.rows.enc
	switch w.method {
	case engine.Multi:
		w.buf = e.appendInsert(w.buf[:0], b, from, to, key)
		return w.db.handle.exec(w.buf)
	case engine.Single:
		for i := from; i < to; i++ {
			w.buf = e.appendInsert(w.buf[:0], b, i, i+1, key+int64(i-from))
			if err := w.db.handle.exec(w.buf); err != nil {
				return err
			}
		}
		return nil
	}
	whole := from + (to-from)/w.per*w.per
	if err := w.bound(b, from, whole, w.per, key); err != nil {
		return err
	}
	return w.bound(b, whole, to, to-whole, key+int64(whole-from))
}

// bound inserts rows [from, to) with prepared statements of n rows.
func (w *writer) bound(b *engine.Batch, from, to, n int, key int64) error {
	if from == to {
		return nil
	}
	s, ok := w.rows.stmts[n]
	if !ok {
		var err error
		if s, err = w.db.handle.prepare(w.rows.enc.placeholders(n)); err != nil {
			return err
		}
		w.rows.stmts[n] = s
	}
	w.buf = w.buf[:0]
	for i := from; i < to; i++ {
		w.buf = w.rows.enc.appendBound(w.buf, b, i, key+int64(i-from))
	}
	return s.step(w.buf, n*w.rows.enc.columns, (to-from)/n)
}

// Statements that every batch needs; they are prepared once.
const (
	beginStatement  = "BEGIN IMMEDIATE"
	commitStatement = "COMMIT"
)

// run executes one of these statements on the write connection.
func (db *DB) run(q string) error {
	s, ok := db.stmts[q]
	if !ok {
		var err error
		if s, err = db.handle.prepare(q); err != nil {
			return err
		}
		db.stmts[q] = s
	}
	return s.step(nil, 0, 1)
}

// key returns the first key for a batch if the engine assigns the table's keys:
// the largest existing key plus 1.
func (w *writer) key() (int64, error) {
	t := w.table
	if t.ServerKey == "" {
		return 0, nil
	}
	if k, ok := w.db.nextKey[t.Name]; ok {
		return k, nil
	}
	// MAX uses an index on each table, but not on the view.
	stores := []string{t.Name}
	if t.Rolling() {
		stores = w.stores
	}
	d := dialect{}
	largest := int64(0)
	for _, name := range stores {
		n, err := queryInt(w.db.write, fmt.Sprintf("SELECT COALESCE(MAX(%s), 0) FROM %s", d.Quote(t.ServerKey), d.Quote(name)))
		if err != nil {
			return 0, err
		}
		largest = max(largest, n)
	}
	w.db.nextKey[t.Name] = largest + 1
	return largest + 1, nil
}

// queryInt returns the single integer that a query returns.
func queryInt(conn interface {
	Query(query string, args []driver.Value) (driver.Rows, error)
}, q string) (int64, error) {
	rows, err := conn.Query(q, nil)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	v := make([]driver.Value, 1)
	if err := rows.Next(v); err != nil {
		return 0, err
	}
	n, ok := v[0].(int64)
	if !ok {
		return 0, fmt.Errorf("%s: got %v, want an integer", q, v[0])
	}
	return n, nil
}
