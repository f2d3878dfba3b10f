package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/result"
)

// A fileSource is a source whose figures come from one file of the kernel.
type fileSource struct {
	file     *kernelFile
	counters []result.Counter
	// take adds the figures of the file's contents to out.
	take func(text []byte, now time.Time, out figures) error
}

// openFile opens a fileSource, and reads it once, because some files can be opened but
// not read.
func openFile(file *kernelFile, err error, counters []result.Counter, take func([]byte, time.Time, figures) error) (source, error) {
	if err != nil {
		return nil, err
	}
	return opened(&fileSource{file, counters, take})
}

// opened reads a source once, and closes it if that fails.
func opened(s source) (source, error) {
	if err := s.sample(time.Now(), figures{}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *fileSource) describe() []result.Counter { return s.counters }

func (s *fileSource) sample(now time.Time, out figures) error {
	text, err := s.file.read()
	if err != nil {
		return err
	}
	if err := s.take(text, now, out); err != nil {
		return fmt.Errorf("%s: %w", s.file.f.Name(), err)
	}
	return nil
}

func (s *fileSource) close() error { return s.file.close() }

// cpuTicks is the first line of /proc/stat, the sum of all cores in ticks: user
// nice system idle iowait irq softirq steal. The next two fields, guest and
// guest_nice, are already included in user and nice (proc_stat(5)).
type cpuTicks [8]uint64

const (
	cpuUser = iota
	cpuNice
	cpuSystem
	cpuIdle
	cpuIOWait
	cpuIRQ
	cpuSoftIRQ
	cpuSteal
)

func openCPU(sys system) (source, error) {
	var last cpuTicks
	f, err := openKernelFileHead(filepath.Join(sys.proc, "stat"))
	return openFile(f, err, []result.Counter{
		{Name: "os_cpu_user", Group: groupOS, Unit: "fraction", Help: "CPU time in programs, of all cores"},
		{Name: "os_cpu_system", Group: groupOS, Unit: "fraction", Help: "CPU time in the kernel, interrupts included, of all cores"},
		{Name: "os_cpu_iowait", Group: groupOS, Unit: "fraction", Help: "CPU time idle while a task waited for a disk, of all cores"},
		{Name: "os_cpu_steal", Group: groupOS, Unit: "fraction", Help: "CPU time that the host gave to others, of all cores"},
		{Name: "os_cpu_idle", Group: groupOS, Unit: "fraction", Help: "CPU time idle, of all cores"},
	}, func(text []byte, _ time.Time, out figures) error {
		now, err := parseCPU(text)
		if err != nil {
			return err
		}
		before := last
		last = now
		if before == (cpuTicks{}) {
			return nil
		}
		// The kernel estimates iowait and idle, so they may decrease (proc_stat(5)):
		// a decrease counts as 0.
		var d [len(now)]float64
		var total float64
		for i := range now {
			if now[i] > before[i] {
				d[i] = float64(now[i] - before[i])
				total += d[i]
			}
		}
		if total == 0 {
			return nil // less than a tick
		}
		put(out, "os_cpu_user", (d[cpuUser]+d[cpuNice])/total)
		put(out, "os_cpu_system", (d[cpuSystem]+d[cpuIRQ]+d[cpuSoftIRQ])/total)
		put(out, "os_cpu_iowait", d[cpuIOWait]/total)
		put(out, "os_cpu_steal", d[cpuSteal]/total)
		put(out, "os_cpu_idle", d[cpuIdle]/total)
		return nil
	})
}

// parseCPU parses the first line of /proc/stat.
func parseCPU(text []byte) (cpuTicks, error) {
	var t cpuTicks
	rest, ok := bytes.CutPrefix(text, []byte("cpu "))
	if !ok || numbers(rest, t[:]) < len(t) {
		return t, fmt.Errorf("not a line of cpu times: %.60q", text)
	}
	return t, nil
}

// openLoad reads /proc/loadavg: the load, and the number of currently runnable
// tasks.
func openLoad(sys system) (source, error) {
	f, err := openKernelFile(filepath.Join(sys.proc, "loadavg"))
	return openFile(f, err, []result.Counter{
		{Name: "os_load1", Group: groupOS, Unit: "", Help: "tasks that run or wait for a processor or a disk, mean of about a minute"},
		{Name: "os_runnable", Group: groupOS, Unit: "", Help: "tasks that ran or waited for a processor at the interval's end"},
	}, func(text []byte, _ time.Time, out figures) error {
		load, runnable, err := parseLoad(text)
		if err == nil {
			put(out, "os_load1", load)
			put(out, "os_runnable", float64(runnable))
		}
		return err
	})
}

// parseLoad parses a line such as "0.77 0.48 0.84 1/95 29647": three averages,
// then the numbers of runnable and of all tasks (proc_loadavg(5)).
func parseLoad(text []byte) (load float64, runnable uint64, err error) {
	fields := bytes.Fields(text)
	if len(fields) >= 4 {
		var ok bool
		load, err = strconv.ParseFloat(string(fields[0]), 64)
		if runnable, _, ok = nextNumber(fields[3]); ok && err == nil {
			return load, runnable, nil
		}
	}
	return 0, 0, fmt.Errorf("not a line of load averages: %.60q", text)
}

func openMemory(sys system) (source, error) {
	f, err := openKernelFile(filepath.Join(sys.proc, "meminfo"))
	return openFile(f, err, []result.Counter{
		{Name: "mem_available_bytes", Group: groupOS, Unit: "bytes", Help: "memory that programs can have without swapping"},
		{Name: "mem_dirty_bytes", Group: groupOS, Unit: "bytes", Help: "file pages waiting to be written to disk"},
		{Name: "mem_cached_bytes", Group: groupOS, Unit: "bytes", Help: "file pages kept in memory"},
	}, func(text []byte, _ time.Time, out figures) error {
		for _, f := range [...]struct{ line, name string }{
			{"MemAvailable:", "mem_available_bytes"},
			{"Dirty:", "mem_dirty_bytes"},
			{"Cached:", "mem_cached_bytes"},
		} {
			kib, ok := lineNumber(text, f.line)
			if !ok {
				return fmt.Errorf("no line %s", f.line)
			}
			put(out, f.name, float64(kib)*1024)
		}
		return nil
	})
}

func openSwap(sys system) (source, error) {
	var in, out meter
	page := float64(os.Getpagesize())
	f, err := openKernelFile(filepath.Join(sys.proc, "vmstat"))
	return openFile(f, err, []result.Counter{
		{Name: "swap_in_bytes", Group: groupOS, Unit: "bytes/s", Help: "memory read back from swap"},
		{Name: "swap_out_bytes", Group: groupOS, Unit: "bytes/s", Help: "memory written to swap"},
	}, func(text []byte, now time.Time, to figures) error {
		pagesIn, okIn := lineNumber(text, "pswpin ")
		pagesOut, okOut := lineNumber(text, "pswpout ")
		if !okIn || !okOut {
			return errors.New("no lines pswpin and pswpout")
		}
		in.rate(float64(pagesIn), now, page, "swap_in_bytes", to)
		out.rate(float64(pagesOut), now, page, "swap_out_bytes", to)
		return nil
	})
}

// openPressure reads a file of /proc/pressure: cpu, io or memory. It uses the total
// stall times, in microseconds, because the averages in the file cover 10 s or more.
// "full" is recorded for io alone. Of the CPU it is undefined for the whole machine
// and always 0 (Documentation/accounting/psi.rst).
func openPressure(sys system, name string) (source, error) {
	type pressureLine struct {
		prefix, figure string
		meter          *meter
	}
	lines := []pressureLine{{"some ", "pressure_" + name + "_some", &meter{}}}
	counters := []result.Counter{{Name: lines[0].figure, Group: groupOS, Unit: "fraction",
		Help: "time in which some task waited for " + name}}
	if name == "io" {
		lines = append(lines, pressureLine{"full ", "pressure_io_full", &meter{}})
		counters = append(counters, result.Counter{Name: "pressure_io_full", Group: groupOS, Unit: "fraction",
			Help: "time in which all tasks that had work waited for io"})
	}
	f, err := openKernelFile(filepath.Join(sys.proc, "pressure", name))
	return openFile(f, err, counters, func(text []byte, now time.Time, out figures) error {
		for _, line := range lines {
			total, ok := pressureTotal(text, line.prefix)
			if !ok {
				return fmt.Errorf("no total on the line %q", line.prefix)
			}
			if grown, seconds, ok := line.meter.advance(float64(total), now); ok {
				put(out, line.figure, fraction(grown/1e6/seconds))
			}
		}
		return nil
	})
}

// pressureTotal returns the value of total= in the line with the prefix, in
// microseconds.
func pressureTotal(text []byte, prefix string) (uint64, bool) {
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(prefix)) {
			_, total, _ := bytes.Cut(line, []byte("total="))
			v, _, ok := nextNumber(total)
			return v, ok
		}
	}
	return 0, false
}

