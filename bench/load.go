package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// A Load is one kind of operation with the clients that do it. A run has its
// main one, which its Config describes, and any number beside it.
type Load struct {
	// Operation is its name in records, such as "query": another one for each
	// load of a run.
	Operation string
	// Clients is how many run at once, at least 1.
	Clients int
	// Batch is the number of rows of one operation, at least 1.
	Batch int
	// Rows ends the load, not the run, once so many are done; 0 is no limit.
	Rows int64
	// Rate asks for an open loop of so many rows per second, all clients
	// together; 0 is a closed loop.
	Rate float64
	// Client returns a new client, the n-th of the load.
	Client func(ctx context.Context, n int) (Client, error)
}

// A Waiter is a Client whose operations can't begin at any time: a delete waits
// for rows that may go, an insert for deletes that have fallen behind.
type Waiter interface {
	Client
	// Await returns once the operation that Prepare made ready may begin, or
	// when ctx ends, which it does as the run stops. In a closed loop nobody is
	// charged for the time; in an open loop it is part of the response.
	Await(ctx context.Context) error
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
		return fmt.Errorf("rate %v: want rows per second, or 0 for as fast as it goes", l.Rate)
	}
	return nil
}

// A load is a Load in a run.
type load struct {
	Load
	ops      int64 // how many operations there are; 0 is no limit
	schedule schedule
	clients  []Client
	figures  *collector
	marks    marks // only of the main load
	// What the ticker has seen so far.
	opsDone, rowsDone, backlog int64

	_    [64]byte     // what follows is written at each operation, the rest is read
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

// open makes the clients.
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

// close closes the clients. One that was broken off has lost its connection
// by that: what its Close says of it is no failure.
func (l *load) close(brokenOff []bool) error {
	var errs []error
	for n, c := range l.clients {
		if err := c.Close(); err != nil && (brokenOff == nil || !brokenOff[n]) {
			errs = append(errs, fmt.Errorf("close %s client %d: %w", l.Operation, n+1, err))
		}
	}
	return errors.Join(errs...)
}

// tick takes what the clients added up since the last tick, and the backlog of
// operations that were due until a moment.
func (l *load) tick(due time.Duration) (sum tallies, backlog int64) {
	sum = l.figures.collect()
	l.opsDone += sum.ops
	l.rowsDone += sum.rows
	return sum, max(0, l.schedule.passed(due)-l.opsDone)
}
