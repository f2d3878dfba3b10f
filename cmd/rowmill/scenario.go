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
	"github.com/rowmill/rowmill/internal/scenario"
	"github.com/rowmill/rowmill/result"
)

// scenarioFlags are the flags of `rowmill bench scenario`.
type scenarioFlags struct {
	list, print  bool
	scale        float64
	target       string
	maxTime      time.Duration
	maxTimeGiven bool
	interval     time.Duration
	seed         uint64
	out, resume  string
	reports      reportFlags
	dropExisting bool
	noVerify     bool
}

func (a *app) benchScenarioCommand() *cobra.Command {
	var f scenarioFlags
	c := &cobra.Command{
		Use:   "scenario NAME|FILE.toml",
		Short: "Run a whole experiment by name, beside the figures published of it",
		Long: "Run a whole experiment by name, and put its figures beside those that were\n" +
			"published of it. A scenario is a declaration: which runs are made, with how much\n" +
			"memory for how many rows, what was published, and which shape is to be seen.\n" +
			"Those built in are " + strings.Join(scenario.Names(), ", ") + ";\n" +
			"--list explains them. A file of your own begins well as a copy of one: --print.\n\n" +
			"First a sample measures bytes per row, so that memory is the share of the final\n" +
			"size that the scenario says. Then the runs are made one after the other, each on\n" +
			"a server of its own. With a --target that isn't private, its memory stays as it\n" +
			"is, and tables that exist already are refused, unless --drop-existing is given.\n\n" +
			"Ctrl-C ends the run and reports what was measured; --resume goes on from there.",
		Example: "  rowmill bench scenario --list\n" +
			"  rowmill bench scenario ec2-2012 --out ec2.jsonl --html ec2.html\n" +
			"  rowmill bench scenario daily-2009 --scale 0.02 --target sqlite:",
		Args: func(_ *cobra.Command, args []string) error { return f.checkArgs(args) },
		RunE: func(c *cobra.Command, args []string) error {
			f.maxTimeGiven = c.Flags().Changed("max-time")
			switch {
			case f.list:
				return a.listScenarios(c.Context())
			case f.resume != "":
				return a.resumeScenario(c.Context(), c.Flags(), f)
			}
			d, err := scenario.Load(c.Context(), args[0])
			if err != nil {
				return scenarioError(err)
			}
			if f.print {
				_, err := fmt.Fprint(a.stdout, d.Text)
				return err
			}
			return a.runScenario(c.Context(), d, f, nil)
		},
	}
	f.define(c.Flags())
	return c
}

func (f *scenarioFlags) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.BoolVar(&f.list, "list", false, "explain the scenarios that are built in, and run none (default false)")
	flags.BoolVar(&f.print, "print", false, "print the scenario's declaration, and run nothing (default false)")
	flags.Var(scaleValue{&f.scale}, "scale", "multiply the rows, and with them memory and periods, by `S` (default 1, for 2 cores and some minutes)")
	flags.StringVar(&f.target, "target", "", "database to use, as `URL` (default the scenario's); memory and durability are added\nto a sandbox or SQLite that doesn't have them")
	flags.DurationVar(&f.maxTime, "max-time", 0, "end each run after this `time` (default the scenario's), 0 for never")
	flags.DurationVar(&f.interval, "interval", defaultInterval, "`time` between two readings of all figures")
	flags.Uint64Var(&f.seed, "seed", 1, "`number` that all rows derive from")
	flags.StringVar(&f.out, "out", "", "write the run record to this `file`, replacing it (default none)")
	flags.StringVar(&f.resume, "resume", "", "make the runs that this record `file` lacks, and add them to it (default none)")
	flags.StringVar(&f.reports.html, "html", "", "write an HTML page with charts to this `file` (default none)")
	flags.StringVar(&f.reports.png, "png", "", "write a picture of the rate to this `file` (default none)")
	flags.StringVar(&f.reports.md, "md", "", "write Markdown tables to this `file` (default none)")
	flags.BoolVar(&f.reports.json, "json", false, "print the summaries and the comparison as JSON instead of text (default false)")
	flags.BoolVar(&f.reports.log, "log", false, "draw the picture's rate on a logarithmic axis (default false)")
	flags.BoolVar(&f.dropExisting, "drop-existing", false, "drop tables of these names that exist, with all their rows (default false)")
	flags.BoolVar(&f.noVerify, "no-verify", false, "don't read the tables back at the end of each run (default false)")
	f.scale = 1
}

