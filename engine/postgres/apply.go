package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/engine"
)

// lockTries is how often a step that didn't get its lock is tried again. Each
// try waits lockWait, so a blocked step fails after about half a minute, and
// new statements are never queued behind it for longer than one.
const lockTries = 15

// Apply implements engine.DB. DDL runs on a connection of its own with a short
// lock wait: a waiting ALTER holds up every new statement on its table.
func (db *DB) Apply(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, db.lockTries, steps)
}

// apply tries each step a number of times.
func (db *DB) apply(ctx context.Context, tries int, steps []engine.Step) error {
	c, err := db.dialSession(ctx, engine.Session{Maintenance: true})
	if err != nil {
		return err
	}
	defer discard(c)
	for _, s := range steps {
		statements, err := db.dialect.Render(s)
		if err != nil {
			return err
		}
		for len(statements) > 0 {
			n := transactionLength(statements)
			if err := db.retrying(ctx, c, tries, s, statements[:n]); err != nil {
				return err
			}
			statements = statements[n:]
		}
	}
	return nil
}

// transactionLength is how many of the statements, from the first on, are one
// transaction.
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

// retrying runs a transaction, again and again where it doesn't get a lock.
func (db *DB) retrying(ctx context.Context, c *pgconn.PgConn, tries int, s engine.Step, statements []string) error {
	for try := 1; ; try++ {
		err := db.transact(ctx, c, statements)
		var server *pgconn.PgError
		if drop, ok := s.(engine.DropPartition); ok && errors.As(err, &server) && server.Code == pendingDetach {
			var done bool
			if done, err = db.finishDetach(ctx, c, drop); err == nil && done {
				return nil
			}
		} else if err == nil {
			return nil
		}
		if err != nil && !errors.Is(err, engine.ErrLockTimeout) || try >= tries {
			return err
		}
		select { // let the statements that queued behind the lock pass
		case <-time.After(time.Duration(50+try*50) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (db *DB) transact(ctx context.Context, c *pgconn.PgConn, statements []string) error {
	for _, q := range statements {
		if _, err := c.Exec(ctx, q).ReadAll(); err != nil {
			err = fmt.Errorf("%s: %w", firstWords(q), classifyIn(ctx, err))
			if !c.IsClosed() && c.TxStatus() != 'I' {
				_, rollback := c.Exec(ctx, "ROLLBACK").ReadAll()
				err = errors.Join(err, rollback)
			}
			return err
		}
	}
	return nil
}

// pendingDetach is the SQLSTATE object_not_in_prerequisite_state, which DETACH
// gives where one that was broken off is not yet finished, of this partition
// or of another of the table.
const pendingDetach = "55000"

// finishDetach finishes what detaches were broken off: a wait for a lock that
// timed out leaves one, as a crash does. A partition that isn't the step's
// stays, as a table of its own. It reports whether the step's was among them.
func (db *DB) finishDetach(ctx context.Context, c *pgconn.PgConn, s engine.DropPartition) (done bool, err error) {
	results, err := c.Exec(ctx, db.dialect.pending(s.Table)).ReadAll()
	if err != nil {
		return false, fmt.Errorf("look for detaches to finish: %w", classifyIn(ctx, err))
	}
	for _, row := range results[0].Rows {
		child := string(row[0])
		q := db.dialect.detach(s.Table, child) + " FINALIZE"
		if err := db.transact(ctx, c, []string{q}); err != nil {
			return false, err
		}
		done = done || child == childName(s.Table, s.Drop)
	}
	return done, nil
}

// firstWords shortens a statement for an error message.
func firstWords(q string) string {
	const most = 80
	q = strings.Join(strings.Fields(q), " ")
	if len(q) > most {
		q = q[:most] + "..."
	}
	return q
}
