package experiment

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/kill"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/result"
)

// A measurement is one run of any workload on an open target: its counters and its
// record, from the header to the end. begin and measure are called in this order.
type measurement struct {
	env   *Env
	trial *Trial
	db    *target.DB
	// workEvery is the interval at which a fixed computation is timed; 0 means never.
	workEvery time.Duration
	// polled means that no client of the workload blocks a thread while it waits for its server.
	polled bool
	// warm is the number of rows of the warm-up, which note counts together with those of the run.
	warm int64
	// note, if set, completes an interval before it is recorded.
	note func(*result.Interval)
	// watch, if set, is called after each interval with the record so far.
	watch func(*result.Record)

	cfg   bench.Config
	probe *probe.Probe
	// counters are the counters of the probe; nil if the engine has none.
	counters engine.Counters
	// replicas are opened to measure their delay.
	replicas target.Replicas
	rec      *result.Record
	// kill kills the server during the run; nil if it is not to be killed.
	kill *kill.Killer
	// earlier is the run that this one continues; nil for a new run. from says where it continues.
	earlier *result.Record
	from    result.Resumes
	known   int // number of warnings in the header
}

// begin opens the counters and writes the record's first line. own has the fields of the header
// that only the workload knows; shown is the run's name as it is shown to users.
func (m *measurement) begin(ctx context.Context, tables []*engine.Table, cfg bench.Config, own result.Run, shown string) error {
	m.cfg = cfg
	if err := m.openProbe(ctx, tables); err != nil {
		return err
	}
	info, caps := m.db.Info(), m.db.Capabilities()
	settings, err := m.db.Catalog().Settings(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("read the server's settings: %w", err), m.close())
	}
	run := m.env.header(m.trial, &cfg, own)
	run.Started, run.Target = time.Now().UTC(), m.db.Text
	if len(m.db.Nodes) > 1 {
		for _, n := range m.db.Nodes {
			run.Nodes = append(run.Nodes, result.Node{Target: n.Target, Engine: n.Engine, PID: n.PID, DataDir: n.DataDir})
		}
	}
	run.Engine, run.ServerVersion, run.Storage = info.Engine, info.Version, info.Storage
	run.Durability, run.CacheBytes, run.Embedded, run.Settings = info.Durability, info.CacheBytes, caps.Embedded, settings
	run.Machine, run.Counters = probe.Machine(info.DataDir), m.probe.Describe()
	run.Warnings = append(run.Warnings, m.probe.Warnings()...)
	m.known = len(m.probe.Warnings())
	if m.earlier != nil {
		run.Resumes = &m.from
	}
	if err := m.env.Out.Run(run); err != nil {
		return errors.Join(err, m.close())
	}
	m.rec = &result.Record{Run: run, Source: m.env.Out.Path}
	if m.earlier != nil {
		m.rec = m.earlier
		m.rec.Resume(run)
	}
	run.Name = shown
	m.env.Show.Begin(run)
	return nil
}

func (m *measurement) openProbe(ctx context.Context, tables []*engine.Table) (err error) {
	info, caps := m.db.Info(), m.db.Capabilities()
	node := probe.Node{Embedded: caps.Embedded, ServerPID: info.PID, DataDir: info.DataDir}
	if caps.Stores {
		m.counters, err = m.db.Counters(ctx, tables...)
		if err != nil {
			return fmt.Errorf("open the server's counters: %w", err)
		}
		node.DB = m.counters
	}
	m.probe = probe.New(ctx, probe.Config{Node: &node, Interval: m.cfg.Interval, WorkEvery: m.workEvery})
	if err := m.watchReplicas(ctx); err != nil {
		return errors.Join(err, m.close())
	}
	return nil
}

// replicaTargets returns the replicas of a private server, and the replicas that the Spec names.
func (m *measurement) replicaTargets() (all []string) {
	for _, n := range m.db.Nodes {
		if n.Replica {
			all = append(all, n.Target)
		}
	}
	return append(all, m.trial.Spec.Replicas...)
}

