package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/archive"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A dropper removes periods that have passed retention, and notices periods that others removed.
type dropper struct{ *table }

func (t *Table) dropper() dropper { return dropper{t} }

// A dropping is the state of a drop, as its steps record it.
type dropping struct {
	state.Dropping
	Table string       // the table that the partition becomes
	Known state.Period // the record of the sealed period
	// Applied is the declaration by which the period was due. Under another one the drop is reverted.
	Applied mark
}

func (d *dropping) task() Task                        { return Task{Kind: Drop, Parts: []rolling.Partition{d.Part}} }
func (d *dropping) period() (rolling.Partition, bool) { return d.Part, true }
func (d *dropping) tables(string) (_, rows []string)  { return nil, []string{d.Table} }

func (d *dropping) resume(ctx context.Context, t *Table, c *state.Change) (string, error) {
	return t.dropper().continueDrop(ctx, c)
}

// Steps of a drop.
const (
	stepDetach = "detach"
	stepCheck  = "check"
	stepRemove = "remove"
)

// drop removes a period, which must be sealed, present in the roll-ups and, if so declared, in an
// intact archive. It first detaches the period, so that the table's lock is held only for moments,
// and verifies it once more when no writer can add rows.
func (t dropper) drop(ctx context.Context, p rolling.Partition, k *state.Period) (string, error) {
	c := &state.Change{Table: t.Table.Name, ID: fmt.Sprintf("drop %d", p.From), Kind: string(Drop), Step: stepDetach}
	if err := t.errIfChanged(ctx); err != nil {
		return "", err
	}
	if err := t.sealer().rolledUp(ctx, p); err != nil {
		return "", err
	}
	if same, err := t.sealer().unchanged(ctx, p, k); err != nil || !same {
		return p.Name + ": rows have arrived since it was sealed", err
	}
	if t.Declared.Seal.Archive != "" {
		read, err := archive.Verify(ctx, k.Archive)
		if err == nil && (read.Rows != k.Rows || read.Sum != k.ArchiveSum) {
			err = fmt.Errorf("archive %s has changed since it was written", k.Archive)
		}
		if err != nil && ctx.Err() == nil {
			// The period still has its rows, as they were sealed, so the archive is written again.
			again := *k
			again.State, again.Archive, again.ArchiveSum = state.Sealed, "", ""
			put := t.inTx(ctx, func(tx *sql.Tx) error { return t.State.Put(ctx, tx, again) })
			return "", errors.Join(fmt.Errorf("%w; it is written again", err), put)
		}
		if err != nil {
			return "", err
		}
	}
	if _, err := t.State.Begin(ctx, c, dropping{state.Dropping{Part: p}, Standalone(t.Table.Name, "drop", p), *k, t.mark}); err != nil {
		return "", err
	}
	t.Reach("drop begun")
	return t.continueDrop(ctx, c)
}

// continueDrop completes a drop from its current step. If another declaration is in force than when
// the drop began, it reverts the drop. No declaration can be applied while a step removes data.
func (t dropper) continueDrop(ctx context.Context, c *state.Change) (string, error) {
	var d dropping
	if err := c.Load(&d); err != nil {
		return "", err
	}
	detail, err := t.dropSteps(ctx, c, d)
	if errors.Is(err, errChanged) {
		return t.revertDrop(ctx, c, d)
	}
	return detail, err
}

