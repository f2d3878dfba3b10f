package mysqlfront

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A queue shares the sessions for pieces among queries: those of one user in the order in which they came, the users in turn. A query
// gets all its sessions at once.
type queue struct {
	mu      sync.Mutex
	free    int
	most    int
	waiting map[string][]*ticket // by user
	users   []string             // that wait, in the order of their turns
}

type ticket struct {
	n     int
	ready chan struct{}
}

func newQueue(most int) *queue {
	return &queue{free: most, most: most, waiting: map[string][]*ticket{}}
}

// take waits for n sessions, or as many as there are at all, for at most a time. It returns what gives them back; ok is false if the
// wait was too long or ctx has ended.
func (q *queue) take(ctx context.Context, user string, n int, wait time.Duration) (give func(), ok bool) {
	n = min(n, q.most)
	q.mu.Lock()
	t := &ticket{n, make(chan struct{})}
	if len(q.waiting[user]) == 0 {
		q.users = append(q.users, user)
	}
	q.waiting[user] = append(q.waiting[user], t)
	q.serve()
	q.mu.Unlock()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-t.ready:
		return func() { q.give(n) }, true
	case <-limit.C:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-t.ready: // in the same moment
		q.free += n
	default:
		q.waiting[user] = slices.DeleteFunc(q.waiting[user], func(x *ticket) bool { return x == t })
		if len(q.waiting[user]) == 0 {
			q.leave(user)
		}
	}
	q.serve() // the next one may need fewer
	return nil, false
}

func (q *queue) give(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free += n
	q.serve()
}

// serve lets those begin whose turn it is. A query that needs many sessions is not passed by.
func (q *queue) serve() {
	for len(q.users) > 0 {
		user := q.users[0]
		t := q.waiting[user][0]
		if t.n > q.free {
			return
		}
		q.free -= t.n
		close(t.ready)
		q.waiting[user] = q.waiting[user][1:]
		q.users = q.users[1:]
		if len(q.waiting[user]) > 0 {
			q.users = append(q.users, user)
		} else {
			delete(q.waiting, user)
		}
	}
}

func (q *queue) leave(user string) {
	delete(q.waiting, user)
	q.users = slices.DeleteFunc(q.users, func(u string) bool { return u == user })
}

// state returns how many sessions are used, and how many queries wait.
func (q *queue) state() (used, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range q.waiting {
		waiting += len(list)
	}
	return q.most - q.free, waiting
}
