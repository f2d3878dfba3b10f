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
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/state"
)

const (
	// Rows compared at a time: initial, minimum, maximum.
	firstCheck, leastCheck, mostCheck = 2000, 200, 50000
	// checkTime is the target duration of a comparison, during which the server must
	// keep old row versions.
	checkTime = 300 * time.Millisecond
	// mostPending limits the number of logged keys that a comparison excludes. If the log has more
	// keys in the compared range, their changes are applied first.
	mostPending = 300
	// rounds limits the rounds in which the rows are copied, and those in which they are compared,
	// chunk by chunk. Each further round has the rows that were appended during the previous round, so
	// few rows are left after the first. After the last round of the comparison, all remaining rows
	// are one chunk.
	rounds = 3
	// repairs limits how often a differing chunk is copied again.
	repairs = 3
)

// errPending is returned if the log has too many keys for a comparison.
var errPending = errors.New("rows of this range change faster than the changes are applied")

var errDiffer = errors.New("rows differ")

// verify compares both tables, chunk by chunk along the key of the plain one. A chunk that differs
// is copied again. Chunks differ if rows were changed without the triggers, e.g. by TRUNCATE in
// MySQL. When an adoption is reverted, they also differ if rows were changed since the adoption.
func (j *job) verify(ctx context.Context, m *mirror) error {
	if err := m.readPeriods(ctx); err != nil || m.unlogged() {
		return err // without a log, everything happens in the cut-over
	}
	// A resumed copy may have created periods for rows that were late before.
	if err := m.logReturned(ctx); err != nil {
		return err
	}
	keys, err := engine.NewKeys(j.DB, j.data.Key)
	if err != nil {
		return err
	}
	throttle := copier.Throttle{DB: j.DB, Limits: j.Limits, Paused: j.paused(&j.data.CheckedRows)}
	step, size := j.change.Step, firstCheck
	from := m.Quote(m.Source.Name)
	until, err := keys.Last(ctx, j.DB.SQL(), from, m.Inside(""))
	if err != nil {
		return err
	}
	for done, round := false, 1; !done; {
		if err := errors.Join(throttle.Wait(ctx), j.follow(ctx, m)); err != nil {
			return err
		}
		began := time.Now()
		last, err := keys.Nth(ctx, j.DB.SQL(), from, m.Inside(""), j.data.Checked, until, size)
		if err != nil {
			return err
		}
		if last == nil && round < rounds {
			round++
			if until, err = keys.Last(ctx, j.DB.SQL(), from, m.Inside("")); err != nil {
				return err
			}
			continue
		}
		n, fixed, err := m.compareAndRepair(ctx, keys, j.data.Checked, last)
		if errors.Is(err, errPending) && size > leastCheck {
			size = max(size/4, leastCheck)
			continue
		}
		if err != nil {
			return err
		}
		size = checkSize(size, time.Since(began))
		done = last == nil
		if fixed {
			j.data.Repaired++
		}
		j.data.CheckedRows += n
		j.data.Checked = last
		if err := j.State.Advance(ctx, j.State.DB(), j.change, step, j.data); err != nil {
			return err
		}
		j.progress(Progress{Rows: j.data.CheckedRows, Of: j.data.Of})
		if err := j.point(step + ": chunk"); err != nil {
			return err
		}
	}
	return nil
}

// checkSize returns how many rows to compare next. size rows were compared last, in the time took.
func checkSize(size int, took time.Duration) int {
	next := float64(size) * min(2, float64(checkTime)/float64(max(took, time.Millisecond)))
	return min(max(int(next), leastCheck), mostCheck)
}

// compareAndRepair compares those rows of both tables whose keys are greater than after and at most
// last (nil means unbounded). If the rows differ, it copies them again.
func (m *mirror) compareAndRepair(ctx context.Context, keys *engine.Keys, after, last []string) (rows int64, fixed bool, err error) {
	where, args, err := keys.Range(after, last)
	if err != nil {
		return 0, false, err
	}
	pending := 0
	for try := 0; ; {
		err = engine.Retry{First: firstPause, Last: lastPause, Tries: lockTries}.Do(ctx, func() (err error) {
			rows, err = m.compare(ctx, keys, where, m.Inside(""), args)
			return err
		})
		switch {
		case err == nil:
			return rows, fixed, nil
		case errors.Is(err, errPending) && pending < 10:
			pending++
		case errors.Is(err, errDiffer) && try < repairs:
			try++
			fixed = true
			if err := m.repair(ctx, where, args); err != nil {
				return 0, fixed, err
			}
		default:
			return 0, fixed, fmt.Errorf("compare rows after key (%s) up to (%s): %w", strings.Join(after, ", "), strings.Join(last, ", "), err)
		}
		if err := m.replayAll(ctx); err != nil {
			return 0, fixed, err
		}
	}
}

