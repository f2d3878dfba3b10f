// Package mysql is the engine for MariaDB and MySQL: range partitions, four insert
// methods, and every storage engine of the server, by default InnoDB. docs/servers.md
// lists the versions that it is tested with.
//
// A target is mariadb://USER@HOST:PORT/DB or mysql://...; both schemes mean the
// same, because the server reports which of the two it is. Options: socket (the path
// of a Unix socket, instead of the host), tls (false, true, skip-verify or preferred),
// engine (the storage engine of new tables), password-file. The password is read from
// that file, MYSQL_PWD or ~/.my.cnf, never from the target.
package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// connectTimeout limits the time to connect. A benchmark takes a server for down after that time.
const connectTimeout = 10 * time.Second

// DB is an open MariaDB or MySQL server.
type DB struct {
	*server
	catalog
	sizer
	reader
	recipes
	versions
	presenter
	doctor
	housekeeper
	settler
}

func newDB(s *server) *DB {
	return &DB{
		server: s, catalog: catalog{s}, sizer: sizer{s}, reader: reader{server: s}, recipes: recipes{s}, versions: versions{server: s},
		presenter: presenter{s}, doctor: doctor{s}, housekeeper: housekeeper{s}, settler: settler{s},
	}
}

// A server has the connections to the server, and runs statements.
type server struct {
	target    engine.Target
	config    *mysql.Config // of all connections; never printed
	pool      *sql.DB       // for the catalog and counters
	keep      *sql.DB       // for maintenance: Connect{Maintenance: true}
	changes   *sql.DB       // for changes of periods: several statements in a packet
	reads     *sql.DB       // for queries in pieces
	talks     *sql.DB       // for engine.Talker
	leases    engine.Leases
	info      engine.Info
	dialect   dialect
	maxPacket int
	packet    atomic.Int64 // max_allowed_packet, as read by the latest connection
	lockTries int          // the constant lockTries, except in tests
	loadRows  int          // the constant loadRows, except in tests
	splitRows int          // the constant splitRows, except in tests
	// interrupt is called before each statement of a change, in tests. If it returns an error, the
	// change fails with that error, and the change's connection is discarded.
	interrupt func(statement string) error
}

