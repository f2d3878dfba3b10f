package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowmill/rowmill/result"
)

// A ticker closes the intervals of a run. Only one goroutine at a time uses it.
type ticker struct {
	r    *run
	last time.Duration // end of the previous interval
	told bool          // an interval has been observed
}

// tick closes an interval at each tick until done. The method close closes the last interval.
func (t *ticker) tick(ctx context.Context, done <-chan struct{}) {
	clock := time.NewTicker(t.r.cfg.Interval)
	defer clock.Stop()
	for {
		select {
		case <-done:
			return
		case <-clock.C:
		}
		if end := t.r.cfg.MaxTime; end > 0 && (end-time.Since(t.r.start)).Abs() < time.Duration(sliver*float64(t.r.cfg.Interval)) {
			continue // the time left until MaxTime is too short for an interval
		}
		select {
		case <-done: // check again: a slow sample can delay the tick past the end
			return
		default:
		}
		t.interval(ctx, time.Since(t.r.start), false)
	}
}

// close closes the last interval, after all other goroutines have ended.
func (t *ticker) close(ctx context.Context, elapsed time.Duration) {
	t.interval(ctx, max(t.last, elapsed), true)
}

// sliver is a share of Config.Interval. If less than this share would be left between the end of
// the current interval and MaxTime, the interval is extended to MaxTime. The last interval is left
// out if it is shorter than this share and empty; a longer empty interval is a stall.
const sliver = 0.5

// interval closes the interval that ends now. A figure that can't be recorded
// ends the run, but the other figures are still recorded.
func (t *ticker) interval(ctx context.Context, now time.Duration, final bool) {
	r := t.r
	r.mu.Lock()
	events := r.events
	r.events = nil
	due := now
	if r.stopped != "" {
		due = min(due, r.stoppedAt) // operations due later were never to be executed
	}
	r.mu.Unlock()

	main := r.loads[0]
	sum, backlog := main.tick(due)
	iv := result.Interval{
		Elapsed: seconds(now), Seconds: seconds(now - t.last),
		Rows: main.rowsDone, NewRows: sum.rows, Marks: main.marks.take(now), Events: events,
		Backlog: backlog, Late: sum.late, Errors: sum.errors, Retries: sum.retries,
		BusySeconds: seconds(sum.busy), WaitSeconds: seconds(sum.wait),
	}
	nothing := !sum.any() && len(iv.Events)+len(iv.Marks) == 0 && backlog == main.backlog &&
		now-t.last < time.Duration(sliver*float64(r.cfg.Interval))
	main.backlog = backlog
	for _, l := range r.loads[1:] {
		sum, backlog := l.tick(due)
		nothing = nothing && !sum.any() && backlog == l.backlog
		l.backlog = backlog
		if iv.Beside == nil {
			iv.Beside = map[string]result.Tally{}
		}
		iv.Beside[l.Operation] = result.Tally{Rows: sum.rows, Backlog: backlog, Late: sum.late, Errors: sum.errors, Retries: sum.retries}
	}
	t.last = now
	if final && nothing && t.told {
		return
	}
	t.told = true

	iv.Counters = r.sample(ctx, now)
	if err := r.encode(&iv); err != nil {
		r.fail(err)
	}
	for _, l := range r.loads {
		if n := l.figures.overflow; n > 0 {
			r.fail(fmt.Errorf("%d latencies exceed the range of a histogram, which is a day", n))
		}
	}
	if r.cfg.Observe != nil {
		if err := r.cfg.Observe(iv); err != nil {
			r.fail(fmt.Errorf("record an interval: %w", err))
		}
	}
}

// Limits of a sample: a stuck server must not cost intervals or delay the end of the run.
const (
	shortestSample = 100 * time.Millisecond
	longestSample  = 2 * time.Second
)

func (r *run) sample(ctx context.Context, elapsed time.Duration) map[string]float64 {
	if r.cfg.Sample == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(max(r.cfg.Interval, shortestSample), longestSample))
	defer cancel()
	return r.cfg.Sample(ctx, elapsed)
}

func (r *run) encode(iv *result.Interval) error {
	put := func(m *map[string]result.Histogram, operation string, h *hdrhistogram.Histogram) error {
		if h == nil { // in a closed loop
			return nil
		}
		e, err := result.EncodeHistogram(h)
		if *m == nil {
			*m = map[string]result.Histogram{}
		}
		(*m)[operation] = e
		return err
	}
	var errs []error
	for _, l := range r.loads {
		errs = append(errs, put(&iv.Latency, l.Operation, l.figures.service), put(&iv.Response, l.Operation, l.figures.response))
	}
	return errors.Join(errs...)
}

// seconds rounds a duration to the resolution of records, microseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }
