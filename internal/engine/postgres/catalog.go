package postgres

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

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A catalog reads pg_catalog: see engine.Catalog.
type catalog struct{ *server }

func (db *server) Catalog() engine.Catalog { return db.catalog() }

func (db *server) catalog() catalog { return catalog{db} }

// regclass renders a table's OID, which is NULL if the table does not exist.
func (d dialect) regclass(name string) string { return "to_regclass(" + quoteText(d.Quote(name)) + ")" }

func (d dialect) exists(t *engine.Table) string {
	return "SELECT COUNT(*) FROM pg_class WHERE relkind IN ('r', 'p') AND oid = " + d.regclass(t.Name)
}

// parts is the query for Partitions: a row for each, or one of NULLs for a table without any.
func (d dialect) parts(t *engine.Table) string {
	return "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), CASE WHEN NOT pg_table_is_visible(c.oid) THEN c.oid::regclass::text END, c.relkind::text FROM pg_class p " +
		"LEFT JOIN pg_inherits i ON i.inhparent = p.oid LEFT JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition " +
		"WHERE p.relkind IN ('r', 'p') AND p.oid = " + d.regclass(t.Name)
}

// pending is the query for partitions whose concurrent detach was interrupted.
func (d dialect) pending(t *engine.Table) string {
	return "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid " +
		"WHERE i.inhdetachpending AND i.inhparent = " + d.regclass(t.Name)
}

func (db catalog) Exists(ctx context.Context, t *engine.Table) (bool, error) {
	rows, err := db.query(ctx, db.dialect.exists(t))
	if err != nil {
		return false, fmt.Errorf("look for table %s: %w", t.Name, err)
	}
	return string(rows[0][0]) != "0", nil
}

// dropped reports whether a row describes a partition that was dropped while the statement ran. The
// statement's snapshot still has the partition, but pg_get_expr reads the catalog as it is now and
// returns NULL. Partitions that have replaced the dropped one are missing from the result.
func dropped(row [][]byte) bool { return row[0] != nil && row[1] == nil }

// mostReads is how often the partitions are read again if some were dropped meanwhile.
const mostReads = 20

// Partitions also returns a partition whose detach was interrupted: DropPartition finishes it. If
// the table has a default partition, an engine.DefaultError accompanies the other partitions.
func (db catalog) Partitions(ctx context.Context, t *engine.Table) ([]rolling.Partition, error) {
	rows, err := db.query(ctx, db.dialect.parts(t))
	for n := 0; err == nil && n < mostReads && slices.ContainsFunc(rows, dropped); n++ {
		rows, err = db.query(ctx, db.dialect.parts(t))
	}
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", t.Name, err)
	}
	if len(rows) == 0 {
		return nil, engine.Classed(engine.ErrNoTable, fmt.Errorf("partitions of %s: no such table", t.Name))
	}
	var parts []rolling.Partition
	var byDefault error
	for _, row := range rows {
		if row[0] == nil {
			continue // the table itself
		}
		p := rolling.Partition{Name: partitionName(t, string(row[0]))}
		if string(row[1]) == "DEFAULT" {
			p.Period = t.Grid.Bounds()
			byDefault = engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("partitions of %s: %w", t.Name, &engine.DefaultError{Part: p})),
				"rowmill apply FILE, which replaces it by periods")
			continue
		}
		if p.From, p.To, err = parseBounds(t, string(row[1])); err != nil {
			return nil, fmt.Errorf("partition %s of %s: %w", p.Name, t.Name, err)
		}
		if string(row[3]) == "p" {
			return nil, engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("partition %s of %s has partitions of its own", childName(t, p), t.Name)),
				"CREATE TABLE ... (LIKE %[1]s INCLUDING ALL), with its rows, to be attached in its place; or a plain table with the rows of %[1]s, which rowmill apply adopts", db.dialect.Quote(t.Name))
		}
		if row[2] != nil {
			return nil, engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("partition %s of %s is in a schema that isn't in search_path", p.Name, t.Name)),
				"ALTER TABLE %s SET SCHEMA, with that of table %s", row[2], t.Name)
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b rolling.Partition) int { return cmp.Compare(a.From, b.From) })
	return parts, byDefault
}

// relations is a query for the OIDs of tables and their partitions.
func (d dialect) relations(tables ...*engine.Table) string {
	list := engine.QuoteList(engine.TableNames(tables), d.regclass)
	return "SELECT c.oid FROM pg_class c WHERE c.relkind = 'r' AND (c.oid IN (" + list + ") " +
		"OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent IN (" + list + ")))"
}

// sizes is the query for two sizes: data (rows, TOAST, maps and primary key) and other indexes.
func (d dialect) sizes(tables ...*engine.Table) string {
	return "SELECT " + sizeColumns + " FROM (" + d.relations(tables...) + ") r"
}

// sizeColumns computes the two sizes over the relations r.
const sizeColumns = "COALESCE(sum(pg_table_size(r.oid) + " +
	"COALESCE((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = r.oid AND i.indisprimary), 0)), 0) AS data, " +
	"COALESCE(sum((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = r.oid AND NOT i.indisprimary)), 0) AS index"

