package ingest

import (
	"context"
	"sync"
)

// aheadBytes limits the bytes of batches that are cut but not yet taken by a sender.
const aheadBytes = 32 << 20

// ahead limits the bytes that are cut before they are sent.
type ahead struct {
	mu    sync.Mutex
	bytes int64
	freed chan struct{} // closed when room is freed; nil while nobody waits
}

// take waits for room for n bytes. A batch larger than the limit is admitted alone.
func (a *ahead) take(ctx context.Context, n int) error {
	for {
		a.mu.Lock()
		if a.bytes == 0 || a.bytes+int64(n) <= aheadBytes {
			a.bytes += int64(n)
			a.mu.Unlock()
			return nil
		}
		if a.freed == nil {
			a.freed = make(chan struct{})
		}
		freed := a.freed
		a.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// give returns room.
func (a *ahead) give(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes -= int64(n)
	if a.freed != nil {
		close(a.freed)
		a.freed = nil
	}
}

// hold waits for room for a batch that is about to be sent.
func (l *load) hold(ctx context.Context, b *batch) error {
	if err := l.ahead.take(ctx, len(b.data)); err != nil {
		return err
	}
	b.held = len(b.data)
	return nil
}
