package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// client executes operations until there are no more or the run ends, and reports whether the last
// operation was cancelled. It reads the clock rarely, because that costs more than everything else
// here.
func (r *run) client(ctx context.Context, l *load, c Client, rec *recorder) (brokenOff bool) {
	batch, ops := l.Batch, l.ops
	waiter, _ := c.(Waiter)
	var due time.Duration
	var nextMark int64
	var timer *time.Timer
	if l.schedule.open() {
		timer = time.NewTimer(0)
		defer timer.Stop()
	}
	ended := time.Since(r.start)
	for !r.stopping.Load() {
		op := l.next.Add(1) - 1
		if ops > 0 && op >= ops {
			return false
		}
		rows := batch
		if ops > 0 && op == ops-1 {
			rows = int(l.Rows - op*int64(batch))
		}
		c.Prepare(rows)
		began := time.Since(r.start)
		busy := began - ended
		if timer != nil {
			due = l.schedule.due(op)
			if due > began {
				if !r.wait(timer, due-began) {
					rec.add(tallies{busy: busy})
					return false
				}
				began = time.Since(r.start)
			}
			if began-due > lateAfter {
				rec.add(tallies{late: 1})
			}
		}
		if waiter != nil {
			if err := waiter.Await(r.waiting); err != nil {
				rec.add(tallies{busy: busy})
				if r.waiting.Err() == nil {
					r.clientFailed(err)
				}
				return false
			}
			began = time.Since(r.start)
		}
		err := c.Do(ctx)
		if err != nil {
			err = r.retry(ctx, c, rec, err)
		}
		ended = time.Since(r.start)
		if err != nil {
			rec.add(tallies{busy: busy, wait: ended - began})
			if ctx.Err() != nil {
				return true
			}
			r.clientFailed(err)
			return false
		}
		rec.done(rows, busy, ended-began, ended-due)
		if total := l.rows.Add(int64(rows)); total >= nextMark {
			nextMark = l.marks.pass(total-int64(rows), total, ended)
		}
	}
	return false
}

// wait sleeps until an operation is due and reports whether to begin it.
func (r *run) wait(t *time.Timer, d time.Duration) bool {
	t.Reset(d)
	select {
	case <-t.C:
		return true
	case <-r.stop:
		return false
	}
}

// Limits of retrying an operation. The first or second retry resolves a deadlock; a server restarts
// in seconds. If RetryFor exceeds 90 times longestWait, each further longestWait allows one more
// retry.
const (
	maxRetries      = 100
	defaultRetryFor = 15 * time.Second
	firstPause      = time.Millisecond
	longestWait     = time.Second
	firstPauses     = 10 // the number of pauses shorter than longestWait
)

// retry retries a failed operation, at most as often as maxRetries and RetryFor allow. It returns
// the operation's last error, with the error of Recover if Recover failed. A cancelled try is not
// counted as an error of the database.
func (r *run) retry(ctx context.Context, c Client, rec *recorder, err error) error {
	if ctx.Err() != nil {
		return err
	}
	rec.add(tallies{errors: 1})
	var unrecovered error // why the last try couldn't begin
	began, pause := time.Now(), firstPause
	outage := r.outage(c)
	tries := max(maxRetries, firstPauses+int(r.cfg.RetryFor/longestWait))
	for try := 0; try < tries && engine.Retryable(err) && time.Since(began) < r.cfg.RetryFor; try++ {
		if engine.Sleep(ctx, pause) != nil {
			break
		}
		if waited, up := AwaitServer(ctx, outage); !up {
			break
		} else if waited {
			began, pause, try = time.Now(), firstPause, 0 // the limits apply while the server is up
		}
		pause = min(2*pause, longestWait)
		if unrecovered = c.Recover(ctx, err); unrecovered != nil {
			if engine.Retryable(unrecovered) || errors.Is(unrecovered, engine.ErrUnreachable) {
				continue // the server may be restarting
			}
			break
		}
		rec.add(tallies{retries: 1})
		if err = c.Do(ctx); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		rec.add(tallies{errors: 1})
	}
	if unrecovered != nil {
		return fmt.Errorf("%w; and then: %w", err, unrecovered)
	}
	return err
}

// outage returns Config.Outage for the server of a client.
func (r *run) outage(c Client) func() <-chan struct{} {
	if r.cfg.Outage == nil {
		return nil
	}
	server := 0
	if p, ok := c.(Placed); ok {
		server = p.Server()
	}
	return func() <-chan struct{} { return r.cfg.Outage(server) }
}

// AwaitServer waits until a server is up; outage is a Config.Outage for this server. waited reports
// whether the server was down; up is false if ctx ended first.
func AwaitServer(ctx context.Context, outage func() <-chan struct{}) (waited, up bool) {
	for outage != nil {
		back := outage()
		if back == nil {
			break
		}
		waited = true
		select {
		case <-back:
		case <-ctx.Done():
			return waited, false
		}
	}
	return waited, true
}
