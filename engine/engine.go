// Package engine is the contract between rowmill and a database.
//
// Opening a target gives a DB, which hands out small roles: a Dialect (pure:
// steps to SQL text), a Catalog (what exists, how large, how configured),
// Writers (one insert method on one connection), Queriers (reading and deleting
// on one), a Scan for proofs, and Counters (one sample of the server's own
// figures). What an engine cannot do is said by its Capabilities, as data, never
// by special cases in callers.
//
// Rows travel as a Batch of column vectors in both directions. Everything that
// rowmill says to a server is a Step, rendered by the Dialect, so that a dry
// run prints exactly what a run would execute.
//
// Each engine is one folder that passes package enginetest. Only cmd and tests
// name a concrete engine.
package engine

import (
	"context"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A DB is an open target. Its methods may be called from several goroutines;
// the Writers and Queriers it hands out may not.
type DB interface {
	// Info says what was opened.
	Info() Info
	Capabilities() Capabilities
	Dialect() Dialect
	Catalog() Catalog
	// Apply executes steps in order and stops at the first failure. Each step
	// that takes a table's metadata lock waits for it a bounded time, and
	// returns ErrLockTimeout when that has passed.
	Apply(ctx context.Context, steps ...Step) error
	// Writer opens a connection of its own that inserts into t.
	Writer(ctx context.Context, t *Table, m Method) (Writer, error)
	// Querier opens a connection of its own that reads and deletes.
	Querier(ctx context.Context) (Querier, error)
	// Settle has the server finish what writes have left it to do: dirty pages,
	// old versions of rows, compactions, the statistics of the tables. What it
	// can't do, for want of a privilege or of an end in sight, is returned as
	// warnings. Settings of the server that it changes are as before when it
	// returns, also when ctx has ended.
	Settle(ctx context.Context, s Settle) (warnings []string, err error)
	// Scan reads the rows of one partition of t, or all rows when part is
	// nil, in no particular order, and hands them to fn in batches that it
	// reuses. It stops at fn's first error and returns it.
	Scan(ctx context.Context, t *Table, part *rolling.Partition, fn func(*Batch) error) error
	// Counters opens the sampling of the server's figures, with the sizes
	// of tables (which may not exist yet) added up, on a connection of its own.
	Counters(ctx context.Context, tables ...*Table) (Counters, error)
	Close() error
}

// Info says what server a DB is, for the record of a run.
type Info struct {
	// Engine is the server's own name: "mariadb", "mysql", "postgres", "sqlite",
	// "null".
	Engine string
	// Version is the server's version, as it prints it.
	Version string
	// Storage is the storage engine new tables get, where there is a choice.
	Storage string
	// Target is the target as it may be printed: without a password.
	Target string
	// CacheBytes is the memory that holds table and index pages: the buffer
	// pool, the page cache. 0 is unknown.
	CacheBytes int64
	// Durability is what a commit survives: "full" (power loss), "relaxed"
	// (the server's own crash), "none", or "" where it is unknown.
	Durability string
	// CrashLoss is for how long an acknowledged commit may be lost when the
	// server's process is killed, by the server's own documentation; 0 is
	// never. What power loss costs is not in it.
	CrashLoss time.Duration
	// DataDir is where the data lies, when it lies on this machine.
	DataDir string
	// PID is the server's process, when it runs on this machine; 0 otherwise,
	// and for engines that run inside rowmill's own process.
	PID int
}

// Capabilities says, as data, what an engine can do.
type Capabilities struct {
	// Methods are the insert methods it has, the default first.
	Methods []Method
	// NoIgnore are those of them that can't skip rows whose key is there:
	// Writer refuses them for such a table (Table.Ignore), as ErrUnsupported.
	NoIgnore []Method
	// Rolling tells that tables can be cut into periods.
	Rolling bool
	// MaxPeriods is the largest number of periods of one table; 0 is no limit.
	MaxPeriods int
	// SwapRows is the number of rows that Replace can put in the place of others
	// without holding the table's lock for longer than about 200 ms, where the
	// server reads them meanwhile; 0 is no limit.
	SwapRows int64
	// LastName tells that Replace leaves the name of the last partition that it
	// replaces, whatever New is called: partitions can't be renamed.
	LastName bool
	// Gaps tells that the catalog keeps lower bounds: rows of a period that was
	// dropped are refused from then on. Otherwise the period after it takes
	// its range over, and rows before the first period go to that one.
	Gaps bool
	// Embedded engines run inside rowmill's process: its CPU time is theirs.
	Embedded bool
	// Stores tells that rows can be read back; the null engine only counts.
	Stores bool
	// SerialWrites engines have one writer at a time; further ones queue.
	SerialWrites bool
	// NoZeroBytes tells that text can't hold a zero byte: a batch with one is
	// refused.
	NoZeroBytes bool
	// Untyped tells that a column takes values that its declared type doesn't have:
	// a caller who wants them refused checks them.
	Untyped bool
	// Blocks tells that a writer or a querier may keep the processor that Go's
	// scheduler gave it while it waits for the server. A caller that runs many gives the
	// runtime as many processors more (runtime.GOMAXPROCS).
	Blocks bool
}

// A Method is a way to insert a batch of rows, committed together.
type Method string

// Insert methods.
const (
	// Single sends one INSERT statement of text for each row.
	Single Method = "single"
	// Multi sends the rows as one INSERT statement of text, or several when
	// the server limits a statement's length.
	Multi Method = "multi"
	// Prepared sends the rows as bound values of a prepared INSERT.
	Prepared Method = "prepared"
	// Pipeline sends each row as bound values of a prepared INSERT of one row,
	// without waiting for the answers to those before it.
	Pipeline Method = "pipeline"
	// Load streams the rows on the engine's bulk path: LOAD DATA LOCAL INFILE,
	// COPY.
	Load Method = "load"
)

// A Dialect turns steps into SQL text. It is pure: it asks no server.
type Dialect interface {
	// Render returns the statements of a step, in order, without terminators.
	Render(Step) ([]string, error)
	// Quote returns an identifier quoted for the engine.
	Quote(ident string) string
}

// A Catalog says what exists on the server, from its catalog views.
type Catalog interface {
	// Exists reports whether the table, or for a rolling table any of its
	// parts, exists.
	Exists(ctx context.Context, t *Table) (bool, error)
	// Partitions returns the periods of a rolling table in order, and none
	// for a plain one. It returns ErrNoTable for a table that is not there.
	Partitions(ctx context.Context, t *Table) ([]rolling.Partition, error)
	// Sizes measures the table now. It reads no rows, and of a table of many
	// partitions nothing that hasn't changed of late: the server may be made to
	// refresh the statistics of a few.
	Sizes(ctx context.Context, t *Table) (Sizes, error)
	// Settings returns the server's settings that bear on durability, memory
	// and layout, by their own names.
	Settings(ctx context.Context) (map[string]string, error)
}

// Sizes is what a table takes on disk, in bytes.
type Sizes struct {
	// Data holds the rows with their primary key, Index the secondary indexes.
	Data, Index int64
}

// A Writer inserts batches on one connection, by one method.
type Writer interface {
	// Write inserts the batch in one transaction and returns once the server
	// has acknowledged the commit. On an error, nothing of the batch counts as
	// inserted; see Retryable for what may be sent again, and Reset.
	Write(ctx context.Context, b *Batch) (Ack, error)
	// Reset makes the writer usable after an error, on a new connection if
	// the old one is lost.
	Reset(ctx context.Context) error
	Close() error
}

// Ack is what a server said to a batch.
type Ack struct {
	// Rows is the number of rows it acknowledged as inserted.
	Rows int64
	// Skipped is the number of rows it left out because their key was there
	// already; 0 but for a table that ignores those (Table.Ignore).
	Skipped int64
	// Warnings are the server's own, at most a few, as text.
	Warnings []string
}