// compare compares the rows of both tables that satisfy where, in one snapshot. It excludes rows
// whose keys are in the log in that snapshot, and rows of the source that don't satisfy inside.
func (m *mirror) compare(ctx context.Context, keys *engine.Keys, where, inside string, args []any) (int64, error) {
	tx, err := m.sql.Snapshot(ctx)
	if err != nil {
		return 0, m.DB.Classify(err)
	}
	defer tx.Rollback() // the transaction only reads
	pending, err := m.pending(ctx, tx, keys, m.data.Key, where, args)
	if err != nil {
		return 0, err
	}
	if len(pending) > 0 {
		in, more, err := keys.In(pending)
		if err != nil {
			return 0, err
		}
		where, args = where+" AND NOT ("+in+")", append(slices.Clone(args), more...)
	}
	var a, b engine.Checksum
	if a, err = m.sum(ctx, tx, m.Quote(m.Source.Name), and(where, inside), args); err != nil {
		return 0, err
	}
	if b, err = m.sum(ctx, tx, m.Quote(m.Target.Name), where, args); err != nil {
		return 0, err
	}
	if a != b {
		return 0, fmt.Errorf("%w: %s has %s there, of checksum %s, and %s %s, of checksum %s", errDiffer, m.Source.Name, figure.Plural(a.Rows, "row"), a.Hash, m.Target.Name, figure.Count(b.Rows), b.Hash)
	}
	return a.Rows, nil
}

func (m *mirror) pending(ctx context.Context, x state.Exec, keys *engine.Keys, cols []engine.SchemaColumn, where string, args []any) ([][]string, error) {
	var out [][]string
	err := engine.Each(ctx, m.DB, x, func(r *sql.Rows) error {
		key := make([]string, len(cols))
		into := make([]any, len(key))
		for i := range key {
			into[i] = &key[i]
		}
		out = append(out, key)
		return r.Scan(into...)
	}, m.pendingQuery(keys, where), args...)
	if err == nil && len(out) > mostPending {
		err = errPending
	}
	return out, err
}

func (m *mirror) pendingQuery(keys *engine.Keys, where string) string {
	return fmt.Sprintf("SELECT DISTINCT %s FROM %s WHERE %s LIMIT %d", keys.Texts(), m.Quote(m.Log), where, mostPending+1)
}

func (m *mirror) sum(ctx context.Context, x state.Exec, from, where string, args []any) (engine.Checksum, error) {
	return engine.ReadChecksum(ctx, m.DB, x, m.DB.Words().MatchHash(m.Columns), from, where, args...)
}

func (m *mirror) repair(ctx context.Context, where string, args []any) error {
	return m.locked(ctx, m.Source.Name, "copy rows that differ", func() error {
		return m.inTransaction(ctx, func(x state.Exec) error { return m.recopy(ctx, x, where, args) })
	})
}

func (m *mirror) recopy(ctx context.Context, x state.Exec, where string, args []any) error {
	c := m.copier()
	c.Skip = false
	tables := []string{m.Quote(m.Target.Name)}
	statements := []copier.Statement{{Query: c.Insert(and(where, c.Where)), Args: args}}
	if c.Each != nil {
		tables = nil
		for _, p := range m.Target.Periods {
			tables = append(tables, m.DB.Words().From(m.Side(m.Target), p))
		}
		var err error
		if statements, err = c.Each(ctx, x, and(where, c.Where), args); err != nil {
			return err
		}
	}
	for _, into := range tables {
		if _, err := x.ExecContext(ctx, m.DB.Bind("DELETE FROM "+into+" WHERE "+where), args...); err != nil {
			return err
		}
	}
	for _, s := range statements {
		if _, err := x.ExecContext(ctx, m.DB.Bind(s.Query), s.Args...); err != nil {
			return err
		}
	}
	return nil
}
