package measure

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/report/oneline"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// defaultScanRepeats is the least number of repeats with which a single disturbed run can be told
// from the others.
const defaultScanRepeats = 3

func (a benchmarks) benchScanCommand() *cobra.Command {
	var scan experiment.ScanSpec
	var out benchOutputs
	spec := experiment.Spec{Workload: experiment.Scan, WorkloadSpecs: experiment.WorkloadSpecs{Scan: &scan}, Layouts: []string{workload.Plain}}
	c := &cobra.Command{
		Use:   "scan",
		Short: "Measure a sum over 1 to N partitions, on one connection and on several",
		Long: "Measure a sum over 1 to N partitions of a table, GROUP BY the partition, as Shard-Query\n" +
			"did in 2010: on one connection (serial), split by rowmill query (parallel), and for\n" +
			"a client of rowmill serve (serve, on MariaDB and MySQL). The ways take turns; each\n" +
			"reads the table once before it is measured. Every answer is compared with the known\n" +
			"sums of the rows: an answer that differs in a byte fails the run.\n\n" +
			"On the server, it creates the table fact with its partitions, fills it, and leaves it\n" +
			"there. An existing table is refused, unless --drop-existing is given. Give a private\n" +
			"server enough memory for the table, or the disk is measured.",
		Example: "  rowmill bench scan --target 'sandbox:mariadb?memory=1GB' --png scan.png --out scan.jsonl\n" +
			"  rowmill bench scan --rows 100k --partitions 20 --step 5 --repeat 1",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.bench(c.Context(), measuring{spec: &spec, out: out, show: a.runLines(oneline.Scan)})
		},
	}
	flags := c.Flags()
	targetVar(flags, &spec)
	spec.Rows = 4_000_000
	flags.Var(cli.CountOf(&spec.Rows), "rows", "rows of the table, such as 100k or 40M")
	cli.IntVar(flags, &scan.Partitions, "partitions", 100, "partitions of the table, each with one value of the partitioning column")
	cli.IntVar(flags, &scan.Step, "step", 10, "measure at 1 partition and at each multiple of `N`, up to all")
	flags.StringSliceVar(&scan.Ways, "ways", result.ScanWays(), "`list` of the ways to run the query: "+strings.Join(result.ScanWays(), ", "))
	cli.IntVar(flags, &scan.Sessions, "parallel", 0, "connections that read, if the query is split; 0 is one for each core of\nthe server if it is on this machine, else 4")
	cli.IntVar(flags, &spec.Repeat, "repeat", defaultScanRepeats, "measure each way `N` times; the ways take turns")
	cli.DurationVar(flags, &spec.Interval, "interval", defaultInterval, "time between two readings of all counters")
	seedVar(flags, &spec, "`number` that all rows derive from")
	out.define(flags, newRecord, " of response times", "", "results as JSON instead of text")
	dropExistingVar(flags, &spec.DropExisting)
	return c
}
