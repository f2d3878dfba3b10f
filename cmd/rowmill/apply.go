package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/rolling"
)

type applyFlags struct {
	kept         keptFlags
	yes, dry     bool
	finish, undo bool
	duplicates   bool
	file         string
	memory       int64
	rate         float64
	limits       limitFlags
	// postpone is a file, and window the times of a day, that delay the swap of tables.
	postpone, window string
	pause            time.Duration // how long to pause an adoption that another rowmill apply runs; nothing else is done
}

func (a *app) applyCommand() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply FILE.toml",
		Short: "Create or change a table according to its declaration",
		Long: "Create or change a table according to its declaration. A missing table is created with\n" +
			"the periods that it needs now. A rolling table gets what it lacks, such as columns or\n" +
			"roll-ups, and the declared length of periods and retention. A plain table with rows is\n" +
			"adopted, which makes it a rolling table while programs write to it: the rows are copied\n" +
			"in chunks into a new table, triggers record later changes, and then the new table takes\n" +
			"the name of the old one. The old table stays until --finish; --undo reverses the\n" +
			"adoption.\n\n" +
			"A table that is partitioned already is taken over in place. The job that creates and\n" +
			"drops its partitions, such as an event or pg_partman, is stopped; --undo starts it\n" +
			"again.\n\n" +
			"With [shards] in the declaration, the table is created on each node. Then the head,\n" +
			"the server that programs query, gets a table that presents the rows of all nodes.\n\n" +
			"The command shows its plan and asks for confirmation. It stores its state beside\n" +
			"the table, in tables rowmill_*. Ctrl-C is safe at any time: the next rowmill apply\n" +
			"continues.",
		Example: "  rowmill apply readings.toml --dry-run\n" +
			"  rowmill apply readings.toml --yes",
		Args: cli.WantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			switch pausing := c.Flags().Changed("pause"); {
			case pausing && (f.finish || f.undo || f.dry):
				return cli.Usagef("--pause alone", "--pause does nothing else, and --finish, --undo and --dry-run do")
			case pausing:
				return pauses{a}.pause(c.Context(), args, pauseFlags{kept: f.kept, policy: adopt.Kind, length: f.pause})
			}
			return a.apply(c.Context(), args[0], f)
		},
	}
	flags := c.Flags()
	f.kept.define(flags)
	flags.BoolVar(&f.dry, "dry-run", false, "print the SQL that would run, and change nothing (default false)")
	flags.BoolVarP(&f.yes, "yes", "y", false, "don't ask (default false)")
	flags.BoolVar(&f.duplicates, "allow-duplicates", false, "adopt a table even if the server then no longer keeps some\nof its keys unique; --dry-run names these keys (default false)")
	flags.BoolVar(&f.finish, "finish", false, "drop the old table that an adoption has left (default false)")
	flags.BoolVar(&f.undo, "undo", false, "reverse an adoption, or a takeover of partitions (default false)")
	cli.MemoryVar(flags, &f.memory, "`SIZE` of the memory for which every = \"auto\" chooses the length of periods, such as 8GB (default the server's cache)")
	flags.Var(cli.RateOf(&f.rate, "to have it measured on the table"), "rate", "rows inserted per second, by which every = \"auto\" chooses the period (default measured on the table)")
	f.limits.define(flags)
	flags.StringVar(&f.postpone, "postpone-cut-over", "", "don't swap the tables while this `FILE` exists; until then, the new table follows all changes")
	flags.StringVar(&f.window, "cut-over-window", "", "swap the tables only between these times of day, UTC, such as `02:00-04:00`")
	flags.DurationVar(&f.pause, "pause", 0, "do nothing but pause, for this time, the adoption that another\nrowmill apply runs; the same as rowmill pause --policy adopt (default no pause)")
	return c
}

// postponed returns why the tables may not be swapped now; "" if they may.
func (f *applyFlags) postponed(context.Context) (string, error) {
	if f.postpone != "" {
		if why, err := fileThere(f.postpone); err != nil || why != "" {
			return why, err
		}
	}
	return f.inWindow(time.Now())
}

