package receive

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowmill/rowmill/internal/ingest"
)

// counted contains the counters that accumulate during the process's life.
type counted struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	taken    *prometheus.CounterVec
	bad      *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	refused  prometheus.Counter
}

func newCounted() *counted {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rowmill_ingest_" + name, Help: help}, labels)
	}
	return &counted{
		requests: counter("requests_total", "Requests answered, by route and status code.", "route", "code"),
		// Buckets from a request that waits for one sync (1 ms) to the time limit of a request.
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rowmill_ingest_request_seconds",
			Help: "How long requests took.", Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 90}}, []string{"route"}),
		taken: counter("received_rows_total", "Rows that were received and are on disk.", "table"),
		bad:   counter("bad_rows_total", "Rows among those received whose values can't be loaded.", "table"),
		bytes: counter("received_bytes_total", "Bytes of these rows, decompressed.", "table"),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "rowmill_ingest_refused_connections_total",
			Help: "Connections that were closed at once, because there were too many."}),
	}
}

func (c *counted) rows(table string, r ingest.Receipt, size int) {
	if r.Repeated {
		return
	}
	c.taken.WithLabelValues(table).Add(float64(r.Rows))
	c.bad.WithLabelValues(table).Add(float64(r.Bad))
	c.bytes.WithLabelValues(table).Add(float64(size))
}

// Describe sends nothing, as for an unchecked collector.
func (s *Server) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{s.counted.requests, s.counted.seconds, s.counted.taken, s.counted.bad, s.counted.bytes, s.counted.refused} {
		c.Collect(ch)
	}
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("rowmill_ingest_connections", "Open connections.", nil, nil), prometheus.GaugeValue, float64(s.open.Load()))
	for name, in := range s.o.Tables {
		st := in.Status()
		set := func(metric, help string, kind prometheus.ValueType, v float64) {
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("rowmill_ingest_"+metric, help, []string{"table"}, nil), kind, v, name)
		}
		is := map[bool]float64{true: 1}
		set("spool_bytes", "Bytes on disk that aren't known to be in the table.", prometheus.GaugeValue, float64(st.Bytes))
		set("spool_records", "Requests on disk that aren't known to be in the table.", prometheus.GaugeValue, float64(st.Records))
		set("lag_seconds", "Age of the oldest of them.", prometheus.GaugeValue, st.Lag.Seconds())
		set("failing", "1 while nothing can be loaded from the spool.", prometheus.GaugeValue, is[st.Failure != ""])
		set("refusing", "1 while requests are refused, because their rows can't be kept.", prometheus.GaugeValue, is[st.Refusal != ""])
		set("inserted_rows_total", "Rows that this process has inserted.", prometheus.CounterValue, float64(st.Rows.Inserted))
		set("duplicate_rows_total", "Rows whose key was in the table.", prometheus.CounterValue, float64(st.Rows.Duplicate))
		set("rejected_rows_total", "Rows that went to the file of bad rows, or were not kept.", prometheus.CounterValue, float64(st.Rows.Rejected))
		set("unkept_rows_total", "Those of them that were not kept, because that file is full.", prometheus.CounterValue, float64(st.Unkept))
	}
}
