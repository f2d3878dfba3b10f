package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A catalog reads information_schema: see engine.Catalog.
type catalog struct{ *server }

func (db *server) Catalog() engine.Catalog { return db.catalog() }

func (db *server) catalog() catalog { return catalog{db} }

// exists renders the query of Exists.
func (d dialect) exists(t *engine.Table) string {
	return "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = " + quoteText(t.Name)
}

// parts renders the query of Partitions.
func (d dialect) parts(t *engine.Table) string {
	return "SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS " +
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = " + quoteText(t.Name) + " ORDER BY PARTITION_ORDINAL_POSITION"
}

func (db catalog) Exists(ctx context.Context, t *engine.Table) (bool, error) {
	var n int
	err := db.pool.QueryRowContext(ctx, db.dialect.exists(t)).Scan(&n)
	return n > 0, engine.About(ctx, classify(err), "look for table "+t.Name)
}

// Partitions implements engine.Catalog. It omits the floor and the gaps: see floorName, gapPrefix.
func (db catalog) Partitions(ctx context.Context, t *engine.Table) ([]rolling.Partition, error) {
	l, err := db.layout(ctx, db.pool, t)
	return l.parts, err
}

// A querent executes queries: a pool or a connection.
type querent interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// layout reads a table's partitions.
func (db catalog) layout(ctx context.Context, from querent, t *engine.Table) (layout, error) {
	var have []bounded
	found := false
	err := engine.Each(ctx, db, from, func(r *sql.Rows) error {
		found = true
		var name, bound sql.NullString
		if err := r.Scan(&name, &bound); err != nil || !name.Valid { // a plain table has one row without a name
			return err
		}
		to, err := parseBound(t, bound.String)
		if err != nil {
			return fmt.Errorf("partition %s: %w", name.String, err)
		}
		have = append(have, bounded{name.String, to})
		return nil
	}, db.dialect.parts(t))
	if err == nil && !found {
		err = engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	}
	if err != nil {
		return layout{}, fmt.Errorf("partitions of %s: %w", t.Name, err)
	}
	return layOut(t, have)
}

// statsExpiry is the MySQL variable for how long, in seconds, sizes are cached.
const statsExpiry = "information_schema_stats_expiry"

// fresh prepares a session for reading sizes, which MySQL 8.0 caches for a day.
func (d dialect) fresh() []string {
	if !d.remembers {
		return nil
	}
	return []string{"SET SESSION " + statsExpiry + " = 0"}
}

// sizes renders the query for the size of tables, from statistics that ANALYZE updates.
func (d dialect) sizes(tables ...*engine.Table) string {
	return "SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES " +
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (" + engine.QuoteList(engine.TableNames(tables), quoteText) + ")"
}

// settings are the settings that a run record has: durability, memory, flushing, logging, locking.
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

func (db catalog) Settings(ctx context.Context) (map[string]string, error) {
	return db.settings(ctx, settings)
}

func (db catalog) settings(ctx context.Context, names []string) (map[string]string, error) {
	out, err := engine.Pairs[string](ctx, db, db.pool, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ("+engine.QuoteList(names, quoteText)+")")
	return out, engine.About(ctx, err, "read settings")
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

// crashLoss returns the age up to which commits may be lost if the server's process is killed. If
// innodb_flush_log_at_trx_commit is 0, InnoDB keeps its log in memory for up to
// innodb_flush_log_at_timeout seconds; if it is 2, each commit passes the log to the operating
// system. If rocksdb_flush_log_at_trx_commit is 0 or 2, MyRocks keeps its log in memory for up to a
// second.
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

func (db catalog) Describe(ctx context.Context, name string) (*engine.Schema, error) {
	s := &engine.Schema{Name: name, Options: map[string]string{}}
	found := false
	err := engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		found = true
		var kind string
		var storage sql.NullString
		err := r.Scan(&kind, &storage)
		s.View = strings.Contains(kind, "VIEW")
		s.Options["engine"] = storage.String
		return err
	}, "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", name)
	if err == nil && !found {
		err = engine.Classed(engine.ErrNoTable, fmt.Errorf("no such table"))
	}
	s.Compacts = strings.EqualFold(s.Options["engine"], "rocksdb")
	for _, read := range []func(context.Context, *engine.Schema) error{
		db.describeColumns, db.describeKeys, db.describePartitions,
	} {
		if err == nil {
			err = read(ctx, s)
		}
	}
	if err == nil {
		s.Triggers, err = engine.List[string](ctx, db, db.pool, describeTriggers, name)
	}
	return s, engine.About(ctx, err, "describe table "+name)
}

