package maintain

import (
	"context"
	"database/sql"
	"slices"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// What keeps a table besides rowmill drops periods, too. A period that was sealed once, has passed
// retention and is gone counts as dropped: its roll-ups stay as they are, although its rows are
// missing. Other rows that are gone were deleted, and roll-ups follow.

// noteLost records the periods that others have dropped of a range, if retention may have passed
// some of it.
func (t dropper) noteLost(ctx context.Context, p rolling.Period) error {
	if t.Declared.Keep.IsZero() {
		return nil
	}
	now, err := t.Now(ctx)
	if err != nil || p.From >= t.Declared.Keep.Before(now) {
		return err
	}
	parts, err := t.DB.Catalog().Partitions(ctx, t.Table)
	if err != nil {
		return err
	}
	return t.noteMissing(ctx, parts, now)
}

// noteMissing records the periods that others have dropped, given the ones that there are.
func (t dropper) noteMissing(ctx context.Context, parts []rolling.Partition, now int64) error {
	if t.Declared.Keep.IsZero() || t.Rollups == nil {
		return nil
	}
	// In this order, no period that this table's own changes replace or drop meanwhile is taken for a
	// lost one.
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	from, err := t.State.DroppedTo(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	known, err := t.State.EverSealed(ctx, t.Table.Name, from)
	if err != nil {
		return err
	}
	for _, k := range known {
		due, drops := DropDue(t.Declared, k.Partition)
		busy := slices.ContainsFunc(changes, func(c state.Change) bool { p, ok := affected(&c); return ok && p.Overlaps(k.Period) })
		kept := slices.ContainsFunc(parts, func(p rolling.Partition) bool { return p.To <= k.To })
		if !drops || due > now || busy || kept || k.State == state.Restored {
			return nil // and so are later ones
		}
		if err := t.lose(ctx, k, nil); err != nil {
			return err
		}
	}
	return nil
}

// lose records that others have dropped a period, and ends the change of it that was in progress,
// if any.
func (t dropper) lose(ctx context.Context, k state.Period, c *state.Change) error {
	if err := t.State.DropTo(ctx, t.Table.Name, k.To); err != nil {
		return err
	}
	err := t.inTx(ctx, func(tx *sql.Tx) error {
		if t.Rollups != nil {
			if err := t.Rollups.Lose(ctx, tx, k.To); err != nil {
				return err
			}
		}
		k.State = state.Dropped
		if err := t.State.Put(ctx, tx, k); err != nil || c == nil {
			return err
		}
		return t.State.End(ctx, tx, c)
	})
	if err == nil && c == nil {
		t.Log(ctx, string(Drop), lostText(k), 0, nil)
	}
	return err
}

func lostText(k state.Period) string {
	return k.Name + ": " + figure.Plural(k.Rows, "row") + ", by others than rowmill"
}

// lost returns those of the periods of a change that others have dropped, for a change that has
// failed: none if that can't be told, or once one of the tables exists into which the change moves
// rows.
func (t dropper) lost(ctx context.Context, parts []rolling.Partition, beside []string) (out []rolling.Partition) {
	have, err := t.DB.Catalog().Partitions(ctx, t.Table)
	if err != nil {
		return nil
	}
	for _, name := range beside {
		if there, err := t.Exists(ctx, name); there || err != nil {
			return nil
		}
	}
	for _, p := range parts {
		if !slices.ContainsFunc(have, func(q rolling.Partition) bool { return q.To == p.To }) {
			out = append(out, p)
		}
	}
	return out
}
