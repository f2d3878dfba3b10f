package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/engine"
)

// Settings of InnoDB by which it writes dirty pages back at once: the share of
// them that it allows, and the one from which it begins to write.
const (
	dirtyMax = "innodb_max_dirty_pages_pct"
	dirtyLow = "innodb_max_dirty_pages_pct_lwm"
)

// What counts as settled. InnoDB dirties some pages by itself. What it has
// purged it takes off its list only every 128 purges or so, and an idle MySQL
// keeps some hundred on it for ever.
const (
	fewDirtyPages = 64
	fewOldRows    = 1000
)

// settleStall is how long to wait for a figure to fall any further. It goes up
// where others write, and stays where a transaction is open.
const settleStall = 20 * time.Second

// settlePause is the time between two looks at it.
const settlePause = 100 * time.Millisecond

// A debt is a figure that Settle waits for: its query, what of it doesn't
// matter, and what may hold it up.
type debt struct {
	what, query string
	few         int64
	hint        string
}

// debts are the server's: of InnoDB old rows first, whose purging dirties pages.
func (d dialect) debts() []debt {
	if d.rocksdb() {
		return []debt{{
			what: "flushes and compactions pending", few: 0, hint: "others may be writing",
			query: "SELECT COALESCE(SUM(VALUE), 0) FROM information_schema.ROCKSDB_CFSTATS WHERE STAT_TYPE IN " +
				"('NUM_IMMUTABLE_MEM_TABLE', 'MEM_TABLE_FLUSH_PENDING', 'COMPACTION_PENDING')",
		}}
	}
	old := debt{what: "transactions whose old rows are not purged", few: fewOldRows, hint: "an open transaction may keep them",
		query: "SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_history_list_length'"}
	dirty := debt{what: "pages dirty", few: fewDirtyPages, hint: "others may be writing",
		query: "SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_buffer_pool_pages_dirty'"}
	if !d.mariadb {
		old.query = "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len' AND STATUS = 'enabled'"
	}
	return []debt{old, dirty}
}

// oldDirty asks for the settings that settle changes.
const oldDirty = "SELECT @@GLOBAL." + dirtyMax + ", @@GLOBAL." + dirtyLow

// lowerDirty sets them to nothing, and restoreDirty back. The one to begin at
// goes first on the way down and last on the way up: it must not be above the
// other.
func lowerDirty() []string {
	return []string{"SET GLOBAL " + dirtyLow + " = 0", "SET GLOBAL " + dirtyMax + " = 0"}
}

func restoreDirty() []string {
	return []string{"SET GLOBAL " + dirtyMax + " = ?", "SET GLOBAL " + dirtyLow + " = ?"}
}

// analyze renders what comes first: it reads, and dirties a few pages itself.
func (d dialect) analyze(s engine.Settle) []string {
	var out []string
	for _, t := range s.Tables {
		out = append(out, "ANALYZE TABLE "+d.Quote(t.Name))
	}
	return out
}

// settle renders Settle. The queries are asked until little is left.
func (d dialect) settle(s engine.Settle) []string {
	out := d.analyze(s)
	if d.rocksdb() {
		out = append(out, flushRocksDB)
	} else {
		out = append(append(out, oldDirty), lowerDirty()...)
	}
	for _, w := range d.debts() {
		out = append(out, w.query)
	}
	if !d.rocksdb() {
		out = append(out, restoreDirty()...)
	}
	return out
}

// Settle implements engine.DB.
func (db *DB) Settle(ctx context.Context, s engine.Settle) (warnings []string, err error) {
	for _, q := range db.dialect.analyze(s) {
		// Its outcome is a row for the table, an error as well.
		if err := db.checkTable(ctx, q); err != nil {
			return nil, err
		}
	}
	debts := db.dialect.debts()
	if db.dialect.rocksdb() {
		if _, err := db.pool.ExecContext(ctx, flushRocksDB); err != nil {
			if warnings, err = db.denied(warnings, "memtables are written later", flushRocksDB, err); err != nil {
				return warnings, err
			}
		}
	} else {
		restore, failed := db.writeDirty(ctx)
		// Whatever happens, also where one of two was changed.
		defer func() { err = errors.Join(err, restore(ctx)) }()
		if failed != nil {
			if warnings, err = db.denied(warnings, "dirty pages are written later", lowerDirty()[0], failed); err != nil {
				return warnings, err
			}
			debts = debts[:1] // nobody hurries to write them
		}
	}
	for _, w := range debts {
		note, err := db.await(ctx, w)
		if note != "" {
			warnings = append(warnings, note)
		}
		if err != nil {
			return warnings, err
		}
	}
	return warnings, nil
}

