package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/result"
)

// userHZ is the number of ticks per second in /proc/PID/stat. It is 100 on every
// platform that Go supports, independent of the kernel's timer.
const userHZ = 100

// processSource reads the server's process and its child processes. The CPU time of an ended child
// is added to its parent, so that the sum doesn't decrease. The CPU time of a living process is
// read from its clock: for 1,000 processes of PostgreSQL, the ticks of /proc/PID/stat showed only a
// quarter of their CPU time.
type processSource struct {
	counters []result.Counter
	sys      system
	dir      string
	started  float64 // ticks after boot: distinguishes processes with the same id
	// What can be read: the disk use, the peak of memory, the list of children.
	io, peak, children bool

	cpuMeter, reads, writes meter
	used                    *cpuTime
}

// openProcess opens the server's process, whose CPU time is added to used.
func (sys system) openProcess(pid int, used *cpuTime, warn func(string)) (*processSource, error) {
	dir := filepath.Join(sys.proc, strconv.Itoa(pid))
	s, err := readProcessStat(dir)
	if err != nil {
		return nil, err
	}
	p := &processSource{sys: sys, dir: dir, started: s.started, used: used, counters: []result.Counter{
		{Name: "server_cpu", Group: groupServer, Unit: "cores", Help: "CPU time of the server's processes per second"},
		{Name: "server_rss_bytes", Group: groupServer, Unit: "bytes", Help: "memory of the server's processes: what each has of its own, and the largest share of one in what they share"},
	}}
	if err := (&processUse{}).add(dir, false); err != nil {
		return nil, err
	}
	if _, err := readPeak(dir); err == nil {
		p.peak = true
		p.counters = append(p.counters, result.Counter{Name: "server_peak_bytes", Group: groupServer, Unit: "bytes", Help: "most memory that the server's first process has had since it started"})
	}
	if err := (&processUse{}).add(dir, true); err != nil {
		warn("server disk figures left out: " + err.Error())
	} else {
		p.io = true
		p.counters = append(p.counters,
			result.Counter{Name: "server_io_read_bytes", Group: groupServer, Unit: "bytes/s", Help: "bytes that the server's processes had read from disk"},
			result.Counter{Name: "server_io_write_bytes", Group: groupServer, Unit: "bytes/s", Help: "bytes that the server's processes had written, or will have once dirty pages are"})
	}
	if _, err := readChildren(p.dir); err != nil {
		warn("server process figures are those of its first process only: " + err.Error())
	} else {
		p.children = true
	}
	return p, nil
}

func (p *processSource) sample(now time.Time, out figures) error {
	use, err := p.read()
	if err != nil {
		return err
	}
	if grown, seconds, ok := p.cpuMeter.advance(use.cpu, now); ok {
		put(out, "server_cpu", grown/seconds)
		p.used.seconds, p.used.known = p.used.seconds+grown, true
	}
	put(out, "server_rss_bytes", (use.private+use.shared)*float64(os.Getpagesize()))
	if p.peak {
		if bytes, err := readPeak(p.dir); err == nil {
			put(out, "server_peak_bytes", bytes)
		}
	}
	if p.io {
		p.reads.rate(use.reads, now, "server_io_read_bytes", out)
		p.writes.rate(use.wrote, now, "server_io_write_bytes", out)
	}
	return nil
}

// startedAfter makes the first sample of a new process count all that the process has used, as if a
// sample at the given time had read 0.
func (p *processSource) startedAfter(at time.Time) {
	zero := meter{at: at}
	p.cpuMeter, p.reads, p.writes = zero, zero, zero
}

// errForking means that processes ended during the reading, so that the sum is unreliable.
var errForking = errors.New("processes ended while they were read")

// read adds up the CPU time, memory and disk use of the server's process and its children. A child
// that ends meanwhile may be counted twice or not at all. The parent's stat file shows this: it has
// the CPU time of all ended children. If that has changed, read starts again; it reads at most
// three times.
func (p *processSource) read() (processUse, error) {
	for range 3 {
		main, err := readProcessStat(p.dir)
		if err != nil {
			return processUse{}, err
		}
		if main.started != p.started {
			return processUse{}, fmt.Errorf("process id %s now belongs to another process", filepath.Base(p.dir))
		}
		if main.ended {
			return processUse{}, fmt.Errorf("process %s has ended", filepath.Base(p.dir))
		}
		use := processUse{cpu: p.sys.cpuOf(p.dir, main)}
		if err := use.add(p.dir, p.io); err != nil {
			return processUse{}, err
		}
		if !p.children {
			return use, nil
		}
		children, err := readChildren(p.dir)
		if err != nil {
			return processUse{}, err
		}
		for _, pid := range children {
			// A child may end at any moment: the sum is then read again.
			dir := filepath.Join(p.sys.proc, strconv.Itoa(int(pid)))
			if s, err := readProcessStat(dir); err == nil {
				use.cpu += p.sys.cpuOf(dir, s)
				_ = use.add(dir, p.io)
			}
		}
		if len(children) == 0 {
			return use, nil
		}
		again, err := readProcessStat(p.dir)
		if err != nil {
			return processUse{}, err
		}
		if again.reaped == main.reaped {
			return use, nil
		}
	}
	return processUse{}, errForking
}

