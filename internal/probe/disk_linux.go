package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/result"
)

// devNumber is a device number in the kernel's encoding of stat(2).
type devNumber uint64

// String returns "major:minor", as /sys/dev/block names devices.
func (d devNumber) String() string {
	return fmt.Sprintf("%d:%d", unix.Major(uint64(d)), unix.Minor(uint64(d)))
}

// anonymous reports whether the number belongs to a file system without a device of its own.
func (d devNumber) anonymous() bool { return unix.Major(uint64(d)) == 0 }

func statDevice(path string) (holder, itself devNumber, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		itself = devNumber(st.Rdev)
	}
	return devNumber(st.Dev), itself, nil
}

// openDisk opens the sources of the disk that holds a data directory.
func (sys system) openDisk(dataDir string, take taker, warn func(string)) {
	if dataDir == "" {
		warn("disk figures left out: where the data lies is unknown, or on another machine")
		return
	}
	d, err := sys.device(dataDir)
	take("disk figures", sys.disk(d), err)
	take("disk space", &source{counters: []result.Counter{
		ofMachine("disk_free_bytes", "bytes", "space left to the server on the file system of its data"),
	}, sample: func(_ time.Time, out figures) error {
		var st unix.Statfs_t
		if err := unix.Statfs(dataDir, &st); err != nil {
			return fmt.Errorf("statfs %s: %w", dataDir, err)
		}
		put(out, "disk_free_bytes", float64(st.Bavail)*float64(st.Frsize))
		return nil
	}}, nil)
}

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

// sectorSize is the unit of the sector columns, independent of the disk's sector size.
const sectorSize = 512

