package rollup

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Limits of a transaction. Half a second keeps locks short and limits the work lost
// in a crash.
const (
	goalTime = 500 * time.Millisecond
	// maxBuckets limits the buckets that are computed together, and those that one
	// transaction marks.
	maxBuckets = 4096
	// maxGroups is the approximate limit of a level's rows that are computed
	// together, if they belong to several buckets.
	maxGroups = 50000
	// notesAtOnce limits the notes that one transaction consumes.
	notesAtOnce = 1000
	// marksAtOnce is the number of buckets that one statement marks.
	marksAtOnce = 500
	tries       = 5 // for a transaction that the server rolled back
)

// Refresh computes stale buckets and all complete buckets that end at or before
// upTo, and returns how many it computed. After an error or a crash, the next
// refresh does the rest; live views are correct in the meantime.
func (s *Set) Refresh(ctx context.Context, upTo int64) (total int, err error) {
	if len(s.levels) == 0 {
		return 0, nil
	}
	err = s.alone(ctx, func(ctx context.Context, w *worker) error {
		total, err = w.refresh(ctx, upTo)
		return err
	})
	return total, err
}

func (w *worker) refresh(ctx context.Context, upTo int64) (total int, err error) {
	if err := w.consume(ctx); err != nil {
		return 0, err
	}
	for _, l := range w.levels {
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return total, err
			}
			n, err := w.again(ctx, l)
			if total += n; err == nil && n == 0 {
				more, err = w.advance(ctx, l, upTo)
			}
			if err != nil {
				return total, fmt.Errorf("refresh roll-up %s: %w", l.Name, err)
			}
		}
	}
	return total, nil
}

