package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

const (
	// rollEvery is how often the roller checks the progress of the inserts. Clients that wait
	// for a period wake it at once.
	rollEvery = 20 * time.Millisecond
	// rollPatience is the default time for retrying a step that failed because of a lock or the
	// connection: twice as long as clients retry a batch.
	rollPatience = 30 * time.Second
	rollPause    = 200 * time.Millisecond // between two retries
	// rollLinger is how long a step in progress may take after the run has ended. If it were
	// cancelled, the server could still complete it later, while another process reads the table.
	rollLinger = 5 * time.Second
)

// A roller creates a table's periods ahead of the inserts and drops the oldest ones.
type roller struct {
	w *Insert
	t *table

	ddl   sync.Mutex          // one step at a time
	parts []rolling.Partition // under ddl
	stale bool                // under ddl: a step failed, so parts may be wrong

	ready atomic.Int64 // positions below it have a partition
	grown gate         // of clients that wait for ready

	// Periods below dropping have been dropped, or their drop was tried; those below dropped are gone.
	dropping, dropped atomic.Int64
}

// policy returns how many periods to create ahead and how many to keep; keep 0 is all. To create
// periods, the roller passes 0: a batch may be larger than all retained periods, and needs a period
// for each of its rows.
func (r *roller) policy(keep int) rolling.Policy {
	return rolling.Policy{Grid: r.t.Grid, Ahead: periodsAhead, Keep: keep}
}

func (r *roller) reset(parts []rolling.Partition) {
	r.ddl.Lock()
	defer r.ddl.Unlock()
	r.dropping.Store(0)
	r.dropped.Store(0)
	r.have(slices.Clone(parts))
}

// have records the existing partitions; r.ddl is held.
func (r *roller) have(parts []rolling.Partition) {
	r.parts, r.stale = parts, false
	r.ready.Store(parts[len(parts)-1].To)
	r.grown.signal()
}

func (r *roller) await(ctx context.Context, pos int64) error {
	return r.grown.await(ctx, func() bool {
		if pos < r.ready.Load() {
			return true
		}
		select {
		case r.w.wanted <- struct{}{}:
		default: // a request is already pending
		}
		return false
	})
}

func (r *roller) newest() int64 { return r.w.position(max(r.t.next.Load()-1, 0)) }

// A rollEvent reports an action, like the event of bench.Workload.
type rollEvent func(what, object string, began time.Time)

// Background implements bench.Workload: it rolls all tables. The drop of one table's period may
// take seconds; the creation of other tables' periods doesn't wait for it.
func (w *Insert) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	if !w.tables[0].Rolling() {
		return nil
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return w.roller(ctx, (*roller).create, w.wanted, event) })
	if w.opt.KeepPeriods > 0 {
		both.Go(func() error { return w.roller(ctx, (*roller).drop, nil, event) })
	}
	return both.Wait()
}

// roller executes a task for all tables repeatedly, until ctx ends or the task fails permanently.
func (w *Insert) roller(ctx context.Context, task func(*roller, context.Context, rollEvent) error, wanted <-chan struct{}, event rollEvent) error {
	tick := time.NewTicker(rollEvery)
	defer tick.Stop()
	failing := map[*table]trouble{}
	for _, t := range w.tables {
		if t.resumed { // a step of the previous process may still be in progress
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
			if waited, _ := bench.AwaitServer(ctx, w.outage); waited {
				delete(failing, t) // patience applies while the server is up
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
		if len(failing) > 0 && engine.Sleep(ctx, rollPause) != nil {
			return nil
		}
	}
}

// A trouble is the state of a failing task: since when it fails, and whether its last failure was
// temporary. After a temporary failure, the task is also tried again after the next failure, of
// whatever kind, which may be a consequence of the first: for example, the server had executed the
// step before the connection was lost.
type trouble struct {
	since   time.Time
	passing bool
}

func (r *roller) create(ctx context.Context, event rollEvent) error {
	r.ddl.Lock()
	defer r.ddl.Unlock()
	if err := r.refresh(ctx); err != nil {
		return err
	}
	s, err := r.policy(0).Steps(r.parts, r.newest())
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

// drop drops the periods beyond retention, one at a time, so that creation waits for at most
// one drop.
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

// apply executes a step; r.ddl is held.
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

// refresh reads the existing partitions from the server after a failed step, which may have been
// executed nevertheless. The caller holds r.ddl.
func (r *roller) refresh(ctx context.Context) error {
	if !r.stale {
		return nil
	}
	parts, err := r.w.db.Catalog().Partitions(ctx, &r.t.Table)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("table %s no longer has periods", r.t.Name)
	}
	r.dropped.Store(max(r.dropped.Load(), min(r.dropping.Load(), parts[0].From)))
	r.have(parts)
	return nil
}

// oldest returns the first row that is still needed: the oldest row that a client is
// inserting, or else the newest row.
func (r *roller) oldest() int64 {
	// Read newest first: rows that clients take after this are newer.
	newest := max(r.t.next.Load()-1, 0)
	return min(newest, r.t.acknowledgedBelow())
}

func names(parts []rolling.Partition) string {
	if len(parts) == 1 {
		return parts[0].Name
	}
	return parts[0].Name + ".." + parts[len(parts)-1].Name
}
