package rollup

import (
	"context"
	"testing"
)

// ConsumeForTest takes in notes, and computes nothing.
func (s *Set) ConsumeForTest(t testing.TB) {
	t.Helper()
	if err := s.consume(context.Background()); err != nil {
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
