package rollup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Seal records, in the transaction of x, that raw rows below upTo are about to be removed: buckets
// that contain any of these rows are never computed again. It fails if one of the buckets isn't
// computed. The caller must check Proof first.
func (s *Set) Seal(ctx context.Context, x state.Exec, upTo int64) error {
	return s.eachRaw(ctx, x, func(l *level, m mark) error {
		to := l.Every.Ceil(upTo)
		if m.watermark < to && m.watermark > l.Every.Bounds().From {
			return fmt.Errorf("it is computed up to %s only, not to %s", l.Every.Format(m.watermark), l.Every.Format(to))
		}
		if m.sealedTo >= to {
			return nil
		}
		// Stale buckets may be incomplete, and once sealed, they'd never be recomputed.
		stale, err := s.staleIn(ctx, x, l, rolling.Period{From: m.sealedTo, To: to})
		if err != nil {
			return err
		}
		if stale > 0 {
			return fmt.Errorf("up to %s, %s still to be computed again", l.Every.Format(to), figure.Plural(stale, "bucket is", "buckets are"))
		}
		return s.seal(ctx, x, l, to)
	})
}

// Lose records, in the transaction of x, that raw rows below upTo are gone although Seal wasn't
// called. Buckets that were computed from these rows stay as they are.
func (s *Set) Lose(ctx context.Context, x state.Exec, upTo int64) error {
	return s.eachRaw(ctx, x, func(l *level, m mark) error { return s.seal(ctx, x, l, min(l.Every.Ceil(upTo), m.watermark)) })
}

// eachRaw calls fn with each level that is computed from raw rows. Meanwhile no worker replaces the
// level's buckets.
func (s *Set) eachRaw(ctx context.Context, x state.Exec, fn func(*level, mark) error) error {
	for _, l := range s.levels {
		if l.from != nil {
			continue // its source, a finer level, keeps its rows
		}
		_, err := s.exec(ctx, x, lockRollups, s.table.Name)
		var marks map[string]mark
		if err == nil {
			marks, err = s.marks(ctx, x)
		}
		if m, ok := marks[l.Name]; err == nil && !ok {
			err = errors.New("it does not exist yet")
		} else if err == nil {
			err = fn(l, m)
		}
		if err != nil {
			return fmt.Errorf("seal roll-up %s: %w", l.Name, err)
		}
	}
	return nil
}

func (s *Set) seal(ctx context.Context, x execer, l *level, to int64) error {
	_, err := s.exec(ctx, x, "UPDATE rowmill_rollups SET sealed_to = ? WHERE table_name = ? AND name = ? AND sealed_to < ?", to, s.table.Name, l.Name, to)
	if err == nil {
		_, err = s.exec(ctx, x, "DELETE FROM rowmill_stale WHERE rollup_name = ? AND bucket < ?", l.Name, to)
	}
	return err
}

// SealedTo returns the highest position up to which any level is sealed: a row that is inserted
// below that position would be missing from that level. It returns the start of the axis if no
// level is sealed. It ignores levels whose sealed buckets have all passed the level's own
// retention.
func (s *Set) SealedTo(ctx context.Context, now int64) (int64, error) {
	to := s.table.Grid.Bounds().From
	marks, err := s.marks(ctx, s.db.SQL())
	if err != nil {
		return to, err
	}
	for _, l := range s.levels {
		m, ok := marks[l.Name]
		expired := len(l.children) == 0 && !l.Keep.IsZero() && m.sealedTo <= l.Every.Floor(l.Keep.Before(now))
		if ok && !expired {
			to = max(to, m.sealedTo)
		}
	}
	return to, nil
}

// Unseal records, in the transaction of x, that all raw rows from a position on exist. Buckets that
// begin there or later may be computed again.
func (s *Set) Unseal(ctx context.Context, x state.Exec, from int64) error {
	for _, l := range s.levels {
		if l.from != nil {
			continue
		}
		to := l.Every.Ceil(from)
		if _, err := s.exec(ctx, x, "UPDATE rowmill_rollups SET sealed_to = ? WHERE table_name = ? AND name = ? AND sealed_to > ?", to, s.table.Name, l.Name, to); err != nil {
			return fmt.Errorf("unseal roll-up %s: %w", l.Name, err)
		}
	}
	return nil
}

// markTree marks the buckets that overlap a range, of a level and of the levels computed from it.
func (w *worker) markTree(ctx context.Context, tx *transaction, l *level, p rolling.Period) error {
	if _, err := w.markLevel(ctx, tx, l, p); err != nil {
		return err
	}
	for _, c := range l.children {
		if err := w.markTree(ctx, tx, c, p); err != nil {
			return err
		}
	}
	return nil
}

const expireBuckets = 64

