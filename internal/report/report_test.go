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
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
)

func TestNothingToReport(t *testing.T) {
	if _, err := report.New(nil); err == nil {
		t.Error("a report of no runs")
	}
	if err := report.JSON(io.Discard, nil); err == nil {
		t.Error("JSON of no runs")
	}
	if _, err := report.NewComparison(nil, []result.Record{{}}); err == nil {
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
			pngOf(t, report.PNGOptions{}, recs, 1200, 675)
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

// The page is a single file that forbids itself network access, and its policy
// permits exactly the script and the style in it.
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
		opts          report.PNGOptions
		width, height int
	}{
		{"default", report.PNGOptions{}, 1200, 675},
		{"log", report.PNGOptions{Log: true, Title: "A title that is far too long for its picture, and so must be cut off somewhere before its end, wherever that is"}, 1200, 675},
		{"small", report.PNGOptions{Width: 300, Height: 300}, 300, 300},
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
	for _, o := range []report.PNGOptions{{Width: 10}, {Height: 1e6}, {Width: -1}} {
		if err := o.Validate(); err == nil {
			t.Errorf("a picture of %d x %d is valid", o.Width, o.Height)
		}
	}
}

// steadyRun returns a run of the given number of rows at a constant rate, in
// intervals of a second.
func steadyRun(rows int64, rate float64) result.Record {
	r := result.Record{Source: "r", Run: result.Run{Name: "n", Layout: "plain", Engine: "mariadb", Machine: result.Machine{MemoryBytes: 1000}}}
	for at := 0.0; at < float64(rows); {
		n := min(rate, float64(rows)-at)
		at += n
		r.Intervals = append(r.Intervals, result.Interval{Elapsed: at / rate, Seconds: n / rate, Rows: int64(at), NewRows: int64(n)})
	}
	r.End = &result.End{Stopped: "rows", Verified: &result.Verified{Expected: rows, Found: rows, Checksum: true}}
	return r
}

// The longer run is cut to the rows of the other before the comparison: B's fast
// second half must not count.
func TestCompareAtEqualRows(t *testing.T) {
	a, b := steadyRun(1000e3, 5000), steadyRun(1000e3, 4000)
	for i := range 1000 {
		last := b.Intervals[len(b.Intervals)-1]
		b.Intervals = append(b.Intervals, result.Interval{Elapsed: last.Elapsed + 1, Seconds: 1, Rows: last.Rows + 50_000, NewRows: 50_000, Errors: int64(i)})
	}
	c := compared(t, []result.Record{a}, []result.Record{b})
	p := c.Pairs[0]
	if p.Rows != 1000e3 || *p.Seconds.A != 200 || *p.Seconds.B != 250 || *p.RowsPerSecond.Ratio != 0.8 {
		t.Errorf("%d rows in %v and %v s, ratio %v", p.Rows, *p.Seconds.A, *p.Seconds.B, *p.RowsPerSecond.Ratio)
	}
	if *p.Errors.B != 0 {
		t.Errorf("%v errors of B, all of them after the rows compared", *p.Errors.B)
	}
	if len(p.Windows) != 10 || p.Windows[9].ToRows != 1000e3 || math.Abs(*p.Windows[9].Ratio-0.8) > 1e-9 {
		t.Errorf("windows %+v", p.Windows)
	}
	if len(p.At) != 1 || p.At[0].Rows != 1e6 || math.Abs(*p.At[0].A-5000) > 1e-6 {
		t.Errorf("rates at round numbers of rows %+v", p.At)
	}
	if b := p.Interval; b == nil || math.Abs(b.Low-0.8) > 1e-9 || math.Abs(b.High-0.8) > 1e-9 {
		t.Errorf("interval %+v of two steady runs", b)
	}
	if shown, _ := c.Regressions(0.19); p.Verdict != report.Slower || len(shown) != 1 {
		t.Errorf("%s, %d regressions beyond 19%%", p.Verdict, len(shown))
	}
	if shown, untold := c.Regressions(0.21); len(shown)+len(untold) != 0 {
		t.Errorf("%d regressions beyond 21%%, %d untold", len(shown), len(untold))
	}
	if len(p.Flags) != 0 {
		t.Errorf("flags of equal runs: %+v", p.Flags)
	}
}

func TestCompareInterval(t *testing.T) {
	noisy := rollingCourse()
	noisy.seed = 77
	a, b := synthetic(t, rollingCourse()), synthetic(t, noisy)
	c := compared(t, []result.Record{a}, []result.Record{b})
	if i := c.Pairs[0].Interval; i == nil || i.Low >= 1 || i.High <= 1 || i.High-i.Low > 0.3 {
		t.Errorf("two runs of one course: %+v, want an interval around 1", i)
	}
	short := compared(t, []result.Record{steadyRun(100, 10)}, []result.Record{steadyRun(100, 10)})
	if short.Pairs[0].Interval != nil {
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
			for _, f := range got.Pairs[0].Flags {
				if f.Kind == c.kind && f.What == c.what {
					if f.A == f.B || f.Text == "" {
						t.Errorf("%+v", f)
					}
					return
				}
			}
			t.Errorf("flags %+v, want one of %s %s", got.Pairs[0].Flags, c.kind, c.what)
		})
	}
	// A difference of a few memory pages from boot to boot is the same machine.
	a, b := steadyRun(100e3, 5000), steadyRun(100e3, 5000)
	b.Run.Machine.MemoryBytes = 1005
	if c, _ := report.NewComparison([]result.Record{a}, []result.Record{b}); len(c.Pairs[0].Flags) > 0 {
		t.Errorf("flags %+v", c.Pairs[0].Flags)
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
	if shown, untold := c.Regressions(0); len(shown) != 0 || len(untold) != 1 {
		t.Errorf("without rates %d regressions are shown and %d can't be told, want 0 and 1", len(shown), len(untold))
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
		pngOf(t, report.PNGOptions{Width: 300, Height: 300, Log: true}, recs, 300, 300)
		c := compared(t, recs, recs).Document()
		if err := errors.Join(c.Text(io.Discard), c.JSON(io.Discard)); err != nil {
			t.Fatalf("comparison: %v", err)
		}
	})
}

// A rate that goes up and down with the periods of a table is drawn with its moving
// mean, and one that falls once is not: a mean would blur the fall.
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
