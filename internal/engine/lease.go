package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// A LockWords has an engine's SQL for locks that a session holds. The server releases these locks
// when the session ends.
type LockWords struct {
	// Open, unless nil, is called before the first lock of a session. It returns an error if the
	// session's locks would exclude nobody.
	Open func(ctx context.Context) error
	// Begin has statements for the session's settings. One may fail if the server lacks the setting.
	Begin []string
	// ID is a query for the session's id.
	ID string
	// Take is a query that takes the lock if it is free, and returns whether it has taken it. Release
	// is the statement that releases the lock.
	Take, Release string
	// Every is the interval between two checks of the session. Wait limits the wait for the answer to
	// a check, or to any other statement.
	Every, Wait time.Duration
}

// leaseReuse is how long a session without a lock is kept for the next lock: a load of many files
// takes many locks one after the other, and would spend most of the time connecting. leaseReuse is
// shorter than the servers' limits for idle connections.
const leaseReuse = time.Second

// Leases are the leases of a DB; closing the DB releases them. One session holds all of them, so
// that none needs a connection of its own. If the session is lost, all of them are lost.
type Leases struct {
	once sync.Once
	// turn holds a token for the goroutine that uses the fields below and the session's connection.
	turn    chan struct{}
	session *lockSession // nil without one
	closed  bool
}

// A lockSession is the connection that holds the locks.
type lockSession struct {
	db    Driver
	conn  *sql.Conn
	words LockWords
	id    string
	open  bool              // LockWords.Open was called
	held  map[string]*lease // by LockWords.Take
	used  time.Time         // when a lock was last taken or released
	ended chan struct{}     // closed when the connection is closed
}

// A lease is a lock that the session holds.
type lease struct {
	of   *Leases
	in   *lockSession
	key  string
	free string
	lost chan struct{}
	once sync.Once
	err  error // of Release
}

// enter waits until this goroutine may use the session.
func (x *Leases) enter(ctx context.Context) error {
	x.once.Do(func() { x.turn = make(chan struct{}, 1) })
	if ctx.Err() != nil { // even if the session is free
		return ctx.Err()
	}
	select {
	case x.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *Leases) leave() { <-x.turn }

// Close releases the leases. A lost session is no error: the server has released its locks.
func (x *Leases) Close() error {
	_ = x.enter(context.Background()) // never fails
	defer x.leave()
	x.closed = true
	s := x.session
	if s == nil {
		return nil
	}
	var errs []error
	for _, l := range slices.Collect(maps.Values(s.held)) {
		// The server notices a closed connection late, and so Close first releases the lock.
		errs = append(errs, s.exec(l.free))
	}
	errs = append(errs, x.end())
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(s.db.Classify(err), ErrConnectionLost) })...)
}

// Take takes the lock called name in the session. If there is no session, Take opens one.
func (x *Leases) Take(ctx context.Context, db Driver, pool *sql.DB, name string, w LockWords) (Lease, error) {
	fail := func(err error) (Lease, error) { return nil, fmt.Errorf("take lock %s: %w", name, db.Classify(err)) }
	if err := x.enter(ctx); err != nil {
		return fail(err)
	}
	defer x.leave()
	if x.closed {
		return fail(errors.New("the database is closed"))
	}
	for {
		old := x.session != nil
		if w.Open != nil && (!old || !x.session.open) {
			if err := w.Open(ctx); err != nil {
				return fail(err)
			}
		}
		if !old {
			if err := x.open(ctx, db, pool, w); err != nil {
				return fail(err)
			}
		}
		s := x.session
		s.open = s.open || w.Open != nil
		if s.held[w.Take] != nil { // to the server, a session may take a lock several times
			return fail(Classed(ErrLockTimeout, errors.New("this process holds it")))
		}
		var got sql.NullBool
		s.used = time.Now()
		if err := s.query(w.Take, &got); err != nil {
			err = errors.Join(err, x.end())
			if old && errors.Is(db.Classify(err), ErrConnectionLost) {
				continue
			}
			return fail(err)
		}
		if !got.Bool {
			return fail(Classed(ErrLockTimeout, errors.New("another process holds it")))
		}
		l := &lease{of: x, in: s, key: w.Take, free: w.Release, lost: make(chan struct{})}
		s.held[l.key] = l
		return l, nil
	}
}

func (x *Leases) open(ctx context.Context, db Driver, pool *sql.DB, w LockWords) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	s := &lockSession{db: db, conn: conn, words: w, held: map[string]*lease{}, ended: make(chan struct{})}
	for _, q := range w.Begin {
		if err := s.exec(q); err != nil && errors.Is(db.Classify(err), ErrConnectionLost) {
			return errors.Join(err, DiscardConn(db, conn))
		}
	}
	if err := s.query(w.ID, &s.id); err != nil {
		return errors.Join(err, DiscardConn(db, conn))
	}
	x.session = s
	go x.watch(s)
	return nil
}

// watch checks a session regularly, and ends the session when it is unused or lost.
func (x *Leases) watch(s *lockSession) {
	tick := time.NewTicker(s.words.Every)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		_ = x.enter(context.Background()) // never fails
		if x.session == s && !s.lives() {
			_ = x.end() // of no interest: it was lost or unused
		}
		x.leave()
	}
}

// lives reports whether the session is still needed, and is still the one that took the locks.
func (s *lockSession) lives() bool {
	if len(s.held) == 0 && time.Since(s.used) >= leaseReuse {
		return false
	}
	var id string
	return s.query(s.words.ID, &id) == nil && id == s.id
}

// end closes the session. All leases are lost with it.
func (x *Leases) end() error {
	s := x.session
	x.session = nil
	for _, l := range s.held {
		close(l.lost)
	}
	s.held = nil
	close(s.ended)
	return DiscardConn(s.db, s.conn)
}

// query and exec run a statement within words.Wait. They don't use the caller's context, because an
// interrupted statement would end the session.
func (s *lockSession) query(q string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.words.Wait)
	defer cancel()
	return s.conn.QueryRowContext(ctx, q).Scan(into)
}

func (s *lockSession) exec(q string) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.words.Wait)
	defer cancel()
	_, err := s.conn.ExecContext(ctx, q)
	return err
}

func (l *lease) Lost() <-chan struct{} { return l.lost }

// Release releases the lock. Later calls return the error of the first.
func (l *lease) Release() error {
	l.once.Do(func() {
		_ = l.of.enter(context.Background()) // never fails
		defer l.of.leave()
		if l.in.held[l.key] != l { // it was lost
			return
		}
		l.in.used = time.Now()
		err := l.in.exec(l.free)
		delete(l.in.held, l.key)
		close(l.lost)
		if err == nil {
			return
		}
		if err = errors.Join(err, l.of.end()); !errors.Is(l.in.db.Classify(err), ErrConnectionLost) {
			l.err = err
		}
	})
	return l.err
}
