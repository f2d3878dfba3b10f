package report_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rowmill/rowmill/internal/testbrowser"
	"github.com/rowmill/rowmill/result"
)

type tab struct {
	*testbrowser.Tab
	t *testing.T
}

// opener starts a browser; the returned function opens a report in its own tab.
func opener(t *testing.T) func(t *testing.T, width, height int64, recs []result.Record) *tab {
	t.Helper()
	b := testbrowser.Start(t)
	return func(t *testing.T, width, height int64, recs []result.Record) *tab {
		t.Helper()
		file := filepath.Join(t.TempDir(), "report.html")
		if err := os.WriteFile(file, []byte(render(t, "html", recs)), 0o644); err != nil {
			t.Fatal(err)
		}
		return &tab{b.Open(t, width, height, (&url.URL{Scheme: "file", Path: file}).String()), t}
	}
}

// drawn counts, for each chart, the pixels of about the given colour.
func (b *tab) drawn(hex string) []int {
	b.t.Helper()
	return testbrowser.Eval[[]int](b.Tab, fmt.Sprintf(`Array.from(document.querySelectorAll("canvas"), c => {
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

// The colours of the first plain and the first rolling run.
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

// over returns the centre of a chart's drawing area, in pixels of the window.
func (b *tab) over(chart int) (x, y, width float64) {
	b.t.Helper()
	p := testbrowser.Eval[[]float64](b.Tab, fmt.Sprintf(`(() => { const o = document.querySelectorAll(".u-over")[%d]; o.scrollIntoView({block: "center"});
		const r = o.getBoundingClientRect(); return [r.left + r.width/2, r.top + r.height/2, r.width]; })()`, chart))
	return p[0], p[1], p[2]
}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

const legend = `Array.from(document.querySelectorAll(".chart")[%d].querySelectorAll("output"), o => o.textContent)`

func TestPageInBrowser(t *testing.T) {
	open := opener(t)
	both := []result.Record{synthetic(t, plainCourse()), synthetic(t, rollingCourse())}

	t.Run("charts", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		b.Settle()
		b.wantDrawn(plainLight, rollingLight)
		for i, n := range b.drawn(plainLight) {
			if n == 0 && b.drawn(rollingLight)[i] == 0 {
				t.Errorf("chart %d is blank", i)
			}
		}
		b.Shot("light")
	})

	t.Run("hover", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		x, y, _ := b.over(0)
		b.Run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
		b.Settle()
		for _, chart := range []int{0, 3} {
			got := testbrowser.Eval[[]string](b.Tab, fmt.Sprintf(legend, chart))
			if len(got) < 2 || !strings.ContainsAny(got[0], "0123456789") || !strings.ContainsAny(got[1], "0123456789") {
				t.Errorf("chart %d shows %q under the cursor, want figures", chart, got)
			}
		}
		if at := testbrowser.Eval[string](b.Tab, `document.getElementById("position").textContent`); !strings.HasPrefix(at, "at ") || !strings.HasSuffix(at, " rows") {
			t.Errorf("the cursor is said to be %q, want a number of rows", at)
		}
		b.Shot("hover")
		// A click on a run's name in the one legend hides its line in every chart.
		b.Run(click(".legend button"))
		b.Settle()
		if before, after := b.drawn(plainLight), testbrowser.Eval[string](b.Tab, `document.querySelector(".legend button").getAttribute("aria-pressed")`); after != "false" || before[0] > 50 || before[1] > 50 {
			t.Errorf("the hidden line is pressed %s and drawn in %v pixels", after, before[:2])
		}
	})

	t.Run("zoom", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		x, y, width := b.over(0)
		before := b.drawn(rollingLight)
		b.Run(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, x-width/4, y, chromedp.ButtonLeft),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y, chromedp.ButtonLeft),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, x, y, chromedp.ButtonLeft))
		b.Settle()
		if testbrowser.Eval[bool](b.Tab, `document.getElementById("reset").disabled`) {
			t.Fatal("dragging did not zoom: the zoom can't be reset")
		}
		after := b.drawn(rollingLight)
		if after[3] == before[3] {
			t.Error("the zoom did not reach the chart of latency")
		}
		if after[1] != before[1] {
			t.Error("the zoom reached the chart on the other axis")
		}
		b.Run(chromedp.MouseClickXY(x, y, chromedp.ClickCount(2)))
		b.Settle()
		if !testbrowser.Eval[bool](b.Tab, `document.getElementById("reset").disabled`) {
			t.Error("a double click did not reset the zoom")
		}
		if got := b.drawn(rollingLight); got[3] != before[3] {
			t.Errorf("after the reset the chart of latency has %d pixels of its colour, before the zoom %d", got[3], before[3])
		}
	})

	t.Run("axis and scale", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		before := b.drawn(plainLight)
		b.Run(click(`[data-x="time"]`), click(`[data-scale="log"]`))
		b.Settle()
		b.wantDrawn(plainLight, rollingLight)
		after := b.drawn(plainLight)
		if slices.Equal(before, after) {
			t.Error("neither axis nor scale changed the charts")
		}
		if note := testbrowser.Eval[string](b.Tab, `document.querySelector(".chart small").textContent`); note != "rows/s against time" {
			t.Errorf("the first chart says %q, want the time", note)
		}
		b.Shot("time-log")
	})

	t.Run("tables", func(t *testing.T) {
		other := rollingOf(both[1])
		b := open(t, 1280, 900, []result.Record{both[0], other})
		shown := func(selector string) int {
			return testbrowser.Eval[int](b.Tab, fmt.Sprintf(`Array.from(document.querySelectorAll(%q)).filter(e => e.checkVisibility({contentVisibilityAuto: true})).length`, selector))
		}
		if n := shown(".figures td"); n > 0 {
			t.Errorf("%d figures of charts are shown as tables before anybody asked", n)
		}
		b.Run(click("#tables"))
		b.Settle()
		charts := testbrowser.Eval[int](b.Tab, `Array.from(document.querySelectorAll(".chart")).filter(e => e.checkVisibility({contentVisibilityAuto: true})).length`)
		if n := shown(".figures table"); n != charts {
			t.Errorf("%d tables for %d charts", n, charts)
		}
		if text := testbrowser.Eval[string](b.Tab, `document.querySelector(".figures tbody").textContent`); !strings.Contains(text, "rows/s") {
			t.Errorf("the table of the rates holds %q", text)
		}
		b.Shot("tables")
		testbrowser.Eval[bool](b.Tab, `document.querySelectorAll("details").forEach(d => { d.open = true; }) || true`)
		b.Settle()
		same, differing := shown("tr.same"), shown("tr.differs")
		if same == 0 || differing == 0 {
			t.Fatalf("%d settings are the same and %d differ, want some of each", same, differing)
		}
		b.Run(click("#differing"))
		b.Settle()
		if n := shown("tr.same"); n > 0 {
			t.Errorf("%d settings that don't differ are still shown", n)
		}
		if n := shown("tr.differs"); n != differing {
			t.Errorf("%d settings that differ are shown, want %d", n, differing)
		}
		b.Shot("differing")
	})

	t.Run("keyboard", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		b.Run(chromedp.Focus(chromedp.CSS(".chart")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent("+"))
		b.Settle()
		if got := testbrowser.Eval[[]string](b.Tab, fmt.Sprintf(legend, 0)); !strings.ContainsAny(strings.Join(got, ""), "0123456789") {
			t.Errorf("the arrow keys show %q, want figures", got)
		}
		if testbrowser.Eval[bool](b.Tab, `document.getElementById("reset").disabled`) {
			t.Error("the + key did not zoom")
		}
	})

	t.Run("dark", func(t *testing.T) {
		b := open(t, 1280, 900, both)
		b.Emulate("", "dark")
		b.wantDrawn(plainDark, rollingDark)
		if l := b.Lightness("document.body"); l > 0.2 {
			t.Errorf("the ground of the dark page has a lightness of %.2f", l)
		}
		b.Shot("dark")
		b.Run(click(`[data-theme-set="light"]`))
		b.Settle()
		b.wantDrawn(plainLight, rollingLight)
	})

	t.Run("phone", func(t *testing.T) {
		b := open(t, 360, 740, both)
		b.Settle()
		if w := b.Width(); w > 360 {
			t.Errorf("the page is %v pixels wide on a window of 360", w)
		}
		// What is cut off says that it scrolls.
		if n := testbrowser.Eval[[]int](b.Tab, `(() => { const all = [...document.querySelectorAll(".scroll")].filter(e => e.clientWidth > 0);
			const wide = all.filter(e => e.scrollWidth > e.clientWidth + 1), said = wide.filter(e => getComputedStyle(e, "::before").content.includes("scroll"));
			return [wide.length, said.length]; })()`); n[0] == 0 || n[0] != n[1] {
			t.Errorf("%d tables are wider than the window, %d say so", n[0], n[1])
		}
		b.wantDrawn(plainLight, rollingLight)
		b.Shot("phone")
	})

	t.Run("print", func(t *testing.T) {
		b := open(t, 700, 900, both) // the width of A4 within its margins
		b.Run(click(`[data-theme-set="dark"]`))
		b.Emulate("print", "dark")
		b.wantDrawn(plainLight, rollingLight)
		if l := b.Lightness("document.body"); l < 0.95 {
			t.Errorf("the ground of the printed page has a lightness of %.2f", l)
		}
		if n := testbrowser.Eval[int](b.Tab, `document.querySelectorAll("details:not([open])").length`); n > 0 {
			t.Errorf("%d details stay closed on paper", n)
		}
		if cut := testbrowser.Eval[[]string](b.Tab, `Array.from(document.querySelectorAll(".chart")).filter(c => c.querySelector("canvas").getBoundingClientRect().right > c.getBoundingClientRect().right + 1).map(c => c.querySelector("h3").textContent)`); len(cut) > 0 {
			t.Errorf("charts wider than their place on paper: %q", cut)
		}
		b.Shot("print")
		pdf := testbrowser.Call(b.Tab, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: new(true)}).Data
		if len(pdf) < 20_000 {
			t.Errorf("the page as PDF has only %d bytes", len(pdf))
		}
		if dir := testbrowser.Screenshots(); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, "print.pdf"), pdf, 0o644); err != nil {
				t.Error(err)
			}
		}
	})

	for name, recs := range oddRecords(t) {
		t.Run(name, func(t *testing.T) {
			b := open(t, 800, 900, recs)
			b.Settle()
			if hacked := testbrowser.Eval[bool](b.Tab, `"hacked" in window`); hacked {
				t.Error("a name in the record ran as a script")
			}
			if w := b.Width(); w > 800 {
				t.Errorf("the page is %v pixels wide on a window of 800", w)
			}
			// A run that failed, was cut off or was overloaded is mentioned first; those with the same
			// problem share a banner.
			alerts := testbrowser.Eval[int](b.Tab, `document.querySelectorAll("[role=alert]").length`)
			want := 0
			for _, r := range recs {
				if r.End == nil || r.End.Failure != "" || r.Run.Rate > 0 {
					want++
				}
			}
			if alerts > want || alerts == 0 && want > 0 {
				t.Errorf("%d banners for %d runs", alerts, want)
			}
			if len(recs[0].Intervals) > 0 {
				x, y, _ := b.over(0)
				b.Run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y), click(`[data-x="time"]`), click(`[data-scale="log"]`))
				b.Settle()
			}
			b.Shot(strings.ReplaceAll(name, " ", "-"))
		})
	}
}

func rollingOf(rec result.Record) result.Record {
	rec.Run.Settings = maps.Clone(rec.Run.Settings)
	rec.Run.Settings["innodb_flush_log_at_trx_commit"] = "2"
	return rec
}
