package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/result"
)

type run struct {
	cfg   Config
	loads []*load // the main one first
	start time.Time

	// stop is closed, once, when no further operation may begin; closing it also ends all waits.
	// failed is closed, once, when the run fails.
	stop     chan struct{}
	waiting  context.Context
	endWait  context.CancelFunc
	failed   chan struct{}
	stopping atomic.Bool

	mu        sync.Mutex
	stopped   string        // why
	stoppedAt time.Duration // since the start
	failures  []error
	ofClients int  // number of failures that came from clients
	died      bool // the server has died; its death is the first failure
	events    []result.Event
}

func newRun(ctx context.Context, w Workload, cfg Config) *run {
	r := &run{cfg: cfg, stop: make(chan struct{}), failed: make(chan struct{})}
	r.waiting, r.endWait = context.WithCancel(context.WithoutCancel(ctx))
	main := newLoad(Load{Operation: cfg.Operation, Clients: cfg.Clients, Batch: cfg.Batch, Rows: cfg.Rows, Rate: cfg.Rate, Client: w.Client})
	main.marks = newMarks(cfg.Rows)
	r.loads = []*load{main}
	for _, beside := range cfg.Beside {
		r.loads = append(r.loads, newLoad(beside))
	}
	return r
}

func (r *run) open(ctx context.Context) error {
	for _, l := range r.loads {
		if err := l.open(ctx); err != nil {
			for _, opened := range r.loads {
				err = errors.Join(err, opened.close(nil))
			}
			return err
		}
	}
	return nil
}

// execute runs the clients, the background work and the ticker until they end.
func (r *run) execute(ctx context.Context, w Workload) Outcome {
	// When ctx ends, operations in progress may complete: they are cancelled after the grace time.
	opCtx, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	background, endBackground := context.WithCancel(opCtx)
	defer endBackground()

	r.start = time.Now()
	var helpers sync.WaitGroup
	helpers.Go(func() {
		if err := w.Background(background, r.event); err != nil && background.Err() == nil {
			r.fail(err)
		}
	})
	brokenOff := make([][]bool, len(r.loads))
	clients := make([]sync.WaitGroup, len(r.loads))
	for i, l := range r.loads {
		brokenOff[i] = make([]bool, len(l.clients))
		for n, c := range l.clients {
			clients[i].Go(func() { brokenOff[i][n] = r.client(opCtx, l, c, l.figures.recorders[n]) })
		}
	}
	done := make(chan struct{})
	helpers.Go(func() { r.watch(ctx, done, breakOff) })
	t := ticker{r: r}
	helpers.Go(func() { t.tick(context.WithoutCancel(ctx), done) })

	clients[0].Wait()
	r.end(StoppedRows)
	for i := range clients {
		clients[i].Wait()
	}
	elapsed := time.Since(r.start)
	close(done)
	// The last interval is closed once no goroutine can add to it.
	endBackground()
	helpers.Wait()
	t.close(context.WithoutCancel(ctx), elapsed)
	for i, l := range r.loads {
		if err := l.close(brokenOff[i]); err != nil {
			r.fail(err)
		}
	}
	o := r.outcome(ctx)
	o.Elapsed, o.Backlog = t.last, r.loads[0].backlog
	for _, b := range slices.Concat(brokenOff...) {
		if b {
			o.BrokenOff++
		}
	}
	return o
}

func (r *run) outcome(ctx context.Context) Outcome {
	select {
	case <-r.cfg.Died:
		r.die() // clients may have seen its death first
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil { // what an interrupt breaks off is no failure
		r.failures = slices.DeleteFunc(r.failures, func(err error) bool { return errors.Is(err, context.Canceled) })
		if r.stopped == StoppedFailed && len(r.failures) == 0 {
			r.stopped = StoppedInterrupted
		}
	}
	o := Outcome{Stopped: r.stopped, Rows: r.loads[0].rows.Load()}
	if len(r.failures) > 0 {
		o.Stopped, o.Err = StoppedFailed, errors.Join(r.failures...)
	}
	if len(r.failures) == 1 {
		o.Err = r.failures[0] // not wrapped
	}
	return o
}

// end keeps further operations from beginning, and records why. If end is called again, the first
// reason is kept; a failure replaces it.
func (r *run) end(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(why)
}

func (r *run) endLocked(why string) {
	if r.stopped != "" {
		return
	}
	r.stopped, r.stoppedAt = why, time.Since(r.start)
	r.stopping.Store(true)
	close(r.stop)
	r.endWait()
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err, len(r.failures))
}

// failLocked inserts a failure at an index, unless the same failure is already in the list.
func (r *run) failLocked(err error, at int) {
	if len(r.failures) == 0 {
		close(r.failed)
	}
	if !r.known(err) {
		r.failures = slices.Insert(r.failures, at, err)
	}
	r.endLocked(StoppedFailed)
}

func (r *run) known(err error) bool {
	return slices.ContainsFunc(r.failures, func(f error) bool { return f.Error() == err.Error() })
}

// maxClientFailures is the number of different client failures that are kept: hundreds of
// clients can fail for one cause, each with a message about another row.
const maxClientFailures = 3

// clientFailed ends the run because a client's operation failed.
func (r *run) clientFailed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known(err) || r.ofClients == maxClientFailures {
		return
	}
	r.ofClients++
	r.failLocked(err, len(r.failures))
}

// die ends the run because the server is gone. The server's death comes first in the list of
// failures, before the failures that it caused.
func (r *run) die() {
	err := errors.New("the server is gone")
	if r.cfg.Death != nil {
		if why := r.cfg.Death(); why != nil {
			err = why
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.died {
		r.died = true
		r.failLocked(err, 0)
	}
}

// failureGrace is how long operations may take once the run has failed. An operation that takes
// longer probably hangs because of the failure, and would delay the message about the failure.
const failureGrace = 2 * time.Second

// watch ends the run when its time is over, ctx has ended, or the server has died. It cancels the
// operations still in progress after the grace time, or at once if the server is gone.
func (r *run) watch(ctx context.Context, done <-chan struct{}, breakOff func()) {
	var timeUp <-chan time.Time
	if r.cfg.MaxTime > 0 {
		t := time.NewTimer(r.cfg.MaxTime - time.Since(r.start))
		defer t.Stop()
		timeUp = t.C
	}
	select {
	case <-done:
		return
	case <-r.stop:
	case <-timeUp:
		r.end(StoppedTime)
	case <-ctx.Done():
		r.end(StoppedInterrupted)
	case <-r.cfg.Died:
		r.die()
		breakOff()
		return
	}
	failed, over := r.failed, time.After(r.cfg.Grace)
	var soon <-chan time.Time
	for {
		select {
		case <-done:
			return
		case <-failed:
			failed, soon = nil, time.After(failureGrace)
			continue
		case <-r.cfg.Died:
			r.die()
		case <-soon:
		case <-over:
		}
		breakOff()
		return
	}
}

func (r *run) event(what, object string, began time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, result.Event{
		Elapsed: now.Sub(r.start).Seconds(), Seconds: now.Sub(began).Seconds(), What: what, Object: object})
}
