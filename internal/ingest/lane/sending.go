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
	// Periods creates the periods that rows lack; if it is nil, rows without a period are rejected.
	// AnyPeriods lifts two limits: MaxCreated, and the limit for periods in the far future.
	Periods    Periods
	AnyPeriods bool

	// Rows and Bytes limit a batch; with 0, DefaultBytes and a number of rows that adapts (see pace).
	Rows, Bytes int
	// Writers is the number of batches sent concurrently; 0 means DefaultWriters. It is always 1 on
	// engines with serial writes, and for UpdateDuplicate.
	Writers int
	// RetryFor limits how long a batch is retried after transient errors: a lost connection, a server
	// that is down, a deadlock. Negative means without limit, 0 no retries.
	RetryFor time.Duration
	// Hurry, unless nil, is a channel. Once it is closed, the next transient error ends the load.
	// Patience is how long batches in flight may take after the load was asked to end; 0 means 10
	// seconds.
	Hurry    <-chan struct{}
	Patience time.Duration

	// Lane is how rows reach the table; "" means Auto. Publisher, unless nil, publishes rows. Memory
	// is how many bytes of rows to publish are collected in memory; 0 means DefaultMemory. Further
	// rows are in a file in the folder Dir; "" means .rowmill. Parallel is how many periods are
	// published at a time; 0 means the number of processors.
	Lane      Lane
	Publisher Publisher
	Memory    int64
	Dir       string
	Parallel  int

	// Bad is the path of the file for rows that can't be loaded. If there are more than MaxBad of
	// them, the load ends before it commits the batch that exceeds the limit; negative means no limit.
	Bad    string
	MaxBad int64
	// BadBytes limits the size of the file Bad: further rows are only counted. 0 means no limit.
	BadBytes int64
	// ListSkipped also writes some skipped rows to the file Bad: rows whose values differ from the row
	// in the table, and rows with the key of an earlier row of their batch.
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
