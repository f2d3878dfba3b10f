package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/workload"
)

// defaultQueryTime is long enough for a median. The published benchmark queries for half an hour,
// which includes checkpoints and vacuums; --time 30m does the same.
const defaultQueryTime = time.Minute

func (a benchmarks) benchIbenchCommand() *cobra.Command {
	var b experiment.IbenchSpec
	var out benchOutputs
	var format intervalFormat
	var printSQL bool
	s := experiment.Spec{Workload: experiment.Ibench, WorkloadSpecs: experiment.WorkloadSpecs{Ibench: &b}, Preset: "ibench", Layouts: []string{workload.Plain}, Rows: defaultRows}
	c := &cobra.Command{
		Use:   "ibench",
		Short: "Run all steps of the modern insert benchmark",
		Long: "Run the modern insert benchmark, step after step on the same tables:\n\n" +
			"  l.i0    insert X rows, 100 per transaction, with the primary key alone\n" +
			"  l.x     build the three secondary indexes\n" +
			"  l.i1    insert Y rows, 50 per transaction, and delete as many of the oldest\n" +
			"  l.i2    the same with Z rows, 5 per transaction\n" +
			"  settle  let the server complete the work that it put off during the writes\n" +
			"  qr100   range queries by the indexes, while each client inserts 100 rows/s\n" +
			"  qp100   queries by the primary key, likewise\n" +
			"  qr500 qp500 qr1000 qp1000   the same at 500 and at 1000 rows/s\n\n" +
			"Each client has its own table. A second client deletes from the table and, in the\n" +
			"query steps, a third one queries it. A query step meets its SLA if at least 95% of\n" +
			"the rate was inserted.\n\n" +
			"On the server it creates the tables purchases, or purchases_1 and so on, reads them\n" +
			"back at the end as a proof, and leaves them there. Existing tables are refused,\n" +
			"unless --drop-existing is given. If --steps lacks l.i0, the run continues with the\n" +
			"existing tables. Private servers and temporary files are removed.\n\n" +
			"docs/benchmarks.md compares the command with the published benchmark.",
		Example: "  rowmill bench ibench --target 'sandbox:mariadb?memory=64MB' --rows 1M --out ibench.jsonl\n" +
			"  rowmill bench ibench --target postgres://me@db1/test --rows 30M --clients 4 \\\n" +
			"      --time 30m --interval-format ibench --out ibench.jsonl --html ibench.html\n" +
			"  rowmill bench ibench --target postgres://me@db1/test --rows 30M --clients 4 --steps qr100,qp100",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			fitInterval(c.Flags(), &s)
			m := measuring{spec: &s, out: out, printSQL: printSQL}
			if format == formatIbench {
				m.show = func(context.Context) progress { return &ibenchLines{lines: lines{w: a.Stderr}} }
			}
			if n := b.QuerySteps(); n > 0 {
				each := b.QueryTime.D()
				m.note = fmt.Sprintf("%s of %v: %v in all, after the load", figure.Plural(n, "query step"), each, time.Duration(n)*each)
			}
			return a.bench(c.Context(), m)
		},
	}
	flags := c.Flags()
	targetVar(flags, &s)
	flags.Var(cli.CountOf(&s.Rows), "rows", "rows of l.i0, of all clients together")
	flags.Var(cli.CountOrAuto(&b.RowsI1), "rows-i1", "rows of l.i1; auto is 4/3 of --rows, as published")
	flags.Var(cli.CountOrAuto(&b.RowsI2), "rows-i2", "rows of l.i2; auto is 1/3 of --rows, as published")
	cli.IntVar(flags, &b.Clients, "clients", 1, "`N` clients that insert, each into a table of its own unless --shared-table")
	flags.BoolVar(&b.SharedTable, "shared-table", false, "let all clients use one table (default one table for each)")
	flags.StringSliceVar(&b.Steps, "steps", workload.IbenchSteps(), "steps to run, `list` in their order; without l.i0, they use the tables that an earlier run has left")
	timeVar(flags, &b.QueryTime, defaultQueryTime, "end each query step after this `time`; 30m as published")
	methodVar(flags, &s)
	seedVar(flags, &s, "`number` that all rows and queries derive from")
	cli.DurationVar(flags, &s.Interval, "interval", defaultInterval, "`time` between two readings of all figures, less by default in a short run")
	cli.ChoiceVar(flags, &format, "interval-format", formatRowmill, intervalFormats, "what to print of each interval: `rowmill` (for people), or ibench (its 17 columns)")
	out.define(flags, newRecord, " of the rate against rows", "", "summary as JSON")
	dropExistingVar(flags, &s.DropExisting)
	flags.BoolVar(&s.NoVerify, "no-verify", false, "don't read the tables back at the end (default false)")
	flags.BoolVar(&printSQL, "print-sql", false, "print every statement that would be used, and exit without changing anything (default false)")
	return c
}
