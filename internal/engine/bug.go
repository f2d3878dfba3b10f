package engine

import (
	"fmt"
	"runtime/debug"
)

// A Bug is a panic of this program as an error, so that it ends what it belongs to, such as one
// query, and nothing else.
type Bug struct {
	Value any    // of the panic
	Stack []byte // where it happened
}

func (b *Bug) Error() string {
	return fmt.Sprintf("an error of rowmill, please report it: %v", b.Value)
}

// Guarded calls fn, and returns a panic of it as a *Bug. Every goroutine that works for one query
// of several calls it.
func Guarded(fn func() error) (err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = &Bug{bug, debug.Stack()}
		}
	}()
	return fn()
}
