package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// A source is one figure of SHOW GLOBAL STATUS, or of INNODB_METRICS for figures
// that MySQL has only there. INNODB_METRICS needs the PROCESS privilege, and the
// metric must be enabled with innodb_monitor_enable.
type source struct {
	engine.Counter
	status string
	metric string
	pages  bool // the server counts pages; the figure is bytes
}

// statusSources are the figures that Sample reads with InnoDB; rocksSources are
// those with MyRocks.
var statusSources = []source{
	{Counter: engine.Counter{Name: engine.CounterRows, Unit: "rows", Cumulative: true, Help: "rows inserted, by InnoDB's count"}, status: "Innodb_rows_inserted"},
	{Counter: engine.Counter{Name: engine.CounterCache, Unit: "bytes", Help: "buffer pool size"}, status: "Innodb_buffer_pool_pages_total", pages: true},
	{Counter: engine.Counter{Name: engine.CounterCacheUsed, Unit: "bytes", Help: "buffer pool pages that hold data"}, status: "Innodb_buffer_pool_pages_data", pages: true},
	{Counter: engine.Counter{Name: engine.CounterCacheDirty, Unit: "bytes", Help: "buffer pool pages not yet written back"}, status: "Innodb_buffer_pool_pages_dirty", pages: true},
	{Counter: engine.Counter{Name: engine.CounterPageReads, Unit: "pages", Cumulative: true, Help: "pages read from disk: requests the buffer pool missed"}, status: "Innodb_buffer_pool_reads"},
	{Counter: engine.Counter{Name: engine.CounterPageRequests, Unit: "pages", Cumulative: true, Help: "pages asked of the buffer pool"}, status: "Innodb_buffer_pool_read_requests"},
	{Counter: engine.Counter{Name: engine.CounterPageWrites, Unit: "pages", Cumulative: true, Help: "pages written to disk"}, status: "Innodb_pages_written"},
	{Counter: engine.Counter{Name: "cache_wait_free", Unit: "ops", Cumulative: true, Help: "waits for a free page in the buffer pool"}, status: "Innodb_buffer_pool_wait_free"},
	{Counter: engine.Counter{Name: engine.CounterCheckpointAge, Unit: "bytes", Help: "redo written since the last checkpoint"}, status: "Innodb_checkpoint_age", metric: "log_lsn_checkpoint_age"},
	{Counter: engine.Counter{Name: engine.CounterCheckpointMax, Unit: "bytes", Help: "checkpoint age at which writes are held up"}, status: "Innodb_checkpoint_max_age", metric: "log_max_modified_age_sync"},
	{Counter: engine.Counter{Name: engine.CounterRedoWritten, Unit: "bytes", Cumulative: true, Help: "redo log written"}, status: "Innodb_os_log_written"},
	{Counter: engine.Counter{Name: engine.CounterLogWaits, Unit: "ops", Cumulative: true, Help: "waits for room in the log buffer"}, status: "Innodb_log_waits"},
	{Counter: engine.Counter{Name: engine.CounterFsyncs, Unit: "ops", Cumulative: true, Help: "fsync calls"}, status: "Innodb_data_fsyncs"},
	{Counter: engine.Counter{Name: engine.CounterPurgeLag, Unit: "", Help: "transactions whose old versions are not yet purged"}, status: "Innodb_history_list_length", metric: "trx_rseg_history_len"},
	{Counter: engine.Counter{Name: engine.CounterRowLockWaits, Unit: "ops", Cumulative: true, Help: "waits for row locks"}, status: "Innodb_row_lock_waits"},
	{Counter: engine.Counter{Name: "threads_running", Unit: "", Help: "server threads that are at work"}, status: "Threads_running"},
}

var rocksSources = []source{
	{Counter: engine.Counter{Name: engine.CounterRows, Unit: "rows", Cumulative: true, Help: "rows inserted, by MyRocks' count"}, status: "Rocksdb_rows_inserted"},
	{Counter: engine.Counter{Name: engine.CounterPageReads, Unit: "pages", Cumulative: true, Help: "blocks read from disk: requests the block cache missed"}, status: "Rocksdb_block_cache_miss"},
	{Counter: engine.Counter{Name: engine.CounterRedoWritten, Unit: "bytes", Cumulative: true, Help: "write-ahead log written"}, status: "Rocksdb_wal_bytes"},
	{Counter: engine.Counter{Name: engine.CounterFsyncs, Unit: "ops", Cumulative: true, Help: "write-ahead log syncs"}, status: "Rocksdb_wal_synced"},
	{Counter: engine.Counter{Name: "compaction_read_bytes", Unit: "bytes", Cumulative: true, Help: "read by compactions"}, status: "Rocksdb_compact_read_bytes"},
	{Counter: engine.Counter{Name: "compaction_write_bytes", Unit: "bytes", Cumulative: true, Help: "written by compactions"}, status: "Rocksdb_compact_write_bytes"},
	{Counter: engine.Counter{Name: "flush_write_bytes", Unit: "bytes", Cumulative: true, Help: "written by memtable flushes"}, status: "Rocksdb_flush_write_bytes"},
	{Counter: engine.Counter{Name: "stall_micros", Unit: "us", Cumulative: true, Help: "time writes were held up by the engine"}, status: "Rocksdb_stall_micros"},
	{Counter: engine.Counter{Name: "threads_running", Unit: "", Help: "server threads that are at work"}, status: "Threads_running"},
}

