package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

type matrixFlags struct {
	spec        experiment.Spec
	levels      experiment.Levels
	out         benchOutputs
	resume      string
	retryFailed bool
	baseline    string
	threshold   float64
	plan, yes   bool
}

const (
	// defaultMatrixRows is enough for a few seconds per cell. A matrix compares methods; a table that
	// outgrows memory needs a larger --rows.
	defaultMatrixRows = 100000
	defaultCellTime   = 20 * time.Second
	// manyRuns and longMatrix are the size beyond which a matrix asks for confirmation.
	manyRuns   = 200
	longMatrix = 2 * time.Hour
)

func (a benchmarks) benchMatrixCommand() *cobra.Command {
	var f matrixFlags
	c := &cobra.Command{
		Use:   "matrix",
		Short: "Insert with every combination of method, batch, writers, ... and report what matters",
		Long: "Fill a table anew for every combination of insert method, batch, writers, indexes,\n" +
			"layout and durability, and report which of these choices matter: the effect of each\n" +
			"with all others equal, the noise of repeats, and the best cell. Cells run in a random\n" +
			"order that the seed determines; with --repeat all of them run again in another order,\n" +
			"so that a change of the machine's speed does not affect only one choice.\n\n" +
			"Each cell is a run of `rowmill bench insert`, on its own private server or in a table\n" +
			"that is dropped afterwards; a permanent server is given time to write its dirty pages\n" +
			"first. Values that the engine does not support are omitted and listed; a run that\n" +
			"fails is recorded as failed, and the others continue.\n\n" +
			"Ctrl-C reports what was measured; --resume RUN.jsonl continues, also after kill -9.\n" +
			"--baseline OLD.jsonl compares each cell with the same cell of an older matrix.\n\n" +
			"Exit codes: 0 done, 1 failed (also if a cell failed), 2 usage, 3 a regression beyond\n" +
			"--threshold is shown.",
		Example: "  rowmill bench matrix --batch 1,100,1k --writers 1,4 --out matrix.jsonl --plan\n" +
			"  rowmill bench matrix --target 'sandbox:mariadb?memory=64MB' --method multi,prepared,load \\\n" +
			"      --batch 1,100,1k --durability full,none --repeat 2 --out matrix.jsonl --html matrix.html\n" +
			"  rowmill bench matrix --resume matrix.jsonl",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.benchMatrix(c.Context(), &f, c.Flags()) },
	}
	flags := c.Flags()
	s, l := &f.spec, &f.levels
	s.Workload, s.Matrix, s.Rows = experiment.Matrix, l, defaultMatrixRows
	l.Batches, l.Writers = []string{"1", "100", "1000"}, []string{"1", "4"}
	f.threshold = noThreshold
	targetVar(flags, s)
	flags.StringVar(&s.Preset, "preset", "classic", "`name` of the table and its rows: see rowmill bench insert --help")
	flags.Var(cli.CountOf(&s.Rows), "rows", "rows of each run; 0 means that only --time ends it")
	timeVar(flags, &s.MaxTime, defaultCellTime, "end each run after this `time`; 0 is none")
	flags.StringSliceVar(&l.Methods, "method", nil, "insert methods, `list` of single, multi, prepared, pipeline, load (default those of multi, prepared, load that the engine has)")
	flags.Var(cli.CountsOf(&l.Batches), "batch", "numbers of rows in one transaction, `list`")
	flags.Var(cli.CountsOf(&l.Writers), "writers", "numbers of clients that insert at once, `list`")
	flags.Var(cli.CountsOf(&l.Indexes), "indexes", "numbers of secondary indexes (the preset's first ones), `list` (default the preset's)")
	flags.StringSliceVar(&s.Layouts, "layout", []string{workload.Plain}, "layouts, `list` of "+strings.Join(workload.Layouts(), ", "))
	flags.StringSliceVar(&l.Durabilities, "durability", nil, "what a commit survives, `list` of full, relaxed, none; for private servers and SQLite (default the target's)")
	cli.IntVar(flags, &s.Repeat, "repeat", 1, "run each cell `N` times: only 2 or more can tell what matters from noise")
	seedVar(flags, s, "`number` that all rows and the order of the cells derive from")
	cli.DurationVar(flags, &s.Interval, "interval", defaultInterval, "`time` between two readings of all figures, less by default in a short run")
	flags.Var(cli.CountOrAuto(&s.PeriodRows), "period-rows", "rows of a rolling table's period; auto fits two periods into the database's cache")
	flags.StringVar(&f.resume, "resume", "", "continue the matrix of this record `file`: run the cells that are not complete, with the recorded flags")
	flags.BoolVar(&f.retryFailed, "retry-failed", false, "with --resume, also repeat runs that failed (default false)")
	flags.StringVar(&f.baseline, "baseline", "", "compare each cell with the same cell in this older record `file` of a matrix (default none)")
	flags.Var(cli.FractionOf(&f.threshold), "threshold", "with --baseline, exit with 3 when a cell, or all cells together, are shown to be slower by more than this `share`, such as 10% (default never)")
	f.out.define(flags, "write the record of all runs to this `file`, replacing it (default none: can't be resumed)", " of what matters", "", "analysis as JSON instead of text")
	proofVar(flags, s, "don't read the tables back")
	flags.BoolVar(&f.plan, "plan", false, "print the cells, in their order, and how long they take, and run nothing (default false)")
	flags.BoolVar(&f.yes, "yes", false, fmt.Sprintf("don't ask before more than %d runs, or more than %s (default false)", manyRuns, longMatrix))
	return c
}

