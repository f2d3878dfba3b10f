package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Keeper = (*DB)(nil)

// maxIdle is how long an unused maintenance connection is kept: longer than a round of maintenance,
// and well below any wait_timeout.
const maxIdle = time.Minute

// keepIdle is how many unused maintenance connections are kept: what a load of several files needs.
const keepIdle = 8

func (db *server) SQL() *sql.DB { return db.keep }

func (db *server) Bind(query string) string { return query }

func (db *server) Classify(err error) error { return classify(err) }

func (db *server) Try(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, 1, steps)
}

func (db *server) Running(ctx context.Context) (n int, err error) {
	var name string
	if err := db.pool.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_running'").Scan(&name, &n); err != nil {
		return 0, fmt.Errorf("count the statements that run: %w", classify(err))
	}
	return max(n-1, 0), nil // without this statement
}

// Standing implements engine.Follower. Servers before MySQL 8.0.22 and MariaDB 10.5 have only SHOW
// SLAVE STATUS; MySQL from 8.4 on has only SHOW REPLICA STATUS.
func (db *server) Standing(ctx context.Context) (string, error) {
	status, err := db.replicaStatus(ctx, "SHOW REPLICA STATUS")
	if serverError(err, errSyntax) {
		status, err = db.replicaStatus(ctx, "SHOW SLAVE STATUS")
	}
	if err != nil || len(status) == 0 {
		return "", err
	}
	var all []string
	for _, thread := range []string{"SQL", "IO"} {
		if cmp.Or(status["Replica_"+thread+"_Running"], status["Slave_"+thread+"_Running"]) == "No" {
			line := strings.Join(strings.Fields(status["Last_"+thread+"_Error"]), " ") // it ends in the statement, of any length
			all = append(all, fmt.Sprintf("its %s thread has stopped: %.300s", thread, cmp.Or(line, "without an error")))
		}
	}
	return strings.Join(all, "; "), nil
}

func (db *server) replicaStatus(ctx context.Context, query string) (map[string]string, error) {
	status := map[string]string{}
	return status, engine.EachText(ctx, db, db.pool, func(names, values []string) error {
		for i, name := range names {
			status[name] = values[i]
		}
		return nil
	}, query)
}

// The checks of leases, and the names of their locks.
const (
	// leasePing is the interval between checks of the leases' session. leaseTimeout limits the wait
	// for the answer.
	leasePing    = time.Second
	leaseTimeout = 5 * time.Second
	// leaseIdle is a time in seconds: if the leases' session sends nothing for this long, the server
	// ends the session, and so releases its locks. By then, the holder has declared its leases lost.
	leaseIdle = 30
	// maxLockName is the maximum length of a lock's name in MySQL; in MariaDB it is 192.
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

// Lead implements engine.Keeper with GET_LOCK. A session may hold any number of such locks; the
// server releases them when the session ends.
func (db *server) Lead(ctx context.Context, name string) (engine.Lease, error) {
	lock := quoteText(lockName(db.dialect.stored(db.config.DBName), db.dialect.stored(name)))
	w := leaseWords(lock)
	w.Open = db.LocalLocks
	return db.leases.Take(ctx, db, db.pool, name, w)
}

func leaseWords(lock string) engine.LockWords {
	return engine.LockWords{
		Begin:   []string{fmt.Sprintf("SET SESSION wait_timeout = %d", leaseIdle)},
		ID:      "SELECT CONNECTION_ID()",
		Take:    "SELECT GET_LOCK(" + lock + ", 0)",
		Release: "DO RELEASE_LOCK(" + lock + ")",
		Every:   leasePing,
		Wait:    leaseTimeout,
	}
}

// Bound implements engine.Bounded by limiting each pool. db.changes gets two connections: a change
// of periods may need the second. db.keep gets four: work that takes long may hold three of them.
func (db *server) Bound() {
	db.pool.SetMaxOpenConns(2)
	db.keep.SetMaxOpenConns(4)
	db.keep.SetMaxIdleConns(4)
	db.changes.SetMaxOpenConns(2)
}

// LocalLocks implements engine.ClusterNode. It refuses nodes of Galera clusters: there, GET_LOCK
// and LOCK TABLES succeed even if a session on another node holds the same lock.
func (db *server) LocalLocks(ctx context.Context) error {
	on, err := db.inGalera(ctx)
	if err != nil || !on {
		return err
	}
	return engine.Hinted(fmt.Errorf("the server is a node of a Galera cluster, where GET_LOCK and LOCK TABLES are local to a node: "+
		"two processes that maintain or load a table on two nodes would both hold its locks, and could lose rows: %w", engine.ErrUnsupported),
		"a server outside of a cluster, such as a replica's source; rowmill bench and query need no such locks")
}

// inGalera reports whether the server is a node of a Galera cluster.
func (db *server) inGalera(ctx context.Context) (bool, error) {
	var on bool
	err := db.pool.QueryRowContext(ctx, "SELECT @@GLOBAL.wsrep_on").Scan(&on)
	if serverError(err, errUnknownVariable) {
		return false, nil
	}
	return on, classify(err)
}

func (db *server) Session(ctx context.Context) (*engine.Session, error) {
	return engine.OpenSession(ctx, db, db.pool, db.sessionWords(), nil)
}

func (db *server) sessionWords() engine.SessionWords {
	return engine.SessionWords{
		ID:       "SELECT " + unlimited + "CONNECTION_ID()",
		Prepares: true, // as text, a FLOAT loses digits
		Get: func(name string) (string, error) {
			name, err := variable(name)
			return "SELECT @@SESSION." + name, err
		},
		Set: func(name, value string) (string, error) {
			name, err := variable(name)
			return "SET SESSION " + name + " = " + variableValue(value), err
		},
	}
}

func (db *server) Kill(ctx context.Context, id int64) error { return db.kill(ctx, id) }

// variable returns the name of a system variable as the server spells it, and refuses text that is
// no such name. The name becomes a part of a statement without quotes: a parameter can't stand for
// a name, and a quoted name would be an expression.
func variable(name string) (string, error) {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for part := range strings.SplitSeq(name, ".") { // structured variables have two
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz_0123456789") != "" || part[0] <= '9' {
			return "", errors.New("that is not a name of a system variable")
		}
	}
	return name, nil
}

// variableValue renders the value of a variable: a number without quotes.
func variableValue(value string) string {
	digits := strings.TrimPrefix(value, "-")
	if _, err := strconv.ParseFloat(value, 64); err == nil && strings.Trim(digits, "0123456789.") == "" {
		return value
	}
	return quoteText(value)
}
