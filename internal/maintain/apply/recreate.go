package apply

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/maintain/rollup"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A recreation is the plan for rowmill's records of a table that was dropped. It is executed before
// rowmill maintains another table of that name.
type recreation struct {
	rollups *rollup.Recreation
	// rows means that the rows recorded in the ledger were lost with the table.
	rows bool
	// undeclare means that the former table's declaration is discarded, because the new table has
	// another axis, or is a plain table that may have other keys and columns.
	undeclare bool
	// notes are for the owner.
	notes []string
}

// planRecreation makes the plan from the records of the former table. There may be records without
// a declaration: then applied is nil.
func (t planner) planRecreation(ctx context.Context, applied *rolling.Declaration, from func() (int64, error)) (*recreation, error) {
	n := &recreation{rows: t.Schema == nil || applied != nil}
	var err error
	if n.rollups, err = rollup.PlanRecreation(ctx, t.DB, t.Table, t.Declared, from); err != nil {
		return nil, err
	}
	if applied != nil {
		if n.undeclare, err = t.recreatedAxis(ctx, applied, n.rollups.Kept); err != nil {
			return nil, err
		}
		is := "no longer exists"
		if t.Schema != nil {
			is = "is a plain table now"
		}
		n.notes = append(n.notes, fmt.Sprintf("%s was applied before and %s: the new table begins with a new ledger, and none of its periods is sealed", t.Table.Name, is))
	}
	n.notes = append(n.notes, n.rollups.Notes...)
	return n, nil
}

