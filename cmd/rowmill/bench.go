package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// benchFlags are the flags of `rowmill bench insert`.
type benchFlags struct {
	target, preset, method string
	layouts                []string
	repeat                 int
	rows                   int64
	maxTime, interval      time.Duration
	writers, batch         int
	indexes                int
	rate                   float64
	seed                   uint64
	periodRows             int64
	keepPeriods            int
	keepRows               int64
	readers                int
	readAfter              int64
	tablePerWriter         bool
	out                    string
	reports                reportFlags
	dropExisting           bool
	noVerify               bool
	printSQL               bool
	find                   findFlags
	killEvery              time.Duration
	resume                 string

	// Flags whose default comes from the preset are used only when given.
	indexesGiven, tablePerWriterGiven bool
}

const (
	defaultRows = 1000000
	// defaultMaxTime makes a run without flags end within a minute, proof included.
	defaultMaxTime  = 45 * time.Second
	defaultInterval = time.Second
	// defaultReadAfter is the number of rows after which iiBench's queries begin.
	defaultReadAfter = 1000000
	// maxWriters keeps rowmill below the 10,000 threads at which Go's runtime aborts:
	// a writer that waits for its server occupies a thread.
	maxWriters = 5000
)

func (a *app) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench WORKLOAD",
		Short: "Measure a database with a workload",
		Long: "Measure a database with a workload: insert fills a table and shows how the\n" +
			"insert rate goes as it grows; ibench is the modern insert benchmark whole; matrix\n" +
			"inserts by every combination of method, batch, writers and so on, and says which\n" +
			"of them matter; scenario runs a whole experiment by name, beside the figures\n" +
			"published of it; mixed and points measure selects; steady holds a small constant\n" +
			"load for a day and shows when the machine or the server didn't keep up; keep says\n" +
			"what keeping a declared table costs its inserts.",
		Example: "  rowmill bench insert --layout plain,rolling --html run.html\n" +
			"  rowmill bench insert --help",
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	c.AddCommand(a.benchInsertCommand())
	c.AddCommand(a.benchMixedCommand())
	c.AddCommand(a.benchPointsCommand())
	c.AddCommand(a.benchSteadyCommand())
	c.AddCommand(a.benchMatrixCommand())
	c.AddCommand(a.benchScenarioCommand())
	c.AddCommand(a.benchIbenchCommand())
	c.AddCommand(a.benchKeepCommand())
	return c
}

func (a *app) benchInsertCommand() *cobra.Command {
	var f benchFlags
	var presets strings.Builder
	for _, p := range workload.Presets() {
		fmt.Fprintf(&presets, "  %-11s %s\n", p[0], p[1])
	}
	c := &cobra.Command{
		Use:   "insert",
		Short: "Fill a table and show how the insert rate goes as it grows",
		Long: "Fill a table, and show how the insert rate goes as it grows. Several layouts are\n" +
			"measured one after the other: plain is one table, rolling the same table cut\n" +
			"into periods of which two fit into memory. With --repeat they are measured again\n" +
			"and again, in turn and in alternating order, so that what changes on the machine\n" +
			"meanwhile doesn't fall on one of them alone.\n\n" +
			"With --find-rate the filled table then takes one rate after the other, each for\n" +
			"the time of --trial, until the highest is found at which the backlog stays bounded\n" +
			"and 99 of 100 operations keep to --p99. The table goes on growing meanwhile.\n" +
			"--max-time begins no further trial.\n\n" +
			"On the server it creates the preset's table, fills it, reads it back as a proof\n" +
			"and leaves it there; where several runs are made, each one's table is\n" +
			"dropped before the next. A table that exists already is refused, unless\n" +
			"--drop-existing is given. Private servers and temporary files are removed.\n\n" +
			"Ctrl-C ends the run and reports what was measured.\n\n" +
			"Presets:\n" + strings.TrimRight(presets.String(), "\n"),
		Example: "  rowmill bench insert --layout plain,rolling --html run.html\n" +
			"  rowmill bench insert --target 'sandbox:mariadb?memory=64MB' --preset classic \\\n" +
			"      --layout plain,rolling --rows 1.5M --writers 2 --batch 1000 --out run.jsonl",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("rowmill bench insert --help", "unexpected argument %q: everything is a flag", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if f.resume != "" {
				return a.resumeInsert(c.Context(), f, c.Flags())
			}
			f.complete(c.Flags())
			return a.benchInsert(c.Context(), f)
		},
	}
	f.define(c.Flags())
	return c
}

