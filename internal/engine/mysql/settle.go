package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// A hurry is a value of a setting that makes InnoDB write back dirty pages immediately.
type hurry struct{ name, value string }

func (h hurry) change() string  { return "SET GLOBAL " + h.name + " = " + h.value }
func (h hurry) restore() string { return "SET GLOBAL " + h.name + " = ?" }

// hurries returns settings that make InnoDB write back all dirty pages, in the order in which they
// can be set. They are restored in reverse order, because the low-water mark of dirty pages can't
// exceed the maximum. On a private server, whose disk nobody else needs, InnoDB may also write more
// than its default of 200 pages a second.
func hurries(private bool) []hurry {
	out := []hurry{{"innodb_max_dirty_pages_pct_lwm", "0"}, {"innodb_max_dirty_pages_pct", "0"}}
	if private {
		out = append(out, hurry{"innodb_io_capacity_max", "40000"}, hurry{"innodb_io_capacity", "20000"})
	}
	return out
}

// settingsOf reads the settings.
func settingsOf(hurries []hurry) string {
	names := make([]string, len(hurries))
	for i, h := range hurries {
		names[i] = "@@GLOBAL." + h.name
	}
	return "SELECT " + strings.Join(names, ", ")
}

// Figures up to these values count as settled. InnoDB dirties some pages by itself. It removes
// purged transactions from its history list only about every 128 purges, and an idle MySQL always
// keeps some hundreds of transactions in it.
const (
	fewDirtyPages = 64
	fewOldRows    = 1000
)

// settleStall is how long to wait for a figure to decrease further. The figure increases while
// others write, and stays the same while a transaction is open.
const settleStall = 20 * time.Second

// settlePause is the interval between two readings of a figure.
const settlePause = 100 * time.Millisecond

// A debt is a figure that Settle waits for: its query, the value at which it is small enough, and
// the likely reason if it doesn't decrease.
type debt struct {
	what, query string
	few         int64
	hint        string
}

// debts returns the server's figures. The figure for InnoDB's old rows comes first, because purging
// these rows dirties pages.
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

// analyze renders Settle's first statements, which read the tables and dirty a few pages.
func (d dialect) analyze(s engine.Settle) []string {
	var out []string
	for _, t := range s.Tables {
		out = append(out, "ANALYZE TABLE "+d.Quote(t.Name))
	}
	return out
}

// settle renders Settle. Its queries are repeated until little work is left.
func (d dialect) settle(s engine.Settle) []string {
	out := d.analyze(s)
	set := hurries(s.Private)
	if d.rocksdb() {
		out, set = append(out, flushRocksDB), nil
	} else {
		out = append(out, settingsOf(set))
	}
	for _, h := range set {
		out = append(out, h.change())
	}
	for _, w := range d.debts() {
		out = append(out, w.query)
	}
	for _, h := range slices.Backward(set) {
		out = append(out, h.restore())
	}
	return out
}

// A settler waits until the server has done the work that writes have deferred.
type settler struct{ *server }

