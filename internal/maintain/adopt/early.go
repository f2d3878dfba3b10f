package adopt

import (
	"context"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// An early compares the copied rows while more rows are copied, on its own connection. It stops at
// the first chunk that differs. The step verify continues there, and repairs the chunk.
type early struct {
	m    *mirror
	keys *engine.Keys
	news chan copied // has room for the latest copied
	stop func()      // ends the comparison
	all  sync.WaitGroup

	mu      sync.Mutex
	checked []string // the last key of rows that were equal
	rows    int64
}

// A copied says that the source's rows up to the key in last are copied. Rows that don't satisfy
// the condition inside have no period, and are not copied.
type copied struct {
	last   []string
	inside string
}

// earlyTries is how many times in a row a chunk may differ before compareEarly's comparison gives
// up. Before each try, more changes from the log are applied.
const earlyTries = 10

// compareEarly begins to compare copied rows with the source's while the copy continues. It does
// nothing if the server serializes writes, or if the user has limited the load.
func (j *job) compareEarly(ctx context.Context, m *mirror) (*early, error) {
	e := &early{m: m, news: make(chan copied, 1), stop: func() {}, checked: j.data.Checked, rows: j.data.CheckedRows}
	if l := j.Limits; m.DB.Capabilities().SerialWrites || l.Running > 0 || l.Critical > 0 || l.Nice > 0 {
		return e, nil
	}
	var err error
	if e.keys, err = engine.NewKeys(j.DB, j.data.Key); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	e.stop = func() { cancel(); e.all.Wait() }
	e.all.Go(func() { e.run(ctx) })
	return e, nil
}

// finish waits until all copied rows are compared, or a chunk remains different.
func (e *early) finish() {
	close(e.news)
	e.all.Wait()
}

// upTo announces the rows that are copied.
func (e *early) upTo(c copied) {
	select {
	case <-e.news:
	default:
	}
	e.news <- c
}

// done returns the last key and the number of the compared rows.
func (e *early) done() (last []string, rows int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.checked, e.rows
}

// run compares the copied rows, chunk by chunk. It ends when ctx or the copy ends, or when several
// attempts at a chunk have failed. It ignores the errors, because the step verify meets them again.
func (e *early) run(ctx context.Context) {
	size, tries := firstCheck, 0
	for tries < earlyTries {
		var c copied
		var more bool
		select {
		case c, more = <-e.news:
		case <-ctx.Done():
		}
		if !more {
			return
		}
		for more && ctx.Err() == nil {
			began := time.Now()
			var err error
			if more, err = e.next(ctx, c, size); err != nil {
				size = max(size/4, leastCheck)
				tries++
				break
			}
			if more {
				size, tries = checkSize(size, time.Since(began)), 0
			}
		}
	}
}

// next compares the next chunk. It returns false if all copied rows are compared already.
func (e *early) next(ctx context.Context, c copied, size int) (more bool, err error) {
	m := e.m
	after, rows := e.done()
	last, err := e.keys.Nth(ctx, m.DB.SQL(), m.Quote(m.Source.Name), c.inside, after, c.last, size)
	if err != nil || last == nil {
		return false, err
	}
	where, args, err := e.keys.Range(after, last)
	if err != nil {
		return false, err
	}
	n, err := m.compare(ctx, e.keys, where, c.inside, args)
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checked, e.rows = last, rows+n
	return true, nil
}
