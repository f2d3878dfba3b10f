package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Doctor = (*DB)(nil)

const manual = "PostgreSQL's manual, "

// setTo returns a check of a setting that may not have certain values.
func setTo(code, setting string, bad []string, what, fix, cost, source string) engine.Check {
	return engine.Check{Finding: engine.Finding{Code: code, What: what, Fix: fix, Cost: cost, Source: manual + source}, Look: func(v *engine.Vitals) string {
		return engine.When(slices.Contains(bad, v.Settings[setting]), "%s = %s", setting, v.Settings[setting])
	}}
}

// counted returns a check of a counter of the vitals that should be 0; evidence formats its value.
func counted(code, counter, evidence, what, fix, cost, source string) engine.Check {
	return engine.Check{Finding: engine.Finding{Code: code, What: what, Fix: fix, Cost: cost, Source: manual + source, Measured: true}, Look: func(v *engine.Vitals) string {
		n := v.Status[counter]
		return engine.When(n > 0, evidence, n)
	}}
}

func alter(setting string) string {
	return "ALTER SYSTEM SET " + setting + "; SELECT pg_reload_conf()"
}

const (
	busyRows        = 100      // inserted a second; with fewer, counters tell nothing
	leastWAL        = 32 << 20 // bytes
	walMinutes      = 10       // of writes, which should fit into max_wal_size
	longTransaction = 300      // seconds
	wornAge         = 0.9      // of autovacuum_freeze_max_age
)

func redoTrial(v *engine.Vitals) *engine.Trial {
	return engine.RedoTrial(v.Status["max wal bytes"], v.Status["cache bytes"], leastWAL)
}

var checks = []engine.Check{
	setTo("commits-lost", "synchronous_commit", []string{"off"}, "rows that were acknowledged are lost if the server fails", alter("synchronous_commit = on"), "a sync of the log for each commit: larger batches, or more writers, share it", "Asynchronous Commit"),
	setTo("no-sync", "fsync", []string{"off"}, "the database is destroyed if the machine fails", alter("fsync = on"), "a sync of the log for each commit", "fsync"),
	setTo("torn-pages", "full_page_writes", []string{"off"}, "a page that is being written when the machine fails can't be repaired", alter("full_page_writes = on"), "a larger log: fewer checkpoints make it smaller", "full_page_writes"),
	setTo("no-autovacuum", "autovacuum", []string{"off"}, "nothing removes old versions of rows, or keeps transaction ids from running out", alter("autovacuum = on"), "its reads and writes, which autovacuum_vacuum_cost_delay spreads", "The Autovacuum Daemon"),
	setTo("no-counts", "track_counts", []string{"off"}, "autovacuum doesn't know which tables have changed, and rates can't be measured", alter("track_counts = on"), "none that can be measured", "track_counts"),
	setTo("statement-log", "log_statement", []string{"all", "mod"}, "each insert is written to the server's log, too", alter("log_statement = 'ddl'"), "none", "log_statement").Tried(engine.OtherValue("log_statement", "ddl")),
	setTo("early-spread", "checkpoint_completion_target", []string{"0", "0.1", "0.2", "0.3", "0.4", "0.5"}, "checkpoints write their pages in a burst", alter("checkpoint_completion_target = 0.9"), "a slightly longer recovery", "checkpoint_completion_target"),
	setTo("plain-wal", "wal_compression", []string{"off"}, "the log has whole pages after each checkpoint, uncompressed", alter("wal_compression = on"), "CPU time of the writers", "wal_compression").Tried(func(v *engine.Vitals) *engine.Trial {
		t := redoTrial(v)
		return &engine.Trial{Before: t.Before + "&set=wal_compression=off", After: t.Before + "&set=wal_compression=on", Size: t.Size}
	}),
	{Finding: engine.Finding{Code: "redo-small", What: "checkpoints come so often that pages are written, and logged as a whole, again and again", Measured: true, Fix: alter("max_wal_size = '16GB'"), Cost: "that much disk, and a longer recovery after a crash", Source: manual + "WAL Configuration"},
		Look: func(v *engine.Vitals) string {
			written, size := v.Growth["wal bytes"], v.Status["max wal bytes"]
			minutes := size / written / 60
			return engine.When(written > 0 && minutes < walMinutes && v.Growth["rows inserted"] >= busyRows, "max_wal_size is %.0f MiB, and %.2f MiB/s of log were written: it is full after %.1f minutes", size/(1<<20), written/(1<<20), minutes)
		}, Try: redoTrial},
	{Finding: engine.Finding{Code: "inserts-read", What: "inserts wait for pages from outside of shared_buffers: what they touch has outgrown it", Measured: true, Fix: "rowmill init --target URL, which says which tables would roll; or larger shared_buffers", Cost: "a copy of the table while it is written to", Source: "docs/guide/measure.md"},
		Look: func(v *engine.Vitals) string {
			reads, rows := v.Growth["blocks read"], v.Growth["rows inserted"]
			return engine.When(rows >= busyRows && reads > rows/10, "%.0f pages/s read beside %.0f rows/s inserted: %.2f a row", reads, rows, reads/rows)
		}, Try: engine.MoreMemory},
	{Finding: engine.Finding{Code: "local-time", What: "the server's zone has hours that repeat or are missing: now() without a zone, and days, move with it", Fix: alter("timezone = 'UTC'"), Cost: "sessions that rely on local time set their own timezone", Source: manual + "Time Zones"},
		Look: func(v *engine.Vitals) string {
			zone := v.Settings["TimeZone"]
			if slices.Contains([]string{"UTC", "GMT", "Etc/UTC", "Etc/GMT"}, zone) {
				return ""
			}
			return "timezone = " + zone
		}},
	counted("few-locks", "partitions without locks", "a table has %.0f partitions, more than the lock table was made for: max_locks_per_transaction * (max_connections + max_prepared_transactions)", "a query over all partitions fails for want of shared memory", "max_locks_per_transaction = 256 and a restart", "some memory", "max_locks_per_transaction"),
	counted("old-ids", "worn tables", "%.0f tables are close to autovacuum_freeze_max_age", "transaction ids run out unless these tables are vacuumed, which begins while inserts run", "VACUUM (FREEZE) of partitions that are no longer written to", "their pages are read and written once", "Preventing Transaction ID Wraparound Failures"),
	counted("long-transaction", "oldest transaction", "the oldest transaction is open for %.0f s", "a transaction is open for so long that old versions of rows can't be removed, and DDL waits", "SELECT pg_terminate_backend(pid), or idle_in_transaction_session_timeout", "its changes are rolled back", "idle_in_transaction_session_timeout"),
	counted("idle-slot", "idle slots", "%.0f replication slots have no reader", "a slot without a reader keeps all of the log, until the disk is full", "SELECT pg_drop_replication_slot(slot_name)", "that replica is made anew", "Replication Slots"),
	counted("no-standby", "waits for standbys", "synchronous_standby_names names %.0f that none is connected for", "each commit waits for a standby that isn't there", alter("synchronous_standby_names = ''"), "commits are on one machine alone", "synchronous_standby_names"),
}

