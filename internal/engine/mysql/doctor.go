package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Doctor = (*DB)(nil)

const manual = "the server's manual, "

// setTo returns a check that reports a setting if bad is true for its value.
func setTo(code, setting string, bad func(value string) bool, what, fix, cost, source string) engine.Check {
	return engine.Check{Finding: engine.Finding{Code: code, What: what, Fix: fix, Cost: cost, Source: manual + source}, Look: func(v *engine.Vitals) string {
		value, known := v.Settings[setting]
		return engine.When(known && bad(value), "%s = %s", setting, cmp.Or(value, "''"))
	}}
}

func is(values ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(values, strings.ToUpper(v)) }
}

const (
	// redoMinutes is for how many minutes the redo log should last, at the rate that was measured. A
	// page that changes often is written only once per checkpoint, so a longer log saves writes.
	redoMinutes = 10
	// leastRedo is the smallest redo log, in bytes.
	leastRedo = 8 << 20
	// busyRows is the rate of inserts, in rows a second, above which counters are meaningful.
	busyRows = 100
	// longWait is a wait for a metadata lock, in seconds, after which most clients have given up.
	longWait = 3600
	// longTransaction is the age, in seconds, above which an open transaction is reported.
	longTransaction = 300
)

var checks = []engine.Check{
	setTo("commits-lost", "innodb_flush_log_at_trx_commit", is("0", "2"), "rows that were acknowledged are lost if the machine fails, and with 0 if the server does",
		"SET GLOBAL innodb_flush_log_at_trx_commit = 1", "a sync of the log for each commit: larger batches, or more writers, share it", "innodb_flush_log_at_trx_commit"),
	setTo("torn-pages", "innodb_doublewrite", is("OFF", "0"), "a page that is being written when the machine fails can't be repaired",
		"innodb_doublewrite = ON and a restart", "each page is written twice, in larger requests", "innodb_doublewrite"),
	setTo("cached-twice", "innodb_flush_method", is("", "FSYNC", "O_DSYNC", "LITTLESYNC", "NOSYNC"), "the system caches the pages that the buffer pool has, too",
		"innodb_flush_method = O_DIRECT and a restart, and a larger innodb_buffer_pool_size", "none", "innodb_flush_method").Tried(engine.OtherValue("innodb_flush_method", "O_DIRECT")),
	{Finding: engine.Finding{Code: "redo-small", What: "the redo log is so small that pages are written again and again", Measured: true,
		Fix: "innodb_log_file_size (MySQL 8.0.30 and later: innodb_redo_log_capacity) for an hour of writes", Cost: "that much disk, and a longer recovery after a crash", Source: manual + "Optimizing InnoDB Redo Logging"},
		Look: func(v *engine.Vitals) string {
			size := redoSize(v)
			written := v.Growth["Innodb_os_log_written"]
			minutes := size / written / 60
			return engine.When(written > 0 && minutes < redoMinutes && inserted(v) >= busyRows, "%.0f MiB of redo log, of which %.2f MiB/s were written: it is full after %.1f minutes", size/(1<<20), written/(1<<20), minutes)
		}, Try: func(v *engine.Vitals) *engine.Trial {
			return engine.RedoTrial(redoSize(v), v.Number("innodb_buffer_pool_size"), leastRedo)
		}},
	{Finding: engine.Finding{Code: "inserts-read", What: "inserts wait for pages to be read from disk: what they touch has outgrown the buffer pool", Measured: true,
		Fix: "rowmill init --target URL, which says which tables would roll; or a larger innodb_buffer_pool_size", Cost: "a copy of the table while it is written to", Source: "docs/guide/measure.md"},
		Look: func(v *engine.Vitals) string {
			reads, rows := v.Growth["Innodb_buffer_pool_reads"], inserted(v)
			return engine.When(rows >= busyRows && reads > rows/10, "%.0f pages/s read from disk beside %.0f rows/s inserted: %.2f a row", reads, rows, reads/rows)
		}, Try: engine.MoreMemory},
	{Finding: engine.Finding{Code: "log-waits", What: "transactions wait for room in the log buffer", Measured: true, Fix: "a larger innodb_log_buffer_size, and a restart", Cost: "that much memory", Source: manual + "innodb_log_buffer_size"},
		Look: func(v *engine.Vitals) string {
			n := v.Growth["Innodb_log_waits"]
			return engine.When(n > 1, "%.1f waits/s", n)
		}},
	setTo("metadata-wait", "lock_wait_timeout", func(v string) bool { n, _ := strconv.Atoi(v); return n > longWait }, "a DDL statement that waits behind a long transaction makes all inserts wait, and that for so long",
		"SET GLOBAL lock_wait_timeout = 60", "DDL statements give up, and are tried again", "lock_wait_timeout"),
	setTo("not-strict", "sql_mode", func(v string) bool {
		return !strings.Contains(v, "STRICT_TRANS_TABLES") && !strings.Contains(v, "STRICT_ALL")
	}, "values that don't fit are changed without an error",
		"SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',STRICT_TRANS_TABLES')", "statements with such values fail from then on", "Server SQL Modes"),
	{Finding: engine.Finding{Code: "local-time", What: "the server's zone has hours that repeat or are missing: NOW() and TIMESTAMP columns move with it", Fix: "default_time_zone = '+00:00' and a restart", Cost: "sessions that rely on local time set their own time_zone", Source: manual + "Time Zone Support"},
		Look: func(v *engine.Vitals) string {
			zone := v.Settings["time_zone"]
			if strings.EqualFold(zone, "SYSTEM") {
				zone = v.Settings["system_time_zone"]
			}
			if slices.Contains([]string{"UTC", "GMT", "+00:00", "Etc/UTC"}, zone) {
				return ""
			}
			return "time_zone = " + v.Settings["time_zone"] + ", which is " + zone
		}},
	setTo("no-local-infile", "local_infile", is("OFF", "0"), "LOAD DATA LOCAL is refused, and rowmill load inserts more slowly", "SET GLOBAL local_infile = ON", "clients may send files of their own: let them verify the server", "local_infile"),
	{Finding: engine.Finding{Code: "binlog-lost", What: "the binary log lacks transactions after a crash, and replicas differ", Fix: "SET GLOBAL sync_binlog = 1", Cost: "a sync for each group of commits", Source: manual + "sync_binlog"},
		Look: func(v *engine.Vitals) string {
			return engine.When(v.Settings["log_bin"] == "ON" && v.Settings["sync_binlog"] != "1", "log_bin = ON, sync_binlog = %s", v.Settings["sync_binlog"])
		}},
	{Finding: engine.Finding{Code: "binlog-statements", What: "replicas execute statements again, slowly, and may get other rows", Fix: "SET GLOBAL binlog_format = 'ROW'", Cost: "a larger binary log", Source: manual + "Replication Formats"},
		Look: func(v *engine.Vitals) string {
			return engine.When(v.Settings["log_bin"] == "ON" && v.Settings["binlog_format"] == "STATEMENT", "binlog_format = STATEMENT")
		}},
	{Finding: engine.Finding{Code: "query-cache", What: "each insert takes a global lock to remove answers from the query cache", Fix: "SET GLOBAL query_cache_type = OFF, query_cache_size = 0", Cost: "none for tables that are written to", Source: manual + "Query Cache"},
		Look: func(v *engine.Vitals) string {
			t := v.Settings["query_cache_type"]
			return engine.When(t != "" && t != "OFF" && t != "0" && v.Number("query_cache_size") > 0, "query_cache_type = %s, query_cache_size = %s", t, v.Settings["query_cache_size"])
		}},
	setTo("general-log", "general_log", is("ON", "1"), "each statement is written to a log first", "SET GLOBAL general_log = OFF", "none", "The General Query Log").Tried(engine.OtherValue("general_log", "OFF")),
	setTo("shared-tablespace", "innodb_file_per_table", is("OFF", "0"), "the space of dropped tables and partitions is never given back", "SET GLOBAL innodb_file_per_table = ON, and ALTER TABLE ... FORCE", "tables are copied", "innodb_file_per_table"),
	{Finding: engine.Finding{Code: "faulty-version", What: "this version doesn't start again if it has more than 10,000 tables", Fix: "the next release", Cost: "a restart", Source: "MySQL's release notes of 8.0.39, 8.4.2 and 9.0.1"},
		Look: func(v *engine.Vitals) string {
			number, _, _ := strings.Cut(v.Settings["version"], "-")
			return engine.When(slices.Contains([]string{"8.0.38", "8.4.1", "9.0.0"}, number), "version %s", number)
		}},
	{Finding: engine.Finding{Code: "long-transaction", What: "a transaction is open for so long that old versions of rows can't be removed, and DDL waits", Fix: "KILL, or the program that doesn't commit", Cost: "its changes are rolled back", Source: manual + "InnoDB Multi-Versioning", Measured: true},
		Look: func(v *engine.Vitals) string {
			age := v.Status["oldest transaction"]
			return engine.When(age > longTransaction, "the oldest transaction is open for %.0f s", age)
		}},
}

