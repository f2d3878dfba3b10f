package result

import (
	"strings"
	"testing"
)

// TestDiskReads checks that reads of other programs aren't taken for the server's.
func TestDiskReads(t *testing.T) {
	r := &Record{Run: Run{Load: Load{Writers: 1}, Benchmark: Benchmark{MeasuredDisk: &MeasuredDisk{Reads: []DiskReads{{BlockBytes: 16 << 10, Depth: 1, PerSecond: 4000}}}}}}
	part := figures{"disk_reads": 3000, "disk_read_bytes": 3000 * 16 << 10}
	const want = "the disk did 3,000 reads/s of 16 KiB, 75% of the 4,000 random reads/s of 16 KiB that this disk did at queue depth 1"
	for server, more := range map[float64]string{-1: "", 2900 * 16 << 10: "", 750 * 16 << 10: "; the server had 25% of these bytes read, other programs the rest"} {
		if part["server_io_read_bytes"] = server; server < 0 {
			delete(part, "server_io_read_bytes")
		}
		if got := r.diskReads(part); got != want+more {
			t.Errorf("%v: %s", server, got)
		}
	}
	if got := r.diskReads(figures{"disk_reads": 0.5}); strings.TrimSpace(got) != "" {
		t.Error(got)
	}
}
