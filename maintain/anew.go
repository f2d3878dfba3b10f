package maintain

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/maintain/rollup"
	"github.com/rowmill/rowmill/rolling"
	"github.com/rowmill/rowmill/state"
)

// An anew is what becomes of what is known of a table that is gone, before another
// one of its name is kept.
type anew struct {
	rollups *rollup.Anew
	// undeclare tells that the positions of the former table were others: its
	// declaration is no longer the applied one.
	undeclare bool
	// notes are for people.
	notes []string
}

// planAnew plans it for a table whose first period will begin at a position. It
// goes by what is noted, also where no declaration is: applied may be nil.
func (t *Table) planAnew(ctx context.Context, applied *rolling.Declaration, from int64) (*anew, error) {
	n := &anew{}
	var err error
	if n.rollups, err = rollup.PlanAnew(ctx, t.DB, t.Table, t.Declared, from); err != nil {
		return nil, err
	}
	if applied != nil {
		if n.undeclare, err = t.anewByAxis(ctx, applied, n.rollups.Kept); err != nil {
			return nil, err
		}
		is := "isn't there any more"
		if t.Schema != nil {
			is = "is a plain table now"
		}
		n.notes = append(n.notes, fmt.Sprintf("%s was applied before and %s: the new table begins with a new ledger, and none of its periods is sealed", t.Table.Name, is))
	}
	n.notes = append(n.notes, n.rollups.Notes...)
	return n, nil
}

// beginAnew does it, in one transaction: a crash leaves all that is known as it
// was, or nothing of the former table.
func (t *Table) beginAnew(ctx context.Context, n *anew) error {
	changes, said, err := t.endChanges(ctx)
	if err != nil {
		return err
	}
	err = n.rollups.Run(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for i := range changes {
			if err := t.State.End(ctx, tx, &changes[i]); err != nil {
				return err
			}
		}
		if err := t.State.Anew(ctx, tx, t.Table.Name); err != nil || !n.undeclare {
			return err
		}
		return t.State.Undeclare(ctx, tx, t.Table.Name)
	})
	if err != nil {
		return err
	}
	for i, detail := range said {
		t.log(ctx, changes[i].Kind, detail, 0, nil)
	}
	return nil
}

// createTable creates the table, with a ledger that begins anew.
func (t *Table) createTable(ctx context.Context, n *anew, step engine.CreateTable) error {
	// While the table isn't there, so that no crash leaves it beside what is known
	// of another one.
	if there, err := t.DB.Catalog().Exists(ctx, t.Table); err != nil {
		return err
	} else if !there {
		if err := t.beginAnew(ctx, n); err != nil {
			return err
		}
	}
	return t.DB.Try(ctx, step)
}

// endChanges prepares the end of the changes of periods of a table that its owner
// has dropped, and returns them with what the log is to say of each: they have
// nothing left to change. What was only copied is removed. Tables that may have the
// one copy of rows stay, and the log names them.
func (t *Table) endChanges(ctx context.Context) (ended []state.Change, said []string, err error) {
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range changes {
		var name string
		var copied, left []string
		switch Kind(c.Kind) {
		case Rebuild:
			var r rebuilding
			if err := c.Load(&r); err != nil {
				return nil, nil, err
			}
			name, left = r.New.Name, append(slices.Clone(r.Out), r.With)
			switch c.Step {
			case stepPrepare, stepCopy, stepCompact, stepCompare:
				copied = []string{r.With}
			}
		case Drop:
			var d dropping
			if err := c.Load(&d); err != nil {
				return nil, nil, err
			}
			name, left = d.Part.Name, []string{d.Table}
		case Restore:
			var r restoring
			if err := c.Load(&r); err != nil {
				return nil, nil, err
			}
			if r.Into != "" {
				continue // a table of its own, which the archive is enough for
			}
			name, copied = r.Part.Name, []string{r.Table}
		default:
			continue
		}
		if len(copied) > 0 {
			if err := t.DB.Try(ctx, engine.DropTables{Names: copied}); err != nil {
				return nil, nil, err
			}
		}
		detail := name + ": ended, the table was dropped"
		for _, name := range left {
			there, err := t.exists(ctx, name)
			if err != nil {
				return nil, nil, err
			}
			if there {
				detail += "; table " + name + " has rows of it"
			}
		}
		ended, said = append(ended, c), append(said, detail)
	}
	return ended, said, nil
}
