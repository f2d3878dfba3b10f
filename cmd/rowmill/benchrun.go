package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

var errInterrupted, errInterruptedEarly = experiment.ErrInterrupted, experiment.ErrInterruptedEarly

// An insertRun measures one layout.
type insertRun struct {
	f      benchFlags
	layout string
	args   []string
	first  bool // of all runs
	// repeat counts the runs of this layout from 1 to repeats; both are 0 if there is
	// only one. side is the side of a comparison to which the run belongs.
	repeat, repeats int
	side            string
	// search is the run's place in a search for a rate; nil outside of one. searching
	// is the text shown after a trial's name: the rate that it tries.
	search    *result.Search
	searching string
	// fillBatch is the number of rows per batch if it differs from the workload's,
	// else 0.
	fillBatch int
	// before is the number of rows that earlier runs inserted into the table.
	before int64
	// cell is the cell of a matrix; nil for other runs.
	cell *result.Cell
	// scenario is the experiment that the run is part of; nil for others.
	scenario *result.Scenario

	measurement
	w *workload.Insert
	// resumes is the run that this one continues; nil for a new run.
	resumes *result.Record
	// reached receives the tables' size when they first hold the rows to keep.
	// measuring is set once determining that size has begun.
	reached   chan *result.Size
	measuring bool
}

// run opens the target, measures and verifies. The record is nil if the measurement
// never began.
func (r *insertRun) run(ctx context.Context) (_ *result.Record, err error) {
	defer func() {
		if r.rec == nil && err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errInterruptedEarly, err)
		}
	}()
	if r.db, err = target.Open(ctx, r.f.target, r.show.Note); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	var schema []string
	if r.resumes != nil {
		err = r.resume(ctx)
		schema = r.resumes.Run.Schema
	} else {
		schema, err = r.setup(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := r.header(ctx, schema); err != nil {
		return nil, err
	}
	cfg := r.f.config(r.w.Options())
	cfg.Beside = append(cfg.Beside, r.w.Beside()...)
	if r.f.keepRows > 0 {
		r.reached = make(chan *result.Size, 1)
		r.note = func(iv *result.Interval) { r.noteHeld(ctx, iv) }
	}
	if r.f.killEvery == 0 {
		return r.rec, r.measure(ctx, r.w, cfg, r.prove)
	}
	if r.kill, err = newKiller(r.db.Server(), r.f.killEvery, r.w, r.show.Note); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.kill.follow = r.probe.Follow
	return r.rec, r.measure(ctx, r.kill.workload(ctx), cfg, r.prove)
}

// runs makes the run, or all runs of a search with --find-rate, and returns the
// records of those that began.
func (r *insertRun) runs(ctx context.Context) ([]result.Record, error) {
	if r.f.find.on {
		return newRateSearch(r).run(ctx)
	}
	rec, err := r.run(ctx)
	if rec == nil {
		return nil, err
	}
	return []result.Record{*rec}, err
}

// setup creates the tables and returns the statements that created them.
func (r *insertRun) setup(ctx context.Context) (schema []string, err error) {
	if r.w, err = workload.NewInsert(r.db, r.f.insertOptions(r.layout)); err != nil {
		return nil, err
	}
	if r.layout == workload.Rolling && r.f.periodRows == 0 {
		r.show.Note("measuring bytes per row on a sample, to fit two periods into the cache")
	}
	if err := r.w.Measure(ctx); err != nil {
		return nil, err
	}
	// From the second run on, an existing table is that of the run before.
	return r.w.Setup(ctx, r.f.dropExisting || !r.first)
}

// header begins the measurement with all that the workload knows about itself.
func (r *insertRun) header(ctx context.Context, schema []string) error {
	run, shown := r.describe(schema)
	return r.begin(ctx, r.w.Tables(), run, shown)
}

// describe returns the part of the header that the workload knows, and the run's name
// as shown to users.
func (r *insertRun) describe(schema []string) (run result.Run, shown string) {
	o := r.w.Options()
	period, why := r.w.Period()
	run = result.Run{
		Name: fmt.Sprintf("%s %s on %s", o.Preset, r.layout, r.db.Info().Engine), Repeat: r.repeat, Side: r.side, Cell: r.cell, Command: r.args,
		Workload: "insert", Preset: o.Preset, Layout: r.layout, Seed: o.Seed,
		Rows: r.f.rows, MaxTimeSeconds: r.f.maxTime.Seconds(), Writers: o.Writers, Batch: o.Batch,
		Method: string(o.Method), Indexes: r.w.Indexes(), Rate: r.f.rate,
		KillServerSeconds: r.f.killEvery.Seconds(),
		Period:            period, PeriodWhy: why, Scenario: r.scenario, KeepPeriods: o.KeepPeriods, KeepRows: o.KeepRows,
		Readers: o.Readers, ReadAfter: o.ReadAfter, Deviations: r.w.Deviations(), Schema: schema,
	}
	run.HeldRows[0], run.HeldRows[1] = r.w.HeldRows()
	if period != "" {
		run.PeriodRows = o.PeriodRows
	}
	if r.scenario != nil {
		run.Name = r.scenario.Run + ": " + run.Name
	}
	run.Search = r.search
	if r.fillBatch > 0 {
		run.Batch = r.fillBatch
	}
	shown = run.Name
	if r.cell != nil {
		run.Name = r.cell.Name()
		shown = fmt.Sprintf("%s (%d of %d)", run.Name, r.cell.Order, r.cell.Runs)
	} else if r.repeats > 0 {
		run.Name += fmt.Sprintf(" #%d", r.repeat)
		shown = fmt.Sprintf("%s of %d", run.Name, r.repeats)
		if r.side != "" {
			shown = r.side + ": " + shown
		}
	}
	if r.search != nil && r.search.Trial > 0 {
		trial := fmt.Sprintf(", trial %d", r.search.Trial)
		run.Name += trial
		shown += trial + r.searching
	}
	return run, shown
}

// noteHeld records how many rows the tables hold. Once they hold the rows to keep, it
// starts to determine their size.
func (r *insertRun) noteHeld(ctx context.Context, iv *result.Interval) {
	iv.HeldRows = r.w.RowsNow()
	if r.measuring || iv.HeldRows < r.f.keepRows {
		return
	}
	r.measuring = true
	rows := float64(iv.HeldRows)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
		defer cancel()
		size, err := r.w.Sizes(ctx)
		if err != nil {
			r.reached <- nil // the report omits what depends on it
			return
		}
		r.reached <- &result.Size{Data: size.Data, Index: size.Index, PerRow: float64(size.Data+size.Index) / rows}
	}()
}

