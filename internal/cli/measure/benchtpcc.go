package measure

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/workload"
)

// tpccRetry is longer than a server's restart.
const tpccRetry = time.Minute

func (a benchmarks) benchTPCCCommand() *cobra.Command {
	var tpcc experiment.TPCCSpec
	var out benchOutputs
	spec := experiment.Spec{Workload: experiment.TPCC, WorkloadSpecs: experiment.WorkloadSpecs{TPCC: &tpcc}, Layouts: []string{workload.Plain}, LoadSpec: experiment.LoadSpec{RetryFor: experiment.Duration(tpccRetry)}}
	c := &cobra.Command{
		Use:   "tpcc",
		Short: "Measure TPC-C's five transactions, and prove that none is lost",
		Long: "Measure TPC-C's transactions: new orders, payments, order status, deliveries and stock\n" +
			"levels, 45, 43, 4, 4 and 4 of a hundred, by terminals that each belong to a warehouse.\n" +
			"It reports new orders per minute, response times by transaction, and why transactions\n" +
			"were begun again. The result is TPC-C-like and not audited: it is no result of TPC-C.\n\n" +
			"After the run the tables are examined: TPC-C's consistency conditions 1 to 4 (with\n" +
			"--deep also 5 to 12), whether the stock agrees with the order lines, whether each\n" +
			"acknowledged order, payment and delivery is there once, and whether the transactions\n" +
			"are mixed as TPC-C's audit asks. A condition that doesn't hold fails the run.\n\n" +
			"On the server it creates TPC-C's nine tables, loads them (100 MB a warehouse), and\n" +
			"leaves them there. Existing tables are refused, unless --drop-existing is given.",
		Example: "  rowmill bench tpcc --target 'sandbox:mariadb?memory=512MB' --warehouses 10 --terminals 16 --out tpcc.jsonl\n" +
			"  rowmill bench tpcc --target 'sandbox:postgres?memory=512MB' --deep --kill-server-every 20s",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			fitInterval(c.Flags(), &spec)
			return a.bench(c.Context(), measuring{spec: &spec, out: out})
		},
	}
	flags := c.Flags()
	targetVar(flags, &spec)
	cli.IntVar(flags, &tpcc.Warehouses, "warehouses", 1, "warehouses, `N`")
	cli.IntVar(flags, &tpcc.Terminals, "terminals", 10, "terminals, `N`; each has its own connection, and always uses one warehouse")
	timeVar(flags, &spec.MaxTime, time.Minute, "measure for this `time`")
	warmupVar(flags, &spec, "the transactions")
	flags.BoolVar(&tpcc.Keying, "keying", false, "wait between transactions, as TPC-C's users type and think: a warehouse with its\n10 terminals then makes at most 12.86 new orders per minute (default false)")
	flags.BoolVar(&tpcc.Deep, "deep", false, "examine all consistency conditions, after the load and after the run (default false)")
	cli.DurationVar(flags, &spec.KillEvery, "kill-server-every", 0, "kill -9 the private server whenever this `time` has passed, and restart it\n(sandbox targets only; default never)")
	cli.DurationVar(flags, &spec.Interval, "interval", defaultInterval, "`time` between two readings of all figures")
	seedVar(flags, &spec, "`number` that all rows and all transactions derive from")
	out.define(flags, newRecord, " of rates and response times", "", "results as JSON instead of text")
	dropExistingVar(flags, &spec.DropExisting)
	flags.Float64Var(&tpcc.Scale, "scale", 0, "load this share of a warehouse's rows, for tests (default all)")
	_ = flags.MarkHidden("scale") // no error: the flag exists
	return c
}
