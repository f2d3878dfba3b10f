package monitor

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/rowmill/rowmill/internal/maintain"
)

func rowmillLines(body string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "rowmill_") {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			out[name+"}"] = value
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	m := newMonitor(&looker{s: status()})
	m.Count(maintain.Event{Action: "drop", Err: errors.New("lock wait timeout")})
	for range 60 {
		m.Count(maintain.Event{Action: "seal", Took: time.Second / 2})
	}
	_, body, _ := get(t, m, "/metrics")
	got := rowmillLines(body)
	for name, want := range map[string]string{
		`rowmill_up{table="readings"}`:                                                               "1",
		`rowmill_leader{table="readings"}`:                                                           "1",
		`rowmill_headroom_seconds{table="readings"}`:                                                 "171000",
		`rowmill_headroom_wanted_seconds{table="readings"}`:                                          "172800",
		`rowmill_periods{state="sealed",table="readings"}`:                                           "26",
		`rowmill_periods{state="open",table="readings"}`:                                             "1",
		`rowmill_periods{state="dropped",table="readings"}`:                                          "0",
		`rowmill_rows{table="readings"}`:                                                             "7.325e+07",
		`rowmill_rollup_lag_seconds{rollup="readings_1d",table="readings"}`:                          "86400",
		`rowmill_rollup_stale_buckets{rollup="readings_1h",table="readings"}`:                        "3",
		`rowmill_rollup_rows{rollup="readings_1d",table="readings"}`:                                 "30",
		`rowmill_problems{code="blocked",table="readings"}`:                                          "1",
		`rowmill_problems{code="headroom",table="readings"}`:                                         "0",
		`rowmill_changes{table="readings"}`:                                                          "2",
		`rowmill_change_failed_tries{table="readings"}`:                                              "3",
		`rowmill_blockers{table="readings"}`:                                                         "1",
		`rowmill_blocker_age_seconds{table="readings"}`:                                              "612",
		`rowmill_actions_total{action="seal",result="ok",table="readings"}`:                          "60",
		`rowmill_actions_total{action="drop",result="failed",table="readings"}`:                      "1",
		`rowmill_action_seconds_count{action="drop",table="readings"}`:                               "1",
		`rowmill_action_seconds_sum{action="seal",table="readings"}`:                                 "30",
		`rowmill_last_success_timestamp_seconds{action="create",table="readings"}`:                   "1.79517768e+09",
		`rowmill_build_info{goversion="` + runtime.Version() + `",table="readings",version="1.2.3"}`: "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	for name := range got {
		if !strings.Contains(name, `table="readings"`) {
			t.Errorf("%s doesn't say of which table", name)
		}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(m.counted.actions, m.counted.seconds, &scrape{m, m.look(t.Context())})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("names: %v %v", problems, err)
	}
}

// Whatever a status contains, the scrape as a whole succeeds.
func TestOddMetrics(t *testing.T) {
	s := status()
	s.Headroom, s.HeadroomWanted, s.HeadroomRows = nil, nil, new(int64(5))
	s.Rollups = append(s.Rollups, s.Rollups[0])
	s.Periods[0].State, s.Problems[0].Code, s.Latest[0].Action = "odd\xff", "new\"code", "odd\xfe"
	code, body, _ := get(t, newMonitor(&looker{s: s}), "/metrics")
	got := rowmillLines(body)
	if code != 200 || got[`rowmill_headroom_rows{table="readings"}`] != "5" || got[`rowmill_problems{code="new\"code",table="readings"}`] != "1" {
		t.Errorf("%d\n%s", code, body)
	}
	if code, body, _ := get(t, newMonitor(&looker{s: &maintain.Status{}}), "/metrics"); code != 200 || !strings.Contains(body, "rowmill_rows") {
		t.Errorf("of an empty status: %d %s", code, body)
	}
}

func TestLeader(t *testing.T) {
	for want, leads := range map[string]func() bool{"0": nil, "1": func() bool { return true }} {
		_, body, _ := get(t, New(Options{Table: "readings", Look: (&looker{s: status()}).look, Leads: leads}), "/metrics")
		if got := rowmillLines(body)[`rowmill_leader{table="readings"}`]; got != want {
			t.Errorf("leader %s, want %s", got, want)
		}
	}
}

