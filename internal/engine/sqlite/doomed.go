package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// doomedPrefix begins the temporary names of large dropped tables. DROP TABLE
// reads every page of the table, which locks out other writers for half a second
// per million rows. So a large table is renamed, which removes it for all users,
// and then emptied in parts. After a crash the next DropTables continues.
const doomedPrefix = "rowmill_doomed_"

const (
	// smallTable is the most rows for a direct DROP TABLE, which takes some 10 ms.
	smallTable = 20_000
	// doomedPart is the target time for which one part locks the file.
	doomedPart = 50 * time.Millisecond
)

// dropTables drops small tables and renames large ones for clearDoomed, within a
// transaction.
func (db *DB) dropTables(names []string) error {
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
			if _, err := db.write.Exec(q, nil); err != nil {
				return fmt.Errorf("drop table %s: %w", name, classify(err))
			}
		}
	}
	return nil
}

// clearDoomed empties and drops the renamed tables, in separate transactions.
// Other writers can write in the pauses between them.
func (db *DB) clearDoomed(ctx context.Context) error {
	var names []string
	err := db.part(ctx, func() error {
		return each(db.write, "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, ?) = ?", []driver.Value{int64(len(doomedPrefix)), doomedPrefix},
			func(row []driver.Value) error { names = append(names, text(row[0])); return nil })
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

func (db *DB) clear(ctx context.Context, name string) error {
	quote := dialect{}.Quote
	var indexes []string
	var key []string
	err := db.part(ctx, func() error {
		err := each(db.write, "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL", []driver.Value{name},
			func(row []driver.Value) error { indexes = append(indexes, text(row[0])); return nil })
		if err != nil {
			return err
		}
		// Otherwise triggers would run for each row.
		err = each(db.write, "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?", []driver.Value{name}, func(row []driver.Value) error {
			_, err := db.write.Exec("DROP TRIGGER IF EXISTS "+quote(text(row[0])), nil)
			return err
		})
		if err != nil {
			return err
		}
		return each(db.write, "SELECT x.name FROM pragma_table_xinfo(?1) AS x, pragma_table_list AS l WHERE l.schema = 'main' AND l.name = ?1 AND l.wr AND x.pk > 0 ORDER BY x.pk",
			[]driver.Value{name}, func(row []driver.Value) error { key = append(key, quote(text(row[0]))); return nil })
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
		err := db.part(ctx, func() error {
			began = time.Now()
			var err error
			last, err = db.clearPart(name, key, rows)
			return err
		})
		if err != nil {
			return err
		}
		if last == nil {
			return nil
		}
		if took := time.Since(began); took > doomedPart {
			rows = max(rows/2, 500)
		} else if took < doomedPart/2 {
			rows *= 2
		}
	}
}

// clearPart deletes rows from the start of the key and returns the first
// remaining key, or nil if the table is dropped.
func (db *DB) clearPart(name string, key []string, rows int) (last []driver.Value, err error) {
	list := strings.Join(key, ", ")
	// Without the unary plus, the driver converts columns declared as times.
	q := fmt.Sprintf("SELECT +%s FROM %s ORDER BY %s LIMIT 1 OFFSET %d", strings.Join(key, ", +"), dialect{}.Quote(name), list, rows)
	err = each(db.write, q, nil, func(row []driver.Value) error {
		last = append([]driver.Value{}, row...)
		return nil
	})
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil // another process has dropped it
	}
	if err != nil || last == nil {
		return nil, errors.Join(err, db.exec("DROP TABLE IF EXISTS "+dialect{}.Quote(name)))
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(key)), ", ")
	_, err = db.write.Exec(fmt.Sprintf("DELETE FROM %s WHERE (%s) < (%s)", dialect{}.Quote(name), list, marks), last)
	return last, classify(err)
}

// exec executes a statement on the write connection.
func (db *DB) exec(q string) error {
	_, err := db.write.Exec(q, nil)
	return classify(err)
}

// part runs fn in a transaction on the write connection. It first waits, so that
// others can write.
func (db *DB) part(ctx context.Context, fn func() error) error {
	if err := db.pace.wait(ctx); err != nil {
		return err
	}
	if err := db.tryLock(ctx); err != nil {
		return err
	}
	defer db.unlock()
	if err := db.exec(beginStatement); err != nil {
		return err
	}
	defer db.pace.held(time.Now())
	err := fn()
	if err == nil {
		err = db.exec(commitStatement)
	}
	if err != nil {
		return errors.Join(err, db.rollback())
	}
	return nil
}