// errNotShown means that this machine does not provide a figure.
var errNotShown = errors.New("not shown by this machine")

// A frequencySource reads the frequency of the processors. Each reading may
// interrupt the processor in question, so only some of many processors are read.
type frequencySource struct {
	files []*kernelFile
	parse func(text []byte) []float64 // Hz
}

// maxFrequencies is the maximum number of processors that are read.
const maxFrequencies = 8

// openFrequency uses cpufreq, or else /proc/cpuinfo if the processor counts its
// cycles (aperfmperf). Without that, as in most virtual machines, "cpu MHz" in
// that file is the constant nominal frequency.
func openFrequency(sys system) (source, error) {
	paths, err := filepath.Glob(filepath.Join(sys.sys, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"))
	if err != nil {
		return nil, err
	}
	f := &frequencySource{parse: func(text []byte) []float64 {
		kHz, _, ok := nextNumber(text)
		if !ok {
			return nil
		}
		return []float64{float64(kHz) * 1e3}
	}}
	step := max(1, (len(paths)+maxFrequencies-1)/maxFrequencies)
	if len(paths) == 0 {
		info := filepath.Join(sys.proc, "cpuinfo")
		text, err := os.ReadFile(info)
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(text, []byte(" aperfmperf")) {
			return nil, errNotShown
		}
		f.parse, paths = parseCPUInfo, []string{info}
	}
	for i := 0; i < len(paths); i += step {
		k, err := openKernelFile(paths[i])
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.files = append(f.files, k)
	}
	return opened(f)
}

// parseCPUInfo returns the values of the lines "cpu MHz" of /proc/cpuinfo, in Hz.
func parseCPUInfo(text []byte) (all []float64) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(bytes.TrimSpace(name)) != "cpu MHz" {
			continue
		}
		if mhz, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64); err == nil {
			all = append(all, mhz*1e6)
		}
	}
	return all
}

