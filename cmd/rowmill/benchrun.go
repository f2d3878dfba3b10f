package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/rowmill/rowmill/bench"
	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/probe"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/workload"
)

// errInterrupted ends a command that was asked to stop.
var errInterrupted = errors.New("interrupted; what was measured is reported")

// errInterruptedEarly ends a run that was asked to stop while it was prepared.
var errInterruptedEarly = errors.New("interrupted before anything was measured")

// An insertRun measures one layout.
type insertRun struct {
	f      benchFlags
	layout string
	args   []string
	out    *recordFile
	show   progress
	first  bool // of all runs
	// repeat counts the runs of this layout from 1 to repeats; both are 0 where
	// there is one. side is which of two that are compared it belongs to.
	repeat, repeats int
	side            string

	db    *target
	w     *workload.Insert
	probe *probe.Probe
	// counters are the probe's; nil where the engine has none.
	counters engine.Counters
	rec      *result.Record
}

// run opens the target, measures and verifies. The record is nil when the
// measurement never began.
func (r *insertRun) run(ctx context.Context) (_ *result.Record, err error) {
	defer func() {
		if r.rec == nil && err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errInterruptedEarly, err)
		}
	}()
	if r.db, err = openTarget(ctx, r.f.target, r.show.Note); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.db.close()) }()
	schema, err := r.setup(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.openProbe(ctx); err != nil {
		return nil, err
	}
	// Closed explicitly below, for its warnings; this is for early returns.
	defer func() { err = errors.Join(err, r.closeProbe()) }()
	if err := r.header(ctx, schema); err != nil {
		return nil, err
	}
	return r.rec, r.measure(ctx)
}

// setup creates the tables and returns the statements that did.
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
	// From the second run on, a table that is there is the one before.
	return r.w.Setup(ctx, r.f.dropExisting || !r.first)
}

func (r *insertRun) openProbe(ctx context.Context) (err error) {
	info, caps := r.db.Info(), r.db.Capabilities()
	cfg := probe.Config{Embedded: caps.Embedded, ServerPID: info.PID, DataDir: info.DataDir, Interval: r.f.interval}
	if caps.Stores {
		r.counters, err = r.db.Counters(ctx, r.w.Tables()...)
		if err != nil {
			return fmt.Errorf("open the server's counters: %w", err)
		}
		cfg.DB = r.counters
	}
	if r.probe, err = probe.New(ctx, cfg); err != nil {
		err = errors.Join(err, r.closeCounters())
	}
	return err
}

// closeProbe closes the probe and then its counters. Further calls do nothing.
func (r *insertRun) closeProbe() error { return errors.Join(r.probe.Close(), r.closeCounters()) }

func (r *insertRun) closeCounters() error {
	if r.counters == nil {
		return nil
	}
	err := r.counters.Close()
	r.counters = nil
	return err
}

// header writes the record's first line.
func (r *insertRun) header(ctx context.Context, schema []string) error {
	info, caps, o := r.db.Info(), r.db.Capabilities(), r.w.Options()
	settings, err := r.db.Catalog().Settings(ctx)
	if err != nil {
		return fmt.Errorf("read the server's settings: %w", err)
	}
	period, why := r.w.Period()
	run := result.Run{
		Name: fmt.Sprintf("%s %s on %s", o.Preset, r.layout, info.Engine), Repeat: r.repeat, Side: r.side,
		Started: time.Now().UTC(), Rowmill: versionString(), Command: r.args,
		Workload: "insert", Preset: o.Preset, Layout: r.layout, Seed: o.Seed,
		Rows: r.f.rows, MaxTimeSeconds: r.f.maxTime.Seconds(), Writers: o.Writers, Batch: o.Batch,
		Method: string(o.Method), Indexes: r.w.Indexes(), Rate: r.f.rate, IntervalSeconds: r.f.interval.Seconds(),
		Period: period, PeriodWhy: why, KeepPeriods: o.KeepPeriods, Deviations: r.w.Deviations(),
		Target: r.db.text, Engine: info.Engine, ServerVersion: info.Version, Storage: info.Storage,
		Durability: info.Durability, CacheBytes: info.CacheBytes, Embedded: caps.Embedded, Settings: settings,
		Schema: schema, Machine: probe.Machine(info.DataDir), Counters: r.probe.Describe(), Warnings: r.probe.Warnings(),
	}
	shown := run
	if r.repeats > 0 {
		run.Name += fmt.Sprintf(" #%d", r.repeat)
		shown.Name = fmt.Sprintf("%s of %d", run.Name, r.repeats)
		if r.side != "" {
			shown.Name = r.side + ": " + shown.Name
		}
	}
	if err := r.out.run(run); err != nil {
		return err
	}
	r.rec = &result.Record{Run: run, Source: r.out.path}
	r.show.Begin(shown)
	return nil
}

