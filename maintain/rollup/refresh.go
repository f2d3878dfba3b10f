package rollup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// What one transaction may do. Half a second keeps locks short and the work
// that a crash undoes small; a bucket is the least there is.
const (
	goalTime   = 500 * time.Millisecond
	maxBuckets = 1 << 16
	// maxGroups bounds the sketches in memory, some kilobytes each.
	maxGroups = 50000
	// notesAtOnce bounds what one transaction consumes.
	notesAtOnce = 5000
	// wideNote is the number of buckets above which only those of a noted
	// range are marked that have rows.
	wideNote = 1000
	tries    = 5 // of a transaction that the server rolled back
)

// Refresh computes what is stale and all whole buckets that end at or before
// upTo, and returns how many buckets it computed. A transaction that ends in an
// error, or in a crash, leaves everything as it was before.
func (s *Set) Refresh(ctx context.Context, upTo int64) (int, error) {
	total := 0
	if len(s.levels) == 0 {
		return 0, nil
	}
	if err := s.consume(ctx); err != nil {
		return 0, err
	}
	for _, l := range s.levels {
		for _, step := range []func(context.Context, *level, int64) (int, bool, error){s.again, s.advance} {
			for more := true; more; {
				if err := ctx.Err(); err != nil {
					return total, err
				}
				var n int
				var err error
				n, more, err = step(ctx, l, upTo)
				total += n
				if err != nil {
					return total, fmt.Errorf("refresh roll-up %s: %w", l.Name, err)
				}
			}
		}
	}
	return total, nil
}

// A mark is how far a level is.
type mark struct{ watermark, sealedTo int64 }

// A transaction is one of a refresh. The table's roll-ups are locked in it, so
// that refreshers take turns; readers and writers of raw rows don't wait for it.
type transaction struct {
	*sql.Tx
	marks map[string]mark
}

// tx runs fn in a transaction.
//
// It is READ COMMITTED: each statement sees what was committed before it. In
// MySQL that also keeps INSERT ... SELECT from locking the raw rows it reads.
func (s *Set) tx(ctx context.Context, fn func(*transaction) error) error {
	for try := 1; ; try++ {
		err := s.tryTx(ctx, fn)
		if err == nil || try == tries || ctx.Err() != nil || !errors.Is(err, engine.ErrDeadlock) && !errors.Is(err, engine.ErrLockTimeout) {
			return err
		}
	}
}

func (s *Set) tryTx(ctx context.Context, fn func(*transaction) error) (err error) {
	tx, err := s.db.SQL().BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return s.db.Classify(err)
	}
	defer func() {
		if err == nil {
			return
		}
		if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) && !errors.Is(s.db.Classify(back), engine.ErrConnectionLost) {
			err = errors.Join(err, back)
		}
	}()
	t := &transaction{Tx: tx, marks: map[string]mark{}}
	if _, err := s.exec(ctx, tx, "UPDATE rowmill_rollups SET updated_us = ? WHERE table_name = ?", time.Now().UnixMicro(), s.table.Name); err != nil {
		return fmt.Errorf("lock the roll-ups: %w", err)
	}
	err = s.each(ctx, tx, func(r *sql.Rows) error {
		var name string
		var m mark
		err := r.Scan(&name, &m.watermark, &m.sealedTo)
		t.marks[name] = m
		return err
	}, "SELECT name, watermark, sealed_to FROM rowmill_rollups WHERE table_name = ?", s.table.Name)
	if err != nil {
		return err
	}
	for _, l := range s.levels {
		if _, ok := t.marks[l.Name]; !ok {
			return engine.Hinted(fmt.Errorf("roll-up %s isn't there yet", l.Name), "rowmill apply")
		}
	}
	if err := fn(t); err != nil {
		return err
	}
	if s.before != nil {
		s.before(ctx, "COMMIT")
	}
	return s.db.Classify(tx.Commit())
}

