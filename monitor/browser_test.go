package monitor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/maintain"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the status page to this `directory`")

// A tab is a page of a browser, and everything that it complained about.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	errors   []string
	requests []string
}

// browser starts a browser with an empty profile; each call of the returned
// function opens the status page of a monitor in a tab of its own.
func browser(t *testing.T) func(t *testing.T, width, height int64, l *looker) *tab {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		testdb.Require(t, "chromium", errors.New("no chromium, chromium-browser or google-chrome in PATH"))
	}
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
	return func(t *testing.T, width, height int64, l *looker) *tab {
		t.Helper()
		m := newMonitor(l)
		listener, err := Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		b := &tab{t: t, url: "http://" + listener.Addr().String() + "/"}
		b.serve(listener, m)
		ctx, stopTab := chromedp.NewContext(main)
		if err := chromedp.Do(ctx); err != nil {
			t.Fatal(err)
		}
		ctx, stopTime := context.WithTimeout(ctx, time.Minute)
		b.ctx = ctx
		if err := chromedp.Listen(ctx, b.listen); err != nil {
			t.Fatal(err)
		}
		call(b, network.Enable, network.EnableParams{})
		call(b, cdplog.Enable, cdp.Empty{})
		call(b, runtime.Enable, cdp.Empty{})
		b.run(chromedp.EmulateViewport(width, height), chromedp.Navigate(b.url), chromedp.WaitReady(chromedp.CSS("footer")))
		t.Cleanup(func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, e := range b.errors {
				t.Errorf("the browser complains: %s", e)
			}
			for _, r := range b.requests {
				if r != b.url && r != "data:," {
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

// serve serves the page until the test ends; the returned function ends that.
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

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// settle waits until what was asked for has been drawn.
func (b *tab) settle() {
	b.t.Helper()
	const frame = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](frame, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatal(err)
	}
}

// until waits for an expression to become true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if eval[bool](b, expression) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: still not %s", what, expression)
		}
	}
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "not there"`, selector))
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
	return eval[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
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

// lightness is that of the page's ground, from 0 to 1.
func (b *tab) lightness() float64 {
	b.t.Helper()
	return eval[float64](b, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).reduce((a, c) => a + c / 765, 0)`)
}

func TestStatusPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	open := browser(t)

	t.Run("everything", func(t *testing.T) {
		b := open(t, 1280, 900, &looker{s: status()})
		b.wantText("h1", "readings")
		b.wantText("header", "mariadb", "mysql://ingest@db1:3306/metrics", "every 1h", "2d ahead", "kept 30d", self+", this process", "2026-")
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
		if title := eval[string](b, "document.title"); !strings.HasPrefix(title, "⚠ readings") {
			t.Errorf("the title is %q", title)
		}
		// Problems stand before all figures.
		if !eval[bool](b, `document.querySelector(".problem").getBoundingClientRect().top < document.getElementById("headroom").getBoundingClientRect().top`) {
			t.Error("the problem stands below the figures")
		}
		colours := eval[int](b, `new Set(Array.from(document.querySelectorAll("#periods .bar"), r => getComputedStyle(r).fill)).size`)
		if colours != 5 {
			t.Errorf("five states are drawn in %d colours", colours)
		}
		if eval[bool](b, `Array.from(document.querySelectorAll("#periods .bar")).some(r => r.getBoundingClientRect().height < 2)`) {
			t.Error("some period can't be seen")
		}
		b.shot("light")
	})

	t.Run("hover", func(t *testing.T) {
		b := open(t, 1280, 900, &looker{s: status()})
		if !eval[bool](b, `document.getElementById("tip").hidden`) {
			t.Error("a tooltip is shown before the pointer is anywhere")
		}
		p := eval[[]float64](b, `(() => { const r = document.querySelectorAll("#periods .period")[5].getBoundingClientRect(); window.scrollBy(0, r.top - 300);
			const s = document.querySelectorAll("#periods .period")[5].getBoundingClientRect(); return [s.left + s.width/2, s.top + 10]; })()`)
		b.settle() // scrolling hides tooltips
		b.run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, p[0], p[1]))
		b.until("the tooltip", `!document.getElementById("tip").hidden`)
		b.wantText("#tip", "p20261026 · sealed", "2026-10-26 00:00:00 to 2026-10-27 00:00:00", "2,400,000 rows, 96 MiB", "rebuilt")
		if !eval[bool](b, `(() => { const r = document.getElementById("tip").getBoundingClientRect(); return r.left >= 0 && r.top >= 0 && r.right <= innerWidth && r.bottom <= innerHeight; })()`) {
			t.Error("the tooltip leaves the window")
		}
		b.shot("hover")
	})

	t.Run("updates by itself", func(t *testing.T) {
		l := &looker{s: status()}
		b := open(t, 1280, 900, l)
		b.run(chromedp.Click(chromedp.CSS("#list-summary")))
		b.until("the table of periods", `document.getElementById("list").open`)
		eval[bool](b, `window.kept = document.getElementById("main"), document.getElementById("list-summary").focus(), true`)
		next := status()
		next.Problems, next.Headroom, next.Leader = nil, new(3600.0), ""
		for i := range next.Periods {
			if next.Periods[i].State == "open" {
				next.Periods[i].Rows += 50_000
			}
		}
		l.set(next, nil)
		b.until("the problem gone", `document.querySelectorAll(".problem").length === 0`)
		b.wantText("#well", "Nothing needs a person")
		b.wantText("#headroom .big", "1h")
		b.wantText("#leader", "kept by nobody")
		if class := eval[string](b, `document.querySelector("#headroom .big").className`); class != "big bad" {
			t.Errorf("an hour of two days is drawn as %q", class)
		}
		b.wantText("#rate .big", "rows/s")
		if n := b.count("#rate polyline"); n != 1 {
			t.Errorf("%d lines of the rate after two looks", n)
		}
		if !eval[bool](b, `document.getElementById("list").open && document.activeElement.id === "list-summary" && window.kept === document.getElementById("main")`) {
			t.Error("the update closed the table, or took the focus, or loaded the page anew")
		}
		b.until("a line of several points", `document.querySelector("#rate polyline").getAttribute("points").split(" ").length > 1`)
		b.shot("updated")
	})

	t.Run("database down", func(t *testing.T) {
		l := &looker{s: status()}
		b := open(t, 1280, 900, l)
		l.set(nil, errors.New("connect to db1:3306: connection refused"))
		b.until("the banner", `!!document.getElementById("failed")`)
		b.wantText("#failed", "connection refused", "What is below is from")
		b.wantText("#headroom", "1d 23h")
		b.shot("down")
		l.set(status(), nil)
		b.until("the banner gone", `!document.getElementById("failed")`)
	})

	t.Run("dark", func(t *testing.T) {
		b := open(t, 1280, 900, &looker{s: status()})
		light := b.lightness()
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		if dark := b.lightness(); light < 0.9 || dark > 0.2 {
			t.Errorf("lightness %.2f, and %.2f in the dark", light, dark)
		}
		b.shot("dark")
	})

	t.Run("phone", func(t *testing.T) {
		b := open(t, 360, 740, &looker{s: status()})
		if w := eval[float64](b, `document.documentElement.scrollWidth`); w > 360 {
			t.Errorf("the page is %v pixels wide on a window of 360", w)
		}
		b.shot("phone")
	})

	for name, s := range oddStatuses() {
		t.Run(name, func(t *testing.T) {
			b := open(t, 800, 900, &looker{s: s})
			if eval[bool](b, `"hacked" in window`) {
				t.Error("a text of the status ran as a script")
			}
			if w := eval[float64](b, `document.documentElement.scrollWidth`); w > 800 {
				t.Errorf("the page is %v pixels wide on a window of 800", w)
			}
			if n := b.count("#periods .period"); n > 2*drawn+2*around {
				t.Errorf("%d pieces are drawn", n)
			}
			b.shot(strings.ReplaceAll(name, " ", "-"))
		})
	}
}

// oddStatuses are those of tables at the edge of what there is.
func oddStatuses() map[string]*maintain.Status {
	hostile := status()
	const script = `"'><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">{{.}}`
	hostile.Table, hostile.Leader, hostile.Target = script, script, script
	hostile.Problems[0] = maintain.Problem{Code: script, Text: script, Try: strings.Repeat("long", 300)}
	hostile.Blockers[0].Statement = script
	hostile.Periods[0] = maintain.PeriodStatus{Name: script, From: script, To: script, State: script, Archive: script}
	hostile.Actions[0].Error, hostile.Actions[0].Action = script, script
	many := &maintain.Status{Table: "many", At: noon, Headroom: new(0.0), HeadroomWanted: new(0.0)}
	for i := range 8192 {
		from := noon.Add(time.Duration(i-8000) * time.Hour)
		state := "sealed"
		if i > 8000 {
			state = "ahead"
		}
		many.Periods = append(many.Periods, maintain.PeriodStatus{Name: fmt.Sprint("p", i), From: from.Format(time.RFC3339), To: from.Add(time.Hour).Format(time.RFC3339), State: state, Rows: 1e12, Bytes: 1 << 50})
	}
	sequence := &maintain.Status{Now: "750000", Table: "orders", HeadroomRows: new(int64(250_000)), Ahead: "500000 rows", Periods: []maintain.PeriodStatus{
		{Name: "p1", From: "0", To: "500000", State: "sealed", Rows: 500_000, Bytes: 1 << 20},
		{Name: "p2", From: "500000", To: "1000000", State: "open", Rows: 250_000, Bytes: 1 << 19}}}
	return map[string]*maintain.Status{"hostile": hostile, "many periods": many, "sequence": sequence, "empty": {}}
}
