package rollup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Limits of a transaction. It should take goalTime: locks are short then, and a crash loses little.
const (
	goalTime = 500 * time.Millisecond
	// maxBuckets limits the buckets that are computed together, or marked in one transaction.
	maxBuckets = 4096
	// maxGroups is the approximate limit of the rows of several buckets computed together.
	maxGroups = 50000
	// notesAtOnce limits the notes that one transaction consumes. marksAtOnce limits the buckets that
	// one statement marks as stale.
	notesAtOnce = 1000
	marksAtOnce = 500
	tries       = 5 // attempts at a transaction that the server has rolled back
)

// Refresh computes stale buckets and all complete buckets that end at or before
// upTo, and returns how many it computed. After an error or a crash, the next
// refresh does the rest; live views are correct in the meantime.
func (s *Set) Refresh(ctx context.Context, upTo int64) (int, error) {
	if len(s.levels) == 0 {
		return 0, nil
	}
	if done, err := s.done(ctx, upTo); done || err != nil {
		return 0, err
	}
	return s.exclusively(ctx, func(ctx context.Context, w *worker) (int, error) { return w.refresh(ctx, upTo) })
}

// done reports whether a refresh has nothing to do: there is no note of changed rows, no bucket is
// stale, and no further bucket has ended. It takes no lock and writes nothing. With exact = true it
// returns false, because only a comparison of the partitions would tell.
func (s *Set) done(ctx context.Context, upTo int64) (bool, error) {
	if s.declared.Exact {
		return false, nil
	}
	if was, _, err := s.recorded(ctx); was != nil || err != nil { // recorded while exact was declared: the refresh removes them
		return false, err
	}
	n, err := s.number(ctx, s.db.SQL(), "SELECT CASE WHEN EXISTS (SELECT 1 FROM rowmill_touched WHERE table_name = ?) THEN 1 ELSE 0 END", s.table.Name)
	for _, l := range s.levels {
		if n == 0 && err == nil {
			n, err = s.number(ctx, s.db.SQL(), "SELECT CASE WHEN EXISTS (SELECT 1 FROM rowmill_stale WHERE rollup_name = ?) THEN 1 ELSE 0 END", l.Name)
		}
	}
	if n > 0 || err != nil {
		return false, err
	}
	marks, err := s.marks(ctx, s.db.SQL())
	if err != nil {
		return false, err
	}
	for _, l := range s.levels {
		m, known := marks[l.Name]
		next := l.next(marks, upTo)
		switch {
		case !known:
			return false, nil // the refresh says what is missing
		case next.From >= next.To:
		case m.watermark > l.Every.Bounds().From:
			return false, nil
		default:
			if first, err := s.firstOf(ctx, s.db.SQL(), l, next); first < next.To || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// next returns the buckets of a level that have ended by a position and haven't been computed.
func (l *level) next(marks map[string]mark, upTo int64) rolling.Period {
	if l.from != nil {
		upTo = min(upTo, marks[l.from.Name].watermark)
	}
	m := marks[l.Name]
	return rolling.Period{From: max(m.watermark, m.sealedTo), To: l.Every.Floor(upTo)}
}

func (w *worker) refresh(ctx context.Context, upTo int64) (total int, err error) {
	began, paused := time.Now(), false
	defer func() {
		if paused {
			w.traced.pause(min(pauseFactor*time.Since(began), maxPause))
		}
	}()
	var compared time.Time
	compare := func() error {
		compared = time.Now()
		suspected, err := w.identify(ctx)
		if suspected {
			paused = true
			w.traced.pause(maxPause)
		}
		return err
	}
	if err := compare(); err != nil {
		return 0, err
	}
	if err := w.consume(ctx); err != nil {
		return 0, err
	}
	for _, l := range w.levels {
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return total, err
			}
			if time.Since(compared) > again { // find partitions that have left the table and come back since
				if err := compare(); err != nil {
					return total, err
				}
			}
			n, err := w.recompute(ctx, l)
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
// A note commits together with its rows, and consume reads it before the bucket is computed. So the
// bucket includes the rows of each note that consume has read. Rows that the computation misses
// still have their note: consume deletes only notes that it has read, and keeps notes that commit
// in the meantime.
func (w *worker) consume(ctx context.Context) error {
	for more := true; more; {
		err := w.tx(ctx, func(tx *transaction) error {
			type note struct {
				lower, upper int64
				writer       string
			}
			var notes []note
			// A locked note belongs to an open transaction, and may be the only note of that
			// transaction's rows. So it stays for the next refresh.
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
			var changed []rolling.Period
			for _, n := range notes {
				changed = append(changed, rolling.Period{From: n.lower, To: n.upper + 1})
			}
			if err := w.st.Changed(ctx, tx, w.table.Name, joined(changed)); err != nil {
				return err
			}
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
			return fmt.Errorf("include late rows in the roll-ups of %s: %w", w.table.Name, err)
		}
	}
	return nil
}

// mostChanged is how many ranges of changed rows one transaction records.
const mostChanged = 20

// joined merges ranges that overlap or touch; the ranges are in order. If more than mostChanged
// would remain, it merges the last ones, too.
func joined(ranges []rolling.Period) []rolling.Period {
	var out []rolling.Period
	for _, r := range ranges {
		if n := len(out); n > 0 && (r.From <= out[n-1].To || n == mostChanged) {
			out[n-1].To = max(out[n-1].To, r.To)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// markStale marks the buckets, of all levels, that overlap a range of raw rows and are computed but
// not sealed. In a long range it marks the first buckets that have rows, and returns the rest of
// the range.
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
		some, err := l.run(rolling.Period{From: within.From, To: l.Every.Bounds().To}, maxBuckets)
		if err != nil {
			return 0, rest, err
		}
		cut = min(cut, some.To)
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

// computed returns the part of a range that a level has computed and may compute again. It begins
// at the start of a bucket.
func (w *worker) computed(tx *transaction, l *level, p rolling.Period) rolling.Period {
	m := tx.marks[l.Name]
	return rolling.Period{From: max(l.Every.Floor(p.From), m.sealedTo), To: min(p.To, m.watermark)}
}

func (w *worker) markLevel(ctx context.Context, tx *transaction, l *level, p rolling.Period) (marked int, err error) {
	return w.markBuckets(ctx, tx, l, w.computed(tx, l, p))
}

func (w *worker) markBuckets(ctx context.Context, tx *transaction, l *level, p rolling.Period) (marked int, err error) {
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

func (w *worker) recompute(ctx context.Context, l *level) (int, error) {
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
	if err == nil && l.from == nil && w.Lost != nil {
		err = w.Lost(ctx, r.Period)
	}
	if err != nil {
		return 0, err
	}
	// Only now are the buckets up to date. Buckets that are computed from them become stale.
	err = w.publish(ctx, l, r.Period, rows, func(tx *transaction) error {
		if _, err := w.exec(ctx, tx, "DELETE FROM rowmill_stale WHERE rollup_name = ? AND bucket >= ? AND bucket < ?", l.Name, r.From, r.To); err != nil {
			return err
		}
		return w.markChildren(ctx, tx, l, r.Period)
	})
	if errors.Is(err, errSealed) {
		return r.count, nil // the buckets that aren't sealed are still stale, and computed next
	}
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

type run struct {
	rolling.Period
	count int
}

// run returns the first buckets of a range, at most n. The last bucket may end after the range.
func (l *level) run(p rolling.Period, n int) (run, error) {
	r := run{rolling.Period{From: p.From, To: p.From}, 0}
	for r.To < p.To && r.count < n {
		b, err := l.Every.At(r.To)
		if err != nil {
			return run{}, err
		}
		r.To = b.To
		r.count++
	}
	return r, nil
}

// firstRun returns the first run of adjacent stale buckets whose sources are up to date. The run
// has at most l.batch buckets, the number that is computed together. Stale buckets whose source is
// not up to date wait until the finer level is computed.
func (w *worker) firstRun(ctx context.Context, tx *transaction, l *level, stale []int64) (run, error) {
	var r run
	for _, b := range stale {
		if r.count > 0 && (b != r.To || r.count >= l.batch) {
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

// advance moves the watermark past the buckets to compute next, and reports whether there are any.
// It marks these buckets stale until they are computed: from now on, writers note their rows, and
// live views read their raw rows.
func (w *worker) advance(ctx context.Context, l *level, upTo int64) (more bool, err error) {
	err = w.tx(ctx, func(tx *transaction) error {
		more = false
		p := l.next(tx.marks, upTo)
		if p.From >= p.To {
			return nil
		}
		if l.from != nil {
			stale, err := w.stale(ctx, tx, l.from, p)
			if err != nil {
				return err
			}
			if len(stale) > 0 {
				if p.To = l.Every.Floor(stale[0]); p.From >= p.To {
					return nil
				}
			}
		}
		next, err := w.firstOf(ctx, tx, l, p)
		if err != nil {
			return err
		}
		if p.From = min(max(next, p.From), p.To); p.From >= p.To && tx.marks[l.Name].watermark <= l.Every.Bounds().From {
			return nil // no row yet: the watermark stays unset
		}
		some, err := l.run(p, min(l.batch, marksAtOnce))
		if err != nil {
			return err
		}
		more = some.count > 0
		if _, err := w.markBuckets(ctx, tx, l, some.Period); err != nil {
			return err
		}
		if _, err := w.exec(ctx, tx, "UPDATE rowmill_rollups SET watermark = ? WHERE table_name = ? AND name = ?", some.To, w.table.Name, l.Name); err != nil {
			return fmt.Errorf("advance the watermark: %w", err)
		}
		return nil
	})
	return more, err
}

func (l *level) paced(took time.Duration, rows int64) {
	switch {
	case took > 2*goalTime || rows > maxGroups:
		l.batch = max(l.batch/2, 1)
	case took < goalTime/2 && rows < maxGroups/2:
		l.batch = min(l.batch*2, maxBuckets)
	}
}

// A Present returns, in order, the periods whose raw rows all exist and are not about to be
// removed.
type Present func(ctx context.Context) ([]rolling.Period, error)

// RefreshRange recomputes all buckets that overlap a range, whether or not they are marked stale.
// It then computes the complete buckets up to the range's end that were never computed. It rejects
// a range with missing raw rows. It also rejects a range with sealed buckets, unless the periods
// that present returns cover all raw rows of these buckets; a nil present covers none.
func (s *Set) RefreshRange(ctx context.Context, from, to int64, present Present) (int, error) {
	fail := func(n int, err error) (int, error) {
		return n, fmt.Errorf("refresh roll-ups of %s: %w", s.table.Name, err)
	}
	if from >= to {
		return fail(0, errors.New("the range ends before it begins"))
	}
	if len(s.levels) == 0 {
		return fail(0, errors.New("it has none"))
	}
	n, err := s.exclusively(ctx, func(ctx context.Context, w *worker) (int, error) { return w.refreshRange(ctx, from, to, present) })
	if err != nil {
		return fail(n, err)
	}
	return n, nil
}

func (w *worker) refreshRange(ctx context.Context, from, to int64, present Present) (total int, err error) {
	sealed := map[*level]rolling.Period{}
	err = w.tx(ctx, func(tx *transaction) error {
		clear(sealed)
		for _, l := range w.levels {
			p := rolling.Period{From: l.Every.Floor(from), To: l.Every.Ceil(to)}
			if below := (rolling.Period{From: p.From, To: min(p.To, tx.marks[l.Name].sealedTo)}); below.From < below.To {
				if err := w.mayUnseal(ctx, l, below, tx.marks[l.Name].sealedTo, present); err != nil {
					return err
				}
				sealed[l] = below
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, l := range w.levels { // markAll leaves sealed buckets to computeSealed
		if err := w.markAll(ctx, l, rolling.Period{From: l.Every.Floor(from), To: l.Every.Ceil(to)}); err != nil {
			return 0, err
		}
	}
	for _, l := range w.levels {
		n, err := w.computeSealed(ctx, l, sealed[l], present)
		total += n
		if err != nil {
			return total, fmt.Errorf("roll-up %s: %w", l.Name, err)
		}
	}
	n, err := w.refresh(ctx, to)
	return total + n, err
}

// markAll marks the buckets of level l that overlap a range, and the buckets of the levels computed
// from l. It takes several transactions if necessary, and skips buckets without a row.
func (w *worker) markAll(ctx context.Context, l *level, p rolling.Period) error {
	for p.From < p.To {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := p.To
		err := w.tx(ctx, func(tx *transaction) (err error) { // may run twice, so it doesn't change p
			whole := w.computed(tx, l, p)
			if whole.From >= whole.To {
				return nil
			}
			first, err := w.firstOf(ctx, tx, l, whole)
			if err != nil {
				return err
			}
			some, err := l.run(rolling.Period{From: first, To: whole.To}, maxBuckets)
			if err != nil {
				return err
			}
			if next = some.To; some.To >= whole.To {
				next = p.To
			}
			return w.markTree(ctx, tx, l, some.Period)
		})
		if err != nil {
			return err
		}
		p.From = next
	}
	return nil
}

func (s *Set) mayUnseal(ctx context.Context, l *level, p rolling.Period, sealedTo int64, present Present) error {
	if l.from != nil {
		return engine.Hinted(fmt.Errorf("buckets of %s below %s are sealed, since rows of %s that they were computed from have passed its keep", l.Name, l.Every.Format(sealedTo), l.from.Name),
			"--from %q", l.Every.Format(sealedTo))
	}
	gone, err := missing(ctx, p, present)
	if err != nil || gone.From >= gone.To {
		return err
	}
	return engine.Hinted(fmt.Errorf("buckets of %s below %s are sealed, since the rows they were computed from are dropped or about to be: those from %s to %s",
		l.Name, l.Every.Format(sealedTo), s.table.Grid.Format(gone.From), s.table.Grid.Format(gone.To)),
		"--from %q, or bring the rows back first: rowmill restore", l.Every.Format(sealedTo))
}

// missing returns the first part of a range that no period covers, empty if none.
func missing(ctx context.Context, p rolling.Period, present Present) (rolling.Period, error) {
	if present == nil {
		return p, nil
	}
	there, err := present(ctx)
	if err != nil {
		return p, err
	}
	for _, have := range there {
		switch {
		case have.To <= p.From:
		case have.From > p.From:
			return rolling.Period{From: p.From, To: min(p.To, have.From)}, nil
		default:
			p.From = min(p.To, have.To)
		}
	}
	return p, nil
}

// computeSealed computes sealed buckets of a level. Raw rows may be removed at any time, so a
// result is valid only if the raw rows still exist after the computation. Live views read sealed
// buckets from the roll-up alone, so each run of buckets is replaced in one transaction.
func (w *worker) computeSealed(ctx context.Context, l *level, p rolling.Period, present Present) (total int, err error) {
	for p.From < p.To {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		began := time.Now()
		r, err := l.run(p, l.batch)
		if err != nil {
			return total, err
		}
		rows, err := w.compute(ctx, l, r.Period)
		if err != nil {
			return total, err
		}
		err = w.tx(ctx, func(tx *transaction) error {
			if _, err := w.replace(ctx, tx, l, w.between(w.quote(Bucket), r.From, r.To), "1 = 1", nil); err != nil {
				return err
			}
			if err := w.markChildren(ctx, tx, l, r.Period); err != nil {
				return err
			}
			gone, err := missing(ctx, r.Period, present)
			if err == nil && gone.From < gone.To {
				err = fmt.Errorf("rows from %s to %s were removed meanwhile", w.table.Grid.Format(gone.From), w.table.Grid.Format(gone.To))
			}
			return err
		})
		if err != nil {
			return total, err
		}
		l.paced(time.Since(began), rows)
		total += r.count
		p.From = r.To
	}
	return total, nil
}
