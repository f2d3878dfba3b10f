package sqlite

import (
	"context"
	"fmt"
	"math"
	"os"
	"reflect"
	"unsafe"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/rowmill/rowmill/engine"
)

/*
// The driver has SQLite's code but no call for this function. It is found when
// the program is linked, not when this package is.
#cgo LDFLAGS: -Wl,--unresolved-symbols=ignore-in-object-files
int sqlite3_db_status(void *db, int op, int *current, int *highest, int reset);
*/
import "C"

// Figures of sqlite3_db_status, by SQLite's numbers (sqlite3.h, SQLITE_DBSTATUS_*).
const (
	statusCacheUsed  = 1
	statusCacheHit   = 7
	statusCacheMiss  = 8
	statusCacheWrite = 9
	statusCacheSpill = 12
)

// status returns a figure of a connection; NaN where SQLite doesn't have it.
func status(conn *sqlite3.SQLiteConn, op int) float64 {
	handle := reflect.ValueOf(conn).Elem().FieldByName("db")
	if !handle.IsValid() || handle.Kind() != reflect.Pointer || handle.IsNil() {
		return math.NaN()
	}
	var current, highest C.int
	if rc := C.sqlite3_db_status(unsafe.Pointer(handle.UnsafePointer()), C.int(op), &current, &highest, 0); rc != 0 {
		return math.NaN()
	}
	return float64(current)
}

// counters samples the write connection and the files.
type counters struct {
	db *DB
	// The library counts in 32 bits: wraps are added up here.
	last, sum [3]float64
}

// Counters implements engine.DB.
func (db *DB) Counters(context.Context, *engine.Table) (engine.Counters, error) {
	return &counters{db: db}, nil
}

// Describe implements engine.Counters.
func (c *counters) Describe() []engine.Counter {
	return []engine.Counter{
		{Name: engine.CounterPageRequests, Unit: "pages", Cumulative: true, Help: "pages asked of the page cache"},
		{Name: engine.CounterPageReads, Unit: "pages", Cumulative: true, Help: "pages read from the file: the page cache missed"},
		{Name: engine.CounterPageWrites, Unit: "pages", Cumulative: true, Help: "pages written to the file or its write-ahead log"},
		{Name: "cache_spills", Unit: "pages", Cumulative: true, Help: "pages written in the middle of a transaction for want of room"},
		{Name: engine.CounterCache, Unit: "bytes", Help: "page cache size"},
		{Name: engine.CounterCacheUsed, Unit: "bytes", Help: "page cache in use"},
		{Name: "file_bytes", Unit: "bytes", Help: "database file, free pages included"},
		{Name: engine.CounterWAL, Unit: "bytes", Help: "write-ahead log file"},
	}
}

// Sample implements engine.Counters.
func (c *counters) Sample(ctx context.Context, dst []float64) error {
	if err := c.db.lock(ctx); err != nil {
		return fmt.Errorf("sample sqlite: %w", err)
	}
	hit, miss := status(c.db.write, statusCacheHit), status(c.db.write, statusCacheMiss)
	write, spill := status(c.db.write, statusCacheWrite), status(c.db.write, statusCacheSpill)
	used := status(c.db.write, statusCacheUsed)
	c.db.unlock()
	misses := c.grow(1, miss)
	dst[0] = c.grow(0, hit) + misses
	dst[1] = misses
	dst[2] = c.grow(2, write)
	dst[3] = spill
	dst[4] = float64(c.db.info.CacheBytes)
	dst[5] = used
	dst[6] = size(c.db.path)
	dst[7] = size(c.db.path + "-wal")
	return nil
}

// grow turns a counter that wraps at 2^31 or 2^32 into one that only grows.
func (c *counters) grow(i int, v float64) float64 {
	d := v - c.last[i]
	if d < 0 {
		d += 1 << 32
	}
	c.last[i] = v
	c.sum[i] += d
	return c.sum[i]
}

func size(path string) float64 {
	st, err := os.Stat(path)
	if err != nil {
		return math.NaN()
	}
	return float64(st.Size())
}

// Close implements engine.Counters.
func (c *counters) Close() error { return nil }
