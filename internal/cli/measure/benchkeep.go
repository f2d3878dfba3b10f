package measure

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

func (a benchmarks) benchKeepCommand() *cobra.Command {
	var k experiment.KeepSpec
	var url string
	var out benchOutputs
	s := experiment.Spec{Workload: experiment.Keep, WorkloadSpecs: experiment.WorkloadSpecs{Keep: &k}, Layouts: []string{workload.Rolling}, LoadSpec: experiment.LoadSpec{Rate: 1000}}
	c := &cobra.Command{
		Use:   "keep FILE.toml",
		Short: "Measure what the maintenance of a declared table costs its inserts",
		Long: "Insert into a declared table at a fixed rate while it is maintained. Every insert that\n" +
			"took longer than --stall is listed, and beside it what maintenance did at that moment:\n" +
			"create, rollup, seal, rebuild, merge, archive, drop. Response times count from when an\n" +
			"insert was due, so that inserts delayed by a stall are included.\n\n" +
			"Rows have the current time and keys spread over a key space; the other columns are\n" +
			"filled according to their types. The rows stay in the table, as those of an\n" +
			"application do. An insert that meets an error fails the run, even if a retry\n" +
			"succeeds.\n\n" +
			"The table is maintained by rowmill run, in another process or, with --with-run, in this\n" +
			"one. With --speed 60 the clock runs 60 times as fast, so that hours of periods pass in\n" +
			"minutes. The clock is written to the file of --clock; give that file to a\n" +
			"rowmill run in another process as its --clock. With a fast clock, current rows soon\n" +
			"exceed their retention, and periods are created ahead of the real time. --speed is\n" +
			"therefore refused, except on a private server or for a table without rows. Use such a\n" +
			"table for this benchmark only.\n\n" +
			"The table must have been applied. On a private server, or in a temporary file, the\n" +
			"command applies the declaration. With a private server, it also syncs a separate file\n" +
			"of 4 KiB 20 times a second: if a sync takes as long as a stall, the disk caused it.",
		Example: "  rowmill bench keep readings.toml --rate 5000/s --time 2m\n" +
			"  rowmill bench keep readings.toml --target 'sandbox:mariadb?memory=64MB' \\\n" +
			"      --rate 5000/s --time 5m --with-run --speed 120",
		Args: cli.WantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			fitInterval(c.Flags(), &s)
			d, err := declared.Parse(c.Context(), args[0], url)
			if err == nil {
				err = declared.WantTarget(d)
			}
			if err != nil {
				return err
			}
			s.Targets, k.File, k.Declaration = []string{d.Target}, args[0], d.Text
			return a.bench(c.Context(), measuring{spec: &s, out: out, open: a.openSpecTable, write: func(recs []result.Record) error { return a.reportKeep(out.reports, recs) }})
		},
	}
	flags := c.Flags()
	flags.StringVar(&url, "target", "", "database to use instead of the declaration's `URL`")
	replicaVar(flags, &s)
	flags.Var(cli.RateOf(&s.Rate, ""), "rate", "rows per second to insert")
	timeVar(flags, &s.MaxTime, time.Minute, "insert for this `time`")
	cli.IntVar(flags, &s.Writers, "writers", 2, "clients that insert, each on a connection of its own; `N`")
	cli.IntVar(flags, &s.Batch, "batch", 10, "rows in one transaction, `N`")
	methodVar(flags, &s)
	flags.Var(cli.CountOf(&k.Keys), "keys", "size of the key space (default 1M)")
	seedVar(flags, &s, "`number` that all rows derive from")
	flags.BoolVar(&k.WithRun, "with-run", false, "maintain the table in this process (default false: a separate rowmill run does)")
	flags.BoolVar(&k.Baseline, "baseline", false, "make the same inserts first for --time without maintenance, to compare with; needs --with-run (default false)")
	flags.Float64Var(&k.Speed, "speed", 1, "run the clock `N` times as fast")
	flags.StringVar(&k.Clock, "clock", "", "`FILE` to which the clock is written, for a rowmill run with the same --clock (default none)")
	cli.DurationVar(flags, &k.Stall, "stall", 100*time.Millisecond, "list inserts that take longer than this `time`")
	cli.DurationVar(flags, &s.Interval, "interval", defaultInterval, "`time` between two readings of all figures, less by default in a short run")
	out.define(flags, newRecord, " of the rate", "", "figures as JSON instead of text")
	return c
}

// errInsertsFailed is returned if an insert failed, even if a retry then inserted the rows.
var errInsertsFailed = errors.New("inserts failed")

func (a benchmarks) openSpecTable(ctx context.Context, s *experiment.Spec) (*maintain.Table, *target.DB, error) {
	d, err := rolling.ParseDeclarationFor(s.Keep.File, []byte(s.Keep.Declaration), s.Target())
	if err != nil {
		return nil, nil, err
	}
	k, err := (&declared.File{Declaration: d, Note: a.Note}).Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return k.Table, k.Target, nil
}

func (a benchmarks) reportKeep(f reportFlags, recs []result.Record) error {
	rec := &recs[len(recs)-1] // the runs before it had no maintenance
	if rec.End == nil {
		return nil
	}
	figures := report.NewKeepFigures(rec)
	if len(recs) > 1 {
		without := recs[0].Summary()
		figures.Without = &without
	}
	err := a.write(f, func() (*document.Document, error) { return report.New(recs) }, figures.JSON, figures.Text)
	if len(figures.Errors) > 0 && rec.End.Failure == "" {
		err = errors.Join(err, errInsertsFailed)
	}
	return err
}
