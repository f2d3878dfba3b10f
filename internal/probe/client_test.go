package probe

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestQuantileSince(t *testing.T) {
	h := &metrics.Float64Histogram{Buckets: []float64{math.Inf(-1), 0, 1, 2, 4, math.Inf(1)}}
	for _, c := range []struct {
		name        string
		before, now []uint64
		q           float64
		want        float64
		ok          bool
	}{
		{"nothing new", []uint64{0, 5, 0, 0, 0}, []uint64{0, 5, 0, 0, 0}, 0.99, 0, false},
		{"one value", []uint64{0, 5, 0, 0, 0}, []uint64{0, 5, 1, 0, 0}, 0.99, 2, true},
		{"what was before is not counted", []uint64{0, 0, 0, 900, 0}, []uint64{0, 100, 0, 901, 0}, 0.5, 1, true},
		{"just within 99%", []uint64{0, 0, 0, 0, 0}, []uint64{0, 99, 0, 1, 0}, 0.99, 1, true},
		{"just above 99%", []uint64{0, 0, 0, 0, 0}, []uint64{0, 98, 0, 2, 0}, 0.99, 4, true},
		{"no upper end", []uint64{0, 0, 0, 0, 0}, []uint64{0, 0, 0, 0, 3}, 0.99, 4, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.Counts = c.now
			got, ok := quantileSince(h, c.before, c.q)
			if got != c.want || ok != c.ok {
				t.Errorf("got %v, %v; want %v, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestSumSince(t *testing.T) {
	h := &metrics.Float64Histogram{
		Buckets: []float64{math.Inf(-1), 0, 1, 2, 4, math.Inf(1)},
		Counts:  []uint64{9, 3, 1, 2, 1},
	}
	// One value of 0-1 and two of 2-4 by the middles of their buckets, one above
	// 4 as 4.
	if got := sumSince(h, []uint64{0, 2, 1, 0, 0}); got != 0.5+2*3+4 {
		t.Errorf("got %v, want 10.5", got)
	}
}

// TestClientFigures checks that the figures of this process change with its
// activity.
func TestClientFigures(t *testing.T) {
	c := newClientSource()
	c.sample(time.Now(), figures{})
	var garbage [][]byte
	out := figures{}
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		for range 100 {
			garbage = append(garbage, make([]byte, 1<<10))
		}
		runtime.GC()
		c.sample(time.Now(), out)
		if out["client_gc_pause_seconds"] > 0 && out["client_gc_cpu"] > 0 && out["client_sched_delay_p99_us"] > 0 && c.used > 0 {
			break
		}
	}
	runtime.KeepAlive(garbage)
	for _, name := range []string{"client_gc_pause_seconds", "client_gc_cpu", "client_sched_delay_p99_us", "client_heap_bytes", "client_goroutines"} {
		if out[name] <= 0 {
			t.Errorf("%s = %v after garbage collections", name, out[name])
		}
	}
	if c.used <= 0 {
		t.Error("no cpu time was seen")
	}
	// Without a collection in between there are no figures about it.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	c.sample(time.Now(), figures{})
	quiet := figures{}
	c.sample(time.Now(), quiet)
	if v, ok := quiet["client_gc_cpu"]; ok {
		t.Errorf("client_gc_cpu = %v without a collection", v)
	}
	if out["client_gc_cpu"] > 1 {
		t.Errorf("client_gc_cpu = %v, more than all", out["client_gc_cpu"])
	}
}