// A scaleValue is a flag that holds a positive factor.
type scaleValue struct{ v *float64 }

func (s scaleValue) Set(text string) error {
	v, err := parseCount(text)
	if err == nil && v == 0 {
		err = errors.New("0 leaves no rows")
	}
	if err == nil {
		*s.v = v
	}
	return err
}

func (s scaleValue) String() string { return "" }
func (s scaleValue) Type() string   { return "S" }

const scenarioHelp = "rowmill bench scenario --help"

func (f *scenarioFlags) checkArgs(args []string) error {
	switch {
	case f.list && len(args) > 0:
		return usagef("rowmill bench scenario "+args[0]+" --print", "--list takes no scenario")
	case f.resume != "" && len(args) > 0:
		return usagef("rowmill bench scenario --resume "+f.resume, "--resume takes no scenario: the record says which it is")
	case !f.list && f.resume == "" && len(args) == 0:
		return usagef("rowmill bench scenario --list", "which scenario? There are %s, or a file of your own", strings.Join(scenario.Names(), ", "))
	case len(args) > 1:
		return usagef(scenarioHelp, "unexpected argument %q: scenarios are run one at a time", args[1])
	}
	return nil
}

// check refuses invalid flags.
func (f *scenarioFlags) check() error {
	switch {
	case f.maxTime < 0:
		return usagef(scenarioHelp, "--max-time %v is negative", f.maxTime)
	case f.interval == 0:
		return usagef(scenarioHelp, "--interval 0: want at least 10ms")
	case f.out != "" && f.resume != "":
		return usagef("rowmill bench scenario --resume "+f.resume, "--out and --resume: a resumed record goes on in its own file")
	case f.out == "-":
		return usagef("--out /dev/stdout", "--out -: the record can't share standard output with the summary")
	}
	for _, o := range append(f.reports.outputs(), output{flag: "--out", path: f.out}) {
		if o.path == "" || o.path == "-" {
			continue
		}
		if st, err := os.Stat(filepath.Dir(o.path)); err != nil || !st.IsDir() {
			return usagef("mkdir -p "+filepath.Dir(o.path), "%s %s: there is no folder %s", o.flag, o.path, filepath.Dir(o.path))
		}
		if record := f.out + f.resume; o.flag != "--out" && record != "" && filepath.Clean(record) == filepath.Clean(o.path) {
			return usagef("give each its own file", "the record and %s can't both be %s", o.flag, o.path)
		}
	}
	return f.reports.check("rowmill bench scenario")
}

// scenarioError turns an error in a declaration into a usage error.
func scenarioError(err error) error {
	var bad *scenario.Error
	if errors.As(err, &bad) {
		return usagef(bad.Hint, "%w", err)
	}
	var unknown *scenario.UnknownError
	if errors.As(err, &unknown) {
		return usagef("rowmill bench scenario --list", "%w", err)
	}
	return err
}

// listScenarios describes the built-in scenarios.
func (a *app) listScenarios(ctx context.Context) error {
	for i, name := range scenario.Names() {
		d, err := scenario.Load(ctx, name)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		fmt.Fprintf(a.stdout, "%s: %s\n\n", d.Name, d.Title)
		for line := range strings.SplitSeq(d.Story, "\n") {
			fmt.Fprintln(a.stdout, strings.TrimRight("  "+line, " "))
		}
		fmt.Fprintln(a.stdout)
		width := 0
		for _, r := range d.Runs {
			width = max(width, len(r.Name))
		}
		for _, r := range d.Runs {
			fmt.Fprintf(a.stdout, "  %-*s  %s\n", width, r.Name, r.Title)
		}
		fmt.Fprintf(a.stdout, "\n  At scale 1 %s a run on %s, about %s on 2 cores.\n", plural(d.Rows, "row"), d.Target, brief(d.Takes))
	}
	return nil
}

