package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

func (db *server) Mirroring(m *engine.Mirror) engine.Mirroring { return mirror{m, db} }

type mirror struct {
	*engine.Mirror
	db *server
}

// attributes queries a table's attributes. Each parameter is the table's name.
const attributes = "WITH t AS (SELECT ENGINE, TABLE_COMMENT, CREATE_OPTIONS FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?), " +
	"c AS (SELECT COLUMN_NAME, COLUMN_DEFAULT, COLUMN_COMMENT, LOWER(EXTRA) AS EXTRA FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?) " +
	"SELECT 'refuse', CONCAT('the server''s binary log has the format ', @@binlog_format, ', which can''t record a copy without locks'), 'SET GLOBAL binlog_format = ROW', '' FROM t WHERE @@log_bin = 1 AND @@binlog_format = 'STATEMENT' " +
	"UNION ALL SELECT 'refuse', CONCAT('its storage engine is ', ENGINE, ', which has no transactions'), 'ALTER TABLE {} ENGINE=InnoDB', '' FROM t WHERE ENGINE IN ('MyISAM', 'Aria', 'MEMORY', 'CSV', 'ARCHIVE', 'MERGE') " +
	"UNION ALL SELECT 'declare', 'its comment', CONCAT('COMMENT = ', QUOTE(TABLE_COMMENT), ' in the declaration'), '' FROM t WHERE TABLE_COMMENT <> '' " +
	"UNION ALL SELECT DISTINCT 'declare', CONCAT('its option ', SUBSTRING_INDEX(o, '=', 1)), CONCAT(o, ' in the declaration'), '' FROM (SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(CREATE_OPTIONS, ' ', n), ' ', -1) AS o " +
	"FROM t JOIN (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8) AS numbers) AS options WHERE o NOT IN ('', 'partitioned') " +
	"UNION ALL SELECT 'declare', CONCAT('the comment of column ', COLUMN_NAME), CONCAT('COMMENT ', QUOTE(COLUMN_COMMENT), ' in the declaration'), '' FROM c WHERE COLUMN_COMMENT <> '' " +
	"UNION ALL SELECT 'declare', CONCAT('the default of column ', COLUMN_NAME), CONCAT('DEFAULT ', COLUMN_DEFAULT, ' in the declaration'), '' FROM c WHERE COLUMN_DEFAULT <> 'NULL' " +
	"UNION ALL SELECT 'declare', CONCAT(word, ' of column ', COLUMN_NAME), 'it in the declaration', '' FROM c JOIN (SELECT 'ON UPDATE' AS word UNION SELECT 'INVISIBLE') AS words WHERE INSTR(EXTRA, LOWER(word)) > 0 " +
	"UNION ALL SELECT 'declare', CONCAT('CHECK constraint ', ROW_NUMBER() OVER ()), 'all CHECK constraints in the declaration', '' FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND CONSTRAINT_TYPE = 'CHECK' " +
	"UNION ALL SELECT DISTINCT 'stay', CONCAT('foreign key ', CONSTRAINT_NAME), 'drop it: a rolling table can have none', '' FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = DATABASE() AND ? IN (TABLE_NAME, REFERENCED_TABLE_NAME) " +
	"UNION ALL SELECT 'stay', CONCAT('trigger ', TRIGGER_NAME), 'drop it, and create it again afterwards', '' FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ? AND TRIGGER_NAME NOT LIKE '%rowmill%'"

func (m mirror) Attributes(table string) (query string, args []any) {
	return attributes, []any{table, table, table, table, table}
}

// NoPosition finds dates whose month or day is zero: sql_mode may allow them.
func (m mirror) NoPosition() string {
	if m.Table.Epoch != 0 {
		return ""
	}
	by := m.Quote(m.Table.By)
	return "MONTH(" + by + ") = 0 OR DAYOFMONTH(" + by + ") = 0"
}

func (mirror) Notes() []string {
	return []string{"TRUNCATE fires no triggers: don't truncate the table during the adoption"}
}

func (m mirror) Tables() []string {
	// Without NULL, a TIMESTAMP would be NOT NULL.
	typeOf := func(c engine.SchemaColumn) string { return m.db.dialect.words().SumColumn(c) + " NULL" }
	out := []string{fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (rowmill_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, %s)",
		m.Quote(m.Log), m.Definitions(m.Logged(), typeOf))}
	if m.Target.Rolls {
		out = append(out, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (rowmill_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, %s, rowmill_reason VARCHAR(200), rowmill_at_us BIGINT, KEY %s (%s))",
			m.Quote(m.Late), m.Definitions(m.Columns, typeOf), m.Quote(m.Late+"__rowmill"), m.List(m.Plain, "")))
	}
	return out
}