// consume turns notes of changed rows into stale buckets, and deletes the notes.
//
// A note commits with its rows, and is read before them. The later computation of
// the bucket therefore includes the rows of each note that is read here, and rows
// that it misses still have their note. Notes are deleted by the keys that were
// read, so that a note which commits in the meantime stays.
func (w *worker) consume(ctx context.Context) error {
	for more := true; more; {
		err := w.tx(ctx, func(tx *transaction) error {
			type note struct {
				lower, upper int64
				writer       string
			}
			var notes []note
			// A locked note belongs to an open transaction, whose rows have no
			// other note: it is left for the next refresh.
			err := w.each(ctx, tx, func(r *sql.Rows) error {
				var n note
				err := r.Scan(&n.lower, &n.upper, &n.writer)
				notes = append(notes, n)
				return err
			}, fmt.Sprintf("SELECT lower_pos, upper_pos, writer FROM rowmill_touched WHERE table_name = ? ORDER BY lower_pos, upper_pos, writer LIMIT %d%s",
				notesAtOnce, w.sums.SkipLocked()), w.table.Name)
			if err != nil {
				return err
			}
			more = len(notes) == notesAtOnce
			marked := 0
			for _, n := range notes {
				if marked >= maxBuckets {
					more = true
					return nil
				}
				k, rest, err := w.markStale(ctx, tx, rolling.Period{From: n.lower, To: n.upper + 1})
				if err != nil {
					return err
				}
				marked += k
				if _, err := w.exec(ctx, tx, "DELETE FROM rowmill_touched WHERE table_name = ? AND lower_pos = ? AND upper_pos = ? AND writer = ?",
					w.table.Name, n.lower, n.upper, n.writer); err != nil {
					return err
				}
				if rest.From < rest.To {
					more = true
					if err := w.st.Touch(ctx, tx, w.table.Name, "the rest of a range", rest); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("take late rows into the roll-ups of %s: %w", w.table.Name, err)
		}
	}
	return nil
}

// markStale marks the computed, unsealed buckets of all levels that overlap a range
// of raw rows. In a range of many buckets it marks the first ones that have rows,
// and returns the rest of the range.
func (w *worker) markStale(ctx context.Context, tx *transaction, p rolling.Period) (marked int, rest rolling.Period, err error) {
	cut, first := p.To, p.To
	for _, l := range w.levels {
		within := w.computed(tx, l, p)
		if _, err := l.Every.Cover(within, maxBuckets); within.From >= within.To || err == nil {
			first = min(first, within.From)
			continue
		}
		// The axis is long, and a note may cover all of it: skip to the first row.
		if within.From, err = w.firstOf(ctx, tx, l, within); err != nil {
			return 0, rest, err
		}
		first = min(first, within.From)
		if within.From >= within.To {
			continue
		}
		end := within.From
		for range maxBuckets {
			b, err := l.Every.At(end)
			if err != nil {
				return 0, rest, err
			}
			end = b.To
		}
		cut = min(cut, end)
	}
	rest = rolling.Period{From: max(p.From, cut), To: p.To}
	if first >= p.To {
		return 0, rolling.Period{}, nil
	}
	for _, l := range w.levels {
		n, err := w.markLevel(ctx, tx, l, rolling.Period{From: min(first, cut), To: cut})
		if marked += n; err != nil {
			return marked, rest, err
		}
	}
	return marked, rest, nil
}

// computed returns the part of a range that a level has computed and may compute
// again. It begins with a complete bucket.
func (w *worker) computed(tx *transaction, l *level, p rolling.Period) rolling.Period {
	m := tx.marks[l.Name]
	return rolling.Period{From: max(l.Every.Floor(p.From), m.sealedTo), To: min(p.To, m.watermark)}
}

// markLevel marks the computed buckets of a level that overlap a range, and returns
// their number.
func (w *worker) markLevel(ctx context.Context, tx *transaction, l *level, p rolling.Period) (marked int, err error) {
	p = w.computed(tx, l, p)
	var some []int64
	for at := p.From; at < p.To; {
		b, err := l.Every.At(at)
		if err != nil {
			return marked, err
		}
		some, at = append(some, b.From), b.To
		if len(some) == marksAtOnce || at >= p.To {
			if err := w.mark(ctx, tx, l, some); err != nil {
				return marked, err
			}
			marked, some = marked+len(some), some[:0]
		}
	}
	return marked, nil
}

// mark marks buckets of a level as stale.
func (w *worker) mark(ctx context.Context, tx *transaction, l *level, buckets []int64) error {
	begin, end := w.sums.InsertNew()
	var args []any
	for _, b := range buckets {
		args = append(args, l.Name, b)
	}
	q := begin + " INTO rowmill_stale (rollup_name, bucket) VALUES (?, ?)" + strings.Repeat(", (?, ?)", len(buckets)-1) + end
	if _, err := w.exec(ctx, tx, q, args...); err != nil {
		return fmt.Errorf("mark bucket %s of %s: %w", l.Every.Format(buckets[0]), l.Name, err)
	}
	return nil
}

// again recomputes some stale buckets of a level, and returns their number.
func (w *worker) again(ctx context.Context, l *level) (int, error) {
	var r run
	err := w.tx(ctx, func(tx *transaction) error {
		r = run{}
		stale, err := w.stale(ctx, tx, l, rolling.Period{From: tx.marks[l.Name].sealedTo, To: tx.marks[l.Name].watermark})
		if err != nil || len(stale) == 0 {
			return err
		}
		r, err = w.firstRun(ctx, tx, l, stale)
		return err
	})
	if err != nil || r.count == 0 {
		return 0, err
	}
	began := time.Now()
	rows, err := w.compute(ctx, l, r.Period)
	if err != nil {
		return 0, err
	}
	// The buckets are up to date only at this point, and those computed from them
	// become stale.
	err = w.publish(ctx, l, r.Period, rows, func(tx *transaction) error {
		if _, err := w.exec(ctx, tx, "DELETE FROM rowmill_stale WHERE rollup_name = ? AND bucket >= ? AND bucket < ?", l.Name, r.From, r.To); err != nil {
			return err
		}
		return w.markChildren(ctx, tx, l, r.Period)
	})
	if err != nil {
		return 0, err
	}
	l.paced(time.Since(began), rows)
	return r.count, nil
}

func (w *worker) markChildren(ctx context.Context, tx *transaction, l *level, p rolling.Period) error {
	for _, c := range l.children {
		if _, err := w.markLevel(ctx, tx, c, p); err != nil {
			return err
		}
	}
	return nil
}

// A run is a range of consecutive buckets.
type run struct {
	rolling.Period
	count int
}

// firstRun returns the first stale buckets whose sources are up to date: adjacent
// ones, up to the number computed together. The others have to wait for the finer
// level.
func (w *worker) firstRun(ctx context.Context, tx *transaction, l *level, stale []int64) (run, error) {
	var r run
	for _, b := range stale {
		if r.count > 0 && (b != r.To || int64(r.count) >= l.batch) {
			break
		}
		p, err := l.Every.At(b)
		if err != nil {
			return run{}, err
		}
		ready, err := w.ready(ctx, tx, l, p)
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
func (w *worker) stale(ctx context.Context, tx *transaction, l *level, p rolling.Period) ([]int64, error) {
	var out []int64
	err := w.each(ctx, tx, func(r *sql.Rows) error {
		var b int64
		err := r.Scan(&b)
		out = append(out, b)
		return err
	}, fmt.Sprintf("SELECT bucket FROM rowmill_stale WHERE rollup_name = ? AND bucket >= ? AND bucket < ? ORDER BY bucket LIMIT %d", maxBuckets), l.Name, p.From, p.To)
	return out, err
}

// ready reports whether the source of a bucket is up to date.
func (w *worker) ready(ctx context.Context, tx *transaction, l *level, p rolling.Period) (bool, error) {
	if l.from == nil {
		return true, nil
	}
	if tx.marks[l.from.Name].watermark < p.To {
		return false, nil
	}
	stale, err := w.stale(ctx, tx, l.from, p)
	return len(stale) == 0, err
}

// advance moves the watermark past the buckets to compute next, and reports whether
// there are any. They are marked stale until they are computed: from this moment
// writers record rows for them in notes, and live views read their raw rows.
func (w *worker) advance(ctx context.Context, l *level, upTo int64) (more bool, err error) {
	err = w.tx(ctx, func(tx *transaction) error {
		more = false
		m, to := tx.marks[l.Name], l.Every.Floor(upTo)
		if l.from != nil {
			to = l.Every.Floor(min(upTo, tx.marks[l.from.Name].watermark))
		}
		from := max(m.watermark, m.sealedTo)
		if from >= to {
			return nil
		}
		if l.from != nil {
			stale, err := w.stale(ctx, tx, l.from, rolling.Period{From: from, To: to})
			if err != nil {
				return err
			}
			if len(stale) > 0 {
				if to = l.Every.Floor(stale[0]); from >= to {
					return nil
				}
			}
		}
		next, err := w.firstOf(ctx, tx, l, rolling.Period{From: from, To: to})
		if err != nil {
			return err
		}
		if next = min(max(next, from), to); next >= to && m.watermark <= l.Every.Bounds().From {
			return nil // no row yet: the watermark stays unset
		}
		var some []int64
		for next < to && int64(len(some)) < l.batch {
			b, err := l.Every.At(next)
			if err != nil {
				return err
			}
			some, next = append(some, b.From), b.To
			if len(some) == marksAtOnce {
				break
			}
		}
		if more = len(some) > 0; more {
			if err := w.mark(ctx, tx, l, some); err != nil {
				return err
			}
		}
		return w.setWatermark(ctx, tx, l, next)
	})
	return more, err
}

func (w *worker) setWatermark(ctx context.Context, tx *transaction, l *level, to int64) error {
	_, err := w.exec(ctx, tx, "UPDATE rowmill_rollups SET watermark = ? WHERE table_name = ? AND name = ?", to, w.table.Name, l.Name)
	if err != nil {
		return fmt.Errorf("advance the watermark: %w", err)
	}
	tx.marks[l.Name] = mark{to, tx.marks[l.Name].sealedTo}
	return nil
}

// paced sets the number of buckets to compute together next.
func (l *level) paced(took time.Duration, rows int64) {
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

type execer = state.Exec
