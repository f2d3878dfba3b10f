package textfile

import "context"

// Await calls read and returns what it returns, or the error of ctx once that ends: reading
// from a terminal or a pipe can't be interrupted, and goes on until the process ends.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type done struct {
		value T
		err   error
	}
	ended := make(chan done, 1)
	go func() {
		value, err := read()
		ended <- done{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case d := <-ended:
		return d.value, d.err
	}
}