func (m mirror) Triggers(context.Context) ([]engine.MirrorTrigger, error) {
	return m.EventTriggers("FOR EACH ROW", ""), nil
}

// triggerAhead is how many seconds in the future a trigger's creation time is set on MariaDB. It is
// more than CREATE TRIGGER may wait for its lock: see CreateTrigger.
const triggerAhead = 10

// CreateTrigger sets the trigger's creation time into the future. MariaDB would set it to the
// beginning of CREATE TRIGGER, and prepares statements again that were prepared before that time. A
// statement prepared while CREATE TRIGGER waited for its lock would count as newer than the
// trigger, run the trigger without the trigger's tables, and fail ("Table ...__rowmill_log doesn't
// exist"). With the later time, such a statement is prepared again, once.
func (m mirror) CreateTrigger(ctx context.Context, t engine.MirrorTrigger) error {
	conn, err := m.db.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer engine.DiscardConn(m.db, conn) // discards its timestamp setting
	statements := t.Statements
	if m.db.dialect.mariadb {
		statements = append([]string{fmt.Sprintf("SET timestamp = UNIX_TIMESTAMP() + %d", triggerAhead)}, statements...)
	}
	if err := engine.ExecEach(ctx, conn, statements); err != nil {
		return engine.Hinted(classify(err), "the privilege TRIGGER; in MySQL with a binary log also log_bin_trust_function_creators = 1")
	}
	return nil
}