// resetRecords executes the plan n in one transaction: after a crash, either all of the former
// table's records that n removes still exist, or none.
func (t planner) resetRecords(ctx context.Context, n *recreation) error {
	var changes []state.Change
	var said []string
	var err error
	if n.rows {
		if changes, said, err = t.EndChanges(ctx); err != nil {
			return err
		}
	}
	err = n.rollups.Run(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for i := range changes {
			if err := t.State.End(ctx, tx, &changes[i]); err != nil {
				return err
			}
		}
		if n.rows {
			if err := t.State.ResetRows(ctx, tx, t.Table.Name); err != nil {
				return err
			}
		}
		if n.undeclare {
			return t.State.RemoveDeclaration(ctx, tx, t.Table.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, detail := range said {
		t.Log(ctx, changes[i].Kind, detail, 0, nil)
	}
	for _, note := range n.rollups.Notes {
		t.Log(ctx, string(maintain.Rollup), note, 0, nil)
	}
	return nil
}

// planAdoption plans the adoption of a plain table. If a rolling table of that name existed before,
// the plan says what happens to its records.
func (t planner) planAdoption(ctx context.Context, a *Plan, applied *rolling.Declaration) error {
	a.Adopt = true
	under, err := adopt.UnderWay(ctx, t.State, t.Table.Name)
	if err != nil {
		return err
	}
	if adopt.Kept(under) {
		return engine.Hinted(fmt.Errorf("table %s is a plain table, and the former one's table from before its adoption is still kept", t.Table.Name),
			"rowmill apply %s --finish, which drops that, and apply again", cmp.Or(t.Declared.Source, "FILE"))
	}
	if under != nil {
		return nil // the adoption continues
	}
	n, err := t.planRecreation(ctx, applied, sync.OnceValues(func() (int64, error) { return t.firstPeriod(ctx) }))
	if err != nil {
		return err
	}
	a.Notes = append(a.Notes, n.notes...)
	if a.Dropped, err = t.plainDropped(ctx); err != nil {
		return err
	}
	if len(n.rollups.SQL) == 0 && !n.rows {
		return nil
	}
	a.BeforeSQL = n.rollups.SQL
	a.Before = func(ctx context.Context, from int64) error {
		return t.Declaring(ctx, func(engine.Lease) error {
			n, err := t.planRecreation(ctx, applied, func() (int64, error) { return from, nil })
			if err != nil {
				return err
			}
			// The former declaration may have other keys and columns than the plain table.
			n.undeclare = applied != nil
			return t.resetRecords(ctx, n)
		})
	}
	return nil
}

// firstPeriod returns where a plain table's periods begin: at its first row or now, whichever is
// earlier.
func (t planner) firstPeriod(ctx context.Context) (int64, error) {
	now, err := t.Now(ctx)
	if err != nil {
		return 0, err
	}
	by, words := t.DB.Dialect().Quote(t.Table.By), t.DB.Words()
	var first sql.NullInt64
	// Rows before the grid's bounds can't be adopted, and the adoption reports them.
	q := fmt.Sprintf("SELECT %s FROM %s WHERE %s >= %s", words.Position(t.Table, "MIN("+by+")"), t.DB.Dialect().Quote(t.Table.Name), by, words.Literal(t.Table, t.Table.Grid.Bounds().From))
	if err := t.DB.SQL().QueryRowContext(ctx, q).Scan(&first); err != nil {
		return 0, fmt.Errorf("first %s of %s: %w", t.Table.By, t.Table.Name, t.DB.Classify(err))
	}
	if first.Valid && first.Int64 < now {
		now = first.Int64
	}
	return t.Table.Grid.Floor(now), nil
}

func (t planner) createTable(ctx context.Context, n *recreation, step engine.CreateTable) error {
	// The records are reset while the table doesn't exist, so that no crash leaves a table with the
	// records of the former one.
	if there, err := t.DB.Catalog().Exists(ctx, t.Table); err != nil {
		return err
	} else if !there {
		if err := t.resetRecords(ctx, n); err != nil {
			return err
		}
	}
	return t.DB.Try(ctx, step)
}

// otherAxis compares the axis of the applied declaration with that of the new one, because all
// recorded positions depend on the axis. differs describes the difference; "" if there is none. as
// says what the new declaration must have to keep the applied axis.
func (t planner) otherAxis(applied *rolling.Declaration) (differs, as string) {
	is := t.Declared
	if was := applied.Period.Axis(); was != t.Table.Grid.Axis() {
		return fmt.Sprintf("the period was %s, along %s, and is %s, along %s", applied.Period, axisName(was), t.Table.Grid, axisName(t.Table.Grid.Axis())), "periods of " + applied.Period.String()
	}
	if applied.Epoch != is.Epoch {
		return fmt.Sprintf("epoch was %s and is %s", epochText(applied), epochText(is)), "epoch as it was, " + epochText(applied)
	}
	return "", ""
}

func axisName(a rolling.Axis) string {
	if a == rolling.Sequence {
		return "a sequence"
	}
	return "time"
}

func epochText(d *rolling.Declaration) string {
	if d.Epoch == 0 {
		return "none"
	}
	return fmt.Sprintf("%q", rolling.EpochName(d.Epoch))
}

// sameAxis rejects a declaration under which existing periods would have other bounds.
func (t planner) sameAxis(applied *rolling.Declaration) error {
	differs, as := t.otherAxis(applied)
	if differs == "" {
		return nil
	}
	return engine.Hinted(fmt.Errorf("table %s: %s since it was applied: its existing periods can't be continued with that", t.Table.Name, differs),
		"declare %s; or declare another table, and load its rows into that", as)
}

// recreatedAxis reports whether a table is created anew with another axis. That is an error if the
// former table has left archives or roll-ups. rollups are the names of these roll-ups.
func (t planner) recreatedAxis(ctx context.Context, applied *rolling.Declaration, rollups []string) (other bool, err error) {
	differs, as := t.otherAxis(applied)
	if differs == "" {
		return false, nil
	}
	is := "isn't there"
	if t.Schema != nil {
		is = "is a plain table now"
	}
	if len(rollups) > 0 {
		return true, engine.Hinted(fmt.Errorf("table %s %s, and its roll-ups have buckets of it (%s): %s", t.Table.Name, is, strings.Join(rollups, ", "), differs),
			"DROP TABLE %s first, if the buckets are not needed; declare roll-ups of other names; or declare %s", strings.Join(rollups, ", "), as)
	}
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil {
		return true, err
	}
	for _, k := range known {
		if k.Archive != "" {
			return true, engine.Hinted(fmt.Errorf("table %s %s, and periods of the former one are archived, %s among them: %s", t.Table.Name, is, k.Archive, differs),
				"declare %s; or declare another table", as)
		}
	}
	return true, nil
}
