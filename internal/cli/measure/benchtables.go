package measure

import (
	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/workload"
)

// defaultOpen is so small that a server has memory for the open tables of all connections.
const defaultOpen = 100

func (a benchmarks) benchTablesCommand() *cobra.Command {
	var tables experiment.TablesSpec
	var out benchOutputs
	var number, partitions, open int64
	spec := experiment.Spec{Workload: experiment.Tables, WorkloadSpecs: experiment.WorkloadSpecs{Tables: &tables}, Layouts: []string{workload.Plain}}
	c := &cobra.Command{
		Use:   "tables",
		Short: "Measure what a server pays for each table, or partition",
		Long: "Measure what a server pays for each table, or for each partition of a table: memory\n" +
			"(PSS of all of its processes), disk, open files, the dictionary, and the time of\n" +
			"CREATE and of a query on information_schema. A line is fitted to each figure over the\n" +
			"number of tables. Then it measures a restart (of a private server), the opening of\n" +
			"all tables on one connection and on a second one, and tables open on several\n" +
			"connections.\n\n" +
			"The tables are empty. With --tables they have 50 different definitions, 3 to 21\n" +
			"columns and 0 to 4 indexes. With --partitions there is one partitioned table, or as\n" +
			"many as --tables says. A private server has a buffer pool of 8 MB, unless the target\n" +
			"says otherwise, so that growth of its memory comes from the tables. Set its caches with\n" +
			"'sandbox:mariadb?set=table_open_cache=400,innodb_file_per_table=0'.\n\n" +
			"On the server it creates the database rowmill_tables, and drops it in the end, also\n" +
			"after Ctrl-C. An existing one is refused, unless --drop-existing is given. The server\n" +
			"must be on this machine.",
		Example: "  rowmill bench tables --target sandbox:mariadb --tables 20k --out tables.jsonl\n" +
			"  rowmill bench tables --target sandbox:postgres --partitions 2000 --png partitions.png",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case c.Flags().Changed("tables"):
			case partitions > 0:
				number = 1
			default:
				number = 10_000
			}
			if !c.Flags().Changed("open") {
				open = min(number, defaultOpen)
				if partitions > 0 {
					open = 1
				}
			}
			tables.Tables, tables.Partitions, tables.Open = int(number), int(partitions), int(open)
			return a.bench(c.Context(), measuring{spec: &spec, out: out})
		},
	}
	flags := c.Flags()
	targetVar(flags, &spec)
	flags.Var(cli.CountOf(&number), "tables", "tables to create, such as 20k (default 10k; 1 with --partitions)")
	flags.Var(cli.CountOf(&partitions), "partitions", "partitions of each table, such as 2000 (default none)")
	cli.IntVar(flags, &tables.Connections, "connections", 50, "open tables on `N` connections at the end")
	flags.Var(cli.CountOf(&open), "open", "tables that each of the --connections opens (default 100; 1 with --partitions)")
	cli.IntVar(flags, &spec.Repeat, "repeat", 1, "measure `N` times, each on new tables")
	cli.DurationVar(flags, &spec.Interval, "interval", defaultInterval, "`time` between two readings of all counters")
	out.define(flags, newRecord, " of the costs", "", "results as JSON instead of text")
	flags.BoolVar(&spec.DropExisting, "drop-existing", false, "drop database rowmill_tables, if it exists, with all of its tables (default false)")
	return c
}