// Open connects to the target and reads the server's version and settings. If the
// server doesn't answer, the error is engine.ErrUnreachable and names the address.
func Open(ctx context.Context, t engine.Target) (*DB, error) {
	cfg, err := configOf(t)
	if err != nil {
		return nil, err
	}
	option, err := clientOptions(ctx, t)
	if err != nil {
		return nil, err
	}
	cfg.User, cfg.Passwd = cmp.Or(cfg.User, option.user), option.password
	db := &server{target: t, config: cfg, lockTries: lockTries, loadRows: loadRows, splitRows: splitRows}
	several := cfg.Clone()
	several.MultiStatements = true
	for _, p := range []struct {
		pool   **sql.DB
		config *mysql.Config
		use    purpose
	}{{&db.pool, cfg, inserting}, {&db.keep, cfg, maintaining}, {&db.changes, several, maintaining}} {
		connector, err := db.connector(p.config, p.use)
		if err != nil {
			return nil, err
		}
		*p.pool = sql.OpenDB(connector)
	}
	db.reads, db.talks = sql.OpenDB(readConnector{db: db}), sql.OpenDB(readConnector{db: db, several: true})
	db.keep.SetConnMaxIdleTime(maxIdle)
	db.keep.SetMaxIdleConns(keepIdle)
	db.changes.SetConnMaxIdleTime(maxIdle)
	if err := db.connect(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return newDB(db), nil
}

// Dry checks the target like Open, and returns a DB that renders the statements which a DB of Open
// would execute. It accesses neither a server nor a file: the target's scheme says which kind of
// server it is.
func Dry(t engine.Target) (engine.DB, error) {
	if _, err := configOf(t); err != nil {
		return nil, err
	}
	// As in information_schema.ENGINES, so that a dry run and a run show the same statements.
	storage := t.Query.Get("engine")
	switch strings.ToLower(storage) {
	case "", "innodb":
		storage = "InnoDB"
	case "rocksdb":
		storage = "ROCKSDB"
	}
	d := dialect{mariadb: t.Scheme == "mariadb", storage: storage}
	d.remembers, d.unchecked = !d.mariadb, !d.mariadb
	info := engine.Info{Engine: "mysql", Storage: storage, Target: t.String()}
	if d.mariadb {
		info.Engine = "mariadb"
	}
	return engine.Dry(info, capabilities(d), d), nil
}

// configOf converts a target to a driver configuration without a password.
func configOf(t engine.Target) (*mysql.Config, error) {
	if err := t.Options("socket", "tls", "engine", "password-file"); err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.DBName = t.User, t.Path
	if t.Path == "" || strings.Contains(t.Path, "/") {
		return nil, engine.Hinted(fmt.Errorf("target %s: it needs the name of one database", t),
			"%s://USER@HOST:3306/DATABASE", t.Scheme)
	}
	switch socket := t.Query.Get("socket"); {
	case socket != "":
		cfg.Net, cfg.Addr = "unix", socket
	case t.Host == "":
		return nil, engine.Hinted(fmt.Errorf("target %s: it names neither a host nor a socket", t),
			"%s://USER@HOST:3306/%s or ?socket=/run/mysqld/mysqld.sock", t.Scheme, t.Path)
	default:
		host, port, err := net.SplitHostPort(t.Host)
		if err != nil {
			host, port = strings.Trim(t.Host, "[]"), "3306"
		}
		cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(host, port)
	}
	tls, err := t.Choice("tls", "false", "true", "skip-verify", "preferred")
	if err != nil {
		return nil, err
	}
	cfg.TLSConfig = tls
	cfg.Timeout = connectTimeout
	cfg.Logger = &mysql.NopLogger{} // errors are returned
	return cfg, nil
}

// connect reads the server's version, settings and features.
func (db *server) connect(ctx context.Context) error {
	var full, datadir, pidFile string
	var folds int
	err := db.pool.QueryRowContext(ctx,
		"SELECT VERSION(), @@datadir, @@pid_file, @@max_allowed_packet, @@lower_case_table_names").
		Scan(&full, &datadir, &pidFile, &db.maxPacket, &folds)
	if err != nil {
		return db.unreachable(err)
	}
	db.info = engine.Info{Engine: "mysql", Target: db.target.String()}
	if strings.Contains(strings.ToLower(full), "mariadb") {
		db.info.Engine = "mariadb"
	}
	db.info.Version, _, _ = strings.Cut(full, "-")
	if db.info.Storage, err = db.storage(ctx, db.target.Query.Get("engine")); err != nil {
		return err
	}
	db.dialect = dialect{mariadb: db.info.Engine == "mariadb", storage: db.info.Storage, folds: folds != 0}
	settings, err := db.Catalog().Settings(ctx)
	if err != nil {
		return err
	}
	if db.dialect.unchecked, err = db.probeUnchecked(ctx); err != nil {
		return err
	}
	if db.dialect.listed, err = db.probeSessions(ctx); err != nil {
		return err
	}
	_, db.dialect.remembers = settings[statsExpiry]
	db.dialect.statements = settings["log_bin"] == "ON" && settings["binlog_format"] == "STATEMENT"
	db.info.Durability, db.info.CrashLoss = durability(settings, db.info.Storage), crashLoss(settings, db.info.Storage)
	size := "innodb_buffer_pool_size"
	if db.dialect.rocksdb() {
		size = "rocksdb_block_cache_size"
	}
	db.info.CacheBytes, _ = strconv.ParseInt(settings[size], 10, 64)
	host := ""
	if db.config.Net == "tcp" {
		host, _, _ = net.SplitHostPort(db.config.Addr)
	}
	db.info.SetLocal(host, datadir, pidFile)
	return nil
}

// probeUnchecked reports whether EXCHANGE PARTITION supports WITHOUT VALIDATION, as MySQL does, and
// MariaDB from 11.4 on. A server without the clause reports a syntax error; a server with it
// reports that the tables don't exist.
func (db *server) probeUnchecked(ctx context.Context) (bool, error) {
	_, err := db.pool.ExecContext(ctx, "ALTER TABLE rowmill_no_such_table EXCHANGE PARTITION p WITH TABLE rowmill_no_such_table_either WITHOUT VALIDATION")
	var server *mysql.MySQLError
	if err != nil && !errors.As(err, &server) {
		return false, db.unreachable(err)
	}
	return !serverError(err, errSyntax), nil
}

// storage returns the name of the storage engine for new tables: want or, if want is "", the
// server's default. If the server doesn't have that engine, storage returns ErrUnsupported.
func (db *server) storage(ctx context.Context, want string) (string, error) {
	var found string
	var have []string
	err := engine.Each(ctx, db, db.pool, func(r *sql.Rows) error {
		var name, support string
		err := r.Scan(&name, &support)
		switch {
		case support == "NO" || support == "DISABLED":
		case want == "" && support == "DEFAULT", want != "" && strings.EqualFold(name, want):
			found = name
		default:
			have = append(have, name)
		}
		return err
	}, "SELECT ENGINE, SUPPORT FROM information_schema.ENGINES ORDER BY ENGINE")
	if err != nil {
		return "", fmt.Errorf("list storage engines: %w", err)
	}
	if found != "" {
		return found, nil
	}
	err = fmt.Errorf("target %s: the server has no storage engine %q; it has %s", db.target, want, strings.Join(have, ", "))
	if strings.EqualFold(want, "rocksdb") {
		err = engine.Hinted(err, "apt install mariadb-plugin-rocksdb, then INSTALL SONAME 'ha_rocksdb'")
	}
	return "", engine.Classed(engine.ErrUnsupported, err)
}

func (db *server) unreachable(err error) error {
	where := db.config.Addr
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		switch server.Number {
		case errUnknownDatabase:
			return engine.Hinted(fmt.Errorf("connect to %s: %w", where, err), "CREATE DATABASE %s", dialect{}.Quote(db.config.DBName))
		case 1045, 1698: // ER_ACCESS_DENIED_ERROR
			return engine.Hinted(fmt.Errorf("connect to %s: %w", where, err), "MYSQL_PWD, ~/.my.cnf or ?password-file=FILE for the password of %q", db.config.User)
		}
		return fmt.Errorf("connect to %s: %w", where, classify(err))
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return engine.Hinted(engine.Classed(engine.ErrUnreachable,
		fmt.Errorf("no answer from %s as user %q over %s: %w", where, db.config.User, db.config.Net, err)),
		"check that the server runs and listens there; a private one to try things is --target 'sandbox:mariadb'")
}

func (db *server) Info() engine.Info                 { return db.info }
func (db *server) Dialect() engine.Dialect           { return db.dialect }
func (db *server) Capabilities() engine.Capabilities { return capabilities(db.dialect) }

// swapRows is the number of rows that the server can validate in about 200 ms during an exchange
// into a partition: MariaDB 10.11 took 0.33 s for a million rows of 60 bytes.
const swapRows = 500_000

func capabilities(d dialect) engine.Capabilities {
	var swap int64
	if !d.unchecked {
		swap = swapRows
	}
	// The cost of open partitions was measured with MySQL 8.0 and MariaDB 10.11, on tables with 2
	// indexes. MySQL's connections share most of the memory for partitions.
	open := engine.OpenCost{Base: 85 << 20, Connection: 119 << 10, Partition: 34 << 10, Each: 1.33 * (1 << 10)}
	if d.mariadb {
		open = engine.OpenCost{Base: 76 << 20, Connection: 90 << 10, Partition: 22 << 10, Each: 7.4 * (1 << 10)}
	}
	return engine.Capabilities{
		Open:       open,
		SwapRows:   swap,
		LastName:   true,
		Methods:    []engine.Method{engine.Multi, engine.Single, engine.Prepared, engine.Load},
		Rolling:    true,
		MaxPeriods: 8192, // MySQL's and MariaDB's limit for one table
		Stores:     true,
		Blocks:     true,
		// MySQL has its catalog in InnoDB.
		SnapshotCatalog:   !d.mariadb,
		MergesUntriggered: d.mariadb,
	}
}

// lockTries is the number of attempts for a step that doesn't get its lock. Each attempt waits only
// lockWait seconds, because new statements queue behind it.
const lockTries = 20

// Apply implements engine.DB. DDL runs on a separate connection with a short lock
// wait: a waiting ALTER blocks every new statement on its table.
func (db *server) Apply(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, db.lockTries, steps)
}

