package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A sealer seals periods, compares them with their seals, archives them, and refreshes roll-ups.
type sealer struct{ *table }

func (t *Table) sealer() sealer { return sealer{t} }

// seal completes a period's roll-ups, counts its rows and records their checksum. Each later action
// that relies on the checksum, such as an archive or a drop, first compares it with the rows: a
// late row breaks the seal.
func (t sealer) seal(ctx context.Context, p rolling.Partition) (detail string, err error) {
	if err := t.rolledUp(ctx, p); err != nil {
		return "", err
	}
	s, err := t.sums().periodChecksum(ctx, p)
	if err != nil {
		return "", err
	}
	if err := t.creator().waitForLoads(ctx, p, s.Rows); err != nil {
		return "", err
	}
	t.Reach("seal summed")
	now, err := t.Now(ctx)
	if err != nil {
		return "", err
	}
	k := state.Period{Table: t.Table.Name, Partition: p, State: state.Sealed, Rows: s.Rows, Checksum: s.Hash, Checked: now}
	if err := t.guard().sealedTo(ctx, t.State.DB(), p); err != nil {
		return "", err
	}
	err = t.inTx(ctx, func(tx *sql.Tx) error { return t.State.Put(ctx, tx, k) })
	t.Reach("sealed")
	return fmt.Sprintf("%s: %s", p.Name, figure.Plural(s.Rows, "row")), err
}

// rolledUp refreshes the levels up to a period's end and verifies that they have all its rows.
func (t sealer) rolledUp(ctx context.Context, p rolling.Partition) error {
	if t.Rollups == nil {
		return nil
	}
	if _, err := t.Rollups.Check(ctx, p.Period); err != nil {
		return err
	}
	now, err := t.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := t.Rollups.Refresh(ctx, now); err != nil {
		return err
	}
	_, why, err := t.Rollups.Proof(ctx, p.Period)
	if err != nil {
		return err
	}
	if why != "" {
		return &waitError{"the roll-ups of " + p.Name + " are not done: " + why}
	}
	return nil
}

// unseal opens a period whose rows have changed, to be sealed again.
func (t sealer) unseal(ctx context.Context, p rolling.Partition, why string) error {
	err := t.inTx(ctx, func(tx *sql.Tx) error {
		if t.Rollups != nil {
			// Counts don't reveal changed values: all of its buckets are recomputed.
			if err := t.State.Touch(ctx, tx, t.Table.Name, "unseal", p.Period); err != nil {
				return err
			}
		}
		return t.State.Unseal(ctx, tx, t.Table.Name, p.Period)
	})
	if err != nil {
		return err
	}
	t.Log(ctx, "unseal", p.Name+": "+why, 0, nil)
	return nil
}

// unchanged compares a sealed period's rows with its seal, and breaks the seal if they differ.
func (t sealer) unchanged(ctx context.Context, p rolling.Partition, k *state.Period) (bool, error) {
	now, err := t.sums().periodChecksum(ctx, p)
	if err != nil {
		return false, err
	}
	if now.Rows == k.Rows && now.Hash == k.Checksum {
		return true, nil
	}
	return false, t.unseal(ctx, p, fmt.Sprintf("it had %s when it was sealed and has %s, with another checksum", figure.Plural(k.Rows, "row"), figure.Count(now.Rows)))
}

func (t sealer) check(ctx context.Context, p rolling.Partition, k *state.Period, now int64) (string, error) {
	same, err := t.unchanged(ctx, p, k)
	if err != nil || !same {
		return "", err
	}
	done := *k
	done.Checked = now
	return "", t.inTx(ctx, func(tx *sql.Tx) error { return t.State.Put(ctx, tx, done) })
}

// A waitError is the reason why a task isn't possible yet. It is not a failure.
type waitError struct{ why string }

func (e *waitError) Error() string { return e.why }

// RefreshRange recomputes the roll-ups of a range; see rollup.RefreshRange. It includes sealed
// buckets whose rows all exist, e.g. those of restored periods.
func (t *Table) RefreshRange(ctx context.Context, from, to int64) (int, error) {
	if t.Rollups == nil {
		return 0, errors.New("it has no roll-ups")
	}
	return t.Rollups.RefreshRange(ctx, from, to, t.sealer().present)
}

// present returns the periods whose rows are complete. It excludes periods that a change affects,
// and periods that include the range of a dropped period, as occurs if partitions have no lower
// bounds.
func (t sealer) present(ctx context.Context) ([]rolling.Period, error) {
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

// refresh refreshes the levels up to the present, including late rows that nobody noted.
func (t sealer) refresh(ctx context.Context, v View) (int, error) {
	if err := t.dropper().noteMissing(ctx, v.Parts, v.Now); err != nil {
		return 0, err
	}
	now := v.Now
	n, err := t.Rollups.Refresh(ctx, now)
	if err != nil {
		return n, err
	}
	stale, err := t.Rollups.Recount(ctx, now)
	if stale == 0 || ctx.Err() != nil {
		return n, err
	}
	more, again := t.Rollups.Refresh(ctx, now) // also after an error: some buckets may be stale
	return n + more, errors.Join(err, again)
}
