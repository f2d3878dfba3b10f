package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// A Load is one kind of operation with the clients that execute it.
type Load struct {
	Operation string  // its name in records, unique within the run
	Clients   int     // concurrent ones, at least 1
	Batch     int     // rows of one operation, at least 1
	Rows      int64   // end the load, but not the run; 0 is no limit
	Rate      float64 // of an open loop, in rows per second of all clients together; 0 is a closed loop
	// Client returns a new client, the n-th of the load.
	Client func(ctx context.Context, n int) (Client, error)
}

// A Waiter is a Client whose operations must wait for a condition: a delete waits for rows that may
// be deleted, an insert for deletes that have fallen behind.
type Waiter interface {
	Client
	// Await returns once the prepared operation may begin, or when ctx ends because the run ends. The
	// wait is not counted in the operation's time, except in the response time of an open loop.
	Await(ctx context.Context) error
}

// A Placed is a Client on one of several servers.
type Placed interface {
	Client
	// Server is the number of the server, from 0; see Config.Outage.
	Server() int
}

func (l *Load) validate() error {
	switch {
	case l.Clients < 1:
		return fmt.Errorf("%d clients: want at least 1", l.Clients)
	case l.Batch < 1:
		return fmt.Errorf("%d rows per operation: want at least 1", l.Batch)
	case l.Rows < 0:
		return errors.New("rows can't be negative")
	case l.Rate < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0):
		return fmt.Errorf("rate %v: want rows per second, or 0 for no limit", l.Rate)
	}
	return nil
}

// A load is a Load in a run.
type load struct {
	Load
	ops      int64 // number of operations; 0 is no limit
	schedule schedule
	clients  []Client
	figures  *collector
	marks    marks // only of the main load
	// The state at the last tick.
	opsDone, rowsDone, backlog int64

	_    [64]byte     // separates the fields below, written by each operation, from those above, only read
	next atomic.Int64 // the next operation to begin
	rows atomic.Int64 // acknowledged
	_    [64]byte
}

func newLoad(c Load) *load {
	l := &load{Load: c}
	l.ops = c.Rows / int64(c.Batch)
	if c.Rows%int64(c.Batch) > 0 {
		l.ops++
	}
	l.schedule = newSchedule(c.Rate, c.Batch, l.ops)
	l.figures = newCollector(c.Clients, l.schedule.open())
	return l
}

func (l *load) open(ctx context.Context) error {
	for n := range l.Clients {
		c, err := l.Client(ctx, n)
		if err != nil {
			return fmt.Errorf("%s client %d: %w", l.Operation, n+1, err)
		}
		l.clients = append(l.clients, c)
	}
	return nil
}

// close closes the clients. A client whose operation was cancelled has lost its
// connection, so an error of its Close is not a failure.
func (l *load) close(brokenOff []bool) error {
	var errs []error
	for n, c := range l.clients {
		if err := c.Close(); err != nil && (brokenOff == nil || !brokenOff[n]) {
			errs = append(errs, fmt.Errorf("close %s client %d: %w", l.Operation, n+1, err))
		}
	}
	return errors.Join(errs...)
}

// tick collects what the clients have counted since the last tick. backlog is the number of
// operations that should have begun until due, counted from the start of the run, and are not done.
func (l *load) tick(due time.Duration) (sum tallies, backlog int64) {
	sum = l.figures.collect()
	l.opsDone += sum.ops
	l.rowsDone += sum.rows
	return sum, max(0, l.schedule.passed(due)-l.opsDone)
}
