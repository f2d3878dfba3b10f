package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

func (a *app) benchMixedCommand() *cobra.Command {
	f := cellFlags{command: "rowmill bench mixed"}
	var targets []string
	c := &cobra.Command{
		Use:   "mixed",
		Short: "Measure inserts and selects at 1 to N clients, several databases side by side",
		Long: "Measure inserts and selects at 1 to N concurrent clients on several databases, and\n" +
			"show a matrix of rates and latencies: who is fastest at what, and where more\n" +
			"clients bring no more. Each operation at each number of clients is a cell; the\n" +
			"databases take turns cell by cell. Operations:\n" +
			"  insert        transactions of --batch rows\n" +
			"  select-pk     one row by its primary key\n" +
			"  select-index  the rows of one value of the secondary index, one or two\n" +
			"  mixed         inserts, with --mix percent of the clients doing select-pk beside\n" +
			"Selects ask for rows that are there, and a select that finds too few or too many\n" +
			"fails the run.\n\n" +
			"On each server it creates the preset's table and fills it, and again whenever it\n" +
			"has grown by a tenth. A table that exists already is refused, unless --drop-existing\n" +
			"is given. Private servers and temporary files are removed. What the servers that are\n" +
			"not being measured do meanwhile is watched, and said where it is more than nothing.\n\n" +
			"Ctrl-C ends it and reports what was measured. `rowmill report` shows a record again.",
		Example: "  rowmill bench mixed --target 'sandbox:mariadb?memory=256MB' \\\n" +
			"      --target 'sandbox:postgres?memory=256MB' --png speed.png --out speed.jsonl\n" +
			"  rowmill bench mixed --target sqlite: --ops select-pk --clients 1,2 --seconds 5",
		Args: func(_ *cobra.Command, args []string) error { return f.noArguments(args) },
		RunE: func(c *cobra.Command, _ []string) error { return a.benchMixed(c.Context(), f, targets) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&targets, "target", []string{target.Default}, target.Help+"\n`URL`; given several times, they are measured side by side")
	flags.StringVar(&f.preset, "preset", "sbtest", "`name` of the table: "+strings.Join(workload.MixedPresets(), ", "))
	flags.StringSliceVar(&f.ops, "ops", workload.MixedOperations(), "operations to measure, `list`")
	f.define(flags)
	intVar(flags, &f.batch, "batch", 1, "rows in one inserting transaction, `N`")
	flags.Float64Var(&f.mix, "mix", 50, "`percent` of the clients of mixed that select")
	intVar(flags, &f.repeat, "repeat", 1, "measure the matrix `N` times, and say how sure ratios are")
	f.defineOutputs(flags)
	return c
}

func (a *app) benchMixed(ctx context.Context, f cellFlags, targets []string) error {
	const help = "rowmill bench mixed --help"
	for i, op := range f.ops {
		if !slices.Contains(workload.MixedOperations(), op) {
			return usagef(help, "--ops: unknown operation %q: there are %s", op, strings.Join(workload.MixedOperations(), ", "))
		}
		if slices.Contains(f.ops[:i], op) {
			return usagef(help, "--ops: %s is named twice", op)
		}
	}
	if len(f.ops) == 0 {
		return usagef(help, "--ops: name at least one of %s", strings.Join(workload.MixedOperations(), ", "))
	}
	if !(f.mix > 0 && f.mix < 100) {
		return usagef("--mix 50", "--mix %v: want more than 0 and less than 100 percent", f.mix)
	}
	if err := f.check(targets); err != nil {
		return err
	}
	if err := f.tryOut(targets); err != nil {
		return err
	}
	s := &speedTest{f: f, name: "mixed", args: a.args, show: newCellProgress(a.stderr)}
	return a.speedTest(ctx, s, func(ctx context.Context) error {
		for _, t := range targets {
			db, err := s.open(ctx, t)
			if err != nil {
				return err
			}
			s.contenders = append(s.contenders, contender{db: db})
		}
		return nil
	})
}

// speedTest opens the databases and measures. It reports all measurements made, even
// if it fails.
func (a *app) speedTest(ctx context.Context, s *speedTest, open func(ctx context.Context) error) (err error) {
	if s.out, err = openRecord(s.f.out); err != nil {
		return err
	}
	var recs []result.Record
	if err = s.early(ctx, open(ctx)); err == nil {
		recs, err = s.run(ctx)
	}
	err = errors.Join(err, s.close(), s.out.close())
	if len(recs) == 0 {
		return err
	}
	return errors.Join(err, a.writeReports(s.f.reports, recs))
}
