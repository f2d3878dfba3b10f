package monitor

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/testdb"
)

// metricNames matches rowmill's metrics in a query.
var metricNames = regexp.MustCompile(`\browmill_[a-z_]+`)

// exported returns the names of all metrics.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	s := status()
	s.HeadroomRows = new(int64(1))
	m := newMonitor(&looker{s: s})
	m.o.Delays = func() map[string]time.Duration { return map[string]time.Duration{"db2:3306": time.Second} }
	m.Count(maintain.Event{Action: "seal"})
	get(t, m, "/metrics")
	m.history.points[0].at = m.history.points[0].at.Add(-10e9) // a rate needs time between two looks
	_, body, _ := get(t, m, "/metrics")
	names := map[string]bool{}
	for line := range strings.Lines(body + metricsOf(t, fleet())) {
		names[metricNames.FindString(line)] = true
	}
	return names
}

func metricsOf(t *testing.T, h http.Handler) string {
	t.Helper()
	_, body, _ := get(t, h, "/metrics")
	return body
}

func wantExported(t *testing.T, names map[string]bool, expr string) {
	t.Helper()
	used := metricNames.FindAllString(expr, -1)
	if len(used) == 0 {
		t.Errorf("%s: no metric of rowmill in it", expr)
	}
	for _, name := range used {
		if !names[name] {
			t.Errorf("%s: %s is not exported", expr, name)
		}
	}
}

// Every query of the dashboard uses existing metrics.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../packaging/grafana/rowmill.json")
	if err != nil {
		t.Fatal(err)
	}
	type at struct{ X, Y, W, H int }
	var d struct {
		Title, UID string
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos at
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || len(d.Panels) < 10 {
		t.Errorf("dashboard %q (%s) of %d panels", d.Title, d.UID, len(d.Panels))
	}
	names := exported(t)
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			wantExported(t, names, v.Definition)
		}
	}
	ids := map[int]bool{}
	for i, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q: taken id, no title, or nothing in it", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			wantExported(t, names, target.Expr)
			if !strings.Contains(target.Expr, `table=~"$table"`) {
				t.Errorf("%s: not of the table that is chosen", target.Expr)
			}
		}
		g := p.GridPos
		if g.X+g.W > 24 {
			t.Errorf("panel %q leaves the grid", p.Title)
		}
		for _, q := range d.Panels[:i] {
			if h := q.GridPos; g.X < h.X+h.W && h.X < g.X+g.W && g.Y < h.Y+h.H && h.Y < g.Y+g.H {
				t.Errorf("panels %q and %q overlap", p.Title, q.Title)
			}
		}
	}
}

// Every alert uses existing metrics, and fires when it should.
func TestAlertRules(t *testing.T) {
	text, err := os.ReadFile("../../packaging/prometheus/rowmill.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	names, alerts := exported(t), 0
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok {
			alerts++
			if tests, err := os.ReadFile("../../packaging/prometheus/rowmill.rules_test.yml"); err != nil || !strings.Contains(string(tests), name) {
				t.Errorf("%s has no test (%v)", name, err)
			}
		}
		if expr, ok := strings.CutPrefix(strings.TrimSpace(line), "expr: "); ok {
			alerts--
			wantExported(t, names, expr)
		}
	}
	if alerts != 0 {
		t.Errorf("alerts and expressions differ by %d", alerts)
	}
	tool := testdb.RequireTool(t, "prometheus", "promtool")
	for _, args := range []string{"check rules rowmill.rules.yml", "test rules rowmill.rules_test.yml"} {
		cmd := exec.Command(tool, strings.Fields(args)...)
		cmd.Dir = "../../packaging/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}

// The table of metrics in the documentation is complete, and lists no others.
func TestDocumentedMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| `rowmill_") {
			for _, name := range metricNames.FindAllString(cell, -1) {
				documented[name] = true
			}
		}
	}
	names := exported(t)
	for name := range documented {
		if !names[name] && !names[name+"_bucket"] {
			t.Errorf("%s is documented and not exported", name)
		}
	}
	for name := range names {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); documented[base] {
				name = base
			}
		}
		if name != "" && !documented[name] {
			t.Errorf("%s is exported and not documented", name)
		}
	}
}