func (m mirror) Snapshot(ctx context.Context) (*sql.Tx, error) {
	return m.db.SQL().BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

func (m mirror) ReplayStatements() []string { return m.replay("?") }

// replay returns the statements that apply the log's entries with the given ids. They run under
// LOCK TABLES, which allows a statement to name a table only once, unless it uses an alias.
func (m mirror) replay(ids string) []string {
	src, dst, log, late := m.Quote(m.Source.Name), m.Quote(m.Target.Name), m.Quote(m.Log), m.Quote(m.Late)
	where := "rowmill_id IN (" + ids + ")"
	rows := func(of []engine.SchemaColumn, on string) string {
		return fmt.Sprintf("FROM (SELECT DISTINCT %s FROM %s WHERE %s) AS l STRAIGHT_JOIN %s AS o ON %s", m.List(of, ""), log, where, src, on)
	}
	inside := m.Inside("o.")
	out := []string{fmt.Sprintf("DELETE n FROM %s AS l STRAIGHT_JOIN %s AS n ON %s WHERE l.%s", log, dst, m.SameEntry(m.Target.Key, "n.", "l."), where)}
	if m.Target.Rolls {
		out = append(out, fmt.Sprintf("DELETE r FROM %s AS l STRAIGHT_JOIN %s AS r ON %s WHERE l.%s", log, late, m.SameKey(m.Plain, "r.", "l."), where))
	}
	// The statement is a REPLACE, because the target may still have another row with the new row's
	// value of a unique key. That row was deleted in the source, and its key is in the log, so REPLACE
	// may delete it.
	insert := fmt.Sprintf("REPLACE INTO %s (%s) SELECT %s %s", dst, m.List(m.Columns, ""), m.List(m.Columns, "o."),
		rows(m.Logged(), m.SameEntry(m.Source.Key, "o.", "l.")))
	if inside != "" {
		insert += " WHERE " + inside
	}
	out = append(out, insert)
	if inside != "" {
		out = append(out, fmt.Sprintf("INSERT INTO %s (%s, rowmill_reason, rowmill_at_us) SELECT %s, %s, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) %s WHERE (%s) IS NOT TRUE",
			late, m.List(m.Columns, ""), m.List(m.Columns, "o."), quoteText(engine.LateReason), rows(m.Source.Key, m.SameKey(m.Source.Key, "o.", "l.")), inside))
	}
	return append(out, fmt.Sprintf("DELETE FROM %s WHERE %s", log, where))
}

func (m mirror) Replay(ctx context.Context, x engine.Exec, limit int, later engine.Predicate) (int, error) {
	log, comes := m.Quote(m.Log), "0"
	if later.Text != "" {
		comes = "CASE WHEN " + later.Text + " THEN 1 ELSE 0 END"
	}
	var now, discarded []string
	err := engine.Each(ctx, m.db, x, func(r *sql.Rows) error {
		var id, comes int64
		if err := r.Scan(&id, &comes); err != nil {
			return err
		}
		if comes != 0 {
			discarded = append(discarded, fmt.Sprint(id))
		} else {
			now = append(now, fmt.Sprint(id))
		}
		return nil
	}, fmt.Sprintf("SELECT rowmill_id, %s FROM %s ORDER BY rowmill_id LIMIT %d", comes, log, limit), later.Args...)
	if err != nil {
		return 0, err
	}
	var statements []string
	if len(now) > 0 {
		statements = m.replay(strings.Join(now, ", "))
	}
	if len(discarded) > 0 {
		statements = append(statements, fmt.Sprintf("DELETE FROM %s WHERE rowmill_id IN (%s)", log, strings.Join(discarded, ", ")))
	}
	return len(now) + len(discarded), engine.ExecEach(ctx, x, statements)
}

// sentryColumn marks a sentry: a table whose name blocks a premature rename.
const sentryColumn = "rowmill_sentry"

// names returns the statements of the cut-over. The second session executes rename.
func (m mirror) names() (sentry, lock, rename, unsentry string) {
	src, dst, aside, log := m.Quote(m.Source.Name), m.Quote(m.Target.Name), m.Quote(m.Aside), m.Quote(m.Log)
	lock = fmt.Sprintf("LOCK TABLES %s WRITE, %s AS o WRITE, %s WRITE, %s AS n WRITE, %s WRITE, %s AS l WRITE, %s WRITE", src, src, dst, dst, log, log, aside)
	if m.Target.Rolls {
		late := m.Quote(m.Late)
		lock += fmt.Sprintf(", %s WRITE, %s AS r WRITE", late, late)
	}
	return "CREATE TABLE " + aside + " (" + sentryColumn + " INT NOT NULL PRIMARY KEY)", lock,
		m.renameStart() + aside + ", " + dst + " TO " + m.Quote(m.Table.Name), "DROP TABLE " + aside
}

func (m mirror) renameStart() string { return "RENAME TABLE " + m.Quote(m.Source.Name) + " TO " }

func (m mirror) CutOverStatements(final []string) (remark string, statements []string, err error) {
	sentry, lock, rename, unsentry := m.names()
	return "; a second connection waits in RENAME until the first releases its locks",
		slices.Concat([]string{sentry, lock}, final, []string{rename, unsentry, "UNLOCK TABLES"}), nil
}

// CutOver renames both tables by one RENAME, which is atomic. One connection blocks the writers by
// LOCK TABLES. MariaDB allows no RENAME under that lock, so a second connection sends the RENAME,
// which waits ahead of all waiting writers. Meanwhile a sentry table has the name that the source
// gets. Once the RENAME waits, the first connection drops the sentry and unlocks. If it is lost
// before, the RENAME fails, and nothing has changed.
func (m mirror) CutOver(ctx context.Context, c engine.CutOver) error {
	if err := m.dropSentries(ctx); err != nil {
		return err
	}
	sentry, lock, rename, unsentry := m.names()
	if err := engine.ExecEach(ctx, m.db.SQL(), []string{sentry}); err != nil {
		return err
	}
	holder, err := m.db.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer engine.DiscardConn(m.db, holder) // releases its locks in all cases
	renamer, err := m.db.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer engine.DiscardConn(m.db, renamer)
	var id int64
	if err := renamer.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return err
	}
	if _, err := holder.ExecContext(ctx, lock); err != nil {
		return err
	}
	if err := c.Point("swap: locked"); err != nil {
		return err
	}
	if err := c.Final(ctx, holder); err != nil {
		return err
	}
	if err := m.continueCounter(ctx, holder); err != nil {
		return err
	}
	// No lock may stay, so ctx doesn't interrupt the RENAME. Its success can be checked later.
	renamed := make(chan error, 1)
	go func() {
		_, err := renamer.ExecContext(context.WithoutCancel(ctx), rename)
		renamed <- err
	}()
	waits, err := m.db.waitsForLock(ctx, id, renamed)
	if err == nil && waits {
		if err := c.Point("swap: renaming"); err != nil {
			engine.DiscardConn(m.db, holder)
			return errors.Join(err, <-renamed)
		}
		if _, err = holder.ExecContext(ctx, unsentry); err == nil {
			if err := c.Point("swap: sentry gone"); err != nil {
				engine.DiscardConn(m.db, holder)
				return errors.Join(err, <-renamed)
			}
		}
	}
	if _, unlock := holder.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); unlock != nil {
		engine.DiscardConn(m.db, holder) // which also releases its locks
	}
	return errors.Join(err, classify(<-renamed))
}

