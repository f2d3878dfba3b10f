package monitor

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
)

// A Member is a table of a fleet.
type Member struct {
	// Name is unique; Path is the file of its declaration.
	Name, Path, Target string
	// Err is the reason why the table isn't kept, or isn't kept as its file says; otherwise it is
	// the error of the last look or maintenance.
	Err error
	schedule.TableState
	// Look returns the table's status; nil while the table isn't open.
	Look func(context.Context) (*maintain.Status, error)
}

// A Fleet is an http.Handler for all tables that a process keeps. Its page and /metrics show all
// tables without a query to the databases. /table/NAME/ is the Monitor of one table.
type Fleet struct {
	members func() []Member
	version string
	handler http.Handler
	counted *counted

	mu   sync.Mutex
	each map[string]*Monitor // the Monitors of tables that were requested, by name
}

// Delays returns how far each replica is behind, by the replica's name. A Delays is a
// prometheus.Collector.
type Delays func() map[string]time.Duration

// Describe sends nothing: replicas may come and go.
func (d Delays) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (d Delays) Collect(ch chan<- prometheus.Metric) { d.send(ch) }

// send sends the delays. Each metric has the labels.
func (d Delays) send(ch chan<- prometheus.Metric, labels ...string) {
	if d == nil {
		return
	}
	for replica, behind := range d() {
		gauge(ch, "replica_delay_seconds", "How far a replica is behind; while it shows nothing new, that grows.", behind.Seconds(), append(slices.Clone(labels), "replica", replica)...)
	}
}

// NewFleet returns a Fleet. members returns its tables, in order. further has the metrics of other
// parts of this process.
func NewFleet(members func() []Member, version string, further ...prometheus.Collector) *Fleet {
	f := &Fleet{members: members, version: version, counted: newCounted(), each: map[string]*Monitor{}}
	f.handler = f.routes(further)
	return f
}

// ServeHTTP answers a request.
func (f *Fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.handler.ServeHTTP(w, r) }

// Count counts an action of this process on a table.
func (f *Fleet) Count(table string, e maintain.Event) { f.counted.add(table, e) }

//go:embed assets/fleet.html.tmpl
var fleetText string

func (f *Fleet) routes(further []prometheus.Collector) http.Handler {
	page := template.Must(template.New("fleet").Funcs(template.FuncMap{
		"headroom": func(d *time.Duration) string {
			if d == nil {
				return ""
			}
			return figure.Duration(max(d.Seconds(), 0))
		},
		"at": at, "path": url.PathEscape,
	}).Parse(fleetText))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", f.metrics(further))
	mux.HandleFunc("GET /healthz", f.healthz)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, health{OK: true}) })
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, f.standings()) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { f.page(w, page) })
	mux.HandleFunc("GET /table/{name}/{rest...}", f.table)
	return guarded(mux)
}

// table answers requests about one table.
func (f *Fleet) table(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	members := f.members()
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
	switch {
	case i < 0:
		http.Error(w, "no such table", http.StatusNotFound)
		return
	case members[i].Look == nil:
		http.Error(w, fmt.Sprintf("%s is not kept: %v", name, members[i].Err), http.StatusServiceUnavailable)
		return
	}
	f.mu.Lock()
	m := f.each[name]
	if m == nil {
		m = New(Options{Table: name, Version: f.version, Look: func(ctx context.Context) (*maintain.Status, error) { return f.lookAt(ctx, name) },
			Leads: func() bool {
				return slices.ContainsFunc(f.members(), func(m Member) bool { return m.Name == name && m.Leads })
			}})
		f.each[name] = m
	}
	f.mu.Unlock()
	own := r.Clone(r.Context())
	own.URL.Path, own.URL.RawPath = "/"+r.PathValue("rest"), ""
	m.ServeHTTP(w, own)
}

func (f *Fleet) lookAt(ctx context.Context, name string) (*maintain.Status, error) {
	for _, m := range f.members() {
		if m.Name == name && m.Look != nil {
			return m.Look(ctx)
		}
	}
	return nil, fmt.Errorf("%s is no longer kept", name)
}

// A standing is a table in /status.json of a fleet.
type standing struct {
	Table           string               `json:"table"`
	File            string               `json:"file"`
	Target          string               `json:"target,omitempty"`
	Leader          bool                 `json:"leader"` // this process keeps it
	HeadroomSeconds *float64             `json:"headroom_seconds,omitempty"`
	Paused          map[string]time.Time `json:"paused,omitempty"` // when each paused policy's pause ends
	Failures        map[string]int       `json:"failures,omitempty"`
	Error           string               `json:"error,omitempty"`
}