// brief formats a duration without units of zero.
func brief(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// runScenario executes the runs that are not in done, and reports all.
func (a *app) runScenario(ctx context.Context, d *scenario.Declaration, f scenarioFlags, done []result.Record) error {
	if err := f.check(); err != nil {
		return err
	}
	e, err := newExperiment(d, f)
	if err != nil {
		return err
	}
	var todo []experimentRun
	for _, r := range e.runs {
		if !slices.ContainsFunc(done, func(rec result.Record) bool { return rec.Run.Scenario.Run == r.name }) {
			todo = append(todo, r)
		}
	}
	var out *recordFile
	if f.resume != "" {
		out, err = appendRecord(f.resume)
	} else {
		out, err = openRecord(f.out)
	}
	if err != nil {
		return err
	}
	recs, err := a.runExperiment(ctx, e, todo, out)
	recs = inOrder(d, slices.Concat(done, recs))
	if len(recs) == 0 {
		return errors.Join(err, out.close())
	}
	return errors.Join(err, out.close(), a.writeReports(f.reports, recs))
}

// inOrder sorts records into the order of their scenario's runs.
func inOrder(d *scenario.Declaration, recs []result.Record) []result.Record {
	place := func(rec result.Record) int {
		return slices.IndexFunc(d.Runs, func(r scenario.Run) bool { return r.Name == rec.Run.Scenario.Run })
	}
	slices.SortStableFunc(recs, func(x, y result.Record) int { return place(x) - place(y) })
	return recs
}

// runExperiment determines the memory and executes the runs in order. It stops at the
// first failure.
func (a *app) runExperiment(ctx context.Context, e *scenarioPlan, todo []experimentRun, out *recordFile) (recs []result.Record, err error) {
	show := a.newProgress(ctx)
	defer show.Close()
	for _, line := range e.plan(todo) {
		show.Note(line)
	}
	if err := e.size(ctx, show.Note); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errInterruptedEarly, err)
		}
		return nil, err
	}
	seen := map[string]bool{}
	for i, r := range todo {
		r.f.target = e.target // including its memory
		show.Note(fmt.Sprintf("run %d of %d: %s", i+1, len(todo), r.name))
		one := &insertRun{f: r.f, layout: r.f.layouts[0], args: a.args, first: !seen[r.f.preset], scenario: e.record(r.name),
			measurement: measurement{out: out, show: show, interval: r.f.interval}}
		seen[r.f.preset] = true
		rec, err := one.run(ctx)
		if rec != nil {
			recs = append(recs, *rec)
		}
		if err == nil && ctx.Err() != nil {
			err = errInterrupted
		}
		if err != nil {
			return recs, fmt.Errorf("run %s: %w", r.name, err)
		}
	}
	return recs, nil
}

// resumeScenario continues the experiment of a record.
func (a *app) resumeScenario(ctx context.Context, flags *pflag.FlagSet, f scenarioFlags) error {
	recs, err := readRuns(ctx, f.resume)
	if err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	first := recs[0].Run
	if first.Scenario == nil {
		return usagef("rowmill bench scenario ec2-2012 --out "+f.resume, "--resume %s: its runs are no scenario's", f.resume)
	}
	d, err := scenario.Parse(f.resume, []byte(first.Scenario.Declaration))
	if err != nil {
		return fmt.Errorf("--resume %s: the scenario in it: %w", f.resume, err)
	}
	// The flags of the recorded command are used again.
	again := scenarioFlags{}
	before := pflag.NewFlagSet("", pflag.ContinueOnError)
	again.define(before)
	if len(first.Command) < 2 || before.Parse(first.Command[2:]) != nil {
		return fmt.Errorf("--resume %s: its command, %q, can't be understood", f.resume, strings.Join(first.Command, " "))
	}
	for _, name := range []string{"scale", "target", "max-time", "interval", "seed", "no-verify"} {
		if flags.Changed(name) {
			return usagef("without --"+name, "--resume: --%s is the one that the record was made with", name)
		}
	}
	f.scale, f.target, f.interval, f.seed, f.noVerify = first.Scenario.Scale, again.target, again.interval, again.seed, again.noVerify
	f.maxTime, f.maxTimeGiven = again.maxTime, before.Changed("max-time")
	f.dropExisting = f.dropExisting || again.dropExisting
	var done []result.Record
	for _, rec := range recs {
		if rec.Run.Scenario == nil || rec.Run.Scenario.Name != d.Name || rec.Run.Scenario.Scale != f.scale {
			return fmt.Errorf("--resume %s: it holds runs of several experiments", f.resume)
		}
		if rec.End != nil && (rec.End.Stopped == bench.StoppedRows || rec.End.Stopped == bench.StoppedTime) {
			done = append(done, rec)
		}
	}
	return a.runScenario(ctx, d, f, done)
}
