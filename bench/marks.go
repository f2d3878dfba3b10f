package bench

import (
	"math"
	"sort"
	"sync/atomic"
	"time"
)

// hundredths is how many marks a run with a known number of rows gets.
const hundredths = 100

// marks remember when each hundredth of the rows was reached, so that rates
// over rows don't depend on where intervals happen to end.
type marks struct {
	rows int64          // of the whole run; 0 is no marks
	at   []atomic.Int64 // nanoseconds since the start; 0 is not yet
	told int            // how many have been taken
	last time.Duration  // of those taken
}

func newMarks(rows int64) marks {
	if rows < hundredths {
		return marks{}
	}
	return marks{rows: rows, at: make([]atomic.Int64, hundredths)}
}

// mark returns how many rows mark i stands for, without rows*hundredths, which
// may not fit.
func (m *marks) mark(i int) int64 {
	n := int64(i + 1)
	return m.rows/hundredths*n + m.rows%hundredths*n/hundredths
}

// pass notes that the number of rows grew from one number to another, and
// returns at which number the next mark lies. A caller that saw this many rows
// need not call again before it sees that many: the number only grows.
func (m *marks) pass(from, to int64, elapsed time.Duration) int64 {
	i := sort.Search(len(m.at), func(i int) bool { return m.mark(i) > from })
	for ; i < len(m.at); i++ {
		if next := m.mark(i); next > to {
			return next
		}
		m.at[i].Store(max(1, int64(elapsed)))
	}
	return math.MaxInt64
}

// take returns the marks reached up to a moment and not yet taken. A client
// may be held up between ending an operation and noting its mark, so a mark is
// never put before the one of fewer rows.
func (m *marks) take(until time.Duration) [][2]float64 {
	var out [][2]float64
	for ; m.told < len(m.at); m.told++ {
		at := time.Duration(m.at[m.told].Load())
		if at == 0 || at > until {
			break
		}
		m.last = max(m.last, at)
		out = append(out, [2]float64{float64(m.mark(m.told)), seconds(m.last)})
	}
	return out
}