// complete fills in the defaults that depend on which flags were given.
func (f *benchFlags) complete(flags *pflag.FlagSet) {
	f.indexesGiven = flags.Changed("indexes")
	f.tablePerWriterGiven = flags.Changed("table-per-writer")
	if f.readers > 0 && !flags.Changed("read-after") {
		f.readAfter = defaultReadAfter
	}
	f.find.complete(flags)
	if f.find.on && !f.find.batchGiven {
		f.batch = findBatch
	}
	if f.find.on && !f.find.writersGiven && !strings.HasPrefix(f.target, "sqlite:") {
		f.writers = findWriters // SQLite has one writer at a time
	}
	if !flags.Changed("rows") && (f.maxTime == 0 || f.find.on) {
		f.rows = defaultRows
		if !flags.Changed("max-time") && !f.find.on {
			f.maxTime = defaultMaxTime
		}
	}
}

func (f *benchFlags) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.target, "target", target.Default, target.Help+"\n`URL`")
	flags.StringVar(&f.preset, "preset", "classic", "`name` of the table and its rows, see above")
	flags.StringSliceVar(&f.layouts, "layout", []string{workload.Plain}, "layouts to measure, `list` of "+strings.Join(workload.Layouts(), ", "))
	intVar(flags, &f.repeat, "repeat", 1, "measure each layout `N` times, in turn, in one record")
	flags.Var(countValue{n: &f.rows}, "rows", "rows to insert, such as 1500000, 1_500_000 or 1.5M (default 1M, none with --max-time)")
	flags.DurationVar(&f.maxTime, "max-time", 0, "end after this `time`, such as 90s or 2h (default 45s without --rows, otherwise none)")
	intVar(flags, &f.writers, "writers", 1, "clients that insert at once, each on a connection of its own; `N` (with --find-rate 16, but on SQLite 1)")
	intVar(flags, &f.batch, "batch", 0, "rows in one transaction, `N` (default the preset's, with --find-rate 10)")
	flags.StringVar(&f.method, "method", "", "how to insert: `single`, multi, prepared, pipeline (PostgreSQL) or load (default multi; on SQLite prepared)")
	intVar(flags, &f.indexes, "indexes", 0, "secondary indexes, the preset's first `N` (default the preset's)")
	flags.Var(rateValue{v: &f.rate, without: "for as fast as it goes"}, "rate", "rows per second to offer, whether the database keeps up or not (default as fast as it goes)")
	flags.Uint64Var(&f.seed, "seed", 1, "`number` that all rows derive from")
	flags.DurationVar(&f.interval, "interval", defaultInterval, "`time` between two readings of all figures")
	flags.Var(countValue{n: &f.periodRows, auto: true}, "period-rows", "rows of a rolling table's period; auto fits two periods into the database's cache")
	intVar(flags, &f.keepPeriods, "keep-periods", 0, "drop the oldest of more than `N` periods while inserts run (default keep all)")
	flags.Var(countValue{n: &f.keepRows}, "keep-rows", "keep the table at `N` rows: of a plain one delete the oldest rows, of a rolling one drop\nthe oldest periods, while inserts run (default keep all)")
	intVar(flags, &f.readers, "readers", 0, "clients that ask the preset's queries beside the inserts, `N`: classic and ibench have some")
	flags.Var(countValue{n: &f.readAfter}, "read-after", "rows in the table before the first query (default 1M, where --readers asks for some)")
	flags.BoolVar(&f.tablePerWriter, "table-per-writer", false, "give each client a table of its own (default the preset's)")
	f.find.define(flags)
	flags.DurationVar(&f.killEvery, "kill-server-every", 0, "kill -9 the private server every `time`, restart it, and prove what it kept\n(sandbox targets only; default never)")
	flags.StringVar(&f.resume, "resume", "", "go on with the run that this record's `file` holds in part; the flags come from it")
	flags.StringVar(&f.out, "out", "", "write the run record to this `file`, replacing it (default none)")
	flags.StringVar(&f.reports.html, "html", "", "write an HTML page with charts to this `file` (default none)")
	flags.StringVar(&f.reports.png, "png", "", "write a picture of the rate to this `file` (default none)")
	flags.StringVar(&f.reports.md, "md", "", "write Markdown tables to this `file` (default none)")
	flags.BoolVar(&f.reports.json, "json", false, "print the summaries as JSON instead of text (default false)")
	flags.BoolVar(&f.dropExisting, "drop-existing", false, "drop tables of these names that exist, with all their rows (default false)")
	flags.BoolVar(&f.noVerify, "no-verify", false, "don't read the table back at the end (default false)")
	flags.BoolVar(&f.printSQL, "print-sql", false, "print every statement that the run would use, and run nothing (default false)")
}

