package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/scenario"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A scenarioPlan is a scenario at a scale, on a target.
type scenarioPlan struct {
	d     *scenario.Declaration
	scale float64
	rows  int64 // of each run
	runs  []experimentRun
	// target is the database; once size has run, it includes the memory.
	target string
	// finalBytes is the table size from which the memory is computed as a share; 0 if
	// the scenario does not set the memory.
	finalBytes int64
}

// An experimentRun is one run, as flags of `bench insert`.
type experimentRun struct {
	name string
	f    benchFlags
}

// newExperiment determines the runs, and refuses impossible ones. It opens no
// database.
func newExperiment(d *scenario.Declaration, f scenarioFlags) (*scenarioPlan, error) {
	e := &scenarioPlan{d: d, scale: f.scale, rows: int64(math.Round(float64(d.Rows) * f.scale)), target: d.Target}
	if f.target != "" {
		e.target = f.target
	}
	if err := target.Check(e.target); err != nil {
		if f.target != "" {
			return nil, usagef(hintOf(err), "--target: %w", err)
		}
		return nil, usagef(hintOf(err), "%s: target: %w", d.Source, err)
	}
	var err error
	if e.target, err = target.WithDurability(e.target, d.Durability); err != nil {
		return nil, err
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		one, err := e.flags(r, f)
		if err != nil {
			return nil, err
		}
		e.runs = append(e.runs, experimentRun{r.Name, one})
	}
	return e, nil
}

// minScenarioRows is the least number of rows of a run or a period. With fewer, the
// measurement shows mainly the start of a server.
const minScenarioRows = 1000

// flags returns a run as checked flags of `bench insert`.
func (e *scenarioPlan) flags(r *scenario.Run, f scenarioFlags) (out benchFlags, err error) {
	if e.rows < minScenarioRows {
		return out, usagef(fmt.Sprintf("--scale %.2g", math.Ceil(1e4*minScenarioRows/float64(e.d.Rows))/1e4),
			"--scale %v: %d rows a run are too few to measure", e.scale, e.rows)
	}
	out = benchFlags{
		target: e.target, preset: r.Preset, method: r.Method, layouts: []string{r.Layout}, repeat: 1,
		rows: e.rows, maxTime: r.MaxTime, interval: f.interval, writers: r.Writers, batch: r.Batch, rate: r.Rate,
		seed: f.seed, keepPeriods: r.KeepPeriods, dropExisting: f.dropExisting, noVerify: f.noVerify,
	}
	if f.maxTimeGiven {
		out.maxTime = f.maxTime
	}
	if r.Indexes != nil {
		out.indexes, out.indexesGiven = *r.Indexes, true
	}
	if r.PeriodShare > 0 {
		out.periodRows = int64(math.Round(r.PeriodShare * float64(e.rows)))
		if out.periodRows < minScenarioRows {
			return out, usagef(fmt.Sprintf("--scale %.2g", math.Ceil(1e4*minScenarioRows/r.PeriodShare/float64(e.d.Rows))/1e4),
				"--scale %v: periods of run %s would have %d rows: want at least %d", e.scale, r.Name, out.periodRows, minScenarioRows)
		}
	}
	if err := errors.Join(out.check(), out.tryOut()); err != nil {
		hint := "another --target, or a copy of the scenario: --print"
		if h := hintOf(err); h != "" && h != benchInsertHelp {
			hint = h
		}
		return out, usagef(hint, "%s: run %s: %w", e.d.At(r.Name, keyOf(err)), r.Name, err)
	}
	return out, nil
}

// benchInsertHelp is the hint of errors without a more specific one.
const benchInsertHelp = "rowmill bench insert --help"

// keyOf returns the key of the run to which an error refers, if its text names one,
// and otherwise the run's name.
func keyOf(err error) string {
	for _, key := range []string{"method", "indexes", "keep-periods", "period", "batch", "rate", "layout", "preset"} {
		if strings.Contains(err.Error(), key) {
			return key
		}
	}
	return "name"
}

// The sample has scenarioSample rows, or scenarioSampleShare of the rows if that is
// less, but at least minScenarioSample. It is large enough that the first extents of
// the table and its indexes don't dominate, and that pages have been split as in the
// full table.
const (
	scenarioSample      = 200_000
	scenarioSampleShare = 0.1
	minScenarioSample   = 20_000
)

