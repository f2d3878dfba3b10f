package draw

import (
	"cmp"
	"math"
	"time"
)

// VirtualStart is the start of simulated clocks, in microseconds since 1970: 2026-01-01. It is
// fixed, because rows can be computed again only if their times don't depend on when they were
// sent.
var VirtualStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// defaultRate is the number of rows per second of a simulated clock.
const defaultRate = 1000

// A Clock says how the time of a table advances with its rows: it ticks every Seconds, and Rows
// successive rows have the time of the same tick.
type Clock struct{ Seconds, Rows int64 }

// ClockOf returns the clock of a table with the given number of rows per second; 0 means 1000.
func ClockOf(perSecond float64) Clock {
	if perSecond = cmp.Or(perSecond, defaultRate); perSecond >= 1 {
		return Clock{1, int64(math.Round(perSecond))}
	}
	return Clock{int64(math.Round(1 / perSecond)), 1}
}

// Micros returns the length of a tick in microseconds.
func (c Clock) Micros() int64 { return c.Seconds * 1e6 }

// At returns the time of a row's tick, in microseconds since 1970.
func (c Clock) At(seq int64) int64 { return VirtualStart + seq/c.Rows*c.Micros() }

// Within returns the time of a row if the rows of a tick are spread evenly over it.
func (c Clock) Within(seq int64) int64 {
	return c.At(seq) + int64(float64(seq%c.Rows)*float64(c.Micros())/float64(c.Rows))
}

// Salt derives a number from a seed and a column's name, so that columns have different random
// values.
func Salt(seed uint64, name string) uint64 {
	for _, b := range []byte(name) {
		seed = Mix(seed ^ uint64(b))
	}
	return seed
}