// measure runs the workload and writes the rest of the record.
func (r *insertRun) measure(ctx context.Context) error {
	end := result.End{}
	cfg := r.f.config(r.w.Options())
	cfg.Died, cfg.Death = r.db.died()
	cfg.Sample = func(ctx context.Context, elapsed time.Duration) map[string]float64 {
		return r.probe.Sample(ctx, elapsed).Counters
	}
	cfg.Observe = func(iv result.Interval) error {
		r.rec.Intervals = append(r.rec.Intervals, iv)
		r.show.Interval(iv)
		return r.out.Interval(iv)
	}
	defer r.prepareRuntime(cfg.Clients)()
	r.probe.Start(ctx)
	done, err := bench.Run(ctx, r.w, cfg)
	if err != nil {
		done = bench.Outcome{Stopped: bench.StoppedFailed, Err: err}
		if ctx.Err() != nil { // while the clients connected
			done = bench.Outcome{Stopped: bench.StoppedInterrupted}
		}
	}
	end.Stopped = done.Stopped
	if done.BrokenOff > 0 {
		end.Warnings = append(end.Warnings, fmt.Sprintf("%d operations were broken off as the run ended: the database may have performed them", done.BrokenOff))
	}
	end.ClientCPUSeconds = r.probe.ClientCPUSeconds()
	if cpu, ok := r.probe.ServerCPUSeconds(); ok {
		end.ServerCPUSeconds = &cpu
	}
	err = errors.Join(done.Err, r.closeProbe())
	// The header has those from before the run.
	if all := r.probe.Warnings(); len(all) > len(r.rec.Run.Warnings) {
		end.Warnings = append(end.Warnings, all[len(r.rec.Run.Warnings):]...)
	}
	err = errors.Join(err, r.prove(ctx, &end))
	end.Warnings = append(end.Warnings, r.w.Warnings()...)
	if err != nil {
		end.Stopped, end.Failure = bench.StoppedFailed, err.Error()
	}
	r.rec.End = &end
	summary := r.rec.Summary()
	end.Summary = &summary
	r.show.End(summary)
	return errors.Join(err, r.out.End(end))
}

// headroom is memory that is never touched, and so never given by the system.
// The garbage collector counts it, and runs once for each so many bytes of
// garbage instead of once for each few MiB: collecting takes time from the
// clients, and its pauses wait for those that are waiting for the server.
const headroom = 128 << 20

// prepareRuntime fits Go's runtime to a run. The returned function undoes it.
func (r *insertRun) prepareRuntime(clients int) (restore func()) {
	procs := runtime.GOMAXPROCS(0)
	if r.db.Capabilities().Blocks {
		runtime.GOMAXPROCS(procs + clients)
	}
	untouched := make([]byte, headroom)
	return func() {
		runtime.KeepAlive(untouched)
		runtime.GOMAXPROCS(procs)
	}
}

// afterwards bounds what is read from the server once an interrupted run is
// over.
const afterwards = 20 * time.Second

