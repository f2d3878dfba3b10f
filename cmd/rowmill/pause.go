package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/state"
)

// policies returns the values of --policy: the lanes of maintenance, "adopt" and "all".
func policies() []string {
	var out []string
	for _, lane := range maintain.Lanes {
		out = append(out, string(lane))
	}
	return append(out, adopt.Kind, state.PauseAll)
}

// pauseFlags are the flags of `rowmill pause` and `rowmill resume`.
type pauseFlags struct {
	kept           keptFlags
	policy, reason string
	length         time.Duration
}

// mostPause is the longest pause. For a table that should rest for longer, use rowmill remove.
const mostPause = 366 * 24 * time.Hour

const policyHelp = "`POLICY`: create (periods ahead), rollup, keep (seal, archive, drop), rebuild (and merge), adopt, or all"

// pauses are the verbs that pause and resume policies.
type pauses struct{ *app }

func (a pauses) pauseCommand() *cobra.Command {
	var f pauseFlags
	c := &cobra.Command{
		Use:   "pause FILE.toml... --for 1h",
		Short: "Pause the maintenance of a table for a time",
		Long: "Pause the maintenance of a table by rowmill run, or its adoption by rowmill apply. The\n" +
			"pause ends after the time of --for. The pause is a row in the table's database: every\n" +
			"process reads it before its next task, and before it copies further rows. rowmill status\n" +
			"shows it.\n\n" +
			"While the creation of periods is paused, inserts fail once the existing periods are\n" +
			"full.",
		Example: "  rowmill pause readings.toml --policy keep --for 8h --reason \"audit until Friday\"\n" +
			"  rowmill pause readings.toml --for 1h",
		Args: cli.WantArgs(1, -1),
		RunE: func(c *cobra.Command, args []string) error { return a.pause(c.Context(), args, f) },
	}
	flags := c.Flags()
	f.kept.define(flags)
	cli.ChoiceVar(flags, &f.policy, "policy", state.PauseAll, policies(), policyHelp)
	flags.DurationVar(&f.length, "for", 0, "how long the pause lasts")
	flags.StringVar(&f.reason, "reason", "", "the reason, which rowmill status shows")
	return c
}

func (a pauses) pause(ctx context.Context, files []string, f pauseFlags) error {
	if f.length <= 0 || f.length > mostPause {
		return cli.Usagef("--for 1h", "a pause of %s: want more than 0s, and at most a year", f.length)
	}
	p := state.Pause{Policy: f.policy, Until: time.Now().Add(f.length), Reason: f.reason}
	return a.eachKept(ctx, files, f.kept, func(ctx context.Context, k *declared.Table) error {
		if err := k.State.Pause(ctx, k.Declared.Name, p); err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "%s: %s is %s\n", k.Title(), p.Policy, &p)
		return nil
	})
}

func (a pauses) resumeCommand() *cobra.Command {
	var f pauseFlags
	c := &cobra.Command{
		Use:   "resume FILE.toml...",
		Short: "End a pause",
		Long: "End the pause of a policy, or all pauses of a table. Every process that maintains the\n" +
			"table continues within its --interval.",
		Example: "  rowmill resume readings.toml --policy keep\n" +
			"  rowmill resume readings.toml",
		Args: cli.WantArgs(1, -1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.eachKept(c.Context(), args, f.kept, func(ctx context.Context, k *declared.Table) error {
				n, err := k.State.Resume(ctx, k.Declared.Name, f.policy)
				if err != nil {
					return err
				}
				if n == 0 {
					fmt.Fprintf(a.Stdout, "%s: %s was not paused\n", k.Title(), f.policy)
					return nil
				}
				fmt.Fprintf(a.Stdout, "%s: %s goes on\n", k.Title(), f.policy)
				return nil
			})
		},
	}
	flags := c.Flags()
	f.kept.define(flags)
	cli.ChoiceVar(flags, &f.policy, "policy", state.PauseAll, policies(), policyHelp)
	return c
}

// eachKept calls fn for the table of each file, on each of its nodes. After a failure, it continues
// with the next table.
func (a pauses) eachKept(ctx context.Context, paths []string, f keptFlags, fn func(context.Context, *declared.Table) error) error {
	files, err := filesOf(paths)
	if err != nil {
		return err
	}
	servers := &declared.Servers{}
	var failed []error
	for _, path := range files {
		d, err := a.declared(ctx, path, f)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		d.Servers = servers
		nodes := []*declared.File{d}
		if d.Sharded() {
			nodes = d.OfNodes()
		}
		for _, n := range nodes {
			k, err := n.Open(ctx)
			if err == nil {
				err = fn(ctx, k)
			}
			failed = append(failed, maintain.InNode(n.Node, err))
		}
	}
	return errors.Join(append(failed, servers.Close())...)
}
