package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

type catalog struct{ db *DB }

// Catalog implements engine.DB.
func (db *DB) Catalog() engine.Catalog { return catalog{db} }

// regclass renders the table's OID, which is NULL if the table does not exist.
func (d dialect) regclass(t *engine.Table) string {
	return "to_regclass(" + quoteText(d.Quote(t.Name)) + ")"
}

func (d dialect) exists(t *engine.Table) string {
	return "SELECT COUNT(*) FROM pg_class WHERE relkind IN ('r', 'p') AND oid = " + d.regclass(t)
}

// parts is the query for Partitions: one row for the table without partitions,
// and one for each of its partitions.
func (d dialect) parts(t *engine.Table) string {
	return "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_class p " +
		"LEFT JOIN pg_inherits i ON i.inhparent = p.oid LEFT JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition " +
		"WHERE p.relkind IN ('r', 'p') AND p.oid = " + d.regclass(t)
}

// pending is the query for partitions whose concurrent detach was interrupted.
func (d dialect) pending(t *engine.Table) string {
	return "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid " +
		"WHERE i.inhdetachpending AND i.inhparent = " + d.regclass(t)
}

// Exists implements engine.Catalog.
func (c catalog) Exists(ctx context.Context, t *engine.Table) (bool, error) {
	rows, err := c.db.query(ctx, c.db.dialect.exists(t))
	if err != nil {
		return false, fmt.Errorf("look for table %s: %w", t.Name, err)
	}
	return string(rows[0][0]) != "0", nil
}

// Partitions implements engine.Catalog. A partition whose detach was
// interrupted is included: DropPartition finishes it.
func (c catalog) Partitions(ctx context.Context, t *engine.Table) ([]rolling.Partition, error) {
	rows, err := c.db.query(ctx, c.db.dialect.parts(t))
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", t.Name, err)
	}
	if len(rows) == 0 {
		return nil, engine.Classed(engine.ErrNoTable, fmt.Errorf("partitions of %s: no such table", t.Name))
	}
	var parts []rolling.Partition
	for _, row := range rows {
		if row[0] == nil {
			continue // the table itself
		}
		p := rolling.Partition{Name: partitionName(t, string(row[0]))}
		if p.From, p.To, err = parseBounds(t, string(row[1])); err != nil {
			return nil, fmt.Errorf("partition %s of %s: %w", p.Name, t.Name, err)
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b rolling.Partition) int { return cmp.Compare(a.From, b.From) })
	return parts, nil
}

// relations is a query for the OIDs of tables and their partitions.
func (d dialect) relations(tables ...*engine.Table) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = d.regclass(t)
	}
	return "SELECT c.oid FROM pg_class c WHERE c.relkind = 'r' AND (c.oid IN (" + strings.Join(names, ", ") + ") " +
		"OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent IN (" + strings.Join(names, ", ") + ")))"
}

// sizes is the query for the sizes of tables. The first size is the rows with
// TOAST, the free space map, the visibility map and the primary key; the second
// is all other indexes.
func (d dialect) sizes(tables ...*engine.Table) string {
	return "SELECT " + sizeColumns + " FROM (" + d.relations(tables...) + ") r"
}

// sizeColumns computes the two sizes over the relations r.
const sizeColumns = "COALESCE(sum(pg_table_size(r.oid) + " +
	"COALESCE((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = r.oid AND i.indisprimary), 0)), 0) AS data, " +
	"COALESCE(sum((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = r.oid AND NOT i.indisprimary)), 0) AS index"

// Sizes implements engine.Catalog.
func (c catalog) Sizes(ctx context.Context, t *engine.Table) (engine.Sizes, error) {
	rows, err := c.db.query(ctx, c.db.dialect.sizes(t))
	if err != nil {
		return engine.Sizes{}, fmt.Errorf("measure table %s: %w", t.Name, err)
	}
	var s engine.Sizes
	for i, to := range []*int64{&s.Data, &s.Index} {
		if *to, err = strconv.ParseInt(string(rows[0][i]), 10, 64); err != nil {
			return engine.Sizes{}, fmt.Errorf("measure table %s: %w", t.Name, err)
		}
	}
	return s, nil
}

// settings are the parameters to keep in a run record: those that affect
// durability, memory, writing, logging, vacuum and locking. A parameter that
// the server does not have is omitted.
var settings = []string{
	"autovacuum", "autovacuum_max_workers", "autovacuum_naptime", "autovacuum_vacuum_cost_delay", "autovacuum_vacuum_cost_limit",
	"autovacuum_vacuum_insert_scale_factor", "autovacuum_vacuum_insert_threshold", "autovacuum_vacuum_scale_factor",
	"backend_flush_after", "bgwriter_delay", "bgwriter_flush_after", "bgwriter_lru_maxpages", "bgwriter_lru_multiplier", "block_size",
	"checkpoint_completion_target", "checkpoint_flush_after", "checkpoint_timeout", "commit_delay", "commit_siblings",
	"data_checksums", "debug_io_direct", "deadlock_timeout", "default_table_access_method", "default_toast_compression",
	"default_transaction_isolation", "effective_cache_size", "effective_io_concurrency", "fsync", "full_page_writes", "huge_pages",
	"io_method", "io_workers", "jit", "lock_timeout", "log_statement", "maintenance_work_mem", "max_connections",
	"max_wal_senders", "max_wal_size", "min_wal_size", "random_page_cost", "server_encoding", "server_version", "shared_buffers",
	"shared_preload_libraries", "statement_timeout", "synchronous_commit", "synchronous_standby_names", "temp_buffers",
	"track_io_timing", "track_wal_io_timing", "wal_buffers", "wal_compression", "wal_init_zero", "wal_level", "wal_recycle",
	"wal_segment_size", "wal_sync_method", "wal_writer_delay", "wal_writer_flush_after", "work_mem",
}

// Settings implements engine.Catalog.
func (c catalog) Settings(ctx context.Context) (map[string]string, error) {
	quoted := make([]string, len(settings))
	for i, s := range settings {
		quoted[i] = quoteText(s)
	}
	rows, err := c.db.query(ctx, "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ("+strings.Join(quoted, ", ")+")")
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	out := map[string]string{}
	for _, row := range rows {
		out[string(row[0])] = string(row[1])
	}
	return out, nil
}

// durability describes the failures that a commit survives under the settings.
// With synchronous_commit off the server writes commits up to three times
// wal_writer_delay later, 0.6 s by default, so a crash of the server alone
// loses that much, too.
func durability(settings map[string]string) string {
	switch {
	case settings["fsync"] == "off":
		return "none"
	case settings["synchronous_commit"] == "off":
		return "relaxed"
	}
	return "full"
}

// walWriterRounds is the maximum number of rounds of the WAL writer until an
// asynchronous commit is written:
// https://www.postgresql.org/docs/current/wal-async-commit.html.
const walWriterRounds = 3

// crashLoss returns the time span whose commits may be lost when the server's
// processes are killed. With fsync off nothing is lost in that case: the
// operating system already has the WAL.
func crashLoss(settings map[string]string) time.Duration {
	if settings["synchronous_commit"] != "off" {
		return 0
	}
	delay, err := time.ParseDuration(strings.Replace(settings["wal_writer_delay"], "min", "m", 1))
	if err != nil {
		delay = 200 * time.Millisecond // the default
	}
	return walWriterRounds * delay
}
