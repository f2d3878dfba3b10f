package monitor

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
)

// fleet returns one with a table that is kept and paused, and one that is broken.
func fleet() *Fleet {
	f := NewFleet(func() []Member {
		return []Member{
			{Name: "node n1: readings", Path: "/etc/rowmill/readings.toml", Target: "mysql://db1/metrics", Look: func(context.Context) (*maintain.Status, error) { return status(), nil },
				TableState: schedule.TableState{Leads: true, Headroom: new(time.Hour), Wanted: new(2 * time.Hour), Failures: map[maintain.Lane]int{maintain.Keeping: 2},
					Paused: map[string]time.Time{"rollup": noon}}},
			{Name: "orders", Path: "/etc/rowmill/orders.toml", Err: errors.New("table <orders> has not been applied")},
		}
	}, "v1")
	f.Count("orders", maintain.Event{Action: "seal"})
	return f
}

func TestFleet(t *testing.T) {
	f := fleet()
	for path, want := range map[string]struct {
		code int
		says []string
	}{
		"/": {http.StatusOK, []string{"2 tables", "table &lt;orders&gt; has not been applied", `href="table/node%20n1:%20readings/"`, "rollup 2026-11-20 12:30:00"}},
		"/metrics": {http.StatusOK, []string{`rowmill_broken{table="orders"} 1`, `rowmill_broken_cause{cause="table <orders> has not been applied",table="orders"} 1`, `rowmill_broken{table="node n1: readings"} 0`, `rowmill_headroom_seconds{table="node n1: readings"} 3600`,
			`rowmill_policy_failures{policy="keep",table="node n1: readings"} 2`, `rowmill_paused_until_timestamp_seconds{policy="rollup",table="node n1: readings"} `}},
		"/healthz":                      {http.StatusServiceUnavailable, []string{"orders: table \\u003corders\\u003e has not been applied"}},
		"/status.json":                  {http.StatusOK, []string{`"format": "rowmill.tables/1"`, `"headroom_seconds": 3600`, `"keep": 2`}},
		"/table/node%20n1:%20readings/": {http.StatusOK, []string{"<h1>node n1: readings</h1>", "this process"}},
		"/table/node%20n1:%20readings/status.json": {http.StatusOK, []string{`"table": "readings"`}},
		"/table/orders/":  {http.StatusServiceUnavailable, []string{"orders is not kept"}},
		"/table/nothing/": {http.StatusNotFound, []string{"no such table"}},
	} {
		code, body, header := get(t, f, path)
		if code != want.code || header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d, %v", path, code, header)
		}
		for _, text := range want.says {
			if !strings.Contains(body, text) {
				t.Errorf("%s lacks %q:\n%s", path, text, body)
			}
		}
	}
}