func (db *server) apply(ctx context.Context, tries int, steps []engine.Step) error {
	conn, err := db.keep.Conn(ctx)
	if err != nil {
		return db.unreachable(err)
	}
	defer conn.Close()
	for _, s := range steps {
		var changed bool
		err := engine.RetryLocks(ctx, tries, func() (err error) {
			changed, err = db.tryChange(ctx, s)
			return err
		})
		if err != nil {
			return err
		}
		if changed {
			continue
		}
		statements, err := db.dialect.Render(s)
		if err != nil {
			return err
		}
		for _, q := range statements {
			err := engine.RetryLocks(ctx, tries, func() error {
				_, err := conn.ExecContext(ctx, q)
				return classify(err)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", engine.FirstWords(q), err)
			}
		}
	}
	return nil
}

func (db *server) Close() error {
	return errors.Join(db.leases.Close(), unlessLost(db.reads.Close()), unlessLost(db.talks.Close()), unlessLost(db.changes.Close()), unlessLost(db.keep.Close()), unlessLost(db.pool.Close()))
}

// unlessLost ignores the error of closing a connection that the server has already ended.
func unlessLost(err error) error {
	if errors.Is(classify(err), engine.ErrConnectionLost) {
		return nil
	}
	return err
}

// Scan implements engine.DB. It uses the binary protocol, because a FLOAT loses digits as text.
func (db *server) Scan(ctx context.Context, t *engine.Table, part *rolling.Partition, fn func(*engine.Batch) error) error {
	statements, err := db.dialect.Render(engine.Select{Table: t, Partition: part})
	if err != nil {
		return err
	}
	c, err := db.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.watch.Begin(ctx); err != nil {
		return err
	}
	defer c.watch.End()
	return engine.Reading(ctx, t, fn, classify, func(fn func(*engine.Batch) error) error {
		return c.scan(statements[0], t.Columns, fn)
	})
}

func (c *conn) scan(query string, cols []engine.Column, fn func(*engine.Batch) error) error {
	stmt, err := c.conn.Prepare(query)
	if err != nil {
		return err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := engine.ScanDriverRows(rows, cols, fn); err != nil {
		// Rows.Close would first read all remaining rows.
		return errors.Join(err, unlessLost(c.net.Close()))
	}
	return errors.Join(rows.Close(), stmt.Close())
}
