package measure

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/report/oneline"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
)

// cellFlags are the flags that `bench mixed` and `bench points` have in common.
type cellFlags struct {
	spec  experiment.Spec
	cells experiment.CellsSpec
	time  experiment.Duration // the time for which a cell is measured
	out   benchOutputs
}

const (
	// defaultSpeedRows is so small that the table fits into any usual cache: the matrix then shows the
	// cost of operations without the disk.
	defaultSpeedRows = 100_000
	defaultSpeedTime = 10 * time.Second
	// defaultSetRepeats is how many times each of two compared settings is measured. A confidence
	// interval from five pairs is only a third wider than an interval from very many pairs.
	defaultSetRepeats = 5
)

func newCellFlags(verb string) *cellFlags {
	f := &cellFlags{}
	f.spec = experiment.Spec{Workload: verb, WorkloadSpecs: experiment.WorkloadSpecs{Cells: &f.cells}, Preset: "sbtest", Layouts: []string{workload.Plain}, Rows: defaultSpeedRows, LoadSpec: experiment.LoadSpec{Batch: 1}}
	return f
}

// define defines the flags of all cells, which come before the verb's own flags.
func (f *cellFlags) define(flags *pflag.FlagSet) {
	flags.IntSliceVar(&f.cells.Clients, "clients", []int{1, 2, 4, 8, 16}, "numbers of concurrent clients to measure with, `list`")
	flags.Var(cli.CountOf(&f.spec.Rows), "rows", "rows that the table is filled with first, such as 100k or 10M")
	timeVar(flags, &f.time, defaultSpeedTime, "measure each cell for this `time`")
	warmupVar(flags, &f.spec, "each cell")
}

func (f *cellFlags) defineOutputs(flags *pflag.FlagSet) {
	seedVar(flags, &f.spec, "`number` that all rows and all selects derive from")
	f.out.define(flags, "write the run records, one for each cell, to this `file`, replacing it (default none)", " of rates and latencies", "", "matrix as JSON instead of text")
	dropExistingVar(flags, &f.spec.DropExisting)
	flags.BoolVar(&f.spec.NoVerify, "no-verify", false, "don't read the table back after cells that insert (default false)")
}

func (a benchmarks) benchMixedCommand() *cobra.Command {
	f := newCellFlags(experiment.Mixed)
	c := &cobra.Command{
		Use:   "mixed",
		Short: "Measure inserts and selects with 1 to N clients on several databases side by side",
		Long: "Measure inserts and selects at 1 to N concurrent clients on several databases, and\n" +
			"show a matrix of rates and latencies: which database is fastest at which operation,\n" +
			"and the number of clients beyond which the rate no longer rises. Each operation with\n" +
			"each number of clients is a cell; the databases take turns, cell by cell. Operations:\n" +
			"  insert        transactions of --batch rows\n" +
			"  select-pk     one row by its primary key\n" +
			"  select-index  the rows of one value of the secondary index: one row or two\n" +
			"  mixed         inserts, while --mix percent of the clients execute select-pk\n" +
			"Selects look for existing rows. A select that finds too few or too many rows fails\n" +
			"the run.\n\n" +
			"On each server it creates the preset's table and fills it. Once the table has grown\n" +
			"by a tenth, it is created and filled again. An existing table is refused, unless\n" +
			"--drop-existing is given. Private servers and temporary files are removed. Servers\n" +
			"that are busy while another server is measured are reported.",
		Example: "  rowmill bench mixed --target 'sandbox:mariadb?memory=256MB' \\\n" +
			"      --target 'sandbox:postgres?memory=256MB' --png speed.png --out speed.jsonl\n" +
			"  rowmill bench mixed --target sqlite: --ops select-pk --clients 1,2 --time 5s",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.benchCells(c.Context(), f) },
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.spec.Targets, "target", []string{target.Default}, target.Help+";\nto compare databases, give it several times: they are measured in turn")
	replicaVar(flags, &f.spec)
	flags.StringVar(&f.spec.Preset, "preset", f.spec.Preset, "`name` of the table: "+strings.Join(workload.MixedPresets(), ", "))
	flags.StringSliceVar(&f.cells.Ops, "ops", workload.MixedOperations(), "operations to measure, `list`")
	f.define(flags)
	cli.IntVar(flags, &f.spec.Batch, "batch", 1, "rows in one inserting transaction, `N`")
	flags.Float64Var(&f.cells.Mix, "mix", 50, "`percent` of the clients that select in operation mixed")
	cli.IntVar(flags, &f.spec.Repeat, "repeat", 1, "measure the matrix `N` times, and report confidence intervals of the ratios")
	f.defineOutputs(flags)
	return c
}

func (a benchmarks) benchPointsCommand() *cobra.Command {
	f := newCellFlags(experiment.Points)
	c := &cobra.Command{
		Use:   "points",
		Short: "Measure selects of N random values of an index, and compare two server settings",
		Long: "Measure selects of random values of an indexed column, WHERE k IN (...), at several\n" +
			"numbers of concurrent clients. All clients use the same index at once, which shows what\n" +
			"they contend for. The rows of every select are counted.\n\n" +
			"With --set, two settings of the server are compared: both are measured in turn,\n" +
			"repeatedly, and the ratio is reported with its 95% confidence interval. Each value\n" +
			"gets a private server (sandbox:) that is started with it; on SQLite a setting is an\n" +
			"option of the target, such as cache=1MB, and each value gets a temporary file.\n\n" +
			"On the server it creates the table sbtest1 and fills it. An existing table is\n" +
			"refused, unless --drop-existing is given.",
		Example: "  rowmill bench points --target 'sandbox:mariadb?memory=256MB' \\\n" +
			"      --set innodb_adaptive_hash_index=OFF,innodb_adaptive_hash_index=ON\n" +
			"  rowmill bench points --set cache=100KB,cache=64MB --time 5s",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("repeat") && len(f.cells.Set) > 0 {
				f.spec.Repeat = defaultSetRepeats
			}
			return a.benchCells(c.Context(), f)
		},
	}
	flags := c.Flags()
	f.cells.Ops = []string{workload.OpPoints}
	targetVar(flags, &f.spec)
	cli.IntVar(flags, &f.cells.Points, "points", 10, "values in one select, `N`")
	flags.StringArrayVar(&f.cells.Set, "set", nil, "compare the server with the one setting and with the other, `NAME=VALUE,NAME=VALUE` (default none)")
	f.define(flags)
	cli.IntVar(flags, &f.spec.Repeat, "repeat", 1, fmt.Sprintf("measure each cell `N` times, in turn; with --set %d by default", defaultSetRepeats))
	f.defineOutputs(flags)
	return c
}

func (a benchmarks) benchCells(ctx context.Context, f *cellFlags) error {
	f.cells.Seconds = f.time.D().Seconds()
	return a.bench(ctx, measuring{spec: &f.spec, out: f.out, show: a.runLines(oneline.Cell)})
}
