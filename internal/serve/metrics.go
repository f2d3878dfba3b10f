package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowmill/rowmill/internal/query"
)

// metrics are the figures of a front since it began.
type metrics struct {
	accepted, refused     prometheus.Counter
	panics                prometheus.Counter
	split, pieces, cached prometheus.Counter
	whole                 *prometheus.CounterVec
	seconds               prometheus.Histogram

	ended traffic // of sessions that have ended
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		accepted: counter("rowmill_serve_connections_total", "Clients that were accepted."),
		refused:  counter("rowmill_serve_connections_refused_total", "Clients that were refused because of --max-connections."),
		panics:   counter("rowmill_serve_panics_total", "Errors of rowmill, each of which has ended one client's query or connection."),
		split:    counter("rowmill_serve_split_total", "Queries that were answered in pieces."),
		pieces:   counter("rowmill_serve_pieces_total", "Pieces of these queries."),
		cached:   counter("rowmill_serve_cached_total", "Periods of these queries whose partials came from the cache."),
		whole: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rowmill_serve_whole_total",
			Help: "Queries that were examined and passed on whole, by reason. Statements that can't be split, and queries that differ only in values from one examined shortly before, are not counted."}, []string{"reason"}),
		// From a small split query to a report over years.
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rowmill_serve_split_seconds",
			Help: "How long queries in pieces took.", Buckets: []float64{.005, .02, .1, .5, 2, 10, 60, 300, 1800}}),
	}
	for _, reason := range []string{whyState, whyRefused, whySmall, whyForm, whyTable, whyPlan, whyBusy, whyFailed, whyWarnings, whyGone} {
		m.whole.WithLabelValues(reason)
	}
	return m
}

// Handler serves the front's metrics for Prometheus.
func (f *Front) Handler() http.Handler {
	r := prometheus.NewRegistry()
	m := f.metrics
	r.MustRegister(m.accepted, m.refused, m.panics, m.split, m.pieces, m.cached, m.whole, m.seconds, gauges{f},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	return mux
}

// gauges are read when they are asked for.
type gauges struct{ f *Front }

var (
	connectionsDesc = prometheus.NewDesc("rowmill_serve_connections", "Clients that are connected.", nil, nil)
	sessionsDesc    = prometheus.NewDesc("rowmill_serve_sessions_used", "Sessions that run pieces of queries, of --max-pieces.", nil, nil)
	waitingDesc     = prometheus.NewDesc("rowmill_serve_queries_waiting", "Queries that wait for such sessions.", nil, nil)
	commandsDesc    = prometheus.NewDesc("rowmill_serve_commands_total", "Commands of clients that were passed on.", nil, nil)
	periodsDesc     = prometheus.NewDesc("rowmill_serve_cache_periods", "Periods whose partials are in the cache, one for each query and period.", nil, nil)
	cacheBytesDesc  = prometheus.NewDesc("rowmill_serve_cache_bytes", "Memory of these partials.", nil, nil)
	bytesDesc       = prometheus.NewDesc("rowmill_serve_bytes_total", "Bytes of commands (in) and of responses (out).", []string{"direction"}, nil)
)

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectionsDesc, sessionsDesc, waitingDesc, periodsDesc, cacheBytesDesc, commandsDesc, bytesDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	clients := g.f.connected()
	m := g.f.metrics
	var all traffic
	all.add(&m.ended)
	for _, c := range clients {
		all.add(&c.traffic)
	}
	used, waiting := g.f.queue.used.Load(), g.f.queue.waiting.Load()
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	gauge(connectionsDesc, float64(len(clients)))
	gauge(sessionsDesc, float64(used))
	gauge(waitingDesc, float64(waiting))
	if a, ok := g.f.o.Answer.(interface{ CacheStats() query.CacheStats }); ok {
		cached := a.CacheStats()
		gauge(periodsDesc, float64(cached.Periods))
		gauge(cacheBytesDesc, float64(cached.Bytes))
	}
	ch <- prometheus.MustNewConstMetric(commandsDesc, prometheus.CounterValue, float64(all.count.Load()))
	ch <- prometheus.MustNewConstMetric(bytesDesc, prometheus.CounterValue, float64(all.in.Load()), "in")
	ch <- prometheus.MustNewConstMetric(bytesDesc, prometheus.CounterValue, float64(all.out.Load()), "out")
}
