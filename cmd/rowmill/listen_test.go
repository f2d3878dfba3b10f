package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/report"
)

// listenDeclaration is keepDeclaration for any server.
const listenDeclaration = `
[table]
name   = "readings"
target = "$TARGET"
create = '''
CREATE TABLE readings (sensor INT NOT NULL, ts $TIME NOT NULL, value INT, PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1h"
ahead = "6h"
keep  = "3h"

[seal]
after = "1h"
`

// declareOn writes a declaration for a private database, and applies it. It returns
// the declaration's path.
func declareOn(t *testing.T, kind string, flags ...string) (file string) {
	t.Helper()
	file = declare(t, kind, listenDeclaration).file
	wantDone(t, rowmill(t.Context(), append([]string{"apply", file, "--yes"}, flags...)...))
	return file
}

// keepElsewhere runs rowmill run until stop is called. stop returns its result.
func keepElsewhere(t *testing.T, file string, flags ...string) (stop func() session) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan session, 1)
	go func() { ended <- rowmill(ctx, append([]string{"run", file}, flags...)...) }()
	return func() session { cancel(); return <-ended }
}

// freePort returns an address with an unused port.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// fetch returns the status code and the text of a page.
func fetch(url string) (int, string, error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	r, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return r.StatusCode, string(body), err
}

// TestRunListens checks on each server that the pages of rowmill run show its periods,
// its leadership and its actions.
func TestRunListens(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		file := declareOn(t, kind)
		addr := freePort(t)
		stop := keepElsewhere(t, file, "--listen", addr, "--interval", "100ms")
		metrics := ""
		leads := regexp.MustCompile(`(?m)^rowmill_leader\{table="readings"\} 1$`)
		for end := time.Now().Add(time.Minute); !leads.MatchString(metrics); time.Sleep(200 * time.Millisecond) {
			_, metrics, _ = fetch("http://" + addr + "/metrics")
			if time.Now().After(end) {
				t.Fatalf("nobody leads:\n%s\n%s", metrics, stop().stderr)
			}
		}
		for _, want := range []string{`rowmill_up{table="readings"} 1`, `rowmill_periods{state="open",table="readings"} 1`, `rowmill_periods{state="ahead",table="readings"} 6`} {
			if !strings.Contains(metrics, want) {
				t.Errorf("no %s in:\n%s", want, metrics)
			}
		}
		code, page, err := fetch("http://" + addr + "/")
		if err != nil || code != http.StatusOK || strings.Count(page, `class="period ahead"`) < 6 || !strings.Contains(page, "this process") {
			t.Errorf("page: %d %v\n%s", code, err, page[max(0, strings.Index(page, "<body>")):])
		}
		code, text, err := fetch("http://" + addr + "/status.json")
		var s maintain.Status
		if err != nil || code != http.StatusOK || json.Unmarshal([]byte(text), &s) != nil || len(s.Periods) != 7 || s.Now == "" {
			t.Errorf("status: %d %v %s", code, err, text)
		}
		if code, text, err := fetch("http://" + addr + "/healthz"); err != nil || code != http.StatusOK {
			t.Errorf("health: %d %v %s", code, err, text)
		}
		// A second process can't use the port, and reports this before it does any
		// maintenance.
		if s := rowmill(t.Context(), "run", file, "--listen", addr); s.code != exitFailed || !strings.Contains(s.stderr, "the port is taken") {
			t.Errorf("exit %d: %s", s.code, s.stderr)
		}
		kept := stop()
		wantDone(t, kept)
		if !strings.Contains(kept.stderr, " serves metrics and a page at "+addr+": this machine only\n") {
			t.Errorf("no line with the address: %s", kept.stderr)
		}
		if _, _, err := fetch("http://" + addr + "/livez"); err == nil {
			t.Error("somebody listens still")
		}
	})
}

// TestInsertsGoOnWhileKeptElsewhere checks that inserts continue at their rate while
// another rowmill run, on the clock written by the benchmark, creates, seals and drops
// periods: none fails, and no row is lost.
func TestInsertsGoOnWhileKeptElsewhere(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		clock := filepath.Join(t.TempDir(), "clock")
		var f report.KeepFigures
		for _, slow := range []bool{false, true} { // if a busy machine was late with the periods
			length, speed := "7s", "3600"
			if slow {
				length, speed = "40s", "1200"
			}
			writeFile(t, clock, time.Now().UTC().Format(time.RFC3339))
			file := declareOn(t, kind, "--clock", clock)
			stop := keepElsewhere(t, file, "--clock", clock, "--interval", "200ms")
			s := rowmill(t.Context(), "bench", "keep", file, "--clock", clock, "--speed", speed, "--rate", "300/s", "--batch", "5", "--writers", "1", "--time", length, "--interval", "500ms", "--json")
			kept := stop()
			wantDone(t, kept)
			if s.code != exitDone {
				t.Fatalf("exit %d\n%s\n%s\nkept:\n%s", s.code, s.stdout, s.stderr, kept.stderr)
			}
			f = report.KeepFigures{}
			must(t, json.Unmarshal([]byte(s.stdout), &f))
			done := f.Rows >= 1000 && f.Actions["create"] >= 2 && f.Actions["drop"] >= 1 && f.Dropped > 0
			if f.Found == nil || *f.Found != f.Rows || len(f.Errors) > 0 || !done && slow {
				t.Errorf("%s\nkept:\n%s", s.stdout, kept.stderr)
			}
			if done {
				break
			}
		}
		t.Logf("longest insert %.0f ms, during %q", f.Longest.Seconds*1000, f.Longest.During)
	})
}
