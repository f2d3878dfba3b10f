package live

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/rowmill/rowmill/result"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// newDrawn returns a view without a program.
func newDrawn(width, height int) *View {
	return &View{screen: screen{width: width, height: height, plain: true}}
}

// fall shows a run whose rate falls from 100,000 rows/s.
func fall(c *View, layout string, n int) {
	c.Begin(result.Run{Name: "classic " + layout + " on mariadb", Benchmark: result.Benchmark{Layout: layout}, Database: result.Database{Engine: "mariadb", ServerVersion: "10.11.19"}, Load: result.Load{Rows: 2000000, IntervalSeconds: 1}})
	var rows int64
	for i := 1; i <= n; i++ {
		added := int64(100000 / (1 + i/4))
		rows += added
		iv := result.Interval{Elapsed: float64(i), Seconds: 1, Rows: rows, NewRows: added,
			Latency:  map[string]result.Histogram{"insert": {Latency: result.Latency{Count: added / 1000, P50: 900, P95: 2000, P99: 5000, Max: 40000}}},
			Counters: map[string]float64{"os_cpu_user": 0.5, "os_cpu_iowait": 0.25}}
		if i == 5 {
			iv.Events = []result.Event{{Elapsed: 4.5, Seconds: 0.02, What: "create partitions", Object: "purchases p1"}}
		}
		if i == 7 {
			iv.Errors, iv.Retries = 2, 1
		}
		c.Interval(iv)
	}
}

// TestFrame checks the frame in terminals of several sizes.
func TestFrame(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 12}, {20, 5}, {10, 2}, {1, 1}} {
		name := fmt.Sprintf("%dx%d", size[0], size[1])
		t.Run(name, func(t *testing.T) {
			c := newDrawn(size[0], size[1])
			fall(c, "plain", 20)
			frame := c.draw()
			lines := strings.Split(frame, "\n")
			if len(lines) > max(size[1], 2) {
				t.Errorf("%d lines on a terminal of %d", len(lines), size[1])
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > size[0] {
					t.Errorf("a line of %d columns on a terminal of %d: %q", w, size[0], l)
				}
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(frame+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if frame+"\n" != string(want) {
				t.Errorf("got\n%s\nwant\n%s", frame, want)
			}
		})
	}
}

// TestRuns checks the kept frames, the chart of two runs, and the notes.
func TestRuns(t *testing.T) {
	c := newDrawn(80, 24)
	expect := func(when string, words ...string) {
		t.Helper()
		for _, want := range words {
			if !strings.Contains(c.draw(), want) {
				t.Errorf("%s: %q is missing:\n%s", when, want, c.draw())
			}
		}
	}
	c.Note("starting a server")
	expect("before the first run", "starting a server")
	fall(c, "plain", 10)
	c.End(result.Summary{Layout: "plain", Throughput: result.Throughput{Rows: 5000, RowsPerSecond: 100}, Warnings: []string{"odd"}})
	if len(c.kept) != 1 || !strings.Contains(c.kept[0], "done: 5,000 rows") || !strings.Contains(c.kept[0], "! odd") {
		t.Errorf("kept: %q", c.kept)
	}
	fall(c, "rolling", 10)
	expect("during the second run", "╌╌ plain", "── rolling", "left")
	c.stopping = true
	expect("after Ctrl-C", "stopping")
	c.keep()
	if c.closed = true; len(c.kept) != 2 || c.draw() != "" {
		t.Errorf("a closed view has kept %d frames and shows %q", len(c.kept), c.draw())
	}
}

// TestQueryStep checks that a step of queries ends with their rate.
func TestQueryStep(t *testing.T) {
	got := verdict(&result.Summary{Throughput: result.Throughput{Rows: 1000, Seconds: 10, RowsPerSecond: 100, Rate: result.Rate{First: 100, Last: 100, Flatness: 1}},
		Outcomes: result.Outcomes{Step: &result.StepSummary{Step: result.Step{Name: "qr100", Query: "qr"}, QueriesPerSecond: 2345, InsertsPerSecond: 100}}})
	if want := "done: 2,345 queries/s beside 100 rows/s inserted, in 10s"; ansi.Strip(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestHostile checks that external text can't control the terminal.
func TestHostile(t *testing.T) {
	c := newDrawn(80, 24)
	c.plain = false
	c.Begin(result.Run{Name: "x\x1b]0;title\a\x1b[2J", Database: result.Database{ServerVersion: "\r\n1"}, Warnings: []string{"\x1b[3J"}})
	c.Note("\x1b[31mred\x1b[0m\nline")
	for _, r := range ansi.Strip(c.draw()) {
		if r < ' ' && r != '\n' || r == 0x7f {
			t.Fatalf("the frame has the control character %U: %q", r, c.draw())
		}
	}
	if strings.Contains(c.draw(), "\x1b[2J") || strings.Contains(c.draw(), "\x1b[3J") || strings.Contains(c.draw(), "\x1b[31mred") {
		t.Errorf("the frame passes on control sequences: %q", c.draw())
	}
}

// TestLong checks that a long run keeps a bounded number of points.
func TestLong(t *testing.T) {
	c := newDrawn(80, 24)
	c.Begin(result.Run{Name: "long"})
	for i := range 3 * curvePoints {
		c.Interval(result.Interval{Elapsed: float64(i + 1), Seconds: 1, Rows: int64(i+1) * 10, NewRows: 10})
	}
	var rows int64
	curve := c.run().curve
	for _, p := range curve {
		rows += p.newRows
	}
	if len(curve) > curvePoints || rows != 3*curvePoints*10 {
		t.Errorf("%d points with %d rows", len(curve), rows)
	}
}

// TestProgress checks the completed part and the time left.
func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		header     result.Run
		done, left string
	}{
		"rows":            {result.Run{Load: result.Load{Rows: 1000}}, "0.4", "6"},
		"time":            {result.Run{Load: result.Load{MaxTimeSeconds: 8}}, "0.5", "4"},
		"rows, then time": {result.Run{Load: result.Load{Rows: 1000, MaxTimeSeconds: 8}}, "0.5", "4"},
		"time, then rows": {result.Run{Load: result.Load{Rows: 1000, MaxTimeSeconds: 80}}, "0.4", "6"},
		"no limit":        {result.Run{}, "0", "+Inf"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newDrawn(80, 24)
			v.Begin(c.header)
			for i := range 4 {
				v.Interval(result.Interval{Elapsed: float64(i + 1), Seconds: 1, Rows: int64(i+1) * 100, NewRows: 100})
			}
			done, left := v.run().pace.Done, v.run().pace.Left
			if got := fmt.Sprint(done); got != c.done {
				t.Errorf("done %s, want %s", got, c.done)
			}
			if got := fmt.Sprint(left); got != c.left {
				t.Errorf("left %s, want %s", got, c.left)
			}
		})
	}
}

