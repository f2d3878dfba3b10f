package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

var errLockLost = errors.New("the lock on this source is lost")

// ErrHeld is returned if another process is loading the file.
var ErrHeld = errors.New("another process is loading it")

// locked loads the file while holding two locks: on its name and on its source's key.
// No other process can then load the file, or the same bytes under another name. again
// means that this load held the locks before, and that the server may not yet have
// detected the loss of its connection.
func (l *fileLoad) locked(ctx context.Context, again bool) error {
	return l.whileLocked(ctx, l.source.Path, again, func(ctx context.Context) error {
		head, err := headOf(ctx, l.path, l.open)
		if err != nil {
			return err
		}
		locked, lose := context.WithCancelCause(ctx)
		defer lose(nil)
		if l.recorded, err = l.lockHead(locked, head, lose); err != nil {
			return err
		}
		defer func() { l.recorded() }()
		err = l.found(locked, head, again)
		if errors.Is(context.Cause(locked), errLockLost) {
			err = lostLock(ctx, err)
		}
		return err
	})
}

// found finds the record of the file, and loads the file while holding the lock on its source's key.
func (l *fileLoad) found(ctx context.Context, head []byte, again bool) error {
	err := l.findSource(ctx, head)
	if errors.Is(err, errGrowing) {
		l.result.Finished = true
		l.say("%s is being written to, and may become a copy of a file that was loaded already: it is left for the next load", l.path)
		return nil
	}
	if err != nil {
		return err
	}
	if is, err := l.anyRecorded(ctx); err != nil {
		return err
	} else if is && !l.opt.Again { // a load with Again records it anew
		l.recorded()
	}
	return l.whileLocked(ctx, l.source.Key, again, func(ctx context.Context) error {
		if !l.source.Started.IsZero() {
			if err := l.reread(ctx); err != nil {
				return err
			}
		}
		return l.read(ctx)
	})
}

// whileLocked calls fn while holding a lock. If the lock is lost meanwhile, the error
// wraps errLockLost.
func (l *load) whileLocked(outer context.Context, name string, again bool, fn func(context.Context) error) error {
	lease, err := l.lead(outer, state.LoadLock(l.opt.Table.Name, name), again)
	if err != nil {
		return err
	}
	lost := false
	err = engine.WhileHeld(outer, lease, errLockLost, func(ctx context.Context) error {
		err := fn(ctx)
		lost = errors.Is(context.Cause(ctx), errLockLost)
		return err
	})
	if released := lease.Release(); !lost && !passes(released) { // a broken connection has already released it
		err = errors.Join(err, released)
	}
	if lost {
		err = lostLock(outer, err)
	}
	return err
}

// lostLock returns the error of work that was ended because a lock was lost, but not ctx.
func lostLock(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && (passes(err) || errors.Is(err, context.Canceled)) {
		err = fmt.Errorf("%w: %w", errLockLost, err)
	}
	return err
}

// looks is how long a lock may be held by a process that only looks whether a load is
// running: maintenance, which leaves alone what a load fills.
const looks = time.Second

// lead takes a lock. It waits for a lock held by another load only with again.
func (l *load) lead(ctx context.Context, name string, again bool) (lease engine.Lease, err error) {
	var held error
	end := time.Now().Add(looks)
	err = l.retry(ctx, func() (err error) {
		err = engine.Retry{First: firstPause, Last: firstPause, Until: end}.Do(ctx, func() (err error) {
			lease, err = l.lease(ctx, name)
			return err
		})
		if errors.Is(err, engine.ErrLockTimeout) && !again {
			held, err = err, nil
		}
		return err
	})
	switch {
	case held != nil:
		held = engine.Classed(ErrHeld, fmt.Errorf("%s is being loaded into %s by another process: %w", l.source.Path, l.opt.Table.Name, held))
		return nil, engine.Hinted(held, "again after that load has ended")
	case err != nil && again:
		return nil, fmt.Errorf("%v, and can't be taken again: %w", errLockLost, err)
	}
	return lease, err
}

// lockHead takes a lock that excludes other loads of files with the same head, and
// returns a function that releases it. It is released once the file's first
// batches are recorded: until then, the same bytes can't be recognised under
// another name. If it is lost before, lose is called.
func (l *fileLoad) lockHead(ctx context.Context, head []byte, lose context.CancelCauseFunc) (unlock func(), err error) {
	if len(head) == 0 {
		return func() {}, nil
	}
	lease, err := retried(ctx, l.load, func() (engine.Lease, error) {
		return l.lease(ctx, l.opt.Table.Name+"/load/begun/"+hashOf(head))
	})
	if errors.Is(err, engine.ErrLockTimeout) {
		held := engine.Classed(ErrHeld, fmt.Errorf("a file that begins as %s does is being loaded into %s by another process: %w", l.source.Path, l.opt.Table.Name, err))
		return nil, engine.Hinted(held, "again in a moment; --retry, to wait for it")
	}
	if err != nil {
		return nil, err
	}
	release, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-lease.Lost():
			lose(errLockLost)
		case <-release:
		}
	}()
	return sync.OnceFunc(func() {
		close(release)
		<-watched
		_ = lease.Release() // a broken connection has already released it
	}), nil
}

// anyRecorded reports whether enough of the source is recorded to recognise its bytes.
func (l *fileLoad) anyRecorded(ctx context.Context) (bool, error) {
	if l.source.Started.IsZero() || l.source.Loaded > 0 {
		return l.source.Loaded > 0, nil
	}
	cuts, err := l.cutsOf(ctx, l.source)
	return len(cuts) > 0, err
}

// headOf reads the first bytes of a file, which distinguish it from other files. Of one that
// is damaged soon they are those before that.
func headOf(ctx context.Context, path string, open func() (*input, error)) (head []byte, err error) {
	err = look(ctx, path, open, func(_ *input, r io.Reader) error {
		head, err = io.ReadAll(io.LimitReader(r, headBytes))
		if errors.Is(err, errGrowing) || len(head) > 0 && ctx.Err() == nil {
			return nil
		}
		return err
	})
	return head, err
}
