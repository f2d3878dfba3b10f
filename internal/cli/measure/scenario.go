package measure

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/experiment/scenario"
	"github.com/rowmill/rowmill/internal/report/oneline"
)

type scenarioFlags struct {
	list, print bool
	spec        experiment.Spec
	script      experiment.Script
	target      string
	maxTime     experiment.Duration
	out         benchOutputs
	resume      string
}

func (a benchmarks) benchScenarioCommand() *cobra.Command {
	var f scenarioFlags
	c := &cobra.Command{
		Use:   "scenario NAME|FILE.toml",
		Short: "Run a named experiment and compare it with published figures",
		Long: "Run a named experiment, and compare its figures with published ones. A scenario is a\n" +
			"declaration: which runs are made, with how much memory for how many rows, what was\n" +
			"published, and which run is expected to be faster, or where a rate falls. Built in are\n" +
			strings.Join(scenario.Names(), ", ") + "; --list explains them.\n" +
			"--print prints one, to begin a file of your own.\n\n" +
			"First, the final size of the tables is estimated from a sample, because the scenario\n" +
			"gives each server a share of this size as memory. Then the runs are made one after the\n" +
			"other, each on its own server. If --target is not private, its memory is unchanged,\n" +
			"and existing tables are refused unless --drop-existing is given.\n\n" +
			"After Ctrl-C, --resume continues.",
		Example: "  rowmill bench scenario --list\n" +
			"  rowmill bench scenario ec2-2012 --out ec2.jsonl --html ec2.html\n" +
			"  rowmill bench scenario daily-2009 --scale 0.02 --target sqlite:",
		Args:              func(_ *cobra.Command, args []string) error { return f.checkArgs(args) },
		ValidArgsFunction: cobra.FixedCompletions(scenario.Names(), cobra.ShellCompDirectiveDefault), // or a file
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.list:
				return a.listScenarios(c.Context())
			case f.resume != "":
				return a.resumeScenario(c.Context(), c.Flags(), &f)
			}
			d, err := experiment.LoadScenario(c.Context(), args[0])
			if err != nil {
				return err
			}
			if f.print {
				_, err := fmt.Fprint(a.Stdout, d.Text)
				return err
			}
			f.script.Text, f.script.Source = d.Text, d.Source
			if c.Flags().Changed("time") {
				f.script.MaxTime = &f.maxTime
			}
			f.spec.Workload, f.spec.Targets, f.spec.Scenario = experiment.Scenario, []string{cmp.Or(f.target, d.Target)}, &f.script
			return a.bench(c.Context(), measuring{spec: &f.spec, out: f.out, show: a.scenarioProgress(d.Does == scenario.Disk)})
		},
	}
	flags := c.Flags()
	f.script.Scale = 1
	flags.BoolVar(&f.list, "list", false, "explain the scenarios that are built in, and run none (default false)")
	flags.BoolVar(&f.print, "print", false, "print the scenario's declaration, and run nothing (default false)")
	flags.Var(cli.ScaleOf(&f.script.Scale), "scale", "multiply the rows, and with them memory and periods, or the file of a disk, by `S` (default 1,\nwhich takes some minutes on 2 cores)")
	flags.StringVar(&f.target, "target", "", "database to use, as `URL`, or folder of a disk (default the scenario's); memory\nand durability are added to the URL of a sandbox or SQLite that doesn't set them")
	replicaVar(flags, &f.spec)
	timeVar(flags, &f.maxTime, 0, "end each run after this `time` (default the scenario's), 0 for never")
	cli.DurationVar(flags, &f.spec.Interval, "interval", defaultInterval, "`time` between two readings of all figures")
	seedVar(flags, &f.spec, "`number` that all rows derive from")
	flags.StringVar(&f.resume, "resume", "", "make the runs that this record `file` lacks, and add them to it (default none)")
	f.out.define(flags, newRecord, " of the rate", "", "summaries and the comparison as JSON instead of text")
	flags.BoolVar(&f.out.reports.log, "log", false, "draw the picture's rate on a logarithmic axis (default false)")
	proofVar(flags, &f.spec, "don't read the tables back at the end of each run")
	return c
}

func (f *scenarioFlags) checkArgs(args []string) error {
	switch none := f.list || f.resume != ""; {
	case none && len(args) > 0:
		return cli.Usagef("rowmill bench scenario "+args[0]+" alone", "--list and --resume take no scenario")
	case !none && len(args) == 0:
		return cli.Usagef("rowmill bench scenario --list", "which scenario? There are %s, or a file of your own", strings.Join(scenario.Names(), ", "))
	case len(args) > 1:
		return cli.Usagef("rowmill bench scenario --help", "unexpected argument %q: scenarios are run one at a time", args[1])
	}
	return nil
}

func (a benchmarks) listScenarios(ctx context.Context) error {
	for i, name := range scenario.Names() {
		d, err := experiment.LoadScenario(ctx, name)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		fmt.Fprint(a.Stdout, d.Explain())
	}
	return nil
}

func (a benchmarks) resumeScenario(ctx context.Context, flags *pflag.FlagSet, f *scenarioFlags) error {
	if err := onlyOwn(flags, append(reportFlagNames, "log", "drop-existing")...); err != nil {
		return err
	}
	p, err := experiment.ResumeScenario(ctx, f.resume, f.spec.DropExisting)
	if err != nil {
		return err
	}
	f.out.record = f.resume
	if err := f.out.reports.check("rowmill bench scenario", f.out.record); err != nil {
		return err
	}
	return a.bench(ctx, measuring{out: f.out, resumes: true, run: p.Run, show: a.scenarioProgress(p.OfDisk())})
}

// scenarioProgress is the usual progress or, for scenarios of `bench disk`, a line for each job.
func (a benchmarks) scenarioProgress(ofDisk bool) func(context.Context) progress {
	if ofDisk {
		return a.runLines(oneline.Disk)
	}
	return nil
}
