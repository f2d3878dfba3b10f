// Package ingest loads rows from files and streams into a rolling table without loss
// and without duplicates, even if any process is killed at any time.
//
// A source is divided into batches at record boundaries. A batch is identified by its source, its
// byte range and the hash of those bytes. The byte range of a file's batch is recorded in the
// database before the batch is sent, and the batch's line of the ledger commits with its rows. An
// interrupted load therefore resumes with exactly the same batches, and the ledger refuses a batch
// that is already in the table. A stream can't be read twice, so it is first written to a spool,
// whose records are the batches.
//
// Rows that can't be loaded, because of their values, the table's periods or the
// server, are written to a file before their batch is committed; the others are loaded.
//
// The pipeline, and where an addition belongs:
//
//	source  file.go, stream.go,   opens, locks and recognises it; a new source is a file beside them
//	        server.go, fetch.go
//	format  package format        cuts it at record boundaries, and parses its records into an engine.Batch
//	lane    package lane          sends the rows within the table's periods, or publishes whole periods
//	account missing.go            which loaded rows are missing from the table; outcome.go describes the result
package ingest

import (
	"time"

	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
)

// Options describe the destination of a load and its settings.
type Options struct {
	lane.Sending
	// Format is the format of the source. If Kind is empty, it is derived from the file's name.
	Format format.Format
	// Name, unless empty, identifies the source instead of its path, so that the file may be moved.
	Name string
	// Flush is how long rows of a stream wait for more rows of their batch; 0 means DefaultFlush.
	Flush time.Duration

	// Spool is the directory that stores a stream until it is loaded; "" means that the stream is sent
	// without a spool. SpoolBytes limits the spool's size; 0 means the spool's own default.
	Spool      string
	SpoolBytes int64

	// Again loads a file again as if it were new. Rows whose key is in the table are duplicates.
	Again bool
	// AcceptMissing stops the check for loaded rows that are missing: they were removed on purpose.
	AcceptMissing bool

	// pool is what the loads of a Many have in common; nil means that the load has its own.
	pool *lane.Pool
}

// DefaultFlush is the default of Options.Flush.
const DefaultFlush = time.Second
