// Package monitor shows how a rolling table stands: metrics for Prometheus, a
// check for load balancers and a page for people, over a function that looks
// at the table.
//
// In goes a maintain.Status each time one is asked for, at most one every few
// seconds however many ask; out come /metrics, /healthz, /livez, /status.json
// and a page at /. Nothing here changes anything, and nothing is loaded from
// elsewhere. What a status says is shown to whoever can reach the address:
// names of tables, statements of transactions in the way, no passwords.
//
//	m := monitor.New(monitor.Options{Table: "readings", Look: look, Self: self})
//	go m.Run(ctx)
//	err := monitor.Serve(ctx, ":9187", m)
package monitor

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/rowmill/rowmill/maintain"
)

// Options say what a Monitor shows. Table and Look are needed.
type Options struct {
	// Table is the table's name.
	Table string
	// Look returns how the table stands. It is called by one goroutine at a
	// time, with a context of LookTimeout.
	Look func(context.Context) (*maintain.Status, error)
	// LookTimeout bounds a look; 0 is 20 seconds.
	LookTimeout time.Duration
	// Fresh is for how long a status serves all who ask; 0 is 5 seconds.
	Fresh time.Duration
	// Every is how often Run looks; 0 is 10 seconds.
	Every time.Duration
	// Self is what this process calls itself in ActionStatus.By: its actions
	// are counted. "" counts everybody's, from the first look on.
	Self string
	// Leads tells whether this process leads now. Without it, it does when the
	// status says that Self is the leader.
	Leads func() bool
	// Hosts are names by which the page may be asked for besides addresses,
	// localhost and the machine's own name, where the connection comes in on
	// loopback.
	Hosts []string
	// Version is rowmill's.
	Version string
}

// Defaults of Options.
const (
	defaultFresh = 5 * time.Second
	defaultEvery = 10 * time.Second
	// A look reads the catalog, which takes a second or two with thousands of
	// periods. Prometheus gives up after 10 s by default, and the look goes on
	// for the next scrape.
	defaultLookTimeout = 20 * time.Second
)

// A Monitor is an http.Handler. New makes one.
type Monitor struct {
	o       Options
	now     func() time.Time
	handler http.Handler
	hosts   []string
	counted *counted

	mu      sync.Mutex
	flight  chan struct{} // closed when the look under way is done; nil without one
	last    look
	good    look // the last that worked
	history history
	seen    seen
}

// A look is what came of one.
type look struct {
	at     time.Time // the end of it; zero before the first
	took   time.Duration
	status *maintain.Status // nil if it failed
	err    error
}

// New returns a Monitor. It looks when somebody asks, and as often as Run says.
func New(o Options) *Monitor {
	if o.Fresh == 0 {
		o.Fresh = defaultFresh
	}
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	if o.LookTimeout == 0 {
		o.LookTimeout = defaultLookTimeout
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	m := &Monitor{o: o, now: time.Now, counted: newCounted(o.Table)}
	m.handler = m.routes()
	return m
}

// ServeHTTP answers a request.
func (m *Monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Run looks every Every until ctx ends, so that the rate of inserts is known
// also while nobody asks, and actions are counted in time.
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

// look returns a fresh look. All who ask while one is under way wait for that
// one, which goes on when one of them leaves.
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

// fly does one look and notes what came of it.
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
		for _, a := range m.seen.fresh(s.Actions, m.o.Self) {
			m.counted.add(a)
		}
	}
	m.last, m.flight = l, nil
	close(done)
}

// leads tells whether this process leads.
func (m *Monitor) leads(s *maintain.Status) bool {
	if m.o.Leads != nil {
		return m.o.Leads()
	}
	return s != nil && m.o.Self != "" && s.Leader == m.o.Self
}

// samples returns the rates of the last minutes.
func (m *Monitor) samples() []sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history.samples()
}