func redoSize(v *engine.Vitals) float64 {
	return cmp.Or(v.Number("innodb_redo_log_capacity"), v.Number("innodb_log_file_size")*cmp.Or(v.Number("innodb_log_files_in_group"), 1))
}

// inserted is the rate of inserts: Innodb_rows_inserted or, on new versions of MariaDB, which lack
// this figure, Handler_write, which also counts rows of temporary tables.
func inserted(v *engine.Vitals) float64 {
	return cmp.Or(v.Growth["Innodb_rows_inserted"], v.Growth["Handler_write"])
}

// examined are the settings that checks read.
var examined = append(slices.Clone(settings), "lock_wait_timeout", "time_zone", "system_time_zone", "local_infile")

// A doctor examines a server: see engine.Doctor.
type doctor struct{ *server }

func (db doctor) Examine(ctx context.Context, tables []string, interval time.Duration) ([]engine.Finding, error) {
	fail := func(err error) ([]engine.Finding, error) {
		return nil, fmt.Errorf("examine the server: %w", classify(err))
	}
	v, err := engine.ReadVitals(ctx, interval, func() (map[string]string, error) { return db.catalog().settings(ctx, examined) }, func() (map[string]float64, error) { return db.vitalStatus(ctx) })
	if err != nil {
		return fail(err)
	}
	out := engine.RunChecks(v, checks)
	for _, name := range tables {
		more, err := db.examineTail(ctx, name)
		if err != nil {
			return fail(err)
		}
		out = append(out, more...)
	}
	return out, nil
}

