package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/result"
)

// system is the locations of Linux's figures; tests use other roots. Values that
// are read once come from procfs. Values that are read every interval are parsed
// here from files that stay open: procfs opens and parses whole files, which costs
// ten times the CPU time and 80 KB of garbage per sample (docs/decisions/0003-dependencies.md).
type system struct {
	proc, sys, etc string
	// stat returns the device that stores a file, and the device that the file
	// itself represents, 0 if it is no block device.
	stat func(path string) (holder, itself devNumber, err error)
}

func hostSystem() system {
	return system{proc: procfs.DefaultMountPoint, sys: "/sys", etc: "/etc", stat: statDevice}
}

// devNumber is a device number in the kernel's encoding of stat(2).
type devNumber uint64

// String returns "major:minor", as /sys/dev/block names devices.
func (d devNumber) String() string {
	return fmt.Sprintf("%d:%d", unix.Major(uint64(d)), unix.Minor(uint64(d)))
}

// anonymous reports whether the number is that of a file system without a device
// of its own.
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

// open opens the readable sources of the machine, and warns about the others.
func (sys system) open(warn func(string)) []*watched {
	var out []*watched
	add := func(what string, open func(system) (source, error)) {
		switch s, err := open(sys); {
		case err == nil:
			out = append(out, watch(what, s))
		case !errors.Is(err, errNotShown):
			warn(what + " left out: " + err.Error())
		}
	}
	add("cpu figures", openCPU)
	add("load figures", openLoad)
	// Most virtual machines show no frequency, and most processes have no quota:
	// this is not worth a warning.
	add("cpu frequency", openFrequency)
	add("throttling figures", openThrottle)
	add("memory figures", openMemory)
	add("swap figures", openSwap)
	for _, name := range []string{"cpu", "io", "memory"} {
		add(name+" pressure figures", func(sys system) (source, error) { return openPressure(sys, name) })
	}
	return out
}

// openDisk opens the sources of the disk that holds a data directory, and warns about
// those that can't be read.
func (sys system) openDisk(dataDir string, warn func(string)) []*watched {
	if dataDir == "" {
		warn("disk figures left out: where the data lies is unknown, or on another machine")
		return nil
	}
	var out []*watched
	disk, err := openDisk(sys, dataDir, warn)
	if err != nil {
		warn("disk figures left out: " + err.Error())
	} else {
		out = append(out, watch("disk figures", disk))
	}
	space, err := openSpace(dataDir)
	if err != nil {
		warn("disk space left out: " + err.Error())
	} else {
		out = append(out, watch("disk space", space))
	}
	return out
}

// describeMachine fills in the information that Linux provides.
func (sys system) describeMachine(dataDir string, m *result.Machine) {
	if fs, err := procfs.NewFS(sys.proc); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			m.Cores, m.CPU = len(cpus), cpus[0].ModelName
		}
		if mem, err := fs.Meminfo(); err == nil && mem.MemTotalBytes != nil {
			m.MemoryBytes = int64(*mem.MemTotalBytes)
		}
	}
	m.Kernel = readLine(filepath.Join(sys.proc, "sys/kernel/osrelease"))
	if name := sys.osName(); name != "" {
		m.OS = name
	}
	if dataDir == "" {
		return
	}
	if mount, err := sys.mount(dataDir); err == nil {
		m.Filesystem = mount.FSType
	}
	if d, err := sys.device(dataDir); err == nil {
		m.Disk = sys.describeDevice(d)
	}
}

// osName returns PRETTY_NAME of os-release(5), "" if there is none.
func (sys system) osName() string {
	text, err := os.ReadFile(filepath.Join(sys.etc, "os-release"))
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// readLine returns a small file's first line, "" if it can't be read.
func readLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// kernelFile is a file of /proc or /sys that is kept open: when it is read from its
// start, the kernel generates it again. A file of a process stays bound to that
// process; reading it fails once the process has ended, even if its id is reused.
type kernelFile struct {
	f   *os.File
	buf []byte
	// head means that only the first bytes are needed, as many as fit in buf.
	head bool
}

// headSize is sufficient for the first line of /proc/stat: ten numbers of 20 digits.
const headSize = 256

func openKernelFile(path string) (*kernelFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &kernelFile{f: f, buf: make([]byte, 2048)}, nil
}

func openKernelFileHead(path string) (*kernelFile, error) {
	k, err := openKernelFile(path)
	if err == nil {
		k.head, k.buf = true, k.buf[:headSize]
	}
	return k, err
}

// read returns the contents, valid until the next read.
func (k *kernelFile) read() ([]byte, error) {
	for {
		n, err := k.f.ReadAt(k.buf, 0)
		switch {
		case err == nil && !k.head: // the buffer is full: there may be more
			k.buf = make([]byte, 2*len(k.buf))
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		return k.buf[:n], nil
	}
}

// closeFiles closes files; those that are nil are not open.
func closeFiles(files ...*kernelFile) error {
	var errs []error
	for _, k := range files {
		if k != nil {
			errs = append(errs, k.close())
		}
	}
	return errors.Join(errs...)
}

func (k *kernelFile) close() error { return k.f.Close() }

// nextNumber returns the first decimal number in text, skipping spaces before
// it, and the text after it; false if there is none.
func nextNumber(text []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	begin := i
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		v = v*10 + uint64(text[i]-'0')
		i++
	}
	return v, text[i:], i > begin
}

// numbers fills dst with the decimal numbers at the start of text and returns
// how many there were.
func numbers(text []byte, dst []uint64) int {
	for i := range dst {
		v, rest, ok := nextNumber(text)
		if !ok {
			return i
		}
		dst[i], text = v, rest
	}
	return len(dst)
}

// lineNumber returns the number after a prefix at the start of a line; false if
// no line begins with the prefix.
func lineNumber(text []byte, prefix string) (uint64, bool) {
	for line := range bytes.Lines(text) {
		if len(line) > len(prefix) && string(line[:len(prefix)]) == prefix {
			v, _, ok := nextNumber(line[len(prefix):])
			return v, ok
		}
	}
	return 0, false
}

// threadCPU returns the CPU time of the calling thread in seconds; NaN if it
// can't be read.
func threadCPU() float64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return math.NaN()
	}
	return float64(ts.Nano()) / 1e9
}

// openSteal opens the CPU times a second time, for a reader with another interval.
func (sys system) openSteal() (source, error) { return openCPU(sys) }
