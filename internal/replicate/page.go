package replicate

import (
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowmill/rowmill/internal/figure"
)

// Handler serves a page at / and metrics for Prometheus at /metrics.
func (b *Board) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		size, _ := b.Size()
		_ = page.Execute(w, map[string]any{"Hosts": b.List(), "Size": size, "Line": b.Line()}) // the reader is gone
	})
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(b)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

var page = template.Must(template.New("").Funcs(template.FuncMap{
	"bytes": figure.Bytes[int64], "rate": func(f float64) string { return figure.Bytes(f) + "/s" }, "percent": figure.Percent,
	"left": func(s Status, size int64) string { return figure.Clock(s.Left(size)) },
}).Parse(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>rowmill copy</title>
<style>body{font:15px sans-serif;margin:2em}td,th{padding:.2em 1em;text-align:left}.failed{color:#b00}</style></head><body>
<h1>rowmill copy</h1><p>{{.Line}}</p>
<table><tr><th>Host</th><th>State</th><th>Copied</th><th>Rate</th><th>Left</th><th>Busy</th><th>Sent again</th><th>Reason</th></tr>
{{$size := .Size}}{{range .Hosts}}<tr class="{{.State}}"><td>{{.Host}}</td><td>{{.State}}</td><td>{{bytes .Bytes}} of {{bytes $size}}</td><td>{{rate .Rate}}</td><td>{{left . $size}}</td><td>{{percent .Busy}}</td><td>{{bytes .SentAgain}}</td><td>{{.Reason}}</td></tr>
{{end}}</table></body></html>
`))

// Line says in one line how far each host is.
func (b *Board) Line() string {
	size, began := b.Size()
	list := b.List()
	if size == 0 || len(list) == 0 {
		return "waiting for a sender"
	}
	var hosts []string
	slowest, left := 0.0, -1.0
	for _, s := range list {
		text := string(s.State)
		if s.State == Copying {
			text = figure.Percent(float64(s.Bytes) / float64(size))
			if l := s.Left(size); l > left {
				slowest, left = s.Rate, l
			}
		}
		hosts = append(hosts, s.Host+" "+text)
	}
	line := fmt.Sprintf("%s, %s: %s", figure.Bytes(size), figure.Clock(time.Since(began).Seconds()), strings.Join(hosts, ", "))
	if left >= 0 {
		line += fmt.Sprintf("; %s/s, %s left", figure.Bytes(slowest), figure.Clock(left))
	}
	return line
}

// Describe sends nothing: hosts come and go.
func (b *Board) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (b *Board) Collect(ch chan<- prometheus.Metric) {
	gauge := func(name, help string, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("rowmill_copy_"+name, help, []string{"host", "state"}[:len(labels)], nil), prometheus.GaugeValue, value, labels...)
	}
	size, _ := b.Size()
	gauge("size_bytes", "Bytes of the whole copy.", float64(size))
	for _, s := range b.List() {
		gauge("host_bytes", "Bytes of the copy on a host's disk.", float64(s.Bytes), s.Host)
		gauge("host_rate_bytes", "Bytes per second of the last seconds.", s.Rate, s.Host)
		gauge("host_busy", "Share of its time in which a host checks and writes.", s.Busy, s.Host)
		gauge("host_sent_again_bytes", "Bytes that were sent to a host more than once.", float64(s.SentAgain), s.Host)
		for _, state := range []State{Waiting, Checking, Copying, Syncing, Done, Failed} {
			value := 0.0
			if s.State == state {
				value = 1
			}
			gauge("host_state", "1 for the state of a host.", value, s.Host, string(state))
		}
	}
}