// inWindow returns "" if now is within --cut-over-window, else a reason to wait. The window may
// contain midnight.
func (f *applyFlags) inWindow(now time.Time) (string, error) {
	if f.window == "" {
		return "", nil
	}
	from, to, ok := strings.Cut(f.window, "-")
	begin, err := time.Parse("15:04", from)
	end, failed := time.Parse("15:04", to)
	if !ok || err != nil || failed != nil || begin.Equal(end) {
		return "", cli.Usagef("--cut-over-window 02:00-04:00", "--cut-over-window %s: want two times of day", f.window)
	}
	clock := func(t time.Time) int { return t.Hour()*60 + t.Minute() }
	at, b, e := clock(now.UTC()), clock(begin), clock(end)
	if b < e && b <= at && at < e || b > e && (at >= b || at < e) {
		return "", nil
	}
	return "it is not between " + from + " and " + to + " UTC", nil
}

func (a *app) apply(ctx context.Context, file string, f applyFlags) (err error) {
	if f.finish && f.undo {
		return cli.Usagef("one of them", "--finish and --undo are opposites")
	}
	if err := f.limits.check(false); err != nil {
		return err
	}
	if _, err := f.inWindow(time.Now()); err != nil {
		return err
	}
	f.file = file
	d, err := a.declared(ctx, file, f.kept)
	if err != nil {
		return err
	}
	d.Dry = f.dry
	if d.Sharded() {
		if len(f.limits.replicas) > 0 {
			return cli.Usagef("no --replica", "--replica is for the table of one server, and %s is on the nodes %s", d.Name, d.Shards.Names())
		}
		return a.applyShards(ctx, d, f)
	}
	k, err := d.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	k.Say = a.sayEvent
	if f.undo {
		if taken, err := apply.TakenOver(ctx, k.Table); err != nil || taken {
			return errors.Join(err, a.undoTakeover(ctx, k, f))
		}
	}
	if f.finish || f.undo {
		return adoptions{a}.endAdoption(ctx, k, f)
	}
	if err := (planner{a}).findPeriod(ctx, k, f); err != nil {
		return err
	}
	plan, err := apply.PlanTable(ctx, k.Table)
	if err != nil {
		return err
	}
	under, err := adopt.UnderWay(ctx, k.State, k.Declared.Name)
	if err != nil {
		return err
	}
	if plan.Adopt || under != nil && !adopt.Kept(under) {
		return adoptions{a}.adopt(ctx, k, plan, f)
	}
	return a.applyPlan(ctx, plan, k.Declared, k.DB.Info().Target, f)
}

// applyPlan prints a plan, asks, and runs it.
func (a *app) applyPlan(ctx context.Context, plan *apply.Plan, d *rolling.Declaration, where string, f applyFlags) error {
	if f.dry {
		fmt.Fprint(a.Stdout, plan.Statements())
		if plan.Empty() {
			fmt.Fprintf(a.Stdout, "-- %s matches %s: nothing to do\n", d.Name, f.file)
		}
		return nil
	}
	for _, w := range d.Warnings {
		fmt.Fprintln(a.Stderr, "warning:", w)
	}
	for _, n := range plan.Notes {
		fmt.Fprintln(a.Stderr, "note:", n)
	}
	if plan.Empty() {
		fmt.Fprintf(a.Stdout, "%s matches %s: nothing to do\n", d.Name, f.file)
		return nil
	}
	if err := a.runPlan(ctx, plan, where, f.yes, "rowmill apply "+f.file); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s is applied: rowmill run %s keeps it\n", d.Name, f.file)
	return nil
}

// undoTakeover hands a table back to the job that maintained it before the takeover.
func (a *app) undoTakeover(ctx context.Context, k *declared.Table, f applyFlags) error {
	plan, err := apply.PlanUndo(ctx, k.Table)
	if err != nil {
		return err
	}
	if f.dry {
		fmt.Fprint(a.Stdout, plan.Statements())
		return nil
	}
	for _, n := range plan.Notes {
		fmt.Fprintln(a.Stderr, "note:", n)
	}
	if err := a.runPlan(ctx, plan, k.DB.Info().Target, f.yes, "rowmill apply "+f.file+" --undo"); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s is maintained as before rowmill took it over\n", k.Declared.Name)
	return nil
}

// runPlan shows the steps of a plan, asks, and runs it; again is the command that continues the
// plan after an interruption.
func (a *app) runPlan(ctx context.Context, plan *apply.Plan, where string, yes bool, again string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "On %s:\n", where)
	for i, s := range plan.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s.What)
	}
	if err := a.Confirm(ctx, b.String(), yes, plan.Dropped...); err != nil {
		return err
	}
	if err := plan.Run(ctx, func(s apply.Step) { fmt.Fprintln(a.Stderr, s.What) }); err != nil {
		return cli.Stopped(ctx, err, "%s, which continues", again)
	}
	return nil
}
