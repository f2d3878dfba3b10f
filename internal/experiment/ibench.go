package experiment

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// An IbenchSpec has the options of the modern insert benchmark. The number of rows of its first
// step is Spec.Rows.
type IbenchSpec struct {
	// RowsI1 and RowsI2 are the rows of steps l.i1 and l.i2; 0 is the published multiple of Spec.Rows.
	RowsI1 int64 `json:"rows-i1,omitempty" toml:"rows-i1,omitempty"`
	RowsI2 int64 `json:"rows-i2,omitempty" toml:"rows-i2,omitempty"`
	// Clients insert, each into a table of its own or all into one.
	Clients     int  `json:"clients" toml:"clients"`
	SharedTable bool `json:"shared-table,omitempty" toml:"shared-table,omitempty"`
	// Steps are the steps to run, in their order, and QueryTime is the time of each step with queries.
	Steps     []string `json:"steps" toml:"steps"`
	QueryTime Duration `json:"query-time" toml:"query-time"`
}

// QuerySteps returns how many steps take the time QueryTime each.
func (b *IbenchSpec) QuerySteps() (n int) {
	for _, step := range b.Steps {
		if strings.HasPrefix(step, "q") {
			n++
		}
	}
	return n
}

func (s *Spec) dryIbench() (*workload.Ibench, error) {
	db, err := target.Dry(s.Target())
	if err != nil {
		return nil, fmt.Errorf("--target: %w", err)
	}
	return workload.NewIbench(db, s.ibenchOptions())
}

func (s *Spec) ibenchOptions() workload.IbenchOptions {
	b := s.Ibench
	return workload.IbenchOptions{
		Seed: uint64(s.Seed), Rows: s.Rows, RowsI1: b.RowsI1, RowsI2: b.RowsI2, Clients: b.Clients, SharedTable: b.SharedTable,
		Method: engine.Method(s.Method), QueryTime: b.QueryTime.D(), Steps: b.Steps,
	}
}

// ibench runs the steps on one set of tables, each as a run of its own in the record.
func (e *Env) ibench(ctx context.Context, s *Spec) (recs []result.Record, err error) {
	t := &Trial{Spec: s, Whole: s}
	whole := measurement{env: e, trial: t}
	err = whole.open(ctx, func() error {
		w, err := workload.NewIbench(whole.db, s.ibenchOptions())
		if err != nil {
			return err
		}
		var schema []string
		if w.Creates() {
			schema, err = w.Setup(ctx, s.DropExisting)
		} else {
			e.Show.Note("determining which rows the tables hold")
			err = w.Continue(ctx)
		}
		if err != nil {
			return err
		}
		steps, number := w.Steps(), 0
		var before *result.Record
		recs, err = each(ctx, steps, func(s workload.Step) string { return "step " + s.Name }, func(step workload.Step) ([]result.Record, error) {
			number++
			one := &ibenchStep{measurement: measurement{env: e, trial: t, db: whole.db}, w: w, step: step, number: number, of: len(steps)}
			err := one.run(ctx, schema, before)
			schema, before = nil, one.rec
			return recorded(one.rec, err)
		})
		return err
	})
	if len(recs) == 0 {
		err = early(ctx, err)
	}
	return recs, err
}

type ibenchStep struct {
	measurement
	w          *workload.Ibench
	step       workload.Step
	number, of int
	chores     *workload.Chores // of the steps l.x and settle
}

// run runs the step. For the first step, schema holds the statements that created the tables, and
// before is nil. For a later step, before is the record of the previous step.
func (s *ibenchStep) run(ctx context.Context, schema []string, before *result.Record) error {
	w := s.w
	start, indexes := w.RowsNow(), w.IndexesNow()
	work, cfg, err := w.Begin(s.step)
	if err != nil {
		return err
	}
	cfg.Interval = s.trial.Spec.Interval.D()
	own := result.Run{
		Name: fmt.Sprintf("ibench %s on %s", s.step.Name, s.db.Info().Engine),
		Load: result.Load{Method: string(w.Options().Method), Batch: s.step.Batch, Indexes: indexes}, Deviations: w.Deviations(), Database: result.Database{Schema: schema},
		Step: &result.Step{
			Benchmark: "ibench", Name: s.step.Name, Number: s.number, Of: s.of, Tables: len(w.Tables()),
			StartRows: start, Query: s.step.Query,
		},
	}
	if s.step.Deletes {
		own.Step.KeepRows = w.KeepRows()
	}
	if before != nil && len(before.Intervals) > 0 {
		last := before.Intervals[len(before.Intervals)-1]
		if dirty, ok := last.Counters[engine.CounterCacheDirty]; ok {
			own.Step.DirtyBytes = &dirty
		}
	}
	if s.number == 1 && !w.Creates() {
		own.Warnings = otherSize(start, s.trial.Spec.Rows)
	}
	if c, ok := work.(*workload.Chores); ok {
		s.chores = c
		env := *s.env
		env.Show = &choreProgress{Progress: env.Show}
		s.env = &env
	}
	s.note = func(iv *result.Interval) { iv.HeldRows = w.RowsNow() }
	if err := s.begin(ctx, w.Tables(), cfg, own, own.Name); err != nil {
		return err
	}
	return s.measure(ctx, work, s.prove)
}

// otherSize warns if the tables at the start differ from --rows by more than 1%.
func otherSize(held, asked int64) []string {
	const tolerance = 0.01
	if float64(max(held-asked, asked-held)) <= tolerance*float64(asked) {
		return nil
	}
	return []string{fmt.Sprintf("the tables held %s at the start, --rows says %s", rows(held), figure.Count(asked))}
}

func (s *ibenchStep) prove(ctx context.Context, end *result.End) error {
	s.w.End()
	if s.chores != nil {
		end.Warnings = append(end.Warnings, s.chores.Warnings()...)
	}
	if s.number == s.of {
		failed := s.verifyUnless(ctx, s.w.Insert, s.w.RowsNow(), end)
		end.Warnings = append(end.Warnings, s.w.Warnings()...)
		if failed != nil {
			return failed
		}
	}
	if end.Stopped != bench.StoppedFailed {
		noteSize(ctx, s.w.Insert, s.w.RowsNow(), end)
	}
	return nil
}

// A choreProgress shows the work done by a step that inserts nothing.
type choreProgress struct {
	Progress
	said float64
}

func (p *choreProgress) Interval(iv result.Interval) {
	for _, e := range iv.Events {
		p.said = iv.Elapsed
		p.Note(fmt.Sprintf("%s took %.1f s", strings.TrimSpace(e.What+" "+e.Object), e.Seconds))
	}
	if iv.Elapsed-p.said >= noteEvery.Seconds() {
		p.said = iv.Elapsed
		p.Note(fmt.Sprintf("at work for %.0f s", iv.Elapsed))
	}
}
