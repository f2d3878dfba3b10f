package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// process writes the files of a process, with times in ticks.
func (tr *tree) process(pid int, name string, user, system, reaped, started uint64) {
	tr.t.Helper()
	dir := fmt.Sprintf("proc/%d/", pid)
	tr.write(dir+"stat", fmt.Sprintf("%d (%s) S 1 2 3 4 -1 6 7 8 9 10 %d %d %d 0 -20 -5 18 0 %d 22 23 24\n",
		pid, name, user, system, reaped, started))
}

func (tr *tree) memory(pid, resident, shared int) {
	tr.write(fmt.Sprintf("proc/%d/statm", pid), fmt.Sprintf("9999 %d %d 1 0 1 0\n", resident, shared))
}

func (tr *tree) io(pid, reads, writes int) {
	tr.write(fmt.Sprintf("proc/%d/io", pid), fmt.Sprintf("rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: 5\n", reads, writes))
}

func (tr *tree) children(pid int, children string) {
	tr.write(fmt.Sprintf("proc/%d/task/%d/children", pid, pid), children)
}

// server writes the files of process 40, and opens it.
func (tr *tree) server(children string) (*processSource, *cpuTime) {
	tr.t.Helper()
	tr.process(40, "odd) name (x", 100, 50, 1000, 777)
	tr.memory(40, 30, 10)
	tr.io(40, 4096, 8192)
	tr.children(40, children)
	used := &cpuTime{}
	p, err := tr.system().openProcess(40, used, func(text string) { tr.t.Errorf("warning: %s", text) })
	if err != nil {
		tr.t.Fatal(err)
	}
	return p, used
}

// TestKernelThreads checks that only the kernel's threads are counted, those that start and end
// meanwhile from then and until then.
func TestKernelThreads(t *testing.T) {
	tr := newTree(t)
	kernel := func(pid, ticks int) {
		tr.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (kworker/0:1H) I 2 0 0 0 -1 69238880 0 0 0 0 0 %d 0 0 0 -20 1 0 18\n", pid, ticks))
	}
	tr.process(40, "server", 100, 50, 1000, 777)
	if s := tr.system().kernelThreads(); s != nil {
		t.Errorf("figures without threads: %v", s.counters)
	}
	kernel(7, 500)
	kernel(8, 10)
	s := tr.system().kernelThreads()
	wantFigures(t, secondSample(t, s, func() {
		tr.process(40, "server", 900, 900, 1000, 777)
		kernel(7, 520)
		kernel(9, 50)
		if err := os.RemoveAll(filepath.Join(tr.root, "proc/8")); err != nil {
			t.Fatal(err)
		}
	}), figures{"kernel_threads_cpu": 0.1})
	// A reading within the same second tells nothing.
	wantFigures(t, secondSample(t, &source{sample: func(now time.Time, out figures) error {
		return s.sample(now.Add(-time.Hour), out)
	}}, func() {}), figures{})
}

func TestProcess(t *testing.T) {
	tr := newTree(t)
	tr.write("proc/40/status", "Name:\tserver\nVmPeak:\t   99999 kB\nVmHWM:\t    1234 kB\nVmRSS:\t     120 kB\n")
	p, used := tr.server("")
	out := secondSample(t, &source{sample: p.sample}, func() {
		tr.process(40, "odd) name (x", 250, 100, 1000, 777)
		tr.io(40, 4096+2048, 8192+4096)
	})
	wantFigures(t, out, figures{"server_cpu": 1, "server_rss_bytes": 30 * float64(os.Getpagesize()), "server_peak_bytes": 1234 << 10,
		"server_io_read_bytes": 1024, "server_io_write_bytes": 2048})
	if *used != (cpuTime{2, true}) {
		t.Errorf("cpu time %+v, want 2 s", *used)
	}
}

