package ingest

import (
	"context"
	"sync"
)

// mostKeys limits the keys of posts that are remembered, the newest.
const mostKeys = 100_000

// keys remember the keys of posts.
type keys struct {
	mu    sync.Mutex
	known map[string]*keyed
	order []string // a ring
	next  int
}

type keyed struct {
	sum     string
	done    chan struct{} // closed when it is known whether the post was taken
	receipt Receipt
}

func newKeys() *keys { return &keys{known: map[string]*keyed{}} }

var taken = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (k *keys) recall(key, sum string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	again := k.known[key] != nil
	if k.known[key] = (&keyed{sum: sum, done: taken}); !again {
		k.keepLocked(key)
	}
}

// keepLocked notes that a known key's post was taken, and forgets the oldest beyond mostKeys.
func (k *keys) keepLocked(key string) {
	if len(k.order) < mostKeys {
		k.order = append(k.order, key)
		return
	}
	delete(k.known, k.order[k.next])
	k.order[k.next] = key
	k.next = (k.next + 1) % mostKeys
}

// first calls put for the first post with a key. put may panic.
func (k *keys) first(key string, e *keyed, put func() (Receipt, error)) (receipt Receipt, err error) {
	ok := false
	defer func() {
		k.mu.Lock()
		if e.receipt = receipt; ok {
			k.keepLocked(key)
		} else { // only keys that were taken displace others
			delete(k.known, key)
		}
		k.mu.Unlock()
		close(e.done)
	}()
	receipt, err = put()
	ok = err == nil
	return receipt, err
}

// once calls put unless a post with the same key was taken before. A post whose first
// copy is being taken waits for that.
func (k *keys) once(ctx context.Context, key, sum string, put func() (Receipt, error)) (Receipt, error) {
	for {
		k.mu.Lock()
		e := k.known[key]
		if e == nil {
			e = &keyed{sum: sum, done: make(chan struct{})}
			k.known[key] = e
			k.mu.Unlock()
			return k.first(key, e, put)
		}
		k.mu.Unlock()
		if e.sum != sum {
			return Receipt{}, ErrKeyReused
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return Receipt{}, ctx.Err()
		}
		k.mu.Lock()
		is := k.known[key] == e
		k.mu.Unlock()
		if is {
			out := e.receipt
			out.Repeated = true
			return out, nil
		}
	}
}