func (d dialect) statusSources() []source {
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
		status = append(status, quoteText(s.status))
		if s.metric != "" {
			metrics = append(metrics, quoteText(s.metric))
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

// counters samples on one connection.
type counters struct {
	db       *DB
	conn     *sql.Conn
	sources  []source
	queries  []string
	index    map[string][]int // indexes in a sample, by status variable or metric
	pageSize float64
}

// Counters implements engine.DB.
func (db *DB) Counters(ctx context.Context, tables ...*engine.Table) (engine.Counters, error) {
	conn, err := db.freshConn(ctx)
	if err != nil {
		return nil, err
	}
	c := &counters{db: db, conn: conn, queries: db.dialect.sample(tables)}
	c.setSources(db.dialect.statusSources())
	if err := conn.QueryRowContext(ctx, "SELECT @@innodb_page_size").Scan(&c.pageSize); err != nil {
		c.pageSize = math.NaN() // a server without InnoDB has none of its figures either
	}
	if err := c.prune(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// prune removes figures that the server doesn't have, or doesn't show to this user:
// for example, MariaDB dropped Innodb_rows_inserted in 10.9.
func (c *counters) prune(ctx context.Context) error {
	got := make([]float64, len(c.sources)+2)
	err := c.Sample(ctx, got)
	var server *mysql.MySQLError
	if errors.As(err, &server) && server.Number == errPrivilege && len(c.queries) > 2 {
		c.queries = slices.Delete(c.queries, 1, 2) // INNODB_METRICS
		err = c.Sample(ctx, got)
	}
	if err != nil {
		return err
	}
	var kept []source
	for i, s := range c.sources {
		if !math.IsNaN(got[i]) {
			kept = append(kept, s)
		}
	}
	c.setSources(kept)
	return nil
}

func (c *counters) setSources(sources []source) {
	c.sources, c.index = sources, map[string][]int{}
	for i, s := range sources {
		for _, name := range []string{strings.ToLower(s.status), s.metric} {
			if name != "" {
				c.index[name] = append(c.index[name], i)
			}
		}
	}
}

func (c *counters) Describe() []engine.Counter {
	var out []engine.Counter
	for _, s := range c.sources {
		out = append(out, s.Counter)
	}
	return append(out,
		engine.Counter{Name: engine.CounterTableData, Unit: "bytes", Help: "rows with their primary key, by the server's statistics, which lag behind"},
		engine.Counter{Name: engine.CounterTableIndex, Unit: "bytes", Help: "secondary indexes, by the server's statistics, which lag behind"})
}

// Sample implements engine.Counters. If the connection was lost, it reconnects once.
func (c *counters) Sample(ctx context.Context, dst []float64) error {
	err := c.sample(ctx, dst)
	if errors.Is(err, engine.ErrConnectionLost) {
		if conn, failed := c.db.freshConn(ctx); failed == nil {
			_ = c.conn.Close() // already lost
			c.conn = conn
			return c.sample(ctx, dst)
		}
	}
	return err
}

func (c *counters) sample(ctx context.Context, dst []float64) error {
	for i := range dst {
		dst[i] = math.NaN()
	}
	last := len(c.queries) - 1
	for _, q := range c.queries[:last] {
		if err := c.read(ctx, q, dst); err != nil {
			return err
		}
	}
	n := len(c.sources)
	if err := c.conn.QueryRowContext(ctx, c.queries[last]).Scan(&dst[n], &dst[n+1]); err != nil {
		return fmt.Errorf("sample table sizes: %w", classify(err))
	}
	return nil
}

func (c *counters) read(ctx context.Context, q string, dst []float64) error {
	err := engine.Each(ctx, c.db, c.conn, func(r *sql.Rows) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil // not a figure
		}
		for _, i := range c.index[strings.ToLower(name)] {
			dst[i] = v
			if c.sources[i].pages {
				dst[i] = v * c.pageSize
			}
		}
		return nil
	}, q)
	if err != nil {
		return fmt.Errorf("sample server status: %w", err)
	}
	return nil
}

func (c *counters) Close() error { return unlessLost(c.conn.Close()) }
