package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
)

// snapshotTries is the number of attempts to begin transactions at the same position of the binary
// log. An attempt takes about a millisecond; the time between two durable commits is longer.
const snapshotTries = 40

// OneSnapshot implements engine.Reader.
//
// MariaDB tells the position of the binary log at which a transaction WITH CONSISTENT SNAPSHOT
// began. If all changes are logged, every commit moves the position, and equal positions are equal
// snapshots. Otherwise a global read lock stops commits while the transactions begin.
//
// DDL can't change a table that a transaction has used until the transaction ends. If a table was
// changed after the transaction's begin, the server refuses to read it. OneSnapshot therefore uses
// all tables at once. A session that used one later could wait for an ALTER TABLE, which itself
// would wait for the other sessions.
func (db *reader) OneSnapshot(ctx context.Context, sessions []*engine.Session, tables []string, lock bool) (proof string, err error) {
	defer func() {
		if err != nil {
			for _, s := range sessions {
				_ = s.Rollback(context.WithoutCancel(ctx)) // the first error is returned
			}
		}
	}()
	if proof, err = db.snapshot(ctx, sessions, lock); err != nil || len(tables) == 0 {
		return proof, err
	}
	return proof, each(sessions, func(_ int, s *engine.Session) error {
		if err := s.SetStates(ctx, waitForTables); err != nil { // a session knows what it has set
			return err
		}
		for _, t := range tables {
			if err := s.Text(ctx, "SELECT 1 FROM "+t+" LIMIT 0", nil, noRow); err != nil {
				return fmt.Errorf("lock %s: %w", t, err)
			}
		}
		return nil
	})
}

// waitForTables limits how long a session waits for tables that another session is altering.
var waitForTables = engine.State{{Name: "lock_wait_timeout", Value: strconv.Itoa(int(engine.WaitForTables.Seconds()))}}

// snapshot is OneSnapshot without locks on tables.
func (db *reader) snapshot(ctx context.Context, sessions []*engine.Session, lock bool) (proof string, err error) {
	if err := each(sessions, func(_ int, s *engine.Session) error { return s.Begin(ctx, engine.Transaction{ReadOnly: true}) }); err != nil {
		return "", err
	}
	begin := func(_ int, s *engine.Session) error { return s.Consistent(ctx) }
	if len(sessions) == 1 {
		return "one session reads all rows", begin(0, sessions[0])
	}
	logged, err := db.logsAll(ctx)
	if err != nil {
		return "", err
	}
	for range snapshotTries {
		if !logged {
			break
		}
		if err := each(sessions, begin); err != nil {
			return "", err
		}
		positions := make([]string, len(sessions))
		err := each(sessions, func(i int, s *engine.Session) (err error) {
			positions[i], err = snapshotPosition(ctx, s)
			return err
		})
		if err != nil {
			return "", err
		}
		if positions[0] != "" && len(slices.Compact(positions)) == 1 {
			return "all sessions began at the same position of the binary log, " + positions[0], nil
		}
	}
	if lock {
		var began error
		err := db.withoutCommits(ctx, func() { began = each(sessions, begin) })
		if began != nil {
			return "", began
		}
		if err == nil {
			return "all sessions began under a global read lock", nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	return "", each(sessions, begin)
}

// withoutCommits calls fn while it holds a global read lock. After an error, it is uncertain
// whether fn was called, and whether the lock was held until fn returned.
func (db *reader) withoutCommits(ctx context.Context, fn func()) (err error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return classify(err)
	}
	// Even after an error, the end of the connection releases the lock.
	defer func() { err = errors.Join(err, engine.DiscardConn(db, conn)) }()
	for _, q := range []string{
		fmt.Sprintf("SET SESSION lock_wait_timeout = %d", int(engine.WaitForLock.Seconds())),
		"FLUSH TABLES WITH READ LOCK",
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return classify(err)
		}
	}
	fn()
	_, err = conn.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES")
	return classify(err)
}

// logging says which changes the binary log has.
type logging struct {
	all      bool // changes of clients in all databases
	replicas bool // changes that come from other servers
}

// logsAll reports whether the binary log contains every change of rows, so that a snapshot's
// position in the log identifies the snapshot. It disregards sessions with sql_log_bin = 0, a
// setting that needs a special privilege.
func (db *reader) logsAll(ctx context.Context) (bool, error) {
	l, err := db.logged.once(func() (l logging, err error) {
		if !db.dialect.mariadb {
			return l, nil
		}
		if err := db.pool.QueryRowContext(ctx, "SELECT @@GLOBAL.log_bin, @@GLOBAL.log_slave_updates").Scan(&l.all, &l.replicas); err != nil || !l.all {
			return l, classify(err)
		}
		var file, position, do, ignore string
		err = db.pool.QueryRowContext(ctx, "SHOW MASTER STATUS").Scan(&file, &position, &do, &ignore)
		l.all = err == nil && do == "" && ignore == "" // without the privilege it isn't known
		return l, nil
	})
	if err != nil || !l.all || l.replicas {
		return l.all, err
	}
	// The server must be neither a replica nor a node of a cluster.
	var name, running string
	if err := db.pool.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Slaves_running'").Scan(&name, &running); err != nil {
		return false, classify(err)
	}
	cluster, err := db.inGalera(ctx)
	return running == "0" && !cluster, err
}

// snapshotPosition returns the position of the binary log at which a session's snapshot was made,
// or "" if the snapshot has none.
func snapshotPosition(ctx context.Context, s *engine.Session) (string, error) {
	var file, position string
	err := s.Text(ctx, "SHOW STATUS LIKE 'binlog_snapshot_%'", nil, func(v [][]byte) error {
		switch strings.ToLower(string(v[0])) {
		case "binlog_snapshot_file":
			file = string(v[1])
		case "binlog_snapshot_position":
			position = string(v[1])
		}
		return nil
	})
	if file == "" || position == "" {
		return "", err
	}
	return file + ":" + position, err
}

// each calls fn for all sessions at the same time.
func each(sessions []*engine.Session, fn func(int, *engine.Session) error) error {
	errs := make([]error, len(sessions))
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() { errs[i] = engine.Guarded(func() error { return fn(i, s) }) })
	}
	all.Wait()
	return errors.Join(errs...)
}
