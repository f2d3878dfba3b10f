package report_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/testbrowser"
	"github.com/rowmill/rowmill/result"
)

// steadyRecord returns a constant load of 100 rows/s on a machine, beginning at a time of its
// clock. CPU time is stolen in a fifth of the intervals from 18:00 to 20:00.
func steadyRecord(t testing.TB, host string, started time.Time, hours int) result.Record {
	t.Helper()
	zone, offset := started.Zone()
	rec := result.Record{Source: host + ".jsonl", Run: result.Run{Type: "run", Format: result.Format,
		Name: "steady 100 rows/s on mariadb " + host, Started: started.UTC(), Rowmill: "v0.1.0", Command: []string{"bench", "steady"},
		Benchmark: result.Benchmark{Workload: "steady", Preset: "classic", Layout: "rolling"}, Load: result.Load{
			Seed: 1, Writers: 1, Batch: 10, Method: "multi", Indexes: 3, Rate: 100,
			MaxTimeSeconds: float64(hours * 3600), IntervalSeconds: 10,
		},
		Retention: result.Retention{
			Period: "60000 rows", KeepPeriods: 3,
			Steady: &result.SteadyGoal{P99LimitUS: 20_000, Host: host, Zone: zone, UTCOffsetSeconds: offset},
		},
		Database: result.Database{Target: "mariadb://bench@localhost/test", Engine: "mariadb", ServerVersion: "10.11.19", Storage: "InnoDB", Durability: "full"},
		Machine:  result.Machine{Cores: 2, CPU: "EPYC 7B13", OS: "linux", Arch: "amd64"},
		Counters: []result.Counter{
			{Name: "os_cpu_steal", Group: "os", Unit: "fraction"}, {Name: "pressure_cpu_some", Group: "os", Unit: "fraction"},
			{Name: "pressure_io_some", Group: "os", Unit: "fraction"}, {Name: "work_seconds", Group: "os", Unit: "seconds"},
		},
	}}
	rng := rand.New(rand.NewPCG(3, uint64(hours)))
	fast, slow := spread(t, rng, 100, 900, 0), spread(t, rng, 70, 30_000, 0)
	var rows int64
	for i := range hours * 360 {
		at := started.Add(time.Duration(i) * 10 * time.Second)
		iv := result.Interval{Type: "interval", Elapsed: 10 * float64(i+1), Seconds: 10, NewRows: 1000, Counters: map[string]float64{
			"os_cpu_steal": round3(0.004 * rng.Float64()), "pressure_cpu_some": round3(0.04 * rng.Float64()),
			"pressure_io_some": round3(0.05 + 0.04*rng.Float64()), "work_seconds": 0.0051 + 0.0001*rng.Float64()}}
		h := fast
		if at.Hour() >= 18 && at.Hour() < 20 && i%90 < 18 {
			h, iv.NewRows = slow, 700
			iv.Counters["os_cpu_steal"], iv.Counters["work_seconds"] = 0.35, 0.0087
		}
		iv.Latency, iv.Response = map[string]result.Histogram{"insert": h}, map[string]result.Histogram{"insert": h}
		rows += iv.NewRows
		iv.Rows = rows
		rec.Intervals = append(rec.Intervals, iv)
	}
	rec.End = &result.End{Type: "summary", Stopped: "max-time", ClientCPUSeconds: 70,
		Verified: &result.Verified{Expected: 180_000, Found: 180_000, Checksum: true}, DroppedRows: rows - 180_000}
	return rec
}

func steadyPair(t testing.TB, hours int) []result.Record {
	cest := time.FixedZone("CEST", 7200)
	return []result.Record{
		steadyRecord(t, "db1", time.Date(2026, 5, 4, 10, 30, 0, 0, cest), hours),
		// Two days later, beginning at another time of the day.
		steadyRecord(t, "db2", time.Date(2026, 5, 6, 8, 0, 0, 0, cest), hours),
	}
}

func TestSteadyGoldens(t *testing.T) {
	pair := steadyPair(t, 24)
	for name, recs := range map[string][]result.Record{"steady": pair[:1], "steady_pair": pair} {
		t.Run(name, func(t *testing.T) {
			goldens(t, name, recs, "txt", "md")
		})
	}
}

// The page has the panels, and the second machine's day shifted onto the first one's.
func TestSteadyPage(t *testing.T) {
	page := render(t, "html", steadyPair(t, 24))
	if n := len(page); n > 1<<20 {
		t.Errorf("the page has %d bytes", n)
	}
	var data struct {
		Axis     string
		Counters []struct{ Name string }
		Runs     []struct {
			Shift, Limit float64
			Time         []float64
			Counters     map[string]struct{ Mean []*float64 }
		}
	}
	text := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)[1]
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	if a, b := data.Runs[0].Shift, data.Runs[1].Shift; data.Axis != "day" || data.Runs[1].Limit != 20_000 || a != 10.5*3600 || b != 8*3600 {
		t.Errorf("over the %s, the runs begin at %v and %v seconds of the day", data.Axis, a, b)
	}
	var names []string
	for _, c := range data.Counters {
		names = append(names, c.Name)
		for _, r := range data.Runs {
			if n := len(r.Counters[c.Name].Mean); n == 0 || n != len(r.Time) {
				t.Errorf("%s: %d figures at %d positions", c.Name, n, len(r.Time))
			}
		}
	}
	if got := strings.Join(names, " "); got != "os_cpu_steal pressure_cpu_some pressure_io_some work_seconds" {
		t.Errorf("counters %s", got)
	}
}

func TestSteadyPicture(t *testing.T) {
	pair := steadyPair(t, 8)
	short := steadyRecord(t, "db3", time.Date(2026, 5, 4, 23, 59, 0, 0, time.UTC), 1)
	empty := short
	empty.Intervals = nil
	for _, recs := range [][]result.Record{pair[:1], {short}, {empty}} {
		pngOf(t, document.PNGOptions{}, recs, 1200, 1000)
	}
	for _, recs := range [][]result.Record{pair, {empty}} {
		rendered(t, func(d *document.Document, w io.Writer) error {
			d.Elapsed = true
			return d.PNG(w, document.PNGOptions{})
		}, recs)
	}
	d, err := report.New(pair)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.PNG(io.Discard, document.PNGOptions{Height: 300}); err == nil {
		t.Error("five panels in 300 pixels")
	}
}

// Among other workloads, the steadiness is one of the facts.
func TestSteadyAmongOthers(t *testing.T) {
	recs := append(steadyPair(t, 24)[:1], synthetic(t, rollingCourse()))
	if text := render(t, "txt", recs); !strings.Contains(text, "steadiness") || !strings.Contains(text, "below target for 1.7% of the time") {
		t.Error(text)
	}
}

// The page works in a browser, including a change of the axis.
func TestSteadyBrowser(t *testing.T) {
	open := opener(t)
	b := open(t, 1240, 2000, steadyPair(t, 8))
	drawn := 0
	for _, axis := range []string{"day", "time", "rows"} {
		testbrowser.Eval[bool](b.Tab, `(document.querySelector('[data-x="`+axis+`"]').click(), true)`)
		b.Settle()
		n := testbrowser.Eval[int](b.Tab, `document.querySelectorAll(".chart canvas").length`)
		if drawn = max(drawn, n); n < 8 || n != drawn {
			t.Errorf("%d charts drawn over %s", n, axis)
		}
		if pressed := testbrowser.Eval[string](b.Tab, `document.querySelector('[aria-pressed="true"][data-x]').getAttribute("data-x")`); pressed != axis {
			t.Errorf("pressed %q, want %q", pressed, axis)
		}
	}
}
