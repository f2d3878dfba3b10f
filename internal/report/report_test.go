package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"image/color"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

func TestNothingToReport(t *testing.T) {
	if _, err := report.New(nil); err == nil {
		t.Error("a report of no runs")
	}
	if err := report.JSON(io.Discard, nil); err == nil {
		t.Error("JSON of no runs")
	}
	if _, err := report.Compare(nil, []result.Record{{}}); err == nil {
		t.Error("nothing was compared with something")
	}
}

// Every report format handles every record, and never interprets its text as markup.
func TestOddRecords(t *testing.T) {
	for name, recs := range oddRecords(t) {
		t.Run(name, func(t *testing.T) {
			page := render(t, "html", recs)
			if strings.Contains(page, "<script>window") || strings.Contains(page, "<img") {
				t.Error("a name stands in the page as markup")
			}
			if md := render(t, "md", recs); strings.Contains(md, "<script") {
				t.Error("a name stands in the Markdown as markup")
			}
			if !json.Valid([]byte(render(t, "json", recs))) {
				t.Error("the JSON is none")
			}
			pngOf(t, document.PNGOptions{}, recs, 1200, 675)
			c := compared(t, recs, recs).Document()
			if err := c.JSON(io.Discard); err != nil {
				t.Errorf("comparison: %v", err)
			}
			// Names come from servers and files: none may control a terminal.
			var text strings.Builder
			if err := c.Text(&text); err != nil {
				t.Error(err)
			}
			if strings.ContainsAny(render(t, "txt", recs)+text.String(), "\x1b\a") {
				t.Error("a control character reached the text")
			}
		})
	}
}

// The page's policy forbids network access, and permits exactly its own script and style.
func TestPageIsSelfContained(t *testing.T) {
	page := render(t, "html", []result.Record{synthetic(t, rollingCourse())})
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil {
		t.Fatal("no content security policy")
	}
	csp := html.UnescapeString(policy[1])
	if !strings.HasPrefix(csp, "default-src 'none'; ") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
		t.Errorf("the policy is %s", csp)
	}
	for kind, part := range map[string]*regexp.Regexp{
		"script-src": regexp.MustCompile(`(?s)<script>(.*?)</script>`), "style-src": regexp.MustCompile(`(?s)<style>(.*?)</style>`),
	} {
		found := part.FindAllStringSubmatch(page, -1)
		if len(found) != 1 {
			t.Fatalf("%d of %s", len(found), kind)
		}
		sum := sha256.Sum256([]byte(found[0][1]))
		if want := kind + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(csp, want) {
			t.Errorf("the policy %s lacks %s", csp, want)
		}
	}
	if m := regexp.MustCompile(`(?i)(src|href|action)\s*=\s*["']?(https?:|//|[a-z0-9./]+\.(js|css|png))`).FindString(page); m != "" {
		t.Errorf("the page refers to %s", m)
	}
	for _, want := range []string{"Leon Sorokin", "Permission is hereby granted", `<html lang="en">`, `name="viewport"`, "<noscript>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestPNG(t *testing.T) {
	recs := []result.Record{synthetic(t, plainCourse()), synthetic(t, rollingCourse())}
	for _, c := range []struct {
		name          string
		opts          document.PNGOptions
		width, height int
	}{
		{"default", document.PNGOptions{}, 1200, 675},
		{"log", document.PNGOptions{Log: true, Title: "A title that is far too long for its picture, and so must be cut off somewhere before its end, wherever that is"}, 1200, 675},
		{"small", document.PNGOptions{Width: 300, Height: 300}, 300, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			img := pngOf(t, c.opts, recs, c.width, c.height)
			counts := map[color.NRGBA]int{}
			for y := range c.height {
				for x := range c.width {
					counts[color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)]++
				}
			}
			if n := counts[color.NRGBA{0xff, 0xff, 0xff, 0xff}]; n < c.width*c.height/2 {
				t.Errorf("%d pixels are white, the ground isn't", n)
			}
			for name, colour := range map[string]color.NRGBA{"plain": {0xd5, 0x5e, 0, 0xff}, "rolling": {0, 0x72, 0xb2, 0xff}} {
				if counts[colour] < c.width/5 {
					t.Errorf("the line of %s has %d pixels", name, counts[colour])
				}
			}
		})
	}
	for _, o := range []document.PNGOptions{{Width: 10}, {Height: 1e6}, {Width: -1}} {
		if err := o.Validate(); err == nil {
			t.Errorf("a picture of %d x %d is valid", o.Width, o.Height)
		}
	}
}