// afterwards bounds the reading of figures from the server after an interrupt.
const afterwards = 20 * time.Second

// prove verifies the table and measures its size, unless the run failed or was
// interrupted.
func (r *insertRun) prove(ctx context.Context, end *result.End) error {
	defer func() { end.Warnings = append(end.Warnings, r.w.Warnings()...) }()
	if r.measuring {
		end.SizeReached = <-r.reached
	}
	end.SkippedRows, end.DroppedRows, end.DeletedRows = r.w.SkippedRows(), r.w.DroppedRows(), r.w.DeletedRows()
	failed := r.verifyUnless(ctx, r.f.noVerify, r.w, r.before+r.rows(), end)
	if end.Stopped == bench.StoppedFailed || failed != nil {
		return failed
	}
	sizing, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	size, err := r.w.Sizes(sizing)
	if err != nil {
		end.Warnings = append(end.Warnings, fmt.Sprintf("the table's size is unknown: %v", err))
		return nil
	}
	end.Size = &result.Size{Data: size.Data, Index: size.Index}
	rows := r.before + r.rows() - end.SkippedRows - r.w.DroppedRows()
	if r.f.keepRows > 0 {
		rows = r.w.RowsNow()
	}
	if rows > 0 {
		end.Size.PerRow = float64(size.Data+size.Index) / float64(rows)
	}
	return nil
}

// verifyUnless compares the tables with the rows that the seed generates, unless the
// user's flags or the way the run ended rule that out. rows is the approximate number
// of rows in the tables.
func (m *measurement) verifyUnless(ctx context.Context, noVerify bool, w *workload.Insert, rows int64, end *result.End) error {
	skip := ""
	switch {
	case noVerify:
		skip = "--no-verify was given"
	case !m.db.Capabilities().Stores:
		skip = "the " + m.db.Info().Engine + " engine stores nothing"
	case end.Stopped == bench.StoppedFailed:
		skip = "the run failed"
	case end.Stopped == bench.StoppedInterrupted:
		skip = "the run was interrupted"
	}
	if skip != "" {
		end.Warnings = append(end.Warnings, "not verified: "+skip)
		return nil
	}
	return m.verify(ctx, w, rows, end)
}

// verifyNote is the interval at which verifying reports its progress.
const verifyNote = 5 * time.Second

// verify compares the tables with the rows that the seed generates.
func (m *measurement) verify(ctx context.Context, w *workload.Insert, expected int64, end *result.End) error {
	m.show.Note("verifying the table")
	said := time.Now()
	proof, err := w.Verify(ctx, func(rows int64) {
		if time.Since(said) > verifyNote {
			said = time.Now()
			m.show.Note(fmt.Sprintf("verifying the table: %s of %s", figure.Count(rows), plural(expected, "row")))
		}
	})
	end.Warnings = append(end.Warnings, proof.Warnings...)
	if err != nil {
		if ctx.Err() != nil {
			end.Warnings = append(end.Warnings, "not verified: interrupted meanwhile")
			return nil
		}
		return errors.Join(m.db.Death(err), err)
	}
	end.Verified = &result.Verified{Expected: proof.Expected, Found: proof.Found, Lost: proof.Lost, Checksum: proof.Checksum}
	end.DroppedRows, end.LostRows, end.DeletedRows = proof.DroppedRows, proof.Lost, proof.DeletedRows
	for _, p := range proof.Periods {
		end.Periods = append(end.Periods, result.Period{
			Name: p.Name, From: p.From, To: p.To, Expected: p.Expected, Found: p.Found, Lost: p.Lost, Checksum: &p.Checksum})
	}
	if !proof.Checksum {
		return engine.Hinted(fmt.Errorf("verification failed: of %d rows expected %d were found, and they are not all the rows that were sent",
			proof.Expected, proof.Found), "the record's periods, to see where")
	}
	return nil
}
