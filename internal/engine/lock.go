package engine

import (
	"context"
	"errors"
	"time"
)

// A Retry repeats work that needs a lock, so that others need not wait behind one long request.
type Retry struct {
	// First and Last bound the pause between attempts. The pause doubles each time, with Jitter.
	First, Last time.Duration
	// Tries limits the attempts; 0 is no limit.
	Tries int
	// Until, unless zero, is the time after which Do makes no further attempt.
	Until time.Time
	// Waiting, unless nil, is called before each pause. If it returns an error, the work ends.
	Waiting func(err error) error
}

// Do calls fn until it succeeds, fails with another error than ErrLockTimeout or ErrDeadlock, or
// has used up its attempts. Do returns fn's last error, or the error of ctx if ctx has ended.
func (r Retry) Do(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		switch {
		case err == nil || !errors.Is(err, ErrLockTimeout) && !errors.Is(err, ErrDeadlock) || ctx.Err() != nil:
			return err
		case try == r.Tries, !r.Until.IsZero() && time.Now().After(r.Until):
			return err
		case r.Waiting != nil:
			if err := r.Waiting(err); err != nil {
				return err
			}
		}
		if ended := Sleep(ctx, Backoff(r.First, r.Last, try)); ended != nil {
			return ended
		}
	}
}

// WhileHeld calls fn with a context that ends with the error cause when the lease is lost.
func WhileHeld(ctx context.Context, lease Lease, cause error, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-lease.Lost():
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel(nil)
		<-watched
	}()
	return fn(ctx)
}

const (
	// reachPause is the pause between attempts to reach a server, reachSaid the interval between
	// messages about the failed attempts.
	reachPause = time.Second
	reachSaid  = 10 * time.Second
)

// UntilReached calls open. While the server can't be reached, it calls open again, for at most the
// duration wait; if wait is below 0, it never gives up. From time to time it calls say with the
// error of an attempt. UntilReached returns open's last error, even if ctx ends.
func UntilReached[T any](ctx context.Context, wait time.Duration, say func(error), open func() (T, error)) (T, error) {
	began, said := time.Now(), time.Time{}
	for {
		opened, err := open()
		switch {
		case err == nil:
			return opened, nil
		case ctx.Err() != nil, !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrConnectionLost), wait >= 0 && time.Since(began) >= wait:
			var none T
			return none, err
		}
		if time.Since(said) >= reachSaid {
			said = time.Now()
			say(err)
		}
		if Sleep(ctx, reachPause) != nil {
			var none T
			return none, err
		}
	}
}
