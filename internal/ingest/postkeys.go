package ingest

import (
	"hash/maphash"
	"sync"
)

// mostKeys is how many of the newest keys of posts are remembered.
const mostKeys = 100_000

type keys struct {
	// taking has a lock for each hash of a key. It is held while a post with such a key is taken.
	taking [256]sync.Mutex
	seed   maphash.Seed

	mu    sync.Mutex
	known map[string]keyed
	order []string // a ring
	next  int
}

// A keyed is a post with a key that was taken. sum is the hash of its body.
type keyed struct {
	sum     string
	receipt Receipt
}

func newKeys() *keys { return &keys{seed: maphash.MakeSeed(), known: map[string]keyed{}} }

// keep notes that a key's post was taken, and forgets the oldest key beyond mostKeys.
func (k *keys) keep(key string, e keyed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, again := k.known[key]; !again && len(k.order) < mostKeys {
		k.order = append(k.order, key)
	} else if !again {
		delete(k.known, k.order[k.next])
		k.order[k.next] = key
		k.next = (k.next + 1) % mostKeys
	}
	k.known[key] = e
}

// once calls put, unless a post with the key was already taken. If another request with the same
// key is in progress, once first waits for it.
func (k *keys) once(key, sum string, put func() (Receipt, error)) (Receipt, error) {
	taking := &k.taking[maphash.String(k.seed, key)%uint64(len(k.taking))]
	taking.Lock()
	defer taking.Unlock()
	k.mu.Lock()
	e, there := k.known[key]
	k.mu.Unlock()
	if there {
		if e.sum != sum {
			return Receipt{}, ErrKeyReused
		}
		e.receipt.Repeated = true
		return e.receipt, nil
	}
	receipt, err := put()
	if err == nil {
		k.keep(key, keyed{sum, receipt})
	}
	return receipt, err
}