func (db doctor) vitalStatus(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	err := db.readStatus(ctx, db.pool, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_os_log_written', 'Innodb_rows_inserted', 'Handler_write', 'Innodb_buffer_pool_reads', 'Innodb_log_waits')", out)
	if err == nil {
		err = db.readStatus(ctx, db.pool, "SELECT 'oldest transaction', COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, NOW())), 0) FROM information_schema.INNODB_TRX", out)
		if missing(err) { // the account lacks PROCESS
			err = nil
		}
	}
	return out, err
}

// examineTail looks for a last partition without an end that has rows.
func (db doctor) examineTail(ctx context.Context, table string) (out []engine.Finding, err error) {
	err = engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name string
		if err := r.Scan(&name); err != nil {
			return err
		}
		var any int
		switch err := db.pool.QueryRowContext(ctx, "SELECT 1 FROM "+db.dialect.partitioner().partition(&engine.Table{Name: table}, name)+" LIMIT 1").Scan(&any); {
		case err == sql.ErrNoRows:
			return nil
		case err != nil:
			return err
		}
		out = append(out, engine.Finding{Code: "tail", Table: table, What: "the partition for all later rows has rows: it grows without end, and dividing it copies them while inserts wait", Evidence: "partition " + name + " VALUES LESS THAN MAXVALUE has rows",
			Fix: fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s INTO (...), and rowmill run, which creates partitions ahead", db.dialect.Quote(table), db.dialect.Quote(name)), Cost: "inserts wait until its rows are copied", Source: "docs/traps.md"})
		return nil
	}, "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND PARTITION_METHOD LIKE 'RANGE%' AND PARTITION_DESCRIPTION = 'MAXVALUE' AND PARTITION_NAME NOT LIKE 'rowmill%' LIMIT 1", table)
	return out, err
}

// Largest implements engine.Doctor. It reads the tables in which InnoDB keeps its statistics,
// because information_schema would open each table.
func (db doctor) Largest(ctx context.Context, n int) ([]string, error) {
	names, err := engine.List[string](ctx, db, db.pool, "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(table_name, '#P#', 1), '#p#', 1) AS name FROM mysql.innodb_table_stats WHERE database_name = DATABASE() "+
		"GROUP BY name ORDER BY SUM(clustered_index_size + sum_of_other_index_sizes) DESC LIMIT ?", n)
	if missing(err) { // the account may read only the tables of its own database
		names, err = engine.List[string](ctx, db, db.pool, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE' "+
			"ORDER BY DATA_LENGTH + INDEX_LENGTH DESC LIMIT ?", n)
	}
	return names, engine.About(ctx, err, "look for the largest tables")
}
