package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// rowsPerStatement is how many rows a prepared INSERT binds. SQLite allows
// 32766 values; past a few dozen rows a longer statement gains nothing.
func rowsPerStatement(columns int) int { return max(1, min(64, 32766/columns)) }

// A writer inserts batches. All writers of a DB share its write connection.
type writer struct {
	db     *DB
	table  *engine.Table
	method engine.Method
	by     int // the column of a batch by which the table rolls
	stores map[string]*rows
	parts  []rolling.Partition
	epoch  int64
	buf    []byte
	args   []driver.NamedValue
}

// rows is where rows of one period, or of a plain table, go.
type rows struct {
	enc   encoder
	stmts map[int]driver.Stmt // by number of rows
}

// Writer implements engine.DB.
func (db *DB) Writer(ctx context.Context, t *engine.Table, m engine.Method) (engine.Writer, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if !slices.Contains(db.Capabilities().Methods, m) {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("sqlite: no insert method %q; it has %v", m, db.Capabilities().Methods))
	}
	w := &writer{db: db, table: t, method: m, stores: map[string]*rows{}, epoch: -1}
	w.by = slices.IndexFunc(t.Inserted(), func(c engine.Column) bool { return c.Name == t.By })
	if err := db.lock(ctx); err != nil {
		return nil, err
	}
	defer db.unlock()
	return w, w.refresh(ctx)
}

// refresh reads the periods again after the schema has changed.
func (w *writer) refresh(ctx context.Context) error {
	if w.epoch == w.db.epoch {
		return nil
	}
	w.forget()
	w.stores = map[string]*rows{}
	if w.table.Rolling() {
		var err error
		if w.parts, err = w.db.Catalog().Partitions(ctx, w.table); err != nil {
			return err
		}
	}
	w.epoch = w.db.epoch
	return nil
}

// forget closes the prepared statements.
func (w *writer) forget() {
	for _, r := range w.stores {
		for _, s := range r.stmts {
			_ = s.Close()
		}
	}
	w.stores = nil
}

// Reset implements engine.Writer.
func (w *writer) Reset(ctx context.Context) error {
	if err := w.db.lock(ctx); err != nil {
		return err
	}
	defer w.db.unlock()
	w.epoch = -1
	return errors.Join(w.db.rollback(), w.refresh(ctx))
}

// Close implements engine.Writer.
func (w *writer) Close() error {
	w.db.turn <- struct{}{}
	defer w.db.unlock()
	w.forget()
	return nil
}

// Write implements engine.Writer.
func (w *writer) Write(ctx context.Context, b *engine.Batch) (engine.Ack, error) {
	if err := w.db.lock(ctx); err != nil {
		return engine.Ack{}, err
	}
	defer w.db.unlock()
	if err := w.refresh(ctx); err != nil {
		return engine.Ack{}, err
	}
	if err := w.write(b); err != nil {
		err = fmt.Errorf("insert into %s: %w", w.table.Name, classify(err))
		delete(w.db.nextKey, w.table.Name)
		return engine.Ack{}, errors.Join(err, w.db.rollback())
	}
	return engine.Ack{Rows: int64(b.Rows())}, nil
}

func (w *writer) write(b *engine.Batch) error {
	key, err := w.db.key(w.table)
	if err != nil {
		return err
	}
	if err := w.db.run(beginStatement); err != nil {
		return err
	}
	for from := 0; from < b.Rows(); {
		name, to, err := w.route(b, from, key)
		if err != nil {
			return err
		}
		if err := w.insert(name, b, from, to, key+int64(from)); err != nil {
			return err
		}
		from = to
	}
	if err := w.db.run(commitStatement); err != nil {
		return err
	}
	if w.table.ServerKey != "" {
		w.db.nextKey[w.table.Name] = key + int64(b.Rows())
	}
	return nil
}

