// Package postgres is the engine for PostgreSQL 14 and later. It uses
// declarative range partitions and offers five insert methods, COPY among them.
//
// A target is postgres://USER@HOST:PORT/DB or postgresql://..., with libpq's
// conventions. The option host=DIR is the directory of a Unix socket; sslmode,
// sslrootcert, sslcert and sslkey have libpq's meaning. Parts that the target
// omits come from PGHOST, PGUSER and the other variables of libpq. The password
// comes from ?password-file=FILE, PGPASSWORD or ~/.pgpass, never from the target.
//
// Times are stored in columns of type timestamp without time zone, in UTC. A partition
// is named after its table and its period, as in PURCHASES_P0, because it is a table
// like all others; an index after its table, PURCHASES_MARKET_IDX.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// connectTimeout bounds the time to establish a connection. For a benchmark, a
// server that takes longer is down.
const connectTimeout = 10 * time.Second

// DB is an open PostgreSQL server. It implements engine.DB.
type DB struct {
	*server
	catalog
	sizer
	reader
	recipes
	presenter
	doctor
	housekeeper
}

func newDB(s *server) *DB {
	return &DB{
		server: s, catalog: catalog{s}, sizer: sizer{s}, reader: reader{s},
		presenter: presenter{s}, doctor: doctor{s}, housekeeper: housekeeper{s},
	}
}

// A server has the connections, and runs statements.
type server struct {
	target    engine.Target
	config    *pgconn.Config // for every connection; never printed
	info      engine.Info
	dialect   dialect
	lockTries int // the constant lockTries, except in tests
	copyRows  int // the constant copyRows, except in tests

	leases    engine.Leases
	quietWait time.Duration // the constant quietWait, except in tests
	plain     *sql.DB       // for the catalog and sessions
	pool      *sql.DB       // for maintenance: Connect{Maintenance: true}
	reads     *sql.DB       // for queries in pieces
	// before is a hook for tests, called before the statements of a step are sent.
	before func(c *pgconn.PgConn, statements []string)

	mu sync.Mutex
	// checked holds the server time at which a CHECK was first seen, by OID.
	checked map[string]string
}

// Open connects to the target and reads the server's version and settings. If the server does not
// answer, the error is engine.ErrUnreachable.
func Open(ctx context.Context, t engine.Target) (*DB, error) {
	cfg, err := configOf(ctx, t)
	if err != nil {
		return nil, err
	}
	db := &server{target: t, config: cfg, lockTries: lockTries, copyRows: copyRows, quietWait: quietWait, checked: map[string]string{}}
	if err := db.connect(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return newDB(db), nil
}

// Dry checks the target as Open does. The DB that it returns renders the
// statements for a server of version 15 and touches neither a server nor a file.
func Dry(t engine.Target) (engine.DB, error) {
	if err := checkOptions(t); err != nil {
		return nil, err
	}
	return engine.Dry(engine.Info{Engine: "postgres", Storage: "heap", Target: t.String()}, capabilities(), newDialect()), nil
}

// options are the options of a target that libpq has, too.
var options = []string{"host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs"}

func checkOptions(t engine.Target) error {
	if err := t.Options(append([]string{"password-file"}, options...)...); err != nil {
		return err
	}
	if t.Path == "" || strings.Contains(t.Path, "/") {
		return engine.Hinted(fmt.Errorf("target %s: it needs the name of one database", t),
			"%s://USER@HOST:5432/DATABASE", t.Scheme)
	}
	_, err := t.Choice("sslmode", "prefer", "disable", "allow", "require", "verify-ca", "verify-full")
	return err
}

// configOf converts a target to a driver configuration and completes it from
// the environment and ~/.pgpass.
func configOf(ctx context.Context, t engine.Target) (*pgconn.Config, error) {
	if err := checkOptions(t); err != nil {
		return nil, err
	}
	settings := map[string]string{"dbname": t.Path, "user": t.User}
	if t.Host != "" {
		settings["host"] = strings.Trim(t.Host, "[]")
		if host, port, err := net.SplitHostPort(t.Host); err == nil {
			settings["host"], settings["port"] = host, port
		}
	}
	for _, o := range options {
		if v := t.Query.Get(o); v != "" {
			settings[o] = v
		}
	}
	var text strings.Builder
	for name, v := range settings {
		if v != "" {
			fmt.Fprintf(&text, "%s='%s' ", name, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v))
		}
	}
	cfg, err := pgconn.ParseConfig(text.String())
	if err != nil {
		// The error itself repeats the settings; its cause does not.
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("target %s: %w", t, err)
	}
	password, given, err := t.FilePassword(ctx)
	if err != nil {
		return nil, err
	}
	if given {
		cfg.Password = password
	}
	cfg.ConnectTimeout = connectTimeout
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "rowmill"
	}
	return cfg, nil
}

