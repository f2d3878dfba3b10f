package mysql

import (
	"context"
	"database/sql"
	"fmt"
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