func (t dropper) dropSteps(ctx context.Context, c *state.Change, d dropping) (string, error) {
	if c.Step == stepDetach {
		err := t.locks().withDeclarationLocked(ctx, d.Applied, func(ctx context.Context) error { return t.detach(ctx, c, d) })
		if err != nil && len(t.lost(ctx, []rolling.Partition{d.Part}, []string{d.Table})) > 0 {
			return lostText(d.Known), t.lose(ctx, d.Known, c)
		}
		if err != nil {
			return "", err
		}
	}
	if c.Step == stepCheck {
		s, err := t.sums().checksum(ctx, t.DB.Dialect().Quote(d.Table), nil)
		if isNoTable(err) { // it was attached again before a crash
			if _, findErr := t.find(ctx, d.Part.Period); findErr != nil {
				return "", errors.Join(err, findErr)
			}
			err = t.inTx(ctx, func(tx *sql.Tx) error { return t.recordKept(ctx, tx, c, d, nil) })
			return d.Part.Name + ": it was reattached", err
		}
		if err != nil {
			return "", err
		}
		if s.Rows != d.Known.Rows || s.Hash != d.Known.Checksum {
			return t.reattach(ctx, c, d, nil, "rows arrived at the last moment")
		}
		t.Reach("drop checked")
	}
	if err := t.locks().withDeclarationLocked(ctx, d.Applied, func(ctx context.Context) error { return t.remove(ctx, c, d) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s", d.Part.Name, figure.Plural(d.Known.Rows, "row")), t.State.End(ctx, t.State.DB(), c)
}

func (t dropper) detach(ctx context.Context, c *state.Change, d dropping) error {
	// From here on no refresh computes the period's buckets: without its rows they'd become empty.
	if t.Rollups != nil {
		if err := t.inTx(ctx, func(tx *sql.Tx) error { return t.Rollups.Seal(ctx, tx, d.Part.To) }); err != nil {
			return err
		}
	}
	t.Reach("drop levels sealed")
	// A load checks this before its commit: it may have read the list of periods before the drop.
	if err := t.State.DropTo(ctx, t.Table.Name, d.Part.To); err != nil {
		return err
	}
	err := t.Alter(ctx, func(have []rolling.Partition) engine.Step {
		return engine.Detach{Table: t.Table, Have: have, Part: d.Part, Into: d.Table}
	})
	if err != nil {
		return err
	}
	t.Reach("detached")
	return t.State.Advance(ctx, t.State.DB(), c, stepCheck, nil)
}

// remove records that the period's table is about to be dropped, and drops it.
func (t dropper) remove(ctx context.Context, c *state.Change, d dropping) error {
	if c.Step == stepCheck {
		err := t.inTx(ctx, func(tx *sql.Tx) error {
			gone := d.Known
			gone.State = state.Dropped
			if err := t.State.Put(ctx, tx, gone); err != nil {
				return err
			}
			return t.State.Advance(ctx, tx, c, stepRemove, nil)
		})
		if err != nil {
			return err
		}
		t.Reach("drop noted")
	}
	if err := t.DB.Try(ctx, engine.DropTables{Names: []string{d.Table}}); err != nil {
		return err
	}
	t.Reach("dropped")
	return nil
}

// revertDrop ends a drop because another declaration is in force than when the drop began. The next
// plan decides whether the period is due, and what must happen before its drop.
func (t dropper) revertDrop(ctx context.Context, c *state.Change, d dropping) (string, error) {
	const why = "another declaration was applied since the drop began"
	have, err := t.DB.Catalog().Partitions(ctx, t.Table)
	if err != nil {
		return "", err
	}
	apart, err := t.Exists(ctx, d.Table)
	if err != nil {
		return "", err
	}
	i := rolling.Find(have, d.Part.From)
	within := i >= 0 && have[i].Period == d.Part.Period
	switch {
	case apart && within:
		// A crash during the detachment, or while it was reverted, may have left the rows in either
		// table, so the detachment is completed first.
		if err := t.TryLocked(ctx, engine.Detach{Table: t.Table, Have: have, Part: d.Part, Into: d.Table}); err != nil {
			return "", err
		}
		fallthrough
	case apart:
		return t.reattach(ctx, c, d, &d.Known, why)
	case within:
		err := t.inTx(ctx, func(tx *sql.Tx) error { return t.recordKept(ctx, tx, c, d, &d.Known) })
		return d.Part.Name + ": " + why, err
	}
	// The period's own table, d.Table, was dropped before a crash.
	return fmt.Sprintf("%s: %s", d.Part.Name, figure.Plural(d.Known.Rows, "row")), t.State.End(ctx, t.State.DB(), c)
}

// reattach attaches a detached period again, with known as its record; nil breaks its seal.
func (t dropper) reattach(ctx context.Context, c *state.Change, d dropping, known *state.Period, why string) (string, error) {
	err := t.Alter(ctx, func(have []rolling.Partition) engine.Step {
		return engine.Attach{Table: t.Table, Have: have, Part: d.Part, From: d.Table}
	})
	if err != nil {
		return "", err
	}
	t.Reach("put back")
	err = t.inTx(ctx, func(tx *sql.Tx) error { return t.recordKept(ctx, tx, c, d, known) })
	return d.Part.Name + ": " + why + "; it was reattached", err
}

func (t dropper) recordKept(ctx context.Context, tx *sql.Tx, c *state.Change, d dropping, known *state.Period) error {
	var err error
	if known == nil {
		err = t.State.Forget(ctx, tx, t.Table.Name, d.Part.Period)
	} else {
		err = t.State.Put(ctx, tx, *known)
	}
	if err != nil {
		return err
	}
	if t.Rollups != nil {
		if err := t.Rollups.Unseal(ctx, tx, d.Part.From); err != nil {
			return err
		}
	}
	return t.State.End(ctx, tx, c)
}

// errIfChanged returns errChanged if the table was altered since the pass began. The archive would
// lack a column added since then, and the drop would lose it.
func (t dropper) errIfChanged(ctx context.Context) error {
	changed, err := t.follower().changed(ctx)
	if err == nil && changed {
		err = errChanged
	}
	return err
}

// Standalone names a table that holds a period's rows for a while, e.g.
// "rowmill_drop_readings_1711929600000000". The name fits the 63 bytes of PostgreSQL: a longer
// table name is cut to 24 bytes, the last 8 of them a hash of the whole name.
func Standalone(table, what string, p rolling.Partition) string {
	return fmt.Sprintf("rowmill_%s_%s_%d", what, shortened(table), p.From)
}

func shortened(table string) string {
	if len(table) <= 24 {
		return table
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(table)) // returns no error
	return fmt.Sprintf("%s_%08x", strings.ToValidUTF8(table[:15], ""), h.Sum32())
}