// connect reads the server's properties into db.
func (db *server) connect(ctx context.Context) error {
	// Until the version is known, assume that the server has no optional feature.
	db.dialect = dialect{}
	if err := db.openPools(); err != nil {
		return err
	}
	rows, err := db.query(ctx, probe(statViews))
	if err != nil {
		return err
	}
	get := func(i int) string { return string(rows[0][i]) }
	db.info = engine.Info{Engine: "postgres", Storage: get(1), Target: db.target.String()}
	db.info.Version, _, _ = strings.Cut(get(0), " ")
	db.info.CacheBytes, _ = strconv.ParseInt(get(2), 10, 64)
	db.dialect.version, _ = strconv.Atoi(get(3))
	if err := db.checkVersion(); err != nil {
		return err
	}
	db.dialect.lz4 = get(5) == "t"
	db.dialect.path = get(6)
	have := rows[0][7:]
	for i, v := range statViews {
		if string(have[i]) == "t" {
			db.dialect.views = append(db.dialect.views, v)
		}
	}
	// Again, for the first connection, now that the version and the search path are known.
	if _, err := db.query(ctx, strings.Join(db.dialect.session(engine.Connect{}), "; ")); err != nil {
		return err
	}
	settings, err := db.Catalog().Settings(ctx)
	if err != nil {
		return err
	}
	db.info.Durability, db.info.CrashLoss = durability(settings), crashLoss(settings)
	host := db.config.Host
	if network, _ := pgconn.NetworkAddress(host, db.config.Port); network != "tcp" {
		host = ""
	}
	db.info.SetLocal(host, get(4), "postmaster.pid") // the directory is "" for most accounts
	return nil
}

// leastVersion is the lowest server_version_num: the first with DETACH CONCURRENTLY.
const leastVersion = 140000

func (db *server) checkVersion() error {
	if db.dialect.version >= leastVersion {
		return nil
	}
	return engine.Classed(engine.ErrUnsupported, fmt.Errorf("target %s: PostgreSQL %s is not supported: 14 and later versions are", db.target, db.info.Version))
}

// probe renders the query for the server's properties and available views.
func probe(views []string) string {
	q := `SELECT current_setting('server_version'), current_setting('default_table_access_method'), ` +
		`pg_size_bytes(current_setting('shared_buffers')), current_setting('server_version_num'), ` +
		`(SELECT setting FROM pg_settings WHERE name = 'data_directory'), ` +
		`EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)), current_setting('search_path')`
	for _, v := range views {
		q += `, to_regclass('pg_catalog.` + v + `') IS NOT NULL`
	}
	return q
}

func (db *server) Info() engine.Info                 { return db.info }
func (db *server) Dialect() engine.Dialect           { return db.dialect }
func (db *server) Capabilities() engine.Capabilities { return capabilities() }

func capabilities() engine.Capabilities {
	return engine.Capabilities{
		Methods:         []engine.Method{engine.Multi, engine.Single, engine.Prepared, engine.Pipeline, engine.Load},
		NoIgnore:        []engine.Method{engine.Load},
		Rolling:         true,
		Open:            engine.OpenCost{Base: 42 << 20, Connection: 1.2 * (1 << 20), Partition: 4 << 10, Each: 26 << 10}, // PostgreSQL 15, 2 indexes
		Gaps:            true,
		RowValues:       true,
		Stores:          true,
		NoZeroBytes:     true,
		SharesSnapshots: true,
	}
}

// Scan implements engine.DB. Numbers and times are read in the binary format,
// so that they are exact.
func (db *server) Scan(ctx context.Context, t *engine.Table, part *rolling.Partition, fn func(*engine.Batch) error) error {
	statements, err := db.dialect.Render(engine.Select{Table: t, Partition: part})
	if err != nil {
		return err
	}
	// If a scan ends before the last row, scan returns an error. So borrow closes the connection,
	// and the server ends the query.
	return db.borrow(ctx, db.plain, func(c *pgconn.PgConn) error { return scan(ctx, c, statements[0], t, fn) })
}

func scan(ctx context.Context, c *pgconn.PgConn, statement string, t *engine.Table, fn func(*engine.Batch) error) error {
	formats := make([]int16, len(t.Columns))
	for i, col := range t.Columns {
		formats[i] = resultFormat(col.Type)
	}
	rows := c.ExecParams(ctx, statement, nil, nil, nil, formats)
	return engine.Reading(ctx, t, fn, classify, func(fn func(*engine.Batch) error) error {
		b := engine.NewBatch(t.Columns)
		for rows.NextRow() {
			for i, p := range rows.Values() {
				if err := appendResult(&b.Columns[i], p); err != nil {
					return fmt.Errorf("column %s: %w", t.Columns[i].Name, err)
				}
			}
			if b.EndRow(); b.Rows() == scanBatch {
				if err := fn(b); err != nil {
					return err
				}
				b.Reset()
			}
		}
		if _, err := rows.Close(); err != nil || b.Rows() == 0 {
			return err
		}
		return fn(b)
	})
}

// scanBatch is the number of rows that Scan passes to fn at a time.
const scanBatch = 1000

func (db *server) Close() error {
	err := db.leases.Close()
	for _, pool := range []*sql.DB{db.plain, db.pool, db.reads} {
		if pool != nil {
			err = errors.Join(err, pool.Close())
		}
	}
	return err
}
