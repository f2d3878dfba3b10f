package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
)

// ibenchFlags are the flags of `rowmill bench ibench`.
type ibenchFlags struct {
	target, method       string
	rows, rowsI1, rowsI2 int64
	clients              int
	sharedTable          bool
	steps                []string
	queryTime, interval  time.Duration
	format               intervalFormat
	seed                 uint64
	out                  string
	reports              reportFlags
	dropExisting         bool
	noVerify             bool
	printSQL             bool
}

// defaultQueryTime is long enough for a median. The half hour of the publication,
// which includes checkpoints and vacuums, is available as --query-time 30m.
const defaultQueryTime = time.Minute

func (a *app) benchIbenchCommand() *cobra.Command {
	var f ibenchFlags
	c := &cobra.Command{
		Use:   "ibench",
		Short: "Run the modern insert benchmark, all its steps",
		Long: "Run the modern insert benchmark, step after step on the same tables:\n\n" +
			"  l.i0    insert X rows, 100 to a transaction, with the primary key alone\n" +
			"  l.x     build the three secondary indexes\n" +
			"  l.i1    insert Y rows, 50 to a transaction, and delete as many of the oldest\n" +
			"  l.i2    the same with Z rows, 5 to a transaction\n" +
			"  settle  have the server finish what writes have left it to do\n" +
			"  qr100   range queries by the indexes, while each client inserts 100 rows/s\n" +
			"  qp100   queries by the primary key, likewise\n" +
			"  qr500 qp500 qr1000 qp1000   the same at 500 and at 1000 rows/s\n\n" +
			"Each client has a table of its own and, beside it, one that deletes and, in the\n" +
			"query steps, one that asks. A query step passes (its SLA) when at least 95% of\n" +
			"the rate was inserted.\n\n" +
			"On the server it creates the tables purchases, or purchases_1 and so on, reads\n" +
			"them back at the end as a proof, and leaves them there. Tables that exist already\n" +
			"are refused, unless --drop-existing is given; with --steps from a later step on\n" +
			"they are gone on with. Private servers and temporary files are removed.\n\n" +
			"Ctrl-C ends the step and reports what was measured. docs/ibench.md says how this\n" +
			"relates to the published benchmark.",
		Example: "  rowmill bench ibench --target 'sandbox:mariadb?memory=64MB' --rows 1M --out ibench.jsonl\n" +
			"  rowmill bench ibench --target postgres://me@db1/test --rows 30M --clients 4 \\\n" +
			"      --query-time 30m --interval-format ibench --out ibench.jsonl --html ibench.html\n" +
			"  rowmill bench ibench --target postgres://me@db1/test --rows 30M --clients 4 --steps qr100,qp100",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("rowmill bench ibench --help", "unexpected argument %q: everything is a flag", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return a.benchIbench(c.Context(), f) },
	}
	f.define(c.Flags())
	return c
}

func (f *ibenchFlags) define(flags *pflag.FlagSet) {
	f.rows, f.format = defaultRows, formatRowmill
	flags.SortFlags = false
	flags.StringVar(&f.target, "target", target.Default, target.Help+"\n`URL`")
	flags.Var(countValue{n: &f.rows}, "rows", "rows of l.i0, of all clients together")
	flags.Var(countValue{n: &f.rowsI1, auto: true}, "rows-i1", "rows of l.i1; auto is 4/3 of --rows, as published")
	flags.Var(countValue{n: &f.rowsI2, auto: true}, "rows-i2", "rows of l.i2; auto is 1/3 of --rows, as published")
	intVar(flags, &f.clients, "clients", 1, "clients that insert; `N` tables, one for each")
	flags.BoolVar(&f.sharedTable, "shared-table", false, "have all clients share one table (default one for each)")
	flags.StringSliceVar(&f.steps, "steps", workload.IbenchSteps(), "steps to run, `list` in their order; without l.i0, on the tables that an earlier run has left")
	flags.DurationVar(&f.queryTime, "query-time", defaultQueryTime, "`time` of each query step; 30m as published")
	flags.StringVar(&f.method, "method", "", "how to insert: `single`, multi, prepared, pipeline (PostgreSQL) or load (default multi; on SQLite prepared)")
	flags.Uint64Var(&f.seed, "seed", 1, "`number` that all rows and queries derive from")
	flags.DurationVar(&f.interval, "interval", defaultInterval, "`time` between two readings of all figures")
	flags.Var(&f.format, "interval-format", "what to print of each interval: `rowmill` (for people), or ibench (its 17 columns)")
	flags.StringVar(&f.out, "out", "", "write the run record to this `file`, replacing it (default none)")
	flags.StringVar(&f.reports.html, "html", "", "write an HTML page with charts to this `file` (default none)")
	flags.StringVar(&f.reports.png, "png", "", "write a picture of the rate against rows to this `file` (default none)")
	flags.StringVar(&f.reports.md, "md", "", "write Markdown tables to this `file` (default none)")
	flags.BoolVar(&f.reports.json, "json", false, "print the summary as JSON (default false)")
	flags.BoolVar(&f.dropExisting, "drop-existing", false, "drop tables of an earlier run first, with all their rows (default false)")
	flags.BoolVar(&f.noVerify, "no-verify", false, "don't read the tables back at the end (default false)")
	flags.BoolVar(&f.printSQL, "print-sql", false, "print every statement that would be used and exit, touching nothing (default false)")
}

