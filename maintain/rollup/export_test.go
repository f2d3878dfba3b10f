package rollup

import (
	"context"
	"testing"
)

// ErrFenced is what a worker returns that has lost its lock, be it that its
// server didn't answer for seconds.
var ErrFenced = errFenced

// ConsumeForTest takes in notes, and computes nothing.
func (s *Set) ConsumeForTest(t testing.TB) {
	t.Helper()
	if err := s.alone(context.Background(), func(ctx context.Context, w *worker) error { return w.consume(ctx) }); err != nil {
		t.Fatal(err)
	}
}

// Before has fn called before each statement of a refresh.
func (s *Set) Before(fn func(ctx context.Context, q string)) { s.before = fn }

// LevelsForTest returns the names of the levels that are made from raw rows.
func (s *Set) LevelsForTest() (out []string) {
	for _, l := range s.levels {
		if l.from == nil {
			out = append(out, l.Name)
		}
	}
	return out
}

// SetBound has statements read, and transactions replace, so many rows at most,
// and sketches take so many bytes.
func (s *Set) SetBound(rows, bytes int) {
	for _, l := range s.levels {
		l.batch = 1
		for _, p := range []*pace{l.reading, l.counting, l.writing} {
			*p = pace{rows: rows, most: rows, fixed: true}
		}
	}
	s.memory = bytes
}