// steadyRun returns a run at a constant rate, in intervals of a second.
func steadyRun(rows int64, rate float64) result.Record {
	r := result.Record{Source: "r", Run: result.Run{Name: "n", Benchmark: result.Benchmark{Layout: "plain"}, Database: result.Database{Engine: "mariadb"}, Machine: result.Machine{MemoryBytes: 1000}}}
	for at := 0.0; at < float64(rows); {
		n := min(rate, float64(rows)-at)
		at += n
		r.Intervals = append(r.Intervals, result.Interval{Elapsed: at / rate, Seconds: n / rate, Rows: int64(at), NewRows: int64(n)})
	}
	r.End = &result.End{Stopped: "rows", Verified: &result.Verified{Expected: rows, Found: rows, Checksum: true}}
	return r
}

// The longer run is cut to the rows of the other: B's fast second half must not count.
func TestCompareAtEqualRows(t *testing.T) {
	a, b := steadyRun(1000e3, 5000), steadyRun(1000e3, 4000)
	for i := range 1000 {
		last := b.Intervals[len(b.Intervals)-1]
		b.Intervals = append(b.Intervals, result.Interval{Elapsed: last.Elapsed + 1, Seconds: 1, Rows: last.Rows + 50_000, NewRows: 50_000, Errors: int64(i)})
	}
	c := compared(t, []result.Record{a}, []result.Record{b})
	p := c.Cells[0]
	figures := map[string]report.PairFigure{}
	for _, f := range p.Figures {
		figures[f.Name] = f
	}
	if s := figures["seconds to 1,000,000 rows"]; p.Rows != 1000e3 || *s.A != 200 || *s.B != 250 || *p.Ratio != 0.8 {
		t.Errorf("%d rows in %v and %v s, ratio %v", p.Rows, *s.A, *s.B, *p.Ratio)
	}
	if errs := figures["errors"]; *errs.B != 0 {
		t.Errorf("%v errors of B, all of them after the rows compared", *errs.B)
	}
	if last := figures["rate from 900k to 1M rows"]; last.Ratio == nil || math.Abs(*last.Ratio-0.8) > 1e-9 || *last.Ratio != *p.LastTenth.Ratio {
		t.Errorf("figures %+v", p.Figures)
	}
	if b := p.Interval; b == nil || math.Abs(b.Low-0.8) > 1e-9 || math.Abs(b.High-0.8) > 1e-9 {
		t.Errorf("interval %+v of two steady runs", b)
	}
	if text, err := c.Regression(0.19); p.Verdict != statistics.Slower || !strings.Contains(text, "at 0.800 of the rate") || err != nil {
		t.Errorf("%s, beyond 19%%: %q, %v", p.Verdict, text, err)
	}
	if text, err := c.Regression(0.21); text != "" || err != nil {
		t.Errorf("beyond 21%%: %q, %v", text, err)
	}
	if len(c.Flags) != 0 {
		t.Errorf("flags of equal runs: %+v", c.Flags)
	}
}

func TestCompareInterval(t *testing.T) {
	noisy := rollingCourse()
	noisy.seed = 77
	a, b := synthetic(t, rollingCourse()), synthetic(t, noisy)
	c := compared(t, []result.Record{a}, []result.Record{b})
	if i := c.Cells[0].Interval; i == nil || i.Low >= 1 || i.High <= 1 || i.High-i.Low > 0.3 {
		t.Errorf("two runs of one course: %+v, want an interval around 1", i)
	}
	short := compared(t, []result.Record{steadyRun(100, 10)}, []result.Record{steadyRun(100, 10)})
	if short.Cells[0].Interval != nil {
		t.Error("an interval from ten figures")
	}
}

