package probe

import (
	"fmt"
	"math"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/result"
)

// Metrics of this process, in the order of clientSource.samples.
const (
	metricPauses = iota
	metricLatencies
	metricGC
	metricGCIdle
	metricCPU
	metricHeap
	metricGoroutines
)

// clientSource reads figures of this process: its CPU time from the operating system, the others
// from the Go runtime. The runtime's histograms have four buckets per power of two. A delay is
// recorded as the upper end of its bucket, up to 25% too high; a pause as the middle of its bucket,
// at most 13% off.
type clientSource struct {
	samples        []metrics.Sample
	pauses, delays []uint64 // counts of the previous sample
	gc, goCPU      float64  // seconds, of the previous sample
	pauseAt        time.Time
	meter          meter
	used           float64 // CPU time in seconds
}

func newClientSource() *clientSource {
	return &clientSource{samples: []metrics.Sample{
		metricPauses:     {Name: "/sched/pauses/total/gc:seconds"},
		metricLatencies:  {Name: "/sched/latencies:seconds"},
		metricGC:         {Name: "/cpu/classes/gc/total:cpu-seconds"},
		metricGCIdle:     {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
		metricCPU:        {Name: "/cpu/classes/total:cpu-seconds"},
		metricHeap:       {Name: "/memory/classes/heap/objects:bytes"},
		metricGoroutines: {Name: "/sched/goroutines:goroutines"},
	}}
}

var clientCounters = []result.Counter{
	{Name: "client_cpu", Group: groupClient, Unit: "cores", Help: "CPU time of rowmill's process per second"},
	{Name: "client_gc_pause_seconds", Group: groupClient, Unit: "seconds/s", Help: "time for which garbage collection stopped rowmill"},
	{Name: "client_gc_cpu", Group: groupClient, Unit: "fraction", Help: "share of the CPU time open to rowmill that garbage collection took; known after each collection"},
	{Name: "client_sched_delay_p99_us", Group: groupClient, Unit: "microseconds", Help: "how long goroutines ready to run waited for a processor, 99th percentile; up to 25% too high"},
	{Name: "client_heap_bytes", Group: groupClient, Unit: "bytes", Help: "rowmill's heap: objects in use or not yet collected"},
	{Name: "client_goroutines", Group: groupClient, Unit: "", Help: "goroutines of rowmill"},
}

func (c *clientSource) sample(now time.Time, out figures) error {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return fmt.Errorf("getrusage: %w", err)
	}
	cpu := time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())
	// The clock is read here and not before the other sources, because reading them takes CPU time.
	if grown, seconds, ok := c.meter.advance(cpu.Seconds(), time.Now()); ok {
		put(out, "client_cpu", grown/seconds)
		c.used += grown
	}
	metrics.Read(c.samples)
	pauses := c.samples[metricPauses].Value.Float64Histogram()
	delays := c.samples[metricLatencies].Value.Float64Histogram()
	gc := c.samples[metricGC].Value.Float64() - c.samples[metricGCIdle].Value.Float64()
	goCPU := c.samples[metricCPU].Value.Float64()
	if c.pauses != nil {
		if seconds := now.Sub(c.pauseAt).Seconds(); seconds > 0 {
			put(out, "client_gc_pause_seconds", sumSince(pauses, c.pauses)/seconds)
		}
		if v, ok := quantileSince(delays, c.delays, 0.99); ok {
			put(out, "client_sched_delay_p99_us", v*1e6)
		}
		// The runtime updates these at the end of a collection.
		if goCPU > c.goCPU {
			put(out, "client_gc_cpu", fraction((gc-c.gc)/(goCPU-c.goCPU)))
		}
	}
	c.pauses = append(c.pauses[:0], pauses.Counts...)
	c.delays = append(c.delays[:0], delays.Counts...)
	c.gc, c.goCPU, c.pauseAt = gc, goCPU, now
	put(out, "client_heap_bytes", float64(c.samples[metricHeap].Value.Uint64()))
	put(out, "client_goroutines", float64(c.samples[metricGoroutines].Value.Uint64()))
	return nil
}

// quantileSince returns a quantile of the values that h has counted since its counts were before.
// The result is the upper end of the bucket in which the quantile lies. It returns false if h has
// counted no values since.
func quantileSince(h *metrics.Float64Histogram, before []uint64, q float64) (float64, bool) {
	var total uint64
	for i, n := range h.Counts {
		total += n - before[i]
	}
	if total == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(q * float64(total)))
	var seen uint64
	for i, n := range h.Counts {
		if seen += n - before[i]; seen >= rank {
			if upper := h.Buckets[i+1]; !math.IsInf(upper, 1) {
				return upper, true
			}
			return h.Buckets[i], true
		}
	}
	return 0, false // unreachable: seen ends at total, which is at least rank
}

// sumSince returns the sum of the values that h has counted since an earlier moment; before has the
// counts of that moment. Each value is taken as the middle of its bucket.
func sumSince(h *metrics.Float64Histogram, before []uint64) float64 {
	var sum float64
	for i, n := range h.Counts {
		if n == before[i] {
			continue
		}
		lower, upper := h.Buckets[i], h.Buckets[i+1]
		switch {
		case math.IsInf(lower, -1): // the clock went backwards
			continue
		case math.IsInf(upper, 1):
			upper = lower
		}
		sum += float64(n-before[i]) * (lower + upper) / 2
	}
	return sum
}
