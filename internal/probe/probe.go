// Package probe reads the counters of the operating system, of rowmill's own
// process and of the database server, together, at the end of every interval of
// a run, so that a stall can be compared with the changes in these counters.
//
// The input is a Config: the engine's counters, the server's process and its data directory. The
// output is one sample per interval: figures by name, as package result records them. Cumulative
// counters are reported as rates per second of the actual time between two readings. Times are in
// seconds, sizes in bytes; fractions are between 0 and 1.
//
//   - Group "os" is the machine that rowmill runs on, which may not be the server's:
//     CPU time, the device that stores the data, memory, swapping, pressure, the
//     processors' frequency, throttling, and a fixed computation (Config.WorkEvery).
//   - Group "client" is rowmill's process: CPU, garbage collection, the time
//     that goroutines wait for a processor. With an embedded engine it includes
//     the engine's work.
//   - Group "server" is the server's process, all counters of its engine, and the delay of
//     its replicas (Probe.WatchReplicas).
//
// A counter that can't be read never fails a run: it is left out, and Warnings
// has the reason. A figure that is undefined for an interval is left out of it: a mean
// latency without reads, a rate if the counter went backwards.
//
// A stalled server does not answer queries either. Therefore a separate goroutine
// queries its counters, and Sample waits for at most a quarter of the interval; the next
// answer in time covers both intervals.
//
// A Sample costs about 0.14 ms of CPU time, with a server's process 0.2 ms
// (BenchmarkSample, 2 cores). The cost of the engine's own query is extra.
//
//	p := probe.New(ctx, probe.Config{Node: &probe.Node{DB: counters, ServerPID: info.PID, DataDir: info.DataDir}})
//	defer p.Close()
//	run.Counters, run.Warnings = p.Describe(), p.Warnings()
//	p.Start(ctx)
//	for range ticks {
//		interval.Counters = p.Sample(ctx, time.Since(begin))
//	}
package probe

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// Groups of figures, as named in result.Counter.
const (
	groupOS     = "os"
	groupClient = "client"
	groupServer = "server"
)

// Config selects what to read. The zero value reads only this machine and this process.
type Config struct {
	// Node is the server; nil is none.
	Node *Node
	// Interval is the expected time between calls of Sample; 0 is 1 s.
	Interval time.Duration
	// WorkEvery is the time between two timings of a fixed computation; 0 is never.
	WorkEvery time.Duration
}

// A Node is a server to watch.
type Node struct {
	// DB is the engine's counters; nil if there are none. The caller closes them after
	// Close; until then only the probe uses them.
	DB engine.Counters
	// ServerPID is the server's process on this machine, whose children are included;
	// 0 if unknown or on another machine.
	ServerPID int
	// DataDir is the server's data directory, "" if it is on another machine.
	DataDir  string
	Embedded bool // the engine runs in this process
}

// Machine describes this machine for the header of a run record; fields that can't be read are
// empty. Disk has the form "vda: MODEL, rotational, write back cache"; many virtual disks claim to
// be rotational.
func Machine(dataDir string) result.Machine { return hostSystem().machine(dataDir) }

func (sys system) machine(dataDir string) result.Machine {
	m := result.Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	sys.describeMachine(dataDir, &m)
	return m
}

// A Probe reads the figures. Only one goroutine at a time may call its methods, except Follow.
type Probe struct {
	interval time.Duration
	counters []result.Counter
	warnings []string
	sources  []*source
	client   *clientSource
	server   *server   // nil without a Node
	delays   *Delays   // nil without replicas
	last     time.Time // of the last sample
	closed   bool
}

// A source reads a group of figures together. gap counts its failures.
type source struct {
	counters []result.Counter
	// sample adds the figures since the previous call to out. The first call provides no rates.
	sample func(now time.Time, out figures) error
	close  func() // nil if there is nothing to close
	// replica is the name of one of several replicas, which precedes the names of its figures.
	replica string
	gap     gap
}

// figure returns the name of a figure: "server_cpu", or "replica 2/delay".
func (s *source) figure(name string) string {
	if s.replica == "" {
		return name
	}
	return s.replica + "/" + name
}

// A server is a Node with the sources of its figures.
type server struct {
	Node
	process *source      // of the server's process
	used    cpuTime      // of that process since Start
	newPID  atomic.Int64 // last passed to Follow
	poller  *poller      // nil without counters
	gap     gap
}

// cpuTime is CPU time in seconds. known is set by each successful reading.
type cpuTime struct {
	seconds float64
	known   bool
}