// check refuses invalid flags before anything is started.
func (f *ibenchFlags) check() error {
	const help = "rowmill bench ibench --help"
	if err := target.Check(f.target); err != nil {
		return usagef(hintOf(err), "--target: %w", err)
	}
	switch {
	case f.clients < 1:
		return usagef(help, "--clients %d: want at least 1", f.clients)
	case 3*f.clients > maxWriters:
		return usagef(help, "--clients %d: want at most %d, as each has two more beside it", f.clients, maxWriters/3)
	case f.interval == 0:
		return usagef(help, "--interval 0: want at least 10ms")
	case len(f.steps) == 0:
		return usagef(help, "--steps: none is named")
	case f.out == "-":
		return usagef("--out /dev/stdout", "--out -: the record can't share standard output with the summary")
	case f.dropExisting && !slices.Contains(f.steps, "l.i0"):
		return usagef("--steps with l.i0, or without --drop-existing", "--drop-existing: without l.i0 the steps go on with the tables that are there")
	}
	for _, o := range append(f.reports.outputs(), output{flag: "--out", path: f.out}) {
		if o.path == "" || o.path == "-" {
			continue
		}
		if st, err := os.Stat(filepath.Dir(o.path)); err != nil || !st.IsDir() {
			return usagef("mkdir -p "+filepath.Dir(o.path), "%s %s: there is no folder %s", o.flag, o.path, filepath.Dir(o.path))
		}
		if o.flag != "--out" && f.out != "" && filepath.Clean(f.out) == filepath.Clean(o.path) {
			return usagef("give each its own file", "--out and %s can't both be %s", o.flag, o.path)
		}
	}
	return f.reports.check("rowmill bench ibench")
}

// options returns the workload's options.
func (f *ibenchFlags) options() workload.IbenchOptions {
	return workload.IbenchOptions{
		Seed: f.seed, Rows: f.rows, RowsI1: f.rowsI1, RowsI2: f.rowsI2, Clients: f.clients, SharedTable: f.sharedTable,
		Method: engine.Method(f.method), QueryTime: f.queryTime, Steps: f.steps,
	}
}

// dry completes the options on a database that only renders statements, so that
// invalid options are a usage error, reported at once.
func (f *ibenchFlags) dry() (*workload.Ibench, error) {
	usage := func(err error, what string) error {
		hint := hintOf(err)
		if hint == "" {
			hint = "rowmill bench ibench --help"
		}
		return usagef(hint, what+"%w", err)
	}
	db, err := target.Dry(f.target)
	if err != nil {
		return nil, usage(err, "--target: ")
	}
	w, err := workload.NewIbench(db, f.options())
	if err != nil {
		return nil, usage(err, "")
	}
	// The configuration is already known except for the interval.
	if err := (&bench.Config{Clients: 1, Batch: 1, Rows: 1, Interval: f.interval}).Validate(); err != nil {
		return nil, usage(err, "")
	}
	return w, nil
}

// queriesOf counts the steps whose duration is --query-time.
func queriesOf(steps []string) int {
	n := 0
	for _, step := range steps {
		if strings.HasPrefix(step, "q") {
			n++
		}
	}
	return n
}

// benchIbench runs the steps. It reports all measurements made, even if a step fails.
func (a *app) benchIbench(ctx context.Context, f ibenchFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	dry, err := f.dry()
	if err != nil {
		return err
	}
	if f.printSQL {
		return a.printIbenchSQL(dry, f)
	}
	out, err := openRecord(f.out)
	if err != nil {
		return err
	}
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	show := a.newProgress(interrupt)
	if f.format == formatIbench {
		show = &ibenchLines{lines: lines{w: a.stderr}}
	}
	if n := queriesOf(f.steps); n > 0 {
		fmt.Fprintf(a.stderr, "%s of %v %s %v, after the load\n", plural(n, "query step"), f.queryTime, map[bool]string{true: "takes", false: "take"}[n == 1], time.Duration(n)*f.queryTime)
	}
	r := &ibenchRun{f: f, args: a.args, out: out, show: show}
	err = r.run(ctx)
	show.Close()
	if len(r.recs) == 0 {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errInterruptedEarly, err)
		}
		return errors.Join(err, out.close())
	}
	return errors.Join(err, out.close(), a.writeReports(f.reports, r.recs))
}

// printIbenchSQL prints the statements of the steps and executes nothing.
func (a *app) printIbenchSQL(w *workload.Ibench, f ibenchFlags) error {
	all, err := w.Statements(f.dropExisting, !f.noVerify)
	if err != nil {
		return err
	}
	a.printStatements("steps "+strings.Join(f.steps, ", "), f.target, all)
	return nil
}
