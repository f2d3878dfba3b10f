// Package testbrowser opens pages in a real browser, headless Chromium, for tests. A
// test fails if a page logs an error or requests anything except itself.
package testbrowser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rowmill/rowmill/internal/testdb"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the pages to this `directory`")

// Screenshots returns the directory for screenshots of pages, or "".
func Screenshots() string { return *screenshots }

// A Browser runs until its test ends.
type Browser struct{ ctx context.Context }

// Start starts a browser with an empty profile. Without a browser the test is
// skipped, or fails if browsers are required.
func Start(t *testing.T) *Browser {
	t.Helper()
	// Without DefaultExecAllocatorOptions: these are all of the flags.
	alloc, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(find(t)), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("headless", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("renderer-process-limit", "1")) // tabs share one: each more takes CPU time
	t.Cleanup(stop)
	ctx, stopMain := chromedp.NewContext(alloc)
	t.Cleanup(stopMain)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return &Browser{ctx}
}

// find returns the path of a browser, preferably of Chromium without a user interface, which needs
// less than half of the CPU time.
func find(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	testdb.Require(t, "chromium", errors.New("no chromium-headless-shell, chromium, chromium-browser or google-chrome in PATH"))
	return ""
}

// A Tab is a page of a browser, and the errors that it logged.
type Tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	requests []string
}

// Open opens an address in a new tab of width by height pixels, and waits for the page's footer.
func (b *Browser) Open(t *testing.T, width, height int64, address string) *Tab {
	t.Helper()
	ctx, stopTab := chromedp.NewContext(b.ctx)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, stopTime := context.WithTimeout(ctx, 5*time.Minute)
	tab := &Tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tab.listen); err != nil {
		t.Fatal(err)
	}
	Call(tab, network.Enable, network.EnableParams{})
	Call(tab, cdplog.Enable, cdp.Empty{})
	Call(tab, runtime.Enable, cdp.Empty{})
	tab.Run(chromedp.EmulateViewport(width, height), chromedp.Navigate(address), chromedp.WaitReady(chromedp.CSS("footer")))
	t.Cleanup(func() {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		for _, e := range tab.errors {
			t.Errorf("the browser complains: %s", e)
		}
		for _, r := range tab.requests {
			if r != address && r != "data:," {
				t.Errorf("the page requested %s", r)
			}
		}
		if len(tab.requests) == 0 {
			t.Error("no request was seen, not even that of the page: the check of requests is broken")
		}
		stopTime()
		stopTab()
	})
	return tab
}

func (b *Tab) listen(event any) {
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

// Run executes actions.
func (b *Tab) Run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Call sends a command of the protocol.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// Eval returns the value of an expression evaluated in the page.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Settle waits until pending changes are drawn.
func (b *Tab) Settle() {
	b.t.Helper()
	const frame = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](frame, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatal(err)
	}
}

// Until waits up to a minute for an expression to become true.
func (b *Tab) Until(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if Eval[bool](b, expression) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: still not %s", what, expression)
		}
	}
}

// Emulate sets the medium, "screen" or "print", and the preferred colours, "light" or "dark".
func (b *Tab) Emulate(media, scheme string) {
	b.t.Helper()
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.Settle()
}

// Lightness returns the lightness, from 0 to 1, of an element's background. The argument is an
// expression that selects the element.
func (b *Tab) Lightness(element string) float64 {
	b.t.Helper()
	colour := Eval[string](b, fmt.Sprintf("getComputedStyle(%s).backgroundColor", element))
	var red, green, blue int
	if _, err := fmt.Sscanf(colour, "rgb(%d, %d, %d)", &red, &green, &blue); err != nil {
		b.t.Fatalf("colour %q: %v", colour, err)
	}
	return float64(red+green+blue) / (3 * 255)
}

// Width returns the width of the page in pixels; it exceeds the window's width
// if an element overflows.
func (b *Tab) Width() float64 {
	b.t.Helper()
	return Eval[float64](b, `document.documentElement.scrollWidth`)
}

// Shot takes a screenshot of the whole page if -screenshots is set.
func (b *Tab) Shot(name string) {
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
