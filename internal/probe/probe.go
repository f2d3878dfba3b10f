// Package probe reads the counters of the operating system, of rowmill's own
// process and of the database server, together, at the end of every interval of
// a run, so that a stall can be compared with the changes in these counters.
//
// The input is a Config: the engine's counters, the server's process and its
// data directory. The output is one Sample per interval: figures by name, in the
// form that package result records, each described by Describe. Cumulative
// counters are reported as rates per second, divided by the actual time between
// the two readings, so a late or missing reading doesn't distort them. Times are
// in seconds, sizes in bytes; fractions are between 0 and 1.
//
//   - Group "os" is the machine that rowmill runs on: CPU time by kind, the
//     device that stores the data, memory, swapping, pressure (the time that
//     tasks lost waiting), the processors' frequency, throttling by control
//     groups. It describes the server's machine only if that is the same. A
//     fixed computation can be timed as well (Config.WorkEvery).
//   - Group "client" is rowmill's process: CPU, garbage collection, the time
//     that goroutines wait for a processor. With an embedded engine it includes
//     the engine's work.
//   - Group "server" is the server's process, and all counters of its engine.
//
// A counter that can't be read never fails a run: it is left out, and Warnings
// returns its name and the reason. A figure that is undefined for an interval is
// left out of that interval: a mean latency if there were no reads, a rate if
// the counter went backwards because the server restarted.
//
// A stalled server does not answer queries either. Therefore a separate
// goroutine queries its counters, and Sample waits for the answer for at most
// Config.Wait; a late answer is discarded, and the next answer in time covers
// both intervals. While a query is still in progress, Sample doesn't wait at
// all.
//
// A Sample costs about 0.05 ms of CPU time, 15 system calls and 1 KB, and with a
// server's process 0.08 ms, 22 calls and 2.4 KB, on files that are kept open
// (BenchmarkSample, 2 cores); 0.2 ms with caches that are cold after a second's
// pause. The cost of the engine's own query is extra.
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

// defaultInterval is the default of Config.Interval.
const defaultInterval = time.Second

// Config selects what to read. The zero value reads only this machine and this
// process.
type Config struct {
	// DB is the engine's counters; nil if there are none. Only the probe may use
	// them until Close has returned; the caller that opened them closes them
	// after that.
	DB engine.Counters
	// ServerPID is the server's process on this machine; 0 if unknown or on
	// another machine. Its child processes are included, because PostgreSQL has
	// one per connection.
	ServerPID int
	// DataDir is the server's data directory on this machine, "" if it is on
	// another machine. It determines the disk to watch.
	DataDir string
	// Embedded means that the engine runs in this process: there is no server
	// process.
	Embedded bool
	// Interval is the expected time between calls of Sample; 0 is 1 s.
	Interval time.Duration
	// WorkEvery is the time between two timings of a fixed computation; 0 is never.
	WorkEvery time.Duration
	// Wait is the maximum time that Sample waits for the server's counters; 0 is
	// a quarter of Interval.
	Wait time.Duration
}

// Validate returns an error if a field of the Config is invalid.
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

// A Sample holds the figures of one interval.
type Sample struct {
	// Elapsed is the end of the interval, as passed to Probe.Sample.
	Elapsed time.Duration
	// Seconds is the actual time since the previous sample, or since Start; 0 in
	// the first sample without Start.
	Seconds float64
	// Counters are the figures that could be read, by name. The values are
	// finite, as required by result.Interval.
	Counters map[string]float64
	// ClientCPUSeconds and ServerCPUSeconds are the CPU time used in the
	// interval. The server's is valid only if ServerCPUKnown is set; after a
	// failed reading, the next one includes the missing time.
	ClientCPUSeconds float64
	ServerCPUSeconds float64
	ServerCPUKnown   bool
}

// A Probe reads the figures. Only one goroutine at a time may call its methods.
type Probe struct {
	cfg      Config
	counters []result.Counter
	warnings []string
	sources  []*watched
	// client and process are the sources that provide CPU time; process is nil
	// if the server's process can't be read. server is nil without counters.
	client  cpuSource
	process serverProcess
	// following is the source of the watched server process, newPID the process
	// last passed to Follow.
	following   *watched
	newPID      atomic.Int64
	server      *poller
	serverGap   gap
	lastSample  time.Time
	startClient cpuTime
	startServer cpuTime
	closed      bool
}

// A source reads a group of figures together.
type source interface {
	// describe returns the figures that sample may provide.
	describe() []result.Counter
	// sample adds the figures since the previous call to out. The first call
	// provides no rates.
	sample(now time.Time, out figures) error
	close() error
}

// A cpuSource is a source that watches one process.
type cpuSource interface {
	source
	// cpu is the CPU time used between the first and the last call of sample.
	cpu() cpuTime
}