// prove verifies the table, unless the run failed or was interrupted, and
// measures its size.
func (r *insertRun) prove(ctx context.Context, end *result.End) error {
	skip := ""
	switch {
	case r.f.noVerify:
		skip = "--no-verify was given"
	case !r.db.Capabilities().Stores:
		skip = "the " + r.db.Info().Engine + " engine stores nothing"
	case end.Stopped == bench.StoppedFailed:
		skip = "the run failed"
	case end.Stopped == bench.StoppedInterrupted:
		skip = "the run was interrupted"
	}
	var failed error
	if skip != "" {
		end.Warnings = append(end.Warnings, "not verified: "+skip)
	} else {
		failed = r.verify(ctx, end)
	}
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
	rows := r.rows() - r.w.DroppedRows()
	if rows > 0 {
		end.Size.PerRow = float64(size.Data+size.Index) / float64(rows)
	}
	return nil
}

// rows returns how many rows were acknowledged.
func (r *insertRun) rows() int64 {
	if n := len(r.rec.Intervals); n > 0 {
		return r.rec.Intervals[n-1].Rows
	}
	return 0
}

// verifyNote is how often verifying says how far it is.
const verifyNote = 5 * time.Second

// verify compares the tables with what the seed gives.
func (r *insertRun) verify(ctx context.Context, end *result.End) error {
	r.show.Note("verifying the table")
	said := time.Now()
	proof, err := r.w.Verify(ctx, func(rows int64) {
		if time.Since(said) > verifyNote {
			said = time.Now()
			r.show.Note(fmt.Sprintf("verifying the table: %d of %d rows", rows, r.rows()))
		}
	})
	end.Warnings = append(end.Warnings, proof.Warnings...)
	if err != nil {
		if ctx.Err() != nil {
			end.Warnings = append(end.Warnings, "not verified: interrupted meanwhile")
			return nil
		}
		return errors.Join(r.death(err), err)
	}
	end.Verified = &result.Verified{Expected: proof.Expected, Found: proof.Found, Checksum: proof.Checksum}
	end.DroppedRows = proof.DroppedRows
	for _, p := range proof.Periods {
		end.Periods = append(end.Periods, result.Period{
			Name: p.Name, From: p.From, To: p.To, Expected: p.Expected, Found: p.Found, Checksum: &p.Checksum})
	}
	if !proof.Checksum {
		return engine.Hinted(fmt.Errorf("verification failed: of %d rows expected %d were found, and they are not all the rows that were sent",
			proof.Expected, proof.Found), "the record's periods, to see where")
	}
	return nil
}

// deathNews is how long the end of the server's process is waited for after a
// connection was lost: it is known a moment later.
const deathNews = time.Second

// death returns why the private server ended, where that is what an error comes
// from.
func (r *insertRun) death(err error) error {
	if r.db.server == nil || !errors.Is(err, engine.ErrConnectionLost) && !errors.Is(err, engine.ErrUnreachable) {
		return nil
	}
	select {
	case <-r.db.server.Done():
	case <-time.After(deathNews):
	}
	return r.db.server.Err()
}

// A recordFile is the file of --out, or nothing.
type recordFile struct {
	*result.Writer
	f       *os.File
	path    string
	created bool // by us
	written bool
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// openRecord opens the file for a record, so that a path that can't be written
// is known before anything is measured. What the file held is replaced only
// once there is something to replace it with.
func openRecord(path string) (*recordFile, error) {
	if path == "" {
		return &recordFile{Writer: result.NewWriter(discard{}), written: true}, nil
	}
	_, err := os.Stat(path)
	created := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &recordFile{Writer: result.NewWriter(f), f: f, path: path, created: created}, nil
}

// run writes a header; the first one replaces what the file held.
func (o *recordFile) run(run result.Run) error {
	if !o.written {
		if st, err := o.f.Stat(); err != nil {
			return fmt.Errorf("--out: %w", err)
		} else if st.Mode().IsRegular() {
			if err := o.f.Truncate(0); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
		}
		o.written = true
	}
	return o.Run(run)
}

func (o *recordFile) close() error {
	if o.f == nil {
		return nil
	}
	err := o.f.Close()
	if o.created && !o.written {
		err = errors.Join(err, os.Remove(o.path))
	}
	return err
}
