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

// newSchedule returns the schedule of a rate in rows per second, in operations
// of batch rows, for a number of operations (0 is no limit).
func newSchedule(rate float64, batch int, ops int64) schedule {
	if rate <= 0 {
		return schedule{}
	}
	return schedule{every: float64(batch) / rate * 1e9, ops: ops}
}

// open reports whether there is a schedule at all.
func (s schedule) open() bool { return s.every > 0 }

// due returns when operation n (from 0) is due, since the run's start.
func (s schedule) due(n int64) time.Duration {
	return time.Duration(math.Round(float64(n) * s.every))
}

// passed returns how many operations are due at a moment, since the start.
func (s schedule) passed(elapsed time.Duration) int64 {
	if !s.open() || elapsed < 0 {
		return 0
	}
	n := int64(float64(elapsed)/s.every) + 1
	if s.ops > 0 {
		n = min(n, s.ops)
	}
	return n
}

// lateAfter is when an operation counts as begun late: far more than a timer's
// inaccuracy, so that it means that no client was free.
const lateAfter = 10 * time.Millisecond
