package serve

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// A queue shares the sessions that run pieces among queries, first come, first served. A query gets
// all its sessions at once.
type queue struct {
	sessions      *semaphore.Weighted
	most          int
	used, waiting atomic.Int64
}

func newQueue(most int) *queue {
	return &queue{sessions: semaphore.NewWeighted(int64(most)), most: most}
}

// take waits until n sessions are free, but no longer than wait; if the queue has fewer than n, it
// waits for all. give returns the sessions to the queue. ok is false if wait or ctx has ended.
func (q *queue) take(ctx context.Context, n int, wait time.Duration) (give func(), ok bool) {
	size := int64(min(n, q.most))
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	q.waiting.Add(1)
	err := q.sessions.Acquire(ctx, size)
	q.waiting.Add(-1)
	if err != nil {
		return nil, false
	}
	q.used.Add(size)
	return func() {
		q.used.Add(-size)
		q.sessions.Release(size)
	}, true
}
