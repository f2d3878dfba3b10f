package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
)

// A writer inserts batches. All writers of a DB share its write connection.
type writer struct {
	db     *database
	table  *engine.Table
	method engine.Method
	to     *destination // nil if the periods must be read again
	epoch  int64
}

func (db *database) Writer(ctx context.Context, t *engine.Table, m engine.Method) (engine.Writer, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if !slices.Contains(db.Capabilities().Methods, m) {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("sqlite: no insert method %q; it has %v", m, db.Capabilities().Methods))
	}
	w := &writer{db: db, table: t, method: m}
	return w, w.Reset(ctx)
}

// refresh reads the periods again if the schema has changed.
func (w *writer) refresh() (err error) {
	if w.to == nil || w.epoch != w.db.epoch {
		w.forget()
		w.epoch = w.db.epoch
		w.to, err = w.db.destination(w.table, w.method)
	}
	return err
}

// forget closes the prepared statements.
func (w *writer) forget() {
	if w.to != nil {
		w.to.forget()
	}
	w.to = nil
}

func (w *writer) Reset(ctx context.Context) error {
	if err := w.db.lock(ctx); err != nil {
		return err
	}
	defer w.db.unlock()
	w.forget()
	return errors.Join(w.db.rollback(), w.refresh())
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
	if err := w.refresh(); err != nil {
		return engine.Ack{}, err
	}
	n, err := w.write(ctx, b)
	if err != nil {
		delete(w.db.nextKey, w.table.Name)
		return engine.Ack{}, errors.Join(engine.About(ctx, classify(err), "insert into "+w.table.Name), w.db.rollback())
	}
	return ackOf(n, b.Rows(), w.table), nil
}

// ackOf returns the acknowledgement if n of the sent rows were inserted.
func ackOf(n int64, sent int, t *engine.Table) engine.Ack {
	ack := engine.Ack{Rows: n}
	if t.Ignore {
		ack.Skipped = int64(sent) - n
	}
	return ack
}

// write inserts a batch and returns the number of rows inserted. A single statement needs no BEGIN.
func (w *writer) write(ctx context.Context, b *engine.Batch) (int64, error) {
	rows := b.Rows()
	if rows == 0 {
		return 0, nil
	}
	key, err := w.key()
	if err != nil {
		return 0, err
	}
	if rows == 1 || w.method == engine.Multi && rows <= rowsPerText && !w.table.Rolling() {
		return w.to.insert(ctx, b, 0, rows, key)
	}
	if err := w.db.run(beginStatement); err != nil {
		return 0, err
	}
	n, err := w.to.insert(ctx, b, 0, rows, key)
	if err == nil {
		err = w.db.run(commitStatement)
	}
	return n, err
}

// Statements that every batch needs; they are prepared once.
const (
	beginStatement  = "BEGIN IMMEDIATE"
	commitStatement = "COMMIT"
)

// run executes one of these statements on the write connection.
func (db *database) run(q string) error {
	s, ok := db.stmts[q]
	if !ok {
		var err error
		if s, err = db.handle.prepare(q); err != nil {
			return err
		}
		db.stmts[q] = s
	}
	_, err := s.run(nil, 0, 1)
	return err
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
		stores = w.to.stores
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
	n, ok := int64(0), false
	err = engine.EachDriverRow(rows, func(row []driver.Value) error {
		n, ok = row[0].(int64)
		return nil
	})
	if err == nil && !ok {
		err = fmt.Errorf("%s: no integer", q)
	}
	return n, err
}
