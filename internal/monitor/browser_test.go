//go:build !race

// Under -race, the 63 packages of the browser's protocol would be compiled once more, for pages
// whose handlers the other tests call.

package monitor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/rowmill/rowmill/internal/testbrowser"
)

// A tab shows the status page of a monitor.
type tab struct {
	*testbrowser.Tab
	t   *testing.T
	url string
}

// opener starts a browser; the returned function opens a monitor's page in a new tab.
func opener(t *testing.T) func(t *testing.T, width, height int64, l *looker) *tab {
	t.Helper()
	b := testbrowser.Start(t)
	return func(t *testing.T, width, height int64, l *looker) *tab {
		t.Helper()
		listener, err := Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tab := &tab{t: t, url: "http://" + listener.Addr().String() + "/"}
		tab.serve(listener, newMonitor(l))
		tab.Tab = b.Open(t, width, height, tab.url)
		return tab
	}
}

// serve serves the page until the test ends, or until the returned function is called.
func (b *tab) serve(l net.Listener, m *Monitor) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ServeOn(ctx, l, m) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("serve: %v", err)
		}
	})
	b.t.Cleanup(stop)
	return stop
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	return testbrowser.Eval[string](b.Tab, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "not there"`, selector))
}

func (b *tab) wantText(selector string, want ...string) {
	b.t.Helper()
	got := b.text(selector)
	for _, w := range want {
		if !strings.Contains(got, w) {
			b.t.Errorf("%s says %q, want %q in it", selector, got, w)
		}
	}
}

func (b *tab) count(selector string) int {
	b.t.Helper()
	return testbrowser.Eval[int](b.Tab, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// shown tells the page that its tab is visible again, so that it updates at once.
func (b *tab) shown() {
	b.t.Helper()
	testbrowser.Eval[bool](b.Tab, `document.dispatchEvent(new Event("visibilitychange"))`)
}

func TestStatusPageInBrowser(t *testing.T) {
	open := opener(t)

	t.Run("everything", func(t *testing.T) {
		b := open(t, 1280, 900, &looker{s: status()})
		b.wantText("h1", "readings")
		b.wantText("header", "mariadb", "mysql://ingest@db1:3306/metrics", "every 1h", "2d ahead", "retention 30d", self+", this process", "2026-")
		b.wantText(".problem", "drop p20261020 waits for connection 77", "Try: KILL 77", "blocked")
		b.wantText("#headroom", "1d 23h", "wanted: 2d")
		b.wantText("#size", "GiB", "73,250,000 rows in 137 periods")
		b.wantText("#rollups", "readings_1h", "readings_1d", "1d\t0", "5,000")
		b.wantText("#blockers", "77", "report", "10.0.0.9", "10m", "SELECT * FROM readings")
		b.wantText("#changes", "merge p20261117", "copy", "42%", "seal p20261118", "lock wait timeout")
		b.wantText("#next", "rollup", "2026-11-20 13:00:00", "drop", "now", "older than 30d")
		b.wantText("#actions", "drop", "lock wait timeout", "20ms", "create", "db2:99")
		b.wantText("#periods .legend", "ahead 48", "open 1", "closing 60", "sealed 26", "archived 2")
		if n := b.count("#periods svg"); n != 2 {
			t.Errorf("%d timelines, want that of all and that of now", n)
		}
		if n := b.count("#periods svg:first-of-type .period"); n < 137 {
			t.Errorf("%d periods are drawn, want 137", n)
		}
		if n := b.count("#periods line.now"); n != 2 {
			t.Errorf("the present is in %d timelines", n)
		}
		if title := testbrowser.Eval[string](b.Tab, "document.title"); !strings.HasPrefix(title, "⚠ readings") {
			t.Errorf("the title is %q", title)
		}
		// Problems are displayed above all figures.
		if !testbrowser.Eval[bool](b.Tab, `document.querySelector(".problem").getBoundingClientRect().top < document.getElementById("headroom").getBoundingClientRect().top`) {
			t.Error("the problem stands below the figures")
		}
		colours := testbrowser.Eval[int](b.Tab, `new Set(Array.from(document.querySelectorAll("#periods .bar"), r => getComputedStyle(r).fill)).size`)
		if colours != 5 {
			t.Errorf("five states are drawn in %d colours", colours)
		}
		if testbrowser.Eval[bool](b.Tab, `Array.from(document.querySelectorAll("#periods .bar")).some(r => r.getBoundingClientRect().height < 2)`) {
			t.Error("some period can't be seen")
		}
		b.Shot("light")
	})

	t.Run("hover", func(t *testing.T) {
		b := open(t, 1280, 900, &looker{s: status()})
		if !testbrowser.Eval[bool](b.Tab, `document.getElementById("tip").hidden`) {
			t.Error("a tooltip is shown before the pointer is anywhere")
		}
		p := testbrowser.Eval[[]float64](b.Tab, `(() => { const r = document.querySelectorAll("#periods .period")[5].getBoundingClientRect(); window.scrollBy(0, r.top - 300);
			const s = document.querySelectorAll("#periods .period")[5].getBoundingClientRect(); return [s.left + s.width/2, s.top + 10]; })()`)
		b.Settle() // scrolling hides tooltips
		b.Run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, p[0], p[1]))
		b.Until("the tooltip", `!document.getElementById("tip").hidden`)
		b.wantText("#tip", "p20261026 · sealed", "2026-10-26 00:00:00 to 2026-10-27 00:00:00", "2,400,000 rows, 96 MiB", "rebuilt")
		if !testbrowser.Eval[bool](b.Tab, `(() => { const r = document.getElementById("tip").getBoundingClientRect(); return r.left >= 0 && r.top >= 0 && r.right <= innerWidth && r.bottom <= innerHeight; })()`) {
			t.Error("the tooltip leaves the window")
		}
		b.Shot("hover")
	})

	t.Run("updates by itself", func(t *testing.T) {
		l := &looker{s: status()}
		b := open(t, 1280, 900, l)
		b.Run(chromedp.Click(chromedp.CSS("#list-summary")))
		b.Until("the table of periods", `document.getElementById("list").open`)
		testbrowser.Eval[bool](b.Tab, `window.kept = document.getElementById("main"), document.getElementById("list-summary").focus(), true`)
		next := status()
		next.Problems, next.Headroom, next.Leader = nil, new(3600.0), ""
		for i := range next.Periods {
			if next.Periods[i].State == "open" {
				next.Periods[i].Rows += 50_000
			}
		}
		l.set(next, nil)
		b.Until("the problem gone", `document.querySelectorAll(".problem").length === 0`)
		b.wantText("#well", "No action required")
		b.wantText("#headroom .big", "1h")
		b.wantText("#leader", "run by no process")
		if class := testbrowser.Eval[string](b.Tab, `document.querySelector("#headroom .big").className`); class != "big bad" {
			t.Errorf("an hour of two days is drawn as %q", class)
		}
		b.wantText("#rate .big", "rows/s")
		if n := b.count("#rate polyline"); n != 1 {
			t.Errorf("%d lines of the rate after two looks", n)
		}
		if !testbrowser.Eval[bool](b.Tab, `document.getElementById("list").open && document.activeElement.id === "list-summary" && window.kept === document.getElementById("main")`) {
			t.Error("the update closed the table, or took the focus, or loaded the page anew")
		}
		b.Until("a line of several points", `document.querySelector("#rate polyline").getAttribute("points").split(" ").length > 1`)
		b.Shot("updated")
	})

	t.Run("database down", func(t *testing.T) {
		l := &looker{s: status()}
		b := open(t, 1280, 900, l)
		l.set(nil, errors.New("connect to db1:3306: connection refused"))
		b.shown()
		b.Until("the banner", `!!document.getElementById("failed")`)
		b.wantText("#failed", "connection refused", "The status below is from")
		b.wantText("#headroom", "1d 23h")
		b.Shot("down")
		l.set(status(), nil)
		b.shown()
		b.Until("the banner gone", `!document.getElementById("failed")`)
	})

	t.Run("dark", func(t *testing.T) {
		b := open(t, 1280, 900, &looker{s: status()})
		light := b.Lightness("document.body")
		b.Emulate("", "dark")
		if dark := b.Lightness("document.body"); light < 0.9 || dark > 0.2 {
			t.Errorf("lightness %.2f, and %.2f in the dark", light, dark)
		}
		b.Shot("dark")
	})

	t.Run("phone", func(t *testing.T) {
		b := open(t, 390, 844, &looker{s: status()})
		if w := b.Width(); w > 390 {
			t.Errorf("the page is %v pixels wide on a window of 390", w)
		}
		for _, column := range []string{"#next td:last-child", "#actions td:nth-child(3)", "#blockers td:last-child"} {
			if w := testbrowser.Eval[float64](b.Tab, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().width`, column)); w < 180 {
				t.Errorf("%s is %v pixels wide: it wraps a word a line", column, w)
			}
		}
		if n := testbrowser.Eval[int](b.Tab, `[...document.querySelectorAll(".scroll")].filter(s => s.scrollWidth > s.clientWidth && getComputedStyle(s).backgroundImage === "none").length`); n > 0 {
			t.Errorf("%d tables are cut without a shade at the edge", n)
		}
		b.Shot("phone")
	})

	for name, s := range oddStatuses() {
		t.Run(name, func(t *testing.T) {
			b := open(t, 800, 900, &looker{s: s})
			if testbrowser.Eval[bool](b.Tab, `"hacked" in window`) {
				t.Error("a text of the status ran as a script")
			}
			if w := b.Width(); w > 800 {
				t.Errorf("the page is %v pixels wide on a window of 800", w)
			}
			if n := b.count("#periods .period"); n > 2*drawn+2*around {
				t.Errorf("%d pieces are drawn", n)
			}
			b.Shot(strings.ReplaceAll(name, " ", "-"))
		})
	}
}
