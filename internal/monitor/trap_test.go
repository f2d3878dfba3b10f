package monitor

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/maintain"
)

// Periods created ahead are only safe with an alarm: inserts fail once the last
// period is over. The alarm is visible in every output.
func TestTrapHeadroomAlarm(t *testing.T) {
	s := status()
	s.Headroom = new(1800.0)
	s.Problems = []maintain.Problem{{Code: "headroom", Text: "inserts have periods for 30m0s more; 2d is declared", Try: "rowmill run FILE --once"}}
	m := newMonitor(&looker{s: s})
	_, body, _ := get(t, m, "/metrics")
	got := rowmillLines(body)
	if got[`rowmill_headroom_seconds{table="readings"}`] != "1800" || got[`rowmill_headroom_wanted_seconds{table="readings"}`] != "172800" || got[`rowmill_problems{code="headroom",table="readings"}`] != "1" {
		t.Errorf("metrics:\n%s", body)
	}
	if code, body, _ := get(t, m, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "30m0s more") {
		t.Errorf("healthz: %d %s", code, body)
	}
	if _, page, _ := get(t, m, "/"); !strings.Contains(page, `<p class="big bad">30m</p>`) || !strings.Contains(page, "Try: rowmill run FILE --once") {
		t.Errorf("page:\n%.3000s", page)
	}
}
