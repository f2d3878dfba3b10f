package probe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rowmill/rowmill/result"
)

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

type cpuSourceOS struct {
	file *kernelFile
	last cpuTicks
	have bool
}

func openCPU(sys system) (source, error) {
	f, err := openKernelFileHead(filepath.Join(sys.proc, "stat"))
	if err != nil {
		return nil, err
	}
	c := &cpuSourceOS{file: f}
	return opened(c)
}

// opened reads a source once, because some files can be opened but not read.
func opened(s source) (source, error) {
	if err := s.sample(time.Now(), figures{}); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (c *cpuSourceOS) describe() []result.Counter {
	return []result.Counter{
		{Name: "os_cpu_user", Group: groupOS, Unit: "fraction", Help: "CPU time in programs, of all cores"},
		{Name: "os_cpu_system", Group: groupOS, Unit: "fraction", Help: "CPU time in the kernel, interrupts included, of all cores"},
		{Name: "os_cpu_iowait", Group: groupOS, Unit: "fraction", Help: "CPU time idle while a task waited for a disk, of all cores"},
		{Name: "os_cpu_steal", Group: groupOS, Unit: "fraction", Help: "CPU time that the host gave to others, of all cores"},
		{Name: "os_cpu_idle", Group: groupOS, Unit: "fraction", Help: "CPU time idle, of all cores"},
	}
}

func (c *cpuSourceOS) sample(_ time.Time, out figures) error {
	text, err := c.file.read()
	if err != nil {
		return err
	}
	now, err := parseCPU(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.file.f.Name(), err)
	}
	last, have := c.last, c.have
	c.last, c.have = now, true
	if !have {
		return nil
	}
	// The kernel estimates iowait and idle, so they may decrease (proc_stat(5)):
	// a decrease counts as 0.
	var d [len(now)]float64
	var total float64
	for i := range now {
		if now[i] > last[i] {
			d[i] = float64(now[i] - last[i])
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
}

func (c *cpuSourceOS) close() error { return c.file.close() }

// parseCPU parses the first line of /proc/stat.
func parseCPU(text []byte) (cpuTicks, error) {
	var t cpuTicks
	rest, ok := bytes.CutPrefix(text, []byte("cpu "))
	if !ok || numbers(rest, t[:]) < len(t) {
		return t, fmt.Errorf("not a line of cpu times: %.60q", text)
	}
	return t, nil
}

// memorySource reads /proc/meminfo.
type memorySource struct{ file *kernelFile }

func openMemory(sys system) (source, error) {
	f, err := openKernelFile(filepath.Join(sys.proc, "meminfo"))
	if err != nil {
		return nil, err
	}
	return opened(&memorySource{f})
}

func (m *memorySource) describe() []result.Counter {
	return []result.Counter{
		{Name: "mem_available_bytes", Group: groupOS, Unit: "bytes", Help: "memory that programs can have without swapping"},
		{Name: "mem_dirty_bytes", Group: groupOS, Unit: "bytes", Help: "file pages waiting to be written to disk"},
		{Name: "mem_cached_bytes", Group: groupOS, Unit: "bytes", Help: "file pages kept in memory"},
	}
}

func (m *memorySource) sample(_ time.Time, out figures) error {
	text, err := m.file.read()
	if err != nil {
		return err
	}
	for _, f := range [...]struct{ line, name string }{
		{"MemAvailable:", "mem_available_bytes"},
		{"Dirty:", "mem_dirty_bytes"},
		{"Cached:", "mem_cached_bytes"},
	} {
		kib, ok := lineNumber(text, f.line)
		if !ok {
			return fmt.Errorf("%s has no %s", m.file.f.Name(), f.line)
		}
		put(out, f.name, float64(kib)*1024)
	}
	return nil
}

func (m *memorySource) close() error { return m.file.close() }

// swapSource reads /proc/vmstat.
type swapSource struct {
	file    *kernelFile
	in, out meter
}

func openSwap(sys system) (source, error) {
	f, err := openKernelFile(filepath.Join(sys.proc, "vmstat"))
	if err != nil {
		return nil, err
	}
	return opened(&swapSource{file: f})
}

func (s *swapSource) describe() []result.Counter {
	return []result.Counter{
		{Name: "swap_in_bytes", Group: groupOS, Unit: "bytes/s", Help: "memory read back from swap"},
		{Name: "swap_out_bytes", Group: groupOS, Unit: "bytes/s", Help: "memory written to swap"},
	}
}

func (s *swapSource) sample(now time.Time, out figures) error {
	text, err := s.file.read()
	if err != nil {
		return err
	}
	in, okIn := lineNumber(text, "pswpin ")
	swapped, okOut := lineNumber(text, "pswpout ")
	if !okIn || !okOut {
		return fmt.Errorf("%s has no pswpin and pswpout", s.file.f.Name())
	}
	page := float64(os.Getpagesize())
	s.in.rate(float64(in), now, page, "swap_in_bytes", out)
	s.out.rate(float64(swapped), now, page, "swap_out_bytes", out)
	return nil
}

func (s *swapSource) close() error { return s.file.close() }

// pressureResource is a file of /proc/pressure with the names of the figures of
// its lines; a line with an empty name is left out.
type pressureResource struct {
	name       string
	some, full string
}

// pressureResources leave out "full" of the CPU, which is undefined for the whole
// machine and always 0 (Documentation/accounting/psi.rst).
var pressureResources = []pressureResource{
	{name: "cpu", some: "pressure_cpu_some"},
	{name: "io", some: "pressure_io_some", full: "pressure_io_full"},
	{name: "memory", some: "pressure_memory_some"},
}

// pressureSource reads a file of /proc/pressure. It uses the total stall times,
// in microseconds, because the averages in the file cover 10 s or more.
type pressureSource struct {
	resource   pressureResource
	file       *kernelFile
	some, full meter
}

func openPressure(sys system, r pressureResource) (source, error) {
	f, err := openKernelFile(filepath.Join(sys.proc, "pressure", r.name))
	if err != nil {
		return nil, err
	}
	return opened(&pressureSource{resource: r, file: f})
}

func (p *pressureSource) describe() []result.Counter {
	out := []result.Counter{{Name: p.resource.some, Group: groupOS, Unit: "fraction",
		Help: "time in which some task waited for " + p.resource.name}}
	if p.resource.full != "" {
		out = append(out, result.Counter{Name: p.resource.full, Group: groupOS, Unit: "fraction",
			Help: "time in which all tasks that had work waited for " + p.resource.name})
	}
	return out
}

func (p *pressureSource) sample(now time.Time, out figures) error {
	text, err := p.file.read()
	if err != nil {
		return err
	}
	for _, line := range [...]struct {
		prefix, name string
		meter        *meter
	}{
		{"some ", p.resource.some, &p.some},
		{"full ", p.resource.full, &p.full},
	} {
		if line.name == "" {
			continue
		}
		total, ok := pressureTotal(text, line.prefix)
		if !ok {
			return fmt.Errorf("%s has no total on its line %q", p.file.f.Name(), line.prefix)
		}
		if grown, seconds, ok := line.meter.advance(float64(total), now); ok {
			put(out, line.name, fraction(grown/1e6/seconds))
		}
	}
	return nil
}

func (p *pressureSource) close() error { return p.file.close() }

// pressureTotal returns the value of total= in the line with the prefix, in
// microseconds.
func pressureTotal(text []byte, prefix string) (uint64, bool) {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if !bytes.HasPrefix(line, []byte(prefix)) {
			continue
		}
		_, total, ok := bytes.Cut(line, []byte("total="))
		if !ok {
			return 0, false
		}
		v, _, ok := nextNumber(total)
		return v, ok
	}
	return 0, false
}
