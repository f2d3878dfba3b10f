package engine

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// A Watch interrupts an operation on a connection when a context ends. For that, it sets the
// connection's deadline to a time in the past: a call then needs neither a goroutine nor an
// allocation of its own.
type Watch struct {
	conn interface{ SetDeadline(time.Time) error }

	mu          sync.Mutex
	ctx         context.Context // the current context; callers pass the same one repeatedly
	unwatch     func() bool
	busy        bool
	interrupted bool
}

// NewWatch returns a Watch for a connection. The caller must call Close.
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

// End ends the operation since Begin, and reports whether ctx has ended during the operation.
func (w *Watch) End() (interrupted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	interrupted = w.interrupted
	w.busy, w.interrupted = false, false
	if interrupted {
		// The operation may have succeeded nevertheless; then the connection is usable.
		_ = w.conn.SetDeadline(time.Time{})
	}
	return interrupted
}

// Hold runs fn, which changes the connection; until fn returns, the connection isn't interrupted.
// If it has been interrupted before, Hold returns os.ErrDeadlineExceeded and doesn't call fn.
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

// Close ends the watch: from then on, it interrupts no operation.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
}

// Linked is a connection that a Link guards.
type Linked interface {
	comparable
	// Watch interrupts the connection's operations.
	Watch() *Watch
	// Rollback rolls back the open transaction, if any. It fails if the connection is broken.
	Rollback() error
	// Answered reports whether err is the server's answer to an operation, or was returned before
	// anything was sent. In both cases the connection is still usable.
	Answered(err error) bool
	// Kill ends the connection on the server, and waits until it has ended: otherwise the connection's
	// statement might still commit later.
	Kill(ctx context.Context)
	Close() error
}

// A Link is the connection of a writer, a querier or a loader. If an operation is interrupted, or
// fails for another reason than its data, the connection is lost; Reset makes another connection.
type Link[C Linked] struct {
	// Conn is the connection, nil if it is lost.
	Conn C
	// Dial makes and prepares a connection.
	Dial func(ctx context.Context) (C, error)
	// entered is set during an operation: see Enter.
	entered bool
}

// Connect makes a connection.
func (l *Link[C]) Connect(ctx context.Context) error {
	conn, err := l.Dial(ctx)
	if err == nil {
		l.Conn = conn
	}
	return err
}

// Lost reports whether there is no connection.
func (l *Link[C]) Lost() bool {
	var none C
	return l.Conn == none
}

// Enter makes the end of ctx interrupt operations on the connection until Fail is called.
func (l *Link[C]) Enter(ctx context.Context) error {
	if l.Lost() {
		return Classed(ErrConnectionLost, errors.New("the connection is lost"))
	}
	err := l.Conn.Watch().Begin(ctx)
	l.entered = err == nil
	return err
}

// Do runs fn, an operation on the connection. The end of ctx interrupts fn. If fn fails, Do rolls
// back. fn must return errors with their classes.
func (l *Link[C]) Do(ctx context.Context, fn func() error) error {
	if err := l.Enter(ctx); err != nil {
		return err
	}
	return l.Fail(ctx, fn())
}

// Fail ends an operation that has returned err. It returns err, or the error of ctx if ctx
// interrupted the operation. After an error, Fail rolls back, and keeps the connection only if the
// connection is usable.
func (l *Link[C]) Fail(ctx context.Context, err error) error {
	if l.Lost() {
		return err
	}
	began := l.entered
	l.entered = false
	usable := err != nil && (!began || l.Conn.Answered(err)) && !errors.Is(err, ErrConnectionLost) && l.Conn.Rollback() == nil
	interrupted := l.Conn.Watch().End()
	if err == nil {
		return nil
	}
	if interrupted {
		l.Conn.Kill(ctx)
		err, usable = ctx.Err(), false
	}
	if !usable {
		l.Drop()
	}
	return err
}

// Drop closes the connection, which may be broken.
func (l *Link[C]) Drop() {
	var none C
	if !l.Lost() {
		_ = l.Conn.Close()
		l.Conn = none
	}
}

// Reset rolls back on the connection, or makes a new one if there is none.
func (l *Link[C]) Reset(ctx context.Context) error {
	if !l.Lost() {
		if err := l.Conn.Watch().Begin(ctx); err != nil {
			return err
		}
		err := l.Conn.Rollback()
		l.Conn.Watch().End()
		if err == nil {
			return nil
		}
		l.Drop()
	}
	return l.Connect(ctx)
}

// Close closes the connection.
func (l *Link[C]) Close() error {
	l.Drop()
	return nil
}