// check refuses invalid combinations of flags before anything is started.
func (f *benchFlags) check() error {
	const help = "rowmill bench insert --help"
	if len(f.layouts) == 0 {
		return usagef(help, "--layout: name at least one of %s", strings.Join(workload.Layouts(), ", "))
	}
	for i, l := range f.layouts {
		if !slices.Contains(workload.Layouts(), l) {
			return usagef(help, "--layout: unknown layout %q: there are %s", l, strings.Join(workload.Layouts(), ", "))
		}
		if slices.Contains(f.layouts[:i], l) {
			return usagef(help, "--layout: %s is named twice", l)
		}
	}
	if err := target.Check(f.target); err != nil {
		return usagef(hintOf(err), "--target: %w", err)
	}
	switch {
	case f.rows == 0 && f.maxTime == 0:
		return usagef("--rows 1M, or --max-time 60s", "--rows 0: a run needs an end")
	case f.maxTime < 0:
		return usagef(help, "--max-time %v is negative", f.maxTime)
	case f.repeat < 1:
		return usagef(help, "--repeat %d: want at least 1", f.repeat)
	case f.writers < 1:
		return usagef(help, "--writers %d: want at least 1", f.writers)
	case f.writers > maxWriters:
		return usagef(help, "--writers %d: want at most %d", f.writers, maxWriters)
	case f.interval == 0:
		return usagef(help, "--interval 0: want at least 10ms")
	case f.batch < 0:
		return usagef(help, "--batch %d: want at least 1, or 0 for the preset's", f.batch)
	case f.keepPeriods < 0:
		return usagef(help, "--keep-periods %d: want at least 1, or 0 to keep all", f.keepPeriods)
	case f.keepRows > 0 && f.keepPeriods > 0:
		return usagef("--keep-rows alone", "--keep-rows and --keep-periods: the one follows from the other")
	case f.keepRows > 0 && f.rows > 0 && f.rows <= f.keepRows:
		return usagef("--rows "+strconv.FormatInt(3*f.keepRows, 10), "--keep-rows %d: with --rows %d nothing is ever removed", f.keepRows, f.rows)
	case f.readers < 0:
		return usagef(help, "--readers %d: want at least 1, or 0 for none", f.readers)
	case f.readers == 0 && f.readAfter > 0:
		return usagef("--readers 1", "--read-after is for --readers")
	case f.readers > maxWriters:
		return usagef(help, "--readers %d: want at most %d", f.readers, maxWriters)
	case f.keepPeriods > 0 && !slices.Contains(f.layouts, workload.Rolling):
		return usagef("--layout rolling", "--keep-periods: layout plain has no periods to drop")
	case f.periodRows > 0 && !slices.Contains(f.layouts, workload.Rolling):
		return usagef("--layout rolling", "--period-rows: layout plain has no periods")
	}
	if err := f.checkFind(); err != nil {
		return err
	}
	if err := f.checkKills(); err != nil {
		return err
	}
	return f.checkFiles("rowmill bench insert")
}

// checkFiles refuses outputs that can't be written or would overwrite each other.
// command is the start of the command line that the hint suggests; the flags follow
// it.
func (f *benchFlags) checkFiles(command string) error {
	for _, o := range append(f.reports.outputs(), output{flag: "--out", path: f.out}) {
		if o.path == "" || o.path == "-" {
			continue
		}
		if st, err := os.Stat(filepath.Dir(o.path)); err != nil || !st.IsDir() {
			return usagef("mkdir -p "+filepath.Dir(o.path), "%s %s: there is no folder %s", o.flag, o.path, filepath.Dir(o.path))
		}
	}
	if f.out == "-" {
		return usagef("--out /dev/stdout", "--out -: the record can't share standard output with the summary")
	}
	for _, o := range f.reports.outputs() {
		if f.out != "" && o.path != "" && filepath.Clean(f.out) == filepath.Clean(o.path) {
			return usagef("give each its own file", "--out and %s can't both be %s", o.flag, o.path)
		}
	}
	return f.reports.check(command)
}

// insertOptions returns the workload's options for a layout.
func (f *benchFlags) insertOptions(layout string) workload.InsertOptions {
	o := workload.InsertOptions{
		Preset: f.preset, Layout: layout, Seed: f.seed, Rows: f.rows, Writers: f.writers, Batch: f.batch,
		Method: engine.Method(f.method), PeriodRows: f.periodRows, KeepPeriods: f.keepPeriods,
		KeepRows: f.keepRows, Readers: f.readers, ReadAfter: f.readAfter,
	}
	if f.find.on && f.rows > wideRows {
		o.Rows = 0 // unknown; each trial sets it
	}
	if f.indexesGiven {
		o.Indexes = &f.indexes
	}
	if f.tablePerWriterGiven {
		o.TablePerWriter = &f.tablePerWriter
	}
	return o
}

