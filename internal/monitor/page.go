package monitor

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
)

//go:embed assets/page.html.tmpl
var pageText string

//go:embed assets/page.css
var pageCSS string

//go:embed assets/page.js
var pageJS string

func (m *Monitor) routes() http.Handler {
	page := template.Must(template.New("page").Funcs(template.FuncMap{
		"duration": figure.Duration, "bytes": figure.Bytes[int64], "count": countAny, "short": figure.Short, "at": at, "zone": zone, "due": due, "percent": func(p *float64) string { return fmt.Sprintf("%.0f%%", *p) },
	}).Parse(pageText))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.metrics())
	mux.HandleFunc("GET /healthz", m.healthz)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, health{OK: true}) })
	mux.HandleFunc("GET /status.json", m.statusJSON)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { m.page(w, r, page) })
	return guarded(mux)
}

// guarded adds headers that keep pages of other sites from reading or embedding the page.
func guarded(h http.Handler) http.Handler {
	policy := "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src " +
		source(pageJS) + "; style-src " + source(pageCSS)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := w.Header()
		to.Set("Content-Security-Policy", policy)
		to.Set("X-Content-Type-Options", "nosniff")
		to.Set("Referrer-Policy", "no-referrer")
		to.Set("Cross-Origin-Resource-Policy", "same-origin")
		to.Set("Cache-Control", "no-store")
		if !knownHost(r) {
			http.Error(w, fmt.Sprintf("this is rowmill's monitor, and %q is not one of its names: use its address", r.Host), http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// health is the response of /healthz.
type health struct {
	OK       bool               `json:"ok"`
	Table    string             `json:"table,omitempty"`
	Error    string             `json:"error,omitempty"` // of the last look
	Problems []maintain.Problem `json:"problems,omitempty"`
}

func answer(w http.ResponseWriter, code int, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // a failed write means that the client has gone
}

func (m *Monitor) healthz(w http.ResponseWriter, r *http.Request) {
	l, code := m.look(r.Context()), http.StatusOK
	h := health{OK: true, Table: m.o.Table}
	if l.err != nil {
		h.OK, h.Error = false, l.err.Error()
	} else if len(l.status.Problems) > 0 {
		h.OK, h.Problems = false, l.status.Problems
	}
	if !h.OK {
		code = http.StatusServiceUnavailable
	}
	answer(w, code, h)
}

func (m *Monitor) statusJSON(w http.ResponseWriter, r *http.Request) {
	l := m.look(r.Context())
	if l.err != nil {
		answer(w, http.StatusServiceUnavailable, health{Table: m.o.Table, Error: l.err.Error()})
		return
	}
	answer(w, http.StatusOK, l.status)
}

// A view is the data of the page.
type view struct {
	Table, Version string
	CSS            template.CSS
	JS             template.JS
	// Error is the error of the last look. The status is then that of an older look, if any.
	Error            string
	Looked           time.Time
	*maintain.Status // nil before the first successful look
	Leads            bool
	Head             headroom
	Rate             chart
	Whole, Near      timeline
	States           []stateCount
	Listed           []maintain.PeriodStatus
	Left             int // number of periods that are not listed
}

type stateCount struct {
	State string
	N     int
	Rows  int64
	Bytes int64
}

// headroom is the main figure: how long the periods created ahead will last.
type headroom struct {
	Text, Wanted, Class string
}

// listed is the maximum number of periods in the page's table, the newest ones.
const listed = 400

func (m *Monitor) page(w http.ResponseWriter, r *http.Request, page *template.Template) {
	l := m.look(r.Context())
	v := view{Table: m.o.Table, Version: m.o.Version, CSS: template.CSS(pageCSS), JS: template.JS(pageJS), Looked: l.at, Status: l.status}
	if l.err != nil {
		v.Error = l.err.Error()
		m.mu.Lock()
		v.Status, v.Looked = m.good.status, m.good.at
		m.mu.Unlock()
	}
	v.Leads = m.leads()
	if v.Status != nil {
		v.fill()
		v.Rate = rateChart(m.samples())
	}
	render(w, page, &v)
}

// render renders a page to memory first: after an error the response must not be a partial page.
func render(w http.ResponseWriter, page *template.Template, data any) {
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // a failed write means that the client has gone
}

func (v *view) fill() {
	s := v.Status
	v.Head = headroomOf(s)
	v.Whole, v.Near = timelines(s)
	for _, state := range states {
		c := stateCount{State: state}
		for _, p := range s.Periods {
			if p.State == state {
				c.N, c.Rows, c.Bytes = c.N+1, c.Rows+p.Rows, c.Bytes+p.Bytes
			}
		}
		v.States = append(v.States, c)
	}
	v.Left = max(0, len(s.Periods)-listed)
	v.Listed = slices.Clone(s.Periods[v.Left:])
	slices.Reverse(v.Listed)
}

// headroomOf rates the headroom: it is bad at a quarter of the wanted headroom or less.
func headroomOf(s *maintain.Status) headroom {
	switch {
	case s.Headroom != nil:
		h := headroom{Text: figure.Duration(max(*s.Headroom, 0)), Class: "good"}
		wanted := 0.0
		if s.HeadroomWanted != nil {
			wanted = *s.HeadroomWanted
			h.Wanted = figure.Duration(wanted)
		}
		if *s.Headroom < wanted {
			h.Class = "warn"
		}
		if *s.Headroom <= wanted/4 {
			h.Class = "bad"
		}
		return h
	case s.HeadroomRows != nil:
		h := headroom{Text: figure.Count(*s.HeadroomRows) + " rows", Wanted: s.Ahead, Class: "good"}
		if *s.HeadroomRows <= 0 {
			h.Class = "bad"
		}
		return h
	}
	return headroom{Text: "unknown", Class: "warn"}
}

// zone formats a time for the page's script, which converts it to the local time zone.
func zone(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func countAny(n any) string {
	switch n := n.(type) {
	case int:
		return figure.Count(int64(n))
	case int64:
		return figure.Count(n)
	}
	return fmt.Sprint(n)
}

// due formats the time when a task is due: "now" if that is past.
func due(t *time.Time, now string) string {
	if t == nil || at(*t) <= now {
		return "now"
	}
	return at(*t)
}