func TestCompareFlags(t *testing.T) {
	for _, c := range []struct {
		name       string
		change     func(r *result.Record)
		kind, what string
	}{
		{"durability", func(r *result.Record) { r.Run.Durability = "none" }, "durability", ""},
		{"a setting of durability", func(r *result.Record) { r.Run.Settings = map[string]string{"sync_binlog": "0"} }, "durability", "sync_binlog"},
		{"another setting", func(r *result.Record) { r.Run.Settings = map[string]string{"innodb_io_capacity": "2000"} }, "settings", "innodb_io_capacity"},
		{"version", func(r *result.Record) { r.Run.ServerVersion = "11" }, "server", "version"},
		{"engine", func(r *result.Record) { r.Run.Engine = "mysql" }, "engine", ""},
		{"storage engine", func(r *result.Record) { r.Run.Storage = "RocksDB" }, "engine", "storage"},
		{"cache", func(r *result.Record) { r.Run.CacheBytes = 1 << 30 }, "cache", ""},
		{"cores", func(r *result.Record) { r.Run.Machine.Cores = 64 }, "machine", "cores"},
		{"memory", func(r *result.Record) { r.Run.Machine.MemoryBytes = 2000 }, "machine", "memory"},
		{"disk", func(r *result.Record) { r.Run.Machine.Disk = "sdb" }, "machine", "disk"},
		{"kernel", func(r *result.Record) { r.Run.Machine.Kernel = "7" }, "machine", "kernel"},
		{"schema", func(r *result.Record) { r.Run.Schema = []string{"CREATE TABLE t (a INT)"} }, "schema", ""},
		{"writers", func(r *result.Record) { r.Run.Writers = 9 }, "workload", "writers"},
		{"indexes", func(r *result.Record) { r.Run.Indexes = 2 }, "workload", "indexes"},
		{"not verified", func(r *result.Record) { r.End.Verified = nil }, "verified", ""},
		{"rows lost", func(r *result.Record) { r.End.Verified.Found-- }, "verified", ""},
		{"failed", func(r *result.Record) { r.End.Stopped, r.End.Failure = "failed", "disk full" }, "incomplete", ""},
		{"cut off", func(r *result.Record) { r.End = nil }, "incomplete", ""},
		{"client-bound", func(r *result.Record) { r.Intervals[0].BusySeconds = 100 }, "client-bound", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := steadyRun(100e3, 5000), steadyRun(100e3, 5000)
			c.change(&b)
			got := compared(t, []result.Record{a}, []result.Record{b})
			for _, f := range got.Flags {
				if f.Kind == c.kind && f.What == c.what {
					if f.A == f.B || f.Text == "" {
						t.Errorf("%+v", f)
					}
					return
				}
			}
			t.Errorf("flags %+v, want one of %s %s", got.Flags, c.kind, c.what)
		})
	}
	// A difference of a few memory pages from boot to boot is the same machine.
	a, b := steadyRun(100e3, 5000), steadyRun(100e3, 5000)
	b.Run.Machine.MemoryBytes = 1005
	if c, _ := report.Compare([]result.Record{a}, []result.Record{b}); len(c.Flags) > 0 {
		t.Errorf("flags %+v", c.Flags)
	}
}

func TestCompareTextOfOppositeEnds(t *testing.T) {
	a, b := steadyRun(100e3, 5000), steadyRun(100e3, 5000)
	b.Intervals = nil
	c := compared(t, []result.Record{a}, []result.Record{b})
	var text bytes.Buffer
	if err := c.Document().Text(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "One of the two inserted no rows") {
		t.Errorf("%s", text.String())
	}
	if text, err := c.Regression(0); text != "" || err == nil || !strings.Contains(err.Error(), "can't be judged") {
		t.Errorf("without rates: %q, %v", text, err)
	}
}

