// Package sqlite is the engine for SQLite, embedded in rowmill.
//
// A rolling table consists of one table per period, TABLE_PERIOD, and a UNION
// ALL view with the table's own name, which any SQLite client can read. The table
// rowmill_periods stores the bounds of the periods.
//
// A target is sqlite:PATH; without a path it is a temporary file, removed by Close. Options: cache
// (the page cache, 2MB by default, as in SQLite), durability (full, relaxed or none: PRAGMA
// synchronous FULL, NORMAL or OFF), journal (wal, delete, truncate, persist, memory or off).
//
// SQLite allows one writer at a time. All writers of a DB take turns on one
// connection, and so share one page cache of the configured size.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// DB is an open SQLite file.
type DB struct {
	*database
	catalog
	sizer
	reader
	recipes
	changer
}

func newDB(d *database) *DB {
	return &DB{database: d, catalog: catalog{d}, sizer: sizer{d}, reader: reader{database: d}, changer: changer{d}}
}

// A database has the connections, and runs statements.
type database struct {
	path    string
	tempDir string // removed at Close
	info    engine.Info
	pragmas []string

	// write is the connection that changes the file, turn the lock on it.
	write  *connection
	handle handle // of write
	turn   chan struct{}
	// Protected by turn: for each table the next key that the engine assigns, the prepared
	// statements for batches, and the number of schema changes.
	nextKey map[string]int64
	stmts   map[string]stmt
	epoch   int64

	bound bool      // see Bound
	lent  *sql.Conn // the pool's connection that a bound DB uses as write during a turn

	pool    *sql.DB       // returned by SQL
	reads   *sql.DB       // for queries in pieces
	txTurn  chan struct{} // lock for pool's write transactions
	pace    pace
	loads   pace // for loaders
	schemas schemas
}

// defaultCache is SQLite's own default page cache: 2000 KiB.
const defaultCache = 2000 << 10

// busyTimeout is how long, in milliseconds, a statement waits for a lock of another process.
const busyTimeout = 10000

// Open opens the target's file, or creates it.
func Open(ctx context.Context, t engine.Target) (_ *DB, err error) {
	info, pragmas, err := optionsOf(t)
	if err != nil {
		return nil, err
	}
	db := &database{path: t.Path, info: info, pragmas: pragmas, turn: make(chan struct{}, 1), txTurn: make(chan struct{}, 1), nextKey: map[string]int64{}, stmts: map[string]stmt{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if db.path == "" {
		if db.tempDir, err = os.MkdirTemp("", "rowmill-sqlite-"); err != nil {
			return nil, fmt.Errorf("target %s: %w", t, err)
		}
		db.path = filepath.Join(db.tempDir, "rowmill.db")
	}
	db.info.DataDir = filepath.Dir(db.path)
	if db.write, err = db.connect(ctx, db.pragmas); err != nil {
		return nil, err
	}
	if err := registerFunctions(db.write); err != nil {
		return nil, fmt.Errorf("open %s: %w", db.path, err)
	}
	if db.handle, err = handleOf(db.write); err != nil {
		return nil, fmt.Errorf("open %s: %w", db.path, err)
	}
	db.openPool()
	return newDB(db), nil
}

// Dry checks the target as Open does and returns a DB that renders the same
// statements, but opens no file.
func Dry(t engine.Target) (engine.DB, error) {
	info, pragmas, err := optionsOf(t)
	if err != nil {
		return nil, err
	}
	return engine.Dry(info, capabilities(), dialect{pragmas: pragmas}), nil
}

// optionsOf checks a target and returns the DB's Info and the pragmas of each
// connection that writes.
func optionsOf(t engine.Target) (info engine.Info, pragmas []string, err error) {
	if t.Host != "" || t.User != "" {
		return info, nil, engine.Hinted(fmt.Errorf("target %s: SQLite is a file, not a host", t), "sqlite:PATH, or sqlite:/PATH for an absolute one")
	}
	if t.Path == ":memory:" {
		return info, nil, engine.Hinted(fmt.Errorf("target %s: a database in memory belongs to one connection, and rowmill opens several", t),
			"sqlite: for a temporary file, or a path in /dev/shm")
	}
	if err := t.Options("cache", "durability", "journal"); err != nil {
		return info, nil, err
	}
	cache, err := t.Bytes("cache", defaultCache)
	if err != nil {
		return info, nil, err
	}
	if cache < 64<<10 {
		return info, nil, fmt.Errorf("target %s: cache=%s is less than the 64K that SQLite can work with", t, t.Query.Get("cache"))
	}
	durability, err := t.Choice("durability", "full", "relaxed", "none")
	if err != nil {
		return info, nil, err
	}
	journal, err := t.Choice("journal", "wal", "delete", "truncate", "persist", "memory", "off")
	if err != nil {
		return info, nil, err
	}
	info = engine.Info{Engine: "sqlite", Version: version(), Target: t.String(), CacheBytes: cache, Durability: durability}
	return info, []string{
		fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout),
		"PRAGMA journal_mode = " + strings.ToUpper(journal),
		"PRAGMA synchronous = " + map[string]string{"full": "FULL", "relaxed": "NORMAL", "none": "OFF"}[durability],
		fmt.Sprintf("PRAGMA cache_size = -%d", cache>>10),
	}, nil
}

// connect opens a connection and executes pragmas on it.
func (db *database) connect(ctx context.Context, pragmas []string) (*connection, error) {
	return db.connectWith(ctx, "", pragmas)
}

// connectWith is connect with driver options.
func (db *database) connectWith(ctx context.Context, options string, pragmas []string) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir := filepath.Dir(db.path)
	if st, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, engine.Hinted(engine.Classed(engine.ErrUnreachable, fmt.Errorf("open %s: no such directory: %s", db.path, dir)), "mkdir -p %s", dir)
	} else if err == nil && !st.IsDir() {
		return nil, engine.Classed(engine.ErrUnreachable, fmt.Errorf("open %s: %s is not a directory", db.path, dir))
	}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: db.path}).EscapedPath()}
	conn, err := openConnection(u.String() + options)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", db.path, classify(err))
	}
	for _, p := range pragmas {
		if _, err := conn.Exec(p, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %s: %w", db.path, p, classify(err)), conn.Close())
		}
	}
	return conn, nil
}

