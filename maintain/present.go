package maintain

import (
	"context"
	"errors"
	"slices"

	"github.com/rowmill/rowmill/rolling"
	"github.com/rowmill/rowmill/state"
)

// RefreshRange computes the roll-ups of a range anew; see rollup.RefreshRange.
// Sealed buckets are computed too where all of their rows are there, as
// those of restored periods are.
func (t *Table) RefreshRange(ctx context.Context, from, to int64) (int, error) {
	if t.Rollups == nil {
		return 0, errors.New("it has no roll-ups")
	}
	return t.Rollups.RefreshRange(ctx, from, to, t.present)
}

// present returns the periods that have all of their rows: neither one that a
// change under way is about, nor one that takes the place of others that were
// dropped, as on servers without lower bounds.
func (t *Table) present(ctx context.Context) ([]rolling.Period, error) {
	v, err := t.View(ctx)
	if err != nil {
		return nil, err
	}
	var out []rolling.Period
	for _, p := range v.Parts {
		gone := slices.ContainsFunc(v.Known, func(k state.Period) bool { return k.State == state.Dropped && p.Overlaps(k.Period) })
		if !gone && !v.busy([]rolling.Partition{p}) {
			out = append(out, p.Period)
		}
	}
	return out, nil
}
