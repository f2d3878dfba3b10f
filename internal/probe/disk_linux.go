package probe

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/result"
)

// Columns of /sys/dev/block/MAJOR:MINOR/stat
// (Documentation/block/stat.rst in the kernel's sources).
const (
	diskReads = iota
	_         // reads merged
	diskSectorsRead
	diskReadMS
	diskWrites
	_ // writes merged
	diskSectorsWritten
	diskWriteMS
	diskInFlight
	diskBusyMS
	diskColumns
)

// sectorSize is the unit of the sector columns, independent of the disk's sector
// size.
const sectorSize = 512

// diskSource reads the statistics of the block device that stores the data; if
// that is a partition, those of the partition. Requests are counted when they
// complete, and after the kernel has merged adjacent ones.
type diskSource struct {
	name   string
	file   *kernelFile
	meters [diskColumns]meter
}

func openDisk(sys system, dataDir string, warn func(string)) (source, error) {
	d, err := sys.device(dataDir)
	if err != nil {
		return nil, err
	}
	f, err := openKernelFile(filepath.Join(sys.blockDir(d.number), "stat"))
	if err != nil {
		return nil, err
	}
	s, err := opened(&diskSource{name: d.name, file: f})
	if err == nil && d.partOf != "" {
		warn(fmt.Sprintf("disk figures are those of %s only, one of the devices of %s", d.name, d.partOf))
	}
	return s, err
}

func (d *diskSource) describe() []result.Counter {
	on := " on " + d.name
	return []result.Counter{
		{Name: "disk_reads", Group: groupOS, Unit: "ops/s", Help: "reads completed" + on},
		{Name: "disk_writes", Group: groupOS, Unit: "ops/s", Help: "writes completed" + on},
		{Name: "disk_read_bytes", Group: groupOS, Unit: "bytes/s", Help: "bytes read" + on},
		{Name: "disk_write_bytes", Group: groupOS, Unit: "bytes/s", Help: "bytes written" + on},
		{Name: "disk_utilisation", Group: groupOS, Unit: "fraction", Help: "time with a request under way" + on + "; a device that serves many at once is not full at 1"},
		{Name: "disk_read_latency_us", Group: groupOS, Unit: "microseconds", Help: "mean time of a read, queue included," + on},
		{Name: "disk_write_latency_us", Group: groupOS, Unit: "microseconds", Help: "mean time of a write, queue included," + on},
	}
}

func (d *diskSource) sample(now time.Time, out figures) error {
	text, err := d.file.read()
	if err != nil {
		return err
	}
	var columns [diskColumns]uint64
	if numbers(text, columns[:]) < diskColumns {
		return fmt.Errorf("%s: not the statistics of a disk: %.60q", d.file.f.Name(), text)
	}
	var grown [diskColumns]float64
	var seconds float64
	all := true
	for i := range columns {
		var ok bool
		grown[i], seconds, ok = d.meters[i].advance(float64(columns[i]), now)
		// The number of requests in flight is the only column that may decrease.
		if !ok && i != diskInFlight {
			all = false
		}
	}
	if !all {
		return nil
	}
	put(out, "disk_reads", grown[diskReads]/seconds)
	put(out, "disk_writes", grown[diskWrites]/seconds)
	put(out, "disk_read_bytes", grown[diskSectorsRead]*sectorSize/seconds)
	put(out, "disk_write_bytes", grown[diskSectorsWritten]*sectorSize/seconds)
	put(out, "disk_utilisation", fraction(grown[diskBusyMS]/1000/seconds))
	// 0/0 if there were no reads, which put leaves out.
	put(out, "disk_read_latency_us", grown[diskReadMS]*1000/grown[diskReads])
	put(out, "disk_write_latency_us", grown[diskWriteMS]*1000/grown[diskWrites])
	return nil
}

func (d *diskSource) close() error { return d.file.close() }

// spaceSource reads the free space of the data's file system.
type spaceSource struct{ dir string }

func openSpace(dir string) (source, error) { return opened(&spaceSource{dir}) }

func (s *spaceSource) describe() []result.Counter {
	return []result.Counter{{Name: "disk_free_bytes", Group: groupOS, Unit: "bytes",
		Help: "space left to the server on the file system of its data"}}
}

func (s *spaceSource) sample(_ time.Time, out figures) error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", s.dir, err)
	}
	put(out, "disk_free_bytes", float64(st.Bavail)*float64(st.Frsize))
	return nil
}

func (s *spaceSource) close() error { return nil }