func (db settler) Settle(ctx context.Context, s engine.Settle) (warnings []string, err error) {
	for _, q := range db.dialect.analyze(s) {
		// ANALYZE reports its outcome, even an error, as a row.
		if err := db.checkTable(ctx, q); err != nil {
			return nil, err
		}
	}
	debts := db.dialect.debts()
	if db.dialect.rocksdb() {
		if _, err := db.pool.ExecContext(ctx, flushRocksDB); err != nil {
			if warnings, err = refusedAs("memtables are written later", flushRocksDB, err); err != nil {
				return nil, err
			}
		}
	} else {
		restore, failed := db.writeDirty(ctx, hurries(s.Private))
		// Restore the settings even if only some were changed.
		defer func() { err = errors.Join(err, restore(ctx)) }()
		if failed != nil {
			if warnings, err = refusedAs("dirty pages are written later", hurries(false)[0].change(), failed); err != nil {
				return nil, err
			}
			debts = debts[:1] // dirty pages are then written at the server's usual rate
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

func (db settler) checkTable(ctx context.Context, q string) error {
	err := engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var table, op, kind, text string
		if err := r.Scan(&table, &op, &kind, &text); err != nil || kind != "Error" {
			return err
		}
		err := errors.New(text)
		if strings.Contains(text, "doesn't exist") {
			err = engine.Classed(engine.ErrNoTable, err)
		}
		return err
	}, q)
	if err != nil {
		err = fmt.Errorf("settle: %s: %w", q, err)
	}
	return err
}

// refusedAs converts the refusal of a setting to a warning.
func refusedAs(what, q string, err error) (warnings []string, _ error) {
	var server *mysql.MySQLError
	if errors.As(err, &server) && (server.Number == errPrivilege || server.Number == 1045) {
		return []string{fmt.Sprintf("settle: %s: %s: %s", what, q, server.Message)}, nil
	}
	return nil, fmt.Errorf("settle: %s: %w", q, classify(err))
}

// restoreWait limits the time to change settings, and to restore them after ctx has ended.
const restoreWait = 10 * time.Second

// writeDirty makes InnoDB write back every dirty page, and returns a function that restores
// InnoDB's settings. The caller must call that function, even after an error.
func (db settler) writeDirty(ctx context.Context, set []hurry) (restore func(context.Context) error, err error) {
	old, to := make([]any, len(set)), make([]any, len(set)) // integers and fractions
	for i := range old {
		to[i] = &old[i]
	}
	none := func(context.Context) error { return nil }
	if err := db.pool.QueryRowContext(ctx, settingsOf(set)).Scan(to...); err != nil {
		return none, err
	}
	restore = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWait)
		defer cancel()
		var failed error
		for i, h := range slices.Backward(set) {
			if _, err := db.pool.ExecContext(ctx, h.restore(), old[i]); err != nil {
				failed = errors.Join(failed, engine.Hinted(fmt.Errorf("settle: restore %v: %s: %w", old[i], h.restore(), classify(err)),
					"SET GLOBAL %s = %v on the server", h.name, old[i]))
			}
		}
		return failed
	}
	// The end of ctx doesn't interrupt the statement: nobody would know whether it had changed the
	// setting, and the server might still change it later.
	setting, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWait)
	defer cancel()
	for i, h := range set {
		if _, err := db.pool.ExecContext(setting, h.change()); err != nil {
			var server *mysql.MySQLError
			if i == 0 && errors.As(err, &server) {
				restore = none // nothing was changed
			}
			return restore, err
		}
	}
	return restore, ctx.Err()
}

// figure returns the number in the last column of a query's only row.
func (db settler) figure(ctx context.Context, q string) (n int64, err error) {
	err = sql.ErrNoRows
	failed := engine.EachText(ctx, db, db.pool, func(_, row []string) error {
		n, err = strconv.ParseInt(row[len(row)-1], 10, 64)
		return err
	}, q)
	return n, cmp.Or(failed, err)
}

// await waits until a figure is small enough. If the figure stops decreasing, it returns a note.
func (db settler) await(ctx context.Context, w debt) (note string, err error) {
	least, since := int64(-1), time.Now()
	for {
		n, err := db.figure(ctx, w.query)
		var server *mysql.MySQLError
		if errors.Is(err, sql.ErrNoRows) || errors.As(err, &server) && server.Number == errPrivilege {
			return fmt.Sprintf("settle: how many %s is not known: %v", w.what, err), nil
		}
		if err != nil {
			return "", fmt.Errorf("settle: %s: %w", engine.FirstWords(w.query), err)
		}
		if n <= w.few {
			return "", nil
		}
		if least < 0 || n < least {
			least, since = n, time.Now()
		}
		if time.Since(since) >= settleStall {
			return fmt.Sprintf("settle: still %d %s, and no fewer after %v: %s", n, w.what, settleStall, w.hint), nil
		}
		if err := engine.Sleep(ctx, settlePause); err != nil {
			return "", err
		}
	}
}
