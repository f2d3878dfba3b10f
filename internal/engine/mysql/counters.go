package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// inPages marks a figure in bytes that the server counts in pages.
const inPages = -1

// statusSources are the figures of SHOW GLOBAL STATUS with InnoDB. Some have a second name: MySQL
// has these figures only in INNODB_METRICS, under the second name. To read them there, the account
// needs PROCESS, and innodb_monitor_enable must have enabled them.
var statusSources = []engine.Source{
	{Counter: engine.Counter{Name: engine.CounterRows, Unit: "rows", Cumulative: true, Help: "rows inserted, by InnoDB's count"}, Of: []string{"Innodb_rows_inserted"}},
	{Counter: engine.Counter{Name: engine.CounterCache, Unit: "bytes", Help: "buffer pool size"}, Of: []string{"Innodb_buffer_pool_pages_total"}, Scale: inPages},
	{Counter: engine.Counter{Name: engine.CounterCacheUsed, Unit: "bytes", Help: "buffer pool pages that hold data"}, Of: []string{"Innodb_buffer_pool_pages_data"}, Scale: inPages},
	{Counter: engine.Counter{Name: engine.CounterCacheDirty, Unit: "bytes", Help: "buffer pool pages not yet written back"}, Of: []string{"Innodb_buffer_pool_pages_dirty"}, Scale: inPages},
	{Counter: engine.Counter{Name: engine.CounterPageReads, Unit: "pages", Cumulative: true, Help: "pages read from disk: requests the buffer pool missed"}, Of: []string{"Innodb_buffer_pool_reads"}},
	{Counter: engine.Counter{Name: engine.CounterPageRequests, Unit: "pages", Cumulative: true, Help: "pages asked of the buffer pool"}, Of: []string{"Innodb_buffer_pool_read_requests"}},
	{Counter: engine.Counter{Name: engine.CounterPageWrites, Unit: "pages", Cumulative: true, Help: "pages written to disk"}, Of: []string{"Innodb_pages_written"}},
	{Counter: engine.Counter{Name: "cache_wait_free", Unit: "ops", Cumulative: true, Help: "waits for a free page in the buffer pool"}, Of: []string{"Innodb_buffer_pool_wait_free"}},
	{Counter: engine.Counter{Name: engine.CounterCheckpointAge, Unit: "bytes", Help: "redo written since the last checkpoint"}, Of: []string{"Innodb_checkpoint_age", "log_lsn_checkpoint_age"}},
	{Counter: engine.Counter{Name: engine.CounterCheckpointMax, Unit: "bytes", Help: "checkpoint age at which writes are held up"}, Of: []string{"Innodb_checkpoint_max_age", "log_max_modified_age_sync"}},
	{Counter: engine.Counter{Name: engine.CounterRedoWritten, Unit: "bytes", Cumulative: true, Help: "redo log written"}, Of: []string{"Innodb_os_log_written"}},
	{Counter: engine.Counter{Name: engine.CounterLogWaits, Unit: "ops", Cumulative: true, Help: "waits for room in the log buffer"}, Of: []string{"Innodb_log_waits"}},
	{Counter: engine.Counter{Name: engine.CounterFsyncs, Unit: "ops", Cumulative: true, Help: "fsync calls"}, Of: []string{"Innodb_data_fsyncs"}},
	{Counter: engine.Counter{Name: engine.CounterPurgeLag, Unit: "", Help: "transactions whose old versions are not yet purged"}, Of: []string{"Innodb_history_list_length", "trx_rseg_history_len"}},
	{Counter: engine.Counter{Name: engine.CounterRowLockWaits, Unit: "ops", Cumulative: true, Help: "waits for row locks"}, Of: []string{"Innodb_row_lock_waits"}},
	{Counter: engine.Counter{Name: "threads_running", Unit: "", Help: "server threads that are at work"}, Of: []string{"Threads_running"}},
}

