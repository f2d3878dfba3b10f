// Package probe reads the counters of the operating system, of rowmill's own
// process and of the database server, together, at the end of every interval
// of a run, so that a stall can be laid beside what moved in it.
//
// In goes a Config: the engine's counters, the server's process, where its
// data lies. Out comes one Sample an interval: figures by name, as package
// result records them, each described by Describe. Whatever only grows at its
// source is a rate per second here, divided by the true time between the two
// readings, so a late or a missing reading doesn't distort it. Times are
// seconds, sizes bytes, fractions lie between 0 and 1.
//
//   - Group "os" is the machine that rowmill runs on: CPU time by kind, the
//     device that holds the data, memory, swapping, pressure (the time that
//     tasks lost waiting), the processors' frequency, throttling by control
//     groups. It is the server's machine only where that is the same one. A
//     fixed piece of computing can be timed beside (Config.WorkEvery).
//   - Group "client" is rowmill's process: CPU, garbage collection, how long
//     goroutines wait for a processor. With an embedded engine the engine's
//     work is in it.
//   - Group "server" is the server's process, and all that its engine counts.
//
// What can't be read never fails a run: it is left out, and Warnings says what
// and why. A figure with no meaning in an interval is left out of it: a mean
// latency when nothing was read, a rate when the counter went backwards
// because the server restarted.
//
// A server that stalls answers no queries either. So its counters are asked
// for by a goroutine of the probe's own, and Sample waits for the answer for
// Config.Wait at most; an answer that comes later is dropped, and the next one
// in time covers both intervals. While a question is still open, Sample
// doesn't wait at all.
//
// A Sample costs about 0.05 ms of CPU time, 15 system calls and 1 KB, and with
// a server's process 0.08 ms, 22 calls and 2.4 KB, on files that are kept open
// (BenchmarkSample, 2 cores); 0.2 ms after a second's pause has cooled the
// caches. To that comes what the engine's own query takes.
//
//	p, err := probe.New(ctx, probe.Config{DB: counters, ServerPID: info.PID, DataDir: info.DataDir})
//	...
//	defer p.Close()
//	run.Counters, run.Warnings = p.Describe(), p.Warnings()
//	p.Start(ctx)
//	for range ticks {
//		s := p.Sample(ctx, time.Since(begin))
//		interval.Counters = s.Counters
//	}
package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// Groups of figures, as result.Counter names them.
const (
	groupOS     = "os"
	groupClient = "client"
	groupServer = "server"
)

// defaultInterval is how often Sample is expected when Config doesn't say.
const defaultInterval = time.Second

// Config says what to read. The zero value reads this machine and this
// process only.
type Config struct {
	// DB are the engine's counters; nil when there are none. The probe is
	// their only user until Close has returned; whoever opened them closes
	// them, after that.
	DB engine.Counters
	// ServerPID is the server's process on this machine; 0 is unknown or
	// elsewhere. Processes that it forked are counted with it, as PostgreSQL
	// has one for each connection.
	ServerPID int
	// DataDir is where the server's data lies on this machine, "" when it
	// doesn't. It selects the disk that is watched.
	DataDir string
	// Embedded engines run in this process: there is no server to look for.
	Embedded bool
	// Interval is how often Sample will be called; 0 is 1 s.
	Interval time.Duration
	// WorkEvery is how often a fixed piece of computing is timed; 0 is never.
	WorkEvery time.Duration
	// Wait is the longest that Sample waits for the server's counters; 0 is a
	// quarter of Interval.
	Wait time.Duration
}

// Validate says what of a Config makes no sense.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.ServerPID < 0:
		return fmt.Errorf("probe: server process %d is no process id", c.ServerPID)
	case c.Embedded && c.ServerPID != 0:
		return fmt.Errorf("probe: an embedded engine has no process of its own, but %d was given", c.ServerPID)
	case c.WorkEvery < 0:
		return fmt.Errorf("probe: work every %v must not be negative", c.WorkEvery)
	case c.Interval < 0 || c.Wait < 0:
		return fmt.Errorf("probe: interval %v and wait %v must not be negative", c.Interval, c.Wait)
	case c.Wait >= c.Interval:
		return fmt.Errorf("probe: wait %v must be shorter than the interval %v", c.Wait, c.Interval)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.Wait == 0 {
		c.Wait = c.Interval / 4
	}
	return c
}

// A Sample is what one interval showed.
type Sample struct {
	// Elapsed is the interval's end, as given to Probe.Sample.
	Elapsed time.Duration
	// Seconds is the true time since the sample before, or since Start; 0 in
	// the first sample without Start.
	Seconds float64
	// Counters holds the figures that could be read, by name: finite numbers,
	// ready for result.Interval.
	Counters map[string]float64
	// ClientCPUSeconds and ServerCPUSeconds are CPU time used in the interval.
	// The server's counts only with ServerCPUKnown; a reading that failed is
	// made up for by the next one.
	ClientCPUSeconds float64
	ServerCPUSeconds float64
	ServerCPUKnown   bool
}

