package maintain

import (
	"context"
	"database/sql"
	"slices"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Another program that keeps the table, e.g. pg_partman, may drop periods, too. A missing period
// counts as dropped if it was sealed and has passed retention: its roll-ups stay as they are. All
// other missing rows count as deleted, and the roll-ups are computed again without them.

// noteLost is called after the raw rows of p were read. If retention no longer keeps all of p,
// noteLost records the periods that other programs have dropped.
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

// noteMissing records the periods that parts lack, because other programs have dropped them.
func (t dropper) noteMissing(ctx context.Context, parts []rolling.Partition, now int64) error {
	if t.Declared.Keep.IsZero() || t.Rollups == nil {
		return nil
	}
	// Read the changes first: a period that this process replaces or drops meanwhile must not count as
	// dropped by another program.
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
			return nil // the later periods don't count as dropped by others, either
		}
		if err := t.lose(ctx, k, nil); err != nil {
			return err
		}
	}
	return nil
}

// lose records that another program has dropped a period, and ends its change c, unless nil.
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

// lost returns which periods of a failed change other programs have dropped. It returns none if the
// catalog can't be read, or if a table in beside exists: the change may have moved rows there.
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
