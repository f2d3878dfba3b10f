package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/result"
)

// benchOutputs are the output flags of the verbs below `rowmill bench`.
type benchOutputs struct {
	record  string // the file of --out
	reports reportFlags
}

// reportFlagNames are the flags of benchOutputs but --out.
var reportFlagNames = []string{"html", "png", "md", "csv", "json"}

// newRecord is the usual text of --out.
const newRecord = "write the run record to this `file`, replacing it (default none)"

// define defines the flags. The other parameters are parts of the flags' help texts: record is the
// text of --out, picture says what --png draws, when says at what time the reports are written, and
// json says what --json prints.
func (o *benchOutputs) define(flags *pflag.FlagSet, record, picture, when, json string) {
	flags.StringVar(&o.record, "out", "", record)
	flags.StringVar(&o.reports.html, "html", "", "write an HTML page with charts to this `file`"+when+" (default none)")
	flags.StringVar(&o.reports.png, "png", "", "write a picture"+picture+" to this `file`"+when+" (default none)")
	flags.StringVar(&o.reports.md, "md", "", "write Markdown tables to this `file`"+when+" (default none)")
	flags.StringVar(&o.reports.csv, "csv", "", "write CSV, a line for each interval or cell, to this `file`"+when+" (default none)")
	flags.BoolVar(&o.reports.json, "json", false, "print the "+json+" (default false)")
}

// A measuring is an experiment with its outputs.
type measuring struct {
	// spec, unless nil, is checked first, with the outputs.
	spec *experiment.Spec
	out  benchOutputs
	// printSQL means that the statements are printed and nothing is run.
	printSQL bool
	// note is shown before the first run.
	note string
	// resumes means that the records are appended to the file of --out.
	resumes bool
	// run makes the runs; nil means experiment.Run with spec.
	run func(context.Context, *experiment.Env) ([]result.Record, error)
	// show returns how progress is shown; nil means newProgress.
	show func(context.Context) progress
	// open opens the table that a declaration names.
	open func(context.Context, *experiment.Spec) (*maintain.Table, *target.DB, error)
	// write writes the reports; nil means writeReports.
	write func([]result.Record) error
}

// bench runs an experiment, and reports all measurements made, even if it fails.
func (a benchmarks) bench(ctx context.Context, m measuring) error {
	if m.spec != nil {
		if err := cmp.Or(m.spec.Validate(), m.out.reports.check("rowmill bench "+m.spec.Workload, m.out.record)); err != nil {
			return err
		}
	}
	if m.printSQL {
		return a.printSpec(m.spec)
	}
	recs, err := a.measure(ctx, m)
	switch {
	case len(recs) == 0:
		return err
	case m.write != nil:
		return errors.Join(err, m.write(recs))
	}
	return errors.Join(err, a.writeReports(m.out.reports, recs))
}

func (a benchmarks) measure(ctx context.Context, m measuring) ([]result.Record, error) {
	create := record.Create
	if m.resumes {
		create = record.Append
	}
	out, err := create(m.out.record)
	if err != nil {
		return nil, err
	}
	if m.show == nil {
		m.show = a.newProgress
	}
	show := m.show(ctx)
	defer show.Close()
	if m.note != "" {
		show.Note(m.note)
	}
	if m.run == nil {
		m.run = func(ctx context.Context, env *experiment.Env) ([]result.Record, error) {
			return experiment.Run(ctx, env, m.spec)
		}
	}
	recs, err := m.run(ctx, &experiment.Env{Out: out, Show: show, Rowmill: a.Version, Command: a.Args, OpenTable: m.open})
	return recs, errors.Join(err, out.Close())
}

func (a benchmarks) printSpec(s *experiment.Spec) error {
	parts, err := s.Statements()
	if err != nil {
		return err
	}
	for _, p := range parts {
		fmt.Fprint(a.Stdout, p.Text())
	}
	return nil
}
