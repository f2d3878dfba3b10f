package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/result"
)

// A run is one execution of a workload.
type run struct {
	cfg      Config
	ops      int64 // how many operations there are; 0 is no limit
	schedule schedule
	clients  []Client
	figures  *collector
	marks    marks
	start    time.Time

	next atomic.Int64 // the next operation to begin
	rows atomic.Int64 // acknowledged

	// stop is closed, once, when no further operation is to begin.
	stop     chan struct{}
	stopping atomic.Bool
	mu       sync.Mutex
	stopped  string // why
	err      error  // the first failure
	events   []result.Event
}

func newRun(cfg Config) *run {
	r := &run{cfg: cfg, stop: make(chan struct{})}
	if cfg.Rows > 0 {
		r.ops = (cfg.Rows + int64(cfg.Batch) - 1) / int64(cfg.Batch)
	}
	r.schedule = newSchedule(cfg.Rate, cfg.Batch, r.ops)
	r.figures = newCollector(cfg.Clients, r.schedule.open())
	r.marks = newMarks(cfg.Rows)
	return r
}

// open makes the clients.
func (r *run) open(ctx context.Context, w Workload) error {
	for n := range r.cfg.Clients {
		c, err := w.Client(ctx, n)
		if err != nil {
			return errors.Join(fmt.Errorf("client %d: %w", n+1, err), r.close())
		}
		r.clients = append(r.clients, c)
	}
	return nil
}

func (r *run) close() error {
	var err error
	for _, c := range r.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// execute runs the clients, the background work and the ticker to their end.
func (r *run) execute(ctx context.Context, w Workload) Outcome {
	// Operations run on a context of their own: the end of ctx lets those
	// under way finish, and breaks them off only after the grace time.
	opCtx, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	background, endBackground := context.WithCancel(opCtx)
	defer endBackground()

	r.start = time.Now()
	var helpers, clients sync.WaitGroup
	helpers.Go(func() {
		if err := w.Background(background, r.event); err != nil && background.Err() == nil {
			r.end(StoppedFailed, err)
		}
	})
	for n, c := range r.clients {
		clients.Go(func() { r.client(opCtx, c, r.figures.recorders[n]) })
	}
	done := make(chan struct{})
	helpers.Go(func() { r.watch(ctx, done, breakOff) })
	ticked := make(chan struct{})
	helpers.Go(func() {
		defer close(ticked)
		r.tick(context.WithoutCancel(ctx), done)
	})
	clients.Wait()
	r.end(StoppedRows, nil)
	elapsed := time.Since(r.start)
	close(done)
	<-ticked
	endBackground()
	helpers.Wait()
	if err := r.close(); err != nil {
		r.end(StoppedFailed, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return Outcome{Stopped: r.stopped, Err: r.err, Rows: r.rows.Load(), Elapsed: elapsed}
}

// end keeps further operations from beginning. The first reason counts, but a
// failure is never lost behind another.
func (r *run) end(why string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.err == nil {
		r.err, r.stopped = err, StoppedFailed
	}
	if r.stopped == "" {
		r.stopped = why
	}
	if r.stopping.CompareAndSwap(false, true) {
		close(r.stop)
	}
}

// watch ends the run from outside: its time is up, ctx ended, the server died.
// After the grace time it breaks off what is still under way.
func (r *run) watch(ctx context.Context, done <-chan struct{}, breakOff func()) {
	var timeUp <-chan time.Time
	if r.cfg.MaxTime > 0 {
		t := time.NewTimer(r.cfg.MaxTime)
		defer t.Stop()
		timeUp = t.C
	}
	grace := r.cfg.Grace
	select {
	case <-done:
		return
	case <-r.stop:
	case <-timeUp:
		r.end(StoppedTime, nil)
	case <-ctx.Done():
		r.end(StoppedInterrupted, nil)
	case <-r.cfg.Died:
		r.end(StoppedFailed, r.cfg.Death())
		grace = 0
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-done:
	case <-r.cfg.Died:
		r.end(StoppedFailed, r.cfg.Death())
		breakOff()
	case <-t.C:
		breakOff()
	}
}

// event notes something that the background work did.
func (r *run) event(what, object string, began time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, result.Event{
		Elapsed: now.Sub(r.start).Seconds(), Seconds: now.Sub(began).Seconds(), What: what, Object: object})
}

// client does operations until there are no more, or the run is to end.
func (r *run) client(ctx context.Context, c Client, rec *recorder) {
	batch := r.cfg.Batch
	last := time.Now()
	for !r.stopping.Load() {
		op := r.next.Add(1) - 1
		if r.ops > 0 && op >= r.ops {
			return
		}
		rows := batch
		if r.ops > 0 && op == r.ops-1 {
			rows = int(r.cfg.Rows - op*int64(batch))
		}
		c.Prepare(rows)
		began := time.Now()
		busy := began.Sub(last)
		var response time.Duration // until the operation began
		if r.schedule.open() {
			due := r.start.Add(r.schedule.due(op))
			if !r.wait(due.Sub(began)) {
				return
			}
			began = time.Now()
			response = began.Sub(due)
		}
		if err := r.do(ctx, c, rec); err != nil {
			if ctx.Err() == nil {
				r.end(StoppedFailed, err)
			}
			return
		}
		last = time.Now()
		service := last.Sub(began)
		rec.done(rows, busy, service, response+service, response > lateAfter)
		r.marks.pass(r.rows.Add(int64(rows)), int64(rows), last.Sub(r.start))
	}
}

// wait sleeps until an operation is due and reports whether it is to begin.
func (r *run) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.stop:
		return false
	}
}

// Limits of trying an operation again. A deadlock ends at the first or second
// try; a server that restarts takes seconds to be back.
const (
	maxRetries  = 100
	retryFor    = 15 * time.Second
	firstPause  = time.Millisecond
	longestWait = time.Second
)

// do performs an operation, trying again what may be tried again. It returns
// what failed last, and what kept it from being tried again.
func (r *run) do(ctx context.Context, c Client, rec *recorder) error {
	err := c.Do(ctx)
	if err == nil {
		return nil
	}
	rec.failed()
	began, pause := time.Now(), firstPause
	for try := 0; try < maxRetries && engine.Retryable(err) && time.Since(began) < retryFor; try++ {
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, longestWait)
		if failed := c.Recover(ctx, err); failed != nil {
			if engine.Retryable(failed) || errors.Is(failed, engine.ErrUnreachable) {
				continue // the server may be on its way back
			}
			return fmt.Errorf("%w; and then: %w", err, failed)
		}
		rec.retried()
		if err = c.Do(ctx); err == nil {
			return nil
		}
		rec.failed()
	}
	return err
}

// sleep waits and reports false when ctx ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
