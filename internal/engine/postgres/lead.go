package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

// A leader pings its connection every leadPing, and resigns after leadWait
// without an answer. The server releases an unresponsive client's lock only
// later, after the timeouts of leadSession, so there are never two leaders.
const (
	leadPing = time.Second
	leadWait = 3 * time.Second
)

// leadSession are the settings with which the server detects a dead client
// within about 11 s, instead of two hours, and never closes an idle connection.
// The server refuses a setting that it does not support, over a Unix socket or
// before version 14.
var leadSession = []string{
	"SET tcp_keepalives_idle = 5", "SET tcp_keepalives_interval = 2", "SET tcp_keepalives_count = 3", "SET tcp_user_timeout = 11000",
	"SET idle_session_timeout = 0",
}

// A lease holds a session-level advisory lock. The server releases the lock
// when the connection ends.
type lease struct {
	db   *DB
	key  int64
	conn *pgconn.PgConn
	lost chan struct{}
	stop context.CancelFunc
	done chan struct{} // closed when watch has returned
	once sync.Once
}

// leadKey returns the advisory lock key for a name. The lock is per database.
func leadKey(name string) int64 {
	h := fnv.New64a()
	h.Write([]byte("rowmill " + name))
	return int64(h.Sum64())
}

// Lead implements engine.Keeper. A connection pooler must be in session mode.
func (db *DB) Lead(ctx context.Context, name string) (engine.Lease, error) {
	c, err := db.connectAs(ctx, db.maintenanceConfig(), engine.Session{Maintenance: true})
	if err != nil {
		return nil, err
	}
	for _, q := range leadSession {
		if _, err := c.Exec(ctx, q).ReadAll(); err != nil && c.IsClosed() {
			discard(c)
			return nil, fmt.Errorf("lead %s: %w", name, classifyIn(ctx, err))
		}
	}
	results, err := c.Exec(ctx, fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", leadKey(name))).ReadAll()
	if err != nil {
		discard(c)
		return nil, fmt.Errorf("lead %s: %w", name, classifyIn(ctx, err))
	}
	if string(results[0].Rows[0][0]) != "t" {
		discard(c)
		return nil, engine.Classed(engine.ErrLockTimeout, fmt.Errorf("lead %s: somebody else does", name))
	}
	watched, stop := context.WithCancel(context.Background())
	l := &lease{db: db, key: leadKey(name), conn: c, lost: make(chan struct{}), stop: stop, done: make(chan struct{})}
	db.mu.Lock()
	closed := db.closed
	if !closed {
		db.leases[l] = true
	}
	db.mu.Unlock()
	go l.watch(watched)
	if closed {
		return nil, fmt.Errorf("lead %s: the database is closed: %w", name, l.Release())
	}
	return l, nil
}

// watch pings the connection until a ping fails or stop is called.
func (l *lease) watch(ctx context.Context) {
	defer close(l.done)
	defer discard(l.conn)
	defer close(l.lost)
	tick := time.NewTicker(leadPing)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.unlock()
			return
		case <-tick.C:
		}
		ping, cancel := context.WithTimeout(ctx, leadWait)
		err := l.conn.Ping(ping)
		cancel()
		if err != nil {
			return
		}
	}
}

// unlock releases the lock before the connection is closed, because the server
// notices a closed connection only later. If unlock fails, closing the
// connection releases the lock.
func (l *lease) unlock() {
	ctx, cancel := context.WithTimeout(context.Background(), leadWait)
	defer cancel()
	_, _ = l.conn.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", l.key)).ReadAll()
}

// Lost implements engine.Lease. Release closes the channel, too.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Release implements engine.Lease: it closes the connection.
func (l *lease) Release() error {
	l.once.Do(func() {
		l.db.mu.Lock()
		delete(l.db.leases, l)
		l.db.mu.Unlock()
		l.stop()
	})
	<-l.done
	return nil
}
