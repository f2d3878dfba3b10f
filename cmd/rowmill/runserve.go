package main

import (
	"context"
	"sync"

	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/monitor"
	"github.com/rowmill/rowmill/internal/state"
)

// A leadership is the set of lanes in which this process is the leader.
type leadership struct {
	mu    sync.Mutex
	lanes map[maintain.Lane]bool
}

func (l *leadership) set(lane maintain.Lane, leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes == nil {
		l.lanes = map[maintain.Lane]bool{}
	}
	l.lanes[lane] = leads
}

// any reports whether the process is the leader in at least one lane.
func (l *leadership) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, leads := range l.lanes {
		if leads {
			return true
		}
	}
	return false
}

// serveStatus serves metrics, health and the page of a table until ctx ends. wait
// waits for the server to end.
func (a *app) serveStatus(ctx context.Context, addr string, k *kept, l *leadership) (wait func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	listener, err := monitor.Listen(addr)
	if err != nil {
		return nil, err
	}
	m := monitor.New(monitor.Options{Table: k.Declared.Name, Look: k.Status, Self: state.Me(), Leads: l.any, Version: versionString()})
	var all sync.WaitGroup
	var served error
	all.Go(func() { served = monitor.ServeOn(ctx, listener, m) })
	all.Go(func() { m.Run(ctx) })
	return func() error { all.Wait(); return served }, nil
}
