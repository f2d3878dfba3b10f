package rollup

import (
	"context"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

var must = enginetest.Must

// ErrFenced is the error of a worker that has lost its lock, for example because
// its server didn't respond for seconds.
var ErrFenced = errFenced

// ConsumeForTest consumes notes without computing buckets.
func (s *Set) ConsumeForTest(t testing.TB) {
	t.Helper()
	_, err := s.exclusively(context.Background(), func(ctx context.Context, w *worker) (int, error) { return 0, w.consume(ctx) })
	must(t, err)
}

// PauseForTest sets for how long partitions that may have left the table are not computed again.
func (s *Set) PauseForTest(d time.Duration) { s.traced.pause(d) }

// Before makes each statement of a refresh call fn first.
func (s *Set) Before(fn func(ctx context.Context, q string)) { s.before = fn }

// LevelsForTest returns the names of the levels that are computed from raw rows.
func (s *Set) LevelsForTest() (out []string) {
	for _, l := range s.levels {
		if l.from == nil {
			out = append(out, l.Name)
		}
	}
	return out
}

// SetBound sets the maximum number of rows that a statement reads and a transaction
// replaces, and the memory of sketches in bytes.
func (s *Set) SetBound(rows, bytes int) {
	for _, l := range s.levels {
		l.batch = 1
		for _, p := range []*pace{l.reading, l.counting, l.writing} {
			*p = pace{rows: rows, most: rows, fixed: true}
		}
	}
	s.memory = bytes
}
