package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
)

// nowFlags are the flags of the verbs below `rowmill now`.
type nowFlags struct {
	kept keptFlags
	yes  bool
}

func (a *app) nowCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "now",
		Short: "Do the work that is due for a table at once",
		Long: "Do the work that is due for a table at once, without waiting until rowmill run looks at\n" +
			"the table again. The checks are those of rowmill run, and no work is done before its\n" +
			"time. If a rowmill run maintains the table, the command asks it to do the work and\n" +
			"prints its actions; otherwise the command does the work itself. Paused work is refused.",
	}, a.nowWork("drop", "Drop the periods that have passed retention",
		"Drop the periods that have passed retention. A period is dropped only after it is\n"+
			"proven to be sealed and, if declared, archived. The periods are shown first, and the\n"+
			"command asks for confirmation."), a.nowWork("seal", "Seal the periods whose time has passed",
		"Seal the periods whose end is longer ago than seal.after: count their rows, and record\n"+
			"their checksums."), a.nowWork("rollup", "Refresh the roll-ups",
		"Refresh the roll-ups up to the present, and the buckets with late rows."))
}

func (a *app) nowWork(w schedule.Work, short, long string) *cobra.Command {
	var f nowFlags
	c := &cobra.Command{
		Use:     string(w) + " FILE.toml",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  rowmill now %s readings.toml", w),
		Args:    cli.WantArgs(1, 1),
		RunE:    func(c *cobra.Command, args []string) error { return a.now(c.Context(), args[0], w, f) },
	}
	flags := c.Flags()
	f.kept.define(flags)
	if w == "drop" {
		flags.BoolVarP(&f.yes, "yes", "y", false, "don't ask (default false)")
	}
	return c
}

func (a *app) now(ctx context.Context, file string, w schedule.Work, f nowFlags) (err error) {
	k, err := a.openApplied(ctx, file, f.kept)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	k.Reached = a.reached
	done := 0
	k.Say = func(e maintain.Event) {
		if e.Err != nil || e.Waiting {
			a.sayEvent(e)
			return
		}
		done++
		fmt.Fprintln(a.Stdout, e)
	}
	if w == "drop" {
		drops, err := schedule.Drops(ctx, k.Table)
		if err != nil {
			return err
		}
		if len(drops) == 0 {
			fmt.Fprintf(a.Stdout, "%s: no period has passed retention\n", k.Declared.Name)
			return nil
		}
		var b strings.Builder
		fmt.Fprintf(&b, "On %s:\n", k.DB.Info().Target)
		for i, what := range drops {
			fmt.Fprintf(&b, "%3d. %s\n", i+1, what)
		}
		if err := a.Confirm(ctx, b.String(), f.yes); err != nil {
			return err
		}
	}
	if err := schedule.DoNow(ctx, k.Table, w); err != nil {
		return cli.Stopped(ctx, err, "rowmill now %s %s; a rowmill run that has begun the work goes on", w, file)
	}
	if done == 0 {
		fmt.Fprintf(a.Stdout, "%s: nothing is due\n", k.Declared.Name)
	}
	return nil
}
