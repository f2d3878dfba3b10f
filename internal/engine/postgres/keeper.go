package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Keeper = (*DB)(nil)

// Number and lifetime of a pool's idle connections. A round of maintenance sends
// many queries and is followed by a pause.
const (
	poolIdle     = 4
	poolIdleTime = time.Minute
)

// maintenanceName is the application_name of maintenance, which Running doesn't count.
func maintenanceName(cfg *pgconn.Config) string {
	return cfg.RuntimeParams["application_name"] + " maintenance"
}

// openPools creates the pools, which connect on first use. Statements use QueryExecModeExec: they
// send values as text, whose type the server infers, and cache no plan or description that a change
// of a table could make stale.
func (db *server) openPools() error {
	open := func(config *pgconn.Config, prepare func(context.Context, *pgconn.PgConn) error, o ...stdlib.OptionOpenDB) (*sql.DB, error) {
		// pgx accepts only a configuration that it has parsed; all of it is replaced.
		cfg, err := pgx.ParseConfig("sslmode=disable")
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", db.target, err)
		}
		cfg.Config, cfg.DefaultQueryExecMode = *config, pgx.QueryExecModeExec
		pool := stdlib.OpenDB(*cfg, append(o, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
			return prepare(ctx, c.PgConn())
		}))...)
		pool.SetMaxIdleConns(poolIdle)
		pool.SetConnMaxIdleTime(poolIdleTime)
		return pool, nil
	}
	session := func(s engine.Connect) func(context.Context, *pgconn.PgConn) error {
		return func(ctx context.Context, c *pgconn.PgConn) error { return db.prepareSession(ctx, c, s) }
	}
	var failed [3]error
	always := func(context.Context, stdlib.ShouldPingParams) bool { return true } // the server may have closed an idle connection
	db.plain, failed[0] = open(db.config.Copy(), session(engine.Connect{}), stdlib.OptionShouldPing(always))
	db.pool, failed[1] = open(db.maintenanceConfig(), session(engine.Connect{Maintenance: true}))
	db.reads, failed[2] = open(db.config.Copy(), func(ctx context.Context, c *pgconn.PgConn) error {
		return execAll(ctx, c, strings.Join(readSettings, "; "))
	})
	return errors.Join(failed[:]...)
}

func (db *server) maintenanceConfig() *pgconn.Config {
	cfg := db.config.Copy()
	cfg.RuntimeParams["application_name"] = maintenanceName(db.config)
	return cfg
}

// SQL implements engine.Keeper. Times are time.Time in UTC; types that Go lacks are text.
func (db *server) SQL() *sql.DB { return db.pool }

func (db *server) Bind(query string) string { return bind(query) }

// bind replaces question marks by $1, $2, ..., except within literals and quoted names.
func bind(q string) string {
	if !strings.Contains(q, "?") {
		return q
	}
	var out strings.Builder
	n, quote := 0, byte(0)
	for i := range len(q) {
		switch c := q[i]; {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && c == '?':
			n++
			out.WriteString("$" + strconv.Itoa(n))
			continue
		}
		out.WriteByte(q[i])
	}
	return out.String()
}

func (db *server) Classify(err error) error { return classify(err) }

func (db *server) Words() engine.Words { return words{db.dialect} }

// Running implements engine.Keeper: it counts the running statements of all sessions except
// maintenance. Without pg_read_all_stats, it sees only the account's own statements.
func (db *server) Running(ctx context.Context) (n int, err error) {
	err = db.plain.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' "+
		"AND pid <> pg_backend_pid() AND application_name <> "+quoteText(maintenanceName(db.config))).Scan(&n)
	return n, engine.About(ctx, classifyIn(ctx, err), "count the statements that run")
}

func (db *server) Standing(ctx context.Context) (why string, err error) {
	err = db.plain.QueryRowContext(ctx, "SELECT CASE WHEN NOT pg_is_in_recovery() THEN 'it is no standby' "+
		"WHEN pg_is_wal_replay_paused() THEN 'its replay is paused, by pg_wal_replay_pause() or a setting that is smaller than the source''s' ELSE '' END").Scan(&why)
	return why, classifyIn(ctx, err)
}

// mostStatement is the length to which a blocker's statement is cut, in characters.
const mostStatement = "200"

