package declared

import (
	"context"
	"errors"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
)

// Servers are databases that the tables of several files share, so that each target is opened once.
// The zero value is ready.
type Servers struct {
	// Bound limits the connections to each database, however many tables it has: see engine.Bounded.
	Bound bool

	mu  sync.Mutex
	all map[string]*server
}

type server struct {
	turn chan struct{} // holds an element while db is being opened
	db   *target.DB    // nil until it is open
}

// open opens a target, or returns the open one.
func (s *Servers) open(ctx context.Context, f *File, url string) (*target.DB, error) {
	s.mu.Lock()
	if s.all == nil {
		s.all = map[string]*server{}
	}
	of := s.all[url]
	if of == nil {
		of = &server{turn: make(chan struct{}, 1)}
		s.all[url] = of
	}
	s.mu.Unlock()
	select {
	case of.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-of.turn }()
	if of.db != nil {
		return of.db, nil
	}
	db, err := f.openAlone(ctx, url)
	if err != nil {
		return nil, err
	}
	if b, ok := db.DB.(engine.Bounded); ok && s.Bound {
		b.Bound()
	}
	of.db = db
	return db, nil
}

// Close closes the databases. No table of theirs may be used any more.
func (s *Servers) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, of := range s.all {
		if of.db != nil {
			errs = append(errs, of.db.Close())
		}
	}
	s.all = nil
	return errors.Join(errs...)
}
