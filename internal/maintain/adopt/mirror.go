package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A mirror makes the target table equal to the source table, by means of a log of the keys that
// change in the source.
type mirror struct {
	*job
	engine.Mirror
	sql engine.Mirroring
	// coming is the condition for rows that the copy has not reached.
	coming engine.Predicate
	// past is the condition for rows beyond all rows that the target had when the copy began.
	past engine.Predicate
}

// forward returns the mirror from the plain table to the rolling one.
func (j *job) forward() *mirror {
	name := j.Table.Name
	return j.mirror(engine.MirrorSide{Name: name, Key: j.data.Key}, engine.MirrorSide{Name: newName(name), Key: j.data.NewKey, Rolls: true}, oldName(name))
}

// back returns the mirror from the rolling table to the former plain table.
func (j *job) back() *mirror {
	name := j.Table.Name
	return j.mirror(engine.MirrorSide{Name: name, Key: j.data.NewKey, Rolls: true}, engine.MirrorSide{Name: oldName(name), Key: j.data.Key}, newName(name))
}

func (j *job) mirror(source, target engine.MirrorSide, aside string) *mirror {
	m := &mirror{job: j, Mirror: engine.Mirror{DB: j.Options.DB, Table: j.Options.Table, Source: source, Target: target, Aside: aside,
		Log: logName(j.Options.Table.Name), Late: lateName(j.Options.Table.Name), Columns: j.columns, Plain: j.data.Key, Alike: j.data.Left}}
	m.sql = m.DB.Mirroring(&m.Mirror)
	return m
}

// unlogged reports whether changes of the source can't be logged. That is so if the source is a
// rolling table whose periods are tables of their own: such a table has no triggers as a whole.
func (m *mirror) unlogged() bool { return m.Source.Rolls && m.DB.Capabilities().PeriodTables }

func (m *mirror) readPeriods(ctx context.Context) error {
	if !m.Target.Rolls {
		return nil
	}
	parts, err := m.DB.Catalog().Partitions(ctx, m.Side(m.Target))
	if err == nil && len(parts) == 0 {
		err = fmt.Errorf("%s has no periods", m.Target.Name)
	}
	m.Target.Periods = parts
	return err
}

func and(cond string, more ...string) string {
	for _, m := range more {
		if m != "" {
			cond = "(" + cond + ") AND (" + m + ")"
		}
	}
	return cond
}

func (m *mirror) copier() *copier.Copy {
	c := &copier.Copy{
		DB: m.DB, From: m.Quote(m.Source.Name), Into: m.Quote(m.Target.Name), Columns: m.Columns, Key: m.Source.Key,
		Where: m.Inside(""), Skip: true, Chunk: m.Chunk, Limits: m.Limits,
	}
	if m.Target.Rolls && m.DB.Capabilities().PeriodTables {
		c.Each = m.intoPeriods(c)
	}
	return c
}

