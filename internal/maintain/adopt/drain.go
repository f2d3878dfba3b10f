package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

const (
	// drainRows is the number of log entries applied at a time.
	drainRows = 2000
	// drainBatches limits the number of these batches between two chunks, so that a
	// log that grows faster can't keep the copy from making progress.
	drainBatches = 20
	// lockedRows limits the entries that may remain when the lock is taken, so that
	// it is held only briefly.
	lockedRows = 2000
)

// drainAll applies the log until it is empty, or nearly so.
func (m *mirror) drainAll(ctx context.Context) error {
	for range drainBatches {
		n, err := m.drainOnce(ctx)
		if err != nil || n < drainRows/4 {
			return err
		}
	}
	return nil
}

// drainOnce applies one batch in a transaction.
func (m *mirror) drainOnce(ctx context.Context) (n int, err error) {
	limit := drainRows
	err = m.locked(ctx, m.src.name, "repeat changes", func() error {
		n, err = m.drainTx(ctx, limit)
		for errors.Is(m.DB.Classify(err), engine.ErrDuplicateKey) && limit < 1<<20 {
			// A row has taken over a unique value from another row whose entry is not
			// in the batch. A larger batch is likely to include both.
			limit *= 8
			n, err = m.drainTx(ctx, limit)
		}
		return err
	})
	if err != nil {
		return n, fmt.Errorf("repeat changes in %s: %w", m.dst.name, err)
	}
	return n, nil
}

func (m *mirror) drainTx(ctx context.Context, limit int) (int, error) {
	tx, err := m.DB.SQL().BeginTx(ctx, m.committed())
	if err != nil {
		return 0, m.DB.Classify(err)
	}
	n, err := m.drain(ctx, tx, limit)
	if err != nil {
		_ = tx.Rollback() // err is the cause
		return 0, m.DB.Classify(err)
	}
	if err := tx.Commit(); err != nil {
		return 0, m.DB.Classify(err)
	}
	return n, nil
}

