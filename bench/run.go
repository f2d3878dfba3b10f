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

// A run is one execution of a workload.
type run struct {
	cfg   Config
	loads []*load // the main one first
	start time.Time

	// stop is closed, once, when no further operation is to begin, and waiting
	// ends with it; failed, once, when that is or becomes a failure's doing.
	stop     chan struct{}
	waiting  context.Context
	endWait  context.CancelFunc
	failed   chan struct{}
	stopping atomic.Bool

	mu        sync.Mutex
	stopped   string        // why
	stoppedAt time.Duration // since the start
	failures  []error
	ofClients int  // how many of the failures are clients'
	died      bool // the server; its death is the first of the failures
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

// open makes the clients.
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

// execute runs the clients, the background work and the ticker to their end.
func (r *run) execute(ctx context.Context, w Workload) Outcome {
	// Operations run on a context of their own: the end of ctx lets those
	// under way finish, and breaks them off only after the grace time.
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
	// The last interval is closed when nothing can add to it any more.
	endBackground()
	helpers.Wait()
	t.close(context.WithoutCancel(ctx), elapsed)
	for i, l := range r.loads {
		if err := l.close(brokenOff[i]); err != nil {
			r.fail(err)
		}
	}
	o := r.outcome()
	o.Elapsed, o.Backlog = t.last, r.loads[0].backlog
	for _, b := range slices.Concat(brokenOff...) {
		if b {
			o.BrokenOff++
		}
	}
	return o
}

// outcome says how the run ended.
func (r *run) outcome() Outcome {
	select {
	case <-r.cfg.Died:
		r.die() // what the clients saw of it may have come first
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := Outcome{Stopped: r.stopped, Rows: r.loads[0].rows.Load()}
	if len(r.failures) > 0 {
		o.Stopped, o.Err = StoppedFailed, errors.Join(r.failures...)
	}
	if len(r.failures) == 1 {
		o.Err = r.failures[0] // as it is
	}
	return o
}

// end keeps further operations from beginning. The first reason counts, unless
// the run fails before it is over.
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

// fail ends the run as failed. No failure is lost behind another.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err, len(r.failures))
}

// failLocked puts a failure at a place among the others, unless it says the
// same as one of them.
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

// maxClientFailures is how many different failures of clients are kept.
// Hundreds of clients fail of the same cause within milliseconds, each naming
// another row.
const maxClientFailures = 3

// clientFailed ends the run for what a client's operation failed of.
func (r *run) clientFailed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known(err) || r.ofClients == maxClientFailures {
		return
	}
	r.ofClients++
	r.failLocked(err, len(r.failures))
}

// die ends the run because the server is gone. That comes before what others
// saw of it.
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

// failureGrace is how long operations may take once the run has failed. Those
// on a healthy server need milliseconds; the others hang for the same reason
// and would only delay the message.
const failureGrace = 2 * time.Second

// watch ends the run from outside: its time is up, ctx ended, the server died.
// After the grace time it breaks off what is still under way; at once when
// there is no server that it could be under way on.
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

// event notes something that the background work did.
func (r *run) event(what, object string, began time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, result.Event{
		Elapsed: now.Sub(r.start).Seconds(), Seconds: now.Sub(began).Seconds(), What: what, Object: object})
}
