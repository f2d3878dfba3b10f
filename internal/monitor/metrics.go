package monitor

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowmill/rowmill/internal/maintain"
)

// States and codes that are exported even if their count is 0, so that alerts end.
var (
	states = []string{"ahead", "open", "closing", "sealed", "archived", "restored", "dropped"}
	codes  = []string{"headroom", "blocked", "gap", "stopped", "rollup", "failed", "outside", "declaration", "triggers", "retention", "long", "leftover", "rival"}
)

// counted contains the counters of actions since the start of the process.
type counted struct {
	actions *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newCounted() *counted {
	return &counted{
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rowmill_actions_total",
			Help: "Actions that this process has done, by kind and result (ok, failed)."}, []string{"table", "action", "result"}),
		// From a catalog query (1 ms) to the copy of a large period (an hour).
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rowmill_action_seconds",
			Help:    "How long the actions of this process took.",
			Buckets: []float64{.001, .005, .025, .1, .25, 1, 5, 30, 120, 600, 3600}}, []string{"table", "action"}),
	}
}

func (c *counted) add(table string, e maintain.Event) {
	action, result := strings.ToValidUTF8(e.Action, "\uFFFD"), "ok"
	if e.Err != nil {
		result = "failed"
	}
	c.actions.WithLabelValues(table, action, result).Inc()
	c.seconds.WithLabelValues(table, action).Observe(e.Took.Seconds())
}

// scrapeWait is how long a scrape may wait for rowmill's look at the tables if Prometheus doesn't
// send its timeout. It is a second less than Prometheus's default timeout, 10 s. If Prometheus
// sends a timeout, the scrape may wait for that time minus scrapeMargin, but at least for half of
// it.
const (
	scrapeWait   = 9 * time.Second
	scrapeMargin = 500 * time.Millisecond
)

// metrics returns the handler of /metrics. If the database doesn't respond, rowmill_up is 0 and
// the other metrics are still there.
func (m *Monitor) metrics() http.Handler {
	process := prometheus.NewRegistry()
	process.MustRegister(m.counted.actions, m.counted.seconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	process.MustRegister(m.o.Collectors...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), waitOf(r))
		defer cancel()
		status := prometheus.NewRegistry()
		status.MustRegister(&scrape{m, m.look(ctx)})
		promhttp.HandlerFor(prometheus.Gatherers{process, status}, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}

// waitOf returns how long a scrape may wait.
func waitOf(r *http.Request) time.Duration {
	s, err := strconv.ParseFloat(r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || !(s > 0 && s < 3600) {
		return scrapeWait
	}
	d := time.Duration(s * float64(time.Second))
	return max(d-scrapeMargin, d/2)
}

// A scrape contains the metrics of one look.
type scrape struct {
	m *Monitor
	l look
}

// Describe sends nothing, as for an unchecked collector: the metrics depend on the look.
func (s *scrape) Describe(chan<- *prometheus.Desc) {}

// gauge sends a metric. labels are names, each followed by its value.
func gauge(ch chan<- prometheus.Metric, name, help string, v float64, labels ...string) {
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, strings.ToValidUTF8(pair[1], "\uFFFD"))
	}
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("rowmill_"+name, help, names, nil), prometheus.GaugeValue, v, values...)
}

// Collect implements prometheus.Collector.
func (s *scrape) Collect(ch chan<- prometheus.Metric) {
	set := func(name, help string, v float64, labels ...string) {
		gauge(ch, name, help, v, append([]string{"table", s.m.o.Table}, labels...)...)
	}
	st := s.l.status
	set("build_info", "Always 1; the labels say what runs.", 1, "version", s.m.o.Version, "goversion", runtime.Version())
	set("up", "1 when the last check of the table succeeded.", truth(st != nil))
	set("look_seconds", "How long the last check of the table took.", s.l.took.Seconds())
	set("leader", "1 when this process keeps the table, 0 when it stands by.", truth(s.m.leads()))
	s.m.o.Delays.send(ch, "table", s.m.o.Table)
	if st == nil {
		return
	}
	if st.Headroom != nil {
		set("headroom_seconds", "How long inserts still find a period if no further one is created.", *st.Headroom)
	}
	if st.HeadroomWanted != nil {
		set("headroom_wanted_seconds", "The headroom that the declaration requires.", *st.HeadroomWanted)
	}
	if st.HeadroomRows != nil {
		set("headroom_rows", "Key values left in the periods of a sequence.", float64(*st.HeadroomRows))
	}
	set("rows", "Rows in the table, as the server estimates.", float64(st.Rows))
	set("bytes", "Bytes of data and indexes of the table.", float64(st.Bytes))
	if samples := s.m.samples(); len(samples) > 0 {
		set("insert_rows_per_second", "Rate of inserts, derived from row counts that the server estimates.", samples[len(samples)-1].Rate)
	}
	for state, n := range count(states, st.Periods, func(p maintain.PeriodStatus) string { return p.State }) {
		set("periods", "Periods by state.", n, "state", state)
	}
	for code, n := range count(codes, st.Problems, func(p maintain.Problem) string { return p.Code }) {
		set("problems", "Problems that require action, by code.", n, "code", code)
	}
	rollups := map[string]bool{} // a duplicate name would invalidate the whole scrape
	for _, r := range st.Rollups {
		if !rollups[r.Name] {
			rollups[r.Name] = true
			set("rollup_lag_seconds", "How far a roll-up is behind its last whole bucket.", r.Lag, "rollup", r.Name)
			set("rollup_stale_buckets", "Buckets of a roll-up that must be computed again.", float64(r.Stale), "rollup", r.Name)
			set("rollup_rows", "Rows of a roll-up, as the server estimates.", float64(r.Rows), "rollup", r.Name)
		}
	}
	tries, age := 0, 0.0
	for _, c := range st.Changes {
		tries = max(tries, c.Tries)
	}
	for _, b := range st.Blockers {
		age = max(age, b.Age)
	}
	set("changes", "Changes of several steps that are in progress.", float64(len(st.Changes)))
	set("change_failed_tries", "How often the current step has failed, of the change with the most failures.", float64(tries))
	for _, c := range st.Changes {
		if c.Percent != nil {
			set("change_done_ratio", "What is done of a change of several steps, 0 to 1.", *c.Percent/100, "change", c.What)
		}
	}
	set("blockers", "Transactions that block due tasks.", float64(len(st.Blockers)))
	set("blocker_age_seconds", "Age of the oldest transaction that blocks due tasks; 0 without one.", age)
	last := map[string]time.Time{} // st.Latest has two actions of a kind if they have the same time
	for _, a := range st.Latest {
		if a.Error == "" {
			last[a.Action] = a.At
		}
	}
	for action, at := range last {
		set("last_success_timestamp_seconds", "When an action of that kind last succeeded.", float64(at.UnixMicro())/1e6, "action", action)
	}
}

// count returns the number of elements by key, 0 for known keys that have none.
func count[T any](known []string, list []T, key func(T) string) map[string]float64 {
	out := map[string]float64{}
	for _, k := range known {
		out[k] = 0
	}
	for _, v := range list {
		out[key(v)]++
	}
	return out
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
