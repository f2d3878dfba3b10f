package engine

import "context"

// Counters samples an engine's own figures on one connection.
type Counters interface {
	// Describe lists the figures, in the order of Sample's values.
	Describe() []Counter
	// Sample reads the figures into dst, one element each; a figure that can't be
	// read now is NaN. Cumulative figures count from the server's start: callers
	// compute differences.
	Sample(ctx context.Context, dst []float64) error
	Close() error
}

// A Counter describes one figure.
type Counter struct {
	// Name is the figure's name in records, of the form group_what_unit.
	Name string
	// Unit is "bytes", "pages", "rows", "ops" or "".
	Unit string
	// Cumulative figures only increase; the others are current values.
	Cumulative bool
	// Help is a short description.
	Help string
}

// Names of figures that reports can explain. Engines use these names for the figures
// that they have, and their own names for others.
const (
	CounterRows           = "rows_inserted"          // rows, cumulative
	CounterCache          = "cache_bytes"            // size of the page cache
	CounterCacheUsed      = "cache_used_bytes"       // part of it that holds pages
	CounterCacheDirty     = "cache_dirty_bytes"      // part of it that must be written back
	CounterPageReads      = "page_reads"             // pages read from disk, cumulative
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
