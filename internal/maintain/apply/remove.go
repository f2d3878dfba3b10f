package apply

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// PlanRemoval plans that rowmill no longer keeps the table. The table stays with its rows. The plan
// removes the declaration, triggers, views of roll-ups, partitions that only rowmill needs, and all
// records. Tables of roll-ups stay unless how says otherwise. Each step is atomic or can be
// repeated: the next removal completes an interrupted one.
func PlanRemoval(ctx context.Context, t *maintain.Table, how Removal) (*Plan, error) {
	return planner{t}.planRemove(ctx, how, nil)
}

// A Removal has the options of PlanRemoval.
type Removal struct {
	DropRollups bool
	// Plain, unless nil, has the options for copying the rows into a plain table. If it is nil, the
	// table keeps its partitions. On SQLite the table always becomes a plain one.
	Plain *adopt.Options
}

// planRemove does the work of PlanRemoval. undone, unless nil, are the records of a takeover that
// is being undone.
func (t planner) planRemove(ctx context.Context, how Removal, undone []state.Undo) (*Plan, error) {
	a := &Plan{}
	applied, err := t.Applied(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.mayRemove(ctx, how); err != nil {
		return nil, err
	}
	add := func(what string, statements []string, run func(context.Context) error) {
		a.Steps = append(a.Steps, Step{What: what, SQL: statements, run: func(ctx context.Context) error {
			t.Reach("remove: before " + what)
			err := run(ctx)
			t.Reach("remove: after " + what)
			return err
		}})
	}
	plain := how.Plain != nil && !t.Schema.View
	release := func() {
		if applied != nil {
			add("stop keeping "+t.Table.Name+": processes that do so notice that it has no declaration", []string{"DELETE FROM rowmill_tables WHERE name = " + maintain.SQLText(t.Table.Name)}, func(ctx context.Context) error {
				return t.Declaring(ctx, func(engine.Lease) error { return t.State.RemoveDeclaration(ctx, t.State.DB(), t.Table.Name) })
			})
		}
	}
	if plain { // the table is maintained until it is a plain one
		if err := t.planPlain(ctx, a, *how.Plain, add); err != nil {
			return nil, err
		}
	} else {
		release()
	}
	levels, err := t.recordedLevels(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.planTriggersGone(ctx, plain && applied != nil, add); err != nil {
		return nil, err
	}
	if err := t.planLevelsGone(ctx, a, levels, how.DropRollups, add); err != nil {
		return nil, err
	}
	if plain {
		release()
	} else if err := t.planReleased(ctx, a, undone != nil, add); err != nil {
		return nil, err
	}
	undo, err := t.State.Undos(ctx, t.Table.Name)
	if err != nil && !errors.Is(err, engine.ErrNoTable) {
		return nil, err
	}
	for _, u := range undo {
		if len(u.SQL) > 0 && undone == nil {
			a.Notes = append(a.Notes, fmt.Sprintf("the takeover is not undone, as rowmill apply FILE --undo does: %s: %s", u.What, strings.Join(u.SQL, "; ")))
		}
	}
	return a, t.planRecordsGone(ctx, add)
}

// mayRemove refuses a table with a change in progress, which only rowmill can complete.
func (t planner) mayRemove(ctx context.Context, how Removal) error {
	c, err := adopt.UnderWay(ctx, t.State, t.Table.Name)
	switch {
	case err != nil:
		return err
	case adopt.Kept(c):
		return engine.Hinted(fmt.Errorf("table %s has its table from before the adoption beside it", t.Table.Name), "rowmill apply %s --finish, which drops that; or --undo, which goes back to it", t.Declared.Source)
	case adopt.Leaving(c) && how.Plain != nil:
		return nil
	case adopt.Leaving(c):
		return engine.Hinted(fmt.Errorf("table %s is becoming a plain one", t.Table.Name), "rowmill remove %s --plain, which completes that", t.Declared.Source)
	case c != nil:
		return engine.Hinted(fmt.Errorf("table %s is being adopted", t.Table.Name), "rowmill apply %s, which completes that; or --undo", t.Declared.Source)
	case t.Schema == nil:
		return maintain.NoTable(t.Table.Name)
	}
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil && !errors.Is(err, engine.ErrNoTable) {
		return err
	}
	if len(changes) > 0 {
		return engine.Hinted(fmt.Errorf("%s of table %s under way: %s", figure.Plural(len(changes), "change is", "changes are"), t.Table.Name, changes[0].ID), "rowmill run %s --once, which completes them", t.Declared.Source)
	}
	return nil
}

// recordedLevels returns the names of the roll-ups that are recorded, declared or not.
func (t planner) recordedLevels(ctx context.Context) ([]string, error) {
	names, err := engine.List[string](ctx, t.DB, t.DB.SQL(), t.DB.Bind("SELECT name FROM rowmill_rollups WHERE table_name = ? ORDER BY name"), t.Table.Name)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil
	}
	return names, err
}

type addStep func(what string, statements []string, run func(context.Context) error)

// planTriggersGone adds steps that drop the table's triggers. If all is true, they drop every
// trigger that rowmill may have created, and its function, without a look at what exists: if the
// table was dropped by hand, its triggers are gone, but their functions are not.
func (t planner) planTriggersGone(ctx context.Context, all bool, add addStep) error {
	gone := func(what string, c engine.TriggerChange, drops []string) {
		if all {
			c.SQL = drops
		}
		if len(c.SQL) > 0 {
			add("drop "+what, c.SQL, func(ctx context.Context) error {
				return t.ExecTogether(ctx, c.SQL)
			})
		}
	}
	if _, ok := t.DB.Words().(engine.LateWords); ok {
		triggers, words, err := t.LateTriggers(ctx)
		if err != nil {
			return err
		}
		c, err := engine.ChangeTriggers(ctx, t.DB, words.HaveTriggers, t.Table.Name, triggers, false)
		if err != nil {
			return err
		}
		gone(maintain.LateTriggersText, c, engine.TriggerDrops(triggers))
	}
	if t.Rollups == nil {
		return nil
	}
	c, err := t.Rollups.WithoutTriggers(ctx)
	if err == nil {
		gone(maintain.ExactTriggersText, c, t.Rollups.TriggerDrops())
	}
	return err
}

func (t planner) planLevelsGone(ctx context.Context, a *Plan, levels []string, drop bool, add addStep) error {
	quote := t.DB.Dialect().Quote
	for _, name := range levels {
		var statements []string
		view, err := t.Exists(ctx, name+"_live")
		if err != nil {
			return err
		}
		if view {
			statements = append(statements, "DROP VIEW IF EXISTS "+quote(name+"_live"))
		}
		table, err := t.Exists(ctx, name)
		if err != nil {
			return err
		}
		what := "drop the view " + name + "_live"
		switch {
		case table && drop:
			statements, what = append(statements, "DROP TABLE "+quote(name)), "drop roll-up "+name+", with its view"
			a.Dropped = append(a.Dropped, "roll-up "+name+" is dropped with its rows, of which those of dropped periods can't be computed again")
		case table:
			a.Notes = append(a.Notes, fmt.Sprintf("roll-up %s stays, as an ordinary table that nobody refreshes", name))
		}
		if len(statements) > 0 {
			add(what, statements, func(ctx context.Context) error {
				return t.ExecTogether(ctx, statements)
			})
		}
	}
	return nil
}

// planPlain adds the step that copies the rows into a plain table while the table is in use.
func (t planner) planPlain(ctx context.Context, a *Plan, o adopt.Options, add addStep) error {
	c, err := adopt.UnderWay(ctx, t.State, t.Table.Name)
	if err != nil || !t.Schema.Partitioned && c == nil {
		return err
	}
	statements, err := adopt.PlanLeave(ctx, o)
	if err != nil {
		return err
	}
	a.Notes = append(a.Notes, fmt.Sprintf("table %s becomes a plain one: its rows are copied while it is written to, and the partitions with their copies are dropped", t.Table.Name))
	add("copy the rows into a plain table, which takes the place of the partitioned one", statements, func(ctx context.Context) error { return adopt.Leave(ctx, o) })
	return nil
}

func (t planner) planReleased(ctx context.Context, a *Plan, undone bool, add addStep) error {
	if !t.Schema.Partitioned {
		return nil
	}
	have, err := t.DB.Catalog().Partitions(ctx, t.Table)
	if err != nil {
		return err
	}
	statements, err := t.DB.Dialect().Render(engine.Release{Table: t.Table, Have: have})
	if err != nil {
		return err
	}
	until := ""
	if n := len(have); n > 0 {
		until = "; inserts of rows from " + t.Table.Grid.Format(have[n-1].To) + " on will FAIL unless somebody adds partitions, or one for all later rows"
	}
	what, stays := "", fmt.Sprintf("table %s stays, with %s: nothing creates or drops any from then on%s", t.Table.Name, figure.Plural(len(have), "partition"), until)
	if t.Schema.View {
		what, stays = "copy the rows of all periods into one plain table, while nobody else can write", fmt.Sprintf("table %s becomes a plain one", t.Table.Name)
	}
	if !undone || t.Schema.View {
		a.Notes = append(a.Notes, stays)
	}
	if db, ok := t.DB.(engine.Outsider); ok {
		spare, err := db.Spare(ctx, t.Table)
		if err != nil || len(spare) == 0 {
			return err
		}
		what = "drop the partitions that only rowmill needs, or rename those with rows: " + strings.Join(spare, ", ")
	}
	if len(statements) > 0 {
		add(what, statements, func(ctx context.Context) error {
			err := t.Alter(ctx, func(have []rolling.Partition) engine.Step { return engine.Release{Table: t.Table, Have: have} })
			if err != nil {
				err = t.Blocked(ctx, err)
			}
			return err
		})
	}
	return nil
}

// planRecordsGone adds the step that removes what rowmill has recorded of the table. If no other
// table of the database has an applied declaration, the step drops rowmill's own tables instead.
func (t planner) planRecordsGone(ctx context.Context, add addStep) error {
	missing, _, err := t.State.Missing(ctx)
	if err != nil || slices.Contains(missing, "rowmill_tables") {
		return err
	}
	kept, err := t.State.Kept(ctx)
	if err != nil {
		return err
	}
	if kept = slices.DeleteFunc(kept, func(name string) bool { return name == t.Table.Name }); len(kept) > 0 {
		add("remove what is recorded of it", t.State.Removals(), func(ctx context.Context) error {
			if err := t.State.Ensure(ctx); err != nil {
				return err
			}
			return engine.InTx(ctx, t.DB, t.DB.SQL(), nil, func(tx *sql.Tx) error { return t.State.Remove(ctx, tx, t.Table.Name) })
		})
		return nil
	}
	statements, err := t.ownTables(ctx)
	if err != nil {
		return err
	}
	add("drop rowmill's own tables: no other table of this database is kept", statements, func(ctx context.Context) error {
		others, err := t.State.Kept(ctx)
		if err != nil && !errors.Is(err, engine.ErrNoTable) || len(others) > 0 {
			return errors.Join(err, fmt.Errorf("table %s was declared meanwhile", strings.Join(others, ", ")))
		}
		for _, q := range statements {
			if _, err := t.DB.SQL().ExecContext(ctx, q); err != nil {
				return t.DB.Classify(err)
			}
			t.Reach("remove: " + q)
		}
		return nil
	})
	return nil
}

// ownTables returns the statements that drop rowmill's own tables. The table of declarations is
// dropped last: without it, a repeated removal would find nothing to remove, and leave the other
// tables.
func (t planner) ownTables(ctx context.Context) (out []string, err error) {
	names := slices.Concat(t.State.Names(), []string{"rowmill_periods", "rowmill_heartbeat"}, t.State.Views())
	slices.Reverse(names)
	for _, name := range names {
		is, err := t.Exists(ctx, name)
		if err != nil {
			return nil, err
		}
		kind := "TABLE"
		if slices.Contains(t.State.Views(), name) {
			kind = "VIEW"
		}
		if is {
			out = append(out, "DROP "+kind+" IF EXISTS "+t.DB.Dialect().Quote(name))
		}
	}
	return out, nil
}
