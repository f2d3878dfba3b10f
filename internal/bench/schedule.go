package bench

import (
	"math"
	"time"
)

// A schedule computes when the operations of an open loop are due. It uses no clock.
type schedule struct {
	every float64 // nanoseconds between two operations; 0 is a closed loop
	ops   int64   // number of operations; 0 is no limit
}

// Limits of the conversion between float64 and int64.
const (
	tooLarge = float64(1 << 63) // the first value that an int64 can't hold
	exact    = float64(1 << 50) // up to here, the error of a quotient is less than 1
)

// newSchedule returns the schedule of a rate in rows per second, with operations
// of batch rows, for ops operations (0 is no limit).
func newSchedule(rate float64, batch int, ops int64) schedule {
	if rate <= 0 {
		return schedule{}
	}
	// every is finite, so that 0*every is 0: the first operation is due at the start.
	return schedule{every: min(float64(batch)/rate*1e9, tooLarge), ops: ops}
}

func (s schedule) open() bool { return s.every > 0 }

// due returns when operation n (from 0) is due, since the run's start.
func (s schedule) due(n int64) time.Duration {
	d := math.Round(float64(n) * s.every)
	if d >= tooLarge {
		return math.MaxInt64 // 292 years
	}
	return time.Duration(d)
}

// passed returns the number of operations that are due at elapsed, since the start.
func (s schedule) passed(elapsed time.Duration) int64 {
	if !s.open() || elapsed < 0 {
		return 0
	}
	n := int64(math.MaxInt64)
	// Half a nanosecond is added because the method due rounds to a nanosecond. The quotient may still
	// be off by one, which the loop corrects. Beyond 2^50 operations it may be off by more, and isn't
	// corrected.
	if f := (float64(elapsed) + 0.5) / s.every; f < exact {
		n = max(0, int64(f)-1)
		for range 3 {
			if s.due(n) <= elapsed {
				n++
			}
		}
	} else if f < tooLarge {
		n = int64(f)
	}
	if s.ops > 0 {
		n = min(n, s.ops)
	}
	return n
}

// lateAfter is the delay from which an operation counts as begun late, because no client was free.
// Timers alone delay an operation by up to 5 ms on a busy machine with 2 cores.
const lateAfter = 10 * time.Millisecond