// TestResponse: where a rate is requested, times count from when operations were due, by name.
func TestResponse(t *testing.T) {
	for rate, want := range map[float64]string{0: "insert p50 0 µs   p99 12 ms", 100: "insert response p50 0 µs   p99 2.4 s"} {
		v := newDrawn(80, 24)
		v.Begin(result.Run{Load: result.Load{Rate: rate}})
		iv := result.Interval{Elapsed: 1, Seconds: 1, Latency: map[string]result.Histogram{"insert": {Latency: result.Latency{Count: 1, P99: 12e3}}}}
		if rate > 0 {
			iv.Response = map[string]result.Histogram{"insert": {Latency: result.Latency{Count: 1, P99: 2.4e6}}}
		}
		v.Interval(iv)
		if got := ansi.Strip(v.frame()); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestClose checks that the last frames are written, and the terminal is asked nothing.
func TestClose(t *testing.T) {
	var out bytes.Buffer
	v := New(t.Context(), &out)
	for _, name := range []string{"first", "second"} {
		v.Begin(result.Run{Name: name})
		v.End(result.Summary{Throughput: result.Throughput{Rows: 5}})
	}
	v.Close()
	v.Close()
	text := out.String()
	first, second := strings.Index(text, "first"), strings.Index(text, "second")
	if first < 0 || second < first || strings.Contains(text, "$p") || strings.Contains(text, "?u") || strings.Contains(text, "[c") {
		t.Errorf("it wrote %q", text)
	}
}
