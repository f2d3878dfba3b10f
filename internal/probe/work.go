package probe

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/result"
)

// pieceSteps is the number of steps of a piece of work: about 5 ms on a processor of 2 to 4 GHz. It
// is constant, so that machines can be compared by the time of a piece.
const pieceSteps = 3_000_000

// workSteps executes a chain of steps that depend on each other, in registers:
// its time depends only on the processor, not on caches or memory.
func workSteps(n int) uint64 {
	x := uint64(0x9e3779b97f4a7c15)
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// A workSource repeatedly measures the time of the same work. If a piece of work takes long, the
// CPU time of the thread shows whether it waited for a processor, or the processor was slow.
type workSource struct {
	mu     sync.Mutex
	pieces []workPiece // since the last sample
	steal  []float64   // os_cpu_steal between two pieces of work
}

type workPiece struct {
	wall, cpu float64 // seconds; cpu is NaN if unknown
}

// newWorkSource starts the measurements. cpu, unless it is nil, is a source of CPU times that is
// read at each piece of work.
func newWorkSource(ctx context.Context, every time.Duration, cpu *source) *source {
	ctx, end := context.WithCancel(ctx)
	w := &workSource{}
	var done sync.WaitGroup
	done.Go(func() { w.run(ctx, every, cpu) })
	return &source{counters: workCounters, sample: w.sample, close: func() {
		end()
		done.Wait()
	}}
}

var workCounters = []result.Counter{
	{Name: "work_seconds", Group: groupOS, Unit: "seconds", Help: "time that a fixed piece of computing took, mean of the interval's pieces"},
	{Name: "work_worst_seconds", Group: groupOS, Unit: "seconds", Help: "time that the slowest piece took"},
	{Name: "work_cpu_seconds", Group: groupOS, Unit: "seconds", Help: "CPU time that a piece was charged, mean"},
	{Name: "work_wait", Group: groupOS, Unit: "fraction", Help: "part of the pieces' time in which they had no processor"},
	{Name: "os_cpu_steal_peak", Group: groupOS, Unit: "fraction", Help: "CPU time that the host gave to others, in the worst part of the interval"},
}

func (w *workSource) run(ctx context.Context, every time.Duration, cpuTimes *source) {
	// threadCPU is about one thread, so this goroutine is locked to its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var sink uint64
	defer func() { runtime.KeepAlive(sink) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		cpu, began := threadCPU(), time.Now()
		sink += workSteps(pieceSteps)
		p := workPiece{wall: time.Since(began).Seconds(), cpu: threadCPU() - cpu}
		steal := figures{}
		if cpuTimes != nil {
			_ = cpuTimes.sample(time.Now(), steal) // the probe's own reading of the file reports an error
		}
		w.mu.Lock()
		w.pieces = append(w.pieces, p)
		if v, ok := steal["os_cpu_steal"]; ok {
			w.steal = append(w.steal, v)
		}
		w.mu.Unlock()
	}
}

func (w *workSource) sample(_ time.Time, out figures) error {
	w.mu.Lock()
	pieces, steal := w.pieces, w.steal
	w.pieces, w.steal = nil, nil
	w.mu.Unlock()
	if len(steal) > 0 {
		put(out, "os_cpu_steal_peak", slices.Max(steal))
	}
	if len(pieces) == 0 {
		return nil
	}
	var wall, cpu, worst float64
	for _, p := range pieces {
		wall += p.wall
		cpu += p.cpu
		worst = max(worst, p.wall)
	}
	n := float64(len(pieces))
	put(out, "work_seconds", wall/n)
	put(out, "work_worst_seconds", worst)
	if !math.IsNaN(cpu) && wall > 0 {
		put(out, "work_cpu_seconds", cpu/n)
		put(out, "work_wait", fraction(1-cpu/wall))
	}
	return nil
}
