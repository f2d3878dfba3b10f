package workload

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// rollEvery is how often the roller looks how far the inserts have come.
const rollEvery = 20 * time.Millisecond

// A roller creates a table's periods ahead of the inserts and drops the oldest.
type roller struct {
	w      *Insert
	t      *table
	policy rolling.Policy
	parts  []rolling.Partition // touched by the roller's goroutine alone, once it runs

	ready atomic.Int64 // positions below it have a partition
	mu    sync.Mutex
	grown chan struct{} // closed, and made anew, when ready grows
}

func newRoller(w *Insert, t *table) *roller {
	return &roller{
		w: w, t: t,
		policy: rolling.Policy{Grid: t.Grid, Ahead: periodsAhead, Keep: w.opt.KeepPeriods},
		grown:  make(chan struct{}),
	}
}

// created notes partitions that are there now.
func (r *roller) created(parts []rolling.Partition) {
	r.parts = append(r.parts, parts...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready.Store(r.parts[len(r.parts)-1].To)
	close(r.grown)
	r.grown = make(chan struct{})
}

// await waits until a position has a partition.
func (r *roller) await(ctx context.Context, pos int64) error {
	for pos >= r.ready.Load() {
		r.mu.Lock()
		grown := r.grown
		r.mu.Unlock()
		if pos < r.ready.Load() {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Background implements bench.Workload: it rolls all tables.
func (w *Insert) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	if !w.tables[0].Rolling() {
		return nil
	}
	tick := time.NewTicker(rollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, t := range w.tables {
			if err := t.roller.step(ctx, event); err != nil {
				return err
			}
		}
	}
}

// step does what is due: creation first, then retention, never both in one.
func (r *roller) step(ctx context.Context, event func(what, object string, began time.Time)) error {
	newest := r.t.next.Load()
	s, err := r.policy.Steps(r.parts, r.w.position(max(newest-1, 0)))
	if err != nil {
		return err
	}
	if len(s.Create) > 0 {
		began := time.Now()
		if err := r.w.db.Apply(ctx, engine.CreatePartitions{Table: &r.t.Table, Have: r.parts, New: s.Create}); err != nil {
			return err
		}
		event("create partitions", r.t.Name+" "+names(s.Create), began)
		r.created(s.Create)
	}
	if r.policy.Keep == 0 {
		return nil
	}
	// What may be dropped is judged by the oldest row still on its way.
	if s, err = r.policy.Steps(r.parts, r.w.position(max(min(r.oldest(), newest-1), 0))); err != nil {
		return err
	}
	for _, p := range s.Drop {
		began := time.Now()
		if err := r.w.db.Apply(ctx, engine.DropPartition{Table: &r.t.Table, Have: r.parts, Drop: p}); err != nil {
			return err
		}
		event("drop partition", r.t.Name+" "+p.Name, began)
		r.parts = slices.DeleteFunc(r.parts, func(q rolling.Partition) bool { return q == p })
	}
	return nil
}

// oldest returns the first row that a client still has on its way.
func (r *roller) oldest() int64 {
	first := int64(math.MaxInt64)
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, c := range r.w.clients {
		if c.table == r.t {
			first = min(first, c.pending.Load())
		}
	}
	return first
}

func names(parts []rolling.Partition) string {
	if len(parts) == 1 {
		return parts[0].Name
	}
	return parts[0].Name + ".." + parts[len(parts)-1].Name
}
