package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Enclose is the kind of change that turns the rows outside of all periods into a period. On
// servers whose partitions have no lower bounds, such rows arrive when no period was created for
// them, e.g. while maintenance does not run. If there are only few such rows, they are copied into
// new periods instead; copying many would block inserts for long.
const Enclose Kind = "enclose"

const stepEnclose = "enclose"

// An enclosing is the state of an Enclose change.
type enclosing struct {
	Part rolling.Partition // the new period, which spans as many periods of the grid as the rows need
	With string            // the table that holds the rows during the change
}

func (d *enclosing) task() Task                            { return Task{Kind: Enclose, Parts: []rolling.Partition{d.Part}} }
func (d *enclosing) period() (rolling.Partition, bool)     { return d.Part, true }
func (d *enclosing) tables(string) (copies, rows []string) { return nil, []string{d.With} }

// createIn creates periods. If the partition in their place has too many rows to be split, createIn
// creates none of them, but makes one long period of these rows, and returns its description as
// enclosed; otherwise enclosed is "". The caller then looks again which periods are missing.
func (t creator) createIn(ctx context.Context, step engine.CreatePartitions) (enclosed string, err error) {
	err = t.TryLocked(ctx, step)
	var crowd *engine.CrowdedError
	if !errors.As(err, &crowd) {
		return "", err
	}
	part, boundsErr := t.enclosure(ctx, crowd)
	if boundsErr != nil || part.Name == "" {
		return "", errors.Join(err, boundsErr)
	}
	detail, encloseErr := t.Enclose(ctx, part)
	if errors.Is(encloseErr, engine.ErrUnsupported) {
		return "", err // err has the statements that split the partition
	}
	return detail, encloseErr
}

// Enclose makes a new period of the rows outside of all periods, or completes an interrupted
// Enclose. It returns what it did, for the log.
func (t *Table) Enclose(ctx context.Context, part rolling.Partition) (detail string, err error) {
	d := &enclosing{part, Standalone(t.Table.Name, "rows", part)}
	c := &state.Change{Table: t.Table.Name, ID: fmt.Sprintf("enclose %d", part.From), Kind: string(Enclose), Step: stepEnclose}
	fresh, err := t.State.Begin(ctx, c, d)
	if err == nil && !fresh {
		err = c.Load(d)
	}
	if err != nil {
		return "", err
	}
	t.Reach("enclose begun")
	return d.resume(ctx, t, c)
}

// enclosure returns the bounds of the period for the rows of a crowded partition: from the oldest
// row that retention keeps to the end of the present period at most. If retention keeps none of the
// rows, the period's name is "".
func (t creator) enclosure(ctx context.Context, crowd *engine.CrowdedError) (p rolling.Partition, err error) {
	now, err := t.Now(ctx)
	if err != nil {
		return p, err
	}
	first, err := Oldest(t.Declared, now)
	if err != nil {
		return p, err
	}
	g, last := t.Table.Grid, crowd.Rows.To
	if crowd.Part.Contains(now) {
		last = min(last, now+1) // else a row of the future would make the period long
	}
	r := rolling.Period{From: max(crowd.Part.From, g.Floor(max(crowd.Rows.From, first))), To: min(crowd.Part.To, g.Ceil(last))}
	if crowd.Rows.From < crowd.Rows.To && r.From < r.To {
		p = g.Named(r)
	}
	return p, nil
}

// resume completes the change, or ends it if the server can't make it.
func (d *enclosing) resume(ctx context.Context, t *Table, c *state.Change) (string, error) {
	err := t.locks().waitTurn(ctx, func() error { return t.DB.(engine.Encloser).Enclose(ctx, t.Table, d.Part, d.With) })
	if err != nil && !errors.Is(err, engine.ErrUnsupported) {
		return "", err
	}
	t.Reach("enclosed")
	endErr := t.inTx(ctx, func(tx *sql.Tx) error {
		if t.Rollups != nil && err == nil {
			if err := t.State.Touch(ctx, tx, t.Table.Name, string(Enclose), d.Part.Period); err != nil {
				return err
			}
		}
		return t.State.End(ctx, tx, c)
	})
	if err = errors.Join(err, endErr); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, with the rows that were outside of all periods", d.Part.Name), nil
}
