package bench

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowmill/rowmill/result"
)

// hundredths is how many marks a run with a known number of rows gets.
const hundredths = 100

// marks remember when each hundredth of the rows was reached, so that rates
// over rows don't depend on where intervals happen to end.
type marks struct {
	every int64
	at    []atomic.Int64 // nanoseconds since the start; 0 is not yet
	told  int            // how many have been written to an interval
}

func newMarks(rows int64) marks {
	if rows < hundredths {
		return marks{}
	}
	return marks{every: rows / hundredths, at: make([]atomic.Int64, hundredths)}
}

// pass notes that the number of rows grew by n to total.
func (m *marks) pass(total, n int64, elapsed time.Duration) {
	if m.every == 0 {
		return
	}
	for i := (total - n) / m.every; i < total/m.every && i < hundredths; i++ {
		m.at[i].Store(int64(elapsed))
	}
}

// take returns the marks reached up to a moment and not yet taken.
func (m *marks) take(until time.Duration) [][2]float64 {
	var out [][2]float64
	for ; m.told < len(m.at); m.told++ {
		at := time.Duration(m.at[m.told].Load())
		if at == 0 || at > until {
			break
		}
		out = append(out, [2]float64{float64(int64(m.told+1) * m.every), seconds(at)})
	}
	return out
}

// seconds cuts a duration to what a record needs: microseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }

// tick closes an interval at each tick and at the end.
func (r *run) tick(ctx context.Context, done <-chan struct{}) {
	t := time.NewTicker(r.cfg.Interval)
	defer t.Stop()
	var rows int64
	last := time.Duration(0)
	for {
		ended := false
		select {
		case <-t.C:
		case <-done:
			ended = true
		}
		now := time.Since(r.start)
		iv, err := r.interval(ctx, last, now, &rows)
		if err == nil && (!ended || iv.NewRows > 0 || len(iv.Events) > 0 || last == 0) && r.cfg.Observe != nil {
			err = r.cfg.Observe(iv)
		}
		if err != nil {
			r.end(StoppedFailed, fmt.Errorf("record an interval: %w", err))
		}
		if ended {
			return
		}
		last = now
	}
}

// interval closes the interval from last to now.
func (r *run) interval(ctx context.Context, last, now time.Duration, rows *int64) (result.Interval, error) {
	sum := r.figures.collect()
	*rows += sum.rows
	iv := result.Interval{
		Elapsed: seconds(now), Seconds: seconds(now - last),
		Rows: *rows, NewRows: sum.rows, Marks: r.marks.take(now),
		Late: sum.late, Errors: sum.errors, Retries: sum.retries,
		BusySeconds: seconds(sum.busy), WaitSeconds: seconds(sum.wait),
	}
	if r.schedule.open() {
		finished := (*rows + int64(r.cfg.Batch) - 1) / int64(r.cfg.Batch)
		iv.Backlog = max(0, r.schedule.passed(now)-finished)
	}
	r.mu.Lock()
	iv.Events, r.events = r.events, nil
	r.mu.Unlock()
	if r.cfg.Sample != nil {
		iv.Counters = r.cfg.Sample(ctx, now)
	}
	var err error
	if iv.Latency, err = r.encode(r.figures.service); err != nil {
		return iv, err
	}
	if r.figures.response != nil {
		if iv.Response, err = r.encode(r.figures.response); err != nil {
			return iv, err
		}
	}
	if sum.overflow > 0 {
		return iv, fmt.Errorf("%d operations took longer than a day", sum.overflow)
	}
	return iv, nil
}

func (r *run) encode(h *hdrhistogram.Histogram) (map[string]result.Histogram, error) {
	e, err := result.EncodeHistogram(h)
	return map[string]result.Histogram{r.cfg.Operation: e}, err
}