// standings returns the content of /status.json.
func (f *Fleet) standings() any {
	out := struct {
		Format string     `json:"format"`
		Tables []standing `json:"tables"`
	}{Format: "rowmill.tables/1", Tables: []standing{}}
	for _, m := range f.members() {
		s := standing{Table: m.Name, File: m.Path, Target: m.Target, Leader: m.Leads, Paused: m.Paused, Failures: map[string]int{}}
		if m.Headroom != nil {
			s.HeadroomSeconds = new(m.Headroom.Seconds())
		}
		for lane, n := range m.Failures {
			if n > 0 {
				s.Failures[string(lane)] = n
			}
		}
		if m.Err != nil {
			s.Error = m.Err.Error()
		}
		out.Tables = append(out.Tables, s)
	}
	return out
}

func (f *Fleet) healthz(w http.ResponseWriter, _ *http.Request) {
	h, code := health{OK: true}, http.StatusOK
	for _, m := range f.members() {
		if m.Err != nil {
			h.OK, code = false, http.StatusServiceUnavailable
			h.Problems = append(h.Problems, maintain.Problem{Code: "table", Text: m.Name + ": " + m.Err.Error()})
		}
	}
	answer(w, code, h)
}

func (f *Fleet) page(w http.ResponseWriter, page *template.Template) {
	members := f.members()
	v := struct {
		Version              string
		CSS                  template.CSS
		JS                   template.JS
		Looked               time.Time
		Broken, Well         []Member
		Tables, Kept, Paused int
	}{Version: f.version, CSS: template.CSS(pageCSS), JS: template.JS(pageJS), Looked: time.Now(), Tables: len(members)}
	for _, m := range members {
		if m.Leads {
			v.Kept++
		}
		if len(m.Paused) > 0 {
			v.Paused++
		}
		if m.Err != nil {
			v.Broken = append(v.Broken, m)
		} else {
			v.Well = append(v.Well, m)
		}
	}
	slices.SortStableFunc(v.Well, func(a, b Member) int { // those with the least headroom first
		left := func(m Member) time.Duration {
			if m.Headroom == nil {
				return 1<<63 - 1
			}
			return *m.Headroom
		}
		return cmp.Compare(left(a), left(b))
	})
	render(w, page, &v)
}

// metrics returns the handler of /metrics. The labels are tables, policies and results, so the
// number of series is bounded.
func (f *Fleet) metrics(further []prometheus.Collector) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(f.counted.actions, f.counted.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), fleetMetrics{f})
	r.MustRegister(further...)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

type fleetMetrics struct{ *Fleet }

// Describe sends nothing: the metrics depend on the tables.
func (f fleetMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f fleetMetrics) Collect(ch chan<- prometheus.Metric) {
	set := func(name, help string, v float64, labels ...string) { gauge(ch, name, help, v, labels...) }
	set("build_info", "Always 1; the labels say what runs.", 1, "version", f.version, "goversion", runtime.Version())
	members := f.members()
	set("tables", "Tables that this process is to keep.", float64(len(members)))
	seen := map[string]bool{} // a duplicate name would invalidate the whole scrape
	for _, m := range members {
		if seen[m.Name] {
			continue
		}
		seen[m.Name] = true
		set("up", "1 when the last check of the table succeeded.", truth(m.Look != nil && m.TableState.Err == nil), "table", m.Name)
		set("broken", "1 when the table can't be kept, or not as it should: its status says why.", truth(m.Err != nil), "table", m.Name)
		if m.Err != nil {
			set("broken_cause", "1, with the cause for which the table is broken.", 1, "table", m.Name, "cause", firstLine(m.Err))
		}
		set("leader", "1 when this process keeps the table, 0 when it stands by.", truth(m.Leads), "table", m.Name)
		if m.Headroom != nil {
			set("headroom_seconds", "How long inserts still find a period if no further one is created.", m.Headroom.Seconds(), "table", m.Name)
			set("headroom_wanted_seconds", "The headroom that the declaration requires.", m.Wanted.Seconds(), "table", m.Name)
		}
		for lane, n := range m.Failures {
			set("policy_failures", "Passes of a policy that failed since the last one that succeeded.", float64(n), "table", m.Name, "policy", string(lane))
		}
		for policy, until := range m.Paused {
			set("paused_until_timestamp_seconds", "Until when a policy is paused.", float64(until.Unix()), "table", m.Name, "policy", policy)
		}
	}
}

// mostCause is the maximum number of bytes of an error in a label.
const mostCause = 200

// firstLine returns the first line of an error, or its beginning.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if len(text) > mostCause {
		text = strings.ToValidUTF8(text[:mostCause], "") + "..."
	}
	return text
}
