package rollup

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

const checkBuckets = 20000

// Check compares the number of raw rows in each bucket of p with the number that each level has
// recorded, and marks the buckets that differ as stale. So it finds rows that were inserted or
// deleted without a note, but not rows that were updated.
func (s *Set) Check(ctx context.Context, p rolling.Period) (int, error) {
	return s.exclusively(ctx, func(ctx context.Context, w *worker) (stale int, err error) {
		for _, l := range w.levels {
			n, err := w.check(ctx, l, p)
			if stale += n; err != nil {
				return stale, fmt.Errorf("check roll-up %s: %w", l.Name, err)
			}
		}
		return stale, nil
	})
}

func (w *worker) check(ctx context.Context, l *level, p rolling.Period) (stale int, err error) {
	if p.From >= p.To {
		return 0, nil
	}
	marks, err := w.marks(ctx, w.conn)
	if err != nil {
		return 0, err
	}
	m := marks[l.Name]
	within := rolling.Period{From: max(l.Every.Floor(p.From), m.sealedTo), To: min(l.Every.Ceil(p.To), m.watermark)}
	differ, err := w.comparer().differing(ctx, w.conn, l, within)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(differ, marksAtOnce) {
		err := w.tx(ctx, func(tx *transaction) error {
			for _, b := range some {
				if err := w.markTree(ctx, tx, l, b); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return len(differ), nil
}

func (s *Set) marks(ctx context.Context, x state.Exec) (map[string]mark, error) {
	out := map[string]mark{}
	err := s.each(ctx, x, func(r *sql.Rows) error {
		var name string
		var m mark
		err := r.Scan(&name, &m.watermark, &m.sealedTo, &m.updated, &m.spec)
		out[name] = m
		return err
	}, "SELECT name, watermark, sealed_to, updated_us, spec FROM rowmill_rollups WHERE table_name = ?", s.table.Name)
	if err != nil {
		return nil, fmt.Errorf("roll-ups of %s: %w", s.table.Name, err)
	}
	return out, nil
}

// A comparer finds buckets that differ from their rows.
type comparer struct{ *Set }

func (s *Set) comparer() comparer { return comparer{s} }

// differing returns the buckets in a range whose counts differ from their source's.
func (s comparer) differing(ctx context.Context, x state.Exec, l *level, p rolling.Period) ([]rolling.Period, error) {
	if p.From >= p.To {
		return nil, nil
	}
	// The axis is long: begin at the first row.
	first, err := s.firstOf(ctx, x, l, p)
	if err != nil {
		return nil, err
	}
	p.From = max(p.From, first)
	var out []rolling.Period
	for p.From < p.To {
		part, err := l.run(p, checkBuckets)
		if err != nil {
			return nil, err
		}
		some, err := s.compare(ctx, x, l, part.Period)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
		p.From = part.To
	}
	return out, nil
}

// firstOf returns the start of the first bucket in p with a row in the level or in its source.
func (s *Set) firstOf(ctx context.Context, x state.Exec, l *level, p rolling.Period) (int64, error) {
	first, err := s.first(ctx, x, l, p.To)
	if err != nil {
		return 0, err
	}
	defer s.reads()()
	src := s.sourceOf(l)
	row, err := s.least(ctx, x, src, s.between(src.column, p.From, p.To), l.Every.Bounds().To)
	if err != nil {
		return 0, fmt.Errorf("look for the first row: %w", err)
	}
	return max(p.From, min(first, l.Every.Floor(row))), nil
}

// least returns the position of the first row that meets a condition, or the value none.
func (s *Set) least(ctx context.Context, x state.Exec, src source, where string, none int64) (int64, error) {
	var pos sql.NullInt64
	q := fmt.Sprintf("SELECT %s FROM (SELECT MIN(%s) AS t FROM %s WHERE %s) q", s.db.Words().Position(s.table, "q.t"), src.column, src.from, where)
	if err := x.QueryRowContext(ctx, q).Scan(&pos); err != nil || !pos.Valid {
		return none, s.db.Classify(err)
	}
	return pos.Int64, nil
}

func (s comparer) compare(ctx context.Context, x state.Exec, l *level, p rolling.Period) ([]rolling.Period, error) {
	w := s.db.Words()
	counts := map[int64]int64{}
	read := func(sign int64, src source, b, rows string) error {
		err := src.pieces(ctx, x, p, l.counting, func(where string, args []any) error {
			defer s.reads()()
			// Group by time first: if many rows share a time, fewer values are converted. The server keeps
			// groups in memory, not rows.
			return s.each(ctx, x, func(r *sql.Rows) error {
				var bucket, n int64
				err := r.Scan(&bucket, &n)
				counts[bucket] += sign * n
				return err
			}, fmt.Sprintf("SELECT q.b, SUM(q.n) FROM (SELECT %s AS b, %s AS n FROM %s WHERE %s GROUP BY %s) q GROUP BY q.b", b, rows, src.from, where, src.column), args...)
		})
		if err != nil {
			return fmt.Errorf("count rows of %s: %w", src.from, err)
		}
		return nil
	}
	rows := "COUNT(*)"
	if l.from != nil {
		rows = "SUM(" + s.quote(RawRows) + ")"
	}
	of, own := s.sourceOf(l), s.levelRows(l)
	if err := read(1, of, s.bucketOf(l, w.Position(s.table, of.column)), rows); err != nil {
		return nil, err
	}
	if err := read(-1, own, w.Position(s.table, own.column), "SUM("+s.quote(RawRows)+")"); err != nil {
		return nil, err
	}
	var out []rolling.Period
	for bucket, n := range counts {
		if n != 0 {
			b, err := l.Every.At(bucket)
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
	}
	return out, nil
}

// Proof returns the number of raw rows of a period, and the reason why they must not be dropped
// yet. The reason is "" if a fresh count shows that every level contains all of them.
func (s *Set) Proof(ctx context.Context, p rolling.Period) (rows int64, why string, err error) {
	x := s.db.SQL()
	err = s.raw.pieces(ctx, x, p, newPace(mostCounted), func(where string, args []any) error {
		defer s.reads()()
		n, err := s.number(ctx, x, "SELECT COUNT(*) FROM "+s.raw.from+" WHERE "+where, args...)
		rows += n
		return err
	})
	if err != nil {
		return 0, "", fmt.Errorf("count rows of %s: %w", s.table.Name, err)
	}
	if len(s.levels) == 0 {
		return rows, "", nil
	}
	marks, err := s.marks(ctx, x)
	if err != nil {
		return rows, "", err
	}
	for _, l := range s.levels {
		m, ok := marks[l.Name]
		if !ok {
			return rows, "roll-up " + l.Name + " isn't there yet", nil
		}
		if why, err = s.comparer().lacking(ctx, l, m, p, rows); why != "" || err != nil {
			return rows, why, err
		}
	}
	return rows, "", nil
}

// lacking describes why a level does not contain all rows of a period; "" if it does.
func (s comparer) lacking(ctx context.Context, l *level, m mark, p rolling.Period, rows int64) (string, error) {
	whole := rolling.Period{From: max(l.Every.Floor(p.From), m.sealedTo), To: l.Every.Ceil(p.To)}
	if l.from != nil {
		// A level that is computed from another level may lack the bucket that contains p.To: the
		// rows of the other level stay, so this bucket can be computed later. Earlier buckets must
		// have all raw rows of the period, because the live view reads raw rows from the watermark
		// on.
		whole.To = l.Every.Floor(p.To)
	}
	if whole.From >= whole.To {
		return "", nil
	}
	if m.watermark < whole.To {
		if rows == 0 && m.watermark <= l.Every.Bounds().From {
			if first, err := s.firstOf(ctx, s.db.SQL(), l, whole); err != nil || first >= whole.To {
				return "", err
			}
		}
		return fmt.Sprintf("roll-up %s is computed up to %s only, not %s", l.Name, l.Every.Format(m.watermark), l.Every.Format(whole.To)), nil
	}
	n, err := s.staleIn(ctx, s.db.SQL(), l, whole)
	if err != nil {
		return "", err
	}
	if n > 0 {
		return fmt.Sprintf("%d stale buckets of roll-up %s are to be computed again", n, l.Name), nil
	}
	n, err = s.number(ctx, s.db.SQL(), "SELECT COUNT(*) FROM rowmill_touched WHERE table_name = ? AND lower_pos < ? AND upper_pos >= ?",
		s.table.Name, whole.To, whole.From)
	if err != nil {
		return "", err
	}
	if n > 0 {
		return fmt.Sprintf("rows changed that roll-up %s has not seen yet", l.Name), nil
	}
	differ, err := s.differing(ctx, s.db.SQL(), l, whole)
	if err != nil || len(differ) == 0 {
		return "", err
	}
	return fmt.Sprintf("%s not counted all rows of the table; the first is %s",
		figure.Plural(len(differ), "bucket of roll-up "+l.Name+" has", "buckets of roll-up "+l.Name+" have"), l.Every.Format(differ[0].From)), nil
}

func (s *Set) staleIn(ctx context.Context, x state.Exec, l *level, p rolling.Period) (int64, error) {
	return s.number(ctx, x, "SELECT COUNT(*) FROM rowmill_stale WHERE rollup_name = ? AND bucket >= ? AND bucket < ?", l.Name, p.From, p.To)
}

// Writers that leave no notes may insert late rows, which only a count finds. A bucket is counted
// at seven ages: firstRecount, and then recountFactor times the previous age. So a late row is
// found after at most recountFactor times its delay.
const (
	firstRecount  = 10 * time.Second
	recountFactor = 8
	lastRecount   = firstRecount * recountFactor * recountFactor * recountFactor * recountFactor * recountFactor * recountFactor
)

// LateBound returns a text for messages: for how long roll-ups and live views may
// lack late rows at most.
func (s *Set) LateBound() string {
	switch {
	case s.declared.Exact:
		return "triggers record all rows: live views are correct at any time"
	case s.table.Grid.Axis() != rolling.Time:
		return "rows that other programs insert below the watermark are included when their period is sealed"
	}
	return fmt.Sprintf("a late row that another program inserts is included after at most %d times its delay, and at least %v, plus a refresh: a row that is 1m late, within %v of its bucket's end", recountFactor, firstRecount, recountFactor*time.Minute)
}

// Recount counts the rows of the buckets that have reached one of the seven ages (see recounted)
// since the last call, and returns how many of these buckets are stale. now is the position of the
// clock. If the clock was set back, buckets reach an age twice.
func (s *Set) Recount(ctx context.Context, now int64) (int, error) {
	if len(s.levels) == 0 || s.declared.Exact || s.table.Grid.Axis() != rolling.Time {
		return 0, nil
	}
	return s.exclusively(ctx, func(ctx context.Context, w *worker) (stale int, err error) {
		for _, l := range w.levels {
			if l.from != nil {
				continue // counting the buckets of the level from which it is computed suffices
			}
			n, err := w.recount(ctx, l, now)
			if stale += n; err != nil {
				return stale, fmt.Errorf("count rows of roll-up %s again: %w", l.Name, err)
			}
		}
		return stale, nil
	})
}

// recounted returns the buckets that reach one of the seven ages while the clock goes from last to
// now. The newest buckets come first, because their late rows are to be found soonest. A bucket
// that reaches several ages is returned once.
func recounted(every rolling.Grid, last, now int64) (out []rolling.Period) {
	end := every.Bounds().To
	for age := firstRecount; age <= lastRecount; age *= recountFactor {
		p := rolling.Period{From: every.Floor(last - age.Microseconds()), To: min(end, every.Floor(now-age.Microseconds()))}
		if p.From < p.To {
			out, end = append(out, p), p.From
		}
	}
	return out
}

func (w *worker) recount(ctx context.Context, l *level, now int64) (stale int, err error) {
	last, err := w.number(ctx, w.conn, "SELECT checked_us FROM rowmill_rollups WHERE table_name = ? AND name = ?", w.table.Name, l.Name)
	if err != nil || last == now {
		return 0, err
	}
	if last != 0 && last < now {
		due := recounted(l.Every, last, now)
		if len(due) == 0 { // keep checked_us, so that no bucket is left out later
			return 0, nil
		}
		for _, p := range due {
			n, err := w.check(ctx, l, p)
			if stale += n; err != nil {
				return stale, err
			}
		}
	}
	// Updated last: after an error or a crash, all of them are counted again.
	_, err = w.exec(ctx, w.conn, "UPDATE rowmill_rollups SET checked_us = ? WHERE table_name = ? AND name = ?", now, w.table.Name, l.Name)
	return stale, err
}
