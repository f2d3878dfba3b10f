// Package bench runs a workload with a number of clients and measures it.
//
// The main load is the Clients of a Workload: each executes one operation after the other. Further
// loads may run beside it, each with its own operation, clients and rate. In a closed loop a client
// begins its next operation when the last one is done. In an open loop operations are due on a
// schedule: an operation that is due while all clients are busy begins late. Its response time
// counts from when it was due, so that overload is visible. The response time includes the delay of
// timers, up to a millisecond.
//
// The result is a result.Interval at each tick and, at the end, an Outcome. Only acknowledged
// operations count. A run that can't continue ends and keeps the measurements taken so far.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/result"
)

// A Workload defines the operations of a benchmark.
type Workload interface {
	// Client returns a new client, the n-th of the run.
	Client(ctx context.Context, n int) (Client, error)
	// Background runs the work beside the clients, such as creating partitions, and calls event for
	// each action that it has done. Its error ends the run. It must return soon after ctx has ended.
	Background(ctx context.Context, event func(what, object string, began time.Time)) error
}

// A Client does operations. Only one goroutine uses it.
type Client interface {
	// Prepare prepares the next operation, of the given number of rows. The time of Prepare is not
	// part of the operation's time.
	Prepare(rows int)
	// Do executes the prepared operation and returns once the database has acknowledged it. Do must
	// return soon after ctx has ended.
	Do(ctx context.Context) error
	// Recover prepares the client to Do the same operation again after an error that is
	// engine.Retryable. If Recover returns an error that is Retryable or ErrUnreachable, Recover is
	// called again.
	Recover(ctx context.Context, failed error) error
	// Close ends the client. If an operation has not been acknowledged by then, it is unknown whether
	// it was executed.
	Close() error
}

// Config holds the parameters of a run.
type Config struct {
	Operation string        // the operation's name in records, such as "insert"
	Clients   int           // number of concurrent clients, at least 1
	Batch     int           // rows of one operation, at least 1
	Rows      int64         // end the run; 0 is no limit
	MaxTime   time.Duration // ends the run; 0 is no limit
	Rate      float64       // of an open loop, in rows per second; 0 is a closed loop
	// Beside are loads that run beside the main load, which the fields above describe. They end when
	// the main load ends.
	Beside []Load
	// Interval is the length of a measurement interval; 0 is a second.
	Interval time.Duration
	// Grace is how long operations in progress may go on after the run is told to end; then they are
	// cancelled. 0 means 10 seconds. If the run has failed, they may go on for at most 2 seconds, and
	// if the server has died, not at all.
	Grace time.Duration
	// RetryFor is how long a retryable operation is retried; 0 is 15 seconds. A long run should set
	// more than the time that a server's restart takes.
	RetryFor time.Duration
	// Sample, if set, returns the figures of the interval that has just ended. The ctx of Sample ends
	// after the length of an interval: after 0.1 seconds at least, and after 2 seconds at most. Sample
	// never runs together with Observe.
	Sample func(ctx context.Context, elapsed time.Duration) map[string]float64
	// Observe receives each interval when it ends, including the last interval of a failed run. An
	// error of Observe ends the run.
	Observe func(result.Interval) error
	// Opened, if set, is called when all clients are connected, before the clock starts.
	Opened func()
	// Died, if set, is closed when the server is gone; Death, if set, then returns the reason.
	Died  <-chan struct{}
	Death func() error
	// Outage, if set, returns nil while a server is up. While the server is down, Outage returns a
	// channel that is closed when the server accepts connections again: until then, failed operations
	// aren't retried. server is the client's Placed.Server; 0 for a client that isn't Placed.
	Outage func(server int) (back <-chan struct{})
}

// minInterval keeps the load of sampling small.
const minInterval = 10 * time.Millisecond

// Validate returns an error if a field of the Config is invalid.
func (c *Config) Validate() error {
	main := Load{Clients: c.Clients, Batch: c.Batch, Rows: c.Rows, Rate: c.Rate}
	if err := main.validate(); err != nil {
		return err
	}
	names := map[string]bool{c.Operation: true}
	for i := range c.Beside {
		l := &c.Beside[i]
		if l.Operation == "" || names[l.Operation] {
			return fmt.Errorf("load %q: each load of a run needs a separate name", l.Operation)
		}
		names[l.Operation] = true
		if l.Client == nil {
			return fmt.Errorf("load %s has no clients", l.Operation)
		}
		if err := l.validate(); err != nil {
			return fmt.Errorf("load %s: %w", l.Operation, err)
		}
	}
	switch {
	case c.MaxTime < 0, c.Grace < 0, c.RetryFor < 0:
		return errors.New("times and grace can't be negative")
	case c.Rows == 0 && c.MaxTime == 0:
		return errors.New("a run needs an end: rows or a time")
	case c.Interval != 0 && c.Interval < minInterval:
		return fmt.Errorf("interval %v: want at least %v", c.Interval, minInterval)
	}
	return nil
}

// Reasons why a run stopped, as stored in records.
const (
	StoppedRows        = "rows"
	StoppedTime        = "max-time"
	StoppedInterrupted = "interrupted"
	StoppedFailed      = "failed"
)

// Outcome describes how a run ended.
type Outcome struct {
	Stopped string // one of the Stopped reasons
	// Err has the different failures (of clients, the first three), the server's death first.
	Err error
	// Rows is the number of acknowledged rows of the main load, in Elapsed.
	Rows    int64
	Elapsed time.Duration
	// Backlog is the number of operations of an open loop that were due when the run
	// stopped and have not been acknowledged.
	Backlog int64
	// BrokenOff is the number of operations in progress when the grace time
	// expired. It is unknown whether the database has executed them.
	BrokenOff int64
}

// Run runs the workload until its rows or its time are reached, ctx ends or an operation
// fails. Its error means that the run could not begin.
func Run(ctx context.Context, w Workload, cfg Config) (Outcome, error) {
	if err := cfg.Validate(); err != nil {
		return Outcome{}, err
	}
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	cfg.RetryFor = cmp.Or(cfg.RetryFor, defaultRetryFor)
	r := newRun(ctx, w, cfg)
	defer r.endWait()
	if err := r.open(ctx); err != nil {
		return Outcome{}, err
	}
	if cfg.Opened != nil {
		cfg.Opened()
	}
	return r.execute(ctx, w), nil
}
