package maintain

import (
	"context"
	"errors"
	"slices"

	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// RefreshRange recomputes the roll-ups of a range; see rollup.RefreshRange. It
// includes sealed buckets if all of their rows exist, as those of restored periods
// do.
func (t *Table) RefreshRange(ctx context.Context, from, to int64) (int, error) {
	if t.Rollups == nil {
		return 0, errors.New("it has no roll-ups")
	}
	return t.Rollups.RefreshRange(ctx, from, to, t.present)
}

// present returns the periods whose rows are complete. It excludes periods affected
// by a change in progress, and those that cover dropped ones, as on servers without
// lower bounds.
func (t *Table) present(ctx context.Context) ([]rolling.Period, error) {
	v, err := t.View(ctx)
	if err != nil {
		return nil, err
	}
	all, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil {
		return nil, err
	}
	var out []rolling.Period
	for _, p := range v.Parts {
		gone := slices.ContainsFunc(all, func(k state.Period) bool { return k.State == state.Dropped && p.Overlaps(k.Period) })
		if !gone && !v.busy([]rolling.Partition{p}) {
			out = append(out, p.Period)
		}
	}
	return out, nil
}

// refresh refreshes the levels up to the present, with late rows that were not recorded.
func (t *Table) refresh(ctx context.Context, now int64) (int, error) {
	n, err := t.Rollups.Refresh(ctx, now)
	if err != nil {
		return n, err
	}
	stale, err := t.Rollups.Recount(ctx, now)
	if stale == 0 || ctx.Err() != nil {
		return n, err
	}
	more, again := t.Rollups.Refresh(ctx, now) // also for what was found before an error
	return n + more, errors.Join(err, again)
}