func (db catalog) Sizes(ctx context.Context, t *engine.Table) (engine.Sizes, error) {
	rows, err := db.query(ctx, db.dialect.sizes(t))
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

// settings are kept in a run record: durability, memory, writing, logging, vacuum, locking.
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

func (db catalog) Settings(ctx context.Context) (map[string]string, error) {
	rows, err := db.query(ctx, "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ("+engine.QuoteList(settings, quoteText)+")")
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	out := map[string]string{}
	for _, row := range rows {
		out[string(row[0])] = string(row[1])
	}
	return out, nil
}

// durability describes the failures that a commit survives. With synchronous_commit off, the server
// writes a commit up to 3 times wal_writer_delay later: a crash of the server alone loses the
// commits of that time.
func durability(settings map[string]string) string {
	switch {
	case settings["fsync"] == "off":
		return "none"
	case settings["synchronous_commit"] == "off":
		return "relaxed"
	}
	return "full"
}

// walWriterRounds is the most rounds that the WAL writer needs to write an asynchronous commit:
// https://www.postgresql.org/docs/current/wal-async-commit.html.
const walWriterRounds = 3

// crashLoss returns the time span whose commits may be lost when the server's processes are killed.
// fsync doesn't matter: the operating system has the WAL that was written.
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

// describeTable reads the table's properties from pg_class; $1 is the quoted name.
const describeTable = `SELECT c.oid, c.relkind::text,
	COALESCE((SELECT k.attname FROM pg_partitioned_table p JOIN pg_attribute k ON k.attrelid = p.partrelid AND k.attnum = p.partattrs[0]
		JOIN pg_type ty ON ty.oid = k.atttypid
		WHERE p.partrelid = c.oid AND p.partstrat = 'r' AND p.partnatts = 1
		AND ty.typname IN ('int2', 'int4', 'int8', 'timestamp', 'timestamptz', 'date')), ''), COALESCE(pg_get_partkeydef(c.oid), ''),
	COALESCE((SELECT p.partdefid::regclass::text FROM pg_partitioned_table p WHERE p.partrelid = c.oid AND p.partdefid <> 0), '')
FROM pg_class c WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.oid = to_regclass($1::text)`

const describeColumns = `SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, COALESCE(b.typname, t.typname), a.attgenerated <> '',
	a.attidentity::text, COALESCE(pg_get_expr(d.adbin, d.adrelid), ''),
	COALESCE((SELECT quote_ident(n.nspname) || '.' || quote_ident(co.collname) FROM pg_collation co JOIN pg_namespace n ON n.oid = co.collnamespace
		WHERE co.oid = a.attcollation AND a.attcollation <> t.typcollation), '')
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

// describeIndexes returns a row for each key column, but none for columns of INCLUDE.
const describeIndexes = `SELECT c.relname, i.indisprimary, i.indisunique, i.indpred IS NOT NULL,
	COALESCE(a.attname, pg_get_indexdef(i.indexrelid, k, true))
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) k
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k - 1] AND a.attnum <> 0
WHERE i.indrelid = $1::oid ORDER BY c.relname, k`

const describeTriggers = `SELECT tgname FROM pg_trigger WHERE tgrelid = $1::oid AND NOT tgisinternal ORDER BY tgname`

// Describe implements engine.Keeper. Options may have "default_partition", and "identity": the
// columns that accept a value only with OVERRIDING SYSTEM VALUE, such as "always: id".
func (db catalog) Describe(ctx context.Context, name string) (*engine.Schema, error) {
	s, err := db.describe(ctx, name)
	return s, engine.About(ctx, classify(err), "describe table "+name)
}

func (db catalog) describe(ctx context.Context, name string) (*engine.Schema, error) {
	// One transaction, so that all queries use the same snapshot.
	tx, err := db.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	s := &engine.Schema{Name: name, Options: map[string]string{}}
	var oid int64
	var kind, fallback string
	err = tx.QueryRowContext(ctx, describeTable, db.dialect.Quote(name)).
		Scan(&oid, &kind, &s.By, &s.PartitionedBy, &fallback)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	}
	if err != nil {
		return nil, err
	}
	s.Partitioned, s.View = kind == "p", kind == "v" || kind == "m"
	if fallback != "" {
		s.Options["default_partition"] = fallback
	}
	if err := db.readColumns(ctx, tx, oid, s); err != nil {
		return nil, err
	}
	if err := db.readIndexes(ctx, tx, oid, s); err != nil {
		return nil, err
	}
	if s.Triggers, err = engine.List[string](ctx, db, tx, describeTriggers, oid); err != nil {
		return nil, err
	}
	return s, tx.Commit()
}

func (db catalog) readColumns(ctx context.Context, tx *sql.Tx, oid int64, s *engine.Schema) error {
	var always []string
	err := engine.Each(ctx, db, tx, func(rows *sql.Rows) error {
		var c engine.SchemaColumn
		var base, identity string
		if err := rows.Scan(&c.Name, &c.Native, &c.Null, &base, &c.Generated, &identity, &c.Default, &c.Collation); err != nil {
			return err
		}
		c.Type = typeOf(base, c.Native)
		c.Auto = identity != "" || strings.HasPrefix(c.Default, "nextval(")
		if identity == "a" {
			always = append(always, c.Name)
		}
		if c.Generated {
			c.Default = "" // the expression of a generated column
		}
		s.Columns = append(s.Columns, c)
		return nil
	}, describeColumns, oid)
	if len(always) > 0 {
		s.Options["identity"] = "always: " + strings.Join(always, ", ")
	}
	return err
}

func (db catalog) readIndexes(ctx context.Context, tx *sql.Tx, oid int64, s *engine.Schema) error {
	parts, err := engine.ListOf(ctx, db, tx, func(rows *sql.Rows, p *engine.KeyPart) error {
		return rows.Scan(&p.Index, &p.Primary, &p.Unique, &p.Other, &p.Column)
	}, describeIndexes, oid)
	s.SetKeys(parts)
	return err
}