// openReader opens a connection for queries, with SQLite's own small cache.
func (db *database) openReader(ctx context.Context) (*connection, error) {
	return db.connect(ctx, db.pragmas[:1])
}

// lock acquires the turn on the write connection.
func (db *database) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case db.turn <- struct{}{}:
		var err error
		switch {
		case db.bound:
			err = db.borrow(ctx)
		case db.write == nil:
			err = fmt.Errorf("%s is closed", db.path)
		}
		if err != nil {
			<-db.turn
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (db *database) unlock() {
	if db.lent != nil {
		db.giveBack()
	}
	<-db.turn
}

func (db *database) Info() engine.Info                 { return db.info }
func (db *database) Dialect() engine.Dialect           { return dialect{pragmas: db.pragmas} }
func (db *database) Capabilities() engine.Capabilities { return capabilities() }

func capabilities() engine.Capabilities {
	return engine.Capabilities{
		Methods:      []engine.Method{engine.Prepared, engine.Multi, engine.Single},
		Rolling:      true,
		Gaps:         true,
		MaxPeriods:   maxPeriods,
		Embedded:     true,
		Stores:       true,
		SerialWrites: true,
		PeriodTables: true,
		AutoWholeKey: true,
		RowValues:    true,
		Untyped:      true,
	}
}

// Apply implements engine.DB. Each step is one transaction.
func (db *database) Apply(ctx context.Context, steps ...engine.Step) error {
	if err := db.lock(ctx); err != nil {
		return err
	}
	defer db.unlock()
	return db.apply(ctx, steps...)
}

// apply is Apply for a caller that holds the turn.
func (db *database) apply(ctx context.Context, steps ...engine.Step) error {
	db.epoch++
	for _, s := range steps {
		switch s := s.(type) { // keys of a dropped or earlier table of this name are invalid
		case engine.CreateTable:
			delete(db.nextKey, s.Table.Name)
		case engine.DropTable:
			delete(db.nextKey, s.Table.Name)
		}
		statements, err := db.Dialect().Render(s)
		if err != nil {
			return err
		}
		for _, q := range statements {
			if err := ctx.Err(); err != nil {
				return errors.Join(err, db.rollback())
			}
			if _, err := db.write.Exec(q, nil); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", engine.FirstWords(q), classify(err)), db.rollback())
			}
		}
	}
	return nil
}

// rollback rolls back the open transaction, if any. Some errors have already rolled it back.
func (db *database) rollback() error {
	if db.write.AutoCommit() {
		return nil
	}
	_, err := db.write.Exec("ROLLBACK", nil)
	return classify(err)
}

func (db *database) Close() error {
	var err error
	if db.pool != nil {
		err = errors.Join(classify(db.reads.Close()), classify(db.pool.Close()))
	}
	db.turn <- struct{}{}
	defer db.unlock()
	for _, s := range db.stmts {
		s.close()
	}
	clear(db.stmts)
	if db.write != nil {
		err = errors.Join(err, classify(db.write.Close()))
		db.write = nil
	}
	if db.tempDir != "" {
		err = errors.Join(err, os.RemoveAll(db.tempDir))
	}
	return err
}

func (db *database) Scan(ctx context.Context, t *engine.Table, part *rolling.Partition, fn func(*engine.Batch) error) error {
	conn, err := db.openReader(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	q, err := db.Dialect().Render(engine.Select{Table: t, Partition: part})
	if err != nil {
		return err
	}
	return engine.Reading(ctx, t, fn, classify, func(fn func(*engine.Batch) error) error {
		rows, err := conn.Query(q[0], nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		return engine.ScanDriverRows(rows, t.Columns, fn)
	})
}

// classify marks an error with its class.
func classify(err error) error {
	if err == nil {
		return nil
	}
	code, ok := codesOf(err)
	if !ok {
		if errors.Is(err, driver.ErrBadConn) {
			return engine.Classed(engine.ErrConnectionLost, err)
		}
		return err
	}
	if code.primary() == codeConstraint || code.primary() == codeMismatch || code.primary() == codeTooBig {
		// RAISE in a trigger also reports a constraint error.
		err = engine.Classed(engine.ErrRefused, err)
	}
	switch {
	case code.result == codePrimaryKey, code.result == codeUnique, code.result == codeRowID:
		return engine.Classed(engine.ErrDuplicateKey, err)
	case strings.Contains(err.Error(), outsideText):
		return engine.Classed(engine.ErrNoPartition, err)
	case code.primary() == codeFull:
		return engine.Classed(engine.ErrDiskFull, err)
	case code.primary() == codeCantOpen, code.primary() == codeNotADB:
		return engine.Classed(engine.ErrUnreachable, err)
	case code.primary() == codeBusy, code.primary() == codeLocked:
		return engine.Classed(engine.ErrLockTimeout, err)
	case code.primary() == codeIOErr && code.errno == syscall.ENOSPC:
		return engine.Classed(engine.ErrDiskFull, err)
	case strings.Contains(err.Error(), "no such table"), strings.Contains(err.Error(), "no such view"):
		return engine.Classed(engine.ErrNoTable, err)
	case strings.Contains(err.Error(), "already exists"):
		return engine.Classed(engine.ErrTableExists, err)
	}
	return err
}
