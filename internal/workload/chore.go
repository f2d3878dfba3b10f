package workload

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
)

// choreGrace is how long a chore may continue after the run is told to end: a
// server takes some time to cancel the build of an index.
const choreGrace = 5 * time.Second

// Chores is a workload of jobs that are executed once, one operation of a client
// each.
type Chores struct {
	jobs []func(ctx context.Context, event rollEvent) error
	next atomic.Int64

	mu       sync.Mutex
	warnings []string
	events   []choreEvent
	wake     chan struct{}
}

type choreEvent struct {
	what, object string
	began        time.Time
}

func newChores() *Chores { return &Chores{wake: make(chan struct{}, 1)} }

// Warnings returns the parts of the jobs that the server could not do.
func (c *Chores) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.warnings...)
}

func (c *Chores) event(what, object string, began time.Time) {
	c.mu.Lock()
	c.events = append(c.events, choreEvent{what, object, began})
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // it is already awake
	}
}

// Background implements bench.Workload: it forwards the events of the jobs.
func (c *Chores) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	for {
		over := false
		select {
		case <-c.wake:
		case <-ctx.Done():
			over = true
		}
		c.mu.Lock()
		events := c.events
		c.events = nil
		c.mu.Unlock()
		for _, e := range events {
			event(e.what, e.object, e.began)
		}
		if over {
			return nil
		}
	}
}

// Client implements bench.Workload.
func (c *Chores) Client(context.Context, int) (bench.Client, error) {
	return &choreClient{chores: c}, nil
}

type choreClient struct {
	chores *Chores
	job    func(ctx context.Context, event rollEvent) error
}

func (c *choreClient) Prepare(int) { c.job = c.chores.jobs[c.chores.next.Add(1)-1] }

func (c *choreClient) Do(ctx context.Context) error { return c.job(ctx, c.chores.event) }

// Recover allows a retry of a job that failed because of a lock.
func (c *choreClient) Recover(ctx context.Context, _ error) error { return ctx.Err() }

func (c *choreClient) Close() error { return nil }

// buildIndexes returns l.x: it builds the indexes of each table one after the
// other, and all tables in parallel.
func (b *Ibench) buildIndexes() *Chores {
	c := newChores()
	b.built = make([]int, len(b.tables))
	for i, t := range b.tables {
		table := t.Table // a copy, because the counters read the original concurrently
		c.jobs = append(c.jobs, func(ctx context.Context, event rollEvent) error {
			for b.built[i] < len(b.indexes) {
				ix := b.indexes[b.built[i]]
				began := time.Now()
				if err := b.db.Apply(ctx, engine.CreateIndexes{Table: &table, Indexes: []engine.Index{ix}}); err != nil {
					return fmt.Errorf("create index %s of %s: %w", ix.Name, t.Name, err)
				}
				event("create index", t.Name+"."+ix.Name, began)
				b.built[i]++
			}
			return nil
		})
	}
	return c
}

// settle returns the step that completes the work that writes have deferred.
func (b *Ibench) settle() *Chores {
	c := newChores()
	c.jobs = append(c.jobs, func(ctx context.Context, event rollEvent) error {
		began := time.Now()
		warnings, err := b.db.Settle(ctx, engine.Settle{Tables: b.Tables()})
		c.mu.Lock()
		c.warnings = append(c.warnings, warnings...)
		c.mu.Unlock()
		if err == nil {
			event("settle", "", began)
		}
		return err
	})
	return c
}