// committed returns the options of a transaction in which each statement sees the
// rows committed when it begins, and in which plain reads take no locks.
func (j *job) committed() *sql.TxOptions {
	if j.sqlite() {
		return nil
	}
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

// drain applies one batch of the log: rows with its keys are deleted from the target,
// and copied in their current state. The entries are read before the rows, so an
// entry written afterwards belongs to a later change and remains.
//
// In the target, an entry stands only for the rows that have all of its values, those
// of both keys. The order of entries therefore doesn't matter, and no entry adds a
// row that the copy is still to reach, whose later entries are left to the copy. In
// the table for late rows, an entry stands for the row with the plain table's key.
func (m *mirror) drain(ctx context.Context, x state.Exec, limit int) (int, error) {
	switch {
	case m.postgres():
		return m.drainPostgres(ctx, x, limit)
	case m.sqlite():
		return m.drainSQLite(ctx, x, limit)
	}
	return m.drainMySQL(ctx, x, limit)
}

// on returns a condition that two tables have the same key.
func (m *mirror) on(cols []engine.SchemaColumn, a, b string) string {
	parts := make([]string, len(cols))
	for i, c := range cols {
		parts[i] = a + m.q(c.Name) + " = " + b + m.q(c.Name)
	}
	return strings.Join(parts, " AND ")
}

// exactly returns a condition that two tables have equal values in all columns of the
// log. Rows are to be found by the columns of key. The other columns are compared in
// a form that no index supports: an index on the time may have as many rows for one
// value as the table has.
func (m *mirror) exactly(key []engine.SchemaColumn, a, b string) string {
	cond := m.on(key, a, b)
	if rest := m.beyond(key); len(rest) > 0 {
		cond += " AND (" + m.on(rest, a, b) + ") IS TRUE"
	}
	return cond
}

// beyond returns the columns of the log that are not in a key.
func (m *mirror) beyond(key []engine.SchemaColumn) []engine.SchemaColumn {
	return slices.DeleteFunc(m.logged(), func(c engine.SchemaColumn) bool {
		return slices.ContainsFunc(key, func(k engine.SchemaColumn) bool { return k.Name == c.Name })
	})
}

// reason is the reason stored with rows in the table for late rows.
const reason = "outside of every period, when the table was adopted"

// mysqlDrain returns the statements of a batch, for the entries with these ids. They
// name each table at most once, or by an alias, as LOCK TABLES requires.
func (m *mirror) mysqlDrain(ids string) []string {
	src, dst, log, late := m.q(m.src.name), m.q(m.dst.name), m.q(logName(m.Table.Name)), m.q(lateName(m.Table.Name))
	where := "rowmill_id IN (" + ids + ")"
	rows := func(of []engine.SchemaColumn, on string) string {
		return fmt.Sprintf("FROM (SELECT DISTINCT %s FROM %s WHERE %s) AS l STRAIGHT_JOIN %s AS o ON %s", m.list(of, ""), log, where, src, on)
	}
	from, exact := rows(m.src.key, m.on(m.src.key, "o.", "l.")), rows(m.logged(), m.exactly(m.src.key, "o.", "l."))
	inside := m.inside("o.")
	out := []string{fmt.Sprintf("DELETE n FROM %s AS l STRAIGHT_JOIN %s AS n ON %s WHERE l.%s", log, dst, m.exactly(m.dst.key, "n.", "l."), where)}
	if m.dst.rolls {
		out = append(out, fmt.Sprintf("DELETE r FROM %s AS l STRAIGHT_JOIN %s AS r ON %s WHERE l.%s", log, late, m.on(m.data.Key, "r.", "l."), where))
	}
	// REPLACE, because the target may still contain a row that was deleted in the
	// source and has the same value of a unique key. The key of that row is in the
	// log.
	insert := fmt.Sprintf("REPLACE INTO %s (%s) SELECT %s %s", dst, m.list(m.columns, ""), m.list(m.columns, "o."), exact)
	if inside != "" {
		insert += " WHERE " + inside
	}
	out = append(out, insert)
	if inside != "" {
		out = append(out, fmt.Sprintf("INSERT INTO %s (%s, rowmill_reason, rowmill_at_us) SELECT %s, %s, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) %s WHERE (%s) IS NOT TRUE",
			late, m.list(m.columns, ""), m.list(m.columns, "o."), m.text(reason), from, inside))
	}
	return append(out, fmt.Sprintf("DELETE FROM %s WHERE %s", log, where))
}

func (m *mirror) drainMySQL(ctx context.Context, x state.Exec, limit int) (int, error) {
	log := m.q(logName(m.Table.Name))
	rows, err := x.QueryContext(ctx, m.DB.Bind(fmt.Sprintf("SELECT rowmill_id, %s FROM %s ORDER BY rowmill_id LIMIT %d", m.comes(), log, limit)), m.coming.args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var ids, later []string
	for rows.Next() {
		var id, comes int64
		if err := rows.Scan(&id, &comes); err != nil {
			return 0, err
		}
		if comes != 0 {
			later = append(later, fmt.Sprint(id))
		} else {
			ids = append(ids, fmt.Sprint(id))
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	var statements []string
	if len(ids) > 0 {
		statements = m.mysqlDrain(strings.Join(ids, ", "))
	}
	if len(later) > 0 {
		statements = append(statements, fmt.Sprintf("DELETE FROM %s WHERE rowmill_id IN (%s)", log, strings.Join(later, ", ")))
	}
	for _, q := range statements {
		if _, err := x.ExecContext(ctx, q); err != nil {
			return 0, fmt.Errorf("%s: %w", engine.FirstWords(q), err)
		}
	}
	return len(ids) + len(later), nil
}

// comes returns an expression over the log: 1 for entries whose row the copy is still
// to reach, otherwise 0.
func (m *mirror) comes() string {
	if m.coming.text == "" {
		return "0"
	}
	return "CASE WHEN " + m.coming.text + " THEN 1 ELSE 0 END"
}

// postgresDrain returns the statement that takes a batch out of the log, and the
// statements that apply it. Their parameters are arrays of text, one for each column
// of the log.
func (m *mirror) postgresDrain(limit string) (take string, use []string) {
	cols := m.logged()
	log, late := m.q(logName(m.Table.Name)), m.q(lateName(m.Table.Name))
	texts, arrays, names, native := make([]string, len(cols)), make([]string, len(cols)), make([]string, len(cols)), make([]string, len(cols))
	for i, c := range cols {
		texts[i] = m.q(c.Name) + "::text"
		arrays[i] = fmt.Sprintf("$%d::text[]", i+1)
		names[i] = fmt.Sprintf("k%d", i+1)
		native[i] = fmt.Sprintf("k%d::%s AS %s", i+1, c.Native, m.q(c.Name))
	}
	// The log has no order. The only requirement is that an entry of a row which the
	// copy is still to reach is left to the copy after all earlier entries are
	// applied. Otherwise the row's value of a second unique key might still be taken
	// by a row that has given it up.
	first := ""
	if m.coming.text != "" {
		first = " ORDER BY " + m.comes()
	}
	take = fmt.Sprintf("DELETE FROM %s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %s%s LIMIT %s)) RETURNING %s, %s", log, log, first, limit, m.comes(), strings.Join(texts, ", "))
	// The keys are a subquery, so that a volatile conversion runs once and not for
	// each use.
	keys := fmt.Sprintf("(SELECT %s FROM unnest(%s) AS u(%s))", strings.Join(native, ", "), strings.Join(arrays, ", "), strings.Join(names, ", "))
	use = append(use, fmt.Sprintf("DELETE FROM %s AS n USING %s AS l WHERE %s", m.q(m.dst.name), keys, m.exactly(m.dst.key, "n.", "l.")))
	if m.dst.rolls {
		use = append(use, fmt.Sprintf("DELETE FROM %s AS n USING %s AS l WHERE %s", late, keys, m.on(m.data.Key, "n.", "l.")))
	}
	// OFFSET keeps the other conditions out of the subquery: with outdated
	// statistics, the planner could prefer an index on the time to the key.
	rows := func(of []engine.SchemaColumn) string {
		return fmt.Sprintf("FROM (SELECT DISTINCT %s FROM %s AS a) AS l CROSS JOIN LATERAL (SELECT * FROM %s AS s WHERE %s OFFSET 0) AS o",
			m.list(of, ""), keys, m.q(m.src.name), m.on(m.src.key, "s.", "l."))
	}
	from := rows(m.src.key)
	insert := fmt.Sprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s %s WHERE %s",
		m.q(m.dst.name), m.list(m.columns, ""), m.list(m.columns, "o."), rows(cols), m.exactly(m.src.key, "o.", "l."))
	// The entries of one change may be in two batches, so the target may have a row
	// that this batch doesn't name.
	upsert := fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET (%s) = ROW(%s)", m.list(m.dst.key, ""), m.list(m.columns, ""), m.list(m.columns, "EXCLUDED."))
	if inside := m.inside("o."); inside != "" {
		use = append(use, insert+" AND "+inside+upsert,
			fmt.Sprintf("INSERT INTO %s (%s, rowmill_reason, rowmill_at_us) SELECT %s, %s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint %s WHERE (%s) IS NOT TRUE",
				late, m.list(m.columns, ""), m.list(m.columns, "o."), m.text(reason), from, inside))
	} else {
		use = append(use, insert+upsert)
	}
	return take, use
}

// byIndex makes the planner find each key by its index. For a newly created table it
// has no statistics: it would scan the whole table for a few hundred keys, or compile
// a query that runs for a millisecond.
var byIndex = []string{"SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off", "SET LOCAL enable_seqscan = off", "SET LOCAL jit = off"}

func (m *mirror) drainPostgres(ctx context.Context, x state.Exec, limit int) (int, error) {
	if _, err := x.ExecContext(ctx, strings.Join(byIndex, "; ")); err != nil {
		return 0, err
	}
	take, use := m.postgresDrain(fmt.Sprint(limit))
	rows, err := x.QueryContext(ctx, m.DB.Bind(take), slices.Concat(m.coming.args, m.coming.args)...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n, done := 0, 0
	keys := make([][]*string, len(m.logged()))
	for rows.Next() {
		var comes int
		key := make([]*string, len(keys))
		into := []any{&comes}
		for i := range key {
			into = append(into, &key[i])
		}
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
		n++
		if comes != 0 {
			continue
		}
		done++
		for i := range key {
			keys[i] = append(keys[i], key[i])
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || done == 0 {
		return n, err
	}
	args := make([]any, len(keys))
	for i := range keys {
		args[i] = keys[i]
	}
	for _, q := range use {
		// Each statement names all arrays, so that all parameters are used.
		if _, err := x.ExecContext(ctx, q, args...); err != nil {
			return 0, fmt.Errorf("%s: %w", engine.FirstWords(q), err)
		}
	}
	return n, nil
}

// sqliteDrain returns the statements of a batch: the entries up to an id, which is
// the parameter of each statement. No other connection can write during the batch.
func (m *mirror) sqliteDrain(parts []rolling.Partition) []string {
	src, log, late := m.q(m.src.name), m.q(logName(m.Table.Name)), m.q(lateName(m.Table.Name))
	batch := func(cols []engine.SchemaColumn) string {
		return fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE rowmill_id <= ?1)", m.list(cols, ""), m.list(cols, ""), log)
	}
	insert := func(into string, cond string) string {
		return fmt.Sprintf("INSERT OR REPLACE INTO %s (%s) SELECT %s FROM %s WHERE %s", into, m.list(m.columns, ""), m.list(m.columns, ""), src, and(batch(m.src.key), cond))
	}
	var out []string
	if !m.dst.rolls {
		out = append(out, "DELETE FROM "+m.q(m.dst.name)+" WHERE "+batch(m.dst.key), insert(m.q(m.dst.name), ""))
	} else {
		for _, p := range parts {
			store := m.DB.Words().From(m.table(m.dst), p)
			out = append(out, "DELETE FROM "+store+" WHERE "+batch(m.dst.key), insert(store, m.in("", p.Period)))
		}
		out = append(out, "DELETE FROM "+late+" WHERE "+batch(m.data.Key),
			fmt.Sprintf("INSERT INTO %s (%s, rowmill_reason, rowmill_at_us) SELECT %s, %s, CAST(strftime('%%s', 'now') AS INTEGER) * 1000000 FROM %s WHERE %s",
				late, m.list(m.columns, ""), m.list(m.columns, ""), m.text(reason), src, and(batch(m.src.key), "("+m.inside("")+") IS NOT TRUE")))
	}
	return append(out, "DELETE FROM "+log+" WHERE rowmill_id <= ?1")
}

func (m *mirror) drainSQLite(ctx context.Context, x state.Exec, limit int) (int, error) {
	log, by := m.q(logName(m.Table.Name)), m.q(m.Table.By)
	var id, lo, hi sql.NullInt64
	var n int
	err := x.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*), MAX(rowmill_id), %s, %s FROM (SELECT * FROM %s ORDER BY rowmill_id LIMIT %d)",
		m.DB.Words().Position(m.Table, "MIN("+by+")"), m.DB.Words().Position(m.Table, "MAX("+by+")"), log, limit)).Scan(&n, &id, &lo, &hi)
	if err != nil || n == 0 {
		return 0, err
	}
	var parts []rolling.Partition
	for _, p := range m.parts {
		// Unusual values may sort anywhere, so then all periods are searched.
		if !lo.Valid || !hi.Valid || lo.Int64 > hi.Int64 || p.Overlaps(rolling.Period{From: lo.Int64, To: hi.Int64 + 1}) {
			parts = append(parts, p)
		}
	}
	for _, q := range m.sqliteDrain(parts) {
		if _, err := x.ExecContext(ctx, q, id.Int64); err != nil {
			return 0, fmt.Errorf("%s: %w", engine.FirstWords(q), err)
		}
	}
	return n, nil
}

// logOutside writes to the log the keys of rows outside of every period, in the range
// after a key up to another (nil means unbounded), so that they are copied to the
// table for late rows. Such rows were inserted after the check and before the
// triggers existed, or are already in the log: applying an entry twice is harmless.
func (m *mirror) logOutside(ctx context.Context, x state.Exec, inside string, after, until []string) error {
	if inside == "" {
		return nil
	}
	keys, err := copier.NewKeys(m.DB, m.src.key)
	if err != nil {
		return err
	}
	where, args, err := keys.Range(after, until)
	if err != nil {
		return err
	}
	if _, err := x.ExecContext(ctx, m.DB.Bind(m.logFrom(m.src.name, and(where, "("+inside+") IS NOT TRUE"))), args...); err != nil {
		return fmt.Errorf("look for rows outside of every period: %w", m.DB.Classify(err))
	}
	return nil
}

// logFrom returns the statement that writes to the log the keys of a table's rows
// that satisfy a condition.
func (m *mirror) logFrom(table, where string) string {
	cols := m.list(m.logged(), "")
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s", m.q(logName(m.Table.Name)), cols, cols, m.q(table), where)
}

// logOutsideRest is logOutside for all rows after a key, in its own transaction.
func (m *mirror) logOutsideRest(ctx context.Context, inside string, after []string) error {
	return m.locked(ctx, m.src.name, "look for rows outside of every period", func() error {
		tx, err := m.DB.SQL().BeginTx(ctx, m.committed())
		if err != nil {
			return err
		}
		if err := m.logOutside(ctx, tx, inside, after, nil); err != nil {
			_ = tx.Rollback() // err is the cause
			return err
		}
		return tx.Commit()
	})
}

// logReturned writes to the log the keys of late rows for which a period now exists,
// so that they are copied to it. It must not be called while rows of these periods
// are left to the copy.
func (m *mirror) logReturned(ctx context.Context) error {
	inside := m.inside("")
	if inside == "" {
		return nil
	}
	return m.exec(ctx, m.logFrom(lateName(m.Table.Name), inside))
}

// each returns the statements of a chunk for SQLite, whose periods are separate
// tables.
func (m *mirror) each(c *copier.Copy) func(context.Context, state.Exec, string, []any) ([]copier.Statement, error) {
	return func(ctx context.Context, x state.Exec, where string, args []any) ([]copier.Statement, error) {
		by := m.q(m.Table.By)
		var lo, hi sql.NullInt64
		err := x.QueryRowContext(ctx, fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s",
			m.DB.Words().Position(m.Table, "MIN("+by+")"), m.DB.Words().Position(m.Table, "MAX("+by+")"), c.From, where), args...).Scan(&lo, &hi)
		if err != nil || !lo.Valid || !hi.Valid {
			return nil, err
		}
		var out []copier.Statement
		for _, p := range m.parts {
			if p.Overlaps(rolling.Period{From: lo.Int64, To: hi.Int64 + 1}) {
				one := *c
				one.Into = m.DB.Words().From(m.table(m.dst), p)
				out = append(out, copier.Statement{Query: one.Insert(and(where, m.in("", p.Period))), Args: args})
			}
		}
		return out, nil
	}
}

// catchUp makes the plain table equal to the rolling one, within a transaction.
func (m *mirror) catchUp(ctx context.Context, tx *sql.Tx) error {
	src, dst := m.q(m.src.name), m.q(m.dst.name)
	for _, q := range m.catchUpStatements() {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), err)
		}
	}
	a, err := m.sum(ctx, tx, src, "1 = 1", nil)
	if err != nil {
		return err
	}
	b, err := m.sum(ctx, tx, dst, "1 = 1", nil)
	if err == nil && a != b {
		err = fmt.Errorf("%w: %s of the rolling table came to %s of the plain one", errDiffer, figure.Plural(a.rows, "row", "rows"), figure.Count(b.rows))
	}
	return err
}

// catchUpStatements returns statements that delete the plain table's rows that
// differ, and copy the rows that are missing.
func (m *mirror) catchUpStatements() []string {
	src, dst, cols := m.q(m.src.name), m.q(m.dst.name), m.list(m.columns, "")
	return []string{
		fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM (SELECT %s FROM %s EXCEPT SELECT %s FROM %s))", dst, m.list(m.data.Key, ""), m.list(m.data.Key, ""), cols, dst, cols, src),
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s EXCEPT SELECT %s FROM %s", dst, cols, cols, src, cols, dst),
	}
}