func TestHistory(t *testing.T) {
	var h history
	look := func(second int, periods ...maintain.PeriodStatus) {
		h.add(noon.Add(time.Duration(second)*time.Second), &maintain.Status{Coverage: maintain.Coverage{Periods: periods}})
	}
	p := func(name, state string, rows int64) maintain.PeriodStatus {
		return maintain.PeriodStatus{Name: name, State: state, Rows: rows}
	}
	look(0, p("old", "sealed", 5000), p("a", "open", 1000), p("b", "ahead", 0))
	look(10, p("old", "sealed", 5000), p("a", "open", 2000), p("b", "ahead", 0))
	look(12, p("a", "open", 2100), p("b", "ahead", 0)) // too soon
	// Only inserted rows count, not drops, seals and the move to the next period.
	look(20, p("a", "closing", 2500), p("b", "open", 500), p("c", "ahead", 0))
	look(30, p("a", "sealed", 9999), p("b", "open", 1500), p("c", "ahead", 0))
	look(40, p("b", "open", 1000), p("c", "ahead", 0)) // the server has updated its estimate
	var got []float64
	for _, s := range h.samples() {
		got = append(got, s.Rate)
	}
	if d := cmp.Diff([]float64{100, 100, 100, 100, 50}, got); d != "" {
		t.Error(d)
	}
	for i := range 1000 {
		look(50+10*i, p("b", "open", int64(1000+100*i)))
	}
	if n := len(h.points); n != keepSamples {
		t.Errorf("%d points are kept", n)
	}
	if s := h.samples(); s[len(s)-1].Rate != 10 {
		t.Errorf("the rate is %v, want 10", s[len(s)-1].Rate)
	}
}

// Every period lies within the drawing, in order, and the present is at its position.
func TestTimelines(t *testing.T) {
	whole, near := timelines(status())
	if len(whole.Bars) != 137 || len(near.Bars) != 12+1+48 || whole.Now < 0 || near.Now < 0 || near.Now >= whole.Now {
		t.Errorf("%d and %d bars, now at %v and %v", len(whole.Bars), len(near.Bars), whole.Now, near.Now)
	}
	for name, s := range oddStatuses() {
		whole, near := timelines(s)
		for _, line := range []timeline{whole, near} {
			before := -1.0
			for _, b := range line.Bars {
				if !(b.X >= before && b.X >= 0 && b.X+b.W <= wide+1 && b.Y >= 0 && b.Y+b.H <= tall+.1 && b.W > 0 && b.H >= leastTall) {
					t.Errorf("%s: bar %+v after %v", name, b, before)
				}
				before = b.X
			}
			if line.Now > wide {
				t.Errorf("%s: the present is at %v", name, line.Now)
			}
		}
	}
	// With a clock of its own, or a sequence, the present is the table's.
	s := &maintain.Status{At: noon.Add(1000 * time.Hour), Now: "2026-11-20 12:30:00"}
	for i := range 4 {
		from := noon.Truncate(time.Hour).Add(time.Duration(i-1) * time.Hour)
		s.Periods = append(s.Periods, maintain.PeriodStatus{Name: fmt.Sprint(i), From: at(from), To: at(from.Add(time.Hour)), State: "open", Rows: int64(20 * i), Bytes: 8 << 20})
	}
	line, _ := timelines(s)
	if line.Now != 375 {
		t.Errorf("the present is at %v, want 375", line.Now)
	}
	// Small periods of some servers have the same size whatever their rows.
	for i, want := range []float64{leastTall, 34, 62, tall} {
		if line.Bars[i].H != want {
			t.Errorf("%d rows are %v high, want %v", 20*i, line.Bars[i].H, want)
		}
	}
	if line, _ := timelines(oddStatuses()["sequence"]); line.Now != 750 {
		t.Errorf("the highest key is at %v, want 750", line.Now)
	}
}

// oddStatuses are hostile, huge and empty ones.
func oddStatuses() map[string]*maintain.Status {
	hostile := status()
	const script = `"'><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">{{.}}`
	hostile.Table, hostile.Leader, hostile.Target = script, script, script
	hostile.Problems[0] = maintain.Problem{Code: script, Text: script, Try: strings.Repeat("long", 300)}
	hostile.Blockers[0].Statement = script
	hostile.Periods[0] = maintain.PeriodStatus{Name: script, From: script, To: script, State: script, Archive: script}
	hostile.Actions[0].Error, hostile.Actions[0].Action = script, script
	many := &maintain.Status{Table: "many", At: noon, Coverage: maintain.Coverage{Headroom: new(0.0), HeadroomWanted: new(0.0)}}
	for i := range 8192 {
		from := noon.Add(time.Duration(i-8000) * time.Hour)
		state := "sealed"
		if i > 8000 {
			state = "ahead"
		}
		many.Periods = append(many.Periods, maintain.PeriodStatus{Name: fmt.Sprint("p", i), From: from.Format(time.RFC3339), To: from.Add(time.Hour).Format(time.RFC3339), State: state, Rows: 1e12, Bytes: 1 << 50})
	}
	sequence := &maintain.Status{Now: "750000", Table: "orders", Coverage: maintain.Coverage{HeadroomRows: new(int64(250_000)), Periods: []maintain.PeriodStatus{
		{Name: "p1", From: "0", To: "500000", State: "sealed", Rows: 500_000, Bytes: 1 << 20},
		{Name: "p2", From: "500000", To: "1000000", State: "open", Rows: 250_000, Bytes: 1 << 19}}}, Ahead: "500000 rows"}
	return map[string]*maintain.Status{"hostile": hostile, "many periods": many, "sequence": sequence, "empty": {}}
}
