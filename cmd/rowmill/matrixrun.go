package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rowmill/rowmill/bench"
	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/result"
)

// manyFailures is after how many failures in a row a matrix ends: its server is
// gone, and the cells that are left deserve better than to be recorded as
// failed.
const manyFailures = 5

// runMatrix makes the runs and returns those that began. A run that fails is
// recorded, and the next one made.
func (a *app) runMatrix(ctx context.Context, d *matrixDesign, left []cellRun, command []string, took estimate, out *recordFile) (recs []result.Record, err error) {
	if len(left) == 0 {
		return nil, nil
	}
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	show := a.newProgress(interrupt)
	defer show.Close()
	show.Note(fmt.Sprintf("%s: %s", plural(len(left), "run"), took))
	for _, l := range d.leftOut {
		show.Note("left out: " + l.Factor + "=" + l.Level + ": " + l.Why)
	}
	began := time.Now()
	failures := 0
	var late []error // of runs that are complete in the record
	for i := range left {
		c := &left[i]
		note := fmt.Sprintf("run %d of %d: %s", c.cell.Order, c.cell.Runs, c.cell.Name())
		if i > 0 {
			// The order is random, so that the runs so far stand for the rest.
			rest := time.Since(began) / time.Duration(i) * time.Duration(len(left)-i)
			note += fmt.Sprintf("; about %s left", rest.Round(time.Second))
		}
		show.Note(note)
		one := &insertRun{f: c.f, layout: c.layout, args: command, first: len(recs)+len(d.f.done) == 0, repeat: c.repeat, cell: c.cell,
			measurement: measurement{out: out, show: show, interval: d.f.interval}}
		rec, err := one.runCell(ctx, d.private())
		if rec != nil {
			recs = append(recs, *rec)
		}
		if ctx.Err() != nil {
			if len(recs)+len(d.f.done) == 0 {
				return nil, errors.Join(errInterruptedEarly, notInterrupt(err))
			}
			return recs, errors.Join(errInterrupted, notInterrupt(err))
		}
		if err == nil {
			failures = 0
			continue
		}
		if rec == nil && len(recs)+len(d.f.done) == 0 || errors.Is(err, engine.ErrTableExists) || errors.Is(err, errRecord) {
			// Nothing has ever worked here, or nothing could be recorded.
			return recs, fmt.Errorf("%s: %w", c.cell.Name(), err)
		}
		show.Note(fmt.Sprintf("failed: %s: %v", c.cell.Name(), err))
		if rec != nil && rec.End.Stopped != bench.StoppedFailed {
			late = append(late, fmt.Errorf("after %s: %w", c.cell.Name(), err))
			continue
		}
		if rec == nil {
			failed := result.Record{Run: d.failedRun(c, command), End: &result.End{Stopped: bench.StoppedFailed, Failure: err.Error()}}
			if err := errors.Join(out.run(failed.Run), out.End(*failed.End)); err != nil {
				return recs, err
			}
			recs = append(recs, failed)
		}
		if failures++; failures == manyFailures {
			return recs, engine.Hinted(fmt.Errorf("%d runs in a row failed, the last with: %w", failures, err), "--resume, with --retry-failed, once that is mended")
		}
	}
	return recs, errors.Join(late...)
}

// errRecord marks a failure to write the record.
var errRecord = errors.New("the record can't be written")

// notInterrupt returns an error unless it comes from the interrupt itself.
func notInterrupt(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, errInterruptedEarly) {
		return nil
	}
	return err
}

// runCell is run for a cell: what the one before left is waited for, and on
// a database that stays the tables are dropped afterwards, so that
// each cell finds the same.
func (r *insertRun) runCell(ctx context.Context, private bool) (_ *result.Record, err error) {
	if err := syncDisk(ctx); err != nil {
		return nil, err
	}
	if r.db, err = openTarget(ctx, r.f.target, r.show.Note); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.db.close()) }()
	schema, err := r.setup(ctx)
	if err != nil {
		return nil, err
	}
	if !private {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
			defer cancel()
			err = errors.Join(err, r.w.Drop(ctx))
		}()
		if err := r.settle(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.header(ctx, schema); err != nil {
		return nil, err
	}
	cfg := r.f.config(r.w.Options())
	err = r.measure(ctx, r.w, cfg, r.prove)
	if r.out.failed() {
		err = errors.Join(err, errRecord)
	}
	return r.rec, err
}

// Settling: how often a server that stays is asked how much of its cache is
// dirty, from which share on that is little, how long it is waited while it
// falls, and for how many readings without any fall. Servers that flush nothing
// while idle would be waited for in vain.
const (
	settleEvery   = 500 * time.Millisecond
	settledShare  = 0.05
	settleMost    = time.Minute
	settleReading = 6
)

// settle waits until the server has written what the cell before left dirty, or
// has stopped doing so. Engines without that figure are not waited for.
func (r *insertRun) settle(ctx context.Context) error {
	if !r.db.Capabilities().Stores {
		return nil
	}
	counters, err := r.db.Counters(ctx, r.w.Tables()...)
	if err != nil {
		return fmt.Errorf("open the server's counters: %w", err)
	}
	defer counters.Close()
	all := counters.Describe()
	at := slices.IndexFunc(all, func(c engine.Counter) bool { return c.Name == engine.CounterCacheDirty })
	if at < 0 {
		return nil
	}
	values := make([]float64, len(all))
	least, still, said := math.Inf(1), 0, false
	for end := time.Now().Add(settleMost); time.Now().Before(end) && still < settleReading; {
		if err := counters.Sample(ctx, values); err != nil {
			return err
		}
		dirty := values[at]
		if math.IsNaN(dirty) || dirty <= settledShare*float64(r.db.Info().CacheBytes) {
			return nil
		}
		if !said {
			said = true
			r.show.Note("waiting for the server to write its dirty pages")
		}
		if still++; dirty < least {
			least, still = dirty, 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleEvery):
		}
	}
	return nil
}
