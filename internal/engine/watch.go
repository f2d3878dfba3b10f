package engine

import (
	"context"
	"os"
	"sync"
	"time"
)

// A Watch interrupts an operation on a connection when a context ends, without a
// goroutine or an allocation for each call. When the context ends, it sets a
// deadline in the past, which must fail operations that wait on the connection.
type Watch struct {
	conn interface{ SetDeadline(time.Time) error }

	mu          sync.Mutex
	ctx         context.Context // the current context; callers pass the same one repeatedly
	unwatch     func() bool
	busy        bool
	interrupted bool
}

// NewWatch returns a Watch for a connection. It must be closed with Close.
func NewWatch(conn interface{ SetDeadline(time.Time) error }) *Watch { return &Watch{conn: conn} }

// Begin makes the end of ctx interrupt operations on the connection from now on,
// until End. It returns the error of a context that has already ended.
func (w *Watch) Begin(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx != ctx {
		w.forget()
		w.ctx = ctx
		w.unwatch = context.AfterFunc(ctx, func() { w.interrupt(ctx) })
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.busy = true
	return nil
}

// End reports whether the operation since Begin was interrupted, or should have
// been.
func (w *Watch) End() (interrupted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	interrupted = w.interrupted
	w.busy, w.interrupted = false, false
	if interrupted {
		// The operation may have succeeded nevertheless; then the connection is
		// usable.
		_ = w.conn.SetDeadline(time.Time{})
	}
	return interrupted
}

// Hold runs fn, which changes the connection, while preventing interruptions. It
// returns os.ErrDeadlineExceeded if one has occurred.
func (w *Watch) Hold(fn func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.interrupted {
		return os.ErrDeadlineExceeded
	}
	return fn()
}

func (w *Watch) interrupt(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy && w.ctx == ctx {
		w.interrupted = true
		_ = w.conn.SetDeadline(time.Unix(1, 0))
	}
}

// forget ends the watch; w.mu is held.
func (w *Watch) forget() {
	if w.unwatch != nil {
		w.unwatch()
	}
	w.ctx, w.unwatch = nil, nil
}

// Close ends the watch; no operation is interrupted afterwards.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
}