// Every report of any record can be written.
func FuzzReport(f *testing.F) {
	f.Add(`{"type":"run","format":"rowmill.run/1","rate":9,"layout":"plain","counters":[{"name":"page_reads","unit":"pages/s"}]}` + "\n" +
		`{"type":"interval","elapsed":1,"seconds":1,"rows":9,"new_rows":9,"marks":[[5,0.5]],"counters":{"page_reads":7}}` + "\n" +
		`{"type":"summary","stopped":"rows","size_bytes":{"data":1,"index":2}}` + "\n")
	f.Add(`{"type":"run","format":"rowmill.run/1","rate":1e308}` + "\n" +
		`{"type":"interval","elapsed":1e308,"seconds":5e-324,"rows":9223372036854775807,"new_rows":9223372036854775807,"backlog":-1,"events":[{"elapsed":-1e308,"seconds":1e308}]}`)
	f.Add(`{"type":"run","format":"rowmill.run/1"}` + "\n" + `{"type":"interval","elapsed":-1,"rows":-9,"new_rows":-9,"counters":{"__proto__":-1e308}}` + "\n" + `{"type":"interval","elapsed":3,"seconds":-2}`)
	f.Fuzz(func(t *testing.T, text string) {
		recs, err := result.Read(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		page := render(t, "html", recs)
		data := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
		if data == nil || !json.Valid([]byte(data[1])) {
			t.Fatalf("the page's data is no JSON: %q", data)
		}
		for _, format := range []string{"txt", "md", "json"} {
			render(t, format, recs)
		}
		pngOf(t, document.PNGOptions{Width: 300, Height: 300, Log: true}, recs, 300, 300)
		c, err := report.Compare(recs, recs)
		if err != nil {
			return
		}
		if d := c.Document(); errors.Join(d.Text(io.Discard), d.JSON(io.Discard)) != nil {
			t.Fatalf("comparison: %+v", c)
		}
	})
}

// A rate that goes up and down is drawn with its moving mean; one that falls once is not.
func TestMovingMean(t *testing.T) {
	saw := rollingCourse()
	saw.name, saw.rate = "saw", func(rows float64) float64 { return 150e3 - 0.14*math.Mod(rows, 500e3) }
	for name, c := range map[string]struct {
		course course
		want   bool
	}{"waves": {saw, true}, "a fall": {plainCourse(), false}, "nearly constant": {rollingCourse(), false}} {
		page := render(t, "html", []result.Record{synthetic(t, c.course)})
		if got := strings.Contains(page, `"smooth":[`); got != c.want {
			t.Errorf("%s: smoothed %v, want %v", name, got, c.want)
		}
	}
}

func card(t *testing.T, page, label string) string {
	t.Helper()
	for _, c := range regexp.MustCompile(`(?s)<article class="card".*?</article>`).FindAllString(page, -1) {
		text := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(c, " ")), " ")
		if strings.HasPrefix(text, label+" ") {
			return text
		}
	}
	t.Fatalf("no card of %s", label)
	return ""
}