// New opens the sources that can be read on this machine; Warnings names the others. The probe goes
// on after the end of ctx, until Close, so that an interrupted run keeps its last interval.
func New(ctx context.Context, cfg Config) *Probe {
	ctx = context.WithoutCancel(ctx)
	p := &Probe{interval: cmp.Or(cfg.Interval, time.Second), client: newClientSource()}
	sys := hostSystem()
	sys.open(p.try)
	if cfg.Node != nil {
		p.server = &server{Node: *cfg.Node}
		sys.openDisk(cfg.Node.DataDir, p.try, p.warn)
	}
	p.add("client figures", &source{counters: clientCounters, sample: p.client.sample})
	if p.server != nil {
		p.openProcess(sys, p.server)
	}
	if cfg.WorkEvery > 0 {
		p.add("the fixed work", newWorkSource(ctx, cfg.WorkEvery, sys.cpu()))
	}
	if n := p.server; n != nil && n.DB != nil {
		n.poller = newPoller(ctx, n.DB)
		n.gap.what = "server counters"
		p.counters = append(p.counters, n.poller.described...)
	} else if n != nil && !n.Embedded {
		p.warn("server counters left out: the target has none")
	}
	return p
}

// WatchReplicas measures how far the replicas of a source are behind it, by the table Heartbeat,
// which Close removes. Call it once, before Describe.
func (p *Probe) WatchReplicas(ctx context.Context, of engine.Keeper, replicas []Replica) (err error) {
	if p.delays, err = NewDelays(ctx, of, replicas, Fine); err != nil {
		return err
	}
	for _, f := range p.delays.follow {
		s := &source{counters: delayCounters, sample: p.delays.sampleOf(f)}
		if len(replicas) > 1 {
			s.replica = f.Name
		}
		p.add("replication delay", s)
	}
	return nil
}

// CatchUp waits until each replica has all changes committed before the call, and returns how long
// that took. It fails if a replica makes no progress for 30 s. Without replicas it returns at once.
func (p *Probe) CatchUp(ctx context.Context) (time.Duration, error) {
	if p.delays == nil {
		return 0, nil
	}
	return p.delays.catchUp(ctx)
}

func (p *Probe) openProcess(sys system, n *server) {
	switch {
	case n.Embedded:
	case n.ServerPID == 0:
		p.warn("server process figures left out: its process is unknown or on another machine")
	default:
		process, err := sys.openProcess(n.ServerPID, &n.used, p.warn)
		if err != nil {
			p.warn("server process figures left out: " + err.Error())
			return
		}
		n.process = &source{counters: process.counters, sample: process.sample}
		p.add("server process figures", n.process)
		n.newPID.Store(int64(n.ServerPID))
	}
}

// Follow tells the probe that the server was restarted with another process id. From the next
// Sample on, the new process is watched; its CPU time is added to that of the old one. Follow may
// be called while Sample runs.
func (p *Probe) Follow(pid int) { p.server.newPID.Store(int64(pid)) }

// follow switches to the process passed to Follow.
func (n *server) follow(last time.Time) {
	pid := int(n.newPID.Load())
	if n.process == nil || pid == n.ServerPID {
		return
	}
	process, err := hostSystem().openProcess(pid, &n.used, func(string) {}) // the warnings are the same as for the first process
	if err != nil {
		return // it has already ended; Follow will be called with the next one
	}
	process.startedAfter(last)
	n.ServerPID, n.process.sample = pid, process.sample
	if n.poller != nil {
		n.poller.restarted()
	}
}

// A taker takes a source, or the reason why it can't be opened; a nil source is one that this
// machine doesn't have.
type taker func(what string, s *source, err error)

// try adds a source if it can be read, and warns otherwise.
func (p *Probe) try(what string, s *source, err error) {
	if err == nil && s != nil {
		err = s.sample(time.Now(), figures{})
	}
	switch {
	case err != nil:
		p.warn(what + " left out: " + err.Error())
	case s != nil:
		p.add(what, s)
	}
}

func (p *Probe) add(what string, s *source) {
	s.gap.what = s.figure(what)
	p.sources = append(p.sources, s)
	for _, c := range s.counters {
		c.Name, c.Node = s.figure(c.Name), s.replica
		p.counters = append(p.counters, c)
	}
}

func (p *Probe) warn(text string) { p.warnings = append(p.warnings, text) }

// Describe returns all figures that samples may contain, in a fixed order.
func (p *Probe) Describe() []result.Counter { return slices.Clone(p.counters) }

// Warnings returns the missing figures with reasons: figures that could not be read at the start,
// and figures that were missing in intervals so far.
func (p *Probe) Warnings() []string {
	out := slices.Clone(p.warnings)
	for _, s := range p.sources {
		out = s.gap.appendTo(out)
	}
	if n := p.server; n != nil && n.poller != nil {
		out = append(n.gap.appendTo(out), n.poller.warnings()...)
	}
	if p.delays != nil {
		out = append(out, p.delays.warnings()...)
	}
	return out
}

