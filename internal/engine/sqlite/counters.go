package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// counters samples the write connection and the files.
type counters struct {
	db *database
	// SQLite counts in 32 bits: sum continues across overflows.
	last, sum [4]float64
}

func (db *database) Counters(context.Context, ...*engine.Table) (engine.Counters, error) {
	return &counters{db: db}, nil
}

func (c *counters) Describe() []engine.Counter {
	return []engine.Counter{
		{Name: engine.CounterPageRequests, Unit: "pages", Cumulative: true, Help: "pages asked of the page cache"},
		{Name: engine.CounterPageReads, Unit: "pages", Cumulative: true, Help: "pages that SQLite's cache lacked: read from the system's cache or from disk"},
		{Name: engine.CounterPageWrites, Unit: "pages", Cumulative: true, Help: "pages written to the file or its write-ahead log"},
		{Name: "cache_spills", Unit: "pages", Cumulative: true, Help: "pages written in the middle of a transaction for want of room"},
		{Name: engine.CounterCache, Unit: "bytes", Help: "page cache size"},
		{Name: engine.CounterCacheUsed, Unit: "bytes", Help: "page cache in use"},
		{Name: "file_bytes", Unit: "bytes", Help: "database file, free pages included"},
		{Name: engine.CounterWAL, Unit: "bytes", Help: "write-ahead log file"},
	}
}

// sampleWait limits the wait for the write connection, whose mutex SQLite holds
// while a statement runs. A longer wait would leave a gap in the record.
const sampleWait = 250 * time.Millisecond

// Sample implements engine.Counters. If a transaction keeps it waiting for more than sampleWait,
// the figures of the write connection are NaN.
func (c *counters) Sample(ctx context.Context, dst []float64) error {
	for i := range dst {
		dst[i] = math.NaN()
	}
	dst[4] = float64(c.db.info.CacheBytes)
	dst[6] = size(c.db.path)
	if dst[7] = size(c.db.path + "-wal"); math.IsNaN(dst[7]) {
		dst[7] = 0 // the file doesn't exist before the first write
	}
	wait, cancel := context.WithTimeout(ctx, sampleWait)
	defer cancel()
	if err := c.db.lock(wait); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return nil
		}
		return fmt.Errorf("sample sqlite: %w", err)
	}
	defer c.db.unlock()
	misses := c.grow(1, c.db.handle.status(statusCacheMiss))
	dst[0] = c.grow(0, c.db.handle.status(statusCacheHit)) + misses
	dst[1] = misses
	dst[2] = c.grow(2, c.db.handle.status(statusCacheWrite))
	dst[3] = c.grow(3, c.db.handle.status(statusCacheSpill))
	dst[5] = c.db.handle.status(statusCacheUsed)
	return nil
}

// grow converts a counter that overflows at 2^32 into one that only increases.
func (c *counters) grow(i int, v float64) float64 {
	if math.IsNaN(v) {
		return v
	}
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

func (c *counters) Close() error { return nil }
