package serve

import (
	"net/http"
	"sync/atomic"

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
		// Buckets from a small split query to a report over years.
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
	r.MustRegister(m.accepted, m.refused, m.panics, m.split, m.pieces, m.cached, m.whole, m.seconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// The following figures are read when they are asked for.
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("rowmill_serve_connections", "Clients that are connected.", func() float64 { return float64(len(f.connected())) })
	gauge("rowmill_serve_sessions_used", "Sessions that run pieces of queries, of --max-pieces.", func() float64 { return float64(f.queue.used.Load()) })
	gauge("rowmill_serve_queries_waiting", "Queries that wait for such sessions.", func() float64 { return float64(f.queue.waiting.Load()) })
	if a, ok := f.o.Answer.(interface{ CacheStats() query.CacheStats }); ok {
		gauge("rowmill_serve_cache_periods", "Periods whose partials are in the cache, one for each query and period.", func() float64 { return float64(a.CacheStats().Periods) })
		gauge("rowmill_serve_cache_bytes", "Memory of these partials.", func() float64 { return float64(a.CacheStats().Bytes) })
	}
	total := func(name, help string, labels prometheus.Labels, of func(*traffic) *atomic.Int64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
			clients := f.connected()
			sum := of(&m.ended).Load()
			for _, c := range clients {
				sum += of(&c.traffic).Load()
			}
			return float64(sum)
		}))
	}
	total("rowmill_serve_commands_total", "Commands of clients that were passed on.", nil, func(t *traffic) *atomic.Int64 { return &t.count })
	const bytes = "Bytes of commands (in) and of responses (out)."
	total("rowmill_serve_bytes_total", bytes, prometheus.Labels{"direction": "in"}, func(t *traffic) *atomic.Int64 { return &t.in })
	total("rowmill_serve_bytes_total", bytes, prometheus.Labels{"direction": "out"}, func(t *traffic) *atomic.Int64 { return &t.out })
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	return mux
}
