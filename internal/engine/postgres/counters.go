package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

// statViews are the statistics views that are read as a whole. Some versions of
// the server lack some of them.
var statViews = []string{"pg_stat_database", "pg_stat_bgwriter", "pg_stat_checkpointer", "pg_stat_wal", "pg_stat_io"}

const (
	unitPages, unitOps, unitBytes, unitRows = "pages", "ops", "bytes", "rows"
	usPerMs                                 = 1000
)

// sources are the counters, as columns of statistics views, which differ between server
// versions. The server's statistics lag by up to a second; WAL positions and sizes don't.
var sources = []engine.Source{
	{Counter: engine.Counter{Name: "tuples_inserted", Unit: unitRows, Cumulative: true, Help: "rows inserted into any table of the database"}, Of: []string{"pg_stat_database.tup_inserted"}},
	{Counter: engine.Counter{Name: "transactions_committed", Unit: unitOps, Cumulative: true, Help: "transactions committed in the database"}, Of: []string{"pg_stat_database.xact_commit"}},
	{Counter: engine.Counter{Name: engine.CounterPageReads, Unit: unitPages, Cumulative: true, Help: "pages not found in shared_buffers, read from the kernel's cache or from disk"}, Of: []string{"pg_stat_database.blks_read"}},
	{Counter: engine.Counter{Name: engine.CounterPageRequests, Unit: unitPages, Cumulative: true, Help: "pages asked of shared_buffers"}, Of: []string{"pg_stat_database.blks_read", "pg_stat_database.blks_hit"}},
	{Counter: engine.Counter{Name: engine.CounterPageWrites, Unit: unitPages, Cumulative: true, Help: "pages written by checkpoints, the background writer and (before 17) backends"},
		Of: []string{"pg_stat_bgwriter.buffers_checkpoint", "pg_stat_checkpointer.buffers_written", "pg_stat_bgwriter.buffers_clean", "pg_stat_bgwriter.buffers_backend"}},
	{Counter: engine.Counter{Name: "page_writes_backend", Unit: unitPages, Cumulative: true, Help: "pages that backends had to write themselves, also to make a table longer"}, Of: []string{"pg_stat_bgwriter.buffers_backend"}},
	{Counter: engine.Counter{Name: "page_writes_bgwriter", Unit: unitPages, Cumulative: true, Help: "pages that the background writer wrote to make room"}, Of: []string{"pg_stat_bgwriter.buffers_clean"}},
	{Counter: engine.Counter{Name: "cache_allocated_pages", Unit: unitPages, Cumulative: true, Help: "pages of shared_buffers taken for another page"}, Of: []string{"pg_stat_bgwriter.buffers_alloc"}},
	{Counter: engine.Counter{Name: "checkpoints_timed", Unit: unitOps, Cumulative: true, Help: "checkpoints begun by checkpoint_timeout"}, Of: []string{"pg_stat_bgwriter.checkpoints_timed", "pg_stat_checkpointer.num_timed"}},
	{Counter: engine.Counter{Name: "checkpoints_requested", Unit: unitOps, Cumulative: true, Help: "checkpoints begun by max_wal_size, or asked for"}, Of: []string{"pg_stat_bgwriter.checkpoints_req", "pg_stat_checkpointer.num_requested"}},
	{Counter: engine.Counter{Name: "checkpoint_write_us", Unit: "us", Cumulative: true, Help: "time that checkpoints spent writing pages"}, Of: []string{"pg_stat_bgwriter.checkpoint_write_time", "pg_stat_checkpointer.write_time"}, Scale: usPerMs},
	{Counter: engine.Counter{Name: "checkpoint_sync_us", Unit: "us", Cumulative: true, Help: "time that checkpoints spent syncing files"}, Of: []string{"pg_stat_bgwriter.checkpoint_sync_time", "pg_stat_checkpointer.sync_time"}, Scale: usPerMs},
	{Counter: engine.Counter{Name: "wal_full_page_images", Unit: unitPages, Cumulative: true, Help: "whole pages written to the WAL, as the first change after a checkpoint does"}, Of: []string{"pg_stat_wal.wal_fpi"}},
	{Counter: engine.Counter{Name: engine.CounterLogWaits, Unit: unitOps, Cumulative: true, Help: "writes because wal_buffers were full"}, Of: []string{"pg_stat_wal.wal_buffers_full"}},
	{Counter: engine.Counter{Name: "wal_writes", Unit: unitOps, Cumulative: true, Help: "writes of the WAL"}, Of: []string{"pg_stat_wal.wal_write"}},
	{Counter: engine.Counter{Name: engine.CounterFsyncs, Unit: unitOps, Cumulative: true, Help: "syncs of the WAL and, from 16 on, of tables"}, Of: []string{"pg_stat_wal.wal_sync", "pg_stat_io.fsyncs"}},
	{Counter: engine.Counter{Name: "io_reads", Unit: unitOps, Cumulative: true, Help: "reads of tables and indexes, by pg_stat_io"}, Of: []string{"pg_stat_io.reads"}},
	{Counter: engine.Counter{Name: "io_writes", Unit: unitOps, Cumulative: true, Help: "writes of tables and indexes, by pg_stat_io"}, Of: []string{"pg_stat_io.writes"}},
	{Counter: engine.Counter{Name: "io_extends", Unit: unitOps, Cumulative: true, Help: "lengthenings of tables and indexes, by pg_stat_io"}, Of: []string{"pg_stat_io.extends"}},
	{Counter: engine.Counter{Name: "io_evictions", Unit: unitOps, Cumulative: true, Help: "pages that had to leave shared_buffers for others, by pg_stat_io"}, Of: []string{"pg_stat_io.evictions"}},
	{Counter: engine.Counter{Name: "deadlocks", Unit: unitOps, Cumulative: true, Help: "deadlocks in the database"}, Of: []string{"pg_stat_database.deadlocks"}},
	{Counter: engine.Counter{Name: "temp_written_bytes", Unit: unitBytes, Cumulative: true, Help: "temporary files written by queries"}, Of: []string{"pg_stat_database.temp_bytes"}},

	{Counter: engine.Counter{Name: engine.CounterRedoWritten, Unit: unitBytes, Cumulative: true, Help: "WAL written, by its position"}, Of: []string{"now.wal"}},
	{Counter: engine.Counter{Name: engine.CounterCheckpointAge, Unit: unitBytes, Help: "WAL written since where the last checkpoint began"}, Of: []string{"now.checkpoint_age"}},
	{Counter: engine.Counter{Name: engine.CounterCheckpointMax, Unit: unitBytes, Help: "max_wal_size: the next checkpoint begins before this, and writes are not held up"}, Of: []string{"now.max_wal_size"}},
	{Counter: engine.Counter{Name: engine.CounterCache, Unit: unitBytes, Help: "shared_buffers"}, Of: []string{"now.shared_buffers"}},

	{Counter: engine.Counter{Name: "backends_active", Help: "connections that execute a statement"}, Of: []string{"now.active"}},
	{Counter: engine.Counter{Name: "backends_waiting_lock", Help: "connections that wait for a lock of another"}, Of: []string{"now.waiting_lock"}},
	{Counter: engine.Counter{Name: "backends_waiting_lwlock", Help: "connections that wait for a lock inside the server, of the WAL or a page"}, Of: []string{"now.waiting_lwlock"}},
	{Counter: engine.Counter{Name: "backends_waiting_io", Help: "connections that wait for a read, a write or a sync"}, Of: []string{"now.waiting_io"}},
	{Counter: engine.Counter{Name: "autovacuum_workers", Help: "autovacuum's workers at work"}, Of: []string{"now.autovacuum_workers"}},

	{Counter: engine.Counter{Name: "dead_tuples", Unit: unitRows, Help: "rows of the tables that are dead and not yet vacuumed, by the server's estimate"}, Of: []string{"tables.dead"}},
	{Counter: engine.Counter{Name: engine.CounterPartitionCount, Help: "tables, or the partitions of those that have them"}, Of: []string{"tables.count"}},
	{Counter: engine.Counter{Name: engine.CounterTableData, Unit: unitBytes, Help: "rows, also those out of line, with the primary key"}, Of: []string{"tables.data"}},
	{Counter: engine.Counter{Name: engine.CounterTableIndex, Unit: unitBytes, Help: "secondary indexes"}, Of: []string{"tables.index"}},
}