// Start takes the initial readings. The first Sample, ClientCPUSeconds and ServerCPUSeconds count
// from these readings. It may wait for the servers for a whole interval.
func (p *Probe) Start(ctx context.Context) {
	p.read(ctx, 0, p.interval)
	p.client.used = 0
	if p.server != nil {
		p.server.used = cpuTime{}
	}
}

// Sample returns the figures that could be read, by name: the changes since the previous call, or
// since Start. elapsed is the time since the run's start, for warnings. Sample returns within a
// quarter of the interval.
func (p *Probe) Sample(ctx context.Context, elapsed time.Duration) map[string]float64 {
	return p.read(ctx, elapsed, p.interval/4)
}

func (p *Probe) read(ctx context.Context, elapsed, wait time.Duration) figures {
	out := make(figures, len(p.counters))
	if p.closed {
		return out
	}
	var poller *poller
	if p.server != nil {
		p.server.follow(p.last)
		if poller = p.server.poller; poller != nil {
			poller.ask()
		}
	}
	p.last = time.Now()
	for _, s := range p.sources {
		s.gap.note(elapsed, s.read(p.last, out))
	}
	if poller != nil {
		ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w (more than %v)", errLate, wait))
		defer cancel()
		p.server.gap.note(elapsed, poller.await(ctx, out))
	}
	return out
}

// read adds the source's figures to out.
func (s *source) read(now time.Time, out figures) error {
	if s.replica == "" {
		return s.sample(now, out)
	}
	own := figures{}
	err := s.sample(now, own)
	for name, v := range own {
		out[s.figure(name)] = v
	}
	return err
}

// ClientCPUSeconds returns the user and system CPU time that this process used
// from Start to the last Sample.
func (p *Probe) ClientCPUSeconds() float64 { return p.client.used }

// ServerCPUSeconds returns the CPU time of the server's processes from Start to the last Sample;
// false if it could not be read, and for embedded engines.
func (p *Probe) ServerCPUSeconds() (seconds float64, known bool) {
	if p.server == nil {
		return 0, false
	}
	return p.server.used.seconds, p.server.used.known
}

// Close stops the probe and waits for its goroutines, for a limited time. Totals and
// warnings remain readable.
func (p *Probe) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	if p.delays != nil {
		_ = p.delays.Close() // Warnings has the error
	}
	var err error
	if p.server != nil && p.server.poller != nil {
		err = p.server.poller.close()
	}
	for _, s := range p.sources {
		if s.close != nil {
			s.close()
		}
	}
	return err
}

// figures are the values of one sample, by name.
type figures = map[string]float64

// put adds a figure unless it is NaN or infinite, which JSON can't represent.
func put(out figures, name string, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		out[name] = v
	}
}

// fraction limits a share of time to the range from 0 to 1. The share may lie slightly outside of
// it, because the counters and the clock are not read at the same moment.
func fraction(v float64) float64 { return min(max(v, 0), 1) }

// A meter computes the growth of a cumulative figure.
type meter struct {
	value float64
	at    time.Time
}

// advance returns the growth of the figure and the time in seconds since the last value. It returns
// false for the first value, for a value below the last one, and for NaN, which it doesn't keep.
func (m *meter) advance(v float64, at time.Time) (grown, seconds float64, ok bool) {
	if math.IsNaN(v) {
		return 0, 0, false
	}
	grown, seconds = v-m.value, at.Sub(m.at).Seconds()
	ok = !m.at.IsZero() && grown >= 0 && seconds > 0
	m.value, m.at = v, at
	return grown, seconds, ok
}

// rate adds the figure's growth per second to out.
func (m *meter) rate(v float64, at time.Time, name string, out figures) {
	if grown, seconds, ok := m.advance(v, at); ok {
		put(out, name, grown/seconds)
	}
}

// A gap counts failed readings.
type gap struct {
	what  string
	count int
	first time.Duration
	cause error
}

func (g *gap) note(elapsed time.Duration, err error) {
	if err == nil {
		return
	}
	if g.count == 0 {
		g.first, g.cause = elapsed, err
	}
	g.count++
}

func (g *gap) appendTo(warnings []string) []string {
	if g.count == 0 {
		return warnings
	}
	return append(warnings, fmt.Sprintf("%s missing in %s, first at %.1f s: %v", g.what, figure.Plural(g.count, "interval", "intervals"), g.first.Seconds(), g.cause))
}
