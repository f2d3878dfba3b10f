package rollup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A Present returns, in order, the periods whose raw rows all exist and are not
// about to be removed.
type Present func(ctx context.Context) ([]rolling.Period, error)

// RefreshRange recomputes all buckets that overlap a range, whether or not they are
// marked stale. It then computes complete buckets up to its end that haven't been
// computed at all. It rejects a range with missing raw rows: sealed buckets are
// computed only if present, which may be nil, covers all of their rows.
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
	total := 0
	err := s.alone(ctx, func(ctx context.Context, w *worker) error {
		n, err := w.refreshRange(ctx, from, to, present)
		total += n
		return err
	})
	if err != nil {
		return fail(total, err)
	}
	return total, nil
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
	for _, l := range w.levels { // buckets that aren't sealed
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

// markAll marks the buckets of a level, and of the levels computed from it, that
// overlap a range. Each transaction marks at most its permitted number. Buckets
// without a row are skipped.
func (w *worker) markAll(ctx context.Context, l *level, p rolling.Period) error {
	for p.From < p.To {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := w.tx(ctx, func(tx *transaction) (err error) {
			whole := w.computed(tx, l, p)
			if whole.From >= whole.To {
				p.From = p.To
				return nil
			}
			first, err := w.firstOf(ctx, tx, l, whole)
			if err != nil {
				return err
			}
			p.From = first
			some := rolling.Period{From: p.From, To: p.From}
			for i := 0; i < maxBuckets && some.To < whole.To; i++ {
				b, err := l.Every.At(some.To)
				if err != nil {
					return err
				}
				some.To = b.To
			}
			if p.From = some.To; some.To >= whole.To {
				p.From = p.To
			}
			return w.markTree(ctx, tx, l, some)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mayUnseal rejects sealed buckets that can't be computed from the existing rows.
func (s *Set) mayUnseal(ctx context.Context, l *level, p rolling.Period, sealedTo int64, present Present) error {
	if l.from != nil {
		return engine.Hinted(fmt.Errorf("buckets of %s below %s are sealed, since rows of %s that they were computed from have passed its keep", l.Name, l.Every.Format(sealedTo), l.from.Name),
			"--from %q", l.Every.Format(sealedTo))
	}
	gone, err := missing(ctx, p, present)
	if err != nil || gone.From >= gone.To {
		return err
	}
	return engine.Hinted(fmt.Errorf("buckets of %s below %s are sealed, since the rows they were computed from are gone, or about to go: those from %s to %s",
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

// computeSealed computes sealed buckets of a level. Rows may be removed at any
// time, so a result is valid only if they existed until the end. Live views read
// sealed buckets from the roll-up alone, so one transaction replaces each run of
// them.
func (w *worker) computeSealed(ctx context.Context, l *level, p rolling.Period, present Present) (total int, err error) {
	for p.From < p.To {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		began := time.Now()
		r := run{rolling.Period{From: p.From, To: p.From}, 0}
		for r.To < p.To && int64(r.count) < l.batch {
			b, err := l.Every.At(r.To)
			if err != nil {
				return total, err
			}
			r.To = b.To
			r.count++
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
				err = fmt.Errorf("rows from %s to %s were taken away meanwhile", w.table.Grid.Format(gone.From), w.table.Grid.Format(gone.To))
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
