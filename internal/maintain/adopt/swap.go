package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// errBusy is returned if too many changes remain to be applied under the lock. It is
// retried like a lock that was not granted.
var errBusy = engine.Classed(engine.ErrLockTimeout, errors.New("too many changes are left to repeat"))

// aside returns the name that the source gets in the cut-over.
func (m *mirror) aside() string {
	if m.src.rolls {
		return newName(m.Table.Name)
	}
	return oldName(m.Table.Name)
}

// turned reports whether the cut-over is done.
func (j *job) turned(ctx context.Context, m *mirror) (bool, error) {
	rolls, err := j.swapped(ctx)
	return rolls == m.dst.rolls, err
}

// swap does the cut-over: the source is renamed out of the way, and the target gets
// its name. The wait for the lock is limited. Under the lock, only the last changes
// are applied and the tables renamed.
func (j *job) swap(ctx context.Context, m *mirror, next string) error {
	if err := j.settle(ctx); err != nil {
		return err
	}
	if done, err := j.turned(ctx, m); err != nil || done {
		return err
	}
	if err := errors.Join(m.look(ctx), m.logReturned(ctx)); err != nil {
		return err
	}
	return j.locked(ctx, m.src.name, "change the names", func() error {
		if done, err := j.turned(ctx, m); err != nil || done {
			return err
		}
		if !j.sqlite() || !m.src.rolls {
			if err := j.follow(ctx, m); err != nil {
				return err
			}
		}
		if err := j.emptied(ctx, m); err != nil {
			return err
		}
		switch {
		case j.postgres():
			return j.swapPostgres(ctx, m, next)
		case j.sqlite():
			return j.swapSQLite(ctx, m, next)
		}
		return j.swapMySQL(ctx, m)
	})
}

// emptied detects TRUNCATE, which fires no trigger in MySQL and MariaDB.
func (j *job) emptied(ctx context.Context, m *mirror) error {
	var src, dst int
	one := func(name string, n *int) error {
		return j.DB.Classify(j.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 AS x FROM "+j.q(name)+" LIMIT 1) AS t").Scan(n))
	}
	if err := errors.Join(one(m.src.name, &src), one(m.dst.name, &dst)); err != nil {
		return err
	}
	if src == 0 && dst > 0 && !j.sqlite() {
		// Log entries of rows that are being deleted may not be committed yet.
		keys, err := copier.NewKeys(j.DB, j.data.Key)
		if err != nil {
			return err
		}
		_, _, err = m.same(ctx, keys, nil, nil)
		return err
	}
	return nil
}

// left returns the number of log entries, counting at most lockedRows + 1.
func (m *mirror) left(ctx context.Context, x state.Exec) (n int, err error) {
	err = x.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS x FROM %s LIMIT %d) AS t", m.q(logName(m.Table.Name)), lockedRows+1)).Scan(&n)
	return n, err
}

// drainLocked applies the remaining entries under the lock.
func (m *mirror) drainLocked(ctx context.Context, x state.Exec) error {
	n, err := m.left(ctx, x)
	if err != nil {
		return err
	}
	if n > lockedRows {
		return errBusy
	}
	for n > 0 {
		// All in one batch, so that unique values never conflict in between.
		if n, err = m.drain(ctx, x, lockedRows*2); err != nil {
			return fmt.Errorf("repeat the last changes: %w", err)
		}
	}
	return nil
}

// countersPostgres returns statements that make the target's sequences continue where
// the source's are.
func (m *mirror) countersPostgres(ctx context.Context, x state.Exec, dst *engine.Schema) ([]string, error) {
	var out []string
	for _, c := range m.data.Columns {
		var from, to sql.NullString
		err := x.QueryRowContext(ctx, "SELECT pg_get_serial_sequence($1, $2), pg_get_serial_sequence($3, $2)", m.q(m.src.name), c.Name, m.q(m.dst.name)).Scan(&from, &to)
		if err != nil {
			return nil, fmt.Errorf("ask for the sequence of column %s: %w", c.Name, err)
		}
		switch have := dst.Find(c.Name); {
		case !from.Valid || have == nil:
		case to.Valid && to.String != from.String:
			out = append(out, fmt.Sprintf("SELECT setval(%s, s.last_value, s.is_called) FROM %s AS s", m.text(to.String), from.String))
		case !to.Valid && strings.Contains(have.Default, "nextval"):
			// Both tables use the same sequence, which must survive the old table.
			out = append(out, fmt.Sprintf("ALTER SEQUENCE %s OWNED BY %s.%s", from.String, m.q(m.dst.name), m.q(c.Name)))
		}
	}
	return out, nil
}

