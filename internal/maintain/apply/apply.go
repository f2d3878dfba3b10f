// Package apply plans what rowmill apply and rowmill remove change on a server, and executes the
// plan. rowmill apply creates a rolling table, takes over a partitioned one, or changes one that
// was applied before. rowmill remove leaves a table with its rows, and removes what is rowmill's.
// For a plain table the Plan says that package adopt converts the table. A Plan has its statements,
// notes for the owner, and a list of what retention will remove. Each step may be repeated after a
// crash.
package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/maintain/rollup"
	"github.com/rowmill/rowmill/rolling"
)

type table = maintain.Table

// A planner plans changes of a table.
type planner struct{ *table }

// A Step is one step of applying a declaration.
type Step struct {
	// What describes the step, as a sentence.
	What string
	// SQL are its statements, in order.
	SQL []string
	run func(ctx context.Context) error
}

// A Plan is the plan for applying a declaration.
type Plan struct {
	Steps []Step
	// Notes are for the owner: what remains unchanged, and what takes effect later.
	Notes []string
	// Dropped describes the rows that retention will remove under the new declaration but would keep
	// under the old one. The owner has to confirm separately that these rows may be removed.
	Dropped []string
	// Adopt means that the table is a plain one. Package adopt converts it into a rolling one
	// before the steps are executed.
	Adopt bool
	// Before, unless nil, resets the records of a former table of the same name. It becomes
	// adopt.Options.Before. from is the start of the first period. BeforeSQL are the statements of
	// Before that change roll-ups.
	Before    func(ctx context.Context, from int64) error
	BeforeSQL []string
}

// Empty reports whether nothing is to be done.
func (a *Plan) Empty() bool { return len(a.Steps) == 0 && !a.Adopt }

// Statements returns the plan as SQL that can be executed, with comments.
func (a *Plan) Statements() string {
	var b strings.Builder
	for _, n := range a.Notes {
		fmt.Fprintf(&b, "-- note: %s\n", n)
	}
	for _, d := range a.Dropped {
		fmt.Fprintf(&b, "-- dropped: %s\n", d)
	}
	for _, s := range a.Steps {
		fmt.Fprintf(&b, "-- %s\n", s.What)
		b.WriteString(adopt.Script(s.SQL))
	}
	return b.String()
}

// PlanTable compares the table's declaration with the database and returns the steps that apply it.
func PlanTable(ctx context.Context, table *maintain.Table) (*Plan, error) {
	t := planner{table}
	a := &Plan{}
	applied, err := t.Applied(ctx)
	if err != nil {
		return nil, err
	}
	plan := t.planChange
	switch {
	case t.Schema == nil:
		plan = t.planCreation
	case !t.Schema.Partitioned:
		plan = t.planAdoption
	}
	for _, plan := range []func(context.Context, *Plan, *rolling.Declaration) error{plan, t.planRivals, t.planDropped, t.planLevels, t.planLate, t.planState} {
		if err := plan(ctx, a, applied); err != nil {
			return nil, err
		}
	}
	t.planProbe(a)
	if len(a.Steps) > 0 || a.Adopt || applied == nil || !maintain.SameDeclaration(applied, t.Declared) {
		a.Steps = append(a.Steps, Step{What: "record the declaration in rowmill_tables", run: t.Declare})
	}
	return a, nil
}

// planProbe adds a step that tests the account's privileges before the other steps. It adds none
// for an adoption, which does that itself.
func (t planner) planProbe(a *Plan) {
	words, ok := t.DB.Words().(engine.ProbeWords)
	if !ok || a.Adopt || len(a.Steps) == 0 {
		return
	}
	needs := engine.Needs{Triggers: t.Declared.Exact || t.Declared.Late == rolling.LateReject, Temporary: len(t.Declared.Rollups) > 0}
	sql, _ := words.Probe(needs)
	a.Steps = slices.Insert(a.Steps, 0, Step{What: "check the account's privileges with a scratch table", SQL: sql,
		run: func(ctx context.Context) error { return engine.Probe(ctx, t.DB, needs) }})
}

