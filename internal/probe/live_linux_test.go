package probe

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/internal/engine"
)

// patience is how long a live test waits for a figure to change. It takes a
// fraction of a second unless the machine is badly overloaded.
const patience = 60 * time.Second

// until samples until a figure satisfies the condition.
func until(t *testing.T, p *Probe, work func(), done func(figures) bool) figures {
	t.Helper()
	begin := time.Now()
	for {
		work()
		s := p.Sample(t.Context(), time.Since(begin))
		if done(s) {
			return s
		}
		if time.Since(begin) > patience {
			t.Fatalf("not seen in %v; last figures %v", patience, s)
		}
	}
}

func TestLiveClientCPU(t *testing.T) {
	p := newProbe(t, Config{Node: of(nil)})
	p.Start(t.Context())
	s := until(t, p, func() { burn(100 * time.Millisecond) },
		func(s figures) bool { return s["client_cpu"] > 0.1 && s["os_cpu_user"] > 0 })
	if cpu := p.ClientCPUSeconds(); cpu <= 0 || cpu > patience.Seconds() {
		t.Errorf("cpu seconds %v in the run", cpu)
	}
	var sum float64
	for _, name := range []string{"os_cpu_user", "os_cpu_system", "os_cpu_iowait", "os_cpu_steal", "os_cpu_idle"} {
		sum += s[name]
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("cpu fractions add up to %v", sum)
	}
	if _, ok := p.ServerCPUSeconds(); ok {
		t.Error("an embedded engine has server cpu time")
	}
}

// startServer starts a process that burns CPU time; the test may end it.
func startServer(t *testing.T, cmd *exec.Cmd) io.Closer {
	t.Helper()
	cmd.Env = append(os.Environ(), burnVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return in
}

// waitEnded waits until a child has ended, but does not reap it.
func waitEnded(t *testing.T, pid int) {
	t.Helper()
	err := unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err, _ = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil).(unix.Errno)
	}
	if err != 0 {
		t.Fatalf("wait for process %d: %v", pid, err)
	}
}

func TestLiveServerProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	stop := startServer(t, cmd)
	p := newProbe(t, Config{Node: &Node{ServerPID: cmd.Process.Pid}})
	p.Start(t.Context())
	pause := func() { time.Sleep(50 * time.Millisecond) }
	s := until(t, p, pause, func(s figures) bool { return s["server_cpu"] > 0.1 })
	if s["server_rss_bytes"] < 1<<20 {
		t.Errorf("server_rss_bytes = %v", s["server_rss_bytes"])
	}
	total, ok := p.ServerCPUSeconds()
	if !ok || total <= 0 {
		t.Errorf("server cpu %v s in the run, known: %v", total, ok)
	}

	stop.Close()
	waitEnded(t, cmd.Process.Pid)
	for _, c := range []struct {
		state string
		at    time.Duration
	}{{"ended and not waited for", 9 * time.Second}, {"ended", 10 * time.Second}} {
		s = p.Sample(t.Context(), c.at)
		if _, ok := s["server_rss_bytes"]; ok {
			t.Errorf("a process that has %s has figures", c.state)
		}
		cmd.Wait()
	}
	if after, ok := p.ServerCPUSeconds(); !ok || after != total {
		t.Errorf("server cpu %v s, known: %v after its end; want the last seen, %v", after, ok, total)
	}
	wantWarning(t, p.Warnings(), "server process figures missing in 2 intervals, first at 9.0 s")
}

// TestLiveServerThatForks watches the parent of the process that burns CPU time.
func TestLiveServerThatForks(t *testing.T) {
	// A shell does not give a background command its standard input by default.
	cmd := exec.Command("/bin/sh", "-c", `exec 3<&0; "$0" <&3 & wait`, os.Args[0])
	startServer(t, cmd)
	p := newProbe(t, Config{Node: &Node{ServerPID: cmd.Process.Pid}})
	if strings.Contains(strings.Join(p.Warnings(), "\n"), "first process only") {
		t.Skip("this kernel doesn't list the children of a process")
	}
	p.Start(t.Context())
	until(t, p, func() { time.Sleep(50 * time.Millisecond) },
		func(s figures) bool { return s["server_cpu"] > 0.1 })
}

func TestLiveDisk(t *testing.T) {
	dir := t.TempDir()
	p := newProbe(t, Config{Node: &Node{DataDir: dir, ServerPID: os.Getpid()}})
	if warnings := strings.Join(p.Warnings(), "\n"); strings.Contains(warnings, "disk figures left out") {
		t.Skip(warnings)
	}
	f, err := os.Create(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	p.Start(t.Context())
	s := until(t, p, func() {
		if _, err := f.WriteAt(block, 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}, func(s figures) bool {
		return s["disk_write_latency_us"] > 0 && s["disk_utilisation"] > 0 && s["server_io_write_bytes"] > 0
	})
	for _, name := range []string{"disk_writes", "disk_write_bytes", "disk_free_bytes"} {
		if s[name] <= 0 {
			t.Errorf("%s = %v while a file was written", name, s[name])
		}
	}
}

// TestLiveDescribe checks that every figure of a sample is described once, with
// a group and a text.
func TestLiveDescribe(t *testing.T) {
	db := &testCounters{counters: []engine.Counter{pageReads, indexSize}}
	db.sample = func(_ context.Context, dst []float64) error { dst[0]++; dst[1] = 1; return nil }
	p := newProbe(t, Config{Node: &Node{DB: db, ServerPID: os.Getpid(), DataDir: t.TempDir()}, Interval: time.Minute})
	units := map[string]string{}
	for _, c := range p.Describe() {
		if _, ok := units[c.Name]; ok {
			t.Errorf("%s is described twice", c.Name)
		}
		units[c.Name] = c.Unit
		if c.Help == "" || c.Group != groupOS && c.Group != groupClient && c.Group != groupServer {
			t.Errorf("%s has the group %q and the help %q", c.Name, c.Group, c.Help)
		}
	}
	if units[pageReads.Name] != "pages/s" || units[indexSize.Name] != "bytes" {
		t.Errorf("units %q and %q, want pages/s and bytes", units[pageReads.Name], units[indexSize.Name])
	}
	p.Start(t.Context())
	burn(30 * time.Millisecond)
	for name := range p.Sample(t.Context(), time.Second) {
		if _, ok := units[name]; !ok {
			t.Errorf("%s is not described", name)
		}
	}
}

// BenchmarkSample measures the cost of one sample. "all" adds a server process,
// and counters that cost nothing themselves.
func BenchmarkSample(b *testing.B) {
	db := &testCounters{counters: make([]engine.Counter, 20)}
	for i := range db.counters {
		db.counters[i] = engine.Counter{Name: "c" + string(rune('a'+i)), Cumulative: true}
	}
	db.sample = func(_ context.Context, dst []float64) error {
		for i := range dst {
			dst[i] = 1
		}
		return nil
	}
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"system and client", Config{Node: &Node{Embedded: true, DataDir: b.TempDir()}}},
		{"all", Config{Node: &Node{DB: db, ServerPID: os.Getpid(), DataDir: b.TempDir()}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := New(b.Context(), c.cfg)
			defer p.Close()
			p.Start(b.Context())
			b.ReportAllocs()
			for b.Loop() {
				p.Sample(b.Context(), time.Second)
			}
			b.ReportMetric(p.ClientCPUSeconds()/float64(b.N)*1e6, "cpu-us/op")
		})
	}
}
