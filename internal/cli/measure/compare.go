package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
)

type compareFlags struct {
	// reports are the page, the CSV and the JSON.
	reports reportFlags
	// a and b select the runs of the two sides.
	a, b experiment.Selection
	// threshold is a share. The command fails if the second side's rate is lower by more than this
	// share, and the confidence interval shows that it is lower. If threshold is negative, the command
	// never fails for this reason.
	threshold float64
	// repeat is how often both sides are run again; 0 compares the recorded runs.
	repeat int
	out    string
	yes    bool
}

// compareTry is the hint for an invalid command line.
const compareTry = "rowmill compare before.jsonl after.jsonl"

// fewRepeats is the number of repeats below which Student's t is so large that --threshold seldom
// gets an answer.
const fewRepeats = 5

// noThreshold is the threshold if --threshold isn't given.
const noThreshold = -1

type comparisons struct{ benchmarks }

// CompareCommand returns `rowmill compare`.
func CompareCommand(app *cli.App) *cobra.Command {
	a := comparisons{benchmarks{reports{app}}}
	f := compareFlags{threshold: noThreshold}
	c := &cobra.Command{
		Use:   "compare A.jsonl [B.jsonl]",
		Short: "Compare two run records at equal row counts, or run both again",
		Long: "Compare the runs of two run records at equal row counts: the time to the same number\n" +
			"of rows, rates over tenths of the rows, latencies, stalls, bytes and CPU time per row.\n" +
			"Each figure has the ratio B/A. The ratio of the mean rates also has its 95% confidence\n" +
			"interval, and a verdict: B is faster, B is slower, or no difference is shown.\n\n" +
			"Several runs of one configuration, as --repeat makes them, are compared as repeats: the\n" +
			"first run of A with the first of B, and so on. If a record has several configurations,\n" +
			"such as both layouts, equal configurations are paired. If a single record has two\n" +
			"configurations, they are compared with each other; if it has more, --a and --b choose\n" +
			"two.\n\n" +
			"Differences between the conditions of two runs are listed before the figures:\n" +
			"durability, versions, settings, machines, schemas, workloads, unverified rows.\n\n" +
			"Records of rowmill bench matrix, mixed, points and scan are compared in one table. Each\n" +
			"cell is compared with the cell of the same choices, such as the same operation and\n" +
			"clients.\n\n" +
			"Touches no server, unless --repeat is given: it only reads the files. With --repeat, it\n" +
			"runs the configurations of both records again, alternately (A B B A ...); it prints what\n" +
			"it will run and which tables it drops, and asks. Only alternating runs distinguish a\n" +
			"difference between the configurations from a change of the machine.\n\n" +
			"Exit codes: 0 compared, 1 failed, 2 usage, 3 a regression beyond --threshold is shown,\n" +
			"4 the runs are too few or too short to judge by --threshold.",
		Example: "  rowmill compare before.jsonl after.jsonl --threshold 5%\n" +
			"  rowmill compare run.jsonl --a layout=plain --b layout=rolling\n" +
			"  rowmill compare before.jsonl after.jsonl --repeat 5 --out both.jsonl",
		Args: func(_ *cobra.Command, args []string) error { return f.check(args) },
		RunE: func(c *cobra.Command, args []string) error { return a.compare(c.Context(), f, args) },
	}
	flags := c.Flags()
	flags.Var(&f.a, "a", "side A: the runs with `FIELD=VALUE` in their header, such as layout=plain or batch=1000; several with commas (default all of A.jsonl)")
	flags.Var(&f.b, "b", "side B: the runs with `FIELD=VALUE` in their header (default all of B.jsonl)")
	flags.Var(cli.FractionOf(&f.threshold), "threshold", "exit with 3 if B's mean rate is lower than A's by more than this `share`, such as 5%, and the ratio's whole confidence interval is below 1 (default never)")
	cli.IntWithin(flags, &f.repeat, "repeat", 0, 0, math.MaxInt32, "run both sides again `N` times each, in turn, and compare those runs (default 0: compare what is recorded)")
	flags.StringVar(&f.out, "out", "", "write the records of --repeat to this `file`, replacing it (default none)")
	flags.BoolVar(&f.yes, "yes", false, "don't ask before --repeat drops and fills tables (default false)")
	flags.StringVar(&f.reports.html, "html", "", "write an HTML page with charts of both sides to this `file`, \"-\" for standard output (default none)")
	flags.StringVar(&f.reports.csv, "csv", "", "write CSV, a line for each figure or cell, to this `file`, \"-\" for standard output (default none)")
	flags.BoolVar(&f.reports.json, "json", false, "print as JSON (default false)")
	return c
}

