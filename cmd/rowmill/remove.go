package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/maintain/apply"
)

type removeFlags struct {
	kept     keptFlags
	yes, dry bool
	rollups  bool
	plain    bool
	cancel   bool
	limits   limitFlags
}

func (a adoptions) removeCommand() *cobra.Command {
	var f removeFlags
	c := &cobra.Command{
		Use:   "remove FILE.toml",
		Short: "Stop maintaining a table, and remove everything that is rowmill's",
		Long: "Stop maintaining a table. The table stays with all of its rows, as an ordinary\n" +
			"partitioned table. With --plain it becomes a plain table: as in rowmill apply, the rows\n" +
			"are copied while programs write, within the limits below. On SQLite the rows are always\n" +
			"copied, in one transaction. Everything that is rowmill's is removed: the declaration,\n" +
			"triggers, the views of roll-ups, what rowmill has recorded about the table and, with the\n" +
			"last table, rowmill's own tables. The tables of roll-ups stay, unless --drop-rollups is\n" +
			"given.\n\n" +
			"The command shows its plan and asks for confirmation. It may be interrupted or\n" +
			"killed at any time: the same command completes it.",
		Example: "  rowmill remove readings.toml --dry-run\n" +
			"  rowmill remove readings.toml --yes",
		Args: cli.WantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error { return a.remove(c.Context(), args[0], f) },
	}
	flags := c.Flags()
	f.kept.define(flags)
	flags.BoolVar(&f.dry, "dry-run", false, "print the SQL that would run, and change nothing (default false)")
	flags.BoolVarP(&f.yes, "yes", "y", false, "don't ask (default false)")
	flags.BoolVar(&f.plain, "plain", false, "copy the rows into a plain table while programs write to the table (default false)")
	flags.BoolVar(&f.cancel, "cancel", false, "give up a copy begun with --plain, before the tables are swapped (default false)")
	flags.BoolVar(&f.rollups, "drop-rollups", false, "drop the tables of roll-ups, too (default false)")
	f.limits.define(flags)
	return c
}

func (a adoptions) remove(ctx context.Context, file string, f removeFlags) (err error) {
	if err := f.limits.check(false); err != nil {
		return err
	}
	if !f.plain && (f.cancel || f.limits.given()) {
		return cli.Usagef("--plain", "--cancel and limits of load are for --plain")
	}
	d, err := a.declared(ctx, file, f.kept)
	if err != nil {
		return err
	}
	if d.Sharded() {
		return cli.Usagef("--target "+d.Shards.Nodes[0].Name+", one node after the other", "table %s is on the nodes %s, and remove is about one server", d.Name, d.Shards.Names())
	}
	d.Dry = f.dry
	k, err := d.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	k.Say, k.Table.Reached = a.sayEvent, a.reached
	how := apply.Removal{DropRollups: f.rollups}
	if f.plain {
		w, err := a.watchReplicas(ctx, f.limits, k.DB)
		if err != nil {
			return err
		}
		defer w.Close()
		o := a.adoptOptions(k)
		a.limitCopy(&o, k, w)
		if f.cancel {
			return a.cancelLeave(ctx, k, o, f)
		}
		if err := askWaits(ctx, o); err != nil {
			return err
		}
		how.Plain = &o
	}
	plan, err := apply.PlanRemoval(ctx, k.Table, how)
	if err != nil {
		return fmt.Errorf("remove %s: %w", d.Name, err)
	}
	switch {
	case plan.Empty():
		fmt.Fprintf(a.Stdout, "nothing of rowmill's belongs to table %s\n", d.Name)
		return nil
	case f.dry:
		fmt.Fprint(a.Stdout, plan.Statements())
		return nil
	}
	for _, n := range plan.Notes {
		fmt.Fprintln(a.Stderr, "note:", n)
	}
	again := "rowmill remove " + file
	if f.plain {
		again += " --plain"
	}
	if f.rollups {
		again += " --drop-rollups"
	}
	if err := a.runPlan(ctx, plan, k.DB.Info().Target, f.yes, again); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s is an ordinary table: nothing of rowmill's belongs to it\n", d.Name)
	return nil
}

// cancelLeave gives up the unfinished conversion of a rolling table into a plain table.
func (a adoptions) cancelLeave(ctx context.Context, k *declared.Table, o adopt.Options, f removeFlags) error {
	plan := fmt.Sprintf("On %s, table %s stays a rolling one, and the copy of its rows is dropped.\n", k.DB.Info().Target, k.Declared.Name)
	if f.dry {
		fmt.Fprint(a.Stdout, "-- ", plan)
		return nil
	}
	if err := a.Confirm(ctx, plan, f.yes); err != nil {
		return err
	}
	if err := adopt.CancelLeave(ctx, o); err != nil {
		return cli.Stopped(ctx, err, "rowmill remove %s --plain --cancel", k.Declared.Source)
	}
	fmt.Fprintf(a.Stdout, "%s stays a rolling table\n", k.Declared.Name)
	return nil
}
