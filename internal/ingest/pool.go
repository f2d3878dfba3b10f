package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rowmill/rowmill/internal/state"
)

// A pool is what the loads of one command have in common: connections, memory, the
// table's periods, and descriptions that are the same for many sources.
type pool struct {
	periods *periods
	// ahead limits the bytes of batches that are cut but not yet taken by a sender.
	ahead *semaphore.Weighted
	// idle has the senders that send no batch: Options.Writers in all.
	idle    chan *sender
	writers int

	mu      sync.Mutex
	targets map[string]*target
	bad     map[string]*badFile
	// held has the locks that loads of this process hold, each with a channel that is
	// closed when it is released.
	held  map[string]chan struct{}
	loads map[*load]bool // that are sending

	tidying sync.Mutex
	tidied  bool
}

func newPool(o *Sending) *pool {
	s := &pool{
		periods: newPeriods(o, state.New(o.DB)),
		ahead:   semaphore.NewWeighted(aheadBytes),
		idle:    make(chan *sender, o.Writers),
		writers: o.Writers,
		targets: map[string]*target{}, bad: map[string]*badFile{}, held: map[string]chan struct{}{}, loads: map[*load]bool{},
	}
	for range o.Writers {
		s.idle <- &sender{}
	}
	return s
}

// take waits for an idle sender, and passes it to a load until give.
func (s *pool) take(ctx context.Context, l *load) (*sender, error) {
	select {
	case out := <-s.idle:
		out.load, out.collector = l, l.collector
		return out, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// give makes a sender idle. Its connection is closed after an error: its state is
// unknown.
func (s *pool) give(out *sender, failed error) {
	if failed != nil {
		_ = out.close() // failed is the reason
	}
	out.load, out.collector, out.parser = nil, nil, nil
	s.idle <- out
}

// close closes the connections of all senders, which remain usable.
func (s *pool) close() error {
	var errs []error
	all := make([]*sender, s.writers)
	for i := range all {
		all[i] = <-s.idle
		errs = append(errs, all[i].close())
		all[i].parsers = nil
	}
	for _, out := range all {
		s.idle <- out
	}
	return errors.Join(errs...)
}

// runs notes that a load is sending; stop ends that.
func (s *pool) runs(l *load) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads[l] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.loads, l)
	}
}

func (s *pool) running() []*load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.loads))
}

// maxTargets limits the targets that are kept for further sources.
const maxTargets = 64

// target returns the target for rows in a format with these columns. Sources that agree
// in both share it, and with it the parsers and the statements that are prepared for it.
func (s *pool) target(l *load, f *Format, names []string) (*target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprintf("%q %+v %s", names, *f, l.opt.Values.Bytes)
	if t := s.targets[key]; t != nil {
		return t, nil
	}
	own := *f
	t, err := newTarget(l.opt.DB.Capabilities(), &own, names, &l.opt.Reading)
	if err == nil {
		if len(s.targets) >= maxTargets {
			clear(s.targets)
		}
		s.targets[key] = t
	}
	return t, err
}

// targetOf returns the target of what a cutter cuts; nil if the source is empty.
func (l *load) targetOf(ctx context.Context, c *cutter) (*target, error) {
	return c.destination(ctx, l.opt.Schema, func(names []string) (*target, error) { return l.target(l, c.format, names) })
}

// badFile opens a file of bad rows, once for all loads that name it.
func (s *pool) badFile(path string, most int64) (b *badFile, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.bad[path]; b != nil {
		return b, nil
	}
	if b, err = openBad(path); err == nil {
		b.most = most
		s.bad[path] = b
	}
	return b, err
}

// lock waits until no other load of this process holds a lock of that name. The
// database's own locks exclude other processes; between loads of one process
// they would fail instead of waiting.
func (s *pool) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		other := s.held[name]
		if other == nil {
			mine := make(chan struct{})
			s.held[name] = mine
			s.mu.Unlock()
			return sync.OnceFunc(func() {
				s.mu.Lock()
				delete(s.held, name)
				s.mu.Unlock()
				close(mine)
			}), nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ledgerKept is how long the ledger keeps the batches of finished sources. No
// transaction of a broken connection is still pending on a server after a day.
const ledgerKept = 24 * time.Hour

// tidy removes outdated lines of the ledger, once for all loads.
func (l *load) tidy(ctx context.Context) error {
	s := l.pool
	s.tidying.Lock()
	defer s.tidying.Unlock()
	if s.tidied {
		return nil
	}
	err := l.retry(ctx, func() error { return l.state.Tidy(ctx, l.source.Table, time.Now().Add(-ledgerKept)) })
	s.tidied = err == nil
	return err
}
