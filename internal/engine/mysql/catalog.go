package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

type catalog struct{ db *DB }

// Catalog implements engine.DB.
func (db *DB) Catalog() engine.Catalog { return catalog{db} }

// exists renders the query of Exists.
func (d dialect) exists(t *engine.Table) string {
	return "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = " + quoteText(t.Name)
}

// parts renders the query of Partitions.
func (d dialect) parts(t *engine.Table) string {
	return "SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS " +
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = " + quoteText(t.Name) + " ORDER BY PARTITION_ORDINAL_POSITION"
}

// Exists implements engine.Catalog.
func (c catalog) Exists(ctx context.Context, t *engine.Table) (bool, error) {
	var n int
	err := c.db.pool.QueryRowContext(ctx, c.db.dialect.exists(t)).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look for table %s: %w", t.Name, classify(err))
	}
	return n > 0, nil
}

// Partitions implements engine.Catalog. It leaves out the floor.
func (c catalog) Partitions(ctx context.Context, t *engine.Table) ([]rolling.Partition, error) {
	l, err := c.db.layout(ctx, c.db.pool, t)
	return l.parts, err
}

// A querent executes queries: a pool or a connection.
type querent interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// layout reads a table's partitions.
func (db *DB) layout(ctx context.Context, from querent, t *engine.Table) (layout, error) {
	fail := func(err error) (layout, error) {
		return layout{}, fmt.Errorf("partitions of %s: %w", t.Name, classify(err))
	}
	rows, err := from.QueryContext(ctx, db.dialect.parts(t))
	if err != nil {
		return fail(err)
	}
	defer rows.Close()
	var have []bounded
	found := false
	for rows.Next() {
		found = true
		var name, bound sql.NullString
		if err := rows.Scan(&name, &bound); err != nil {
			return fail(err)
		}
		if !name.Valid {
			continue // the single row of a plain table
		}
		to, err := parseBound(t, bound.String)
		if err != nil {
			return layout{}, fmt.Errorf("partition %s of %s: %w", name.String, t.Name, err)
		}
		have = append(have, bounded{name.String, to})
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	if !found {
		return fail(engine.Classed(engine.ErrNoTable, errors.New("no such table")))
	}
	return layOut(t, have)
}

// statsExpiry is the MySQL variable for how long, in seconds, sizes are cached.
const statsExpiry = "information_schema_stats_expiry"

// fresh renders the statements that prepare a session for reading sizes. MySQL 8.0
// returns cached sizes for a day; MariaDB always reads them.
func (d dialect) fresh() []string {
	if !d.remembers {
		return nil
	}
	return []string{"SET SESSION " + statsExpiry + " = 0"}
}

// sizes renders the query for the size of tables. DATA_LENGTH and INDEX_LENGTH come
// from the engine's statistics, which ANALYZE updates.
func (d dialect) sizes(tables ...*engine.Table) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = quoteText(t.Name)
	}
	return "SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES " +
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (" + strings.Join(names, ", ") + ")"
}

// settings are the variables that are kept in a record: those that affect
// durability, memory, flushing, logging and locking. Variables that a server
// doesn't have are left out.
var settings = []string{
	"version", "version_comment", "autocommit", "binlog_format", "binlog_row_image", "sync_binlog", "log_bin",
	statsExpiry, "innodb_adaptive_flushing", "innodb_adaptive_hash_index", "innodb_autoinc_lock_mode", "innodb_buffer_pool_chunk_size",
	"innodb_buffer_pool_instances", "innodb_buffer_pool_size", "innodb_change_buffering", "innodb_checksum_algorithm",
	"innodb_compression_default", "innodb_doublewrite", "innodb_file_per_table", "innodb_flush_log_at_timeout",
	"innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_flush_neighbors", "innodb_flushing_avg_loops",
	"innodb_io_capacity", "innodb_io_capacity_max", "innodb_log_buffer_size", "innodb_log_file_size",
	"innodb_log_files_in_group", "innodb_log_write_ahead_size", "innodb_lru_scan_depth", "innodb_max_dirty_pages_pct",
	"innodb_max_dirty_pages_pct_lwm", "innodb_page_cleaners", "innodb_page_size", "innodb_purge_threads",
	"innodb_read_io_threads", "innodb_redo_log_capacity", "innodb_use_native_aio", "innodb_write_io_threads",
	"max_allowed_packet", "max_connections", "performance_schema", "query_cache_size", "query_cache_type",
	"rocksdb_block_cache_size", "rocksdb_block_size", "rocksdb_bulk_load", "rocksdb_db_write_buffer_size",
	"rocksdb_flush_log_at_trx_commit", "rocksdb_max_background_jobs", "rocksdb_wal_recovery_mode",
	"rocksdb_use_direct_reads", "rocksdb_use_direct_io_for_flush_and_compaction",
	"slow_query_log", "general_log", "sql_mode", "table_open_cache", "thread_handling", "transaction_isolation",
	"tx_isolation", "unique_checks",
}

// Settings implements engine.Catalog.
func (c catalog) Settings(ctx context.Context) (map[string]string, error) {
	quoted := make([]string, len(settings))
	for i, s := range settings {
		quoted[i] = quoteText(s)
	}
	out := map[string]string{}
	rows, err := c.db.pool.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ("+strings.Join(quoted, ", ")+")")
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", classify(err))
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, fmt.Errorf("read settings: %w", classify(err))
		}
		out[name] = value
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read settings: %w", classify(err))
	}
	return out, nil
}

// durability returns the durability of a commit under the settings.
func durability(settings map[string]string, storage string) string {
	name := "innodb_flush_log_at_trx_commit"
	switch strings.ToLower(storage) {
	case "innodb":
	case "rocksdb":
		name = "rocksdb_flush_log_at_trx_commit"
	default:
		return ""
	}
	switch settings[name] {
	case "1", "3":
		if settings["log_bin"] == "ON" && settings["sync_binlog"] == "0" {
			return "relaxed"
		}
		return "full"
	case "2":
		return "relaxed"
	case "0":
		return "none"
	}
	return ""
}

// crashLoss returns for how long commits may be lost when the server's process is
// killed. InnoDB with innodb_flush_log_at_trx_commit 0, and MyRocks with
// rocksdb_flush_log_at_trx_commit 0 or 2, keep their log in the process's memory
// until a thread writes it: InnoDB every innodb_flush_log_at_timeout seconds,
// MyRocks every second. With InnoDB's 2, the operating system has the log at
// commit, so that killing the process loses nothing.
func crashLoss(settings map[string]string, storage string) time.Duration {
	switch strings.ToLower(storage) {
	case "innodb":
		if settings["innodb_flush_log_at_trx_commit"] == "0" {
			n, _ := strconv.Atoi(settings["innodb_flush_log_at_timeout"])
			return time.Duration(max(n, 1)) * time.Second
		}
	case "rocksdb":
		if v := settings["rocksdb_flush_log_at_trx_commit"]; v == "0" || v == "2" {
			return time.Second
		}
	}
	return 0
}