// Expire removes, in parts, the rows of each level that have passed the level's retention. Rows
// that a coarser level still needs for its computation stay.
func (s *Set) Expire(ctx context.Context, now int64) error {
	for _, l := range slices.Backward(s.levels) {
		if l.Keep.IsZero() {
			continue
		}
		cut := l.Every.Floor(l.Keep.Before(now))
		first, err := s.first(ctx, s.db.SQL(), l, cut)
		if err == nil && first < cut {
			_, err = s.exclusively(ctx, func(ctx context.Context, w *worker) (int, error) { return 0, w.expire(ctx, l, first, cut) })
		}
		if err != nil {
			return fmt.Errorf("expire roll-up %s: %w", l.Name, err)
		}
	}
	return nil
}

func (w *worker) expire(ctx context.Context, l *level, first, cut int64) error {
	err := w.tx(ctx, func(tx *transaction) error {
		cut = min(cut, tx.marks[l.Name].watermark)
		for _, c := range l.children {
			cut = min(cut, l.Every.Floor(tx.marks[c.Name].watermark))
			stale, err := w.stale(ctx, tx, c, rolling.Period{From: tx.marks[c.Name].sealedTo, To: c.Every.Ceil(cut)})
			if err != nil {
				return err
			}
			if len(stale) > 0 {
				cut = min(cut, l.Every.Floor(stale[0]))
			}
		}
		if err := w.seal(ctx, tx, l, cut); err != nil {
			return err
		}
		for _, c := range l.children {
			if err := w.seal(ctx, tx, c, min(c.Every.Ceil(cut), tx.marks[c.Name].watermark)); err != nil {
				return err
			}
		}
		return nil
	})
	for n := expireBuckets; err == nil && first < cut; {
		if err := ctx.Err(); err != nil {
			return err
		}
		some, err := l.run(rolling.Period{From: first, To: cut}, n)
		if err != nil {
			return err
		}
		began := time.Now()
		remove := func(ctx context.Context) error {
			_, err := w.exec(ctx, w.conn, fmt.Sprintf("DELETE FROM %s WHERE %s", w.quote(l.Name), w.between(w.quote(Bucket), first, min(some.To, cut))))
			return err
		}
		if w.Guard == nil {
			err = remove(ctx)
		} else {
			err = w.Guard(ctx, remove)
		}
		if err != nil {
			return err
		}
		if took := time.Since(began); took < goalTime/2 {
			n = min(n*2, maxBuckets)
		} else if took > goalTime {
			n = max(n/2, 1)
		}
		if first, err = w.first(ctx, w.conn, l, cut); err != nil {
			return err
		}
	}
	return err
}

func (s *Set) first(ctx context.Context, x state.Exec, l *level, below int64) (int64, error) {
	own := s.levelRows(l)
	return s.least(ctx, x, own, own.column+" < "+s.db.Words().Literal(s.table, below), below)
}

// A Level is the status of one roll-up.
type Level struct {
	Name  string
	Every rolling.Grid
	// Watermark is the position up to which buckets are computed, except stale ones. Begun is false if
	// no bucket is computed; then the watermark is the start of the axis.
	Watermark int64
	Begun     bool
	// SealedTo is the position below which buckets are never computed again.
	SealedTo int64
	// Stale is the number of buckets below the watermark to be recomputed.
	Stale int64
	// Rows is the number of rows of its table.
	Rows int64
}

// Status returns the status of each level (a roll-up), in the declaration's order. Levels that
// don't exist yet are omitted.
func (s *Set) Status(ctx context.Context) ([]Level, error) {
	var out []Level
	for _, l := range s.levels {
		st := Level{Name: l.Name, Every: l.Every}
		found := false
		err := s.each(ctx, s.db.SQL(), func(r *sql.Rows) error {
			found = true
			return r.Scan(&st.Watermark, &st.SealedTo, &st.Stale)
		}, "SELECT watermark, sealed_to, (SELECT COUNT(*) FROM rowmill_stale s WHERE s.rollup_name = r.name) FROM rowmill_rollups r WHERE table_name = ? AND name = ?", s.table.Name, l.Name)
		if err == nil && found {
			if err = s.belowStale(ctx, l, &st); err != nil {
				return nil, fmt.Errorf("status of roll-up %s: %w", l.Name, err)
			}
			st.Begun = st.Watermark > l.Every.Bounds().From
			st.Rows, err = s.number(ctx, s.db.SQL(), "SELECT COUNT(*) FROM "+s.quote(l.Name))
			out = append(out, st)
		}
		if err != nil {
			return nil, fmt.Errorf("status of roll-up %s: %w", l.Name, err)
		}
	}
	return out, nil
}

// belowStale lowers st.Watermark below the stale buckets directly before it. These buckets were not
// computed yet: advance moves the watermark and marks the buckets stale before it computes them.
func (s *Set) belowStale(ctx context.Context, l *level, st *Level) error {
	return s.each(ctx, s.db.SQL(), func(r *sql.Rows) error {
		var pos int64
		if err := r.Scan(&pos); err != nil {
			return err
		}
		if b, err := l.Every.At(pos); err == nil && b.To == st.Watermark {
			st.Watermark = b.From
			st.Stale--
		}
		return nil
	}, fmt.Sprintf("SELECT bucket FROM rowmill_stale WHERE rollup_name = ? AND bucket < ? ORDER BY bucket DESC LIMIT %d", maxBuckets), l.Name, st.Watermark)
}
