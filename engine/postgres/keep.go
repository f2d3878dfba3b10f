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

	"github.com/rowmill/rowmill/engine"
)

var _ engine.Keeper = (*DB)(nil)

// How many connections the pool keeps, and for how long: a round of
// maintenance asks often and then rests.
const (
	poolIdle     = 4
	poolIdleTime = time.Minute
)

// maintenanceName is how connections that maintain call themselves, so that
// Load doesn't count them.
func maintenanceName(cfg *pgconn.Config) string {
	return cfg.RuntimeParams["application_name"] + " maintenance"
}

// openPool makes the pool that SQL returns. It connects when it is asked.
//
// Statements go in the extended protocol without being described or prepared
// first (QueryExecModeExec): values go as text of a type that the server works
// out, so that text does for a column of any type, and nothing that is kept goes
// stale when a table changes.
func (db *DB) openPool() error {
	// pgx wants a configuration that it has parsed; all of it is replaced.
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

// SQL implements engine.Keeper. Values of times come as time.Time in UTC,
// those of types that Go has none for as text.
func (db *DB) SQL() *sql.DB { return db.pool }

// Bind implements engine.Keeper.
func (db *DB) Bind(query string) string { return bind(query) }

// Classify implements engine.Keeper.
func (db *DB) Classify(err error) error { return classify(err) }

// Words implements engine.Keeper.
func (db *DB) Words() engine.Words { return words{db.dialect} }

// Load implements engine.Keeper. An account without the role pg_read_all_stats
// sees only statements of its own name, and no lag.
func (db *DB) Load(ctx context.Context) (engine.ServerLoad, error) {
	load := engine.ServerLoad{ReplicaLag: -1}
	rows, err := db.query(ctx, "SELECT (SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' "+
		"AND pid <> pg_backend_pid() AND application_name <> "+quoteText(maintenanceName(db.config))+"), "+
		// The lag is NULL of a standby that has replayed all there is, and the
		// position of what only receives, such as pg_receivewal.
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
