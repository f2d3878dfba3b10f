package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rowmill/rowmill/result"
)

// userHZ is the number of ticks per second in /proc/PID/stat. It is 100 on every
// platform that Go supports, independent of the kernel's timer.
const userHZ = 100

// processSource reads the server's process and its child processes. CPU time is in
// ticks of 10 ms.
//
// The CPU time of an ended child is added to its parent once the parent has waited
// for it, so the sum over the living processes doesn't decrease when one ends.
type processSource struct {
	sys      system
	pid      int
	started  uint64 // ticks after boot: distinguishes processes with the same id
	stat     *kernelFile
	statm    *kernelFile
	status   *kernelFile // nil if it has no peak of memory
	io       *kernelFile // nil if it may not be read
	children *kernelFile // nil if the kernel doesn't list them
	cpuMeter meter
	reads    meter
	writes   meter
	used     *cpuTime
}

// openProcess opens the server's process, whose CPU time is added to used.
func (sys system) openProcess(pid int, used *cpuTime, warn func(string)) (*processSource, error) {
	dir := filepath.Join(sys.proc, strconv.Itoa(pid))
	p := &processSource{sys: sys, pid: pid, used: used}
	var err error
	if p.stat, err = openKernelFile(filepath.Join(dir, "stat")); err != nil {
		return nil, err
	}
	if p.statm, err = openKernelFile(filepath.Join(dir, "statm")); err != nil {
		return nil, errors.Join(err, p.close())
	}
	s, err := readProcessStat(p.stat)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.started = s.started
	if p.status, err = openKernelFile(filepath.Join(dir, "status")); err == nil {
		if _, err = p.peak(); err != nil {
			p.status.close()
			p.status = nil
		}
	}
	if p.io, err = openKernelFile(filepath.Join(dir, "io")); err == nil {
		if _, _, err = readProcessIO(p.io); err != nil {
			err = errors.Join(err, p.io.close())
			p.io = nil
		}
	}
	if err != nil {
		warn("server disk figures left out: " + err.Error())
	}
	// The main thread's children, because servers fork in the main thread.
	path := filepath.Join(dir, "task", strconv.Itoa(pid), "children")
	if p.children, err = openKernelFile(path); err != nil {
		warn("server process figures are those of its first process only: " + err.Error())
	}
	return p, nil
}

func (p *processSource) describe() []result.Counter {
	out := []result.Counter{
		{Name: "server_cpu", Group: groupServer, Unit: "cores", Help: "CPU time of the server's processes per second"},
		{Name: "server_rss_bytes", Group: groupServer, Unit: "bytes", Help: "memory of the server's processes: what each has of its own, and the largest share of one in what they share"},
	}
	if p.status != nil {
		out = append(out, result.Counter{Name: "server_peak_bytes", Group: groupServer, Unit: "bytes", Help: "most memory that the server's first process has had since it started"})
	}
	if p.io != nil {
		out = append(out,
			result.Counter{Name: "server_io_read_bytes", Group: groupServer, Unit: "bytes/s", Help: "bytes that the server's processes had read from disk"},
			result.Counter{Name: "server_io_write_bytes", Group: groupServer, Unit: "bytes/s", Help: "bytes that the server's processes had written, or will have once dirty pages are"})
	}
	return out
}

// processUse is the resources that processes have used so far and hold at present.
type processUse struct {
	ticks        uint64
	private      uint64 // pages
	shared       uint64 // pages, of the process with the most
	reads, wrote uint64 // bytes
}

func (p *processSource) sample(now time.Time, out figures) error {
	use, err := p.read()
	if err != nil {
		return err
	}
	if grown, seconds, ok := p.cpuMeter.advance(float64(use.ticks)/userHZ, now); ok {
		put(out, "server_cpu", grown/seconds)
		p.used.seconds, p.used.known = p.used.seconds+grown, true
	}
	put(out, "server_rss_bytes", float64(use.private+use.shared)*float64(os.Getpagesize()))
	if p.status != nil {
		if bytes, err := p.peak(); err == nil {
			put(out, "server_peak_bytes", float64(bytes))
		}
	}
	if p.io != nil {
		p.reads.rate(float64(use.reads), now, 1, "server_io_read_bytes", out)
		p.writes.rate(float64(use.wrote), now, 1, "server_io_write_bytes", out)
	}
	return nil
}

// peak returns the peak memory of the first process (VmHWM), in bytes.
func (p *processSource) peak() (uint64, error) {
	text, err := p.status.read()
	if err != nil {
		return 0, err
	}
	kb, ok := lineNumber(text, "VmHWM:\t")
	if !ok {
		return 0, fmt.Errorf("%s has no VmHWM", p.status.f.Name())
	}
	return kb << 10, nil
}

// errForking means that processes ended during the reading, so that the sum is
// unreliable.
var errForking = errors.New("processes ended while they were read")

