package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/rolling"
)

func (a *app) rollupCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "rollup",
		Short: "Work on a table's roll-ups",
		Long: "Work on a table's roll-ups. rowmill run refreshes them by itself, but doesn't notice\n" +
			"all changes that other programs make to old rows. After such a change, refresh the range.",
	}, a.rollupRefreshCommand())
}

type refreshFlags struct {
	kept     keptFlags
	from, to string
	yes      bool
	asJSON   bool
}

func (a *app) rollupRefreshCommand() *cobra.Command {
	var f refreshFlags
	c := &cobra.Command{
		Use:   "refresh FILE.toml",
		Short: "Recompute the roll-ups of a range",
		Long: "Recompute the roll-ups of a range from the present rows: every bucket that overlaps the\n" +
			"range, one level after the other, in transactions of about half a second. Readers of the\n" +
			"live views see correct numbers at any time; inserts don't wait. Ctrl-C is safe: computed\n" +
			"buckets stay, and the same command continues.\n\n" +
			"A range whose rows have been dropped is refused: its buckets are sealed. Once\n" +
			"rowmill restore has brought back all rows of a bucket, it can be computed again.",
		Example: "  rowmill rollup refresh readings.toml --from 2026-11-20 --to 2026-11-21\n" +
			"  rowmill rollup refresh readings.toml --from '2026-11-20 06:00' --to '2026-11-20 07:30' --yes",
		Args: cli.WantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error { return a.rollupRefresh(c.Context(), args[0], f) },
	}
	flags := c.Flags()
	f.kept.define(flags)
	flags.StringVar(&f.from, "from", "", "`TIME` in UTC, or key, that begins the range (required)")
	flags.StringVar(&f.to, "to", "", "`TIME` in UTC, or key, before which the range ends (required)")
	flags.BoolVarP(&f.yes, "yes", "y", false, "don't ask (default false)")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON (default false)")
	return c
}

func (a *app) rollupRefresh(ctx context.Context, file string, f refreshFlags) (err error) {
	if f.from == "" || f.to == "" {
		return cli.Usagef("--from 2026-11-20 --to 2026-11-21", "no range is given: --from and --to are required")
	}
	k, err := a.openApplied(ctx, file, f.kept)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	grid := k.Table.Table.Grid
	from, err := positionOf(grid, "--from", f.from)
	if err != nil {
		return err
	}
	to, err := positionOf(grid, "--to", f.to)
	if err != nil {
		return err
	}
	if from >= to {
		return cli.Usagef("--from before --to", "the range from %s to %s is empty", f.from, f.to)
	}
	if k.Rollups == nil || len(k.Declared.Rollups) == 0 {
		return fmt.Errorf("%s declares no roll-ups", file)
	}
	now, err := k.Now(ctx)
	if err != nil {
		return err
	}
	if to > now { // a bucket that hasn't ended is incomplete
		to = max(now, from+1)
	}
	var names []string
	for _, r := range k.Declared.Rollups {
		names = append(names, r.Name)
	}
	plan := fmt.Sprintf("On %s:\n  1. recompute the buckets of %s that overlap %s to %s\n", k.DB.Info().Target, strings.Join(names, ", "), grid.Format(from), grid.Format(to))
	if err := a.Confirm(ctx, plan, f.yes); err != nil {
		return err
	}
	began := time.Now()
	n, err := k.RefreshRange(ctx, from, to)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped after %s; run it again for the others: %w", figure.Plural(n, "bucket"), err)
		}
		return err
	}
	if f.asJSON {
		return a.PrintFormat("rowmill.refresh/1", map[string]any{"table": k.Declared.Name, "buckets": n, "seconds": time.Since(began).Seconds()})
	}
	fmt.Fprintf(a.Stdout, "%s computed in %.1f s\n", figure.Plural(n, "bucket"), time.Since(began).Seconds())
	return nil
}

// positionOf parses the value of a flag: a time in UTC, or a key if the table is partitioned by
// keys.
func positionOf(g rolling.Grid, flag, text string) (int64, error) {
	at, err := g.ParsePosition(text)
	if err != nil {
		err = cli.Usagef(flag+" '2026-11-20 06:00', or the value of an integer key", "%s %w", flag, err)
	}
	return at, err
}
