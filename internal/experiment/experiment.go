// Package experiment makes experiments: a run, a matrix, a search for a rate, a scenario, a day of
// steadiness.
//
// The input is a Spec, filled from flags, from a scenario or from a recorded run, and an Env; the
// output is result.Records, which are also written to the Env's file as they grow. A Spec that
// can't be run is refused with a Refusal before anything is touched. The package prints nothing: an
// Env's Progress shows what happens.
//
//	spec := &experiment.Spec{Workload: experiment.Insert, Targets: []string{"null:"}, Preset: "classic",
//		Layouts: []string{"plain"}, Repeat: 1, Rows: 1e6, Writers: 1, Seed: 1, Interval: experiment.Duration(time.Second)}
//	recs, err := experiment.Run(ctx, env, spec)
package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/result"
)

// ErrInterrupted is the error of an experiment that was interrupted.
var ErrInterrupted = errors.New("interrupted; what was measured is reported")

// ErrInterruptedEarly is the error of an experiment that was interrupted before its
// first measurement.
var ErrInterruptedEarly = errors.New("interrupted before anything was measured")

// Env is what an experiment needs of its surroundings.
type Env struct {
	// Out receives the records.
	Out *record.File
	// Show shows the runs.
	Show Progress
	// Rowmill is rowmill's version and Command its arguments, for the records.
	Rowmill string
	Command []string
	// OpenTable opens the table that a Spec declares, and its database, which the experiment closes.
	// Only the workload Keep uses it.
	OpenTable func(ctx context.Context, s *Spec) (*maintain.Table, *target.DB, error)
}

// Progress shows runs while they are in progress. Its methods may be called from several
// goroutines.
type Progress interface {
	// Begin announces a run, with the name that users see.
	Begin(result.Run)
	Interval(result.Interval)
	End(result.Summary)
	Note(text string)
}

// A Trial is one run of an experiment, or one search for a rate.
type Trial struct {
	// Spec is the trial's own Spec, with one target and one layout. Whole is the Spec of the whole
	// experiment, which the record stores.
	Spec, Whole *Spec
	// Label is the trial's name in errors: "layout plain, repeat 2".
	Label string
	// Repeat is the run's number, from 1, among the Repeats runs of its configuration; both are 0 if
	// the configuration has a single run. Side is the side of a comparison.
	Repeat, Repeats int
	Side            string
	// Cell is the trial's cell in a matrix, Scenario its scenario; nil in other experiments.
	Cell     *result.Cell
	Scenario *result.Scenario
	// Again means that an earlier trial left its table, which is dropped.
	Again bool

	// resumes are the recorded runs of the trial that this one continues.
	resumes []*result.Record
	// calibrates, unless nil, is the declared table that a run of Tables creates instead of its own.
	calibrates *engine.Table
	// command, unless nil, is recorded instead of the Env's.
	command []string
}

func (t *Trial) layout() string { return t.Spec.Layouts[0] }

// named adds the number of the repeat to the name of a run: "slots, 8 clients #2".
func (t *Trial) named(name string) string {
	if t.Repeat > 0 {
		name += fmt.Sprintf(" #%d", t.Repeat)
	}
	return name
}

// trials returns the runs of an insert experiment, in order.
func (s *Spec) trials() (out []Trial) {
	for round := range s.Repeat {
		for _, layout := range inTurn(s.Layouts, round) {
			t := Trial{Spec: s.alone(layout), Whole: s, Label: "layout " + layout, Again: len(out) > 0}
			if s.Repeat > 1 {
				t.Repeat, t.Repeats = round+1, s.Repeat
				t.Label += fmt.Sprintf(", repeat %d", t.Repeat)
			}
			out = append(out, t)
		}
	}
	return out
}

// inTurn returns the items in the order for a round; rounds are counted from 0. Every other round
// is reversed, so that no item always runs first, or always after the same item.
func inTurn[T any](what []T, round int) []T {
	what = slices.Clone(what)
	if round%2 == 1 {
		slices.Reverse(what)
	}
	return what
}

// Run makes an experiment and returns the records of the runs that began. It stops at the first
// failure. After an interrupt, the error is ErrInterrupted.
func Run(ctx context.Context, env *Env, s *Spec) (recs []result.Record, err error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	switch s.Workload {
	case Ibench:
		recs, err = env.ibench(ctx, s)
	case Mixed, Points:
		recs, err = env.cells(ctx, s)
	case Keep:
		recs, err = env.keep(ctx, s)
	case Scan:
		recs, err = env.scan(ctx, s)
	case HotRow:
		recs, err = env.hotRow(ctx, s)
	case TPCC:
		recs, err = env.tpcc(ctx, &Trial{Spec: s, Whole: s})
	case Tables:
		recs, err = env.tables(ctx, s)
	case Disk:
		recs, err = env.disk(ctx, s)
	case Steady:
		recs, err = env.steady(ctx, s)
	case Matrix:
		m, err := PlanMatrix(s)
		if err != nil {
			return nil, err
		}
		return m.Run(ctx, env, nil)
	case Scenario:
		p, err := PlanScenario(s)
		if err != nil {
			return nil, err
		}
		return p.Run(ctx, env)
	default:
		recs, err = env.trials(ctx, s.trials())
	}
	if err == nil && ctx.Err() != nil {
		err = ErrInterrupted
	}
	return recs, err
}

func (e *Env) trials(ctx context.Context, all []Trial) ([]result.Record, error) {
	return each(ctx, all, func(t Trial) string { return t.Label }, func(t Trial) ([]result.Record, error) { return e.insert(ctx, t) })
}

// each makes runs in order and returns the records of the runs that began. It stops at the first
// failure, and after an interrupt. label names a run in an error.
func each[T any](ctx context.Context, what []T, label func(T) string, run func(T) ([]result.Record, error)) (recs []result.Record, err error) {
	for _, one := range what {
		made, err := run(one)
		recs = append(recs, made...)
		if err == nil && ctx.Err() != nil {
			err = ErrInterrupted
		}
		if err != nil {
			return recs, fmt.Errorf("%s: %w", label(one), err)
		}
	}
	return recs, nil
}

// early marks the error of a trial that was interrupted before its measurement.
func early(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrInterruptedEarly, err)
	}
	return err
}

// header returns the header of a trial's run. own has the fields that only the workload knows; cfg
// says how the workload runs. The measurement adds what it learns from the open database and the
// machine.
func (e *Env) header(t *Trial, cfg *bench.Config, own result.Run) result.Run {
	s, run := t.Spec, own
	run.Command = e.Command
	if t.command != nil {
		run.Command = t.command
	}
	run.Rowmill, run.Spec = e.Rowmill, t.Whole.encoded()
	run.Repeat, run.Side, run.Cell, run.Scenario = t.Repeat, t.Side, t.Cell, t.Scenario
	if run.Workload == "" {
		run.Workload = s.Workload
	}
	run.Preset, run.Layout, run.Seed, run.Target = s.Preset, t.layout(), uint64(s.Seed), s.Target()
	run.Rows, run.MaxTimeSeconds, run.Rate = cfg.Rows, cfg.MaxTime.Seconds(), cfg.Rate
	run.WarmupSeconds = s.Warmup.D().Seconds()
	if run.Step == nil { // a step that inserts nothing has no batch
		run.Batch = cfg.Batch
	}
	if run.Writers == 0 {
		run.Writers = cfg.Clients
	}
	run.IntervalSeconds, run.KillServerSeconds = cfg.Interval.Seconds(), s.KillEvery.D().Seconds()
	return run
}
