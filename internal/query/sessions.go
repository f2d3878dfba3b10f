package query

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// idleTime is how long a session is kept for the next query: well below the servers' own limits for
// idle connections.
const idleTime = time.Minute

// A pool keeps idle sessions for the next queries. A session in it has only read, in transactions
// that were rolled back: it has no state but its settings.
type pool struct {
	reader engine.Reader
	most   int // the maximum number of idle sessions

	mu     sync.Mutex
	idle   []*session
	closed bool
}

// A session is a session of a server that a pool can keep.
type session struct {
	*engine.Session
	state engine.State
	since time.Time
}

// get returns a session with the settings st. It takes an idle session and sets the values of st
// there, or opens a new one.
func (p *pool) get(ctx context.Context, st engine.State) (*session, error) {
	for {
		s, old := p.take(st)
		closeAll(old)
		if s == nil {
			break
		}
		if err := s.SetStates(ctx, st); err == nil {
			s.state = st
			return s, nil
		} else if cerr := s.Close(); ctx.Err() != nil {
			return nil, errors.Join(err, cerr)
		}
	}
	s, err := p.reader.ReadSession(ctx, st)
	if err != nil {
		return nil, err
	}
	return &session{Session: s, state: st}, nil
}

// take removes two kinds of idle sessions from the pool. s is a session with the same settings as
// st, whatever their values; old are the sessions that have been idle too long.
func (p *pool) take(st engine.State) (s *session, old []*session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(x *session) bool {
		switch {
		case time.Since(x.since) > idleTime:
			old = append(old, x)
			return true
		case s == nil && sameNames(x.state, st):
			s = x
			return true
		}
		return false
	})
	return s, old
}

func sameNames(a, b engine.State) bool {
	return slices.EqualFunc(a, b, func(x, y engine.Setting) bool { return x.Name == y.Name })
}

// put rolls back the session's transaction and keeps the session, even after a statement that the
// server refused. It closes a lost session, such as one whose statement was interrupted.
func (p *pool) put(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if s.Lost() || s.Rollback(ctx) != nil {
		return s.Close()
	}
	s.since = time.Now()
	p.mu.Lock()
	if !p.closed && len(p.idle) < p.most {
		p.idle = append(p.idle, s)
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	return s.Close()
}

// closeTime limits the wait for a server when a session is given back.
const closeTime = 5 * time.Second

func (p *pool) close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	return closeAll(idle)
}

func closeAll(list []*session) error {
	var errs []error
	for _, s := range list {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// getAll returns n sessions, which are opened in parallel; none after an error.
func (p *pool) getAll(ctx context.Context, st engine.State, n int) ([]*session, error) {
	list := make([]*session, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			errs[i] = engine.Guarded(func() (err error) {
				list[i], err = p.get(ctx, st)
				return err
			})
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return list, nil
	}
	for _, s := range list {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return nil, err
}