// lockPostgres returns the statement that takes the lock of the cut-over.
func (m *mirror) lockPostgres() string {
	return "LOCK TABLE " + m.q(m.src.name) + ", " + m.q(m.dst.name) + " IN ACCESS EXCLUSIVE MODE"
}

// namesPostgres returns the statements that rename the tables.
func (m *mirror) namesPostgres() ([]string, error) {
	out := m.dropTriggers(m.src.name)
	for _, s := range []struct {
		side side
		to   string
	}{{m.src, m.aside()}, {m.dst, m.Table.Name}} {
		have := m.parts
		if !s.side.rolls {
			have = nil
		}
		names, err := m.DB.Dialect().Render(engine.Rename{Table: m.table(s.side), Have: have, To: s.to})
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	return out, nil
}

// swapPostgres renames the tables in one transaction. Sessions waiting for the lock
// resolve the name again afterwards, also for prepared statements.
func (j *job) swapPostgres(ctx context.Context, m *mirror, next string) error {
	if m.src.rolls {
		parts, err := j.DB.Catalog().Partitions(ctx, m.table(m.src))
		if err != nil {
			return err
		}
		m.parts = parts
		defer func() { m.parts = nil }()
	}
	names, err := m.namesPostgres()
	if err != nil {
		return err
	}
	dst, err := j.DB.Describe(ctx, m.dst.name) // before the lock is taken, as it would wait for it
	if err != nil {
		return err
	}
	tx, err := j.DB.SQL().BeginTx(ctx, j.committed())
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after a commit
	if _, err := tx.ExecContext(ctx, m.lockPostgres()); err != nil {
		return err
	}
	if err := j.point("swap: locked"); err != nil {
		return err
	}
	counters, err := m.countersPostgres(ctx, tx, dst)
	if err != nil {
		return err
	}
	if m.src.rolls {
		m.parts = nil // the target has no periods
	}
	if err := m.drainLocked(ctx, tx); err != nil {
		return err
	}
	for _, q := range append(counters, names...) {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), err)
		}
	}
	if err := j.point("swap: renamed"); err != nil {
		return err
	}
	return j.commitAt(ctx, tx, next)
}

// commitAt records the next step in the transaction and commits it.
func (j *job) commitAt(ctx context.Context, tx *sql.Tx, next string) error {
	step := j.change.Step
	if err := j.State.Advance(ctx, tx, j.change, next, j.data); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		j.change.Step = step
		return err
	}
	return nil
}

// swapSQLite renames the tables in one transaction. A view's changes can't be logged,
// so when an adoption is reverted, the rows that differ are also copied in this
// transaction.
func (j *job) swapSQLite(ctx context.Context, m *mirror, next string) error {
	rolls := m.dst
	if m.src.rolls {
		rolls = m.src
	}
	parts, err := j.DB.Catalog().Partitions(ctx, m.table(rolls))
	if err != nil {
		return err
	}
	names, err := m.namesSQLite(parts)
	if err != nil {
		return err
	}
	conn, err := j.DB.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Renaming checks all views and triggers, one of which names a table that is
	// temporarily missing. The pragma can't be set within a transaction.
	if _, err := conn.ExecContext(ctx, "PRAGMA legacy_alter_table = ON"); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA legacy_alter_table = OFF")
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after a commit
	if err := j.point("swap: locked"); err != nil {
		return err
	}
	if m.src.rolls {
		if err := m.catchUp(ctx, tx); err != nil {
			return err
		}
	} else if err := j.checkKeys(ctx, tx, m.src.key, m.src.name); err != nil {
		return err // such rows were inserted after the check
	} else if err := m.drainLocked(ctx, tx); err != nil {
		return err
	}
	for _, q := range names {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), err)
		}
	}
	if err := j.point("swap: renamed"); err != nil {
		return err
	}
	return j.commitAt(ctx, tx, next)
}

