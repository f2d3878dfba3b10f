package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

const (
	// rollEvery is how often the roller looks how far the inserts have come.
	// Clients that have to wait for a period wake it at once.
	rollEvery = 20 * time.Millisecond
	// rollPatience is how long a step is tried again, by default, that failed
	// of a lock or of the connection: twice as long as clients try a batch. An
	// engine has waited for a lock several times by then.
	rollPatience = 30 * time.Second
	rollPause    = 200 * time.Millisecond // between two such tries
	// rollLinger is how long a step that has begun may take after the run has
	// ended. Broken off, a server would finish it at any later time, under
	// whoever reads the table next.
	rollLinger = 5 * time.Second
)

// A roller creates a table's periods ahead of the inserts and drops the oldest.
type roller struct {
	w *Insert
	t *table

	ddl   sync.Mutex          // one step at a time
	parts []rolling.Partition // under ddl
	stale bool                // under ddl: a step failed, so parts may be wrong

	ready atomic.Int64 // positions below it have a partition
	mu    sync.Mutex
	grown chan struct{} // closed, and made anew, when ready grows

	// drift is how far the keys that a server assigns are ahead of the
	// sequence, as far as is known.
	drift atomic.Int64
	// Periods below dropping were dropped, or a try to drop them was made;
	// those below dropped are gone.
	dropping, dropped atomic.Int64
}

func newRoller(w *Insert, t *table) *roller {
	return &roller{w: w, t: t, grown: make(chan struct{})}
}

// policy says how many periods there are to be. Creation doesn't look at
// retention: a batch larger than what is kept needs all its periods.
func (r *roller) policy(keep int) rolling.Policy {
	return rolling.Policy{Grid: r.t.Grid, Ahead: periodsAhead, Keep: keep}
}

// reset notes the partitions of a table that was just created.
func (r *roller) reset(parts []rolling.Partition) {
	r.ddl.Lock()
	defer r.ddl.Unlock()
	r.drift.Store(0)
	r.dropping.Store(0)
	r.dropped.Store(0)
	r.have(slices.Clone(parts))
}

// have notes the partitions that there are; r.ddl is held.
func (r *roller) have(parts []rolling.Partition) {
	r.parts, r.stale = parts, false
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready.Store(parts[len(parts)-1].To)
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
		case r.w.wanted <- struct{}{}:
		default: // somebody has asked already
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// catchUp makes room for n more keys than there are periods for.
func (r *roller) catchUp(ctx context.Context, n int64) error {
	ready := r.ready.Load()
	ahead := ready + n - r.newest()
	for {
		old := r.drift.Load()
		if ahead <= old || r.drift.CompareAndSwap(old, ahead) {
			return r.await(ctx, ready)
		}
	}
}

// newest returns the position of the last row that was made ready.
func (r *roller) newest() int64 { return r.w.position(max(r.t.next.Load()-1, 0)) }

// A rollEvent reports what was done, as bench.Workload has it.
type rollEvent func(what, object string, began time.Time)

// Background implements bench.Workload: it rolls all tables. Creating doesn't
// wait for the dropping of another table's period, which may take seconds.
func (w *Insert) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	if !w.tables[0].Rolling() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var created, dropped error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		created = w.roller(ctx, (*roller).create, w.wanted, event)
	})
	if w.opt.KeepPeriods > 0 {
		wg.Go(func() {
			defer cancel()
			dropped = w.roller(ctx, (*roller).drop, nil, event)
		})
	}
	wg.Wait()
	return errors.Join(created, dropped)
}

// roller does a task for all tables, again and again, until ctx ends or it
// fails for good.
func (w *Insert) roller(ctx context.Context, task func(*roller, context.Context, rollEvent) error, wanted <-chan struct{}, event rollEvent) error {
	tick := time.NewTicker(rollEvery)
	defer tick.Stop()
	failing := map[*table]trouble{}
	for _, t := range w.tables {
		if t.resumed { // a step of the process before it may still be under way
			failing[t] = trouble{since: time.Now(), passing: true}
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-wanted:
		}
		for _, t := range w.tables {
			err := task(t.roller, ctx, event)
			if err == nil {
				delete(failing, t)
				continue
			}
			if ctx.Err() != nil {
				return nil
			}
			if waited := w.awaitServer(ctx); waited {
				delete(failing, t) // patience is for a server that is up
			}
			was, known := failing[t]
			now := trouble{since: was.since, passing: engine.Retryable(err) || errors.Is(err, engine.ErrUnreachable)}
			if !known {
				now.since = time.Now()
			}
			if !now.passing && !was.passing || time.Since(now.since) > w.opt.Patience {
				return err
			}
			failing[t] = now
		}
		if len(failing) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(rollPause):
			}
		}
	}
}

