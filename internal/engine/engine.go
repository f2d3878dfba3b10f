// Package engine is the contract between rowmill and a database.
//
// Opening a target returns a DB. Its Dialect turns steps into SQL text, so that a dry run prints
// exactly the statements of a run. Its Catalog describes tables, and its Writers and Queriers
// insert and read on connections of their own. Rows travel as a Batch of column vectors.
//
// Differences between engines are Capabilities, never special cases in callers. Each engine is a
// folder whose code passes the tests of package enginetest.
package engine

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A DB is an open target. Several goroutines may use it, but not the same Writer or Querier.
type DB interface {
	// Info describes the opened target.
	Info() Info
	Capabilities() Capabilities
	Dialect() Dialect
	Catalog() Catalog
	// Apply executes steps until one fails. It waits a limited time for a table's lock, and then
	// returns ErrLockTimeout.
	Apply(ctx context.Context, steps ...Step) error
	// Writer opens a connection of its own that inserts into t.
	Writer(ctx context.Context, t *Table, m Method) (Writer, error)
	// Querier opens a connection of its own that reads and deletes.
	Querier(ctx context.Context) (Querier, error)
	// Settle completes the work that writes have left to the server, such as dirty pages and
	// statistics. Its warnings name work that it can't complete. It restores the settings that it
	// changes, even if ctx has ended.
	Settle(ctx context.Context, s Settle) (warnings []string, err error)
	// Scan passes the rows of one partition of t, or of all if part is nil, to fn, in any order and in
	// batches that it reuses. It stops at fn's first error.
	Scan(ctx context.Context, t *Table, part *rolling.Partition, fn func(*Batch) error) error
	// Counters opens a connection of its own to sample the server's figures. Among the figures are the
	// summed sizes of tables, which need not exist.
	Counters(ctx context.Context, tables ...*Table) (Counters, error)
	Close() error
}

// Info identifies the server of a DB, for the record of a run.
type Info struct {
	Engine  string // the server's product name: "mariadb", "mysql", "postgres", "sqlite", "null"
	Version string // as the server reports it
	Storage string // the storage engine of new tables, if there is a choice
	Target  string // in printable form: without a password
	// CacheBytes is the memory for table and index pages; 0 is unknown.
	CacheBytes int64
	// Durability is what a commit survives: "full" (a loss of power), "relaxed" (the server's crash),
	// "none", or "" if it is unknown.
	Durability string
	// CrashLoss is a length of time. If the server's process is killed, the commits of the last
	// CrashLoss before the kill may be lost, says the server's documentation. A loss of power may lose
	// more.
	CrashLoss time.Duration
	// DataDir is the data folder, and PID the id of the server's process, if they are on this
	// machine. An embedded engine has no process.
	DataDir string
	PID     int
}

// SetLocal sets DataDir and PID if the server is on this machine. host is "" for a socket.
func (i *Info) SetLocal(host, dataDir, pidFile string) {
	ip := net.ParseIP(host)
	if dataDir == "" || host != "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return
	}
	if st, err := os.Stat(dataDir); err == nil && st.IsDir() {
		i.DataDir = dataDir
	}
	if !filepath.IsAbs(pidFile) {
		pidFile = filepath.Join(dataDir, pidFile)
	}
	if p, err := os.ReadFile(pidFile); err == nil {
		first, _, _ := strings.Cut(string(p), "\n")
		i.PID, _ = strconv.Atoi(strings.TrimSpace(first))
	}
}

// Capabilities describes, as data, what an engine can do.
type Capabilities struct {
	// Methods are the engine's insert methods, the default first.
	Methods []Method
	// NoIgnore are the methods for which Writer returns ErrUnsupported if the Table has Ignore.
	NoIgnore []Method
	// Rolling reports that tables can be divided into periods.
	Rolling    bool
	MaxPeriods int // of one table; 0 is no limit
	// Open is the memory that open partitions cost, as bench tables measured it.
	Open OpenCost
	// SwapRows is how many rows the server reads in about 200 ms while Replace holds the table's lock;
	// 0 if Replace reads no rows.
	SwapRows int64
	// MergesUntriggered: Replace can't replace several partitions of a table with triggers.
	MergesUntriggered bool
	// LastName: partitions can't be renamed. Replace gives New the name of the last one of Old.
	LastName bool
	// Gaps: partitions have lower bounds, and the server refuses rows of a dropped period. Without
	// Gaps, the next period takes these rows.
	Gaps bool
	// PeriodTables: a rolling table is a view over one table per period. Triggers on the view don't
	// see changes of the period's tables.
	PeriodTables bool
	// AutoWholeKey: the server assigns values to a column only if it is the whole primary key.
	AutoWholeKey bool
	// RowValues: a comparison of rows, (a, b) > (?, ?), uses an index.
	RowValues    bool
	Embedded     bool // runs inside rowmill's process and shares its CPU time
	Stores       bool // rows can be read back; the null engine only counts
	SerialWrites bool // one writer at a time; others queue
	NoZeroBytes  bool // a batch with a zero byte in a text is refused
	// SharesSnapshots: several sessions can read one snapshot; see Session.Snapshot.
	SharesSnapshots bool
	// SnapshotCatalog: within a transaction, the catalog describes the tables as they were when the
	// snapshot was taken, but queries use their present definitions.
	SnapshotCatalog bool
	Untyped         bool // a column accepts values outside its declared type
	// Blocks: a writer or a querier may keep its thread while it waits. Callers raise
	// runtime.GOMAXPROCS by the number of writers and queriers.
	Blocks bool
}