// namesSQLite returns the statements that rename the tables.
func (m *mirror) namesSQLite(parts []rolling.Partition) ([]string, error) {
	out := m.dropTriggers(m.src.name)
	first, second := m.src, m.dst
	for _, s := range []struct {
		side side
		to   string
	}{{first, m.aside()}, {second, m.Table.Name}} {
		var have []rolling.Partition
		if s.side.rolls {
			have = parts
		}
		names, err := m.DB.Dialect().Render(engine.Rename{Table: m.table(s.side), Have: have, To: s.to})
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	return out, nil
}

// sentryColumn is the column of the sentry, a table that blocks a premature rename by
// occupying the new name.
const sentryColumn = "rowmill_sentry"

// settle waits for a RENAME that a killed process has left running: MySQL completes
// statements whose client is gone.
func (j *job) settle(ctx context.Context) error {
	lister, ok := j.DB.(engine.SessionLister)
	if !ok {
		return nil
	}
	var here string
	if err := j.DB.SQL().QueryRowContext(ctx, "SELECT DATABASE()").Scan(&here); err != nil {
		return j.DB.Classify(err)
	}
	for {
		sessions, err := lister.Sessions(ctx)
		if err != nil || !slices.ContainsFunc(sessions, func(s engine.ServerSession) bool {
			return s.Database == here && strings.HasPrefix(s.Statement, "RENAME TABLE "+j.q(j.Table.Name)+" TO ")
		}) {
			return err
		}
		if err := engine.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// dropSentry drops a sentry left by a crash. It checks under the table's lock that it
// is the sentry, because then no other table can take its name.
func (j *job) dropSentry(ctx context.Context) error {
	if !j.mysql() {
		return nil
	}
	for _, name := range []string{oldName(j.Table.Name), newName(j.Table.Name)} {
		s, err := j.exists(ctx, name)
		if err != nil {
			return err
		}
		if s == nil || s.Column(sentryColumn) == nil {
			continue
		}
		if err := j.dropLocked(ctx, name); err != nil {
			return fmt.Errorf("drop what keeps the name %s: %w", name, err)
		}
	}
	return nil
}

func (j *job) dropLocked(ctx context.Context, name string) error {
	conn, err := j.DB.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(conn) // releases its lock
	for _, q := range []string{"LOCK TABLES " + j.q(name) + " WRITE", "DELETE FROM " + j.q(name) + " WHERE " + j.q(sentryColumn) + " = 0", "DROP TABLE " + j.q(name)} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return j.DB.Classify(err)
		}
	}
	return nil
}

// mysqlNames returns the statements of the cut-over: sentry, lock and unsentry are
// for the first session, rename is for the second.
func (m *mirror) mysqlNames() (sentry, lock, rename, unsentry string) {
	src, dst, aside, log := m.q(m.src.name), m.q(m.dst.name), m.q(m.aside()), m.q(logName(m.Table.Name))
	lock = fmt.Sprintf("LOCK TABLES %s WRITE, %s AS o WRITE, %s WRITE, %s AS n WRITE, %s WRITE, %s AS l WRITE, %s WRITE", src, src, dst, dst, log, log, aside)
	if m.dst.rolls {
		late := m.q(lateName(m.Table.Name))
		lock += fmt.Sprintf(", %s WRITE, %s AS r WRITE", late, late)
	}
	return "CREATE TABLE " + aside + " (" + sentryColumn + " INT NOT NULL PRIMARY KEY)", lock,
		"RENAME TABLE " + src + " TO " + aside + ", " + dst + " TO " + m.q(m.Table.Name), "DROP TABLE " + aside
}

// swapMySQL does the cut-over by one RENAME, which is atomic. LOCK TABLES blocks the
// writers, but MariaDB doesn't allow RENAME under it. A second connection therefore
// queues its RENAME, ahead of all waiting writers, and runs first when the locks are
// released. Until then, a sentry table occupies the new name: if the first connection
// is lost, the RENAME fails and nothing has changed.
func (j *job) swapMySQL(ctx context.Context, m *mirror) (err error) {
	if err := j.dropSentry(ctx); err != nil {
		return err
	}
	sentry, lock, rename, unsentry := m.mysqlNames()
	if err := j.exec(ctx, sentry); err != nil {
		return err
	}
	holder, err := j.DB.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(holder) // releases its locks in all cases
	renamer, err := j.DB.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(renamer)
	var id int64
	if err := renamer.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return err
	}
	if _, err := holder.ExecContext(ctx, lock); err != nil {
		return err
	}
	if err := j.point("swap: locked"); err != nil {
		return err
	}
	if err := m.drainLocked(ctx, holder); err != nil {
		return err
	}
	if err := m.countersMySQL(ctx, holder); err != nil {
		return err
	}
	// Not bound by ctx: whether the RENAME was done can be checked afterwards, but no
	// lock must be left behind.
	renamed := make(chan error, 1)
	go func() {
		_, err := renamer.ExecContext(context.WithoutCancel(ctx), rename)
		renamed <- err
	}()
	waits, err := j.waitsForLock(ctx, id, renamed)
	if err == nil && waits {
		err = j.point("swap: renaming")
	}
	if err == nil && waits {
		_, err = holder.ExecContext(ctx, unsentry)
	}
	if err == nil && waits {
		err = j.point("swap: sentry gone")
	}
	if err != nil && errors.Is(err, errKilled) {
		discard(holder)
		return errors.Join(err, <-renamed)
	}
	if _, unlock := holder.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); unlock != nil {
		discard(holder) // which also releases them
	}
	return errors.Join(err, j.DB.Classify(<-renamed))
}

