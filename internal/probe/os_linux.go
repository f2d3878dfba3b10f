package probe

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// system has the locations of Linux's figures; tests use others. Files that are read only once are
// read with the package procfs. Files that are read in each interval are parsed here, because
// procfs costs several times as much (docs/decisions/0003-dependencies.md).
type system struct {
	proc, sys, etc string
	// stat returns two device numbers of a file: holder is the device that stores the file; itself
	// is the device that the file represents, 0 if it is no block device.
	stat func(path string) (holder, itself devNumber, err error)
	// clock reads the CPU time of a process; nil if the files in proc are not this machine's.
	clock func(pid int) (seconds float64, err error)
}

func hostSystem() system {
	return system{proc: procfs.DefaultMountPoint, sys: "/sys", etc: "/etc", stat: statDevice, clock: processClock}
}

// open opens the sources of the machine. Some may be nil: most virtual machines have no frequency,
// and most processes no quota.
func (sys system) open(take taker) {
	page := float64(os.Getpagesize())
	take("cpu figures", sys.cpu(), nil)
	take("kernel threads", sys.kernelThreads(), nil)
	take("load figures", lines(filepath.Join(sys.proc, "loadavg"),
		line{"", 0, 1, ofMachine("os_load1", "", "tasks that run or wait for a processor or a disk, mean of about a minute")},
		line{"", 3, 1, ofMachine("os_runnable", "", "tasks that ran or waited for a processor at the interval's end")}), nil)
	take("cpu frequency", sys.frequency(), nil)
	take("throttling figures", sys.throttling(), nil)
	take("memory figures", lines(filepath.Join(sys.proc, "meminfo"),
		line{"MemAvailable:", 0, 1024, ofMachine("mem_available_bytes", "bytes", "memory that programs can have without swapping")},
		line{"Dirty:", 0, 1024, ofMachine("mem_dirty_bytes", "bytes", "file pages waiting to be written to disk")},
		line{"Cached:", 0, 1024, ofMachine("mem_cached_bytes", "bytes", "file pages kept in memory")}), nil)
	take("swap figures", lines(filepath.Join(sys.proc, "vmstat"),
		line{"pswpin ", 0, page, ofMachine("swap_in_bytes", "bytes/s", "memory read back from swap")},
		line{"pswpout ", 0, page, ofMachine("swap_out_bytes", "bytes/s", "memory written to swap")}), nil)
	for _, name := range []string{"cpu", "io", "memory"} {
		take(name+" pressure figures", sys.pressure(name), nil)
	}
}

// pressure reads the total stall times of a file of /proc/pressure, in microseconds. "full" is
// recorded for io alone: for the CPU it is undefined (Documentation/accounting/psi.rst).
func (sys system) pressure(name string) *source {
	const us = 1e-6
	of := map[string]string{"cpu": "a processor", "io": "I/O", "memory": "memory"}[name]
	read := []line{{"some ", 3, us, ofMachine("pressure_"+name+"_some", "fraction", "time in which some task waited for "+of)}}
	if name == "io" {
		full := ofMachine("pressure_io_full", "fraction", "time in which all tasks that had work waited for I/O")
		read = append(read, line{"full ", 3, us, full})
	}
	return lines(filepath.Join(sys.proc, "pressure", name), read...)
}

// A line is a figure that is read from a file. The figure is a number of the first line that begins
// with prefix, times scale. If the figure's unit is a fraction or a rate, the figure is the growth
// of that product per second.
type line struct {
	prefix string
	place  int // of the number in its line
	scale  float64
	result.Counter
}

func ofMachine(name, unit, help string) result.Counter {
	return result.Counter{Name: name, Group: groupOS, Unit: unit, Help: help}
}

// lines reads figures of the machine from the lines of a file.
func lines(path string, read ...line) *source {
	s := &source{}
	meters := make([]meter, len(read))
	for _, l := range read {
		s.counters = append(s.counters, l.Counter)
	}
	s.sample = func(now time.Time, out figures) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, l := range read {
			found, err := numbersOf(string(text), l.prefix, l.place+1)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			v := found[l.place] * l.scale
			share := l.Unit == "fraction"
			if !share && !strings.HasSuffix(l.Unit, "/s") {
				put(out, l.Name, v)
			} else if grown, seconds, ok := meters[i].advance(v, now); ok && share {
				put(out, l.Name, fraction(grown/seconds))
			} else if ok {
				put(out, l.Name, grown/seconds)
			}
		}
		return nil
	}
	return s
}

// numbersIn returns the numbers of a text: 1, 5 and 7 of "some avg10=1 total=5/7 kB".
func numbersIn(text string) (out []float64) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n=/", r) }) {
		if v, err := strconv.ParseFloat(word, 64); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// numbersOf returns the numbers of the first line that begins with a prefix, at least n.
func numbersOf(text, prefix string, n int) ([]float64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			if found := numbersIn(rest); len(found) >= n {
				return found, nil
			}
			return nil, fmt.Errorf("want %s: %.60q", figure.Plural(n, "number", "numbers"), line)
		}
	}
	return nil, fmt.Errorf("no line %s", prefix)
}

