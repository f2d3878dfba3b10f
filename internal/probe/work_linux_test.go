package probe

import (
	"math"
	"testing"
	"time"
)

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
		sum += workSteps(pieceSteps)
	}
	_ = sum
}