// A Probe reads the figures. Its methods are for one goroutine at a time.
type Probe struct {
	cfg      Config
	counters []result.Counter
	warnings []string
	sources  []*watched
	// client and process are those of the sources that know CPU time; process
	// is nil where the server's can't be seen. server is nil without counters.
	client  cpuSource
	process serverProcess
	// following is the server's process that is watched, newPID the one that
	// Follow has named.
	following   *watched
	newPID      atomic.Int64
	server      *poller
	serverGap   gap
	lastSample  time.Time
	startClient cpuTime
	startServer cpuTime
	closed      bool
}

// A source reads some figures that are always read together.
type source interface {
	// describe lists the figures that sample may give.
	describe() []result.Counter
	// sample puts the figures since the call before into out. The first call
	// gives no rates.
	sample(now time.Time, out figures) error
	close() error
}

// A cpuSource is a source that watches one process.
type cpuSource interface {
	source
	// cpu is the CPU time that sample has seen used since its first call.
	cpu() cpuTime
}

// A serverProcess is the source that watches the server's process.
type serverProcess interface {
	cpuSource
	// goOn makes a source that has not been sampled count from its process's
	// start, on top of what another one has seen, as if it had been there at a
	// moment with nothing used.
	goOn(before cpuSource, at time.Time)
}

// cpuTime is CPU time used, as of a number of successful readings: when the
// number has not moved, neither has the knowledge.
type cpuTime struct {
	seconds  float64
	readings int
}

// watched is a source with the record of its failures.
type watched struct {
	source
	gap gap
}

// New finds what can be read here. It fails on a Config that makes no sense
// only; what can't be read is in Warnings. ctx passes on its values: the probe
// stops at Close, not with ctx, so that an interrupted run keeps its last
// interval.
func New(ctx context.Context, cfg Config) (*Probe, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Probe{cfg: cfg.withDefaults(), serverGap: gap{what: "server counters"}}
	p.openSystem(hostSystem())
	if p.cfg.WorkEvery > 0 {
		stolen, err := hostSystem().openSteal()
		if err != nil {
			stolen = nil // which the CPU times' own warning says
		}
		p.add("the fixed work", newWorkSource(context.WithoutCancel(ctx), p.cfg.WorkEvery, stolen))
	}
	if cfg.DB == nil {
		if !cfg.Embedded {
			p.warn("server counters left out: the target has none")
		}
		return p, nil
	}
	var warnings []string
	p.server, warnings = newPoller(context.WithoutCancel(ctx), cfg.DB, p.counters)
	p.counters = append(p.counters, p.server.described...)
	p.warnings = append(p.warnings, warnings...)
	return p, nil
}

// openSystem opens all sources but the engine's counters.
func (p *Probe) openSystem(sys system) {
	for _, s := range sys.open(p.cfg.DataDir, p.warn) {
		p.add(s.what, s.source)
	}
	client := newClientSource()
	p.client = client
	p.add("client figures", client)
	if !client.hasCPU {
		p.warn("client cpu time left out: it can't be read on this system")
	}
	switch {
	case p.cfg.Embedded:
	case p.cfg.ServerPID == 0:
		p.warn("server process figures left out: its process is unknown or on another machine")
	default:
		process, err := sys.openProcess(p.cfg.ServerPID, p.warn)
		if err != nil {
			p.warn("server process figures left out: " + err.Error())
			return
		}
		p.process = process
		p.add("server process figures", process)
		p.following = p.sources[len(p.sources)-1]
		p.newPID.Store(int64(p.cfg.ServerPID))
	}
}

// Follow tells that the server was restarted, as another process: from the next
// Sample on that one is watched, from its start on, and CPU time goes on
// counting. It may be called while Sample runs. What the process before used
// after the last Sample is not known, nor is a server followed whose first
// process could not be seen.
func (p *Probe) Follow(pid int) { p.newPID.Store(int64(pid)) }

// follow changes to the process that Follow named.
func (p *Probe) follow() {
	pid := int(p.newPID.Load())
	if p.following == nil || pid == p.cfg.ServerPID {
		return
	}
	source, err := hostSystem().openProcess(pid, func(string) {}) // the same as of the first
	if err != nil {
		return // it has ended again, and the next will be named
	}
	source.goOn(p.process, p.lastSample)
	_ = p.following.close() // it is gone
	p.cfg.ServerPID, p.process, p.following.source = pid, source, source
	if p.server != nil {
		p.server.restarted()
	}
}

func (p *Probe) add(what string, s source) {
	p.sources = append(p.sources, &watched{source: s, gap: gap{what: what}})
	p.counters = append(p.counters, s.describe()...)
}