// readNumbers is numbersOf for the text of a file.
func readNumbers(path, prefix string, n int) ([]float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found, err := numbersOf(string(text), prefix, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return found, nil
}

// cpu reads the CPU time of all cores by kind.
func (sys system) cpu() *source {
	s := &source{counters: []result.Counter{
		ofMachine("os_cpu_user", "fraction", "CPU time in programs, of all cores"),
		ofMachine("os_cpu_system", "fraction", "CPU time in the kernel, interrupts included, of all cores"),
		ofMachine("os_cpu_iowait", "fraction", "CPU time idle while a task waited for a disk, of all cores"),
		ofMachine("os_cpu_steal", "fraction", "CPU time that the host gave to others, of all cores"),
		ofMachine("os_cpu_idle", "fraction", "CPU time idle, of all cores"),
		ofMachine("os_cpu_interrupts", "fraction", "CPU time in interrupts, which is part of that in the kernel, of all cores"),
	}}
	var before []float64
	s.sample = func(_ time.Time, out figures) error {
		// Ticks: user nice system idle iowait irq softirq steal. Guest times, which
		// follow, are included in user and nice (proc_stat(5)).
		t, err := readNumbers(filepath.Join(sys.proc, "stat"), "cpu ", 8)
		if err != nil {
			return err
		}
		now := []float64{t[0] + t[1], t[2] + t[5] + t[6], t[4], t[7], t[3], t[5] + t[6]} // as in counters
		grown, total := make([]float64, len(now)), 0.0
		for i := range before {
			// The kernel estimates iowait and idle, so they may decrease: this counts as 0.
			grown[i] = max(now[i]-before[i], 0)
			if i < 5 { // the last one is part of the CPU time in the kernel
				total += grown[i]
			}
		}
		for i, c := range s.counters {
			put(out, c.Name, grown[i]/total) // left out if less than a tick has passed
		}
		before = now
		return nil
	}
	return s
}

// maxFrequencies is the maximum number of processors whose frequency is read, because
// each reading may interrupt the processor in question.
const maxFrequencies = 8

// frequency reads cpufreq; most virtual machines have none.
func (sys system) frequency() *source {
	// The pattern is valid, so there is no error.
	paths, _ := filepath.Glob(filepath.Join(sys.sys, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"))
	if len(paths) == 0 {
		return nil
	}
	step := (len(paths) + maxFrequencies - 1) / maxFrequencies
	return &source{counters: []result.Counter{
		ofMachine("cpu_frequency", "Hz", "frequency of the processors at the interval's end, mean of those asked"),
		ofMachine("cpu_frequency_min", "Hz", "frequency of the slowest of them"),
	}, sample: func(_ time.Time, out figures) error {
		sum, n, least := 0.0, 0.0, math.Inf(1)
		for i := 0; i < len(paths); i += step {
			khz, err := readNumbers(paths[i], "", 1)
			if err != nil {
				return err
			}
			sum, n, least = sum+khz[0], n+1, min(least, khz[0])
		}
		put(out, "cpu_frequency", sum/n*1e3)
		put(out, "cpu_frequency_min", least*1e3)
		return nil
	}}
}

// throttling reads how long the process's control group, or a group around it, was throttled
// because it had used up its quota of CPU time (cpu.stat of
// Documentation/admin-guide/cgroup-v2.rst).
func (sys system) throttling() *source {
	held := line{"throttled_usec ", 0, 1e-6, ofMachine("cgroup_throttled", "seconds/s",
		"time that processors were withheld from rowmill's control group for its quota, sum of all cores")}
	times := line{"nr_throttled ", 0, 1, ofMachine("cgroup_throttles", "ops/s", "how often that happened")}
	var groups []*source
	path := readLine(filepath.Join(sys.proc, "self/cgroup"), "0::") // version 2 of control groups
	for dir := path; dir != ""; dir = filepath.Dir(dir) {
		group := lines(filepath.Join(sys.sys, "fs/cgroup", dir, "cpu.stat"), held, times)
		if group.sample(time.Now(), figures{}) == nil { // a container sees only part of the hierarchy
			groups = append(groups, group)
		}
		if dir == "/" {
			break
		}
	}
	if len(groups) == 0 {
		return nil
	}
	return &source{counters: groups[0].counters, sample: func(now time.Time, out figures) error {
		for _, g := range groups {
			own := figures{}
			if err := g.sample(now, own); err != nil {
				return err
			}
			for name, v := range own {
				out[name] += v
			}
		}
		return nil
	}}
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
	m.Kernel = readLine(filepath.Join(sys.proc, "sys/kernel/osrelease"), "")
	if name := readLine(filepath.Join(sys.etc, "os-release"), "PRETTY_NAME="); name != "" {
		m.OS = strings.Trim(name, `"'`)
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

// readLine returns the rest of a file's first line that begins with a prefix; "" if there is none.
func readLine(path, prefix string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// threadCPU returns the CPU time of the calling thread in seconds; NaN if it can't be read.
func threadCPU() float64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return math.NaN()
	}
	return float64(ts.Nano()) / 1e9
}