// watchReplicas opens the replicas of the run, and measures their delay.
func (m *measurement) watchReplicas(ctx context.Context) error {
	all := m.replicaTargets()
	if len(all) == 0 {
		return nil
	}
	source, ok := m.db.DB.(engine.Keeper)
	if !ok {
		return refuse("--target "+target.ExampleServer, "--replica: %s has no replicas", m.db.Text)
	}
	var err error
	if m.replicas, err = target.OpenReplicas(ctx, source, all, m.env.Show.Note, nil); errors.Is(err, target.ErrNoReplica) {
		return refuse("--replica URL of a replica of "+m.db.Text, "--replica: %w", err)
	}
	if err != nil {
		return err
	}
	var replicas []probe.Replica
	for i, r := range m.replicas {
		replicas = append(replicas, probe.Replica{Name: fmt.Sprintf("replica %d", i+1), Open: r.Open})
	}
	return m.probe.WatchReplicas(ctx, source, replicas)
}

// close closes the probe and then its counters. Further calls do nothing.
func (m *measurement) close() error {
	var err error
	if m.probe != nil {
		err = m.probe.Close()
	}
	if m.counters != nil {
		err = errors.Join(err, m.counters.Close())
		m.counters = nil
	}
	err = errors.Join(err, m.replicas.Close())
	m.replicas = nil
	return err
}

// warmUp runs the load for a while without measuring it, so that the server fills its caches and
// works as usual.
func (m *measurement) warmUp(ctx context.Context, w bench.Workload, cfg bench.Config) (done bench.Outcome, err error) {
	d := m.trial.Spec.Warmup.D()
	if d == 0 {
		return done, nil
	}
	m.env.Show.Note(fmt.Sprintf("warming up for %v", d))
	cfg.MaxTime = d
	cfg.Observe = func(iv result.Interval) error {
		if m.note != nil {
			m.note(&iv) // it may keep counts from one interval to the next
			m.warm = iv.Rows
		}
		return nil
	}
	return bench.Run(ctx, w, cfg)
}

// measure runs the workload and writes the rest of the record. prove, if set, examines the database
// after the run, also after a failed run, and adds to the record's end. An error of prove fails the
// run.
func (m *measurement) measure(ctx context.Context, w bench.Workload, prove func(ctx context.Context, end *result.End) error) error {
	end, cfg := result.End{}, m.cfg
	cfg.Died, cfg.Death = m.db.Died()
	if m.kill != nil {
		cfg.Died, cfg.Outage = m.kill.Died(), m.kill.Outage
	}
	cfg.Sample = m.probe.Sample
	over := m.goOn(&cfg)
	cfg.Observe = func(iv result.Interval) error {
		m.shift(&iv)
		if m.note != nil {
			m.note(&iv)
			iv.Rows -= m.warm
		}
		m.rec.Add(iv)
		m.env.Show.Interval(iv)
		if m.watch != nil {
			m.watch(m.rec)
		}
		return m.env.Out.Interval(iv)
	}
	clients := cfg.Clients
	for _, l := range cfg.Beside {
		clients += l.Clients
	}
	if m.polled {
		clients = 0
	}
	restore := prepareRuntime(m.db.Capabilities(), clients)
	defer restore()
	done, err := m.warmUp(ctx, w, cfg)
	switch {
	case err != nil || done.Err != nil || done.Stopped == bench.StoppedInterrupted:
	case over != "":
		done.Stopped = over
	default:
		cfg.Opened = func() { m.probe.Start(ctx) }
		done, err = bench.Run(ctx, w, cfg)
	}
	if err != nil {
		done = bench.Outcome{Stopped: bench.StoppedFailed, Err: err}
		if ctx.Err() != nil { // interrupted while the clients connected
			done = bench.Outcome{Stopped: bench.StoppedInterrupted}
		}
	}
	end.Stopped = done.Stopped
	if m.kill != nil {
		end.Kills = m.kill.Kills
		if m.earlier != nil && m.earlier.End != nil {
			end.Kills += m.earlier.End.Kills
		}
	}
	if done.BrokenOff > 0 {
		end.Warnings = append(end.Warnings, fmt.Sprintf("%d operations were broken off as the run ended: the database may have performed them", done.BrokenOff))
	}
	end.ClientCPUSeconds = m.probe.ClientCPUSeconds()
	if cpu, ok := m.probe.ServerCPUSeconds(); ok {
		end.ServerCPUSeconds = &cpu
	}
	err = done.Err
	if err == nil && ctx.Err() == nil {
		err = m.catchUp(ctx, &end)
	}
	err = errors.Join(err, m.close())
	// The header has the warnings from before the run.
	if all := m.probe.Warnings(); len(all) > m.known {
		end.Warnings = append(end.Warnings, all[m.known:]...)
	}
	if prove != nil {
		failed := prove(ctx, &end)
		if errors.Is(failed, context.Canceled) && ctx.Err() != nil {
			end.Verified, failed = nil, nil
			end.Warnings = append(end.Warnings, "not verified: interrupted")
		}
		err = errors.Join(err, failed)
	}
	if errors.Is(err, engine.ErrDiskFull) && engine.HintOf(err) == "" {
		err = engine.Hinted(fmt.Errorf("the server's disk is full: %w", err), "more room for its data directory, or fewer rows")
	}
	if err != nil {
		end.Stopped, end.Failure = bench.StoppedFailed, err.Error()
	}
	m.rec.End = &end
	summary := m.rec.Summary()
	end.Summary = &summary
	m.env.Show.End(summary)
	return errors.Join(err, m.env.Out.End(end))
}