// behindWait limits the wait until the second connection waits for the first one's lock.
const behindWait = 2 * time.Second

// waitsForLock waits until the connection waits for a table lock, or its statement has ended.
func (db *server) waitsForLock(ctx context.Context, id int64, ended chan error) (bool, error) {
	for deadline := time.Now().Add(behindWait); time.Now().Before(deadline); {
		sessions, err := db.Sessions(ctx)
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
	return false, engine.Classed(engine.ErrLockTimeout, errors.New("the statement that a lock is held for did not begin to wait for it"))
}

// continueCounter sets the target's AUTO_INCREMENT to the source's present value.
func (m mirror) continueCounter(ctx context.Context, x engine.Exec) error {
	if !slices.ContainsFunc(m.Columns, func(c engine.SchemaColumn) bool { return c.Auto }) {
		return nil
	}
	if !m.db.dialect.mariadb {
		// Otherwise MySQL caches these figures for a day.
		if _, err := x.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil {
			return err
		}
	}
	next := func(name string) (n int64, err error) {
		err = x.QueryRowContext(ctx, "SELECT COALESCE(AUTO_INCREMENT, 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", name).Scan(&n)
		return n, err
	}
	have, err := next(m.Source.Name)
	if err != nil {
		return err
	}
	if n, err := next(m.Target.Name); err != nil || n >= have {
		return err
	}
	_, err = x.ExecContext(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", m.Quote(m.Target.Name), have))
	return err
}

// Recover drops the sentry table of a process that was killed. If that process's RENAME still runs,
// Recover first waits for its end: the server completes a statement even if its client is gone.
func (m mirror) Recover(ctx context.Context) error {
	var here string
	if err := m.db.SQL().QueryRowContext(ctx, "SELECT DATABASE()").Scan(&here); err != nil {
		return classify(err)
	}
	for {
		sessions, err := m.db.Sessions(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(sessions, func(s engine.ServerSession) bool {
			return s.Database == here && strings.HasPrefix(s.Statement, m.renameStart())
		}) {
			return m.dropSentries(ctx)
		}
		if err := engine.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// dropSentries drops a sentry table (see sentryColumn) that a crash has left. It locks the sentry
// first, so that no other table can take the sentry's name.
func (m mirror) dropSentries(ctx context.Context) error {
	for _, name := range []string{m.Aside, m.Target.Name} {
		s, err := m.db.catalog().Describe(ctx, name)
		if errors.Is(err, engine.ErrNoTable) {
			continue
		}
		if err != nil {
			return err
		}
		if s.Column(sentryColumn) == nil {
			continue
		}
		if err := m.dropSentry(ctx, m.Quote(name)); err != nil {
			return fmt.Errorf("drop the table that reserves the name %s: %w", name, classify(err))
		}
	}
	return nil
}

func (m mirror) dropSentry(ctx context.Context, name string) error {
	conn, err := m.db.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer engine.DiscardConn(m.db, conn) // releases its lock
	return engine.ExecEach(ctx, conn, []string{"LOCK TABLES " + name + " WRITE", "DELETE FROM " + name + " WHERE " + m.Quote(sentryColumn) + " = 0", "DROP TABLE " + name})
}

func (d words) KeyText(c engine.SchemaColumn) string {
	if c.Kind == value.Bytes {
		return "HEX(" + d.Quote(c.Name) + ")"
	}
	return d.AsText(c)
}

// KeyValue casts a DECIMAL's text: otherwise the server would compare it as floating point.
func (words) KeyValue(c engine.SchemaColumn, text string) (placeholder string, arg any, err error) {
	switch c.Kind {
	case value.Bytes:
		arg, err = engine.BytesFromKey(c, text)
		return "?", arg, err
	case value.Decimal:
		placeholder, arg = "?", text
		if c.Bits == 0 { // not a BIGINT UNSIGNED
			placeholder = fmt.Sprintf("CAST(? AS DECIMAL(%d,%d))", c.Precision, c.Scale)
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			arg = n
		}
		return placeholder, arg, nil
	}
	arg, err = engine.NumberFromKey(c, text)
	return "?", arg, err
}

// CopyRows avoids INSERT IGNORE, which changes invalid values and drops rows without a partition.
func (d words) CopyRows(c engine.CopyRows) string {
	tail := ""
	if c.Skip {
		first := d.Quote(c.Columns[0])
		tail = " ON DUPLICATE KEY UPDATE " + first + " = " + c.Into + "." + first
	}
	return c.SQL(d.Quote, "INSERT INTO", "", tail)
}
