package engine

import (
	"context"
	"os"
	"sync"
	"time"
)

// A Watch breaks off what runs on a connection when a context ends, without a
// goroutine or an allocation for each call. The end of a context sets a
// deadline in the past, which must fail what waits on the connection now.
type Watch struct {
	conn interface{ SetDeadline(time.Time) error }

	mu          sync.Mutex
	ctx         context.Context // watched now; callers pass the same one again and again
	unwatch     func() bool
	busy        bool
	interrupted bool
}

// NewWatch returns one of a connection. Close ends it.
func NewWatch(conn interface{ SetDeadline(time.Time) error }) *Watch { return &Watch{conn: conn} }

// Begin makes the end of ctx break off what runs on the connection from now
// on, until End. It returns the error of a context that has ended already.
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

// End tells whether what ran since Begin was broken off, or was to be.
func (w *Watch) End() (interrupted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	interrupted = w.interrupted
	w.busy, w.interrupted = false, false
	if interrupted {
		// It may have ended well all the same; then the connection is good.
		_ = w.conn.SetDeadline(time.Time{})
	}
	return interrupted
}

// Hold runs fn, which changes the connection, while nothing interrupts it. It
// returns os.ErrDeadlineExceeded where something has.
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

// Close ends the watch; nothing is interrupted any more.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
}
