package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/result"
)

// manyFailures is the number of consecutive failures after which a matrix ends: its
// server is probably gone, and the remaining cells should not be recorded as failed.
const manyFailures = 5

// runMatrix executes the runs and returns the records of those that began. After a
// failed run, it records the failure and continues with the next.
func (a *app) runMatrix(ctx context.Context, d *matrixDesign, left []cellRun, command []string, took estimate, out *recordFile) (recs []result.Record, err error) {
	if len(left) == 0 {
		return nil, nil
	}
	show := a.newProgress(ctx)
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
			// The order is random, so that the past runs are representative of the
			// rest.
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
			// No run has succeeded yet, or the record can't be written.
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

// notInterrupt returns err, or nil if the interrupt itself caused it.
func notInterrupt(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, errInterruptedEarly) {
		return nil
	}
	return err
}

// runCell runs a cell. It first waits for the work that the previous cell left to the
// server. On a permanent database, it drops the tables afterwards, so that each cell
// starts from the same state.
func (r *insertRun) runCell(ctx context.Context, private bool) (_ *result.Record, err error) {
	if err := syncDisk(ctx); err != nil {
		return nil, err
	}
	if r.db, err = target.Open(ctx, r.f.target, r.show.Note); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
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

// Settling, on a permanent server: the interval between readings of the dirty share of
// its cache, the share below which it has settled, the longest wait, and the number of
// readings without any decrease that ends the wait. The last limit is for servers that
// flush nothing while idle.
const (
	settleEvery   = 500 * time.Millisecond
	settledShare  = 0.05
	settleMost    = time.Minute
	settleReading = 6
)

// settle waits until the server has written the pages that the previous cell left
// dirty, or has stopped writing. It doesn't wait for engines without that counter.
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