// planState adds a step that creates rowmill's own tables, or their missing columns, before the
// other steps. It adds none for an adoption, which does that itself.
func (t planner) planState(ctx context.Context, a *Plan, _ *rolling.Declaration) error {
	if a.Adopt {
		return nil
	}
	missing, sql, err := t.State.Missing(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	what := "create rowmill's own tables"
	if len(sql) < len(t.State.Statements()) {
		what = "create those of rowmill's own tables and their columns that are missing: " + strings.Join(missing, ", ")
	}
	a.Steps = slices.Insert(a.Steps, 0, Step{What: what, SQL: sql, run: t.State.Ensure})
	return nil
}

// planCreation adds the step that creates a missing table, with periods for the present and ahead.
func (t planner) planCreation(ctx context.Context, a *Plan, applied *rolling.Declaration) error {
	if left, err := t.DB.Catalog().Exists(ctx, t.Table); err != nil {
		return err
	} else if left {
		return engine.Hinted(fmt.Errorf("table %s does not exist, but tables of its periods do, with their rows", t.Table.Name),
			"restore the view %s and its triggers from a backup; or drop the tables %s_*, and apply again, to start over", t.Table.Name, t.Table.Name)
	}
	now, err := t.Now(ctx)
	if err != nil {
		return err
	}
	tasks, err := maintain.PlanCreate(t.Declared, maintain.View{Now: now, MaxPeriods: t.DB.Capabilities().MaxPeriods})
	if err != nil {
		return err
	}
	if tasks[0].Waits != "" {
		return errors.New(tasks[0].Waits)
	}
	step := engine.CreateTable{Table: t.Table, Partitions: tasks[0].Parts}
	former, err := t.planRecreation(ctx, applied, func() (int64, error) { return tasks[0].Parts[0].From, nil })
	if err != nil {
		return err
	}
	a.Notes = append(a.Notes, former.notes...)
	c, err := t.CreatableAt(ctx, now)
	if err != nil {
		return err
	}
	if len(former.rollups.SQL) > 0 {
		c.Sealed = step.Partitions[0].From // the roll-ups keep their buckets of the former table
	}
	earlier, notes, err := t.planFrom(step.Partitions, c, now, true)
	if err != nil {
		return err
	}
	a.Notes = append(a.Notes, notes...)
	step.Partitions = slices.Concat(earlier, step.Partitions)
	sql, err := t.DB.Dialect().Render(step)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("create table %s with %s of %s", t.Table.Name, figure.Plural(len(step.Partitions), "period"), t.Table.Grid)
	if len(earlier) > 0 {
		what += fmt.Sprintf(", from %s", t.Table.Grid.Format(earlier[0].From))
	}
	if len(former.rollups.SQL) > 0 {
		what += ", and restart the roll-ups of the former table"
	}
	a.Steps = append(a.Steps, Step{What: what, SQL: slices.Concat(former.rollups.SQL, sql),
		run: func(ctx context.Context) error {
			// Only one apply at a time has the lock. Another one may have created the table before.
			if err := t.Declaring(ctx, func(engine.Lease) error { return t.createTable(ctx, former, step) }); err != nil {
				return err
			}
			return t.ReadSchema(ctx)
		}})
	return nil
}

func (t planner) planChange(ctx context.Context, a *Plan, applied *rolling.Declaration) error {
	if applied != nil {
		if err := t.sameAxis(applied); err != nil {
			return err
		}
	}
	if t.Schema.By == "" {
		return t.Schema.Unkept()
	}
	if t.Schema.By != t.Table.By {
		return engine.Hinted(fmt.Errorf("table %s is partitioned by column %s, and %s is declared", t.Table.Name, t.Schema.By, t.Table.By),
			"declare time = %q, or a new table", t.Schema.By)
	}
	if applied != nil {
		was, now := applied.Definition, t.Declared.Definition
		if !reflect.DeepEqual(was.PrimaryKey, now.PrimaryKey) || !reflect.DeepEqual(was.Unique, now.Unique) || !reflect.DeepEqual(keysOf(was), keysOf(now)) {
			return engine.Hinted(fmt.Errorf("table %s: its keys or indexes have changed in the declaration, and existing periods keep theirs", t.Table.Name),
				"change them on the server first, or declare them as they were")
		}
	}
	if err := t.planTakeover(ctx, a, applied); err != nil {
		return err
	}
	columns, err := adopt.AddedColumns(t.Schema, t.Declared.Definition)
	if err != nil {
		return err
	}
	for _, c := range columns {
		c.Table = t.Table
		sql, err := t.DB.Dialect().Render(c)
		if err != nil {
			return err
		}
		a.Steps = append(a.Steps, Step{What: fmt.Sprintf("add column %s", c.Name), SQL: sql, run: func(ctx context.Context) error {
			err := t.Alter(ctx, func(have []rolling.Partition) engine.Step {
				c.Have = have
				return c
			})
			if err != nil {
				return t.Blocked(ctx, err)
			}
			return t.ReadSchema(ctx)
		}})
	}
	if err := t.planEarlier(ctx, a, applied); err != nil {
		return err
	}
	if applied == nil {
		a.Notes = append(a.Notes, fmt.Sprintf("%s has partitions already: it is kept from now on with the rows and the partitions that it has", t.Table.Name))
		return nil
	}
	changed := func(what, before, now, when string) {
		if before != now {
			a.Notes = append(a.Notes, fmt.Sprintf("%s: %s -> %s; %s", what, before, now, when))
		}
	}
	changed("period", applied.Period.String(), t.Table.Grid.String(), "periods that exist stay as they are, the next ones get the new length")
	changed("ahead", applied.Ahead.String(), t.Declared.Ahead.String(), "at the next cycle of rowmill run")
	changed("keep", applied.Keep.String(), t.Declared.Keep.String(), "from now on: rowmill run drops periods that have passed it, once sealed")
	return nil
}

func (t planner) planLevels(ctx context.Context, a *Plan, applied *rolling.Declaration) error {
	if applied != nil {
		for _, was := range applied.Rollups {
			if !slices.Contains(maintain.LevelNames(t.Declared), was.Name) {
				a.Notes = append(a.Notes, fmt.Sprintf("roll-up %s is no longer declared: its table stays, and is no longer refreshed", was.Name))
			}
		}
	}
	if len(t.Declared.Rollups) == 0 {
		return nil
	}
	var sql, what []string
	if t.Schema != nil {
		set, err := rollup.New(t.DB, t.State, t.Table, t.Schema, t.Declared)
		if err != nil {
			return err
		}
		made, changed, err := set.Changes(ctx)
		if err != nil {
			return err
		}
		if len(made) > 0 {
			what = append(what, "create roll-ups "+strings.Join(made, ", "))
		}
		if len(changed) > 0 {
			what = append(what, "change roll-ups "+strings.Join(changed, ", "))
		}
		triggers, err := set.TriggerChange(ctx)
		if err != nil {
			return err
		}
		if of := triggers.What(maintain.ExactTriggersText); of != "" {
			what = append(what, of)
		}
		if len(what) == 0 {
			return nil
		}
		sql = append(set.Statements(slices.Concat(made, changed)...), triggers.SQL...)
	} else {
		if err := rollup.Taken(ctx, t.DB, t.Declared); err != nil {
			return err
		}
		what = append(what, "create roll-ups "+strings.Join(maintain.LevelNames(t.Declared), ", "))
		a.Notes = append(a.Notes, "the statements of roll-ups follow from the table's columns: --dry-run shows them once it exists")
	}
	a.Steps = append(a.Steps, Step{What: strings.Join(what, "; "), SQL: sql, run: func(ctx context.Context) error {
		if err := t.OpenLevels(); err != nil {
			return err
		}
		return t.Rollups.Create(ctx)
	}})
	return nil
}

// planLate adds a step that creates or drops the triggers that refuse late rows.
func (t planner) planLate(ctx context.Context, a *Plan, _ *rolling.Declaration) error {
	change, err := t.LateChange(ctx)
	if err != nil || t.Schema != nil && len(change.SQL) == 0 || t.Schema == nil && t.Declared.Late != rolling.LateReject {
		return err
	}
	what := "refuse rows whose period is sealed"
	if t.Declared.Late != rolling.LateReject {
		what = "accept rows whose period is sealed"
	} else if change.Old > 0 {
		what = change.What(maintain.LateTriggersText)
	}
	a.Steps = append(a.Steps, Step{What: what, SQL: change.SQL, run: t.RefuseLate})
	return nil
}

func keysOf(d *rolling.Definition) []string {
	var out []string
	for _, k := range d.Keys {
		out = append(out, fmt.Sprintf("%+v", k))
	}
	for _, ix := range d.Indexes {
		out = append(out, fmt.Sprintf("%s %v", ix.Name, ix.Columns))
	}
	return out
}

// Run executes the steps in order, and calls note before each. It may be repeated after a failure:
// each step first checks the current state.
func (a *Plan) Run(ctx context.Context, note func(Step)) error {
	for _, s := range a.Steps {
		note(s)
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.What, err)
		}
	}
	return nil
}
