package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// ErrLockLost is returned for a load that was ended because its lock was lost.
var ErrLockLost = errors.New("the lock on this source is lost")

// ErrHeld is returned if another process is loading the file.
var ErrHeld = errors.New("another process is loading it")

// A lease is a lock of the database that also excludes other loads of this process.
type lease struct {
	engine.Lease
	unlock func()
}

// Release implements engine.Lease.
func (l lease) Release() error {
	defer l.unlock()
	return l.Lease.Release()
}

// Lease takes a lock of the database, once no other load of this process holds it.
func (l *Load) Lease(ctx context.Context, name string) (engine.Lease, error) {
	unlock, err := l.Pool.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	held, err := l.Opt.DB.Lead(ctx, name)
	if err != nil {
		unlock()
		return nil, err
	}
	return lease{held, unlock}, nil
}

// WhileLocked calls fn while holding a lock. The error wraps ErrLockLost if the lock was lost.
func (l *Load) WhileLocked(outer context.Context, name string, again bool, fn func(context.Context) error) error {
	lease, err := l.lead(outer, state.LoadLock(l.Opt.Table.Name, name), again)
	if err != nil {
		return err
	}
	lost := false
	err = engine.WhileHeld(outer, lease, ErrLockLost, func(ctx context.Context) error {
		err := fn(ctx)
		lost = errors.Is(context.Cause(ctx), ErrLockLost)
		return err
	})
	if released := lease.Release(); !lost && !Transient(released) { // a broken connection has already released it
		err = errors.Join(err, released)
	}
	if lost {
		err = LostLock(outer, err)
	}
	return err
}

// Relock calls fn. Each time fn loses a lock, Relock sets the source back to what it was before the
// first call, and calls fn again, with again set. name is for messages.
func (l *Load) Relock(ctx context.Context, name string, fn func(again bool) error) error {
	fresh := *l.Source
	for again := false; ; again = true {
		s := fresh
		l.Source = &s
		err := fn(again)
		if !errors.Is(err, ErrLockLost) || ctx.Err() != nil || l.Opt.RetryFor == 0 {
			return err
		}
		l.Say("%s: %v; the lock is taken again, and the load continues", name, ErrLockLost)
	}
}

// LostLock adds ErrLockLost to err if a lost lock has ended the work, and ctx hasn't.
func LostLock(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && (Transient(err) || errors.Is(err, context.Canceled)) {
		err = fmt.Errorf("%w: %w", ErrLockLost, err)
	}
	return err
}

// looks is how long maintenance may hold a lock to see whether a load is running.
const looks = time.Second

// lead takes a lock. Only with again does it wait while another load holds the lock.
func (l *Load) lead(ctx context.Context, name string, again bool) (lease engine.Lease, err error) {
	var held error
	end := time.Now().Add(looks)
	err = l.Retry(ctx, func() (err error) {
		err = engine.Retry{First: firstPause, Last: firstPause, Until: end}.Do(ctx, func() (err error) {
			lease, err = l.Lease(ctx, name)
			return err
		})
		if errors.Is(err, engine.ErrLockTimeout) && !again {
			held, err = err, nil
		}
		return err
	})
	switch {
	case held != nil:
		held = engine.Classed(ErrHeld, fmt.Errorf("%s is being loaded into %s by another process: %w", l.Source.Path, l.Opt.Table.Name, held))
		return nil, engine.Hinted(held, "again after that load has ended")
	case err != nil && again:
		return nil, fmt.Errorf("%v, and can't be taken again: %w", ErrLockLost, err)
	}
	return lease, err
}
