package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// errBusy means that too many changes remain to be applied under the lock. The cut-over is then
// tried again, as if the lock had not been granted.
var errBusy = engine.Classed(engine.ErrLockTimeout, errors.New("too many changes remain to be applied"))

// swapped reports whether the cut-over is done: then the rolling table has the name of the adopted
// table.
func (j *job) swapped(ctx context.Context) (bool, error) {
	s, err := j.DB.Describe(ctx, j.Table.Name)
	if err != nil {
		return false, err
	}
	return s.Partitioned, nil
}

// cutOverTo returns a step that does the cut-over and records the next step.
func cutOverTo(next string) func(*job, context.Context, *mirror) error {
	return func(j *job, ctx context.Context, m *mirror) error { return j.cutOver(ctx, m, next) }
}

// cutOver renames the source to m.Aside, and the target to the source's name. It waits for the
// source's lock for a limited time. Under the lock, it only applies the last changes and renames
// the tables. On servers with transactional renames, the next step is recorded in the same
// transaction.
func (j *job) cutOver(ctx context.Context, m *mirror, next string) error {
	if err := m.sql.Recover(ctx); err != nil {
		return err
	}
	done := func() (bool, error) {
		rolls, err := j.swapped(ctx)
		return rolls == m.Target.Rolls, err
	}
	if done, err := done(); err != nil || done {
		return err
	}
	if err := errors.Join(m.readPeriods(ctx), m.logReturned(ctx)); err != nil {
		return err
	}
	if err := j.postpone(ctx, m); err != nil {
		return err
	}
	return j.locked(ctx, m.Source.Name, "change the names", func() error {
		if done, err := done(); err != nil || done {
			return err
		}
		if err := j.catchUpBefore(ctx, m); err != nil {
			return err
		}
		if m.Source.Rolls {
			parts, err := j.DB.Catalog().Partitions(ctx, m.Side(m.Source))
			if err != nil {
				return err
			}
			m.Source.Periods = parts
		}
		moves, err := m.carryOver(ctx)
		if err != nil {
			return err
		}
		step := j.change.Step
		err = m.sql.CutOver(ctx, engine.CutOver{
			Point: j.point,
			Final: func(ctx context.Context, x state.Exec) error {
				if err := engine.ExecEach(ctx, x, moves); err != nil {
					return err
				}
				if m.unlogged() {
					return m.catchUp(ctx, x)
				}
				if !m.Source.Rolls {
					// Rows without a key may have been inserted since the check.
					if err := j.checker().checkKeys(ctx, x, m.Source.Key, m.Source.Name); err != nil {
						return err
					}
				}
				return m.replayLocked(ctx, x)
			},
			Record: func(ctx context.Context, x state.Exec) error {
				return j.State.Advance(ctx, x, j.change, next, j.data)
			},
		})
		if err != nil {
			j.change.Step = step // the record of the next step was rolled back
		}
		return err
	})
}

const (
	verifyAgain  = 3 * time.Minute
	postponePoll = time.Second
)

// postpone waits while j.Postpone returns a reason. Meanwhile it applies the logged changes, so
// that little is left to do under the cut-over's lock. Every few minutes it compares the tables
// again.
func (j *job) postpone(ctx context.Context, m *mirror) error {
	if j.Postpone == nil {
		return nil
	}
	for verified := time.Now(); ; {
		why, err := j.Postpone(ctx)
		if err == nil && why != j.change.Error { // status shows the reason
			err = j.State.Waits(ctx, j.change, why)
		}
		if err != nil || why == "" {
			return err
		}
		j.progress(Progress{Rows: j.data.CheckedRows, Of: j.data.Of, Paused: why})
		if !m.unlogged() {
			if err := j.follow(ctx, m); err != nil {
				return err
			}
			if time.Since(verified) > cmp.Or(j.again, verifyAgain) {
				j.data.Checked, j.data.CheckedRows = nil, 0
				if err := j.verify(ctx, m); err != nil {
					return err
				}
				verified = time.Now()
			}
		}
		if err := engine.Sleep(ctx, postponePoll); err != nil {
			return err
		}
	}
}

// catchUpBefore applies the log before the lock is taken. If the source is empty and the target
// isn't, it compares the two tables: the cause may be TRUNCATE, which fires no trigger on some
// servers.
func (j *job) catchUpBefore(ctx context.Context, m *mirror) error {
	if m.unlogged() {
		return nil // everything happens under the lock
	}
	if err := j.follow(ctx, m); err != nil {
		return err
	}
	var source, target int
	any := func(name string, n *int) error {
		return j.DB.Classify(j.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 AS x FROM "+m.Quote(name)+" LIMIT 1) AS t").Scan(n))
	}
	if err := errors.Join(any(m.Source.Name, &source), any(m.Target.Name, &target)); err != nil || source > 0 || target == 0 {
		return err
	}
	// The cause may also be DELETE, with log entries that were not yet committed when they were read.
	keys, err := engine.NewKeys(j.DB, j.data.Key)
	if err != nil {
		return err
	}
	_, _, err = m.compareAndRepair(ctx, keys, nil, nil)
	return err
}

// lockTries is how often a lock is tried. With the waits for the lock and the pauses in between,
// the tries take at least half an hour.
const lockTries = 400

// The pause between attempts, in which other statements can proceed.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// locked calls fn, which takes a table's lock, until fn gets the lock, lockTries times at most.
// Each call waits a limited time, in which other statements on the table queue behind it. In the
// pauses between calls, these statements proceed. locked reports who holds the lock.
func (j *job) locked(ctx context.Context, table, what string, fn func() error) error {
	who := ""
	err := engine.Retry{First: firstPause, Last: lastPause, Tries: lockTries, Waiting: func(err error) error {
		blockers, blockersErr := j.DB.Blockers(ctx, &engine.Table{Name: table})
		if blockersErr != nil {
			return errors.Join(err, blockersErr)
		}
		if who = ""; len(blockers) > 0 {
			who = ", held by " + blockers[0].String()
		}
		j.progress(Progress{Paused: what + " waits for the lock of " + table + who, Blockers: blockers})
		return nil
	}}.Do(ctx, func() error { return j.DB.Classify(fn()) })
	if errors.Is(err, engine.ErrLockTimeout) || errors.Is(err, engine.ErrDeadlock) {
		return fmt.Errorf("%s: %w%s", what, err, who)
	}
	return err
}

func (j *job) quote(name string) string { return j.DB.Dialect().Quote(name) }

// exec runs statements one after the other, each in its own transaction.
func (j *job) exec(ctx context.Context, statements ...string) error {
	for _, q := range statements {
		if _, err := j.DB.SQL().ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), j.DB.Classify(err))
		}
	}
	return nil
}
