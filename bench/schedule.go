package bench

import (
	"math"
	"time"
)

// A schedule says when the operations of an open loop are due. It is pure: it
// knows no clock, so it goes on while nobody keeps up with it.
type schedule struct {
	every float64 // nanoseconds from one operation to the next; 0 is a closed loop
	ops   int64   // how many there are; 0 is no limit
}

// Bounds of what a float64 does for an int64.
const (
	tooLarge = float64(1 << 63) // the first value that an int64 can't hold
	exact    = float64(1 << 50) // up to it, a quotient is off by less than 1
)

// newSchedule returns the schedule of a rate in rows per second, in operations
// of batch rows, for a number of operations (0 is no limit).
func newSchedule(rate float64, batch int, ops int64) schedule {
	if rate <= 0 {
		return schedule{}
	}
	// Never infinite, so that the first operation is due at 0 at any rate.
	return schedule{every: min(float64(batch)/rate*1e9, tooLarge), ops: ops}
}

// open reports whether there is a schedule at all.
func (s schedule) open() bool { return s.every > 0 }

// due returns when operation n (from 0) is due, since the run's start.
func (s schedule) due(n int64) time.Duration {
	d := math.Round(float64(n) * s.every)
	if d >= tooLarge {
		return math.MaxInt64 // in 292 years
	}
	return time.Duration(d)
}

// passed returns how many operations are due at a moment, since the start:
// those for which due is not after it.
func (s schedule) passed(elapsed time.Duration) int64 {
	if !s.open() || elapsed < 0 {
		return 0
	}
	n := int64(math.MaxInt64)
	// due rounds to a nanosecond, so half of one more counts. The quotient may
	// still be off by one, and beyond 2^50 operations by more than matters.
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

// lateAfter is when an operation counts as begun late: that no client was
// free. Timers alone begin one late, too: half a millisecond in the middle, 2
// ms in one of a hundred and 5 ms at worst on a busy machine of 2 cores.
const lateAfter = 10 * time.Millisecond