// consume turns notes of changed rows into stale buckets, and deletes them.
//
// A note commits with its rows. It is read before the rows are: the rows of a
// note that is read here are seen by whoever computes the bucket afterwards,
// and the note of rows that weren't seen is still there. Those that are read are
// deleted by their keys, so that a note which commits meanwhile stays, whatever
// its key.
func (s *Set) consume(ctx context.Context) error {
	for more := true; more; {
		err := s.tx(ctx, func(tx *transaction) error {
			type note struct {
				lower, upper int64
				writer       string
			}
			var notes []note
			// A note that is locked belongs to a transaction under way, whose
			// rows have no other note: it stays for the next time.
			err := s.each(ctx, tx, func(r *sql.Rows) error {
				var n note
				err := r.Scan(&n.lower, &n.upper, &n.writer)
				notes = append(notes, n)
				return err
			}, fmt.Sprintf("SELECT lower_pos, upper_pos, writer FROM rowmill_touched WHERE table_name = ? ORDER BY lower_pos, upper_pos, writer LIMIT %d%s",
				notesAtOnce, s.sums.SkipLocked()), s.table.Name)
			if err != nil {
				return err
			}
			more = len(notes) == notesAtOnce
			for _, n := range notes {
				if err := s.markStale(ctx, tx, rolling.Period{From: n.lower, To: n.upper + 1}); err != nil {
					return err
				}
				if _, err := s.exec(ctx, tx, "DELETE FROM rowmill_touched WHERE table_name = ? AND lower_pos = ? AND upper_pos = ? AND writer = ?",
					s.table.Name, n.lower, n.upper, n.writer); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("take late rows into the roll-ups of %s: %w", s.table.Name, err)
		}
	}
	return nil
}

// markStale marks the buckets of all levels that a range of raw rows
// touches, those computed already and not sealed.
func (s *Set) markStale(ctx context.Context, tx *transaction, p rolling.Period) error {
	for _, l := range s.levels {
		if err := s.markLevel(ctx, tx, l, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) markLevel(ctx context.Context, tx *transaction, l *level, p rolling.Period) error {
	m := tx.marks[l.Name]
	p.From, p.To = max(l.Every.Floor(p.From), m.sealedTo), min(p.To, m.watermark)
	if p.From >= p.To {
		return nil
	}
	buckets, err := l.Every.Cover(p, wideNote)
	if err != nil {
		return s.markRows(ctx, tx, l, p)
	}
	for _, b := range buckets {
		if err := s.markBucket(ctx, tx, l, b.From); err != nil {
			return err
		}
	}
	return nil
}

// markRows marks the buckets in a wide range that have rows here or there.
func (s *Set) markRows(ctx context.Context, tx *transaction, l *level, p rolling.Period) error {
	p.To = l.Every.Ceil(p.To)
	w := s.db.Words()
	begin, end := s.sums.InsertNew()
	for _, q := range []string{
		fmt.Sprintf("SELECT DISTINCT %s AS b FROM %s WHERE %s", s.bucketOf(l, w.Position(s.table, s.quote(s.declared.Time))), s.quote(s.table.Name), s.between(s.quote(s.declared.Time), p.From, p.To)),
		fmt.Sprintf("SELECT DISTINCT %s AS b FROM %s WHERE %s", w.Position(s.table, s.quote(Bucket)), s.quote(l.Name), s.between(s.quote(Bucket), p.From, p.To)),
	} {
		q = fmt.Sprintf("%s INTO rowmill_stale (rollup_name, bucket) SELECT %s, q.b FROM (%s) q WHERE 1 = 1%s", begin, quoteText(l.Name), q, end)
		if _, err := s.exec(ctx, tx, q); err != nil {
			return fmt.Errorf("mark buckets of %s: %w", l.Name, err)
		}
	}
	return nil
}

func (s *Set) markBucket(ctx context.Context, tx *transaction, l *level, bucket int64) error {
	begin, end := s.sums.InsertNew()
	if _, err := s.exec(ctx, tx, begin+" INTO rowmill_stale (rollup_name, bucket) VALUES (?, ?)"+end, l.Name, bucket); err != nil {
		return fmt.Errorf("mark bucket %s of %s: %w", l.Every.Format(bucket), l.Name, err)
	}
	return nil
}

// again computes some stale buckets of a level.
func (s *Set) again(ctx context.Context, l *level, _ int64) (n int, more bool, err error) {
	err = s.tx(ctx, func(tx *transaction) error {
		n, more = 0, false
		stale, err := s.stale(ctx, tx, l, rolling.Period{From: tx.marks[l.Name].sealedTo, To: tx.marks[l.Name].watermark})
		if err != nil || len(stale) == 0 {
			return err
		}
		run, err := s.firstRun(ctx, tx, l, stale)
		if err != nil || run.count == 0 {
			return err
		}
		n = run.count
		more = true
		if _, err := s.exec(ctx, tx, "DELETE FROM rowmill_stale WHERE rollup_name = ? AND bucket >= ? AND bucket < ?", l.Name, run.From, run.To); err != nil {
			return err
		}
		_, err = s.compute(ctx, tx, l, run.Period)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return n, more, nil
}

// A run is buckets one after another.
type run struct {
	rolling.Period
	count int
}

// firstRun returns the first of the stale buckets whose sources are there, as
// many as lie side by side and fit one transaction. The others have to wait for
// the finer level.
func (s *Set) firstRun(ctx context.Context, tx *transaction, l *level, stale []int64) (run, error) {
	var r run
	for _, b := range stale {
		if r.count > 0 && (b != r.To || int64(r.count) >= l.batch) {
			break
		}
		p, err := l.Every.At(b)
		if err != nil {
			return run{}, err
		}
		ready, err := s.ready(ctx, tx, l, p)
		if err != nil {
			return run{}, err
		}
		switch {
		case ready && r.count == 0:
			r = run{p, 1}
		case ready:
			r.To = p.To
			r.count++
		}
	}
	return r, nil
}

// stale returns the first stale buckets of a level in a range.
func (s *Set) stale(ctx context.Context, tx *transaction, l *level, p rolling.Period) ([]int64, error) {
	var out []int64
	err := s.each(ctx, tx, func(r *sql.Rows) error {
		var b int64
		err := r.Scan(&b)
		out = append(out, b)
		return err
	}, fmt.Sprintf("SELECT bucket FROM rowmill_stale WHERE rollup_name = ? AND bucket >= ? AND bucket < ? ORDER BY bucket LIMIT %d", wideNote), l.Name, p.From, p.To)
	return out, err
}

// ready reports whether what a bucket is made of is as it should be.
func (s *Set) ready(ctx context.Context, tx *transaction, l *level, p rolling.Period) (bool, error) {
	if l.from == nil {
		return true, nil
	}
	if tx.marks[l.from.Name].watermark < p.To {
		return false, nil
	}
	stale, err := s.stale(ctx, tx, l.from, p)
	return len(stale) == 0, err
}

// advance computes buckets from the watermark on.
func (s *Set) advance(ctx context.Context, l *level, upTo int64) (n int, more bool, err error) {
	err = s.tx(ctx, func(tx *transaction) error {
		n, more = 0, false
		m, to := tx.marks[l.Name], l.Every.Floor(upTo)
		if l.from != nil {
			to = l.Every.Floor(min(upTo, tx.marks[l.from.Name].watermark))
		}
		from := max(m.watermark, m.sealedTo)
		if from >= to {
			return nil
		}
		if m.watermark <= l.Every.Bounds().From {
			next, err := s.next(ctx, tx, l, rolling.Period{From: from, To: to})
			if err != nil || next >= to {
				return err // no row yet: the watermark stays unset
			}
			from = next
		}
		if l.from != nil {
			stale, err := s.stale(ctx, tx, l.from, rolling.Period{From: from, To: to})
			if err != nil {
				return err
			}
			if len(stale) > 0 {
				if to = l.Every.Floor(stale[0]); from >= to {
					return nil
				}
			}
		}
		run := rolling.Period{From: from, To: from}
		for run.To < to && int64(n) < l.batch {
			p, err := l.Every.At(run.To)
			if err != nil {
				return err
			}
			run.To = p.To
			n++
		}
		rows, err := s.compute(ctx, tx, l, run)
		if err != nil {
			return err
		}
		if rows == 0 {
			// Nothing here: go on where there is something.
			if run.To, err = s.next(ctx, tx, l, rolling.Period{From: run.To, To: to}); err != nil {
				return err
			}
			n = 0
		}
		more = run.To < to
		return s.setWatermark(ctx, tx, l, run.To)
	})
	if err != nil {
		return 0, false, err
	}
	return n, more, nil
}

// next returns the start of the first bucket in p that has a row to be made of,
// or the end of p.
func (s *Set) next(ctx context.Context, tx *transaction, l *level, p rolling.Period) (int64, error) {
	if p.From >= p.To {
		return p.To, nil
	}
	var pos sql.NullInt64
	column := s.sourceTime(l)
	// A level above zero has a NOT NULL column: MIN of it, then its position.
	q := fmt.Sprintf("SELECT %s FROM (SELECT MIN(%s) AS t FROM %s WHERE %s) q", s.db.Words().Position(s.table, "q.t"), column, s.source(l), s.between(column, p.From, p.To))
	if err := tx.QueryRowContext(ctx, q).Scan(&pos); err != nil {
		return 0, fmt.Errorf("look for the first row: %w", s.db.Classify(err))
	}
	if !pos.Valid {
		return p.To, nil
	}
	return min(max(l.Every.Floor(pos.Int64), p.From), p.To), nil
}

func (s *Set) setWatermark(ctx context.Context, tx *transaction, l *level, to int64) error {
	_, err := s.exec(ctx, tx, "UPDATE rowmill_rollups SET watermark = ? WHERE table_name = ? AND name = ?", to, s.table.Name, l.Name)
	if err != nil {
		return fmt.Errorf("advance the watermark: %w", err)
	}
	tx.marks[l.Name] = mark{to, tx.marks[l.Name].sealedTo}
	return nil
}

// compute replaces the level's rows of some whole buckets, and marks those of the
// levels made from it.
func (s *Set) compute(ctx context.Context, tx *transaction, l *level, p rolling.Period) (rows int64, err error) {
	if sealed := tx.marks[l.Name].sealedTo; p.From < sealed {
		return 0, fmt.Errorf("bucket %s is sealed", l.Every.Format(p.From))
	}
	return s.replace(ctx, tx, l, p)
}

// replace is compute, also of sealed buckets.
func (s *Set) replace(ctx context.Context, tx *transaction, l *level, p rolling.Period) (rows int64, err error) {
	began := time.Now()
	if _, err := s.exec(ctx, tx, fmt.Sprintf("DELETE FROM %s WHERE %s", s.quote(l.Name), s.between(s.quote(Bucket), p.From, p.To))); err != nil {
		return 0, fmt.Errorf("replace buckets: %w", err)
	}
	if rows, err = s.exec(ctx, tx, s.insertRows(l, p.From, p.To)); err != nil {
		return 0, fmt.Errorf("compute buckets from %s: %w", l.Every.Format(p.From), err)
	}
	if err := s.sketches(ctx, tx.Tx, l, p.From, p.To); err != nil {
		return 0, err
	}
	for _, c := range l.children {
		if err := s.markLevel(ctx, tx, c, p); err != nil {
			return 0, err
		}
	}
	l.pace(time.Since(began), rows)
	return rows, nil
}

// pace sets how many buckets the next transaction takes.
func (l *level) pace(took time.Duration, rows int64) {
	switch {
	case took > 2*goalTime || rows > maxGroups:
		l.batch = max(l.batch/2, 1)
	case took < goalTime/2 && rows < maxGroups/2:
		l.batch = min(l.batch*2, maxBuckets)
	}
}

func (s *Set) exec(ctx context.Context, x execer, q string, args ...any) (int64, error) {
	if s.before != nil {
		s.before(ctx, q)
	}
	if len(args) > 0 {
		q = s.db.Bind(q)
	}
	r, err := x.ExecContext(ctx, q, args...)
	if err != nil {
		return 0, s.db.Classify(err)
	}
	return r.RowsAffected()
}

func (s *Set) each(ctx context.Context, x execer, scan func(*sql.Rows) error, q string, args ...any) error {
	if s.before != nil {
		s.before(ctx, q)
	}
	return engine.Each(ctx, s.db, x, scan, q, args...)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
