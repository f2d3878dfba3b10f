package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Keeper = (*DB)(nil)

// maxIdle is how long an unused maintenance connection is kept: well below any
// server's wait_timeout, and long enough for one round of maintenance.
const maxIdle = time.Minute

// SQL implements engine.Keeper.
func (db *DB) SQL() *sql.DB { return db.keep }

// Bind implements engine.Keeper.
func (db *DB) Bind(query string) string { return query }

// Classify implements engine.Keeper.
func (db *DB) Classify(err error) error { return classify(err) }

// Try implements engine.Keeper.
func (db *DB) Try(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, 1, steps)
}

// Load implements engine.Keeper. A server doesn't know the lag of its replicas.
func (db *DB) Load(ctx context.Context) (engine.ServerLoad, error) {
	var name string
	l := engine.ServerLoad{ReplicaLag: -1}
	if err := db.pool.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_running'").Scan(&name, &l.Running); err != nil {
		return l, fmt.Errorf("load of the server: %w", classify(err))
	}
	l.Running = max(l.Running-1, 0) // this statement
	return l, nil
}

const (
	// leasePing is how often a lease checks that its lock is still held.
	leasePing = time.Second
	// leaseTimeout limits the wait for the answer.
	leaseTimeout = 5 * time.Second
	// leaseIdle is after how many seconds without a ping the server releases the
	// lock, for example after a network failure: later than the holder has declared
	// the lease lost.
	leaseIdle = 30
	// maxLockName is the length of a lock's name in MySQL; MariaDB has 192.
	maxLockName = 64
)

// lockName returns the server-wide name of a lock of one database.
func lockName(database, name string) string {
	full := "rowmill." + database + "." + name
	if len(full) <= maxLockName {
		return full
	}
	sum := sha256.Sum256([]byte(full))
	return "rowmill." + hex.EncodeToString(sum[:16])
}

// A lease is a GET_LOCK lock on a connection of its own. The server releases the
// lock when that connection ends.
type lease struct {
	conn    *sql.Conn
	name    string
	lost    chan struct{}
	stop    context.CancelFunc
	pinging chan struct{} // closed when ping has returned
	once    sync.Once
	err     error // of Release
}

// Lead implements engine.Keeper.
func (db *DB) Lead(ctx context.Context, name string) (engine.Lease, error) {
	fail := func(err error) error { return fmt.Errorf("take lock %s: %w", name, err) }
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, db.unreachable(err)
	}
	lock := lockName(db.dialect.stored(db.config.DBName), db.dialect.stored(name))
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", leaseIdle)); err != nil {
		return nil, errors.Join(fail(classify(err)), discardConn(conn))
	}
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+quoteText(lock)+", 0)").Scan(&got); err != nil {
		return nil, errors.Join(fail(classify(err)), discardConn(conn))
	}
	if got.Int64 != 1 {
		return nil, errors.Join(fail(engine.Classed(engine.ErrLockTimeout, errors.New("somebody else has it"))), discardConn(conn))
	}
	pinging, stop := context.WithCancel(context.Background()) // not ended by ctx, only by Release
	l := &lease{conn: conn, name: lock, lost: make(chan struct{}), stop: stop, pinging: make(chan struct{})}
	go l.ping(pinging)
	return l, nil
}

// ping checks the lock until it is lost or released.
func (l *lease) ping(ctx context.Context) {
	defer close(l.pinging)
	defer close(l.lost)
	tick := time.NewTicker(leasePing)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !l.held(ctx) {
			return
		}
	}
}

func (l *lease) held(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	var mine sql.NullBool
	err := l.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+quoteText(l.name)+") = CONNECTION_ID()").Scan(&mine)
	return err == nil && mine.Bool
}

func (l *lease) Lost() <-chan struct{} { return l.lost }

// Release implements engine.Lease: it releases the lock and closes the connection.
func (l *lease) Release() error {
	l.once.Do(func() {
		l.stop()
		<-l.pinging
		ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout)
		defer cancel()
		_, err := l.conn.ExecContext(ctx, "DO RELEASE_LOCK("+quoteText(l.name)+")")
		l.err = errors.Join(unlessLost(err), discardConn(l.conn))
	})
	return l.err
}

// discardConn closes a connection instead of returning it to its pool.
func discardConn(c *sql.Conn) error {
	err := c.Raw(func(any) error { return driver.ErrBadConn })
	return errors.Join(unlessLost(err), unlessLost(c.Close()))
}
