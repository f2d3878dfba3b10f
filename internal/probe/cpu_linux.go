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

// errNotShown means that this machine does not provide a figure.
var errNotShown = errors.New("not shown by this machine")

// loadSource reads /proc/loadavg: the load, and the number of currently runnable
// tasks.
type loadSource struct{ file *kernelFile }

func openLoad(sys system) (source, error) {
	f, err := openKernelFile(filepath.Join(sys.proc, "loadavg"))
	if err != nil {
		return nil, err
	}
	return opened(&loadSource{f})
}

func (l *loadSource) describe() []result.Counter {
	return []result.Counter{
		{Name: "os_load1", Group: groupOS, Unit: "", Help: "tasks that run or wait for a processor or a disk, mean of about a minute"},
		{Name: "os_runnable", Group: groupOS, Unit: "", Help: "tasks that ran or waited for a processor at the interval's end"},
	}
}

func (l *loadSource) sample(_ time.Time, out figures) error {
	text, err := l.file.read()
	if err != nil {
		return err
	}
	load, runnable, err := parseLoad(text)
	if err != nil {
		return fmt.Errorf("%s: %w", l.file.f.Name(), err)
	}
	put(out, "os_load1", load)
	put(out, "os_runnable", float64(runnable))
	return nil
}

func (l *loadSource) close() error { return l.file.close() }

// parseLoad parses a line such as "0.77 0.48 0.84 1/95 29647": three averages,
// then the numbers of runnable and of all tasks (proc_loadavg(5)).
func parseLoad(text []byte) (load float64, runnable uint64, err error) {
	fields := bytes.Fields(text)
	if len(fields) >= 4 {
		now, _, _ := bytes.Cut(fields[3], []byte("/"))
		var ok bool
		load, err = strconv.ParseFloat(string(fields[0]), 64)
		if runnable, _, ok = nextNumber(now); ok && err == nil {
			return load, runnable, nil
		}
	}
	return 0, 0, fmt.Errorf("not a line of load averages: %.60q", text)
}

// frequencySource reads the frequency of the processors. Each reading may
// interrupt the processor in question, so only some of many processors are read.
type frequencySource struct {
	files []*kernelFile // of cpufreq, one per processor
	info  *kernelFile   // otherwise /proc/cpuinfo
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
	f := &frequencySource{}
	if len(paths) > 0 {
		step := (len(paths) + maxFrequencies - 1) / maxFrequencies
		for i := 0; i < len(paths); i += step {
			k, err := openKernelFile(paths[i])
			if err != nil {
				return nil, errors.Join(err, f.close())
			}
			f.files = append(f.files, k)
		}
		return opened(f)
	}
	if f.info, err = openKernelFile(filepath.Join(sys.proc, "cpuinfo")); err != nil {
		return nil, err
	}
	text, err := f.info.read()
	if err == nil && !bytes.Contains(text, []byte(" aperfmperf")) {
		err = errNotShown
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return opened(f)
}

func (f *frequencySource) describe() []result.Counter {
	return []result.Counter{
		{Name: "cpu_frequency", Group: groupOS, Unit: "Hz", Help: "frequency of the processors at the interval's end, mean of those asked"},
		{Name: "cpu_frequency_min", Group: groupOS, Unit: "Hz", Help: "frequency of the slowest of them"},
	}
}

func (f *frequencySource) sample(_ time.Time, out figures) error {
	var all []float64
	for _, k := range f.files {
		text, err := k.read()
		if err != nil {
			return err
		}
		kHz, _, ok := nextNumber(text)
		if !ok {
			return fmt.Errorf("%s: not a frequency: %.60q", k.f.Name(), text)
		}
		all = append(all, float64(kHz)*1e3)
	}
	if f.info != nil {
		text, err := f.info.read()
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			name, value, ok := bytes.Cut(line, []byte(":"))
			if !ok || string(bytes.TrimSpace(name)) != "cpu MHz" {
				continue
			}
			if mhz, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64); err == nil {
				all = append(all, mhz*1e6)
			}
		}
	}
	if len(all) == 0 {
		return errors.New("no processor says its frequency")
	}
	sum, least := 0.0, all[0]
	for _, hz := range all {
		sum += hz
		least = min(least, hz)
	}
	put(out, "cpu_frequency", sum/float64(len(all)))
	put(out, "cpu_frequency_min", least)
	return nil
}

func (f *frequencySource) close() error {
	var errs []error
	for _, k := range f.files {
		errs = append(errs, k.close())
	}
	if f.info != nil {
		errs = append(errs, f.info.close())
	}
	return errors.Join(errs...)
}

// throttleSource reads how long a control group, or a group around it, was throttled
// because it had used up its quota of CPU time (cpu.stat of
// Documentation/admin-guide/cgroup-v2.rst; version 1 has the same in nanoseconds).
type throttleSource struct {
	groups []throttled
}

type throttled struct {
	file        *kernelFile
	times, held meter
}

func openThrottle(sys system) (source, error) {
	text, err := os.ReadFile(filepath.Join(sys.proc, "self/cgroup"))
	if err != nil {
		return nil, err
	}
	t := &throttleSource{}
	for _, dir := range cpuGroups(string(text)) {
		f, err := openKernelFile(filepath.Join(sys.sys, "fs/cgroup", dir, "cpu.stat"))
		if errors.Is(err, os.ErrNotExist) {
			continue // version 2 has no such file in the root, and a container sees only part of the hierarchy
		}
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		text, err := f.read()
		if err != nil {
			return nil, errors.Join(err, f.close(), t.close())
		}
		if _, ok := lineNumber(text, "nr_throttled "); !ok {
			if err := f.close(); err != nil {
				return nil, errors.Join(err, t.close())
			}
			continue
		}
		t.groups = append(t.groups, throttled{file: f})
	}
	if len(t.groups) == 0 {
		return nil, errNotShown
	}
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
		mounts := []string{"", "unified"}
		if controllers != "" {
			mounts = []string{controllers}
		}
		hasCPU := controllers == ""
		for c := range strings.SplitSeq(controllers, ",") {
			hasCPU = hasCPU || c == "cpu"
		}
		if !ok || !hasCPU {
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
	for i := range t.groups {
		g := &t.groups[i]
		text, err := g.file.read()
		if err != nil {
			return err
		}
		n, ok := lineNumber(text, "nr_throttled ")
		us, v2 := lineNumber(text, "throttled_usec ")
		ns, v1 := lineNumber(text, "throttled_time ")
		if !ok || !v1 && !v2 {
			return fmt.Errorf("%s has no nr_throttled with its time", g.file.f.Name())
		}
		grown, secs, okHeld := g.held.advance(float64(us)/1e6+float64(ns)/1e9, now)
		more, _, okTimes := g.times.advance(float64(n), now)
		if !okHeld || !okTimes {
			known = false
			continue
		}
		held += grown / secs
		times += more / secs
	}
	if known {
		put(out, "cgroup_throttled", held)
		put(out, "cgroup_throttles", times)
	}
	return nil
}

func (t *throttleSource) close() error {
	var errs []error
	for i := range t.groups {
		errs = append(errs, t.groups[i].file.close())
	}
	return errors.Join(errs...)
}
