// Package monitor shows the status of a rolling table over HTTP: /metrics for Prometheus, /healthz,
// /livez, /status.json and a page at /. A function reads the status on request, at most once every
// few seconds. The package changes nothing, and its page loads nothing from other servers. Whoever
// reaches the address sees names of tables and statements of blocking transactions, but no
// passwords.
//
//	m := monitor.New(monitor.Options{Table: "readings", Look: look, Leads: leads})
//	go m.Run(ctx)
//	err := monitor.ServeOn(ctx, listener, m)
package monitor

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowmill/rowmill/internal/maintain"
)

// Options configure a Monitor. Table and Look are required.
type Options struct {
	// Table is the table's name.
	Table string
	// Look returns the table's status. It is called by one goroutine at a time.
	Look func(context.Context) (*maintain.Status, error)
	// LookTimeout limits the duration of a look; 0 is 20 seconds.
	LookTimeout time.Duration
	// Fresh is how long a status is reused for further requests; 0 is 5 seconds.
	Fresh time.Duration
	// Every is the interval of Run's looks; 0 is 10 seconds.
	Every time.Duration
	// Leads reports whether this process is the leader; nil means that it is not.
	Leads func() bool
	// Delays, unless nil, are the replicas of the table.
	Delays Delays
	// Collectors have further metrics of this process.
	Collectors []prometheus.Collector
	// Version is the version of rowmill.
	Version string
}

// Defaults of Options.
const (
	defaultFresh = 5 * time.Second
	defaultEvery = 10 * time.Second
	// A look reads the catalog, which takes a second or two with thousands of periods. If Prometheus
	// gives up, after 10 s by default, the look continues, and the next scrape gets its result.
	defaultLookTimeout = 20 * time.Second
)

// A Monitor is an http.Handler. It is created by New.
type Monitor struct {
	o       Options
	now     func() time.Time
	handler http.Handler
	counted *counted

	mu      sync.Mutex
	flight  chan struct{} // closed when the look in progress is done; nil if none is in progress
	last    look
	good    look // the last successful one
	history history
}

// A look is the result of one look at the table.
type look struct {
	at     time.Time // its end; zero before the first look
	took   time.Duration
	status *maintain.Status // nil if it failed
	err    error
}

// New returns a Monitor. It looks at the table on request, and at the intervals of Run.
func New(o Options) *Monitor {
	o.Fresh = cmp.Or(o.Fresh, defaultFresh)
	o.Every = cmp.Or(o.Every, defaultEvery)
	o.LookTimeout = cmp.Or(o.LookTimeout, defaultLookTimeout)
	o.Version = cmp.Or(o.Version, "unknown")
	m := &Monitor{o: o, now: time.Now, counted: newCounted()}
	m.handler = m.routes()
	return m
}

// ServeHTTP answers a request.
func (m *Monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Count counts an action of this process.
func (m *Monitor) Count(e maintain.Event) { m.counted.add(m.o.Table, e) }

// Run looks at the table at intervals of Every until ctx ends. So the insert rate is known at the
// first request of a status.
func (m *Monitor) Run(ctx context.Context) {
	t := time.NewTicker(m.o.Every)
	defer t.Stop()
	for {
		m.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// look returns a look that is at most Fresh old. Requests during a look wait for its result; if a
// request ends, the look goes on.
func (m *Monitor) look(ctx context.Context) look {
	m.mu.Lock()
	if !m.last.at.IsZero() && m.now().Sub(m.last.at) < m.o.Fresh {
		defer m.mu.Unlock()
		return m.last
	}
	if m.flight == nil {
		m.flight = make(chan struct{})
		go m.fly(context.WithoutCancel(ctx), m.flight)
	}
	flight := m.flight
	m.mu.Unlock()
	select {
	case <-flight:
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.last
	case <-ctx.Done():
		return look{at: m.now(), err: ctx.Err()}
	}
}

func (m *Monitor) fly(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, m.o.LookTimeout)
	defer cancel()
	began := m.now()
	s, err := m.o.Look(ctx)
	l := look{at: m.now(), err: err}
	l.took = l.at.Sub(began)
	if err == nil {
		l.status = s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.good = l
		m.history.add(l.at, s)
	}
	m.last, m.flight = l, nil
	close(done)
}

func (m *Monitor) leads() bool { return m.o.Leads != nil && m.o.Leads() }

func (m *Monitor) samples() []sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history.samples()
}
