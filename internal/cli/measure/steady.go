package measure

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
)

// These are the defaults of bench steady. A commit every tenth of a second detects every stall of
// that length, and is a negligible load for a server. With intervals of 10 s, the record of a day
// has about 25 MB.
const (
	steadyFor      = 24 * time.Hour
	steadyRate     = 100
	steadyBatch    = 10
	steadyInterval = 10 * time.Second
	steadyKeep     = 3
	// steadyRetry is longer than the restart of a server that has to recover.
	steadyRetry = 10 * time.Minute
)

func (a benchmarks) benchSteadyCommand() *cobra.Command {
	var out benchOutputs
	var printSQL bool
	s := experiment.Spec{Workload: experiment.Steady, LoadSpec: experiment.LoadSpec{Rate: steadyRate}}
	c := &cobra.Command{
		Use:   "steady",
		Short: "Hold a small constant load for a day and show when it was not held",
		Long: "Insert at a small constant rate for a day, or for --time. The record has the rate and\n" +
			"the latency and, beside them, the CPU time stolen by the host, the pressure on\n" +
			"processor, memory and disk, the processor's frequency, throttling, and the duration of a\n" +
			"fixed computation, executed once a second. The report says for which share of the time\n" +
			"the load was below target, when, and what coincided with it.\n\n" +
			"On the server it creates the preset's table as a rolling table and leaves it there.\n" +
			"Only its newest periods are kept, so that its size stays constant. An existing table\n" +
			"is refused, unless --drop-existing is given. Private servers and temporary files are\n" +
			"removed.\n\n" +
			"A lost connection is retried for --retry-for; that time counts as below target. rowmill\n" +
			"report can read the record at any moment, and can draw the records of two machines in\n" +
			"one chart.",
		Example: "  rowmill bench steady --target mariadb://bench@db1/test --time 24h --rate 100 --p99 50ms\n" +
			"  rowmill bench steady --target sqlite:steady.db --time 10m --html steady.html\n" +
			"  rowmill report steady-db1.jsonl steady-db2.jsonl --html both.html",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			fitInterval(c.Flags(), &s)
			s.CompleteSteady()
			if out.record == "" {
				out.record = experiment.SteadyFile(time.Now())
			}
			return a.bench(c.Context(), measuring{spec: &s, out: out, printSQL: printSQL, note: announcement(&s), show: a.minuteLines})
		},
	}
	flags := c.Flags()
	targetVar(flags, &s)
	timeVar(flags, &s.MaxTime, steadyFor, "hold the load for this `time`")
	flags.Var(cli.RateOf(&s.Rate, ""), "rate", "rows per second to hold")
	cli.DurationVar(flags, &s.P99, "p99", 0, "an interval is below target if the 99th percentile of its inserts' latencies, each counted from when the insert was due, is above this `time` (default no limit)")
	flags.StringVar(&s.Preset, "preset", "classic", "`name` of the table and its rows, see rowmill bench insert --help")
	cli.IntVar(flags, &s.Batch, "batch", steadyBatch, "rows in one transaction, `N`")
	cli.IntVar(flags, &s.Writers, "writers", 1, "clients that share the load, each on a connection of its own; `N`")
	methodVar(flags, &s)
	flags.Var(cli.Optional(&s.Indexes, cli.IntOf), "indexes", "create the first `N` of the preset's secondary indexes (default as many as the preset says)")
	seedVar(flags, &s, "`number` that all rows derive from")
	cli.DurationVar(flags, &s.Interval, "interval", steadyInterval, "`time` between two readings of all figures, less by default in a short run")
	flags.Var(cli.CountOrAuto(&s.PeriodRows), "period-rows", "rows of a period; auto is ten minutes' rows")
	cli.IntVar(flags, &s.KeepPeriods, "keep-periods", steadyKeep, "keep the newest `N` periods, and drop the older ones")
	cli.DurationVar(flags, &s.RetryFor, "retry-for", steadyRetry, "if the server goes away, try to connect for this `time`, then end")
	flags.BoolVar(&s.NoWork, "no-work", false, "don't time a fixed computation once a second; it takes half a percent of a core (default false)")
	out.define(flags, "write the run record to this `file`, replacing it (default steady-HOST-TIME.jsonl)", "", " at the end", "summary as JSON instead of text")
	dropExistingVar(flags, &s.DropExisting)
	flags.BoolVar(&s.NoVerify, "no-verify", false, "don't read the table back at the end (default false)")
	flags.BoolVar(&printSQL, "print-sql", false, "print every statement that the run would use, and run nothing (default false)")
	return c
}

// minuteLines returns a progress for runs of many hours. Without a terminal for a live view, the
// progress prints one line a minute. One line for each interval would be thousands of lines.
func (a benchmarks) minuteLines(ctx context.Context) progress {
	show := a.newProgress(ctx)
	if _, ok := show.(*lines); ok {
		return summedUp{&experiment.SummedUp{Progress: show, Most: time.Minute}, show}
	}
	return show
}

type summedUp struct {
	*experiment.SummedUp
	progress progress
}

func (s summedUp) Close() { s.progress.Close() }