// TestQuerySteps: the headline of a query step is its query rate.
func TestQuerySteps(t *testing.T) {
	t.Parallel()
	recs := steps(t)
	page := render(t, "html", recs)
	if text := card(t, page, "qr100"); !strings.HasPrefix(text, "qr100 900 queries/s beside 100 rows/s inserted") {
		t.Errorf("card: %s", text)
	}
	if text := card(t, page, "l.i1"); !strings.Contains(text, "rows/s in the last tenth of the rows") {
		t.Errorf("card: %s", text)
	}
	for _, text := range []string{page, render(t, "txt", recs)} {
		if want := "Queries per second: 900 in qr100, 700 in qp1000."; !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

// TestPartsAreCheckedWithTheWhole: a step says when its rows are checked.
func TestPartsAreCheckedWithTheWhole(t *testing.T) {
	t.Parallel()
	recs := steps(t)
	page := render(t, "html", recs)
	if !strings.Contains(page, "with all steps, after the last") || !strings.Contains(page, "checksum equal") || strings.Contains(page, "not checked") {
		t.Error("the page doesn't say when the rows of a step are checked")
	}
	// Without the last step, the rows were not verified.
	if text := render(t, "txt", recs[:5]); !strings.Contains(text, "Not verified: the rows are checked after the last step, which is missing here.") {
		t.Errorf("text: %s", text)
	}
	c, err := report.Compare(recs[4:5], recs[4:5])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Flags {
		if f.Kind == "verified" && f.A != "verified with all steps, after the last" {
			t.Errorf("%+v", f)
		}
	}
}

// TestCountedRows: rows that were only counted are sound, and the report says so.
func TestCountedRows(t *testing.T) {
	t.Parallel()
	rec := steadyRun(100e3, 5000)
	rec.End.Verified = &result.Verified{Expected: 12_000, Found: 12_000, Counted: true}
	text, page := render(t, "txt", []result.Record{rec}), render(t, "html", []result.Record{rec})
	if !strings.Contains(text, "yes: 12,000 rows counted of 12,000 expected, their values not compared") || strings.Contains(text, "!") {
		t.Errorf("text: %s", text)
	}
	if !strings.Contains(page, "12,000 rows counted of 12,000 expected") {
		t.Error("the page doesn't say that rows were counted")
	}
	rec.End.Verified.Found--
	if text := render(t, "txt", []result.Record{rec}); !strings.Contains(text, "FAILED: 11,999 rows counted of 12,000 expected") {
		t.Errorf("text: %s", text)
	}
}

// TestNotVerified: a run whose rows were not read states this once, with the reason.
func TestNotVerified(t *testing.T) {
	t.Parallel()
	rec := steadyRun(100e3, 5000)
	rec.End.Verified = nil
	if text := render(t, "txt", []result.Record{rec}); !strings.Contains(text, "! not verified: the rows in the table were not compared with those sent") {
		t.Errorf("text: %s", text)
	}
	rec.End.Warnings = []string{"not verified: --no-verify was given"}
	if text := render(t, "txt", []result.Record{rec}); strings.Count(text, "! not verified") != 1 || !strings.Contains(text, "! not verified: --no-verify was given") {
		t.Errorf("text: %s", text)
	}
}

// dayIntervals is the number of intervals of a second in a day.
const dayIntervals = 86_400

// day returns the record of a run of n seconds, at about 2,000 rows/s.
func day(t testing.TB, n int) result.Record {
	t.Helper()
	rec := synthetic(t, course{name: "a day", layout: "rolling", rows: 1e12, rate: func(float64) float64 { return 2000 }, period: 500e3, stop: 60, seed: 8})
	rng := rand.New(rand.NewPCG(1, 1))
	made := rec.Intervals
	rec.Intervals = make([]result.Interval, n)
	var rows int64
	for i := range rec.Intervals {
		iv := made[rng.IntN(len(made))]
		iv.Marks, iv.Events = nil, nil
		iv.NewRows = 1900 + rng.Int64N(200)
		rows += iv.NewRows
		iv.Elapsed, iv.Seconds, iv.Rows = float64(i+1), 1, rows
		rec.Intervals[i] = iv
	}
	return rec
}

// A day's points represent many intervals each, and yet a single stalled second, or one in
// which a counter peaked, must be in the page, which stays small enough to mail.
func TestDayKeepsItsExtremes(t *testing.T) {
	rec := day(t, dayIntervals)
	const at = 43_210
	stalled := &rec.Intervals[at]
	for i := at; i < len(rec.Intervals); i++ {
		rec.Intervals[i].Rows -= stalled.NewRows - 7
	}
	stalled.NewRows = 7
	stalled.Counters = map[string]float64{"page_reads": 987_654}
	worst := stalled.Latency["insert"]
	worst.Max = 59_000_000
	stalled.Latency = map[string]result.Histogram{"insert": worst}

	page := render(t, "html", []result.Record{rec})
	if n := len(page); n > 3<<20 {
		t.Errorf("the page has %d bytes", n)
	}
	var data struct {
		Runs []struct {
			Rows []float64
			Rate struct {
				Rows, Time struct{ Mean, Lo, Hi []*float64 }
			}
			// By operation and percentile.
			Latency  map[string]map[string][]*float64
			Counters map[string]struct{ Mean, Lo, Hi []*float64 }
			Stalls   []struct{ Seconds float64 }
		}
	}
	text := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)[1]
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	run := data.Runs[0]
	if n := len(run.Rows); n > 1000 || n < 500 {
		t.Errorf("%d points", n)
	}
	find := func(what string, values []*float64, want float64) {
		t.Helper()
		if !slices.ContainsFunc(values, func(v *float64) bool { return v != nil && *v == want }) {
			t.Errorf("%s lacks %v", what, want)
		}
	}
	find("the least rate over time", run.Rate.Time.Lo, 7)
	find("the least rate over rows", run.Rate.Rows.Lo, 7)
	find("the greatest page reads", run.Counters["page_reads"].Hi, 987_650)
	find("the greatest latency", run.Latency["insert"]["max"], 59e6)
	for i, v := range run.Rate.Time.Mean {
		if lo, hi := run.Rate.Time.Lo[i], run.Rate.Time.Hi[i]; *lo > *v || *hi < *v {
			t.Fatalf("point %d: mean %v outside of %v to %v", i, *v, *lo, *hi)
		}
	}
	if len(run.Stalls) != 1 || run.Stalls[0].Seconds != 1 {
		t.Errorf("stalls %+v, want the one", run.Stalls)
	}
	if !strings.Contains(page, "stands for up to 87 intervals") {
		t.Error("the page does not say what its points stand for")
	}
}

// BenchmarkHTMLDay renders a day: 86,400 intervals with their histograms.
func BenchmarkHTMLDay(b *testing.B) {
	recs := []result.Record{day(b, dayIntervals)}
	b.ReportAllocs()
	for b.Loop() {
		render(b, "html", recs)
	}
}
