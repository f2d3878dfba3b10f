package rollup

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A Present returns the periods whose raw rows are all there, and not about to
// go, in order.
type Present func(ctx context.Context) ([]rolling.Period, error)

// RefreshRange computes all buckets that overlap a range anew, also those that
// nobody knows to be stale, and then whole buckets up to its end that haven't been
// computed at all. It refuses a range of which raw rows are gone: buckets that
// are sealed are computed only if present, which may be nil, has all of
// their rows.
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
	sealed := map[*level]rolling.Period{}
	err := s.tx(ctx, func(tx *transaction) error {
		clear(sealed)
		for _, l := range s.levels {
			p := rolling.Period{From: l.Every.Floor(from), To: l.Every.Ceil(to)}
			if below := (rolling.Period{From: p.From, To: min(p.To, tx.marks[l.Name].sealedTo)}); below.From < below.To {
				if err := s.mayUnseal(ctx, l, below, tx.marks[l.Name].sealedTo, present); err != nil {
					return err
				}
				sealed[l] = below
			}
			if err := s.markTree(ctx, tx, l, p); err != nil { // what isn't sealed
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fail(0, err)
	}
	total := 0
	for _, l := range s.levels {
		n, err := s.computeSealed(ctx, l, sealed[l], present)
		total += n
		if err != nil {
			return fail(total, fmt.Errorf("roll-up %s: %w", l.Name, err))
		}
	}
	n, err := s.Refresh(ctx, to)
	return total + n, err
}

// mayUnseal refuses sealed buckets that can't be computed from what is there.
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

// missing returns the first part of a range that no period has, empty if none.
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

// computeSealed computes sealed buckets of a level anew. Rows may be taken away
// at any time: what was computed counts only if they were there to the end.
func (s *Set) computeSealed(ctx context.Context, l *level, p rolling.Period, present Present) (total int, err error) {
	for p.From < p.To {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		var n int
		var run rolling.Period
		err := s.tx(ctx, func(tx *transaction) error {
			n, run = 0, rolling.Period{From: p.From, To: p.From}
			for run.To < p.To && int64(n) < l.batch {
				b, err := l.Every.At(run.To)
				if err != nil {
					return err
				}
				run.To = b.To
				n++
			}
			if _, err := s.replace(ctx, tx, l, run); err != nil {
				return err
			}
			gone, err := missing(ctx, run, present)
			if err == nil && gone.From < gone.To {
				err = fmt.Errorf("rows from %s to %s were taken away meanwhile", s.table.Grid.Format(gone.From), s.table.Grid.Format(gone.To))
			}
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
		p.From = run.To
	}
	return total, nil
}
