package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// tryTimeout is how long, in milliseconds, Try waits for another writer.
const tryTimeout = 2000

// A changer changes periods, each step in one transaction.
type changer struct{ *database }

// Try implements engine.Keeper. Every step is one transaction: after a crash it is complete or not
// begun.
func (db changer) Try(ctx context.Context, steps ...engine.Step) error {
	if err := db.tryAll(ctx, steps); err != nil {
		return err
	}
	if slices.ContainsFunc(steps, func(s engine.Step) bool { _, ok := s.(engine.DropTables); return ok }) {
		return db.clearDoomed(ctx)
	}
	return nil
}

func (db changer) tryAll(ctx context.Context, steps []engine.Step) error {
	if err := db.tryLock(ctx); err != nil {
		return err
	}
	defer db.unlock()
	if err := db.exec(fmt.Sprintf("PRAGMA busy_timeout = %d", tryTimeout)); err != nil {
		return err
	}
	defer db.exec(db.pragmas[0])
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := db.transact(func() error { return db.try(s) }); err != nil {
			return err
		}
	}
	return nil
}

// transact runs fn in a transaction on the write connection.
func (db *database) transact(fn func() error) error {
	if err := db.exec(beginStatement); err != nil {
		return fmt.Errorf("%s: %w", beginStatement, err)
	}
	err := fn()
	if err == nil {
		err = db.exec(commitStatement)
	}
	if err != nil {
		return errors.Join(err, db.rollback())
	}
	return nil
}

// exec executes a statement on the write connection.
func (db *database) exec(q string, args ...driver.Value) error {
	_, err := db.write.Exec(q, args)
	return classify(err)
}

// tryLock waits up to tryTimeout for the turn on the write connection.
func (db changer) tryLock(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, tryTimeout*time.Millisecond)
	defer cancel()
	err := db.lock(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return engine.Classed(engine.ErrLockTimeout, fmt.Errorf("%s: a writer of this process has not finished its batch", db.path))
	}
	return err
}

// try executes a step in a transaction, in which it reads the periods again: another process may
// have changed them since.
func (db changer) try(s engine.Step) error {
	s, done, err := db.current(s)
	if err != nil || done {
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
		if err := db.exec(q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), err)
		}
	}
	return nil
}

// current returns a step with the present periods, and whether the step is already done.
func (db changer) current(step engine.Step) (now engine.Step, done bool, err error) {
	have := func(t *engine.Table) (parts []rolling.Partition) {
		parts, err = periods(db.write, t)
		return parts
	}
	there := func(names ...string) (all bool) {
		if err == nil {
			all, err = db.tables(names...)
		}
		return all
	}
	now = step
	switch s := step.(type) {
	case engine.CreateTable:
		err = db.forgetDropped(s.Table)
	case engine.CreatePartitions:
		s.Have = have(s.Table)
		now = s
	case engine.DropPartition:
		s.Have = have(s.Table)
		now = s
	case engine.Release:
		s.Have = have(s.Table)
		now, done = s, there(s.Table.Name)
	case engine.Detach:
		s.Have = have(s.Table)
		now, done = s, !slices.Contains(s.Have, s.Part) && there(s.Into)
	case engine.Attach:
		s.Have = have(s.Table)
		now, done = s, slices.Contains(s.Have, s.Part) && !there(s.From)
	case engine.Replace:
		s.Have = have(s.Table)
		ready := there(s.With)
		now, done = s, slices.Contains(s.Have, s.New) && len(s.Out) > 0 && !ready && there(s.Out...)
		if ready && len(s.Old) > 0 {
			err = db.alike(s.With, store(s.Table, s.Old[0]))
		}
		if err == nil && !done {
			err = s.Prove(s.Old, db.checksum)
		}
	case engine.AddColumn: // each period has the columns of the table
		done, err = has(db.write, "SELECT 1 FROM pragma_table_xinfo(?) WHERE lower(name) = lower(?)", s.Table.Name, s.Name)
		if err == nil && !done {
			s.Have = have(s.Table)
		}
		now = s
	}
	return now, done, err
}

// checksum returns the answer to a proof.
func (db changer) checksum(query string) (sum engine.Checksum, err error) {
	err = each(db.write, query, nil, func(row []driver.Value) error {
		sum.Rows, _ = row[0].(int64)
		sum.Hash = text(row[1])
		return nil
	})
	return sum, err
}

// alike returns ErrDiffers unless the tables a and b have columns of the same names, because the
// view reads both.
func (db changer) alike(a, b string) error {
	only, err := texts(db.write, "SELECT a.name FROM pragma_table_xinfo(?1) AS a WHERE lower(a.name) NOT IN (SELECT lower(name) FROM pragma_table_xinfo(?2)) "+
		"UNION SELECT b.name FROM pragma_table_xinfo(?2) AS b WHERE lower(b.name) NOT IN (SELECT lower(name) FROM pragma_table_xinfo(?1))", a, b)
	if err == nil && len(only) > 0 {
		err = engine.Classed(engine.ErrDiffers, fmt.Errorf("only one of the tables %s and %s has column %s", a, b, strings.Join(only, ", ")))
	}
	return err
}

// forgetDropped removes the periods of a table that was dropped without rowmill.
func (db changer) forgetDropped(t *engine.Table) error {
	if !t.Rolling() {
		return nil
	}
	for _, q := range []string{createPeriods, "DELETE FROM rowmill_periods WHERE table_name = " + quoteText(t.Name) + " AND NOT " + hasStore} {
		if err := db.exec(q); err != nil {
			return fmt.Errorf("remove former periods of %s from the catalog: %w", t.Name, err)
		}
	}
	return nil
}