// route returns the table that row `from` belongs to, and where the run of
// rows that go there with it ends.
func (w *writer) route(b *engine.Batch, from int, key int64) (string, int, error) {
	if !w.table.Rolling() {
		return w.table.Name, b.Rows(), nil
	}
	position := func(i int) int64 {
		if w.by < 0 { // the key that the engine assigns
			return key + int64(i)
		}
		return b.Columns[w.by].Ints[i]
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
	return store(w.table, w.parts[i]), to, nil
}

func (w *writer) insert(name string, b *engine.Batch, from, to int, key int64) error {
	r := w.stores[name]
	if r == nil {
		// Statements of older periods would only pile up.
		w.forget()
		r = &rows{enc: newEncoder(dialect{}, w.table, name), stmts: map[int]driver.Stmt{}}
		w.stores = map[string]*rows{name: r}
	}
	switch w.method {
	case engine.Multi:
		w.buf = r.enc.appendInsert(w.buf[:0], b, from, to, key)
		return w.text()
	case engine.Single:
		for i := from; i < to; i++ {
			w.buf = r.enc.appendInsert(w.buf[:0], b, i, i+1, key+int64(i-from))
			if err := w.text(); err != nil {
				return err
			}
		}
		return nil
	}
	per := rowsPerStatement(r.enc.columns)
	for i := from; i < to; i += per {
		end := min(i+per, to)
		if err := w.bound(r, b, i, end, key+int64(i-from)); err != nil {
			return err
		}
	}
	return nil
}

// text executes the statement in w.buf.
func (w *writer) text() error {
	_, err := w.db.write.Exec(unsafe.String(unsafe.SliceData(w.buf), len(w.buf)), nil)
	return err
}

// bound executes a prepared INSERT of rows [from, to).
func (w *writer) bound(r *rows, b *engine.Batch, from, to int, key int64) error {
	n := to - from
	stmt, ok := r.stmts[n]
	if !ok {
		var err error
		if stmt, err = w.db.write.Prepare(r.enc.placeholders(n)); err != nil {
			return err
		}
		r.stmts[n] = stmt
	}
	w.args = w.args[:0]
	add := func(v driver.Value) {
		w.args = append(w.args, driver.NamedValue{Ordinal: len(w.args) + 1, Value: v})
	}
	for row := from; row < to; row++ {
		if r.enc.key {
			add(key + int64(row-from))
		}
		for c := range b.Columns {
			add(value(&b.Columns[c], row))
		}
	}
	_, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), w.args)
	return err
}

// value returns a value as the driver binds it.
func value(v *engine.Vector, row int) driver.Value {
	switch {
	case v.Null(row):
		return nil
	case v.Type == engine.Float32 || v.Type == engine.Float64:
		return v.Floats[row]
	case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
		return string(v.Value(row))
	case v.Type == engine.Time:
		return string(engine.AppendTime(nil, v.Ints[row]))
	}
	return v.Ints[row]
}

// Statements that every batch needs; they are prepared once.
const (
	beginStatement  = "BEGIN IMMEDIATE"
	commitStatement = "COMMIT"
)

// run executes a statement of every batch on the write connection.
func (db *DB) run(q string) error {
	stmt, ok := db.stmts[q]
	if !ok {
		var err error
		if stmt, err = db.write.Prepare(q); err != nil {
			return err
		}
		db.stmts[q] = stmt
	}
	_, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), nil)
	return err
}

// key returns the first key for a batch of a table whose keys the engine
// assigns: one after the largest there is.
func (db *DB) key(t *engine.Table) (int64, error) {
	if t.ServerKey == "" {
		return 0, nil
	}
	if k, ok := db.nextKey[t.Name]; ok {
		return k, nil
	}
	d := dialect{}
	v, err := queryInt(db.write, fmt.Sprintf("SELECT COALESCE(MAX(%s), 0) FROM %s", d.Quote(t.ServerKey), d.Quote(t.Name)))
	if err != nil {
		return 0, err
	}
	db.nextKey[t.Name] = v + 1
	return v + 1, nil
}

// queryInt returns the one integer that a query gives.
func queryInt(conn *sqlite3.SQLiteConn, q string) (int64, error) {
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
