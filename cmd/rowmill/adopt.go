package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/maintain/apply"
)

// adoptions turn plain tables into rolling ones, and back.
type adoptions struct{ *app }

// adoptOptions returns the options for adopting a table.
func (a adoptions) adoptOptions(k *declared.Table) adopt.Options {
	return adopt.Options{DB: k.DB, State: k.State, Table: k.Table.Table, Schema: k.Schema, Declared: k.Declared, Now: k.Now, Progress: a.sayAdoption()}
}

// adopt converts a plain table into a rolling one while clients write to the table, and then
// applies the rest of the declaration.
func (a adoptions) adopt(ctx context.Context, k *declared.Table, plan *apply.Plan, f applyFlags) error {
	o := a.adoptOptions(k)
	o.AllowDuplicates, o.Before = f.duplicates, plan.Before
	p, err := adopt.Plan(ctx, o)
	if err != nil {
		return err
	}
	o.Planned = p
	if f.dry {
		for _, n := range p.Notes {
			fmt.Fprintf(a.Stdout, "-- note: %s\n", n)
		}
		fmt.Fprint(a.Stdout, adopt.Script(plan.BeforeSQL), adopt.Script(p.Statements))
		fmt.Fprint(a.Stdout, plan.Statements())
		return nil
	}
	under, err := adopt.UnderWay(ctx, k.State, k.Declared.Name)
	if err != nil {
		return err
	}
	if under == nil {
		if err := adopt.MayDuplicate(o); err != nil {
			return err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "On %s, the plain table %s becomes a rolling one, with periods of %s:\n", k.DB.Info().Target, k.Declared.Name, k.Table.Table.Grid)
	if under != nil {
		fmt.Fprintf(&b, "  it continues at the step %q\n", under.Step)
	}
	for _, n := range append(p.Notes, plan.Notes...) {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	fmt.Fprintf(&b, "Its rows are copied while it is written to; then the two tables are swapped. The old table\nis kept until rowmill apply FILE --finish; --undo reverses the adoption. Both need room on disk.\n")
	if err := a.Confirm(ctx, b.String(), f.yes, plan.Dropped...); err != nil {
		return err
	}
	w, err := a.watchReplicas(ctx, f.limits, k.DB)
	if err != nil {
		return err
	}
	defer w.Close()
	a.limitAdoption(&o, k, w, f)
	if err := askWaits(ctx, o); err != nil {
		return err
	}
	if err := adopt.Run(ctx, o); err != nil {
		return cli.Stopped(ctx, err, "rowmill apply %s, which continues; --undo reverses it", f.file)
	}
	if err := k.Reload(ctx); err != nil {
		return err
	}
	rest, err := apply.PlanTable(ctx, k.Table)
	if err != nil {
		return err
	}
	if err := rest.Run(ctx, func(s apply.Step) { fmt.Fprintln(a.Stderr, s.What) }); err != nil {
		return cli.Stopped(ctx, err, "rowmill apply %s, which continues", f.file)
	}
	fmt.Fprintf(a.Stdout, "%s is a rolling table now; the old one is kept until rowmill apply --finish, and --undo restores it\n", k.Declared.Name)
	return nil
}

// askWaits evaluates each limit once: a limit that can't be evaluated is reported before anything
// is created.
func askWaits(ctx context.Context, o adopt.Options) error {
	for _, wait := range o.Limits.Waits {
		if _, err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// limitAdoption sets the same limits as limitCopy. In addition, it delays the swap as
// --postpone-cut-over and --cut-over-window say.
func (a adoptions) limitAdoption(o *adopt.Options, k *declared.Table, w *lagWatch, f applyFlags) {
	a.limitCopy(o, k, w)
	paused := o.Postpone
	o.Postpone = func(ctx context.Context) (string, error) {
		if why, err := paused(ctx); why != "" || err != nil {
			return why, err
		}
		return f.postponed(ctx)
	}
}

// limitCopy limits the copying as the flags say. While the maintenance policy "adopt" is paused for
// the table, nothing is copied or swapped.
func (a adoptions) limitCopy(o *adopt.Options, k *declared.Table, w *lagWatch) {
	o.Limits = w.limits(k.DB)
	o.Postpone = k.WhilePaused(adopt.Kind)
	o.Limits.Waits = append(slices.Clone(o.Limits.Waits), o.Postpone)
}

// endAdoption drops the old table, or reverses the adoption.
func (a adoptions) endAdoption(ctx context.Context, k *declared.Table, f applyFlags) error {
	o, planned := a.adoptOptions(k), adopt.PlanUndo
	if f.finish {
		planned = adopt.PlanFinish
	}
	statements, err := planned(ctx, o)
	if err != nil {
		return err
	}
	var dropped []string
	if f.finish {
		if dropped, err = apply.Dropped(ctx, k.Table); err != nil {
			return err
		}
	}
	if f.dry {
		fmt.Fprint(a.Stdout, adopt.Script(statements))
		for _, d := range dropped {
			fmt.Fprintf(a.Stdout, "-- dropped: %s\n", d)
		}
		return nil
	}
	on, name := k.DB.Info().Target, k.Declared.Name
	plan := fmt.Sprintf("On %s, the old table of %s is dropped. After that, the adoption can't be undone.\n", on, name)
	if f.undo {
		plan = fmt.Sprintf("On %s, %s becomes a plain table again, with all changes made since. Stop rowmill run first.\n", on, name)
	}
	if err := a.Confirm(ctx, plan, f.yes, dropped...); err != nil {
		return err
	}
	if f.finish {
		if err := adopt.Finish(ctx, o); err != nil {
			return cli.Stopped(ctx, err, "rowmill apply %s --finish, which continues", f.file)
		}
		fmt.Fprintf(a.Stdout, "%s: the old table is dropped\n", name)
		return nil
	}
	w, err := a.watchReplicas(ctx, f.limits, k.DB)
	if err != nil {
		return err
	}
	defer w.Close()
	a.limitAdoption(&o, k, w, f)
	if err := adopt.Undo(ctx, o); err != nil {
		return cli.Stopped(ctx, err, "rowmill apply %s --undo, which continues", f.file)
	}
	if err := k.Undeclare(ctx); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s is a plain table again\n", name)
	return nil
}

// sayAdoption returns a function that prints the progress as lines, at most one a
// second within a step.
func (a adoptions) sayAdoption() func(adopt.Progress) {
	var step, paused string
	var last time.Time
	return func(p adopt.Progress) {
		if p.Step == step && p.Paused == paused && time.Since(last) < time.Second && len(p.Blockers) == 0 {
			return
		}
		step, paused, last = p.Step, p.Paused, time.Now()
		fmt.Fprintln(a.Stderr, cli.Stamp(last), p)
	}
}