// catchUp waits until the replicas have all changes that the run committed.
func (m *measurement) catchUp(ctx context.Context, end *result.End) error {
	took, err := m.probe.CatchUp(ctx)
	if ctx.Err() != nil {
		return nil // interrupted
	}
	end.CatchUpSeconds = took.Seconds()
	if took > m.cfg.Interval && err == nil {
		end.Warnings = append(end.Warnings, fmt.Sprintf("the replicas had all commits %s after the run's end", figure.Seconds(took.Seconds())))
	}
	return err
}

// goOn reduces the limits of a continued run to the remaining part. If nothing
// remains, it returns why the run has ended.
func (m *measurement) goOn(cfg *bench.Config) (over string) {
	if m.earlier == nil {
		return ""
	}
	if cfg.Rows > 0 {
		if cfg.Rows -= m.from.Rows; cfg.Rows <= 0 {
			return bench.StoppedRows
		}
	}
	if cfg.MaxTime > 0 {
		if cfg.MaxTime -= time.Duration(m.from.Seconds * float64(time.Second)); cfg.MaxTime <= 0 {
			return bench.StoppedTime
		}
	}
	return ""
}

// shift adds the end of the earlier run to the counts and times of an interval.
func (m *measurement) shift(iv *result.Interval) {
	if m.earlier == nil {
		return
	}
	iv.Rows += m.from.Rows
	iv.Elapsed += m.from.Seconds
	for i := range iv.Marks {
		iv.Marks[i][0] += float64(m.from.Rows)
		iv.Marks[i][1] += m.from.Seconds
	}
	for i := range iv.Events {
		iv.Events[i].Elapsed += m.from.Seconds
	}
}

func (m *measurement) rows() int64 {
	if n := len(m.rec.Intervals); n > 0 {
		return m.rec.Intervals[n-1].Rows
	}
	return 0
}

// During a run, Go collects garbage once per 128 MiB of garbage instead of once per few MiB:
// collections take CPU time from the clients, and their pauses delay clients that wait for the
// server.
const (
	// gcPercent makes Go's smallest heap 128 MiB; at 100 percent it is 4 MiB.
	gcPercent = 3200
	// memoryLimit, plus memoryPerClient for each client's histograms and rows, limits the memory of
	// this process: gcPercent alone would let a large heap grow to many times its size.
	memoryLimit     = 256 << 20
	memoryPerClient = 1 << 20
)

// prepareRuntime adjusts Go's runtime to a run. The returned function undoes it.
func prepareRuntime(caps engine.Capabilities, clients int) (restore func()) {
	procs := runtime.GOMAXPROCS(0)
	if caps.Blocks {
		runtime.GOMAXPROCS(procs + clients)
	}
	percent, limit := debug.SetGCPercent(gcPercent), debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, memoryLimit+int64(clients)*memoryPerClient))
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(procs)
	}
}
