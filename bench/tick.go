package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowmill/rowmill/result"
)

// A ticker closes the intervals of a run, one goroutine at a time.
type ticker struct {
	r       *run
	last    time.Duration // the end of the interval before
	ops     int64         // acknowledged so far
	rows    int64
	backlog int64
	told    bool // an interval has been observed
}

// tick closes an interval at each tick until done. It leaves the last one to
// close.
func (t *ticker) tick(ctx context.Context, done <-chan struct{}) {
	clock := time.NewTicker(t.r.cfg.Interval)
	defer clock.Stop()
	for {
		select {
		case <-done:
			return
		case <-clock.C:
		}
		select {
		case <-done: // as well: a slow sample held up the tick beyond the end
			return
		default:
		}
		t.interval(ctx, time.Since(t.r.start), false)
	}
}

// close closes the last interval, once nobody adds anything any more.
func (t *ticker) close(ctx context.Context, elapsed time.Duration) {
	t.interval(ctx, max(t.last, elapsed), true)
}

// A last interval of less than this part of a whole one, in which nothing
// happened, is the moment it takes to stop. A longer one is a stall.
const sliver = 0.5

// interval closes the interval that ends now. What can't be recorded ends the
// run, but costs no figures that can.
func (t *ticker) interval(ctx context.Context, now time.Duration, final bool) {
	r := t.r
	sum := r.figures.collect()
	t.ops += sum.ops
	t.rows += sum.rows
	iv := result.Interval{
		Elapsed: seconds(now), Seconds: seconds(now - t.last),
		Rows: t.rows, NewRows: sum.rows, Marks: r.marks.take(now),
		Late: sum.late, Errors: sum.errors, Retries: sum.retries,
		BusySeconds: seconds(sum.busy), WaitSeconds: seconds(sum.wait),
	}
	r.mu.Lock()
	iv.Events, r.events = r.events, nil
	due := now
	if r.stopped != "" {
		due = min(due, r.stoppedAt) // what is due later was never to be done
	}
	r.mu.Unlock()
	iv.Backlog = max(0, r.schedule.passed(due)-t.ops)
	nothing := !sum.any() && len(iv.Events)+len(iv.Marks) == 0 && iv.Backlog == t.backlog &&
		now-t.last < time.Duration(sliver*float64(r.cfg.Interval))
	t.last, t.backlog = now, iv.Backlog
	if final && nothing && t.told {
		return
	}
	t.told = true

	iv.Counters = r.sample(ctx, now)
	if err := r.encode(&iv); err != nil {
		r.fail(err)
	}
	if n := r.figures.overflow; n > 0 {
		r.fail(fmt.Errorf("%d latencies are longer than a histogram holds, which is a day", n))
	}
	if r.cfg.Observe != nil {
		if err := r.cfg.Observe(iv); err != nil {
			r.fail(fmt.Errorf("record an interval: %w", err))
		}
	}
}

// Limits of a sample: a server that is stuck must neither cost intervals nor
// keep the run from ending.
const (
	shortestSample = 100 * time.Millisecond
	longestSample  = 2 * time.Second
)

// sample asks for the counters of the interval that ended at elapsed.
func (r *run) sample(ctx context.Context, elapsed time.Duration) map[string]float64 {
	if r.cfg.Sample == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(max(r.cfg.Interval, shortestSample), longestSample))
	defer cancel()
	return r.cfg.Sample(ctx, elapsed)
}

// encode puts the distributions that were collected into an interval.
func (r *run) encode(iv *result.Interval) error {
	of := func(h *hdrhistogram.Histogram) (map[string]result.Histogram, error) {
		e, err := result.EncodeHistogram(h)
		return map[string]result.Histogram{r.cfg.Operation: e}, err
	}
	var err error
	if iv.Latency, err = of(r.figures.service); err != nil || r.figures.response == nil {
		return err
	}
	iv.Response, err = of(r.figures.response)
	return err
}

// seconds cuts a duration to what a record needs: microseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }
