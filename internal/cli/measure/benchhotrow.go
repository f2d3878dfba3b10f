package measure

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/internal/workload/oltp"
)

func (a benchmarks) benchHotRowCommand() *cobra.Command {
	var hot experiment.HotRowSpec
	var out benchOutputs
	spec := experiment.Spec{Workload: experiment.HotRow, WorkloadSpecs: experiment.WorkloadSpecs{HotRow: &hot}, Layouts: []string{workload.Plain}, LoadSpec: experiment.LoadSpec{RetryFor: experiment.Duration(time.Hour)}}
	c := &cobra.Command{
		Use:   "hotrow",
		Short: "Measure thousands of clients that count in one row, and what helps",
		Long: "Measure thousands of clients that count in one row: each run reads the count, looks\n" +
			"whether the user is counted already, and then inserts the user and adds one to the\n" +
			"count in a transaction. A row's lock is held until the commit has returned, so the\n" +
			"rate has a ceiling. This ceiling is measured with one client, and printed beside the\n" +
			"rate. After a deadlock or a lock timeout, the run begins again. At the end, the count\n" +
			"must equal the number of users and that of acknowledged runs. Ways to count:\n" +
			"  plain         BEGIN, INSERT, UPDATE, COMMIT\n" +
			"  update-first  the UPDATE before the INSERT: the row's lock is held for longer\n" +
			"  one-trip      the four statements in one round trip\n" +
			"  slots         the count is spread over --slots rows; a run takes one that is free,\n" +
			"                or any one if there are more clients than slots\n" +
			"  no-detect     plain; the server doesn't look for deadlocks\n" +
			"  thread-pool   plain; MariaDB's pool of threads\n" +
			"  append        no row is shared: each run appends an event to a rolling table, and\n" +
			"                the live view of its roll-up is the count, read once a second\n" +
			"The last three need a private server. Each way with each number of clients is one\n" +
			"run of the record.\n\n" +
			"It creates the tables fan_of and fan_count, and leaves them there. Existing tables are\n" +
			"refused, unless --drop-existing is given. With target null: (no server), it measures\n" +
			"what the clients cost alone.",
		Example: "  rowmill bench hotrow --target 'sandbox:mariadb?memory=256MB' --clients 100,1000\n" +
			"  rowmill bench hotrow --target 'sandbox:postgres' --clients 200 --ways plain,slots --time 10s",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("runs") && spec.MaxTime > 0 {
				spec.Rows = 0
			}
			return a.bench(c.Context(), measuring{spec: &spec, out: out})
		},
	}
	flags := c.Flags()
	targetVar(flags, &spec)
	spec.Rows = 100_000
	flags.IntSliceVar(&hot.Clients, "clients", []int{1000}, "numbers of clients to measure with, `list`; each client has its own connection")
	flags.Var(cli.CountOf(&spec.Rows), "runs", "runs of all clients together, such as 100k (none with --time)")
	timeVar(flags, &spec.MaxTime, 0, "end after this `time` (default none)")
	flags.StringSliceVar(&hot.Ways, "ways", []string{oltp.HotPlain}, "ways to count, `list`: "+strings.Join(oltp.HotWays(), ", "))
	cli.IntVar(flags, &hot.Slots, "slots", 32, "number of rows, `N`, over which --ways slots spreads the count")
	cli.DurationVar(flags, &hot.Cache, "cache", 0, "let a run use a count that was read at most this long before, such as 5s (default: each run reads it)")
	cli.DurationVar(flags, &spec.KillEvery, "kill-server-every", 0, "kill the private server at this `interval` and restart it (default never)")
	cli.IntVar(flags, &spec.Repeat, "repeat", 1, "measure each way with each number of clients `N` times, in turn")
	cli.DurationVar(flags, &spec.Interval, "interval", defaultInterval, "`time` between two readings of all figures")
	out.define(flags, newRecord, " of rates and latencies", "", "results as JSON instead of text")
	dropExistingVar(flags, &spec.DropExisting)
	return c
}
