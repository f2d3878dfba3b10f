package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// An ibenchRun runs the steps of the insert benchmark, each as a separate run in one
// record.
type ibenchRun struct {
	f    ibenchFlags
	args []string
	out  *recordFile
	show progress

	db   *target.DB
	w    *workload.Ibench
	recs []result.Record
}

// run opens the target and runs the steps, up to the first failure.
func (r *ibenchRun) run(ctx context.Context) (err error) {
	if r.db, err = target.Open(ctx, r.f.target, r.show.Note); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	if r.w, err = workload.NewIbench(r.db, r.f.options()); err != nil {
		return err
	}
	var schema []string
	if r.w.Creates() {
		schema, err = r.w.Setup(ctx, r.f.dropExisting)
	} else {
		r.show.Note("looking for the rows that the tables hold")
		err = r.w.Continue(ctx)
	}
	if err != nil {
		return err
	}
	steps := r.w.Steps()
	for i, s := range steps {
		if ctx.Err() != nil {
			return errInterrupted
		}
		one := &ibenchStep{measurement: measurement{db: r.db, out: r.out, show: r.show, interval: r.f.interval},
			f: r.f, w: r.w, step: s, number: i + 1, of: len(steps)}
		if len(r.recs) > 0 {
			one.before = &r.recs[len(r.recs)-1]
		}
		err := one.run(ctx, r.args, schema)
		schema = nil
		if one.rec != nil {
			r.recs = append(r.recs, *one.rec)
		}
		if err == nil && ctx.Err() != nil {
			err = errInterrupted
		}
		if err != nil {
			return fmt.Errorf("step %s: %w", s.Name, err)
		}
	}
	return nil
}

// An ibenchStep measures one step.
type ibenchStep struct {
	measurement
	f          ibenchFlags
	w          *workload.Ibench
	step       workload.Step
	number, of int
	before     *result.Record   // the step before; nil for the first
	chores     *workload.Chores // of the steps l.x and settle
}

// run runs the step. schema holds the statements that created the tables; only the
// first step has it.
func (s *ibenchStep) run(ctx context.Context, args, schema []string) error {
	w, o := s.w, s.w.IbenchOptions()
	start, indexes := w.RowsNow(), w.IndexesNow()
	work, cfg, err := w.Begin(s.step)
	if err != nil {
		return err
	}
	run := result.Run{
		Name: fmt.Sprintf("ibench %s on %s", s.step.Name, s.db.Info().Engine), Command: args,
		Workload: "ibench", Preset: "ibench", Layout: workload.Plain, Seed: o.Seed,
		Rows: cfg.Rows, MaxTimeSeconds: cfg.MaxTime.Seconds(), Writers: cfg.Clients, Batch: s.step.Batch,
		Method: string(w.Options().Method), Indexes: indexes, Rate: cfg.Rate, Deviations: w.Deviations(), Schema: schema,
		Step: &result.Step{
			Benchmark: "ibench", Name: s.step.Name, Number: s.number, Of: s.of, Tables: len(w.Tables()),
			StartRows: start, Query: s.step.Query,
		},
	}
	if s.step.Deletes {
		run.Step.KeepRows = w.KeepRows()
	}
	if s.before != nil {
		if n := len(s.before.Intervals); n > 0 {
			if dirty, ok := s.before.Intervals[n-1].Counters[engine.CounterCacheDirty]; ok {
				run.Step.DirtyBytes = &dirty
			}
		}
	}
	if s.number == 1 {
		run.Warnings = s.sizeWarnings(start)
	}
	if c, ok := work.(*workload.Chores); ok {
		s.chores = c
		s.show = &choreProgress{progress: s.show}
	}
	s.note = func(iv *result.Interval) { iv.HeldRows = w.RowsNow() }
	if err := s.begin(ctx, w.Tables(), run, run.Name); err != nil {
		return err
	}
	return s.measure(ctx, work, cfg, s.prove)
}

// sizeWarnings returns a warning if existing tables are not of the requested size.
func (s *ibenchStep) sizeWarnings(rows int64) []string {
	const apart = 0.01
	asked := s.w.IbenchOptions().Rows
	if s.w.Creates() || float64(max(rows-asked, asked-rows)) <= apart*float64(asked) {
		return nil
	}
	return []string{fmt.Sprintf("the tables held %s at the start, --rows says %s", plural(rows, "row"), figure.Count(asked))}
}

// prove measures the tables' size and, after the last step, verifies them.
func (s *ibenchStep) prove(ctx context.Context, end *result.End) error {
	s.w.End()
	if s.chores != nil {
		end.Warnings = append(end.Warnings, s.chores.Warnings()...)
	}
	var failed error
	if s.number == s.of {
		failed = s.verifyUnless(ctx, s.f.noVerify, s.w.Insert, s.w.RowsNow(), end)
		end.Warnings = append(end.Warnings, s.w.Warnings()...)
	}
	if end.Stopped == bench.StoppedFailed || failed != nil {
		return failed
	}
	sizing, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	size, err := s.w.Sizes(sizing)
	if err != nil {
		end.Warnings = append(end.Warnings, fmt.Sprintf("the tables' size is unknown: %v", err))
		return nil
	}
	end.Size = &result.Size{Data: size.Data, Index: size.Index}
	if rows := s.w.RowsNow(); rows > 0 {
		end.Size.PerRow = float64(size.Data+size.Index) / float64(rows)
	}
	return nil
}

// choreNote is how often a step that inserts nothing reports that it is still running.
const choreNote = 10 * time.Second

// A choreProgress shows the work done by such a step instead of a rate.
type choreProgress struct {
	progress
	said float64
}

func (p *choreProgress) Interval(iv result.Interval) {
	for _, e := range iv.Events {
		p.said = iv.Elapsed
		p.Note(fmt.Sprintf("%s took %.1f s", strings.TrimSpace(e.What+" "+e.Object), e.Seconds))
	}
	if iv.Elapsed-p.said >= choreNote.Seconds() {
		p.said = iv.Elapsed
		p.Note(fmt.Sprintf("at work for %.0f s", iv.Elapsed))
	}
}