// readChildren returns the child processes that the main thread of a process has started. Servers
// fork in their main thread.
func readChildren(dir string) ([]float64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "task", filepath.Base(dir), "children"))
	return numbersIn(string(text)), err
}

// readPeak returns a process's peak of memory, in bytes.
func readPeak(dir string) (float64, error) {
	kib, err := readNumbers(filepath.Join(dir, "status"), "VmHWM:", 1)
	if err != nil {
		return 0, err
	}
	return kib[0] * 1024, nil
}

// processUse is the resources that processes have used so far and hold at present.
type processUse struct {
	cpu          float64 // seconds
	private      float64 // pages
	shared       float64 // pages, of the process with the most
	reads, wrote float64 // bytes
}

// add adds the memory and, if io is set, the disk use of one process.
func (u *processUse) add(dir string, io bool) error {
	pages, err := readNumbers(filepath.Join(dir, "statm"), "", 3) // size, resident, shared
	if err != nil {
		return err
	}
	u.private += max(pages[1]-pages[2], 0)
	u.shared = max(u.shared, pages[2])
	if !io {
		return nil
	}
	path := filepath.Join(dir, "io")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	reads, err1 := numbersOf(string(text), "read_bytes: ", 1)
	wrote, err2 := numbersOf(string(text), "write_bytes: ", 1)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	u.reads += reads[0]
	u.wrote += wrote[0]
	return nil
}

// processStat is the relevant part of /proc/PID/stat (proc_pid_stat(5)), in ticks.
type processStat struct {
	ticks   float64 // user and system
	reaped  float64 // the same for its ended children
	started float64 // after boot
	kernel  bool    // a thread of the kernel
	ended   bool    // ended, but its parent hasn't waited for it yet
}

func readProcessStat(dir string) (processStat, error) {
	path := filepath.Join(dir, "stat")
	text, err := os.ReadFile(path)
	if err != nil {
		return processStat{}, err
	}
	// The program's name, in parentheses, may itself contain spaces and parentheses.
	rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
	v := numbersIn(rest) // the first of them is field 4
	if len(v) < 22-3 {
		return processStat{}, fmt.Errorf("%s: not a process's line: %.60q", path, text)
	}
	ended := strings.HasPrefix(rest, " Z") || strings.HasPrefix(rest, " X")
	return processStat{ticks: v[14-4] + v[15-4], reaped: v[16-4] + v[17-4], started: v[22-4], kernel: int64(v[9-4])&kernelThread != 0, ended: ended}, nil
}

// cpuOf returns the CPU time in seconds of a process and of its ended children.
func (sys system) cpuOf(dir string, s processStat) float64 {
	own := s.ticks / userHZ
	if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && sys.clock != nil {
		if exact, err := sys.clock(pid); err == nil {
			own = exact
		}
	}
	return own + s.reaped/userHZ
}

// processClock reads the CPU time of a process in seconds. The number of the process's clock is the
// one that clock_getcpuclockid(3) returns: ~PID, followed by three bits that mean the CPU time of a
// whole process.
func processClock(pid int) (seconds float64, err error) {
	var ts unix.Timespec
	err = unix.ClockGettime(int32(^pid<<3|2), &ts)
	return float64(ts.Nano()) / 1e9, err
}

// ProcessCPU returns the user and system CPU time, in seconds, that a process has used, even a
// process that has ended and wasn't waited for yet.
func ProcessCPU(pid int) (seconds float64, err error) {
	s, err := readProcessStat(filepath.Join(hostSystem().proc, strconv.Itoa(pid)))
	return s.ticks / userHZ, err
}

const (
	// kernelThread is PF_KTHREAD of the kernel's include/linux/sched.h.
	kernelThread = 0x00200000
	// betweenThreads is the least time between two readings of the kernel's threads: a machine has
	// some hundred such threads, or thousands if it has many cores.
	betweenThreads = time.Second
)

// kernelThreads reads the CPU time of the kernel's own threads, which complete disk requests, write
// changed pages to disk, and keep file systems' journals. It returns nil where the threads can't be
// seen, as in containers.
func (sys system) kernelThreads() *source {
	known, at := map[string]processStat{}, time.Time{}
	read := func() (grown float64, threads bool) {
		dirs, _ := filepath.Glob(filepath.Join(sys.proc, "[1-9]*"))
		found := make(map[string]processStat, len(dirs))
		for _, dir := range dirs {
			was, again := known[dir]
			now := was
			if !again || was.kernel {
				var err error
				if now, err = readProcessStat(dir); err != nil {
					continue // it has ended
				}
			}
			if again {
				grown += max(now.ticks-was.ticks, 0)
			}
			found[dir], threads = now, threads || now.kernel
		}
		known = found
		return grown / userHZ, threads
	}
	if _, any := read(); !any {
		return nil
	}
	return &source{counters: []result.Counter{ofMachine("kernel_threads_cpu", "cores", "CPU time of the kernel's own threads per second, read once a second")},
		sample: func(now time.Time, out figures) error {
			if passed := now.Sub(at); passed >= betweenThreads {
				grown, _ := read()
				if !at.IsZero() {
					put(out, "kernel_threads_cpu", grown/passed.Seconds())
				}
				at = now
			}
			return nil
		}}
}