// config returns the configuration with which to run the workload.
func (f *benchFlags) config(o workload.InsertOptions) bench.Config {
	return bench.Config{
		Operation: "insert", Clients: o.Writers, Batch: o.Batch, Rows: f.rows, MaxTime: f.maxTime,
		Rate: f.rate, Interval: f.interval,
	}
}

// benchInsert runs the layouts one after the other, and reports all measurements made,
// even if the command fails.
func (a *app) benchInsert(ctx context.Context, f benchFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.tryOut(); err != nil {
		return err
	}
	if f.printSQL {
		return a.printSQL(f)
	}
	out, err := openRecord(f.out)
	if err != nil {
		return err
	}
	f.announce(a.stderr)
	recs, err := a.runLayouts(ctx, f, out)
	if len(recs) == 0 {
		return errors.Join(err, out.close())
	}
	return errors.Join(err, out.close(), a.writeReports(f.reports, recs))
}

// announce prints how long the runs take, if that is known.
func (f *benchFlags) announce(w io.Writer) {
	n := len(f.layouts) * f.repeat
	if f.maxTime == 0 || f.find.on {
		return
	}
	each := ""
	if n > 1 {
		each = fmt.Sprintf(" in %d runs of at most %v", n, f.maxTime)
	}
	fmt.Fprintf(w, "inserts take at most %v%s; preparing and the proof of all rows come on top\n", time.Duration(n)*f.maxTime, each)
}

// tryOut completes the options of each layout on a database that only renders
// statements, so that invalid options are a usage error, reported at once.
func (f *benchFlags) tryOut() error {
	for _, layout := range f.layouts {
		db, err := target.Dry(f.target)
		if err != nil {
			return usagef(hintOf(err), "--target: %w", err)
		}
		w, err := workload.NewInsert(db, f.insertOptions(layout))
		if err == nil {
			cfg := f.config(w.Options())
			err = cfg.Validate()
		}
		if err == nil && f.readers > 0 && f.rows > 0 && f.readAfter >= f.rows {
			err = engine.Hinted(fmt.Errorf("--readers: queries begin after %s (--read-after), and --rows %d end the run before", plural(f.readAfter, "row"), f.rows),
				"--read-after %d", f.rows/10)
		}
		if err == nil && f.killEvery > 0 {
			err = w.ExpectCrashes(func() <-chan struct{} { return nil })
		}
		if err != nil {
			hint := hintOf(err)
			if hint == "" {
				hint = "rowmill bench insert --help"
			}
			return usagef(hint, "%w", err)
		}
	}
	return nil
}

// runLayouts measures the layouts in order, as often as requested, and returns the
// records of the runs that began. It stops at the first failure.
func (a *app) runLayouts(ctx context.Context, f benchFlags, out *recordFile) (recs []result.Record, err error) {
	show := a.newProgress(ctx)
	defer show.Close()
	for _, p := range f.planned() {
		r := p.insertRun(f, a.args, out, show)
		r.first = len(recs) == 0
		made, err := r.runs(ctx)
		recs = append(recs, made...)
		if err == nil && ctx.Err() != nil {
			err = errInterrupted
		}
		if err != nil {
			return recs, fmt.Errorf("%s: %w", p, err)
		}
	}
	return recs, nil
}

// inTurn returns the order for a round, counted from 0. Every other round is reversed,
// so that no item always runs first or always after the same other item.
func inTurn[T any](what []T, round int) []T {
	what = slices.Clone(what)
	if round%2 == 1 {
		slices.Reverse(what)
	}
	return what
}

// printSQL prints the statements of each layout and executes nothing.
func (a *app) printSQL(f benchFlags) error {
	for _, layout := range f.layouts {
		db, err := target.Dry(f.target)
		if err != nil {
			return err
		}
		w, err := workload.NewInsert(db, f.insertOptions(layout))
		if err != nil {
			return err
		}
		all, err := w.Statements(f.dropExisting, !f.noVerify)
		if err != nil {
			return err
		}
		a.printStatements("layout "+layout, db.Info().Engine, all)
	}
	return nil
}

// printStatements prints statements, each preceded by its purpose.
func (a *app) printStatements(what, engineName string, all []workload.Statement) {
	fmt.Fprintf(a.stdout, "-- %s on %s\n", what, engineName)
	purpose := ""
	for _, s := range all {
		if s.Purpose != purpose {
			fmt.Fprintf(a.stdout, "\n-- %s\n", s.Purpose)
			purpose = s.Purpose
		}
		fmt.Fprintf(a.stdout, "%s;\n", s.SQL)
	}
	fmt.Fprintln(a.stdout)
}
