package rollup

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// A worker has exclusive control of a table's roll-ups, across all processes. Only workers consume
// notes and mark buckets as stale. Therefore a worker can compute buckets outside of transactions,
// so that no insert waits for it.
type worker struct {
	*Set
	conn *sql.Conn
	// fence is the time at which this worker last changed the roll-ups. It is compared with the
	// recorded time before each change. So a worker that has lost its lock without noticing can't
	// change anything after another worker's change.
	fence int64
	stage *stage
}

var errFenced = errors.New("another process works on the roll-ups now")

const (
	firstTurn = 10 * time.Millisecond
	lastTurn  = time.Second
)

// exclusively waits until no other worker computes the table's roll-ups, calls fn as the only
// worker, and returns what fn returns.
func (s *Set) exclusively(ctx context.Context, fn func(ctx context.Context, w *worker) (int, error)) (n int, err error) {
	lease, err := leadOf(ctx, s.db, s.table.Name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	err = engine.WhileHeld(ctx, lease, errFenced, func(ctx context.Context) (err error) {
		conn, err := s.db.SQL().Conn(ctx)
		if err != nil {
			return s.db.Classify(err)
		}
		w := &worker{Set: s, conn: conn}
		defer func() { err = errors.Join(err, w.close(err)) }()
		if n, err = fn(ctx, w); err != nil && errors.Is(context.Cause(ctx), errFenced) {
			return errFenced
		}
		return err
	})
	return n, err
}

func leadOf(ctx context.Context, db engine.Keeper, table string) (engine.Lease, error) {
	var lease engine.Lease
	err := engine.Retry{First: firstTurn, Last: lastTurn}.Do(ctx, func() (err error) {
		lease, err = db.Lead(ctx, table+"/rollups")
		return err
	})
	return lease, err
}

// close returns the connection in its original state, or closes it.
func (w *worker) close(failed error) error {
	if failed == nil && w.stage != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, failed = w.conn.ExecContext(ctx, w.stage.table.Drop)
	}
	if failed != nil {
		// The connection's state is unknown. Its temporary table ends with it.
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	if err := w.conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) && failed == nil {
		return w.db.Classify(err)
	}
	return nil
}

// A mark is the progress of a level. updated is the fence; see worker.
type mark struct {
	watermark, sealedTo, updated int64
	spec                         string
}

// A transaction locks the table's roll-ups, so that it can't run at the same time as a seal.
// Readers and writers of raw rows don't wait for it. It is short: see goalTime.
type transaction struct {
	*sql.Tx
	marks map[string]mark
}

// tx runs fn in a READ COMMITTED transaction: each statement sees the changes committed before it.
func (w *worker) tx(ctx context.Context, fn func(*transaction) error) error {
	return engine.Retry{First: firstTurn, Last: lastTurn, Tries: tries}.Do(ctx, func() error { return w.tryTx(ctx, fn) })
}

func (w *worker) tryTx(ctx context.Context, fn func(*transaction) error) error {
	var now int64
	err := engine.InTx(ctx, w.db, w.conn, engine.Committed, func(tx *sql.Tx) error {
		if _, err := w.exec(ctx, tx, lockRollups, w.table.Name); err != nil {
			return fmt.Errorf("lock the roll-ups: %w", err)
		}
		marks, err := w.marks(ctx, tx)
		if err != nil {
			return err
		}
		var updated int64
		for _, m := range marks {
			updated = max(updated, m.updated)
		}
		if w.fence != 0 && updated != w.fence {
			return errFenced
		}
		for _, l := range w.levels {
			if _, ok := marks[l.Name]; !ok {
				return engine.Hinted(fmt.Errorf("roll-up %s does not exist yet", l.Name), "rowmill apply")
			}
		}
		if err := fn(&transaction{tx, marks}); err != nil {
			return err
		}
		// Later than any previous time, even if the clock was set back.
		now = max(time.Now().UnixMicro(), updated+1)
		_, err = w.exec(ctx, tx, "UPDATE rowmill_rollups SET updated_us = ? WHERE table_name = ?", now, w.table.Name)
		return w.committing(ctx, err)
	})
	if err == nil {
		w.fence = now
	}
	return err
}

func (s *Set) committing(ctx context.Context, err error) error {
	if err == nil && s.before != nil {
		s.before(ctx, "COMMIT")
	}
	return err
}

const lockRollups = "UPDATE rowmill_rollups SET updated_us = updated_us WHERE table_name = ?"

// read calls fn, which reads raw rows, in a short READ COMMITTED transaction: there, MySQL's INSERT
// ... SELECT doesn't lock the rows that it reads. On servers where a transaction would block
// writers, fn is called without a transaction.
func (w *worker) read(ctx context.Context, fn func(x execer) error) error {
	defer w.reads()()
	if w.db.Capabilities().SerialWrites {
		return fn(w.conn)
	}
	return engine.InTx(ctx, w.db, w.conn, engine.Committed, func(tx *sql.Tx) error { return w.committing(ctx, fn(tx)) })
}

func (s *Set) exec(ctx context.Context, x execer, q string, args ...any) (int64, error) {
	if s.before != nil {
		s.before(ctx, q)
	}
	if len(args) > 0 {
		q = s.db.Bind(q)
	}
	r, err := x.ExecContext(ctx, q, args...)
	if err != nil {
		return 0, s.db.Classify(err)
	}
	return r.RowsAffected()
}

// number returns the number that a query selects, 0 for NULL.
func (s *Set) number(ctx context.Context, x execer, q string, args ...any) (int64, error) {
	if len(args) > 0 {
		q = s.db.Bind(q)
	}
	var n sql.NullInt64
	err := x.QueryRowContext(ctx, q, args...).Scan(&n)
	return n.Int64, s.db.Classify(err)
}

func (s *Set) each(ctx context.Context, x execer, scan func(*sql.Rows) error, q string, args ...any) error {
	if s.before != nil {
		s.before(ctx, q)
	}
	return engine.Each(ctx, s.db, x, scan, q, args...)
}

type execer = state.Exec