func (db catalog) describeColumns(ctx context.Context, s *engine.Schema) error {
	return engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var c engine.SchemaColumn
		var nullable, extra string
		var value, collation sql.NullString
		if err := r.Scan(&c.Name, &c.Native, &nullable, &value, &extra, &collation); err != nil {
			return err
		}
		c.Collation = collation.String
		extra = strings.ToLower(extra)
		c.Null = nullable == "YES"
		c.Type = typeOf(c.Native)
		setExtra(&c, extra)
		c.Default = db.dialect.defaultText(c, value, strings.Contains(extra, "default_generated"))
		s.Columns = append(s.Columns, c)
		return nil
	}, "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, COLLATION_NAME FROM information_schema.COLUMNS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION", s.Name)
}

// setExtra sets a column's properties from the catalog's EXTRA, here in lower case.
func setExtra(c *engine.SchemaColumn, extra string) {
	c.Auto = strings.Contains(extra, "auto_increment")
	c.Virtual = strings.Contains(extra, "virtual generated")
	c.Generated = c.Virtual || strings.Contains(extra, "stored generated")
}

// expression matches a default that is an expression although MySQL 8.0.15 doesn't mark it as one.
var expression = regexp.MustCompile(`(?i)^(current_timestamp(\(\d?\))?|b'[01]*')$`)

// defaultText returns a default as SQL text. MariaDB's catalog has SQL text; MySQL's has values.
func (d dialect) defaultText(c engine.SchemaColumn, value sql.NullString, isExpression bool) string {
	switch {
	case !value.Valid || c.Generated:
		return ""
	case d.mariadb && value.String == "NULL":
		return ""
	case d.mariadb || expression.MatchString(value.String):
		return value.String
	case isExpression:
		return "(" + value.String + ")"
	}
	return quoteText(value.String)
}

func (db catalog) describeKeys(ctx context.Context, s *engine.Schema) error {
	parts, err := engine.ListOf(ctx, db, db.pool, func(r *sql.Rows, p *engine.KeyPart) error {
		var column sql.NullString // NULL for an expression
		err := r.Scan(&p.Index, &column, &p.Unique)
		p.Column, p.Primary, p.Other = column.String, p.Index == "PRIMARY", !column.Valid
		return err
	}, "SELECT INDEX_NAME, COLUMN_NAME, NON_UNIQUE = 0 FROM information_schema.STATISTICS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX", s.Name)
	s.SetKeys(parts)
	return err
}

const describeTriggers = "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS " +
	"WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ? ORDER BY TRIGGER_NAME"

func (db catalog) describePartitions(ctx context.Context, s *engine.Schema) error {
	return engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var method, expr, sub, subExpr sql.NullString
		if err := r.Scan(&method, &expr, &sub, &subExpr); err != nil {
			return err
		}
		s.Partitioned = method.String != ""
		if s.PartitionedBy = fmt.Sprintf("%s (%s)", method.String, expr.String); sub.Valid {
			s.PartitionedBy += fmt.Sprintf(", each period by %s (%s)", sub.String, subExpr.String)
			return nil
		}
		if strings.HasPrefix(method.String, "RANGE") {
			s.By, s.Bounds = recognize(expr.String, s.Columns)
		}
		return nil
	}, "SELECT PARTITION_METHOD, PARTITION_EXPRESSION, SUBPARTITION_METHOD, SUBPARTITION_EXPRESSION FROM information_schema.PARTITIONS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? LIMIT 1", s.Name)
}
