package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
)

// locked loads the file while it holds two locks, on the file's name and on its source's key: no
// other process can load the file, even under another name. again means that this load has lost its
// locks before.
func (l *fileLoad) locked(ctx context.Context, again bool) error {
	return l.WhileLocked(ctx, l.Source.Path, again, func(ctx context.Context) error {
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
		if errors.Is(context.Cause(locked), lane.ErrLockLost) {
			err = lane.LostLock(ctx, err)
		}
		return err
	})
}

// found finds the record of the file, and loads the file under the lock of its source's key.
func (l *fileLoad) found(ctx context.Context, head []byte, again bool) error {
	err := l.findSource(ctx, head)
	if errors.Is(err, format.ErrGrowing) {
		l.Result.Finished = true
		l.Say("%s is being written to, and may become a copy of a file that was loaded already: it is left for the next load", l.path)
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
	return l.WhileLocked(ctx, l.Source.Key, again, func(ctx context.Context) error {
		if !l.Source.Started.IsZero() {
			s, err := lane.Retried(ctx, l.Load, func() (*state.Source, error) { return l.State.Source(ctx, l.Source.Table, l.Source.Key) })
			if err == nil && s == nil {
				err = fmt.Errorf("the record of %s was removed a moment ago", l.Source.Path)
			}
			if err != nil {
				return err
			}
			l.Source = s
		}
		return l.read(ctx)
	})
}

// lockHead prevents other loads of files with the same head until unlock is called. Recorded
// batches identify a file, so the lock is needed only until the first batch is recorded. lose is
// called if the lock is lost.
func (l *fileLoad) lockHead(ctx context.Context, head []byte, lose context.CancelCauseFunc) (unlock func(), err error) {
	if len(head) == 0 {
		return func() {}, nil
	}
	lease, err := lane.Retried(ctx, l.Load, func() (engine.Lease, error) {
		return l.Lease(ctx, l.opt.Table.Name+"/load/begun/"+format.HashOf(head))
	})
	if errors.Is(err, engine.ErrLockTimeout) {
		held := engine.Classed(lane.ErrHeld, fmt.Errorf("a file that begins as %s does is being loaded into %s by another process: %w", l.Source.Path, l.opt.Table.Name, err))
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
			lose(lane.ErrLockLost)
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
	if l.Source.Started.IsZero() || l.Source.Loaded > 0 {
		return l.Source.Loaded > 0, nil
	}
	cuts, err := l.cutsOf(ctx, l.Source)
	return len(cuts) > 0, err
}

// headOf reads the first bytes of a file, which tell files apart. If the file is damaged there, it
// returns the bytes before the damage.
func headOf(ctx context.Context, path string, open func() (*format.Input, error)) (head []byte, err error) {
	err = format.WithFile(ctx, path, open, func(_ *format.Input, r io.Reader) error {
		head, err = io.ReadAll(io.LimitReader(r, format.HeadBytes))
		if errors.Is(err, format.ErrGrowing) || len(head) > 0 && ctx.Err() == nil {
			return nil
		}
		return err
	})
	return head, err
}
