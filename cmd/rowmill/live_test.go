package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/rowmill/rowmill/result"
)

// liveStart is the time at which the runs of these tests begin.
var liveStart = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// feed sends messages to a model, as the program would.
func feed(m *liveModel, msgs ...tea.Msg) {
	for _, msg := range msgs {
		m.Update(msg)
	}
}

// falling returns a run whose rate falls from 100,000 rows/s.
func falling(layout string, n int) []tea.Msg {
	msgs := []tea.Msg{liveBegin{result.Run{Name: "classic " + layout + " on mariadb", Layout: layout, Engine: "mariadb",
		ServerVersion: "10.11.19", Rows: 2000000, Writers: 2, Batch: 1000, IntervalSeconds: 1}, liveStart}}
	var rows int64
	for i := 1; i <= n; i++ {
		added := int64(100000 / (1 + i/4))
		rows += added
		iv := result.Interval{Elapsed: float64(i), Seconds: 1, Rows: rows, NewRows: added,
			Latency:  map[string]result.Histogram{"insert": {Latency: result.Latency{Count: added / 1000, P50: 900, P95: 2000, P99: 5000, Max: 40000}}},
			Counters: map[string]float64{"cpu_user": 0.5, "cpu_iowait": 0.25}}
		if i == 5 {
			iv.Events = []result.Event{{Elapsed: 4.5, Seconds: 0.02, What: "create partitions", Object: "purchases p1"}}
		}
		if i == 7 {
			iv.Errors, iv.Retries = 2, 1
		}
		msgs = append(msgs, liveInterval{iv, liveStart.Add(time.Duration(i) * time.Second)})
	}
	return msgs
}

// TestLiveFrame checks the frame in terminals of several sizes.
func TestLiveFrame(t *testing.T) {
	dir := here(t)
	for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 12}, {20, 5}, {10, 2}, {1, 1}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			m := newLiveModel(false, func() {})
			feed(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			feed(m, falling("plain", 20)...)
			frame := m.View()
			lines := strings.Split(frame, "\n")
			if len(lines) > max(size[1], 2) {
				t.Errorf("%d lines on a terminal of %d", len(lines), size[1])
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > size[0] {
					t.Errorf("a line of %d columns on a terminal of %d: %q", w, size[0], l)
				}
			}
			golden(t, dir, fmt.Sprintf("live-%dx%d.txt", size[0], size[1]), frame+"\n")
		})
	}
}

// TestLiveRuns checks that the last frame of each run is kept, the second run's chart
// has both lines, and notes are shown before and during a run.
func TestLiveRuns(t *testing.T) {
	m := newLiveModel(false, func() {})
	feed(m, liveNote("starting a server"))
	if !strings.Contains(m.View(), "starting a server") {
		t.Errorf("the note isn't shown: %q", m.View())
	}
	feed(m, falling("plain", 10)...)
	feed(m, liveEnd{result.Summary{Layout: "plain", Rows: 5000, RowsPerSecond: 100, Verified: &result.Verified{Expected: 5000, Found: 5000, Checksum: true}}})
	feed(m, falling("rolling", 10)...)
	frame := m.View()
	for _, want := range []string{"plain", "rolling"} {
		if !strings.Contains(frame, want) {
			t.Errorf("the frame lacks %q:\n%s", want, frame)
		}
	}
	feed(m, liveStopping{})
	if !strings.Contains(m.View(), "stopping") {
		t.Errorf("nothing says that it is stopping:\n%s", m.View())
	}
	feed(m, liveClose{})
	if m.View() != "" {
		t.Errorf("a closed view still shows %q", m.View())
	}
}

// TestLiveQueryStep checks that a step of queries ends with their rate.
func TestLiveQueryStep(t *testing.T) {
	t.Parallel()
	got := newLiveModel(false, func() {}).verdict(&result.Summary{Rows: 1000, Seconds: 10, RowsPerSecond: 100, Rate: result.Rate{First: 100, Last: 100, Flatness: 1},
		Step: &result.StepSummary{Step: result.Step{Name: "qr100", Query: "qr"}, QueriesPerSecond: 2345, InsertsPerSecond: 100}})
	if want := "done: 2,345 queries/s beside 100 rows/s inserted, in 0:10"; ansi.Strip(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLiveHostile checks that external text can't control the terminal.
func TestLiveHostile(t *testing.T) {
	m := newLiveModel(false, func() {})
	feed(m, liveBegin{result.Run{Name: "x\x1b]0;title\a\x1b[2J", ServerVersion: "\r\n1"}, liveStart}, liveNote("\x1b[31mred\x1b[0m\nline"))
	for _, r := range m.View() {
		if r < ' ' && r != '\n' || r == 0x7f {
			t.Fatalf("the frame has the control character %U: %q", r, m.View())
		}
	}
}

// TestLiveKeys checks that Ctrl-C requests a stop.
func TestLiveKeys(t *testing.T) {
	asked := 0
	m := newLiveModel(false, func() { asked++ })
	feed(m, tea.KeyMsg{Type: tea.KeyCtrlC}, tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q")})
	if asked != 1 {
		t.Errorf("asked to stop %d times, want once", asked)
	}
}

// TestLiveLong checks that a long run keeps a bounded number of points.
func TestLiveLong(t *testing.T) {
	m := newLiveModel(false, func() {})
	feed(m, liveBegin{result.Run{Name: "long"}, liveStart})
	for i := range 3 * livePoints {
		m.Update(liveInterval{result.Interval{Elapsed: float64(i + 1), Seconds: 1, Rows: int64(i+1) * 10, NewRows: 10}, liveStart})
	}
	r := m.run()
	var rows int64
	for _, p := range r.curve {
		rows += p.newRows
	}
	if len(r.curve) > livePoints || rows != 3*livePoints*10 {
		t.Errorf("%d points with %d rows", len(r.curve), rows)
	}
}