// read adds up the processes. A child that ends during the reading may be
// counted twice or not at all. The parent's time of ended children shows that,
// and the reading is repeated.
func (p *processSource) read() (processUse, error) {
	for range 3 {
		main, err := readProcessStat(p.stat)
		if err != nil {
			return processUse{}, err
		}
		if main.started != p.started {
			return processUse{}, fmt.Errorf("process id %d now belongs to another process", p.pid)
		}
		if main.ended {
			return processUse{}, fmt.Errorf("process %d has ended", p.pid)
		}
		use := processUse{ticks: main.ticks + main.reaped}
		if err := use.addFiles(p.statm, p.io); err != nil {
			return processUse{}, err
		}
		forked, err := p.addChildren(&use)
		if err != nil {
			return processUse{}, err
		}
		if !forked {
			return use, nil
		}
		again, err := readProcessStat(p.stat)
		if err != nil {
			return processUse{}, err
		}
		if again.reaped == main.reaped {
			return use, nil
		}
	}
	return processUse{}, errForking
}

func (p *processSource) addChildren(use *processUse) (forked bool, err error) {
	if p.children == nil {
		return false, nil
	}
	text, err := p.children.read()
	if err != nil {
		return false, err
	}
	for {
		pid, rest, ok := nextNumber(text)
		if !ok {
			return forked, nil
		}
		text, forked = rest, true
		use.addChild(filepath.Join(p.sys.proc, strconv.FormatUint(pid, 10)), p.io != nil)
	}
}

// addChild adds the readable figures of a child, which may end at any moment: the sum
// is then read again.
func (u *processUse) addChild(dir string, io bool) {
	stat, err := openKernelFile(filepath.Join(dir, "stat"))
	if err != nil {
		return
	}
	defer stat.close()
	s, err := readProcessStat(stat)
	if err != nil {
		return
	}
	u.ticks += s.ticks + s.reaped
	statm, err := openKernelFile(filepath.Join(dir, "statm"))
	if err != nil {
		return
	}
	defer statm.close()
	var ioFile *kernelFile
	if io {
		if ioFile, err = openKernelFile(filepath.Join(dir, "io")); err == nil {
			defer ioFile.close()
		}
	}
	_ = u.addFiles(statm, ioFile)
}

// addFiles adds the memory and disk use of one process; io may be nil.
func (u *processUse) addFiles(statm, io *kernelFile) error {
	text, err := statm.read()
	if err != nil {
		return err
	}
	var pages [3]uint64 // size, resident, shared
	if numbers(text, pages[:]) < len(pages) {
		return fmt.Errorf("%s: not a process's memory: %.60q", statm.f.Name(), text)
	}
	u.private += pages[1] - min(pages[1], pages[2])
	u.shared = max(u.shared, pages[2])
	if io == nil {
		return nil
	}
	reads, wrote, err := readProcessIO(io)
	if err != nil {
		return err
	}
	u.reads += reads
	u.wrote += wrote
	return nil
}

// startedAfter makes a source that has not been sampled count from its process's
// start, as if it had been sampled at the given time, when nothing was used yet.
func (p *processSource) startedAfter(at time.Time) {
	zero := meter{at: at}
	p.cpuMeter, p.reads, p.writes = zero, zero, zero
}

func (p *processSource) close() error {
	return closeFiles(p.stat, p.statm, p.status, p.io, p.children)
}

// processStat is the relevant part of /proc/PID/stat.
type processStat struct {
	ticks   uint64 // user and system
	reaped  uint64 // the same for its ended children
	started uint64 // after boot
	ended   bool   // ended, but its parent hasn't waited for it yet
}

func readProcessStat(f *kernelFile) (processStat, error) {
	text, err := f.read()
	if err != nil {
		return processStat{}, err
	}
	s, err := parseProcessStat(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", f.f.Name(), err)
	}
	return s, nil
}

// parseProcessStat parses a line of /proc/PID/stat (proc_pid_stat(5)). The
// second field is the program's name in parentheses; it may itself contain
// spaces and parentheses, so it ends at the last closing one.
func parseProcessStat(text []byte) (processStat, error) {
	bad := func() (processStat, error) {
		return processStat{}, fmt.Errorf("not a process's line: %.60q", text)
	}
	name := bytes.LastIndexByte(text, ')')
	if name < 0 {
		return bad()
	}
	rest := text[name:]
	ended := bytes.HasPrefix(rest, []byte(") Z")) || bytes.HasPrefix(rest, []byte(") X"))
	var v [23]uint64 // indexed as in the manual, where the first field is 1
	for field := 3; field < len(v); field++ {
		blank := bytes.IndexByte(rest, ' ')
		if blank < 0 {
			return bad()
		}
		rest = rest[blank+1:]
		switch field {
		case 14, 15, 16, 17, 22:
			var ok bool
			if v[field], _, ok = nextNumber(rest); !ok {
				return bad()
			}
		}
	}
	return processStat{ticks: v[14] + v[15], reaped: v[16] + v[17], started: v[22], ended: ended}, nil
}

func readProcessIO(f *kernelFile) (reads, wrote uint64, err error) {
	text, err := f.read()
	if err != nil {
		return 0, 0, err
	}
	reads, ok := lineNumber(text, "read_bytes: ")
	wrote, ok2 := lineNumber(text, "write_bytes: ")
	if !ok || !ok2 {
		return 0, 0, fmt.Errorf("%s has no read_bytes and write_bytes", f.f.Name())
	}
	return reads, wrote, nil
}