func (db *DB) checkTable(ctx context.Context, q string) error {
	rows, err := db.pool.QueryContext(ctx, q)
	if err != nil {
		return fmt.Errorf("settle: %s: %w", q, classify(err))
	}
	defer rows.Close()
	for rows.Next() {
		var table, op, kind, text string
		if err := rows.Scan(&table, &op, &kind, &text); err != nil {
			return fmt.Errorf("settle: %s: %w", q, classify(err))
		}
		if kind == "Error" {
			err := fmt.Errorf("settle: %s: %s", q, text)
			if strings.Contains(text, "doesn't exist") {
				err = engine.Classed(engine.ErrNoTable, err)
			}
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("settle: %s: %w", q, classify(err))
	}
	return nil
}

// denied turns the refusal of a setting into a warning.
func (db *DB) denied(warnings []string, what, q string, err error) ([]string, error) {
	var server *mysql.MySQLError
	if errors.As(err, &server) && (server.Number == errPrivilege || server.Number == 1045) {
		return append(warnings, fmt.Sprintf("settle: %s: %s: %s", what, q, server.Message)), nil
	}
	return warnings, fmt.Errorf("settle: %s: %w", q, classify(err))
}

// restoreWait bounds the changing of settings, and their restoring once the
// caller has gone.
const restoreWait = 10 * time.Second

// writeDirty has InnoDB write back every dirty page, and returns what restores
// its settings. That is to be called in any case.
func (db *DB) writeDirty(ctx context.Context) (restore func(context.Context) error, err error) {
	var old [2]float64
	none := func(context.Context) error { return nil }
	if err := db.pool.QueryRowContext(ctx, oldDirty).Scan(&old[0], &old[1]); err != nil {
		return none, err
	}
	restore = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWait)
		defer cancel()
		var failed error
		for i, q := range restoreDirty() {
			if _, err := db.pool.ExecContext(ctx, q, old[i]); err != nil {
				failed = errors.Join(failed, engine.Hinted(fmt.Errorf("settle: restore %v: %s: %w", old, q, classify(err)),
					"SET GLOBAL %s = %v, GLOBAL %s = %v on the server", dirtyMax, old[0], dirtyLow, old[1]))
			}
		}
		return failed
	}
	// Not cut off by the end of ctx: then it would be unknown whether a setting
	// has changed, and the server might change it later.
	setting, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWait)
	defer cancel()
	for i, q := range lowerDirty() {
		if _, err := db.pool.ExecContext(setting, q); err != nil {
			var server *mysql.MySQLError
			if i == 0 && errors.As(err, &server) {
				restore = none // nothing was changed
			}
			return restore, err
		}
	}
	return restore, ctx.Err()
}

// figure returns the number in the last column of a query's one row.
func (db *DB) figure(ctx context.Context, q string) (n int64, err error) {
	rows, err := db.pool.QueryContext(ctx, q)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return 0, err
		}
		return 0, sql.ErrNoRows
	}
	to := make([]any, len(columns))
	for i := range to {
		to[i] = new(string)
	}
	to[len(to)-1] = &n
	err = rows.Scan(to...)
	return n, err
}

// await waits until a figure is small, or doesn't fall any further, which is
// a note.
func (db *DB) await(ctx context.Context, w debt) (note string, err error) {
	least, since := int64(-1), time.Now()
	for {
		n, err := db.figure(ctx, w.query)
		var server *mysql.MySQLError
		if errors.Is(err, sql.ErrNoRows) || errors.As(err, &server) && server.Number == errPrivilege {
			return fmt.Sprintf("settle: how many %s is not known: %v", w.what, err), nil
		}
		if err != nil {
			return "", fmt.Errorf("settle: %s: %w", engine.FirstWords(w.query), classify(err))
		}
		if n <= w.few {
			return "", nil
		}
		if least < 0 || n < least {
			least, since = n, time.Now()
		}
		if time.Since(since) >= settleStall {
			return fmt.Sprintf("settle: still %d %s after %v without fewer: %s", n, w.what, settleStall, w.hint), nil
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
