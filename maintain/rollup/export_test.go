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
