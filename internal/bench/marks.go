package bench

import (
	"math"
	"sort"
	"sync/atomic"
	"time"
)

// hundredths is the number of marks of a run with a known number of rows.
const hundredths = 100

// marks record when each hundredth of the rows was reached, so that rates over
// rows don't depend on where intervals end.
type marks struct {
	rows int64          // of the whole run; 0 means no marks
	at   []atomic.Int64 // nanoseconds since the start; 0 is not reached yet
	told int            // how many have been taken
	last time.Duration  // of the last one taken
}

func newMarks(rows int64) marks {
	if rows < hundredths {
		return marks{}
	}
	return marks{rows: rows, at: make([]atomic.Int64, hundredths)}
}

// mark returns the number of rows at which mark i, counted from 0, is reached. It avoids the
// product rows*hundredths, which may overflow.
func (m *marks) mark(i int) int64 {
	n := int64(i + 1)
	return m.rows/hundredths*n + m.rows%hundredths*n/hundredths
}

// pass records the time of the marks between two numbers of rows. It returns the number of rows of
// the next mark: up to that number, further calls would record nothing.
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

// take returns the marks reached up to a moment and not yet taken. A client may be delayed before
// it records a mark, and so each mark gets at least the time of the mark before it.
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
