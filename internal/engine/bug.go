package engine

import (
	"fmt"
	"runtime/debug"
)

// A Bug is a panic of this program, as an error. The panic ends only the work in which it occurred,
// such as one query.
type Bug struct {
	Value any    // of the panic
	Stack []byte // where it happened
}

func (b *Bug) Error() string {
	return fmt.Sprintf("an error of rowmill, please report it: %v", b.Value)
}

// Guarded calls fn, and returns a panic of fn as a *Bug. Every goroutine that works for a single
// query calls Guarded, so that the other queries go on.
func Guarded(fn func() error) (err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = &Bug{bug, debug.Stack()}
		}
	}()
	return fn()
}