func (f *frequencySource) describe() []result.Counter {
	return []result.Counter{
		{Name: "cpu_frequency", Group: groupOS, Unit: "Hz", Help: "frequency of the processors at the interval's end, mean of those asked"},
		{Name: "cpu_frequency_min", Group: groupOS, Unit: "Hz", Help: "frequency of the slowest of them"},
	}
}

func (f *frequencySource) sample(_ time.Time, out figures) error {
	sum, n, least := 0.0, 0, 0.0
	for _, k := range f.files {
		text, err := k.read()
		if err != nil {
			return err
		}
		all := f.parse(text)
		if len(all) == 0 {
			return fmt.Errorf("%s: not a frequency: %.60q", k.f.Name(), text)
		}
		for _, hz := range all {
			if sum, n = sum+hz, n+1; n == 1 || hz < least {
				least = hz
			}
		}
	}
	put(out, "cpu_frequency", sum/float64(n))
	put(out, "cpu_frequency_min", least)
	return nil
}

func (f *frequencySource) close() error { return closeFiles(f.files...) }

// A throttleSource reads how long a control group, or a group around it, was throttled
// because it had used up its quota of CPU time (cpu.stat of
// Documentation/admin-guide/cgroup-v2.rst; version 1 has the same in nanoseconds).
type throttleSource struct {
	files       []*kernelFile // of the groups
	times, held []meter
}

func openThrottle(sys system) (source, error) {
	text, err := os.ReadFile(filepath.Join(sys.proc, "self/cgroup"))
	if err != nil {
		return nil, err
	}
	t := &throttleSource{}
	for _, dir := range cpuGroups(string(text)) {
		path := filepath.Join(sys.sys, "fs/cgroup", dir, "cpu.stat")
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // version 2 has no such file in the root, and a container sees only part of the hierarchy
		}
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		if _, ok := lineNumber(text, "nr_throttled "); !ok {
			continue
		}
		f, err := openKernelFile(path)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.files = append(t.files, f)
	}
	if len(t.files) == 0 {
		return nil, errNotShown
	}
	t.times, t.held = make([]meter, len(t.files)), make([]meter, len(t.files))
	return opened(t)
}

// cpuGroups returns the directories, below the mount point, of the group of the
// process and of the groups around it, from the lines of /proc/self/cgroup
// (cgroups(7)): version 2 has "0::/path", version 1 "3:cpu,cpuacct:/path".
func cpuGroups(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		mounts := []string{controllers}
		if controllers == "" {
			mounts = []string{"", "unified"}
		}
		if !ok || controllers != "" && !strings.Contains(","+controllers+",", ",cpu,") {
			continue
		}
		path = filepath.Clean("/" + path)
		for _, mount := range mounts {
			for dir := path; ; dir = filepath.Dir(dir) {
				out = append(out, filepath.Join(mount, dir))
				if dir == "/" {
					break
				}
			}
		}
	}
	return out
}

func (t *throttleSource) describe() []result.Counter {
	return []result.Counter{
		{Name: "cgroup_throttled", Group: groupOS, Unit: "seconds/s", Help: "time that processors were withheld from rowmill's control group for its quota, sum of all cores"},
		{Name: "cgroup_throttles", Group: groupOS, Unit: "ops/s", Help: "how often that happened"},
	}
}

func (t *throttleSource) sample(now time.Time, out figures) error {
	var held, times float64
	known := true
	for i, f := range t.files {
		text, err := f.read()
		if err != nil {
			return err
		}
		n, ok := lineNumber(text, "nr_throttled ")
		us, v2 := lineNumber(text, "throttled_usec ")
		ns, v1 := lineNumber(text, "throttled_time ")
		if !ok || !v1 && !v2 {
			return fmt.Errorf("%s has no nr_throttled with its time", f.f.Name())
		}
		grown, seconds, okHeld := t.held[i].advance(float64(us)/1e6+float64(ns)/1e9, now)
		more, _, okTimes := t.times[i].advance(float64(n), now)
		known = known && okHeld && okTimes
		held += grown / seconds
		times += more / seconds
	}
	if known {
		put(out, "cgroup_throttled", held)
		put(out, "cgroup_throttles", times)
	}
	return nil
}

func (t *throttleSource) close() error { return closeFiles(t.files...) }