// blockers is the query for Blockers. It returns every transaction, even an idle or prepared one,
// with a lock on the table or a partition. While a detach is unfinished, the query also returns the
// transactions with snapshots older than the detach, because the detach waits for them. own is
// maintenance's application name.
func (d dialect) blockers(t *engine.Table, own string) string {
	return "WITH RECURSIVE rel(oid) AS (SELECT " + d.regclass(t.Name) + "::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN rel ON i.inhparent = rel.oid), " +
		"held AS MATERIALIZED (SELECT l.pid, l.virtualtransaction FROM pg_locks l JOIN rel ON rel.oid = l.relation " +
		"WHERE l.locktype = 'relation' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())) " +
		"SELECT a.pid, COALESCE(a.usename, ''), COALESCE(host(a.client_addr), CASE WHEN a.client_port = -1 THEN 'local' END, ''), " +
		"COALESCE(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000, 0)::bigint AS age, left(COALESCE(a.query, ''), " + mostStatement + "), " +
		"a.application_name IN (" + quoteText(own) + ", 'rowmill maintenance') " +
		"FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker' " +
		"AND (a.pid IN (SELECT pid FROM held) OR a.datname = current_database() AND age(a.backend_xmin) >= " +
		"(SELECT min(age(i.xmin)) FROM pg_inherits i JOIN rel ON rel.oid = i.inhrelid WHERE i.inhdetachpending)) " +
		"UNION ALL SELECT 0, p.owner, '', (extract(epoch FROM clock_timestamp() - p.prepared) * 1000000)::bigint, left('PREPARE TRANSACTION ' || quote_literal(p.gid), " + mostStatement + "), false " +
		"FROM pg_prepared_xacts p WHERE p.database = current_database() AND p.transaction IN (SELECT x.transactionid FROM pg_locks x " +
		"WHERE x.locktype = 'transactionid' AND x.pid IS NULL AND x.virtualtransaction IN (SELECT virtualtransaction FROM held WHERE pid IS NULL)) " +
		"ORDER BY age DESC"
}

// Blockers implements engine.Keeper. A prepared transaction has the ID 0; COMMIT PREPARED or
// ROLLBACK PREPARED ends it. Without pg_read_all_stats, the account doesn't see the age and the
// statement of other accounts' transactions.
func (db *server) Blockers(ctx context.Context, t *engine.Table) (out []engine.Blocker, err error) {
	out, err = engine.ListOf(ctx, db, db.plain, func(r *sql.Rows, b *engine.Blocker) error {
		var age int64
		err := r.Scan(&b.ID, &b.User, &b.Host, &age, &b.Statement, &b.Own)
		b.Age = max(time.Duration(age)*time.Microsecond, 0)
		return err
	}, db.dialect.blockers(t, maintenanceName(db.config)))
	return out, engine.About(ctx, err, "transactions that use "+t.Name)
}

// The session that holds the leases is checked every leadPing, and counts as lost after leadWait
// without an answer. The server releases an unresponsive client's lock only later, after the
// timeouts of leadSession, so a lease never has two holders.
const (
	leadPing = time.Second
	leadWait = 3 * time.Second
)

// leadSession are settings with which the server detects a dead client within about 11 s, instead
// of two hours, and closes no idle connection. On a Unix socket there are no TCP settings: the
// server refuses to set them, and these errors are ignored.
var leadSession = []string{
	"SET tcp_keepalives_idle = 5", "SET tcp_keepalives_interval = 2", "SET tcp_keepalives_count = 3", "SET tcp_user_timeout = 11000",
	"SET idle_session_timeout = 0",
}

// leadKey returns the advisory lock key for a name. The lock is per database.
func leadKey(name string) int64 {
	h := fnv.New64a()
	h.Write([]byte("rowmill " + name))
	return int64(h.Sum64())
}

// Lead implements engine.Keeper with a session's advisory lock; a connection pooler must be in
// session mode.
func (db *server) Lead(ctx context.Context, name string) (engine.Lease, error) {
	return db.leases.Take(ctx, db, db.pool, name, engine.LockWords{
		Begin:   leadSession,
		ID:      "SELECT pg_backend_pid()",
		Take:    fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", leadKey(name)),
		Release: fmt.Sprintf("SELECT pg_advisory_unlock(%d)", leadKey(name)),
		Every:   leadPing,
		Wait:    leadWait,
	})
}

// Bound implements engine.Bounded. Long work holds up to three connections of pool, and the leases
// hold one.
func (db *server) Bound() {
	db.plain.SetMaxOpenConns(2)
	db.pool.SetMaxOpenConns(6)
	db.pool.SetMaxIdleConns(6)
}

func (db *server) Session(ctx context.Context) (*engine.Session, error) {
	return engine.OpenSession(ctx, db, db.plain, sessionWords(), nil)
}

func sessionWords() engine.SessionWords {
	return engine.SessionWords{
		ID:  "SELECT pg_backend_pid()",
		Get: func(name string) (string, error) { return "SELECT current_setting(" + quoteText(name) + ")", nil },
		Set: func(name, value string) (string, error) {
			return "SELECT set_config(" + quoteText(name) + ", " + quoteText(value) + ", false)", nil
		},
		Export: "SELECT pg_export_snapshot()",
		Import: func(snapshot string) string { return "SET TRANSACTION SNAPSHOT " + quoteText(snapshot) },
	}
}

func (db *server) Kill(ctx context.Context, id int64) error { return db.kill(ctx, uint32(id)) }