// waitFor limits the time until the second connection waits for the lock.
const waitFor = 2 * time.Second

// waitsForLock returns once the connection waits for a table lock, or has ended.
func (j *job) waitsForLock(ctx context.Context, id int64, ended chan error) (bool, error) {
	lister, ok := j.DB.(engine.SessionLister)
	if !ok {
		return false, engine.Classed(engine.ErrUnsupported, errors.New("the server's sessions can't be listed"))
	}
	for deadline := time.Now().Add(waitFor); time.Now().Before(deadline); {
		sessions, err := lister.Sessions(ctx)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(sessions, func(s engine.ServerSession) bool {
			return s.ID == id && strings.Contains(s.State, "table metadata lock")
		}) {
			return true, nil
		}
		select {
		case err := <-ended:
			ended <- err
			return false, nil
		case <-time.After(2 * time.Millisecond):
		}
	}
	return false, engine.Classed(engine.ErrLockTimeout, errors.New("the change of names didn't come to wait for its lock"))
}

// countersMySQL makes the target's AUTO_INCREMENT continue where the source's is, if
// that is beyond the highest value.
func (m *mirror) countersMySQL(ctx context.Context, x state.Exec) error {
	auto := false
	for _, c := range m.data.Columns {
		auto = auto || c.Auto
	}
	if !auto {
		return nil
	}
	if m.DB.Info().Engine == "mysql" {
		// Otherwise MySQL caches these figures for a day.
		if _, err := x.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil {
			return err
		}
	}
	next := func(name string) (n int64, err error) {
		err = x.QueryRowContext(ctx, "SELECT COALESCE(AUTO_INCREMENT, 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", name).Scan(&n)
		return n, err
	}
	have, err := next(m.src.name)
	if err != nil {
		return err
	}
	if n, err := next(m.dst.name); err != nil || n >= have {
		return err
	}
	_, err = x.ExecContext(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", m.q(m.dst.name), have))
	return err
}