// vitalStatus reads counters and numbers, and gives them names of rowmill's own.
const vitalStatus = `SELECT 'wal bytes', pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, '0/0')::float8
UNION ALL SELECT 'max wal bytes', pg_size_bytes(current_setting('max_wal_size'))::float8
UNION ALL SELECT 'cache bytes', pg_size_bytes(current_setting('shared_buffers'))::float8
UNION ALL SELECT 'rows inserted', tup_inserted::float8 FROM pg_stat_database WHERE datname = current_database()
UNION ALL SELECT 'blocks read', blks_read::float8 FROM pg_stat_database WHERE datname = current_database()
UNION ALL SELECT 'partitions without locks', COALESCE(max(n), 0)::float8 FROM (SELECT count(*) AS n FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent AND c.relkind = 'p' GROUP BY inhparent) p
	WHERE n > current_setting('max_locks_per_transaction')::float8 * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int)
UNION ALL SELECT 'worn tables', count(*)::float8 FROM pg_class WHERE relkind IN ('r', 't') AND age(relfrozenxid) > $1 * current_setting('autovacuum_freeze_max_age')::float8
UNION ALL SELECT 'oldest transaction', COALESCE(max(extract(epoch FROM now() - xact_start)), 0)::float8 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND now() - xact_start > $2 * interval '1 s'
UNION ALL SELECT 'idle slots', count(*)::float8 FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL
UNION ALL SELECT 'waits for standbys', count(*)::float8 FROM (SELECT 1 WHERE current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local')
	AND NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))) s`

// A doctor examines a server: see engine.Doctor.
type doctor struct{ *server }

func (db doctor) Examine(ctx context.Context, tables []string, interval time.Duration) ([]engine.Finding, error) {
	fail := func(err error) ([]engine.Finding, error) {
		return nil, fmt.Errorf("examine the server: %w", classify(err))
	}
	names := append(slices.Clone(settings), "track_counts", "log_statement", "checkpoint_completion_target", "wal_compression", "TimeZone", "synchronous_commit", "autovacuum")
	v, err := engine.ReadVitals(ctx, interval, func() (map[string]string, error) {
		// The settings of the server, not those that this session has changed.
		return engine.Pairs[string](ctx, db, db.pool, "SELECT name, COALESCE(reset_val, setting) FROM pg_settings WHERE name IN ("+engine.QuoteList(names, quoteText)+")")
	}, func() (map[string]float64, error) {
		return engine.Pairs[float64](ctx, db, db.pool, vitalStatus, wornAge, longTransaction)
	})
	if err != nil {
		return fail(err)
	}
	out := engine.RunChecks(v, checks)
	for _, name := range tables {
		more, err := db.examineDefault(ctx, name)
		if err != nil {
			return fail(err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// examineDefault looks for a default partition that has rows.
func (db doctor) examineDefault(ctx context.Context, table string) ([]engine.Finding, error) {
	s, err := db.catalog().Describe(ctx, table)
	if err != nil || s.Options["default_partition"] == "" {
		return nil, err
	}
	name := s.Options["default_partition"]
	var any int
	if err := db.pool.QueryRowContext(ctx, "SELECT 1 FROM "+name+" LIMIT 1").Scan(&any); err != nil {
		if err == sql.ErrNoRows {
			return nil, nil
		}
		return nil, err
	}
	return []engine.Finding{{Code: "tail", Table: table, What: "the partition for all other rows has rows: each new partition needs a scan of it, and no partition can be detached while inserts go on", Evidence: "default partition " + name + " has rows",
		Fix: fmt.Sprintf("a partition for its rows, and ALTER TABLE %s DETACH PARTITION %s", db.dialect.Quote(table), name), Cost: "inserts wait until its rows are moved", Source: "docs/traps.md"}}, nil
}

func (db doctor) Largest(ctx context.Context, n int) ([]string, error) {
	names, err := engine.List[string](ctx, db, db.pool, `SELECT relname::text FROM (SELECT COALESCE(p.relname, c.relname) AS relname, sum(c.relpages) AS pages FROM pg_class c
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition LEFT JOIN pg_class p ON p.oid = i.inhparent
		WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace GROUP BY 1) t ORDER BY pages DESC, relname LIMIT $1`, n)
	return names, engine.About(ctx, err, "look for the largest tables")
}
