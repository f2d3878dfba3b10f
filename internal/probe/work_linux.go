package probe

import (
	"math"

	"golang.org/x/sys/unix"
)

// threadCPU returns the CPU time of the calling thread in seconds; NaN if it
// can't be read.
func threadCPU() float64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return math.NaN()
	}
	return float64(ts.Nano()) / 1e9
}

// openSteal opens the CPU times a second time, for a reader with another interval.
func (sys system) openSteal() (source, error) { return openCPU(sys) }