// check refuses invalid flags, apart from the flags of the Spec.
func (f *matrixFlags) check() error {
	switch {
	case f.baseline == "" && f.threshold >= 0:
		return cli.Usagef("--baseline OLD.jsonl", "--threshold requires --baseline")
	case f.retryFailed && f.resume == "":
		return cli.Usagef("--resume RUN.jsonl", "--retry-failed requires --resume")
	}
	return f.out.reports.check("rowmill bench matrix", cmp.Or(f.out.record, f.resume), f.baseline)
}

// prepare returns the runs to make, and the runs in the record that is resumed.
func (f *matrixFlags) prepare(ctx context.Context, given *pflag.FlagSet) (m *experiment.MatrixPlan, done []result.Record, err error) {
	if f.resume == "" {
		m, err = experiment.PlanMatrix(&f.spec)
		return m, nil, err
	}
	if err := onlyOwn(given, append(reportFlagNames, "retry-failed", "baseline", "threshold", "plan", "yes")...); err != nil {
		return nil, nil, err
	}
	return experiment.ResumeMatrix(ctx, f.resume, f.retryFailed)
}

// benchMatrix runs the matrix, or the remaining part of it. It reports all
// measurements made, even if it fails.
func (a benchmarks) benchMatrix(ctx context.Context, f *matrixFlags, given *pflag.FlagSet) error {
	fitInterval(given, &f.spec)
	m, done, err := f.prepare(ctx, given)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return err
	}
	var baseline []result.Record
	if f.baseline != "" {
		if baseline, err = record.ReadAll(ctx, []string{f.baseline}); err != nil {
			return err
		}
		if !report.IsMatrix(baseline) {
			return cli.Usagef("rowmill bench matrix --out "+f.baseline, "--baseline %s: it holds no matrix", f.baseline)
		}
	}
	long, took := m.Estimate(done, baseline)
	if f.plan {
		_, err := io.WriteString(a.Stdout, m.Text(took))
		return err
	}
	if len(m.Trials) > manyRuns || long > longMatrix {
		if err := a.Confirm(ctx, m.Summary(took)+"\n", f.yes); err != nil {
			return err
		}
	}
	if len(m.Trials) == 0 {
		return a.reportMatrix(f, done, baseline, nil)
	}
	out := f.out
	out.record = cmp.Or(f.resume, out.record)
	recs, err := a.measure(ctx, measuring{out: out, resumes: f.resume != "", run: func(ctx context.Context, env *experiment.Env) ([]result.Record, error) {
		env.Show.Note(fmt.Sprintf("%s: %s", figure.Plural(len(m.Trials), "run"), took))
		for _, l := range m.LeftOut {
			env.Show.Note("left out: " + l.Factor + "=" + l.Level + ": " + l.Why)
		}
		return m.Run(ctx, env, done)
	}})
	if len(recs) == 0 {
		return err
	}
	return a.reportMatrix(f, recs, baseline, err)
}

// reportMatrix writes the reports and compares with the baseline. ended is the error
// that ended the runs, or nil.
func (a benchmarks) reportMatrix(f *matrixFlags, recs, baseline []result.Record, ended error) error {
	for i := range recs {
		recs[i].Source = cmp.Or(f.resume, f.out.record, "this run")
	}
	m, err := report.NewMatrix(recs)
	if err != nil {
		return errors.Join(ended, err)
	}
	if baseline != nil {
		m.Baseline, err = report.Compare(baseline, recs)
		ended = errors.Join(ended, err)
	}
	if err := errors.Join(ended, a.writeDocument(f.out.reports, m.Document())); err != nil {
		return err
	}
	if m.Baseline != nil {
		if err := judge(m.Baseline.Regression(f.threshold)); err != nil {
			return err
		}
	}
	if m.Failed > 0 {
		return engine.Hinted(fmt.Errorf("%d of %s failed; the others are reported", m.Failed, figure.Plural(m.Asked, "run")), "--resume %s --retry-failed", cmp.Or(f.resume, f.out.record, "RUN.jsonl"))
	}
	return nil
}
