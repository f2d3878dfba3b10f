// Package measure has the verbs that measure: `rowmill bench`, whose experiments are in
// internal/experiment, and `report` and `compare`, whose documents are in internal/report. It
// defines flags, shows progress, and writes records and reports.
package measure

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
)

type benchFlags struct {
	spec     experiment.Spec
	out      benchOutputs
	printSQL bool
	resume   string
	table    tableFlags
}

const (
	defaultRows = 1000000
	// defaultMaxTime makes a run without flags end within a minute, proof included.
	defaultMaxTime  = 45 * time.Second
	defaultInterval = time.Second
	// defaultReadAfter is the number of rows after which iiBench's queries begin.
	defaultReadAfter = 1000000
)

// benchmarks are the verbs of `rowmill bench`.
type benchmarks struct{ reports }

// BenchCommand returns `rowmill bench`.
func BenchCommand(app *cli.App) *cobra.Command {
	a := benchmarks{reports{app}}
	c := cli.Group(&cobra.Command{
		Use:   "bench WORKLOAD",
		Short: "Measure a database with a workload",
		Long: "Measure a database with one of the workloads below; disk measures storage alone, and\n" +
			"keep the maintenance of a table.\n\n" +
			"Ctrl-C ends a run and reports what was measured. `rowmill report` shows the record of a\n" +
			"run again, `rowmill compare` compares records.",
		Example: "  rowmill bench insert --layout plain,rolling --html run.html\n" +
			"  rowmill bench insert --help",
	},
		a.benchInsertCommand(), a.benchMixedCommand(), a.benchPointsCommand(), a.benchSteadyCommand(), a.benchMatrixCommand(), a.benchScenarioCommand(),
		a.benchIbenchCommand(), a.benchKeepCommand(), a.benchScanCommand(), a.benchHotRowCommand(), a.benchTPCCCommand(), a.benchTablesCommand(),
		a.benchDiskCommand())
	c.SetGlobalNormalizationFunc(benchFlagName)
	return c
}

func (a benchmarks) benchInsertCommand() *cobra.Command {
	var f benchFlags
	var presets strings.Builder
	for _, p := range workload.Presets() {
		fmt.Fprintf(&presets, "  %-11s %s\n", p[0], p[1])
	}
	c := &cobra.Command{
		Use:   "insert",
		Short: "Fill a table and show how the insert rate changes as it grows",
		Long: "Fill a table, and show how the insert rate changes as the table grows. Several\n" +
			"layouts are measured one after the other: plain is one table, rolling is the same\n" +
			"table divided into periods of which two fit into memory. With --repeat they are\n" +
			"measured several times, in alternating order, so that a change of the machine's\n" +
			"speed does not affect only one of them.\n\n" +
			"With --find-rate, the filled table then takes inserts at one rate after the other, each\n" +
			"for the time of --trial, until the highest rate is found at which the backlog stays\n" +
			"bounded and 99 of 100 operations finish within --p99. The table continues to grow.\n" +
			"With --keep-rows the table keeps its size: rows are deleted, or periods dropped.\n" +
			"No trial begins after --time.\n\n" +
			"On the server, it creates the preset's table, fills it, verifies it and leaves it\n" +
			"there; if several runs are made, each table is dropped before the next run. An\n" +
			"existing table is refused unless --drop-existing is given. Private servers and\n" +
			"temporary files are removed.\n\n" +
			"Presets:\n" + strings.TrimRight(presets.String(), "\n"),
		Example: "  rowmill bench insert --layout plain,rolling --html run.html\n" +
			"  rowmill bench insert --target 'sandbox:mariadb?memory=64MB' --preset classic \\\n" +
			"      --layout plain,rolling --rows 1.5M --writers 2 --batch 1000 --out run.jsonl",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if f.resume != "" {
				return a.resumeInsert(c.Context(), &f, c.Flags())
			}
			if err := a.ownTable(c.Context(), &f, c.Flags()); err != nil {
				return err
			}
			if err := f.complete(c.Flags()); err != nil {
				return err
			}
			if file := f.spec.DiskRecord; file != "" {
				if _, err := experiment.ReadDisk(c.Context(), file); err != nil {
					return err
				}
			}
			return a.bench(c.Context(), measuring{spec: &f.spec, out: f.out, printSQL: f.printSQL, note: announcement(&f.spec)})
		},
	}
	flags := c.Flags()
	s := &f.spec
	s.Workload = experiment.Insert
	targetVar(flags, s)
	flags.StringVar(&s.Preset, "preset", "classic", "`name` of a table and its rows, listed above")
	f.table.define(flags)
	flags.StringSliceVar(&s.Layouts, "layout", []string{workload.Plain}, "layouts to measure, `list` of "+strings.Join(workload.Layouts(), ", "))
	cli.IntVar(flags, &s.Repeat, "repeat", 1, "measure each layout `N` times, in turn, in one record")
	flags.Var(cli.CountOf(&s.Rows), "rows", "rows to insert, such as 1500000, 1_500_000 or 1.5M (default 1M, none with --time)")
	timeVar(flags, &s.MaxTime, 0, "end after this `time` (default 45s without --rows, otherwise none)")
	cli.IntVar(flags, &s.Writers, "writers", 1, "concurrent clients, each with its own connection, `N` (16 with --find-rate, but 1 on SQLite)")
	cli.IntWithin(flags, &s.Batch, "batch", 0, 1, math.MaxInt32, "rows in one transaction, `N` (default the preset's, with --find-rate 10)")
	methodVar(flags, s)
	flags.Var(cli.Optional(&s.Indexes, cli.IntOf), "indexes", "create the first `N` of the preset's secondary indexes (default as many as the preset says)")
	flags.Var(cli.RateOf(&s.Rate, "to insert as fast as possible"), "rate", "rows per second to offer, whether the database keeps up or not (default as fast as possible)")
	seedVar(flags, s, "`number` that all rows derive from")
	cli.DurationVar(flags, &s.Interval, "interval", defaultInterval, "`time` between two readings of all figures, less by default in a short run")
	flags.Var(cli.CountOrAuto(&s.PeriodRows), "period-rows", "rows of a rolling table's period; auto fits two periods into the database's cache")
	cli.IntVar(flags, &s.KeepPeriods, "keep-periods", 0, "keep the newest `N` periods, and drop older ones while inserts run (default keep all)")
	flags.Var(cli.CountOf(&s.KeepRows), "keep-rows", "keep the table at `N` rows while inserts run: delete the oldest rows of a plain table,\ndrop the oldest periods of a rolling table (default keep all)")
	cli.IntVar(flags, &s.Readers, "readers", 0, "clients that run the preset's queries beside the inserts, `N`: only presets classic and ibench have queries")
	flags.Var(cli.CountOf(&s.ReadAfter), "read-after", "rows in the table before the first query (default 1M, with --readers)")
	flags.VarPF(cli.Optional(&s.TablePerWriter, cli.BoolOf), "table-per-writer", "", "give each client its own table (default the preset's)").NoOptDefVal = "true"
	flags.BoolVar(&s.FindRate, "find-rate", false, "fill the table to --rows, then find the highest rate that it sustains with the response time below --p99 (default false)")
	cli.DurationVar(flags, &s.P99, "p99", experiment.DefaultP99, "`time` within which 99 of 100 operations of --find-rate must finish, counted from when they were due")
	cli.DurationVar(flags, &s.Trial, "trial", experiment.DefaultTrial, "`time` for which --find-rate tries each rate")
	cli.DurationVar(flags, &s.KillEvery, "kill-server-every", 0, "kill -9 the private server whenever this `time` has passed, restart it, and verify what it kept\n(sandbox targets only; default never)")
	flags.StringVar(&s.DiskRecord, "disk", "", "compare disk reads with those of this `record` of bench disk (default none)")
	flags.StringVar(&f.resume, "resume", "", "continue the incomplete run of this record `file`, with the recorded flags")
	f.out.define(flags, newRecord, " of the rate", "", "summaries as JSON instead of text")
	proofVar(flags, s, "don't read the table back at the end")
	flags.BoolVar(&f.printSQL, "print-sql", false, "print every statement that the run would use, and run nothing (default false)")
	return c
}

