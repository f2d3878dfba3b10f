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

// errLockLost is returned if the connection that holds a source's lock is lost,
// for example because the server was restarted.
var errLockLost = errors.New("the lock on this source is lost")

// ErrHeld is returned if another process is loading the file.
var ErrHeld = errors.New("another process is loading it")

// alone loads a file while holding two locks: on its name and on its source's
// key. No other process can then load the file, or the same bytes under another
// name. If a lock is lost it returns an error that wraps errLockLost. again means
// that this load held the lock before, and that the server may not yet have
// detected the loss of its connection.
func (l *load) alone(ctx context.Context, path string, f Format, again bool) (err error) {
	outer := ctx
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	take := func(name string) (engine.Lease, error) {
		lease, err := l.lead(ctx, l.opt.Table.Name+"/load/"+name, again)
		if err != nil {
			return nil, err
		}
		go func() {
			select {
			case <-lease.Lost():
				cancel(errLockLost)
			case <-ctx.Done():
			}
		}()
		return lease, nil
	}
	give := func(lease engine.Lease) {
		lost := errors.Is(context.Cause(ctx), errLockLost)
		cancel(nil)                                            // so that the release does not count as a lost lock
		if given := lease.Release(); !lost && !passes(given) { // a broken connection has already released it
			err = errors.Join(err, given)
		}
	}
	defer func() {
		if err == nil || outer.Err() != nil || !errors.Is(context.Cause(ctx), errLockLost) {
			return
		}
		if passes(err) || errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%w: %w", errLockLost, err)
		}
	}()
	byPath, err := take(l.source.Path)
	if err != nil {
		return err
	}
	defer give(byPath)
	head, err := headOf(path)
	if err != nil {
		return err
	}
	if l.known, err = l.begun(ctx, head); err != nil {
		return err
	}
	defer func() { l.known() }()
	err = l.findSource(ctx, path, head)
	if errors.Is(err, errGrowing) {
		l.result.Finished = true
		l.say("%s is being written to, and may become what was loaded already: it is left for the next load", path)
		return nil
	}
	if err != nil {
		return err
	}
	if is, err := l.anyNoted(ctx); err != nil {
		return err
	} else if is && !l.opt.Again { // a load with Again records it anew
		l.known()
	}
	byKey, err := take(l.source.Key)
	if err != nil {
		return err
	}
	defer give(byKey)
	if !l.source.Started.IsZero() {
		if err := l.reread(ctx); err != nil {
			return err
		}
	}
	return l.once(ctx, path, f)
}

// passes reports whether an error is transient.
func passes(err error) bool {
	return engine.Retryable(err) || errors.Is(err, engine.ErrUnreachable)
}

// lead takes a lock. It waits for a lock held by another process only with again.
func (l *load) lead(ctx context.Context, name string, again bool) (lease engine.Lease, err error) {
	var held error
	err = l.retry(ctx, func() (err error) {
		lease, err = l.db.Lead(ctx, name)
		if errors.Is(err, engine.ErrLockTimeout) && !again {
			held, err = err, nil
		}
		return err
	})
	switch {
	case held != nil:
		held = engine.Classed(ErrHeld, fmt.Errorf("%s is being loaded into %s by another process: %w", l.source.Path, l.opt.Table.Name, held))
		return nil, engine.Hinted(held, "again when that has ended")
	case err != nil && again:
		return nil, fmt.Errorf("%v, and can't be taken again: %w", errLockLost, err)
	}
	return lease, err
}

// begun takes a lock that excludes other loads of files with the same head, and
// returns a function that releases it. It is released once the file's first
// batches are recorded: until then, the same bytes can't be recognised under
// another name.
func (l *load) begun(ctx context.Context, head []byte) (known func(), err error) {
	if len(head) == 0 {
		return func() {}, nil
	}
	var lease engine.Lease
	err = l.retry(ctx, func() (err error) {
		lease, err = l.db.Lead(ctx, l.opt.Table.Name+"/load/begun/"+hashOf(head))
		return err
	})
	if errors.Is(err, engine.ErrLockTimeout) {
		held := engine.Classed(ErrHeld, fmt.Errorf("a file that begins as %s does is being loaded into %s by another process: %w", l.source.Path, l.opt.Table.Name, err))
		return nil, engine.Hinted(held, "again in a moment; --retry, to wait for it")
	}
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { _ = lease.Release() }), nil // a broken connection has already released it
}

// anyNoted reports whether enough of the source is recorded to recognise its
// bytes.
func (l *load) anyNoted(ctx context.Context) (bool, error) {
	if l.source.Started.IsZero() || l.source.Loaded > 0 {
		return l.source.Loaded > 0, nil
	}
	cuts, err := l.cuts(ctx, l.source)
	return len(cuts) > 0, err
}

// headOf reads the first bytes of a file, which distinguish it from other files.
func headOf(path string) ([]byte, error) {
	in, err := openFile(path)
	if err != nil {
		return nil, err
	}
	close(in.quit) // don't wait for a file that is being written
	head, err := io.ReadAll(io.LimitReader(in, headBytes))
	if errors.Is(err, errGrowing) {
		err = nil
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return head, nil
}

// begin initialises the counts of settled rows. Rows that this load has sent
// itself don't count as earlier rows.
func (l *load) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, r := l.source, &l.result
	if l.out != nil && s.Loaded > l.loaded { // its own settle was committed
		l.own, l.sentIn = r.Counts, nil
	}
	l.loaded = s.Loaded
	r.Before, r.BeforeRejected = s.Sent-l.own.Sent, s.Rejected-l.own.Rejected
	l.earlier, l.earlierIn = state.Counts{}, nil
	l.rejectedBefore.Store(r.BeforeRejected)
}

// handOut records that a batch is about to be sent.
func (l *load) handOut(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		l.out = map[string]bool{}
	}
	l.sending.CompareAndSwap(0, int64(max(time.Since(l.began), 1)))
	l.out[b.ID(l.source.Key)] = false
}

// countOwn counts a batch that this load has committed.
func (l *load) countOwn(noted state.Batch, b *batch) {
	l.mu.Lock()
	if l.out != nil {
		l.out[b.ID(l.source.Key)] = true
	}
	l.passed.Add(b.To - b.From)
	l.sentIn = append(l.sentIn, extentsOf(noted)...)
	if len(l.sentIn) >= mergeAt {
		l.sentIn = merged(l.opt.Table.Grid, l.sentIn)
	}
	l.mu.Unlock()
	l.count(noted.Counts, b.To-b.From, false)
}

// countFound counts a batch that was found in the ledger.
func (l *load) countFound(noted state.Batch, b *batch) {
	l.mu.Lock()
	counted, own := l.out[noted.ID]
	l.mu.Unlock()
	switch {
	case own && !counted: // it was committed when the lock was lost
		l.countOwn(noted, b)
	case own:
		l.passed.Add(b.To - b.From)
	default:
		l.passed.Add(b.To - b.From)
		l.skipped.Add(b.To - b.From)
		l.count(noted.Counts, 0, true)
		l.earlier.Add(noted.Counts)
		l.earlierIn = append(l.earlierIn, extentsOf(noted)...)
	}
}
