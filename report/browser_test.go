package report_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/report"
	"github.com/rowmill/rowmill/result"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the HTML report to this `directory`")

// chromium returns the path of a browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	testdb.Require(t, "chromium", errors.New("no chromium, chromium-browser or google-chrome in PATH"))
	return ""
}

// A tab is a page of a browser, and everything that it complained about.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	requests []string
}

// browser starts a browser with an empty profile; each call of the returned
// function opens a report in a tab of its own.
func browser(t *testing.T) func(t *testing.T, width, height int64, recs []result.Record) *tab {
	t.Helper()
	path := chromium(t)
	// Not DefaultExecAllocatorOptions: these are all the flags there are.
	alloc, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("headless", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	t.Cleanup(stop)
	main, stopMain := chromedp.NewContext(alloc)
	t.Cleanup(stopMain)
	if err := chromedp.Do(main); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return func(t *testing.T, width, height int64, recs []result.Record) *tab {
		t.Helper()
		file := filepath.Join(t.TempDir(), "report.html")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.HTML(f, recs); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, stopTab := chromedp.NewContext(main)
		if err := chromedp.Do(ctx); err != nil {
			t.Fatal(err)
		}
		ctx, stopTime := context.WithTimeout(ctx, time.Minute)
		b := &tab{t: t, ctx: ctx}
		if err := chromedp.Listen(ctx, b.listen); err != nil {
			t.Fatal(err)
		}
		call(b, network.Enable, network.EnableParams{})
		call(b, cdplog.Enable, cdp.Empty{})
		call(b, runtime.Enable, cdp.Empty{})
		address := (&url.URL{Scheme: "file", Path: file}).String()
		b.run(chromedp.EmulateViewport(width, height), chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("footer")))
		t.Cleanup(func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, e := range b.errors {
				t.Errorf("the browser complains: %s", e)
			}
			for _, r := range b.requests {
				if r != address && r != "data:," {
					t.Errorf("the page requested %s", r)
				}
			}
			if len(b.requests) == 0 {
				t.Error("no request was seen, not even that of the page: the check of requests is broken")
			}
			stopTime()
			stopTab()
		})
		return b
	}
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		b.errors = append(b.errors, fmt.Sprintf("console.%s: %v", e.Type, e.Args))
	case *cdplog.EventEntryAdded:
		b.errors = append(b.errors, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	}
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// emulate sets the medium, "screen" or "print", and the preferred colours.
func (b *tab) emulate(media, scheme string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.settle()
}