// intoPeriods returns the statements that copy a chunk's rows into the tables of their periods.
func (m *mirror) intoPeriods(c *copier.Copy) func(context.Context, state.Exec, string, []any) ([]copier.Statement, error) {
	return func(ctx context.Context, x state.Exec, where string, args []any) ([]copier.Statement, error) {
		by, w := m.Quote(m.Table.By), m.DB.Words()
		var low, high sql.NullInt64
		err := x.QueryRowContext(ctx, fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s", w.Position(m.Table, "MIN("+by+")"), w.Position(m.Table, "MAX("+by+")"), c.From, where), args...).Scan(&low, &high)
		if err != nil || !low.Valid || !high.Valid {
			return nil, err
		}
		var out []copier.Statement
		for _, p := range m.Target.Periods {
			if p.Overlaps(rolling.Period{From: low.Int64, To: high.Int64 + 1}) {
				out = append(out, copier.Statement{Query: m.intoPeriod(c, p, where), Args: args})
			}
		}
		return out, nil
	}
}

func (m *mirror) intoPeriod(c *copier.Copy, p rolling.Partition, where string) string {
	one := *c
	one.Into = m.DB.Words().From(m.Side(m.Target), p)
	return one.Insert(and(where, m.In("", p.Period)))
}

// leave makes replay discard the log entries of rows that the copy has yet to reach: rows that
// satisfy where, with keys between after and until. When the copy reaches such a row, it reads the
// row's state of that moment. If the row doesn't satisfy where at that moment, the change that
// caused this has a newer log entry, which is applied.
func (m *mirror) leave(after, until []string, where string) error {
	text, args, err := m.between(after, until)
	m.coming = engine.Predicate{Text: and(text, where, m.past.Text), Args: append(args, m.past.Args...)}
	return err
}

// between returns the condition that a key of the source lies between after (excluded) and until.
func (m *mirror) between(after, until []string) (string, []any, error) {
	keys, err := engine.NewKeys(m.DB, m.Source.Key)
	if err != nil {
		return "", nil, err
	}
	return keys.Range(after, until)
}

// arrived determines, before the first chunk, up to which key the target has rows. That may be
// beyond the key that an interrupted copy has recorded, because the copy has applied changes to
// later rows. The copy doesn't change rows that the target already has, so the log entries of these
// rows must be applied.
func (m *mirror) arrived(ctx context.Context) error {
	m.past = engine.Predicate{}
	keys, err := engine.NewKeys(m.DB, m.Source.Key)
	if err != nil {
		return err
	}
	last, err := keys.Last(ctx, m.DB.SQL(), m.Quote(m.Target.Name), "")
	if err != nil || last == nil {
		return err
	}
	m.past.Text, m.past.Args, err = keys.Range(last, nil)
	return err
}

const (
	// replayRows is the number of log entries applied at a time.
	replayRows = 2000
	// replayBatches limits the batches of log entries that are applied between two chunks, so that
	// the copy makes progress even if the log grows faster.
	replayBatches = 20
	// lockedRows limits the log entries that may remain when the lock is taken, so that the lock is
	// held only briefly.
	lockedRows = 2000
)

// replayAll applies the log until few entries are left, in at most replayBatches batches.
func (m *mirror) replayAll(ctx context.Context) error {
	for range replayBatches {
		n, err := m.replayOnce(ctx)
		if err != nil || n < replayRows/4 {
			return err
		}
	}
	return nil
}

func (m *mirror) replayOnce(ctx context.Context) (n int, err error) {
	limit := replayRows
	replay := func(x state.Exec) (err error) {
		n, err = m.sql.Replay(ctx, x, limit, m.coming)
		return err
	}
	err = m.locked(ctx, m.Source.Name, "apply changes", func() error {
		err := m.inTransaction(ctx, replay)
		for errors.Is(err, engine.ErrDuplicateKey) && limit < 1<<20 {
			// A row has taken over a unique value from another row whose entry is not
			// in the batch. A larger batch is likely to include both.
			limit *= 8
			err = m.inTransaction(ctx, replay)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("apply changes to %s: %w", m.Target.Name, err)
	}
	return n, nil
}

// inTransaction runs fn in a transaction whose plain reads take no locks.
func (j *job) inTransaction(ctx context.Context, fn func(x state.Exec) error) error {
	return engine.InTx(ctx, j.DB, j.DB.SQL(), engine.Committed, func(tx *sql.Tx) error { return fn(tx) })
}

// replayLocked applies the remaining entries under the lock.
func (m *mirror) replayLocked(ctx context.Context, x state.Exec) error {
	n := 0
	if err := x.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS x FROM %s LIMIT %d) AS t", m.Quote(m.Log), lockedRows+1)).Scan(&n); err != nil {
		return err
	}
	if n > lockedRows {
		return errBusy
	}
	for n > 0 {
		// All entries in one batch: between two batches, unique values could conflict.
		var err error
		if n, err = m.sql.Replay(ctx, x, lockedRows*2, m.coming); err != nil {
			return fmt.Errorf("apply the last changes: %w", err)
		}
	}
	return nil
}

// logOutside logs source rows that belong to no period, from the key after up to the key until (nil
// means unbounded), so that they are copied to the table for late rows. Such a row was inserted
// after the check, when no triggers existed yet to log it. Or a trigger has logged it already: then
// the second entry does no harm.
func (m *mirror) logOutside(ctx context.Context, x state.Exec, inside string, after, until []string) error {
	if inside == "" {
		return nil
	}
	where, args, err := m.between(after, until)
	if err != nil {
		return err
	}
	if _, err := x.ExecContext(ctx, m.DB.Bind(m.logFrom(m.Source.Name, and(where, "("+inside+") IS NOT TRUE"))), args...); err != nil {
		return fmt.Errorf("look for rows outside of every period: %w", m.DB.Classify(err))
	}
	return nil
}

// logFrom returns the statement that logs the keys of the rows that satisfy a condition.
func (m *mirror) logFrom(table, where string) string {
	cols := m.List(m.Logged(), "")
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s", m.Quote(m.Log), cols, cols, m.Quote(table), where)
}

// logReturned writes to the log the keys of late rows for which a period now exists, so that these
// rows are copied into the period. It must not be called before the copy has passed the rows of the
// period.
func (m *mirror) logReturned(ctx context.Context) error {
	inside := m.Inside("")
	if inside == "" {
		return nil
	}
	return m.exec(ctx, m.logFrom(m.Late, inside))
}

// catchUp makes the plain table equal to a rolling table whose changes are not logged. x is the
// transaction of the cut-over.
func (m *mirror) catchUp(ctx context.Context, x state.Exec) error {
	if err := engine.ExecEach(ctx, x, m.catchUpStatements()); err != nil {
		return err
	}
	a, err := m.sum(ctx, x, m.Quote(m.Source.Name), "1 = 1", nil)
	if err != nil {
		return err
	}
	b, err := m.sum(ctx, x, m.Quote(m.Target.Name), "1 = 1", nil)
	if err == nil && a != b {
		err = fmt.Errorf("%w: %s of the rolling table came to %s of the plain one", errDiffer, figure.Plural(a.Rows, "row"), figure.Count(b.Rows))
	}
	return err
}

// catchUpStatements returns two statements: one deletes from the plain table the rows that the
// rolling table lacks, and one copies to the plain table the rows that the plain table lacks.
func (m *mirror) catchUpStatements() []string {
	src, dst, cols, key := m.Quote(m.Source.Name), m.Quote(m.Target.Name), m.List(m.Columns, ""), m.List(m.Plain, "")
	return []string{
		fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM (SELECT %s FROM %s EXCEPT SELECT %s FROM %s))", dst, key, key, cols, dst, cols, src),
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s EXCEPT SELECT %s FROM %s", dst, cols, cols, src, cols, dst),
	}
}