// A serverProcess is the source for the server's process.
type serverProcess interface {
	cpuSource
	// goOn makes a source that has not been sampled continue the CPU time of
	// another source. It counts from its process's start, as if it had been
	// sampled at the given time with no CPU time used.
	goOn(before cpuSource, at time.Time)
}

// cpuTime is CPU time used, with the number of successful readings: if that
// number has not changed, the CPU time is not up to date.
type cpuTime struct {
	seconds  float64
	readings int
}

// watched is a source with the record of its failures.
type watched struct {
	source
	gap gap
}

// New opens the sources that can be read on this machine. It returns an error
// only for an invalid Config; Warnings returns the sources that can't be read.
// Only the values of ctx are used: the probe stops at Close, not with ctx, so
// that an interrupted run keeps its last interval.
func New(ctx context.Context, cfg Config) (*Probe, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Probe{cfg: cfg.withDefaults(), serverGap: gap{what: "server counters"}}
	p.openSystem(hostSystem())
	if p.cfg.WorkEvery > 0 {
		stolen, err := hostSystem().openSteal()
		if err != nil {
			stolen = nil // the warning about CPU times covers this
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

// openSystem opens all sources except the engine's counters.
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

// Follow reports that the server was restarted with another process id: from the
// next Sample on, the new process is watched, from its start on, and CPU time
// accumulates. It may be called while Sample runs. The CPU time that the old
// process used after the last Sample is lost. If the first process could not be
// read, Follow has no effect.
func (p *Probe) Follow(pid int) { p.newPID.Store(int64(pid)) }

// follow switches to the process passed to Follow.
func (p *Probe) follow() {
	pid := int(p.newPID.Load())
	if p.following == nil || pid == p.cfg.ServerPID {
		return
	}
	source, err := hostSystem().openProcess(pid, func(string) {}) // the warnings are the same as for the first process
	if err != nil {
		return // it has already ended; Follow will be called with the next one
	}
	source.goOn(p.process, p.lastSample)
	_ = p.following.close() // its process has ended
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

// Describe returns all figures that samples may contain, in a fixed order.
func (p *Probe) Describe() []result.Counter {
	return append([]result.Counter(nil), p.counters...)
}

// Warnings returns the missing figures with reasons: those that were never
// readable and, after samples, those that failed, with the number of samples.
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

// Start takes the initial readings, which the first Sample is compared with and
// from which ClientCPUSeconds and ServerCPUSeconds count. No interval is running
// yet, so it may wait for the server for a whole interval.
func (p *Probe) Start(ctx context.Context) {
	p.read(ctx, 0, p.cfg.Interval)
	p.startClient = p.client.cpu()
	if p.process != nil {
		p.startServer = p.process.cpu()
	}
}

// Sample returns the changes since the previous call, or since Start. elapsed is
// the time since the run's start, for the sample and for warnings. It returns
// within Config.Wait, and at once if ctx is done.
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

// ClientCPUSeconds returns the user and system CPU time that this process used
// from Start to the last Sample.
func (p *Probe) ClientCPUSeconds() float64 {
	return p.client.cpu().seconds - p.startClient.seconds
}

// ServerCPUSeconds returns the CPU time of the server's processes from Start to the
// last Sample that could read them; false if none could, and for embedded engines.
func (p *Probe) ServerCPUSeconds() (float64, bool) {
	if p.process == nil {
		return 0, false
	}
	now := p.process.cpu()
	return now.seconds - p.startServer.seconds, now.readings > p.startServer.readings
}

// Close stops the probe and waits for its goroutine. If a query ignores its
// context, the wait ends after a limit and Close returns an error. Totals and
// warnings remain readable.
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

// put adds a figure unless it is NaN or infinite, which JSON can't represent.
func put(out figures, name string, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		out[name] = v
	}
}

// fraction limits a share of time to 0 to 1, because the counters are updated
// slightly before or after the clock is read.
func fraction(v float64) float64 { return min(max(v, 0), 1) }

// A meter computes the growth of a cumulative figure.
type meter struct {
	value float64
	at    time.Time
}

// advance returns the growth of the figure and the time in seconds since the
// last value. It returns false for the first value and for a value below the
// last one; the next value is compared with this one in any case.
func (m *meter) advance(v float64, at time.Time) (grown, seconds float64, ok bool) {
	if math.IsNaN(v) {
		return 0, 0, false
	}
	grown, seconds = v-m.value, at.Sub(m.at).Seconds()
	ok = !m.at.IsZero() && grown >= 0 && seconds > 0
	m.value, m.at = v, at
	return grown, seconds, ok
}

// rate adds the figure's growth per second, times scale, to out.
func (m *meter) rate(v float64, at time.Time, scale float64, name string, out figures) {
	if grown, seconds, ok := m.advance(v, at); ok {
		put(out, name, grown*scale/seconds)
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