// TestProcessWithChildren tests a server with one process per connection: the
// CPU time of a connection must remain in the sum after it has ended.
func TestProcessWithChildren(t *testing.T) {
	tr := newTree(t)
	for _, pid := range []int{41, 42} {
		tr.process(pid, "postgres", 200, 0, 0, 800)
		tr.memory(pid, 50, 45)
		tr.io(pid, 0, 500)
	}
	p, _ := tr.server("41 42 ")
	begin := time.Now()
	out := figures{}
	if err := p.sample(begin, out); err != nil {
		t.Fatal(err)
	}
	page := float64(os.Getpagesize())
	wantFigures(t, out, figures{"server_rss_bytes": (20 + 5 + 5 + 45) * page})

	// 42 ends after 50 more ticks, and its parent reaps it.
	tr.process(40, "postgres", 110, 50, 1250, 777)
	tr.io(40, 4096, 8192+500+300)
	tr.children(40, "41 ")
	tr.process(41, "postgres", 240, 0, 0, 800)
	if err := os.RemoveAll(filepath.Join(tr.root, "proc/42")); err != nil {
		t.Fatal(err)
	}
	out = figures{}
	if err := p.sample(begin.Add(time.Second), out); err != nil {
		t.Fatal(err)
	}
	wantFigures(t, out, figures{"server_cpu": 1, "server_rss_bytes": (20 + 5 + 45) * page,
		"server_io_read_bytes": 0, "server_io_write_bytes": 300})
}

// TestManyProcesses tests a server of which each process uses less than a tick of CPU time, and so
// none by its stat file.
func TestManyProcesses(t *testing.T) {
	cmd := exec.Command("sh", "-c", `exec 3<&0
for n in $(seq 40); do (i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; echo; read end <&3) & done
wait`)
	end, err1 := cmd.StdinPipe()
	done, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	began, used := time.Now(), &cpuTime{}
	p, err := hostSystem().openProcess(cmd.Process.Pid, used, func(text string) { t.Errorf("warning: %s", text) })
	if err != nil {
		t.Fatal(err)
	}
	p.startedAfter(began)
	if _, err := io.ReadFull(done, make([]byte, 40)); err != nil { // each of them has computed
		t.Error(err)
	}
	if err := p.sample(time.Now(), figures{}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(end.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	s := cmd.ProcessState
	if all := (s.UserTime() + s.SystemTime()).Seconds(); used.seconds < 0.8*all || used.seconds > all {
		t.Errorf("%.3f s of CPU time counted before the processes ended, they had %.3f s", used.seconds, all)
	}
}

// TestProcessIsAnother tests a process id that is reused.
func TestProcessIsAnother(t *testing.T) {
	tr := newTree(t)
	p, _ := tr.server("")
	tr.process(40, "vi", 900, 0, 0, 888)
	out := figures{}
	if err := p.sample(time.Now(), out); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("error %v, want that it is another process", err)
	}
	wantFigures(t, out, figures{})
}

func TestProcessPartlyReadable(t *testing.T) {
	tr := newTree(t)
	if _, err := tr.system().openProcess(40, &cpuTime{}, func(string) {}); err == nil {
		t.Error("a process that isn't there was opened")
	}
	tr.process(40, "mariadbd", 100, 0, 0, 777)
	tr.memory(40, 30, 10)
	var warnings []string
	p, err := tr.system().openProcess(40, &cpuTime{}, func(text string) { warnings = append(warnings, text) })
	if err != nil {
		t.Fatal(err)
	}
	wantWarning(t, warnings, "server disk figures left out: open ")
	wantWarning(t, warnings, "server process figures are those of its first process only: open ")
	for _, c := range p.counters {
		if strings.HasPrefix(c.Name, "server_io") {
			t.Errorf("%s is described, but can't be read", c.Name)
		}
	}
	if err := p.sample(time.Now(), figures{}); err != nil {
		t.Errorf("the rest can't be read: %v", err)
	}
}
