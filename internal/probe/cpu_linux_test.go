package probe

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLoad(t *testing.T) {
	tr := newTree(t)
	out := secondSample(t, func() (source, error) { return openLoad(tr.system()) }, func() {
		tr.write("proc/loadavg", "12.50 1.48 0.84 7/95 29647\n")
	})
	wantFigures(t, out, figures{"os_load1": 12.5, "os_runnable": 7})
}

func TestFrequency(t *testing.T) {
	const counts = "flags\t\t: fpu aperfmperf\n"
	for _, c := range []struct {
		name          string
		before, after map[string]string
		mean, least   float64 // 0: no figure
	}{
		{"cpufreq", map[string]string{"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "3000000\n", "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3000000\n"},
			map[string]string{"sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1200000\n"}, 2.1e9, 1.2e9},
		{"counted cycles", map[string]string{"proc/cpuinfo": counts + "cpu MHz\t\t: 2445.5\n\ncpu MHz\t\t: 2445.5\n"},
			map[string]string{"proc/cpuinfo": counts + "cpu MHz\t\t: 2000.5\n\ncpu MHz\t\t: 1000.5\n"}, 1500.5e6, 1000.5e6},
		{"nominal", map[string]string{"proc/cpuinfo": "flags : fpu\ncpu MHz\t\t: 2445.5\n"}, nil, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			for name, text := range c.before {
				tr.write(name, text)
			}
			open := func() (source, error) { return openFrequency(tr.system()) }
			if c.mean == 0 {
				if _, err := open(); !errors.Is(err, errNotShown) {
					t.Errorf("error %v, want that it is not shown", err)
				}
				return
			}
			out := secondSample(t, open, func() {
				for name, text := range c.after {
					tr.write(name, text)
				}
			})
			wantFigures(t, out, figures{"cpu_frequency": c.mean, "cpu_frequency_min": c.least})
		})
	}
}

func TestThrottle(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after map[string]string
		held, times   float64 // negative: no figure
	}{
		{"version 2, the quota is the group's around", map[string]string{
			"proc/self/cgroup":           "0::/a/b\n",
			"sys/fs/cgroup/a/cpu.stat":   "usage_usec 5\nnr_periods 1\nnr_throttled 10\nthrottled_usec 1000000\n",
			"sys/fs/cgroup/a/b/cpu.stat": "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
			"sys/fs/cgroup/cpu.stat":     "usage_usec 5\n",
		}, map[string]string{"sys/fs/cgroup/a/cpu.stat": "usage_usec 9\nnr_periods 9\nnr_throttled 14\nthrottled_usec 1500000\n"}, 0.25, 2},
		{"version 1", map[string]string{
			"proc/self/cgroup":                   "4:memory:/x\n1:cpu,cpuacct:/\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
		}, map[string]string{"sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 8\nnr_throttled 6\nthrottled_time 3000000000\n"}, 1.5, 3},
		{"the root of version 2", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 5\n"}, nil, -1, -1},
		{"no mount", map[string]string{"proc/self/cgroup": "0::/a\n"}, nil, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree(t)
			for name, text := range c.before {
				tr.write(name, text)
			}
			open := func() (source, error) { return openThrottle(tr.system()) }
			if c.held < 0 {
				if _, err := open(); !errors.Is(err, errNotShown) {
					t.Errorf("error %v, want that it is not shown", err)
				}
				return
			}
			out := secondSample(t, open, func() {
				for name, text := range c.after {
					tr.write(name, text)
				}
			})
			wantFigures(t, out, figures{"cgroup_throttled": c.held, "cgroup_throttles": c.times})
		})
	}
}

func TestCPUGroups(t *testing.T) {
	got := cpuGroups("5:memory:/m\n2:cpuset:/s\n1:cpu,cpuacct:/p/q\n0::/u\n")
	if diff := cmp.Diff([]string{"cpu,cpuacct/p/q", "cpu,cpuacct/p", "cpu,cpuacct", "/u", "/", "unified/u", "unified"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWork checks that the fixed work is timed at its own interval, and that a
// sample contains the pieces since the previous one.
func TestWork(t *testing.T) {
	p := newProbe(t, Config{WorkEvery: time.Millisecond})
	p.Start(t.Context())
	s := until(t, p, func() { time.Sleep(50 * time.Millisecond) }, func(s figures) bool { _, ok := s["work_seconds"]; return ok })
	mean, worst, cpu, wait := s["work_seconds"], s["work_worst_seconds"], s["work_cpu_seconds"], s["work_wait"]
	if mean <= 0 || worst < mean || cpu <= 0 || wait < 0 || wait > 1 {
		t.Errorf("mean %v, worst %v, cpu %v, wait %v", mean, worst, cpu, wait)
	}
	for _, c := range p.Describe() {
		if c.Name == "work_seconds" {
			return
		}
	}
	t.Error("the work isn't described")
}

func TestWorkFigures(t *testing.T) {
	w := &workSource{pieces: []workPiece{{wall: 0.004, cpu: 0.004}, {wall: 0.020, cpu: 0.004}, {wall: 0.006, cpu: 0.004}}, steal: []float64{0.1, 0.4}}
	out := figures{}
	if err := w.sample(time.Now(), out); err != nil {
		t.Fatal(err)
	}
	wantFigures(t, out, figures{"work_seconds": 0.01, "work_worst_seconds": 0.02, "work_cpu_seconds": 0.004, "work_wait": 0.6, "os_cpu_steal_peak": 0.4})
	clear(out)
	w.pieces = []workPiece{{wall: 0.004, cpu: math.NaN()}} // a system without CPU times of threads
	if err := w.sample(time.Now(), out); err != nil {
		t.Fatal(err)
	}
	wantFigures(t, out, figures{"work_seconds": 0.004, "work_worst_seconds": 0.004})
}

func BenchmarkWork(b *testing.B) {
	var sum uint64
	for b.Loop() {
		sum += workSteps(WorkSteps)
	}
	_ = sum
}