// rocksSources are the figures with MyRocks.
var rocksSources = []engine.Source{
	{Counter: engine.Counter{Name: engine.CounterRows, Unit: "rows", Cumulative: true, Help: "rows inserted, by MyRocks' count"}, Of: []string{"Rocksdb_rows_inserted"}},
	{Counter: engine.Counter{Name: engine.CounterPageReads, Unit: "pages", Cumulative: true, Help: "blocks read from disk: requests the block cache missed"}, Of: []string{"Rocksdb_block_cache_miss"}},
	{Counter: engine.Counter{Name: engine.CounterRedoWritten, Unit: "bytes", Cumulative: true, Help: "write-ahead log written"}, Of: []string{"Rocksdb_wal_bytes"}},
	{Counter: engine.Counter{Name: engine.CounterFsyncs, Unit: "ops", Cumulative: true, Help: "write-ahead log syncs"}, Of: []string{"Rocksdb_wal_synced"}},
	{Counter: engine.Counter{Name: "compaction_read_bytes", Unit: "bytes", Cumulative: true, Help: "read by compactions"}, Of: []string{"Rocksdb_compact_read_bytes"}},
	{Counter: engine.Counter{Name: "compaction_write_bytes", Unit: "bytes", Cumulative: true, Help: "written by compactions"}, Of: []string{"Rocksdb_compact_write_bytes"}},
	{Counter: engine.Counter{Name: "flush_write_bytes", Unit: "bytes", Cumulative: true, Help: "written by memtable flushes"}, Of: []string{"Rocksdb_flush_write_bytes"}},
	{Counter: engine.Counter{Name: "stall_micros", Unit: "us", Cumulative: true, Help: "time writes were held up by the engine"}, Of: []string{"Rocksdb_stall_micros"}},
	{Counter: engine.Counter{Name: "threads_running", Unit: "", Help: "server threads that are at work"}, Of: []string{"Threads_running"}},
}

func (d dialect) statusSources() []engine.Source {
	if d.rocksdb() {
		return rocksSources
	}
	return statusSources
}

// sample renders the queries of Counters: status, metrics that the server has only
// in INNODB_METRICS, and the tables' sizes.
func (d dialect) sample(tables []*engine.Table) []string {
	var status, metrics []string
	for _, s := range d.statusSources() {
		status = append(status, quoteText(s.Of[0]))
		for _, metric := range s.Of[1:] {
			metrics = append(metrics, quoteText(metric))
		}
	}
	out := []string{"SHOW GLOBAL STATUS WHERE Variable_name IN (" + strings.Join(status, ", ") + ")"}
	if !d.mariadb && len(metrics) > 0 {
		out = append(out, "SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS "+
			"WHERE STATUS = 'enabled' AND NAME IN ("+strings.Join(metrics, ", ")+")")
	}
	return append(out, d.sizes(tables...))
}

// errPrivilege is ER_SPECIFIC_ACCESS_DENIED_ERROR: a privilege is missing.
const errPrivilege = 1227

// Counters implements engine.DB. It omits figures that the server lacks: for example, MariaDB
// dropped Innodb_rows_inserted in 10.9.
func (db *server) Counters(ctx context.Context, tables ...*engine.Table) (engine.Counters, error) {
	var page float64
	if err := db.pool.QueryRowContext(ctx, "SELECT @@innodb_page_size").Scan(&page); err != nil {
		page = math.NaN() // a server without InnoDB has none of its figures either
	}
	const data, index = "table data", "table index"
	sources := append(slices.Clone(db.dialect.statusSources()),
		engine.Source{Of: []string{data}, Counter: engine.Counter{Name: engine.CounterTableData, Unit: "bytes", Help: "rows with their primary key, by the server's statistics, which lag behind"}},
		engine.Source{Of: []string{index}, Counter: engine.Counter{Name: engine.CounterTableIndex, Unit: "bytes", Help: "secondary indexes, by the server's statistics, which lag behind"}})
	for i := range sources {
		if sources[i].Scale == inPages {
			sources[i].Scale = page
		}
	}
	queries := db.dialect.sample(tables)
	s := &engine.Sampler[*sql.Conn]{Sources: sources, Dial: db.freshConn, Discard: func(c *sql.Conn) error { return unlessLost(c.Close()) }}
	s.Read = func(ctx context.Context, conn *sql.Conn, values map[string]float64) error {
		last := len(queries) - 1
		for i, q := range queries[:last] {
			err := db.readStatus(ctx, conn, q, values)
			if i > 0 && serverError(err, errPrivilege) { // INNODB_METRICS
				queries = slices.Delete(queries, i, i+1)
				return s.Read(ctx, conn, values)
			}
			if err != nil {
				return fmt.Errorf("sample server status: %w", err)
			}
		}
		var size engine.Sizes
		if err := conn.QueryRowContext(ctx, queries[last]).Scan(&size.Data, &size.Index); err != nil {
			return fmt.Errorf("sample table sizes: %w", classify(err))
		}
		values[data], values[index] = float64(size.Data), float64(size.Index)
		return nil
	}
	return s.Open(ctx)
}

// readStatus reads rows of names and figures.
func (db *server) readStatus(ctx context.Context, conn engine.Queryer, q string, values map[string]float64) error {
	return engine.Each(ctx, db, conn, func(r *sql.Rows) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil { // otherwise it is no figure
			values[name] = v
		}
		return nil
	}, q)
}
