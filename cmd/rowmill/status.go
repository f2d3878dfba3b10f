package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/report/tables"
)

// errActionRequired is returned by status if an action by the user is required.
var errActionRequired = errors.New("action required")

func (a *app) statusCommand() *cobra.Command {
	var f keptFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "status FILE.toml...",
		Short: "Show the state of rolling tables, and any action required",
		Long: "Show the state of rolling tables: periods with state, rows and size, how long the\n" +
			"periods created ahead will last, how far roll-ups are computed, changes in progress, the\n" +
			"last and the next actions, and the progress of an adoption. The command changes nothing.\n\n" +
			"Exit status 1 means that action is required: problems are listed last, with what to\n" +
			"try. Exit status 4 means that the state of a table is unknown: its server doesn't\n" +
			"answer, or the table was never applied.",
		Example: "  rowmill status readings.toml\n" +
			"  rowmill status readings.toml --json",
		Args: cli.WantArgs(1, -1),
		RunE: func(c *cobra.Command, args []string) error { return a.status(c.Context(), args, f, asJSON) },
	}
	flags := c.Flags()
	f.define(flags)
	flags.BoolVar(&asJSON, "json", false, "print JSON, one object for each table (default false)")
	return c
}

func (a *app) status(ctx context.Context, files []string, f keptFlags, asJSON bool) error {
	problems := 0
	var all []*maintain.Status
	var unknown error
	for _, file := range files {
		d, err := a.declared(ctx, file, f)
		if err != nil {
			return err
		}
		more, err := d.Status(ctx)
		if err != nil {
			unknown = errors.Join(unknown, err)
			continue
		}
		all = append(all, more...)
	}
	for i, s := range all {
		problems += len(s.Problems)
		if asJSON {
			if err := a.PrintJSON(s); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		if err := tables.Status(a.Stdout, s, a.Stdout.Columns()); err != nil {
			return err
		}
	}
	if problems > 0 {
		return errors.Join(errActionRequired, unknown)
	}
	return engine.Classed(cli.ErrUnknown, unknown)
}
