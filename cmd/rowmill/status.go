package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/maintain"
)

// errNeedsPerson is returned by status if an action by the user is required.
var errNeedsPerson = errors.New("something needs a person")

func (a *app) statusCommand() *cobra.Command {
	var f keptFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "status FILE.toml...",
		Short: "Show how rolling tables stand, and what needs a person",
		Long: "Show how rolling tables stand: periods with state, rows and size, for how long\n" +
			"inserts have periods, how far the roll-ups are, what is under way, what was done\n" +
			"and what is next; while a table is adopted, how far that is. Nothing on the server\n" +
			"is changed.\n\n" +
			"Exit status 1 means that something needs a person; it is listed last, with what\n" +
			"to try.",
		Example: "  rowmill status readings.toml\n" +
			"  rowmill status readings.toml --json",
		Args: wantArgs(1, -1),
		RunE: func(c *cobra.Command, args []string) error { return a.status(c.Context(), args, f, asJSON) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.define(flags)
	flags.BoolVar(&asJSON, "json", false, "print JSON, one object for each table (default false)")
	return c
}

func (a *app) status(ctx context.Context, files []string, f keptFlags, asJSON bool) error {
	needs := 0
	for i, file := range files {
		s, err := a.statusOf(ctx, file, f)
		if err != nil {
			return err
		}
		needs += len(s.Problems)
		if asJSON {
			out := json.NewEncoder(a.stdout)
			out.SetIndent("", "  ")
			if err := out.Encode(s); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := writeStatus(a.stdout, s, a.stdout.columns()); err != nil {
			return err
		}
	}
	if needs > 0 {
		return errNeedsPerson
	}
	return nil
}

func (a *app) statusOf(ctx context.Context, file string, f keptFlags) (_ *maintain.Status, err error) {
	f.applied = true
	k, err := a.openKept(ctx, file, f)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	// A table that is being adopted has not been applied yet.
	if s, err := k.AdoptionStatus(ctx); err != nil || s != nil {
		return s, err
	}
	if err := k.wantApplied(ctx, file); err != nil {
		return nil, err
	}
	return k.Status(ctx)
}