// disk reads the statistics of a block device; for a partition, it reads the partition's own.
// Requests are counted when they complete, and after the kernel has merged adjacent ones.
func (sys system) disk(d device) *source {
	on := " on " + d.name
	var meters [diskColumns]meter
	return &source{counters: []result.Counter{
		ofMachine("disk_reads", "ops/s", "reads completed"+on),
		ofMachine("disk_writes", "ops/s", "writes completed"+on),
		ofMachine("disk_read_bytes", "bytes/s", "bytes read"+on),
		ofMachine("disk_write_bytes", "bytes/s", "bytes written"+on),
		ofMachine("disk_utilisation", "fraction", "time with a request under way"+on+"; a device that serves many at once is not full at 1"),
		ofMachine("disk_read_latency_us", "microseconds", "mean time of a read, queue included,"+on),
		ofMachine("disk_write_latency_us", "microseconds", "mean time of a write, queue included,"+on),
	}, sample: func(now time.Time, out figures) error {
		columns, err := readNumbers(filepath.Join(sys.blockDir(d.number), "stat"), "", diskColumns)
		if err != nil {
			return err
		}
		var grown [diskColumns]float64
		var seconds float64
		all := true
		for i := range grown {
			var ok bool
			grown[i], seconds, ok = meters[i].advance(columns[i], now)
			// The number of requests in flight is the only column that may decrease.
			all = all && (ok || i == diskInFlight)
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
	}}
}

// device is a block device that stores the data.
type device struct {
	number devNumber
	name   string // the kernel's: "sda1", "nvme0n1p2", "dm-0"
}

func (sys system) blockDir(n devNumber) string {
	return filepath.Join(sys.sys, "dev/block", n.String())
}

// device returns the block device that stores dir. The device numbers of some file systems, such as
// btrfs and overlay, are no block devices: these file systems are looked up in the mount table. For
// btrfs, which may have several devices, device returns the one that the mount names; for overlay,
// the device of the upper layer, which receives the writes.
func (sys system) device(dir string) (device, error) {
	holder, _, err := sys.stat(dir)
	if err != nil {
		return device{}, err
	}
	if !holder.anonymous() {
		return sys.blockDevice(holder)
	}
	m, err := sys.mount(dir)
	if err != nil {
		return device{}, fmt.Errorf("no block device behind %s: %w", dir, err)
	}
	source := unescapeMount(m.Source)
	switch {
	case m.FSType == "overlay":
		upper := unescapeMount(m.SuperOptions["upperdir"])
		holder, _, err := sys.stat(upper)
		if err != nil || holder.anonymous() {
			return device{}, fmt.Errorf("no block device behind %s: overlay, and its upper layer %q can't be followed from here", dir, upper)
		}
		return sys.blockDevice(holder)
	case strings.HasPrefix(source, "/"):
		_, itself, err := sys.stat(source)
		if err != nil {
			return device{}, fmt.Errorf("no block device behind %s: %s: %w", dir, m.FSType, err)
		}
		if itself == 0 {
			break
		}
		return sys.blockDevice(itself)
	}
	return device{}, fmt.Errorf("no block device behind %s: %s", dir, m.FSType)
}

// blockDevice returns the block device with a device number, if the kernel shows it.
func (sys system) blockDevice(n devNumber) (device, error) {
	path, err := filepath.EvalSymlinks(sys.blockDir(n))
	if err != nil {
		return device{}, fmt.Errorf("find block device %s: %w", n, err)
	}
	return device{number: n, name: filepath.Base(path)}, nil
}

// mount returns the mount that contains dir: of the mount points that are a prefix of dir, the
// longest. If several file systems are mounted at this point, it returns the last, which covers the
// others.
func (sys system) mount(dir string) (*procfs.MountInfo, error) {
	real, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.EvalSymlinks(real); err != nil {
		return nil, err
	}
	fs, err := procfs.NewFS(sys.proc)
	if err != nil {
		return nil, err
	}
	mounts, err := fs.GetMounts()
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var best *procfs.MountInfo
	longest := -1
	for _, m := range mounts {
		point := unescapeMount(m.MountPoint)
		within := point == "/" || real == point || strings.HasPrefix(real, point+"/")
		if within && len(point) >= longest {
			best, longest = m, len(point)
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no mount holds %s", real)
	}
	return best, nil
}

// unescapeMount reverses the kernel's escapes in mountinfo: spaces, tabs, line
// feeds and backslashes are written as a backslash and three octal digits.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// describeDevice describes the disk below a device: the disk of a partition, or the first disk of a
// mapped device.
func (sys system) describeDevice(d device) string {
	dir := sys.blockDir(d.number)
	// Mapped devices can be stacked: encryption on a volume on a RAID.
	for range 8 {
		if dir = sys.wholeDisk(dir); dir == "" {
			return d.name
		}
		slaves, _ := filepath.Glob(filepath.Join(dir, "slaves/*"))
		if len(slaves) == 0 {
			break
		}
		dir = slaves[0]
	}
	name := d.name
	if disk := filepath.Base(dir); disk != name {
		name += " on " + disk
	}
	var says []string
	if model := readLine(filepath.Join(dir, "device/model"), ""); model != "" {
		says = append(says, model)
	}
	switch readLine(filepath.Join(dir, "queue/rotational"), "") {
	case "0":
		says = append(says, "not rotational")
	case "1":
		says = append(says, "rotational")
	}
	if cache := readLine(filepath.Join(dir, "queue/write_cache"), ""); cache != "" {
		says = append(says, cache+" cache")
	}
	if len(says) == 0 {
		return name
	}
	return name + ": " + strings.Join(says, ", ")
}

// Sectors returns the sizes of a device's blocks, in bytes, as the kernel addresses them and as the
// device writes them. cache is the kind of the device's write cache. A value that the kernel
// doesn't tell is 0 or "".
func Sectors(dir string) (logical, physical int64, cache string) {
	sys := hostSystem()
	d, err := sys.device(dir)
	if err != nil {
		return 0, 0, ""
	}
	queue := filepath.Join(sys.wholeDisk(sys.blockDir(d.number)), "queue")
	logical, _ = strconv.ParseInt(readLine(filepath.Join(queue, "logical_block_size"), ""), 10, 64)
	physical, _ = strconv.ParseInt(readLine(filepath.Join(queue, "physical_block_size"), ""), 10, 64)
	return logical, physical, readLine(filepath.Join(queue, "write_cache"), "")
}

// wholeDisk returns the directory of the disk of a partition, or the directory of any other device;
// "" if the device doesn't exist.
func (sys system) wholeDisk(dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	return dir
}