func (p *Probe) warn(text string) { p.warnings = append(p.warnings, text) }

// Describe returns all figures that samples may hold, in a fixed order.
func (p *Probe) Describe() []result.Counter {
	return append([]result.Counter(nil), p.counters...)
}

// Warnings says what is missing and why: what was never readable and, after
// samples, what failed in how many of them.
func (p *Probe) Warnings() []string {
	out := append([]string(nil), p.warnings...)
	for _, w := range p.sources {
		out = w.gap.appendTo(out)
	}
	out = p.serverGap.appendTo(out)
	if p.server != nil {
		out = append(out, p.server.warnings()...)
	}
	return out
}

// Start takes the readings that the first Sample is compared with, and is the
// start of what ClientCPUSeconds and ServerCPUSeconds count. Nothing ticks
// yet, so it waits for the server for a whole interval, if need be.
func (p *Probe) Start(ctx context.Context) {
	p.read(ctx, 0, p.cfg.Interval)
	p.startClient = p.client.cpu()
	if p.process != nil {
		p.startServer = p.process.cpu()
	}
}

// Sample returns what happened since the call before, or since Start. elapsed
// is the time since the run's start, for the sample and for warnings. It
// returns within Config.Wait, and at once when ctx is done.
func (p *Probe) Sample(ctx context.Context, elapsed time.Duration) Sample {
	return p.read(ctx, elapsed, p.cfg.Wait)
}

func (p *Probe) read(ctx context.Context, elapsed, wait time.Duration) Sample {
	s := Sample{Elapsed: elapsed, Counters: make(figures, len(p.counters))}
	if p.closed {
		return s
	}
	p.follow()
	asked := p.server != nil && p.server.ask()
	client := p.client.cpu()
	var process cpuTime
	if p.process != nil {
		process = p.process.cpu()
	}
	now := time.Now()
	if !p.lastSample.IsZero() {
		s.Seconds = now.Sub(p.lastSample).Seconds()
	}
	p.lastSample = now
	for _, w := range p.sources {
		w.gap.note(elapsed, w.sample(now, s.Counters))
	}
	s.ClientCPUSeconds = p.client.cpu().seconds - client.seconds
	if p.process != nil {
		after := p.process.cpu()
		s.ServerCPUSeconds = after.seconds - process.seconds
		s.ServerCPUKnown = after.readings > process.readings
	}
	if p.server != nil {
		err := errStillOpen
		if asked {
			err = p.server.await(ctx, wait, s.Counters)
		}
		p.serverGap.note(elapsed, err)
	}
	return s
}

// ClientCPUSeconds returns the CPU time, of user and system, that this process
// used from Start to the last Sample.
func (p *Probe) ClientCPUSeconds() float64 {
	return p.client.cpu().seconds - p.startClient.seconds
}

// ServerCPUSeconds returns the same of the server's processes, up to the last
// Sample that could see them; false when there was none, and for embedded
// engines.
func (p *Probe) ServerCPUSeconds() (float64, bool) {
	if p.process == nil {
		return 0, false
	}
	now := p.process.cpu()
	return now.seconds - p.startServer.seconds, now.readings > p.startServer.readings
}

// Close stops the probe and waits for its goroutine; a query that doesn't heed
// its context is waited for a bounded time, and reported. Totals and warnings
// remain readable.
func (p *Probe) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	var errs []error
	if p.server != nil {
		errs = append(errs, p.server.close())
	}
	for _, w := range p.sources {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}

// figures are the values of one sample, by name.
type figures = map[string]float64

// put adds a figure unless it is no number: records are JSON.
func put(out figures, name string, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		out[name] = v
	}
}

// fraction keeps a share of time in 0 to 1: the counters behind it are updated
// a moment before or after the clock is read.
func fraction(v float64) float64 { return min(max(v, 0), 1) }

// A meter follows a figure that only grows.
type meter struct {
	value float64
	at    time.Time
}

// advance returns by how much the figure grew and in how many seconds. It is
// false for the first value and for one that is below the last; the next is
// compared with this one in any case.
func (m *meter) advance(v float64, at time.Time) (grown, seconds float64, ok bool) {
	if math.IsNaN(v) {
		return 0, 0, false
	}
	grown, seconds = v-m.value, at.Sub(m.at).Seconds()
	ok = !m.at.IsZero() && grown >= 0 && seconds > 0
	m.value, m.at = v, at
	return grown, seconds, ok
}

// rate puts the figure's growth per second, times scale.
func (m *meter) rate(v float64, at time.Time, scale float64, name string, out figures) {
	if grown, seconds, ok := m.advance(v, at); ok {
		put(out, name, grown*scale/seconds)
	}
}

// A gap counts the readings that failed.
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
