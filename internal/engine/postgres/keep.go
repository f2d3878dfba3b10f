package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Keeper = (*DB)(nil)

// Number and lifetime of the pool's connections. A round of maintenance sends
// many queries and is followed by a pause.
const (
	poolIdle     = 4
	poolIdleTime = time.Minute
)

// maintenanceName returns the application_name of maintenance connections,
// which Load excludes by it.
func maintenanceName(cfg *pgconn.Config) string {
	return cfg.RuntimeParams["application_name"] + " maintenance"
}

// openPool creates the pool that SQL returns. The pool connects on first use.
//
// Statements use the extended protocol without a Describe or Prepare step
// (QueryExecModeExec). Values are sent as text, and the server infers their
// types, so text works for a column of any type. No cached plan or description
// can become stale when a table changes.
func (db *DB) openPool() error {
	// pgx accepts only a configuration that it has parsed; all of it is replaced.
	cfg, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return fmt.Errorf("target %s: %w", db.target, err)
	}
	cfg.Config = *db.maintenanceConfig()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	db.pool = stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		return db.prepareSession(ctx, c.PgConn(), engine.Session{Maintenance: true})
	}))
	db.pool.SetMaxIdleConns(poolIdle)
	db.pool.SetConnMaxIdleTime(poolIdleTime)
	return nil
}

func (db *DB) maintenanceConfig() *pgconn.Config {
	cfg := db.config.Copy()
	cfg.RuntimeParams["application_name"] = maintenanceName(db.config)
	return cfg
}

// SQL implements engine.Keeper. Times are scanned as time.Time in UTC, and
// values of types without an equivalent in Go as text.
func (db *DB) SQL() *sql.DB { return db.pool }

// Bind implements engine.Keeper.
func (db *DB) Bind(query string) string { return bind(query) }

// Classify implements engine.Keeper.
func (db *DB) Classify(err error) error { return classify(err) }

// Words implements engine.Keeper.
func (db *DB) Words() engine.Words { return words{db.dialect} }

// Load implements engine.Keeper. Without the role pg_read_all_stats an account
// sees only its own statements, and no replication lag.
func (db *DB) Load(ctx context.Context) (engine.ServerLoad, error) {
	load := engine.ServerLoad{ReplicaLag: -1}
	rows, err := db.query(ctx, "SELECT (SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' "+
		"AND pid <> pg_backend_pid() AND application_name <> "+quoteText(maintenanceName(db.config))+"), "+
		// The lag is NULL for a standby that has replayed everything, and so is the
		// position of a receiver that replays nothing, such as pg_receivewal.
		"(SELECT (max(COALESCE(extract(epoch FROM replay_lag), 0)) * 1000000)::bigint FROM pg_stat_replication "+
		"WHERE state IN ('streaming', 'catchup') AND replay_lsn IS NOT NULL)")
	if err != nil {
		return load, fmt.Errorf("load of the server: %w", err)
	}
	if load.Running, err = strconv.Atoi(string(rows[0][0])); err != nil {
		return load, fmt.Errorf("load of the server: %w", err)
	}
	if rows[0][1] != nil {
		us, err := strconv.ParseInt(string(rows[0][1]), 10, 64)
		if err != nil {
			return load, fmt.Errorf("load of the server: %w", err)
		}
		load.ReplicaLag = time.Duration(us) * time.Microsecond
	}
	return load, nil
}