// frame waits until what was asked for has been drawn.
const frame = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`

func (b *tab) settle() {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](frame, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// drawn counts, for each chart, the pixels that have the given colour, give or
// take what antialiasing does.
func (b *tab) drawn(hex string) []int {
	b.t.Helper()
	return eval[[]int](b, fmt.Sprintf(`Array.from(document.querySelectorAll("canvas"), c => {
		// By way of a canvas made for reading: browsers warn of others.
		const copy = Object.assign(document.createElement("canvas"), {width: c.width, height: c.height});
		const ctx = copy.getContext("2d", {willReadFrequently: true});
		ctx.drawImage(c, 0, 0);
		const p = ctx.getImageData(0, 0, c.width, c.height).data, want = parseInt("%s".slice(1), 16);
		let n = 0;
		for (let i = 0; i < p.length; i += 4)
			if (p[i+3] > 127 && Math.abs(p[i] - (want >> 16)) < 12 && Math.abs(p[i+1] - (want >> 8 & 255)) < 12 && Math.abs(p[i+2] - (want & 255)) < 12) n++;
		return n;
	})`, hex))
}

func (b *tab) shot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	img, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), img, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// The colours that the first plain and the first rolling run are drawn in.
const (
	plainLight, rollingLight = "#d55e00", "#0072b2"
	plainDark, rollingDark   = "#ff8a3d", "#56b4e9"
)

func (b *tab) wantDrawn(colours ...string) {
	b.t.Helper()
	for _, colour := range colours {
		counts := b.drawn(colour)
		if len(counts) < 2 || counts[0] < 200 || counts[1] < 50 {
			b.t.Errorf("the charts of the rate have too few pixels of %s: %v", colour, counts[:min(2, len(counts))])
		}
	}
}

// over returns the middle of a chart's drawing area, in pixels of the window.
func (b *tab) over(chart int) (x, y, width float64) {
	b.t.Helper()
	p := eval[[]float64](b, fmt.Sprintf(`(() => { const o = document.querySelectorAll(".u-over")[%d]; o.scrollIntoView({block: "center"});
		const r = o.getBoundingClientRect(); return [r.left + r.width/2, r.top + r.height/2, r.width]; })()`, chart))
	return p[0], p[1], p[2]
}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

const legend = `Array.from(document.querySelectorAll(".chart")[%d].querySelectorAll("output"), o => o.textContent)`

func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	open := browser(t)
	both := []result.Record{synthetic(t, plainCourse()), synthetic(t, rollingCourse())}

	t.Run("charts", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		b.settle()
		b.wantDrawn(plainLight, rollingLight)
		for i, n := range b.drawn(plainLight) {
			if n == 0 && b.drawn(rollingLight)[i] == 0 {
				t.Errorf("chart %d is blank", i)
			}
		}
		b.shot("light")
	})

	t.Run("hover", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		x, y, _ := b.over(0)
		b.run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
		b.settle()
		for _, chart := range []int{0, 3} {
			got := eval[[]string](b, fmt.Sprintf(legend, chart))
			if len(got) < 2 || !strings.ContainsAny(got[0], "0123456789") || !strings.ContainsAny(got[1], "0123456789") {
				t.Errorf("chart %d shows %q under the cursor, want figures", chart, got)
			}
		}
		if at := eval[string](b, `document.getElementById("position").textContent`); !strings.HasPrefix(at, "at ") || !strings.HasSuffix(at, " rows") {
			t.Errorf("the cursor is said to be %q, want a number of rows", at)
		}
		b.shot("hover")
		// A click on a run's name in the legend takes its line away.
		b.run(click(".legend button"))
		b.settle()
		if before, after := b.drawn(plainLight), eval[string](b, `document.querySelector(".legend button").getAttribute("aria-pressed")`); after != "false" || before[0] > 50 || before[1] < 400 {
			t.Errorf("the hidden line is pressed %s and drawn in %v pixels", after, before[:2])
		}
	})

	t.Run("zoom", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		x, y, width := b.over(0)
		before := b.drawn(rollingLight)
		b.run(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, x-width/4, y, chromedp.ButtonLeft),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y, chromedp.ButtonLeft),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, x, y, chromedp.ButtonLeft))
		b.settle()
		if eval[bool](b, `document.getElementById("reset").disabled`) {
			t.Fatal("dragging did not zoom: the zoom can't be reset")
		}
		after := b.drawn(rollingLight)
		if after[3] == before[3] {
			t.Error("the zoom did not reach the chart of latency")
		}
		if after[1] != before[1] {
			t.Error("the zoom reached the chart on the other axis")
		}
		b.run(chromedp.MouseClickXY(x, y, chromedp.ClickCount(2)))
		b.settle()
		if !eval[bool](b, `document.getElementById("reset").disabled`) {
			t.Error("a double click did not reset the zoom")
		}
		if got := b.drawn(rollingLight); got[3] != before[3] {
			t.Errorf("after the reset the chart of latency has %d pixels of its colour, before the zoom %d", got[3], before[3])
		}
	})

	t.Run("axis and scale", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		before := b.drawn(plainLight)
		b.run(click(`[data-x="time"]`), click(`[data-scale="log"]`))
		b.settle()
		b.wantDrawn(plainLight, rollingLight)
		after := b.drawn(plainLight)
		if slices.Equal(before, after) {
			t.Error("neither axis nor scale changed the charts")
		}
		if note := eval[string](b, `document.querySelector(".chart small").textContent`); note != "rows/s against time" {
			t.Errorf("the first chart says %q, want the time", note)
		}
		b.shot("time-log")
	})

	t.Run("tables", func(t *testing.T) {
		other := rollingOf(both[1])
		b := open(t, 1280, 900, []result.Record{both[0], other})
		shown := func(selector string) int {
			return eval[int](b, fmt.Sprintf(`Array.from(document.querySelectorAll(%q)).filter(e => e.checkVisibility({contentVisibilityAuto: true})).length`, selector))
		}
		if n := shown(".figures td"); n > 0 {
			t.Errorf("%d figures of charts are shown as tables before anybody asked", n)
		}
		b.run(click("#tables"))
		b.settle()
		charts := eval[int](b, `document.querySelectorAll(".chart").length`)
		if n := shown(".figures table"); n != charts {
			t.Errorf("%d tables for %d charts", n, charts)
		}
		if text := eval[string](b, `document.querySelector(".figures tbody").textContent`); !strings.Contains(text, "rows/s") {
			t.Errorf("the table of the rates holds %q", text)
		}
		b.shot("tables")
		eval[bool](b, `document.querySelectorAll("details").forEach(d => { d.open = true; }) || true`)
		b.settle()
		same, differing := shown("tr.same"), shown("tr.differs")
		if same == 0 || differing == 0 {
			t.Fatalf("%d settings are the same and %d differ, want some of each", same, differing)
		}
		b.run(click("#differing"))
		b.settle()
		if n := shown("tr.same"); n > 0 {
			t.Errorf("%d settings that don't differ are still shown", n)
		}
		if n := shown("tr.differs"); n != differing {
			t.Errorf("%d settings that differ are shown, want %d", n, differing)
		}
		b.shot("differing")
	})

	t.Run("keyboard", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		b.run(chromedp.Focus(chromedp.CSS(".chart")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent("+"))
		b.settle()
		if got := eval[[]string](b, fmt.Sprintf(legend, 0)); !strings.ContainsAny(strings.Join(got, ""), "0123456789") {
			t.Errorf("the arrow keys show %q, want figures", got)
		}
		if eval[bool](b, `document.getElementById("reset").disabled`) {
			t.Error("the + key did not zoom")
		}
	})

	t.Run("dark", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		b.emulate("", "dark")
		b.wantDrawn(plainDark, rollingDark)
		if l := b.lightness("document.body"); l > 0.2 {
			t.Errorf("the ground of the dark page has a lightness of %.2f", l)
		}
		b.shot("dark")
		b.run(click(`[data-theme-set="light"]`))
		b.settle()
		b.wantDrawn(plainLight, rollingLight)
	})

	t.Run("phone", func(t *testing.T) {
		b := open(t, 360, 740, both)
		b.settle()
		if w := eval[float64](b, `document.documentElement.scrollWidth`); w > 360 {
			t.Errorf("the page is %v pixels wide on a window of 360", w)
		}
		b.wantDrawn(plainLight, rollingLight)
		b.shot("phone")
	})

	t.Run("print", func(t *testing.T) {
		b := open(t, 700, 900, both) // as wide as A4 within its margins
		b.run(click(`[data-theme-set="dark"]`))
		b.emulate("print", "dark")
		b.wantDrawn(plainLight, rollingLight)
		if l := b.lightness("document.body"); l < 0.95 {
			t.Errorf("the ground of the printed page has a lightness of %.2f", l)
		}
		if n := eval[int](b, `document.querySelectorAll("details:not([open])").length`); n > 0 {
			t.Errorf("%d details stay closed on paper", n)
		}
		if cut := eval[[]string](b, `Array.from(document.querySelectorAll(".chart")).filter(c => c.querySelector("canvas").getBoundingClientRect().right > c.getBoundingClientRect().right + 1).map(c => c.querySelector("h3").textContent)`); len(cut) > 0 {
			t.Errorf("charts wider than their place on paper: %q", cut)
		}
		b.shot("print")
		pdf := call(b, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: new(true)}).Data
		if len(pdf) < 20_000 {
			t.Errorf("the page as PDF has only %d bytes", len(pdf))
		}
		if *screenshots != "" {
			if err := os.WriteFile(filepath.Join(*screenshots, "print.pdf"), pdf, 0o644); err != nil {
				t.Error(err)
			}
		}
	})

	for name, recs := range oddRecords(t) {
		t.Run(name, func(t *testing.T) {
			b := open(t, 800, 900, recs)
			b.settle()
			if hacked := eval[bool](b, `"hacked" in window`); hacked {
				t.Error("a name in the record ran as a script")
			}
			if w := eval[float64](b, `document.documentElement.scrollWidth`); w > 800 {
				t.Errorf("the page is %v pixels wide on a window of 800", w)
			}
			// A run that failed, was cut off or was overloaded is named before anything else.
			alerts := eval[int](b, `document.querySelectorAll("[role=alert]").length`)
			want := 0
			for _, r := range recs {
				if r.End == nil || r.End.Failure != "" || r.Run.Rate > 0 {
					want++
				}
			}
			if alerts != want {
				t.Errorf("%d banners, want %d", alerts, want)
			}
			if len(recs[0].Intervals) > 0 {
				x, y, _ := b.over(0)
				b.run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y), click(`[data-x="time"]`), click(`[data-scale="log"]`))
				b.settle()
			}
			b.shot(strings.ReplaceAll(name, " ", "-"))
		})
	}
}

// rollingOf returns the record as if another setting had been in force.
func rollingOf(rec result.Record) result.Record {
	rec.Run.Settings = maps.Clone(rec.Run.Settings)
	rec.Run.Settings["innodb_flush_log_at_trx_commit"] = "2"
	return rec
}

// lightness of an element's ground, from 0 to 1.
func (b *tab) lightness(element string) float64 {
	b.t.Helper()
	var sum int
	colour := eval[string](b, fmt.Sprintf("getComputedStyle(%s).backgroundColor", element))
	var r, g, bl int
	if _, err := fmt.Sscanf(colour, "rgb(%d, %d, %d)", &r, &g, &bl); err != nil {
		b.t.Fatalf("colour %q: %v", colour, err)
	}
	sum = r + g + bl
	return float64(sum) / (3 * 255)
}
