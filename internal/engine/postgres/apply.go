package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

// lockTries is how many times a step is tried when its lock is not granted.
// Each try waits lockWait, so a blocked step fails after about half a minute,
// and new statements never queue behind it for longer than one try.
const lockTries = 15

// Apply implements engine.DB. DDL runs on a separate connection with a short
// lock timeout, because a waiting ALTER blocks every new statement on its table.
func (db *DB) Apply(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, db.lockTries, steps)
}

// apply tries each step up to the given number of times.
func (db *DB) apply(ctx context.Context, tries int, steps []engine.Step) error {
	c, err := db.dialSession(ctx, engine.Session{Maintenance: true})
	if err != nil {
		return err
	}
	defer discard(c)
	for _, s := range steps {
		known := false
		err := db.retrying(ctx, tries, func() (err error) {
			known, err = db.change(ctx, c, s)
			return err
		})
		if err != nil {
			return err
		}
		if known {
			continue
		}
		statements, err := db.dialect.Render(s)
		if err != nil {
			return err
		}
		if drop, ok := s.(engine.DropTable); ok && drop.Table.Rolling() {
			if err := db.retrying(ctx, tries, func() error { return db.dropOrphans(ctx, c, drop.Table) }); err != nil {
				return err
			}
		}
		for len(statements) > 0 {
			n := transactionLength(statements)
			if err := db.retrying(ctx, tries, func() error { return db.transact(ctx, c, statements[:n]...) }); err != nil {
				return err
			}
			statements = statements[n:]
		}
	}
	return nil
}

// transactionLength returns how many statements, counted from the first, form
// one transaction.
func transactionLength(statements []string) int {
	if statements[0] != beginStatement {
		return 1
	}
	for i, q := range statements {
		if q == commitStatement {
			return i + 1
		}
	}
	return len(statements)
}

// retrying calls fn again while it fails with a lock timeout, up to tries times.
func (db *DB) retrying(ctx context.Context, tries int, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if !errors.Is(err, engine.ErrLockTimeout) || try >= tries {
			return err
		}
		select { // let the statements that queued behind the lock pass
		case <-time.After(time.Duration(50+try*50) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transact sends the statements one by one.
func (db *DB) transact(ctx context.Context, c *pgconn.PgConn, statements ...string) error {
	for _, q := range statements {
		if err := db.exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// atOnce sends the statements of a transaction as one message, so that the
// server does not wait for rowmill while it holds a lock that others wait for.
func (db *DB) atOnce(ctx context.Context, c *pgconn.PgConn, statements []string) error {
	return db.exec(ctx, c, statements...)
}

// exec sends statements as one message. A newline ends each statement, because
// it may end in a line comment.
func (db *DB) exec(ctx context.Context, c *pgconn.PgConn, statements ...string) error {
	if db.before != nil {
		db.before(c, statements)
	}
	results, err := c.Exec(ctx, strings.Join(statements, "\n;")).ReadAll()
	if err == nil {
		return nil
	}
	failed := statements[min(len(results), len(statements)-1)]
	err = &statementError{failed, classifyIn(ctx, err)}
	if !c.IsClosed() && c.TxStatus() != 'I' {
		_, rollback := c.Exec(ctx, "ROLLBACK").ReadAll()
		err = errors.Join(err, rollback)
	}
	return err
}

// A statementError is an error with the statement that failed.
type statementError struct {
	statement string
	err       error
}

func (e *statementError) Error() string { return engine.FirstWords(e.statement) + ": " + e.err.Error() }
func (e *statementError) Unwrap() error { return e.err }