// complete fills in the defaults that depend on other flags, and refuses a flag that has no use
// without another flag.
func (f *benchFlags) complete(flags *pflag.FlagSet) error {
	s := &f.spec
	if s.Readers > 0 && !flags.Changed("read-after") {
		s.ReadAfter = defaultReadAfter
	}
	if !s.FindRate {
		for _, name := range []string{"p99", "trial"} {
			if flags.Changed(name) {
				return cli.Usagef("rowmill bench insert --find-rate --p99 20ms", "--%s is for --find-rate", name)
			}
		}
		s.P99, s.Trial = 0, 0
	}
	if s.FindRate && !flags.Changed("batch") {
		s.Batch = experiment.SearchBatch
	}
	if s.FindRate && !flags.Changed("writers") {
		if db, err := target.Dry(s.Target()); err == nil && !db.Capabilities().SerialWrites {
			s.Writers = experiment.SearchWriters
		}
	}
	if !flags.Changed("rows") && (s.MaxTime == 0 || s.FindRate) {
		s.Rows = defaultRows
		if !flags.Changed("time") && !s.FindRate {
			s.MaxTime = experiment.Duration(defaultMaxTime)
		}
	}
	fitInterval(flags, s)
	return nil
}

// announcement says how long the runs take, if that is known.
func announcement(s *experiment.Spec) string {
	n := len(s.Layouts) * s.Repeat
	if s.MaxTime == 0 || s.FindRate {
		return ""
	}
	each := ""
	if n > 1 {
		each = fmt.Sprintf(" in %d runs of at most %v", n, s.MaxTime.D())
	}
	return fmt.Sprintf("inserts take at most %v%s, plus the time to prepare and to verify all rows", time.Duration(n)*s.MaxTime.D(), each)
}

// resumeInsert continues the interrupted run or search of a record, and then makes its other runs.
func (a benchmarks) resumeInsert(ctx context.Context, f *benchFlags, given *pflag.FlagSet) error {
	if err := onlyOwn(given, reportFlagNames...); err != nil {
		return err
	}
	r, err := experiment.ResumeInsert(ctx, f.resume)
	if err != nil {
		return err
	}
	f.out.record = f.resume
	if err := f.out.reports.check("rowmill bench insert --resume "+f.resume, f.out.record); err != nil {
		return err
	}
	if r.Left() == 0 {
		fmt.Fprintf(a.Stderr, "--resume %s: all of its runs are complete: nothing to do\n", f.resume)
		return nil
	}
	return a.bench(ctx, measuring{out: f.out, resumes: true, run: r.Run})
}