// tables reports whether all these tables exist.
func (db changer) tables(names ...string) (bool, error) {
	for _, name := range names {
		if found, err := has(db.write, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", name); !found {
			return false, err
		}
	}
	return true, nil
}

// Blockers implements engine.Keeper. SQLite doesn't tell which process locks the file.
func (db *database) Blockers(context.Context, *engine.Table) ([]engine.Blocker, error) {
	return nil, nil
}

// Running implements engine.Keeper. There is no server whose statements it could count.
func (db *database) Running(context.Context) (int, error) { return 0, nil }

// hasIndex reports whether an index exists; false on an error, which creating it will report.
func (db *database) hasIndex(name string) bool {
	var n int
	err := db.pool.QueryRow("SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND lower(name) = lower(?)", name).Scan(&n)
	return err == nil && n > 0
}

// doomedPrefix begins the names of large dropped tables. DROP TABLE reads every page, which locks
// out other writers for half a second per million rows. So a large table is renamed, and then
// emptied in parts. After a crash, the next DropTables continues.
const doomedPrefix = "rowmill_doomed_"

const (
	// smallTable is the most rows for a direct DROP TABLE, which takes some 10 ms.
	smallTable = 20_000
	// doomedPart is the target time for which one part locks the file.
	doomedPart = 50 * time.Millisecond
)

// dropTables drops small tables and renames large ones for clearDoomed.
func (db changer) dropTables(names []string) error {
	quote := dialect{}.Quote
	for i, name := range names {
		there, err := db.tables(name)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		rows, err := queryInt(db.write, fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM %s LIMIT %d)", quote(name), smallTable+1))
		if err != nil {
			return fmt.Errorf("drop table %s: %w", name, classify(err))
		}
		statements := []string{"DROP TABLE " + quote(name)}
		if rows > smallTable {
			doomed := fmt.Sprintf("%s%d_%d", doomedPrefix, time.Now().UnixNano(), i)
			statements = []string{"PRAGMA legacy_alter_table = ON", dialect{}.rename(name, doomed), "PRAGMA legacy_alter_table = OFF"}
		}
		for _, q := range statements {
			if err := db.exec(q); err != nil {
				return fmt.Errorf("drop table %s: %w", name, err)
			}
		}
	}
	return nil
}

// clearDoomed empties and drops the renamed tables, in transactions with pauses for other writers.
func (db changer) clearDoomed(ctx context.Context) error {
	var names []string
	err := db.part(ctx, func() (err error) {
		names, err = texts(db.write, "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, ?) = ?",
			int64(len(doomedPrefix)), doomedPrefix)
		return err
	})
	for _, name := range names {
		if err == nil {
			err = db.clear(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("free the pages of dropped tables: %w", err)
	}
	return nil
}

func (db changer) clear(ctx context.Context, name string) error {
	quote := dialect{}.Quote
	var indexes, key []string
	err := db.part(ctx, func() error {
		triggers, err := texts(db.write, "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?", name)
		for _, trigger := range triggers { // which would run for each row
			err = errors.Join(err, db.exec("DROP TRIGGER IF EXISTS "+quote(trigger)))
		}
		if err != nil {
			return err
		}
		const declared = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
		if indexes, err = texts(db.write, declared, name); err != nil {
			return err
		}
		key, err = texts(db.write, "SELECT x.name FROM pragma_table_xinfo(?1) AS x, pragma_table_list AS l "+
			"WHERE l.schema = 'main' AND l.name = ?1 AND l.wr AND x.pk > 0 ORDER BY x.pk", name)
		for i, column := range key {
			key[i] = quote(column)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, index := range indexes {
		if err := db.part(ctx, func() error { return db.exec("DROP INDEX IF EXISTS " + quote(index)) }); err != nil {
			return err
		}
	}
	if len(key) == 0 {
		key = []string{"rowid"}
	}
	for rows := smallTable; ; {
		var last []driver.Value
		began := time.Now()
		err := db.part(ctx, func() (err error) {
			began = time.Now()
			last, err = db.clearPart(name, key, rows)
			return err
		})
		if err != nil || last == nil {
			return err
		}
		if took := time.Since(began); took > doomedPart {
			rows = max(rows/2, 500)
		} else if took < doomedPart/2 {
			rows *= 2
		}
	}
}

// clearPart deletes the given number of rows, in the order of the key, and returns the key of the
// first remaining row. If the table doesn't have more rows than that, clearPart drops it and
// returns nil.
func (db changer) clearPart(name string, key []string, rows int) (last []driver.Value, err error) {
	table, list := dialect{}.Quote(name), strings.Join(key, ", ")
	// Without the unary plus, the driver converts columns declared as times.
	q := fmt.Sprintf("SELECT +%s FROM %s ORDER BY %s LIMIT 1 OFFSET %d", strings.Join(key, ", +"), table, list, rows)
	err = each(db.write, q, nil, func(row []driver.Value) error {
		last = slices.Clone(row)
		return nil
	})
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil // another process has dropped it
	}
	if err != nil || last == nil {
		return nil, errors.Join(err, db.exec("DROP TABLE IF EXISTS "+table))
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(key)), ", ")
	return last, db.exec(fmt.Sprintf("DELETE FROM %s WHERE (%s) < (%s)", table, list, marks), last...)
}

// part runs fn in a transaction on the write connection, after a pause for other writers.
func (db changer) part(ctx context.Context, fn func() error) error {
	if err := db.pace.wait(ctx); err != nil {
		return err
	}
	if err := db.tryLock(ctx); err != nil {
		return err
	}
	defer db.unlock()
	var began time.Time
	err := db.transact(func() error {
		began = time.Now()
		return fn()
	})
	if !began.IsZero() {
		db.pace.held(began)
	}
	return err
}
