// Package bench runs a workload with a number of clients and measures it.
//
// A Workload hands out Clients; each of them does operations one after the
// other. Beside this main load others may run, of other operations, each with
// clients and a pace of its own. In a closed loop a client begins the next operation when the last one
// is done. In an open loop operations have a schedule, so many a second, which
// doesn't wait for anybody: an operation that finds all clients busy is begun
// late, and its response time counts from when it was due, so that overload is
// seen as what it is. Timers begin an operation up to a millisecond late; in a
// response time, that is the client's share.
//
// Out come a result.Interval at each tick and, at the end, an Outcome. Only
// acknowledged operations count. What a run can't go on without (its server,
// its disk) ends it with what was measured so far.
package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/result"
)

// A Workload is what a benchmark does.
type Workload interface {
	// Client returns a new client, the n-th of the run.
	Client(ctx context.Context, n int) (Client, error)
	// Background does what goes on beside the clients, such as creating
	// partitions ahead, until ctx ends. It reports what it did by event.
	// Its error ends the run. Background is to return soon after ctx ended:
	// the run waits for it, so that no event is lost.
	Background(ctx context.Context, event func(what, object string, began time.Time)) error
}

// A Client does operations. It is used by one goroutine.
type Client interface {
	// Prepare makes the next operation ready, of the given number of rows. It
	// is the client's own work and not part of the operation's time.
	Prepare(rows int)
	// Do performs what Prepare made ready and returns once the database has
	// acknowledged it. It is to return soon after ctx ended.
	Do(ctx context.Context) error
	// Recover makes the client ready to Do the same operation again after an
	// error that engine.Retryable reports. It is called again for the same
	// error while what it returns is Retryable or ErrUnreachable.
	Recover(ctx context.Context, failed error) error
	// Close ends the client. An operation that was made ready and not
	// acknowledged is then known to be in doubt.
	Close() error
}

// Config says how to run a workload.
type Config struct {
	// Operation is the name of the operation in records, such as "insert".
	Operation string
	// Clients is how many run at once, at least 1.
	Clients int
	// Batch is the number of rows of one operation, at least 1.
	Batch int
	// Rows ends the run once so many are done; 0 is no limit.
	Rows int64
	// MaxTime ends the run; 0 is no limit.
	MaxTime time.Duration
	// Rate asks for an open loop of so many rows per second; 0 is a closed
	// loop.
	Rate float64
	// Beside are loads that run beside the main one, which is described above,
	// and end with it.
	Beside []Load
	// Interval is how often figures are taken; 0 is a second.
	Interval time.Duration
	// Grace is how long operations under way may take once the run is to
	// end, before they are broken off; 0 is 10 seconds. It is 2 seconds at
	// most once the run has failed, and none once the server died.
	Grace time.Duration
	// RetryFor is how long an operation that failed is tried again, while it
	// may be; 0 is 15 seconds. A run of a day lasts longer than a server's
	// restart does.
	RetryFor time.Duration
	// Sample, if set, returns the figures of the interval that ends now. ctx
	// ends after an interval's time (at least 0.1, at most 2 seconds): a stuck
	// server is not to hold up the run. Sample and Observe are never called
	// at the same time.
	Sample func(ctx context.Context, elapsed time.Duration) map[string]float64
	// Observe gets each interval as it ends. Its error ends the run. The last
	// interval is observed however the run ended.
	Observe func(result.Interval) error
	// Died, if set, is closed when the server is gone; Death, if set, then
	// says why.
	Died  <-chan struct{}
	Death func() error
	// Outage, if set, returns nil while the server is up, and while it is known
	// to be down and on its way back what is closed when it takes connections
	// again. Operations that fail meanwhile wait for that before they are
	// retried, however long it takes.
	Outage func() (back <-chan struct{})
}

// Defaults of a Config.
const (
	defaultInterval = time.Second
	defaultGrace    = 10 * time.Second
)

// minInterval keeps sampling from becoming the load.
const minInterval = 10 * time.Millisecond

// Validate says what of a Config makes no sense.
func (c *Config) Validate() error {
	main := Load{Clients: c.Clients, Batch: c.Batch, Rows: c.Rows, Rate: c.Rate}
	if err := main.validate(); err != nil {
		return err
	}
	names := map[string]bool{c.Operation: true}
	for i := range c.Beside {
		l := &c.Beside[i]
		if l.Operation == "" || names[l.Operation] {
			return fmt.Errorf("load %q: each load of a run needs a name of its own", l.Operation)
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

// Reasons why a run stopped, as records have them.
const (
	StoppedRows        = "rows"
	StoppedTime        = "max-time"
	StoppedInterrupted = "interrupted"
	StoppedFailed      = "failed"
)

// Outcome is how a run ended.
type Outcome struct {
	// Stopped is one of the Stopped reasons.
	Stopped string
	// Err is what a failed run failed of: errors.Join of all failures that
	// differ, the server's death first.
	Err error
	// Rows were acknowledged, in Elapsed, of the main load.
	Rows    int64
	Elapsed time.Duration
	// Backlog is how many operations of an open loop were due when the run
	// stopped and are not acknowledged.
	Backlog int64
	// BrokenOff is how many operations were under way when the grace time was
	// up. Whether the database has performed them is not known.
	BrokenOff int64
}

// Run runs the workload until its rows or its time are up, ctx ends or
// something fails. Its error is only about what kept the run from beginning;
// how it ended is in the Outcome.
func Run(ctx context.Context, w Workload, cfg Config) (Outcome, error) {
	if err := cfg.Validate(); err != nil {
		return Outcome{}, err
	}
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.RetryFor == 0 {
		cfg.RetryFor = defaultRetryFor
	}
	r := newRun(ctx, w, cfg)
	defer r.endWait()
	if err := r.open(ctx); err != nil {
		return Outcome{}, err
	}
	return r.execute(ctx, w), nil
}