// A Method is a way to insert a batch of rows, committed together.
type Method string

// Insert methods.
const (
	Single   Method = "single"   // a text INSERT per row
	Multi    Method = "multi"    // a text INSERT of all rows, or several if the server limits its length
	Prepared Method = "prepared" // a prepared INSERT with the rows as bound values
	Pipeline Method = "pipeline" // a prepared INSERT per row, without waiting for earlier responses
	Load     Method = "load"     // the engine's bulk interface: LOAD DATA LOCAL INFILE, COPY
)

// A Dialect converts steps to SQL text. It is pure: it accesses no server.
type Dialect interface {
	// Render returns the statements of a step, in order, without terminators.
	Render(Step) ([]string, error)
	// Quote returns an identifier quoted for the engine.
	Quote(ident string) string
}

// A Catalog describes the objects on the server, from its catalog views.
type Catalog interface {
	// Exists reports whether the table exists, or any part of a rolling table.
	Exists(ctx context.Context, t *Table) (bool, error)
	// Partitions returns the periods of a rolling table in order, none for a plain table, or
	// ErrNoTable.
	Partitions(ctx context.Context, t *Table) ([]rolling.Partition, error)
	// Sizes measures the table without reading rows. If the table has many partitions, it examines
	// only those that changed recently.
	Sizes(ctx context.Context, t *Table) (Sizes, error)
	// Settings returns the server's settings about durability, memory and layout.
	Settings(ctx context.Context) (map[string]string, error)
}

// Sizes is the size of a table on disk, in bytes.
type Sizes struct {
	// Data holds the rows with their primary key, Index the secondary indexes.
	Data, Index int64
}

// A Writer inserts batches on one connection, by one method.
type Writer interface {
	// Write inserts the batch in one transaction, and returns when the server has acknowledged it.
	// After an error, treat no row as inserted: see Retryable and Reset.
	Write(ctx context.Context, b *Batch) (Ack, error)
	// Reset makes the writer usable after an error, on a new connection if the old one was lost.
	Reset(ctx context.Context) error
	Close() error
}

// Ack is a server's response to a batch.
type Ack struct {
	Rows     int64    // acknowledged as inserted
	Skipped  int64    // with Table.Ignore: their key exists; with Table.Update: they exist, with equal values
	Updated  int64    // rows that existed and were changed; 0 unless Table.Update
	Warnings []string // of the server, at most a few
}

// Counters samples an engine's own figures on one connection.
type Counters interface {
	// Describe lists the figures, in the order of Sample's values.
	Describe() []Counter
	// Sample reads the figures into dst: NaN for a figure that can't be read now. Cumulative
	// figures count from the server's start.
	Sample(ctx context.Context, dst []float64) error
	Close() error
}

// A Counter describes one figure.
type Counter struct {
	Name       string // in records, of the form group_what_unit
	Unit       string // "bytes", "pages", "rows", "ops", "us" or ""
	Cumulative bool   // it only increases; the others are current values
	Help       string
}

// Names of the figures that reports can explain. An engine names its other figures itself.
const (
	CounterRows           = "rows_inserted"          // rows, cumulative
	CounterCache          = "cache_bytes"            // size of the page cache
	CounterCacheUsed      = "cache_used_bytes"       // part of it that holds pages
	CounterCacheDirty     = "cache_dirty_bytes"      // part of it that must be written back
	CounterPageReads      = "page_reads"             // pages that the cache lacked, cumulative
	CounterPageRequests   = "page_requests"          // pages requested from the cache, cumulative
	CounterPageWrites     = "page_writes"            // pages written to disk, cumulative
	CounterCheckpointAge  = "checkpoint_age_bytes"   // redo not yet checkpointed
	CounterCheckpointMax  = "checkpoint_max_bytes"   // the checkpoint age at which writes stall
	CounterRedoWritten    = "redo_written_bytes"     // redo or WAL written, cumulative
	CounterLogWaits       = "log_waits"              // waits for room in the log buffer, cumulative
	CounterPurgeLag       = "purge_lag_transactions" // old row versions not yet purged
	CounterTableData      = "table_data_bytes"       // rows and primary key
	CounterTableIndex     = "table_index_bytes"      // secondary indexes
	CounterWAL            = "wal_bytes"              // size of the write-ahead log file
	CounterFsyncs         = "fsyncs"                 // cumulative
	CounterRowLockWaits   = "row_lock_waits"         // cumulative
	CounterPartitionCount = "partitions"             // number of the table's periods
)