// check refuses invalid flags before anything is read.
func (f *compareFlags) check(args []string) error {
	switch {
	case len(args) < 1 || len(args) > 2:
		return cli.Usagef(compareTry, "compare takes two run records, or one that holds both sides, not %d", len(args))
	case f.repeat == 0 && f.out != "":
		return cli.Usagef(compareTry+" --repeat 5 --out "+f.out, "--out requires --repeat")
	case f.repeat == 0 && f.yes:
		return cli.Usagef(compareTry, "--yes requires --repeat")
	case len(args) == 1 && (f.a == nil) != (f.b == nil):
		return cli.Usagef("rowmill compare "+args[0]+" --a layout=plain --b layout=rolling", "with one record, give both --a and --b")
	}
	return f.reports.check(compareTry, f.out, args...)
}

func (a comparisons) compare(ctx context.Context, f compareFlags, paths []string) error {
	before, after, err := f.sides(ctx, paths)
	if err != nil {
		return err
	}
	var stopped error // the error that ended --repeat early
	if f.repeat > 0 {
		again, err := f.repetition(before, after)
		if err != nil {
			return err
		}
		plan := again.Plan(a.Version, f.out)
		if f.threshold >= 0 && f.repeat < fewRepeats {
			plan += fmt.Sprintf("! --threshold with --repeat %d: of so few runs even half the rate may not be shown, and the exit code is then 4; --repeat %d shows more.\n", f.repeat, fewRepeats)
		}
		if err := a.Confirm(ctx, plan, f.yes); err != nil {
			return err
		}
		before, after, stopped = a.repeat(ctx, again, f.out)
		if stopped != nil && (len(before) == 0 || len(after) == 0) {
			return stopped
		}
	}
	c, err := report.Compare(before, after)
	if err != nil {
		return err
	}
	if err := a.writeDocument(f.reports, c.Document()); err != nil {
		return errors.Join(stopped, err)
	}
	if stopped != nil {
		return stopped
	}
	return judge(c.Regression(f.threshold))
}

// If regression isn't "", judge returns an error with this text. Otherwise judge returns err. If
// err says that there is no answer, err gets the exit code for an unknown result.
func judge(regression string, err error) error {
	if regression != "" {
		return engine.Classed(cli.ErrRegression, errors.New(regression))
	}
	if unjudged, ok := errors.AsType[*report.Unjudged](err); ok {
		return engine.Classed(cli.ErrUnknown, engine.Hinted(err, "%s", unjudged.Try))
	}
	return err
}

// sides reads the records and divides them into the two sides.
func (f *compareFlags) sides(ctx context.Context, paths []string) (before, after []result.Record, err error) {
	before, err = record.ReadAll(ctx, paths[:1])
	if err != nil {
		return nil, nil, err
	}
	before = report.Proven(before)
	if len(paths) == 1 {
		return experiment.Sides(before, paths[0], f.a, f.b, report.Repeats(before))
	}
	if after, err = record.ReadAll(ctx, paths[1:]); err != nil {
		return nil, nil, err
	}
	after = report.Proven(after)
	if before, err = f.a.Of(before, "--a", paths[0]); err != nil {
		return nil, nil, err
	}
	after, err = f.b.Of(after, "--b", paths[1])
	return before, after, err
}

func (f *compareFlags) repetition(before, after []result.Record) (*experiment.Repetition, error) {
	again := &experiment.Repetition{Times: f.repeat}
	for i, recs := range [][]result.Record{before, after} {
		for _, runs := range report.Repeats(recs) {
			if err := again.Add([]string{"A", "B"}[i], &runs[0]); err != nil {
				return nil, err
			}
		}
	}
	return again, nil
}

func (a comparisons) repeat(ctx context.Context, again *experiment.Repetition, path string) (before, after []result.Record, err error) {
	recs, err := a.measure(ctx, measuring{out: benchOutputs{record: path}, run: again.Run})
	for _, rec := range recs {
		rec.Source = cmp.Or(path, "run again")
		if rec.Run.Side == "A" {
			before = append(before, rec)
		} else {
			after = append(after, rec)
		}
	}
	return before, after, err
}