// A trouble is a task that fails: since when, and whether the last failure was
// one that may pass. One of another kind right after it may be its consequence:
// a step that the server went on with after the connection was lost can't be
// done twice. Then it is looked at once more.
type trouble struct {
	since   time.Time
	passing bool
}

// create adds the periods that are due.
func (r *roller) create(ctx context.Context, event rollEvent) error {
	r.ddl.Lock()
	defer r.ddl.Unlock()
	if err := r.refresh(ctx); err != nil {
		return err
	}
	s, err := r.policy(0).Steps(r.parts, r.newest()+r.drift.Load())
	if err != nil || len(s.Create) == 0 {
		return err
	}
	if n, most := len(r.parts)+len(s.Create), r.w.db.Capabilities().MaxPeriods; most > 0 && n > most {
		return engine.Hinted(fmt.Errorf("table %s: it needs %d periods, %s allows %d", r.t.Name, n, r.w.db.Info().Engine, most),
			"a larger --period-rows, or --keep-periods")
	}
	began := time.Now()
	if err := r.apply(ctx, engine.CreatePartitions{Table: &r.t.Table, Have: r.parts, New: s.Create}); err != nil {
		return fmt.Errorf("create periods of %s: %w", r.t.Name, err)
	}
	event("create partitions", r.t.Name+" "+names(s.Create), began)
	r.have(slices.Concat(r.parts, s.Create))
	return nil
}

// drop drops the periods that are past retention, one at a time, so that
// creation is never held up by more than one.
func (r *roller) drop(ctx context.Context, event rollEvent) error {
	for {
		if more, err := r.dropOldest(ctx, event); err != nil || !more {
			return err
		}
	}
}

func (r *roller) dropOldest(ctx context.Context, event rollEvent) (more bool, err error) {
	r.ddl.Lock()
	defer r.ddl.Unlock()
	if err := r.refresh(ctx); err != nil {
		return false, err
	}
	s, err := r.policy(r.w.opt.KeepPeriods).Steps(r.parts, r.w.position(r.oldest()))
	if err != nil || len(s.Drop) == 0 {
		return false, err
	}
	p := s.Drop[0]
	began := time.Now()
	r.dropping.Store(max(r.dropping.Load(), p.To))
	if err := r.apply(ctx, engine.DropPartition{Table: &r.t.Table, Have: r.parts, Drop: p}); err != nil {
		return false, fmt.Errorf("drop period %s of %s: %w", p.Name, r.t.Name, err)
	}
	r.dropped.Store(max(r.dropped.Load(), p.To))
	event("drop partition", r.t.Name+" "+p.Name, began)
	r.have(slices.DeleteFunc(slices.Clone(r.parts), func(q rolling.Partition) bool { return q.Name == p.Name }))
	return len(s.Drop) > 1, nil
}

// apply runs a step; r.ddl is held.
func (r *roller) apply(ctx context.Context, step engine.Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(rollLinger, cancel) })()
	err := r.w.db.Apply(own, step)
	r.stale = err != nil
	return err
}

// refresh reads from the server which partitions there are, after a step that
// failed: it may have been done all the same. r.ddl is held.
func (r *roller) refresh(ctx context.Context) error {
	if !r.stale {
		return nil
	}
	parts, err := r.w.db.Catalog().Partitions(ctx, &r.t.Table)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("table %s has no periods any more", r.t.Name)
	}
	r.dropped.Store(max(r.dropped.Load(), min(r.dropping.Load(), parts[0].From)))
	r.have(parts)
	return nil
}

// oldest returns the first row that is needed: the oldest that a client has on
// its way, or the newest of all.
func (r *roller) oldest() int64 {
	// Read before the clients are: rows taken from now on are not older.
	first := max(r.t.next.Load()-1, 0)
	r.w.mu.Lock()
	for _, c := range r.w.clients {
		if c.table == r.t {
			first = min(first, c.pending.Load())
		}
	}
	r.w.mu.Unlock()
	if r.t.ServerKey != "" {
		// Rows in doubt may never have got a key, so that others get theirs.
		first = max(first-r.t.doubtRows(), 0)
	}
	return first
}

func names(parts []rolling.Partition) string {
	if len(parts) == 1 {
		return parts[0].Name
	}
	return parts[0].Name + ".." + parts[len(parts)-1].Name
}
