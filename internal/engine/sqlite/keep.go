package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// tryTimeout is how long, in milliseconds, Try waits for another writer.
const tryTimeout = 2000

// Try implements engine.Keeper. Every step is one transaction, so that after a
// crash it is either complete or not begun.
func (db *DB) Try(ctx context.Context, steps ...engine.Step) error {
	if err := db.tryAll(ctx, steps); err != nil {
		return err
	}
	if slices.ContainsFunc(steps, func(s engine.Step) bool { _, ok := s.(engine.DropTables); return ok }) {
		return db.clearDoomed(ctx)
	}
	return nil
}

func (db *DB) tryAll(ctx context.Context, steps []engine.Step) error {
	if err := db.tryLock(ctx); err != nil {
		return err
	}
	defer db.unlock()
	if _, err := db.write.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", tryTimeout), nil); err != nil {
		return classify(err)
	}
	defer db.write.Exec(db.pragmas[0], nil)
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := db.write.Exec(beginStatement, nil); err != nil {
			return fmt.Errorf("%s: %w", beginStatement, classify(err))
		}
		err := db.try(s)
		if err == nil {
			_, err = db.write.Exec(commitStatement, nil)
			err = classify(err)
		}
		if err != nil {
			return errors.Join(err, db.rollback())
		}
	}
	return nil
}

// tryLock acquires the turn on the write connection, with the timeout that Try
// uses for the file's lock.
func (db *DB) tryLock(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, tryTimeout*time.Millisecond)
	defer cancel()
	err := db.lock(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return engine.Classed(engine.ErrLockTimeout, fmt.Errorf("%s: a writer of this process has not ended its batch", db.path))
	}
	return err
}

// try executes a step within a transaction. It reads the periods again, because
// another process may have changed them since the caller read them, and the view
// is recreated from them.
func (db *DB) try(s engine.Step) error {
	done, err := db.done(s)
	if err != nil || done {
		return err
	}
	if s, err = db.fresh(s); err != nil {
		return err
	}
	db.epoch++
	if s, ok := s.(engine.DropTables); ok {
		return db.dropTables(s.Names)
	}
	statements, err := db.Dialect().Render(s)
	if err != nil {
		return err
	}
	for _, q := range statements {
		if q == beginStatement || q == commitStatement {
			continue
		}
		if _, err := db.write.Exec(q, nil); err != nil {
			return fmt.Errorf("%s: %w", firstLine(q), classify(err))
		}
	}
	return nil
}

// fresh returns the step with the current periods.
func (db *DB) fresh(s engine.Step) (engine.Step, error) {
	var err error
	switch s := s.(type) {
	case engine.CreateTable:
		return s, db.forgetDropped(s.Table)
	case engine.CreatePartitions:
		s.Have, err = db.present(s.Table)
		return s, err
	case engine.DropPartition:
		s.Have, err = db.present(s.Table)
		return s, err
	case engine.Detach:
		s.Have, err = db.present(s.Table)
		return s, err
	case engine.Attach:
		s.Have, err = db.present(s.Table)
		return s, err
	case engine.Replace:
		s.Have, err = db.present(s.Table)
		return s, err
	case engine.AddColumn:
		s.Have, err = db.present(s.Table)
		return s, err
	}
	return s, nil
}

// forgetDropped removes the rows of rowmill_periods for a table that was dropped
// without rowmill and is about to be created.
func (db *DB) forgetDropped(t *engine.Table) error {
	if !t.Rolling() {
		return nil
	}
	for _, q := range []string{createPeriods, "DELETE FROM rowmill_periods WHERE table_name = " + quoteText(t.Name) + " AND NOT " + hasStore} {
		if _, err := db.write.Exec(q, nil); err != nil {
			return fmt.Errorf("forget former periods of %s: %w", t.Name, classify(err))
		}
	}
	return nil
}

// present returns a table's periods in order, read in the open transaction of the
// write connection.
func (db *DB) present(t *engine.Table) ([]rolling.Partition, error) {
	var out []rolling.Partition
	err := each(db.write, "SELECT name, lower, upper FROM rowmill_periods WHERE table_name = ? ORDER BY lower", []driver.Value{t.Name},
		func(row []driver.Value) error {
			p, err := periodOf(row)
			out = append(out, p)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("periods of %s: %w", t.Name, err)
	}
	return out, nil
}

// done reports whether a step has already been executed.
func (db *DB) done(s engine.Step) (bool, error) {
	switch s := s.(type) {
	case engine.Detach:
		have, err := db.have(s.Table, s.Part)
		if err != nil || have {
			return false, err
		}
		return db.tables(s.Into)
	case engine.Attach:
		have, err := db.have(s.Table, s.Part)
		if err != nil || !have {
			return false, err
		}
		from, err := db.tables(s.From)
		return !from, err
	case engine.Replace:
		have, err := db.have(s.Table, s.New)
		if err != nil || !have || len(s.Out) == 0 {
			return false, err
		}
		if with, err := db.tables(s.With); err != nil || with {
			return false, err
		}
		return db.tables(s.Out...)
	case engine.AddColumn:
		return db.haveColumn(s)
	}
	return false, nil
}

// have reports whether the table has a period with this name and these bounds.
func (db *DB) have(t *engine.Table, p rolling.Partition) (bool, error) {
	found := false
	err := each(db.write, "SELECT 1 FROM rowmill_periods WHERE table_name = ? AND name = ? AND lower = ? AND upper = ?",
		[]driver.Value{t.Name, p.Name, p.From, p.To}, func([]driver.Value) error { found = true; return nil })
	if err != nil {
		return false, fmt.Errorf("periods of %s: %w", t.Name, err)
	}
	return found, nil
}

// tables reports whether all these tables exist.
func (db *DB) tables(names ...string) (bool, error) {
	for _, name := range names {
		found := false
		err := each(db.write, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", []driver.Value{name},
			func([]driver.Value) error { found = true; return nil })
		if err != nil || !found {
			return false, err
		}
	}
	return true, nil
}

// haveColumn reports whether the table, and therefore each of its periods, has
// the column of an AddColumn.
func (db *DB) haveColumn(s engine.AddColumn) (bool, error) {
	found := false
	err := each(db.write, "SELECT 1 FROM pragma_table_xinfo(?) WHERE lower(name) = lower(?)", []driver.Value{s.Table.Name, s.Name},
		func([]driver.Value) error { found = true; return nil })
	return found, err
}

// Blockers implements engine.Keeper. SQLite doesn't report which process has the
// file locked.
func (db *DB) Blockers(context.Context, *engine.Table) ([]engine.Blocker, error) { return nil, nil }

// Load implements engine.Keeper. There is no server whose load it could report.
func (db *DB) Load(context.Context) (engine.ServerLoad, error) {
	return engine.ServerLoad{ReplicaLag: -1}, nil
}

// hasIndex reports whether an index of that name exists. It returns false on an
// error, which the creation of the index will then report.
func (db *DB) hasIndex(name string) bool {
	var n int
	err := db.pool.QueryRow("SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND lower(name) = lower(?)", name).Scan(&n)
	return err == nil && n > 0
}
