package lane

import (
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
)

// Sending describes how rows get into the table.
type Sending struct {
	DB engine.Keeper
	format.Reading
	// Late: the table refuses rows below the position up to which all of its periods are sealed.
	Late bool
	// Periods creates the periods that rows lack; with nil, such rows are rejected.
	// AnyPeriods also creates more than MaxCreated of them, and those in the far future.
	Periods    Periods
	AnyPeriods bool

	// Rows and Bytes limit a batch; with 0, DefaultBytes and a number of rows that adapts (see pace).
	Rows, Bytes int
	// Writers is the number of batches sent concurrently; 0 means DefaultWriters.
	// Engines with serial writes always use 1, and so does UpdateDuplicate.
	Writers int
	// RetryFor limits how long a batch is retried after transient errors: a lost connection, a server
	// that is down, a deadlock. Negative means without limit, 0 no retries.
	RetryFor time.Duration
	// Hurry, unless nil, is closed when transient errors shall end the load. Patience is how long
	// batches in flight may take after the load was asked to end; 0 means 10 seconds.
	Hurry    <-chan struct{}
	Patience time.Duration

	// Lane is how rows reach the table; "" means Auto. Publisher, unless nil, publishes rows. Memory
	// is how many bytes of these are collected in memory, 0 means DefaultMemory; Dir has a file for
	// the others, "" means .rowmill. Parallel periods are published at a time; 0 means the number of
	// processors.
	Lane      Lane
	Publisher Publisher
	Memory    int64
	Dir       string
	Parallel  int

	// Bad is the path of the file for rows that can't be loaded. The load ends if there are more than
	// MaxBad of them, before the batch that exceeds the limit is committed; negative means no limit.
	Bad    string
	MaxBad int64
	// BadBytes limits the size of that file, beyond which rows are only counted; 0 means no limit.
	BadBytes int64
	// ListSkipped also writes rows to that file that were skipped and have other values
	// than the row in the table, or the key of an earlier row of their batch.
	ListSkipped bool

	// Dry reads and checks all rows and sends none.
	Dry bool
	// Say, unless nil, receives messages for the user. It is called from several goroutines.
	Say func(line string)
	// Progress, unless nil, is called after each interval of length Every; 0 means one second.
	Progress func(Progress)
	Every    time.Duration
	// Reached, unless nil, is called at each point where a test simulates a crash.
	Reached func(point string)
}

const (
	DefaultRows    = 5000
	DefaultBytes   = 4 << 20
	DefaultWriters = 2
	DefaultEvery   = time.Second
)
