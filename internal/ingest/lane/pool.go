package lane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
)

// A Pool is what the loads of one command share: connections, memory, the table's periods, and one
// format.Target for all sources that have the same format and columns.
type Pool struct {
	periods *periods
	// ahead limits the bytes of batches that are cut but not yet taken by a sender.
	ahead *semaphore.Weighted
	// idle has those of the Options.Writers senders that send no batch at present.
	idle    chan *sender
	writers int

	mu      sync.Mutex
	targets map[string]*format.Target
	bad     map[string]*badFile
	// held has the locks of this process by name; the channel of a lock is closed on its release.
	held  map[string]chan struct{}
	loads map[*Load]bool // the loads that are sending

	tidying sync.Mutex
	tidied  bool
}

// NewPool returns a pool for loads with these options.
func NewPool(o *Sending) *Pool {
	s := &Pool{
		periods: &periods{db: o.DB, state: state.New(o.DB), table: o.Table, late: o.Late, creates: o.Periods, any: o.AnyPeriods, dry: o.Dry},
		ahead:   semaphore.NewWeighted(aheadBytes),
		idle:    make(chan *sender, o.Writers),
		writers: o.Writers,
		targets: map[string]*format.Target{}, bad: map[string]*badFile{}, held: map[string]chan struct{}{}, loads: map[*Load]bool{},
	}
	for range o.Writers {
		s.idle <- &sender{}
	}
	return s
}

// take waits for an idle sender, and lends it to a load until give is called.
func (s *Pool) take(ctx context.Context, l *Load) (*sender, error) {
	select {
	case out := <-s.idle:
		out.Load, out.collector = l, l.Collector
		return out, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// give makes a sender idle. Its connection is closed after an error: its state is unknown.
func (s *Pool) give(out *sender, failed error) {
	if failed != nil {
		_ = out.close() // failed is the reason
	}
	out.Load, out.collector, out.parser = nil, nil, nil
	s.idle <- out
}

// Close closes the connections of all senders, which remain usable.
func (s *Pool) Close() error {
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
func (s *Pool) runs(l *Load) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads[l] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.loads, l)
	}
}

// Running returns the loads that are sending.
func (s *Pool) Running() []*Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.loads))
}

// maxTargets limits the targets that are kept for further sources.
const maxTargets = 64

// target returns the target for rows in a format with these columns. Sources with the same format
// and columns share the target, its parsers and its prepared statements.
func (s *Pool) target(l *Load, f *format.Format, names []string) (*format.Target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprintf("%q %+v %s", names, *f, l.Opt.Values.Bytes)
	if t := s.targets[key]; t != nil {
		return t, nil
	}
	own := *f
	t, err := format.NewTarget(l.Opt.DB.Capabilities(), &own, names, &l.Opt.Reading)
	if err == nil {
		if len(s.targets) >= maxTargets {
			clear(s.targets)
		}
		s.targets[key] = t
	}
	return t, err
}

// TargetOf returns the target of the source that a cutter cuts; nil if the source is empty.
func (l *Load) TargetOf(ctx context.Context, c *format.Cutter) (*format.Target, error) {
	return c.Destination(ctx, l.Opt.Schema, func(names []string) (*format.Target, error) { return l.target(l, c.Format, names) })
}

// badFile opens a file of bad rows, once for all loads that name it.
func (s *Pool) badFile(path string, most int64) (b *badFile, err error) {
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

// Lock waits until no other load of this process holds a lock of that name. The database's own
// locks would not wait for another load of this process; they'd fail.
func (s *Pool) Lock(ctx context.Context, name string) (unlock func(), err error) {
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

// ledgerKept is how long the ledger keeps the batches of finished sources. After a day, no server
// has a pending transaction of a broken connection any more.
const ledgerKept = 24 * time.Hour

// Tidy removes outdated lines of the ledger, once for all loads.
func (l *Load) Tidy(ctx context.Context) error {
	s := l.Pool
	s.tidying.Lock()
	defer s.tidying.Unlock()
	if s.tidied {
		return nil
	}
	err := l.Retry(ctx, func() error { return l.State.Tidy(ctx, l.Source.Table, time.Now().Add(-ledgerKept)) })
	s.tidied = err == nil
	return err
}
