package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A loader inserts rows of several tables in one transaction.
//
// All writers take turns on the DB's connection. A transaction holds the turn from Begin until
// Commit, Reset, Close, or an error that ends it. Meanwhile the caller must not wait for another
// operation that writes through the same DB, such as a Writer, Try, or another loader: that would
// be a deadlock. Begin waits for the turn for a limited time, a Writer until its context ends.
//
// Each Insert except the first of a transaction has a savepoint. SQLite copies every page at its
// first change after the savepoint, so that rows take up to twice as long with three secondary
// indexes.
type loader struct {
	db     *database
	tables map[*engine.Table]*destination
	schema int64     // PRAGMA schema_version of the tables, -1 before the first
	held   bool      // a transaction holds the turn
	began  time.Time // when it acquired the file's lock
	saved  bool      // the current Insert has a savepoint
}

const (
	savepointStatement = "SAVEPOINT rowmill"
	releaseStatement   = "RELEASE rowmill"
	backStatement      = "ROLLBACK TO rowmill"

	// mostTables limits the number of cached destinations.
	mostTables = 100
)

func (db *database) Loader(ctx context.Context) (engine.Loader, error) {
	return engine.NewLoader(db, &loader{db: db, tables: map[*engine.Table]*destination{}, schema: -1}), ctx.Err()
}

func (l *loader) Enter(ctx context.Context) error { return ctx.Err() }

func (l *loader) Leave(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return errors.Join(err, l.end())
}

func (l *loader) Lost() bool { return false }

// Begin implements engine.LoaderConn. It waits three times: for the end of a gap (see pool.go),
// then up to busyTimeout for this process's other transactions, and then, as any statement does,
// for a lock of another process. The end of ctx interrupts only the first two waits.
func (l *loader) Begin(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, busyTimeout*time.Millisecond)
	defer cancel()
	if err := l.db.loads.wait(ctx); err != nil {
		return err
	}
	if err := l.db.lock(bounded); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = engine.Classed(engine.ErrLockTimeout, fmt.Errorf("%s: another transaction of this process is open", l.db.path))
		}
		return err
	}
	l.held = true
	return l.start()
}

// start begins a transaction. The caller holds the turn.
func (l *loader) start() error {
	if err := l.db.run(beginStatement); err != nil {
		return err
	}
	if l.began.IsZero() {
		l.began = time.Now()
	}
	version, err := queryInt(l.db.write, "PRAGMA schema_version")
	if err == nil && version != l.schema {
		l.forget() // this or another process may have created or dropped periods
		l.schema = version
	}
	return err
}

// end rolls back the open transaction, if any, and releases the turn.
func (l *loader) end() error {
	if !l.held {
		return nil
	}
	l.held = false
	defer l.db.unlock()
	err := l.db.rollback()
	if !l.began.IsZero() {
		l.db.loads.loaded(l.began)
		l.began = time.Time{}
	}
	return err
}

func (l *loader) Commit(context.Context) error {
	if err := l.db.run(commitStatement); err != nil {
		return err
	}
	return l.end()
}

func (l *loader) Reset(context.Context) error { return l.end() }

// Close implements engine.LoaderConn. It doesn't wait for its turn on the connection, because
// SQLite locks the connection while it frees a statement.
func (l *loader) Close() error {
	l.forget()
	return l.end()
}

// forget closes the prepared statements and forgets the periods.
func (l *loader) forget() {
	for _, d := range l.tables {
		d.forget()
	}
	clear(l.tables)
}

// destination returns the destination of a table's rows.
func (l *loader) destination(t *engine.Table) (*destination, error) {
	drop := func(d *destination) error { d.forget(); return nil }
	return engine.Cached(l.tables, mostTables, t, drop, func() (*destination, error) {
		without := *t // SQLite assigns the key
		without.Columns, without.ServerKey = t.Inserted(), ""
		without.Ignore = t.Ignore || t.Update // see d.update
		d, err := l.db.destination(&without, engine.Prepared)
		if err == nil && len(t.Replaced()) > 0 {
			updates := without
			updates.Ignore = false
			d.update, err = l.db.destination(&updates, engine.Prepared)
		}
		return d, err
	})
}

func (l *loader) Insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int, more bool) (engine.Ack, error) {
	d, err := l.destination(t)
	if err == nil {
		err = d.fits(b)
	}
	if err != nil {
		return engine.Ack{}, err
	}
	delete(l.db.nextKey, t.Name) // set by a writer; these rows may change it
	l.saved = false
	if more {
		if err := l.db.run(savepointStatement); err != nil {
			return engine.Ack{}, err
		}
		l.saved = true
	}
	n, err := d.insert(ctx, b, from, to, 0)
	ack := ackOf(n, to-from, d.table)
	if err == nil && ack.Skipped > 0 && d.update != nil {
		// The rows just inserted have these values already: the update changes only the other rows.
		ack.Updated, err = d.update.insert(ctx, b, from, to, 0)
		ack.Skipped -= ack.Updated
	}
	if err == nil && more {
		err = l.db.run(releaseStatement)
	}
	return ack, err
}

// Undo implements engine.LoaderConn. Without a savepoint, it rolls back the transaction
// and begins a new one. Other processes may write between the two.
func (l *loader) Undo() error {
	if !l.saved {
		if err := l.db.rollback(); err != nil {
			return err
		}
		return l.start()
	}
	if l.db.write.AutoCommit() { // ON CONFLICT ROLLBACK, or a trigger with RAISE(ROLLBACK)
		return errors.New("the table rolled the whole transaction back")
	}
	if err := l.db.run(backStatement); err != nil {
		return err
	}
	return l.db.run(releaseStatement)
}

// Has implements engine.LoaderConn. It uses the connection that inserts: without a WAL,
// other connections would wait for that connection.
func (l *loader) Has(_ context.Context, rows []engine.Rows) ([]bool, error) {
	has := make([]bool, len(rows))
	for i, r := range rows {
		var equal []string
		for _, c := range r.Table.Inserted() {
			equal = append(equal, dialect{}.Quote(c.Name)+" = ?")
		}
		s, err := l.db.handle.prepare("SELECT 1 FROM " + dialect{}.Quote(r.Table.Name) + " WHERE " + strings.Join(equal, " AND ") + " LIMIT 1")
		if err != nil {
			return nil, err
		}
		n, err := s.run((&encoder{}).appendBound(nil, r.Batch, 0, 0), len(equal), 1)
		s.close()
		if err != nil {
			return nil, err
		}
		has[i] = n > 0
	}
	return has, nil
}