// sample renders the queries that Counters sends as one message. Each returns
// rows of columns identified by name; the values of several rows are added up.
func (d dialect) sample(tables []*engine.Table) []string {
	var out []string
	for _, v := range d.views {
		q := "SELECT '" + v + "' AS source, * FROM " + v
		if v == "pg_stat_database" {
			q += " WHERE datname = current_database()"
		}
		out = append(out, q)
	}
	out = append(out,
		"SELECT 'now' AS source, w.lsn - '0/0' AS wal, w.lsn - c.redo_lsn AS checkpoint_age, "+
			"pg_size_bytes(current_setting('max_wal_size')) AS max_wal_size, pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers "+
			"FROM pg_control_checkpoint() c, "+
			"(SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END AS lsn) w",
		"SELECT 'now' AS source, count(*) FILTER (WHERE state = 'active' AND pid <> pg_backend_pid()) AS active, "+
			"count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting_lock, count(*) FILTER (WHERE wait_event_type = 'LWLock') AS waiting_lwlock, "+
			"count(*) FILTER (WHERE wait_event_type = 'IO') AS waiting_io, "+
			"count(*) FILTER (WHERE backend_type = 'autovacuum worker') AS autovacuum_workers FROM pg_stat_activity")
	if len(tables) == 0 {
		return out
	}
	return append(out, "SELECT 'tables' AS source, "+sizeColumns+", count(*) AS count, "+
		"COALESCE(sum(pg_stat_get_dead_tuples(r.oid)), 0) AS dead FROM ("+d.relations(tables...)+") r")
}

func (db *server) Counters(ctx context.Context, tables ...*engine.Table) (engine.Counters, error) {
	query := strings.Join(db.dialect.sample(tables), "; ")
	s := &engine.Sampler[*pgconn.PgConn]{Sources: sources, Dial: db.dial, Discard: func(c *pgconn.PgConn) error {
		discard(c)
		return nil
	}}
	s.Read = func(ctx context.Context, conn *pgconn.PgConn, values map[string]float64) error {
		results, err := conn.Exec(ctx, query).ReadAll()
		if err != nil {
			err = fmt.Errorf("sample server statistics: %w", classifyIn(ctx, err))
			if conn.IsClosed() && ctx.Err() == nil {
				err = engine.Classed(engine.ErrConnectionLost, err)
			}
			return err
		}
		for _, r := range results {
			for _, row := range r.Rows {
				for i := 1; i < len(row); i++ {
					v, err := strconv.ParseFloat(string(row[i]), 64)
					if err == nil && row[i] != nil {
						values[string(row[0])+"."+r.FieldDescriptions[i].Name] += v
					}
				}
			}
		}
		return nil
	}
	return s.Open(ctx)
}