// size measures bytes per row on a sample, and sets the memory of the runs.
func (e *scenarioPlan) size(ctx context.Context, note func(string)) (err error) {
	if e.d.MemoryShare == 0 {
		return nil
	}
	least, unit, ok := target.MemoryFloor(e.target)
	if !ok {
		note("memory stays as the target has it: the scenario's is " + e.memoryWords())
		return nil
	}
	var f *benchFlags
	for i := range e.runs {
		if e.runs[i].name == e.d.MemoryOf {
			f = &e.runs[i].f
		}
	}
	rows := max(minScenarioSample, min(scenarioSample, int64(scenarioSampleShare*float64(e.rows))))
	note(fmt.Sprintf("measuring bytes per row of %s on a sample of %s, for %s", e.d.MemoryOf, plural(rows, "row"), e.memoryWords()))
	perRow, err := bytesPerRow(ctx, *f, rows, note)
	if err != nil {
		return err
	}
	e.finalBytes = int64(perRow * float64(e.rows))
	memory := int64(math.Round(e.d.MemoryShare*float64(e.finalBytes)/float64(unit))) * unit
	if memory < least {
		return usagef(fmt.Sprintf("--scale %.2g", math.Ceil(100*e.scale*float64(least)/(e.d.MemoryShare*float64(e.finalBytes)))/100),
			"--scale %v: %s are %s, and %s takes at least %s: the shape would be another one",
			e.scale, e.memoryWords(), figure.Bytes(e.d.MemoryShare*float64(e.finalBytes)), e.target, sandbox.FormatSize(least))
	}
	note(fmt.Sprintf("%s: %.0f bytes per row, %s in the end, memory %s", e.d.MemoryOf, perRow, figure.Bytes(float64(e.finalBytes)), figure.Bytes(float64(memory))))
	e.target, err = target.WithMemory(e.target, memory)
	return err
}

func (e *scenarioPlan) memoryWords() string {
	return fmt.Sprintf("%v of the final size of %s", e.d.MemoryShare, e.d.MemoryOf)
}

// bytesPerRow measures the bytes per row of a run's table, on a sample on its target.
func bytesPerRow(ctx context.Context, f benchFlags, rows int64, note func(string)) (perRow float64, err error) {
	db, err := target.Open(ctx, f.target, note)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w, err := workload.NewInsert(db, sampleOptions(f))
	if err != nil {
		return 0, err
	}
	return w.BytesPerRow(ctx, rows)
}

// sampleOptions returns the options of a plain table, loaded at full speed: the insert
// method does not affect its size.
func sampleOptions(f benchFlags) workload.InsertOptions {
	f.periodRows, f.keepPeriods, f.method, f.batch = 0, 0, "", 0
	o := f.insertOptions(workload.Plain)
	o.Method = engine.Method(f.method)
	return o
}

// record returns the description of the experiment for a run's record.
func (e *scenarioPlan) record(run string) *result.Scenario {
	s := e.d.Record(run, e.scale, e.finalBytes)
	if e.finalBytes == 0 {
		s.MemoryShare, s.MemoryOf = 0, ""
	}
	return s
}

// plan describes the runs and estimates how long they take.
func (e *scenarioPlan) plan(todo []experimentRun) []string {
	lines := []string{fmt.Sprintf("%s: %s", e.d.Name, e.d.Title),
		fmt.Sprintf("%s of %s on %s", plural(len(todo), "run"), plural(e.rows, "row"), e.target)}
	share := float64(len(todo)) / float64(len(e.runs))
	took := time.Duration(float64(e.d.Takes) * e.scale * share)
	var most time.Duration
	for _, r := range todo {
		if r.f.maxTime == 0 {
			most = 0
			break
		}
		most += r.f.maxTime
	}
	switch {
	case e.d.Takes == 0 && most > 0:
		lines = append(lines, fmt.Sprintf("at most %s of inserting, by the runs' limits of time", brief(most)))
	case e.d.Takes > 0 && most > 0 && took > most:
		lines = append(lines, fmt.Sprintf("about %s, where the runs' limits of time end them; then their curves are cut", brief(most)))
	case e.d.Takes > 0:
		lines = append(lines, fmt.Sprintf("about %s on 2 cores", brief(max(took, time.Second))))
		if most > 0 {
			lines[len(lines)-1] += fmt.Sprintf(", at most %s of inserting by the runs' limits of time", brief(most))
		}
	}
	for _, r := range todo {
		if int64(r.f.batch)*8 > e.rows {
			lines = append(lines, fmt.Sprintf("! run %s: %s are less than 8 batches, so that there is no first or last rate of them", r.name, plural(e.rows, "row")))
		}
	}
	return lines
}
