package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/maintain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)

const self = "db1:4711"

// status returns the status of a table with hourly periods and an example of everything.
func status() *maintain.Status {
	s := &maintain.Status{
		Format: "rowmill.status/1", Table: "readings", Target: "mysql://ingest@db1:3306/metrics", Engine: "mariadb", At: noon, Now: "2026-11-20 12:30:00",
		Every: "1h", Ahead: "2d", Keep: "30d", Activity: maintain.Activity{
			Leader: self,
			Changes: []maintain.ChangeStatus{{What: "merge p20261117", Step: "copy", Since: noon.Add(-time.Minute), Percent: new(42.0)},
				{What: "seal p20261118", Step: "detach", Since: noon.Add(-2 * time.Minute), Tries: 3, Error: "lock wait timeout"}},
			Actions: []maintain.ActionStatus{
				{At: noon.Add(-time.Minute), Action: "drop", Detail: "p20261020", Seconds: .02, Error: "lock wait timeout", By: self},
				{At: noon.Add(-2 * time.Minute), Action: "create", Detail: "p20261122_12", Seconds: .004, By: self},
				{At: noon.Add(-time.Hour), Action: "create", Detail: "p20261122_11", Seconds: .004, By: "db2:99"}},
			Next: []maintain.NextStatus{{Action: "rollup", What: "readings_1h", At: new(noon.Add(30 * time.Minute))}, {Action: "drop", What: "p20261020", Why: "older than 30d"}},
		},
		Coverage: maintain.Coverage{Headroom: new(47.5 * 3600), HeadroomWanted: new(48.0 * 3600)},
		Rollups: []maintain.RollupStatus{{Name: "readings_1h", Every: "1h", To: "2026-11-20 12:00:00", Lag: 0, Stale: 3, Rows: 5000},
			{Name: "readings_1d", Every: "1d", To: "2026-11-19 00:00:00", Lag: 86400, Rows: 30}},
		Blockers: []maintain.BlockerStatus{{ID: 77, User: "report", Host: "10.0.0.9", Age: 612, Statement: "SELECT * FROM readings"}},
		Problems: []maintain.Problem{{Code: "blocked", Text: "drop p20261020 waits for connection 77 of report@10.0.0.9", Try: "KILL 77"}},
	}
	s.Latest = s.Actions[:2]
	add := func(name, state string, from time.Time, d time.Duration, rows, bytes int64) {
		const layout = "2006-01-02 15:04:05"
		s.Periods = append(s.Periods, maintain.PeriodStatus{Name: name, From: from.Format(layout), To: from.Add(d).Format(layout), State: state, Rows: rows, Bytes: bytes})
		s.Rows += rows
		s.Bytes += bytes
	}
	day := 24 * time.Hour
	start := noon.Truncate(day)
	for i := 30; i >= 3; i-- {
		state := "sealed"
		if i > 28 {
			state = "archived"
		}
		from := start.Add(-time.Duration(i) * day)
		add(from.Format("p20060102"), state, from, day, 2_400_000, 96<<20)
	}
	for i := -48; i <= 60; i++ {
		from := start.Add(time.Duration(i) * time.Hour)
		state, rows := "ahead", int64(0)
		switch {
		case i < 12:
			state, rows = "closing", 100_000
		case i == 12:
			state, rows = "open", 50_000
		}
		add(from.Format("p20060102_15"), state, from, time.Hour, rows, rows*120)
	}
	s.Periods[5].Rebuilt, s.Periods[0].Archive = true, "archive/readings/p20261021.parquet"
	return s
}

// looker is a database that a test can make fail.
type looker struct {
	mu    sync.Mutex
	s     *maintain.Status
	err   error
	pause time.Duration
	calls atomic.Int64
}

func (l *looker) look(ctx context.Context) (*maintain.Status, error) {
	l.calls.Add(1)
	l.mu.Lock()
	s, err, pause := l.s, l.err, l.pause
	l.mu.Unlock()
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s, err
}

func (l *looker) set(s *maintain.Status, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s, l.err = s, err
}

// leads reports whether the status names this process.
func (l *looker) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s != nil && l.s.Leader == self
}

func newMonitor(l *looker) *Monitor {
	return New(Options{Table: "readings", Look: l.look, Leads: l.leads, Version: "1.2.3", Fresh: time.Nanosecond})
}

func get(t *testing.T, h http.Handler, path string, change ...func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
	r.Host = "localhost:9187"
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

func TestAnswers(t *testing.T) {
	l := &looker{s: status()}
	m := newMonitor(l)
	for path, c := range map[string]struct {
		code int
		kind string
		want string
	}{
		"/":            {200, "text/html; charset=utf-8", "merge p20261117"},
		"/status.json": {200, "application/json", `"format": "rowmill.status/1"`},
		"/healthz":     {503, "application/json", `"code": "blocked"`},
		"/livez":       {200, "application/json", `"ok": true`},
		"/metrics":     {200, "text/plain", `rowmill_headroom_seconds{table="readings"} 171000`},
		"/nothing":     {404, "text/plain", ""},
	} {
		t.Run(path, func(t *testing.T) {
			code, body, h := get(t, m, path)
			if code != c.code || !strings.HasPrefix(h.Get("Content-Type"), c.kind) || !strings.Contains(body, c.want) {
				t.Errorf("%d %s, want %d %s with %q:\n%.2000s", code, h.Get("Content-Type"), c.code, c.kind, c.want, body)
			}
			if h.Get("Cache-Control") != "no-store" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("headers %v", h)
			}
		})
	}
	if code, _, _ := get(t, m, "/", func(r *http.Request) { r.Method = "POST" }); code != http.StatusMethodNotAllowed {
		t.Errorf("POST answers %d", code)
	}
	_, body, _ := get(t, m, "/status.json")
	var back maintain.Status
	if err := json.Unmarshal([]byte(body), &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(status(), &back); d != "" {
		t.Errorf("status.json is another status: %s", d)
	}
	well := status()
	well.Problems = nil
	l.set(well, nil)
	if code, body, _ := get(t, m, "/healthz"); code != 200 || !strings.Contains(body, `"ok": true`) {
		t.Errorf("healthz of a table without problems: %d %s", code, body)
	}
}

// A failed database results in a metric and a banner, not in an error page.
func TestDatabaseDown(t *testing.T) {
	l := &looker{s: status()}
	m := newMonitor(l)
	get(t, m, "/")
	l.set(nil, errors.New("connect to db1:3306: refused <b>"))
	code, body, _ := get(t, m, "/metrics")
	if code != 200 || !strings.Contains(body, `rowmill_up{table="readings"} 0`) || !strings.Contains(body, "rowmill_build_info") {
		t.Errorf("metrics: %d\n%s", code, body)
	}
	if strings.Contains(body, "rowmill_headroom_seconds") {
		t.Error("the headroom of before is exported as that of now")
	}
	if code, body, _ := get(t, m, "/healthz"); code != 503 || !strings.Contains(body, "refused") {
		t.Errorf("healthz: %d %s", code, body)
	}
	if code, body, _ := get(t, m, "/status.json"); code != 503 || !strings.Contains(body, "refused") {
		t.Errorf("status.json: %d %s", code, body)
	}
	code, body, _ = get(t, m, "/")
	if code != 200 || !strings.Contains(body, "refused &lt;b&gt;") || !strings.Contains(body, "The status below is from") || !strings.Contains(body, "p20261122_12") {
		t.Errorf("page: %d\n%.3000s", code, body)
	}
	never := newMonitor(l)
	if code, body, _ := get(t, never, "/"); code != 200 || !strings.Contains(body, "refused") || strings.Contains(body, `id="headroom"`) {
		t.Errorf("page that never saw the table: %d\n%.3000s", code, body)
	}
}

// However many requests there are, the database is read only once per interval.
func TestOneLookForAll(t *testing.T) {
	l := &looker{s: status(), pause: 50 * time.Millisecond}
	m := New(Options{Table: "readings", Look: l.look, Fresh: time.Minute})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			path := []string{"/", "/metrics", "/healthz", "/status.json"}[i%4]
			if code, body, _ := get(t, m, path); code != 200 && code != 503 || strings.Contains(body, `up{table="readings"} 0`) {
				t.Errorf("%s: %d", path, code)
			}
		})
	}
	wg.Wait()
	if n := l.calls.Load(); n != 1 {
		t.Errorf("40 requests looked %d times", n)
	}
	// A cancelled request doesn't cancel the look for the others.
	m = New(Options{Table: "readings", Look: l.look, Fresh: time.Nanosecond})
	gone, cancel := context.WithCancel(t.Context())
	wg.Go(func() { m.look(gone) })
	time.Sleep(10 * time.Millisecond)
	cancel()
	if got := m.look(t.Context()); got.status == nil {
		t.Errorf("the look ended with the one who asked first: %v", got.err)
	}
	wg.Wait()
}

// If the database hangs, rowmill_up is 0 before Prometheus gives up.
func TestHangingDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looker{s: status(), pause: time.Hour}
		m := New(Options{Table: "readings", Look: l.look, LookTimeout: 700 * time.Millisecond})
		began := time.Now()
		code, body, _ := get(t, m, "/metrics", func(r *http.Request) { r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "0.5") })
		if took := time.Since(began); code != 200 || !strings.Contains(body, `rowmill_up{table="readings"} 0`) || took > 480*time.Millisecond {
			t.Errorf("after %v: %d\n%s", took, code, body)
		}
		if l := m.look(t.Context()); !errors.Is(l.err, context.DeadlineExceeded) {
			t.Errorf("the look ended with %v", l.err)
		}
	})
	for header, want := range map[string]time.Duration{"": scrapeWait, "10": 9500 * time.Millisecond, "0.5": 250 * time.Millisecond, "-1": scrapeWait, "NaN": scrapeWait, "x": scrapeWait, "1e99": scrapeWait} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", header)
		if got := waitOf(r); got != want {
			t.Errorf("a scrape that says %q waits %v, want %v", header, got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	m := New(Options{Table: "readings", Look: (&looker{s: status()}).look})
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	loopback, lan := "127.0.0.1:9187", "10.1.2.3:9187"
	for _, c := range []struct {
		local, host string
		want        int
	}{
		{loopback, "localhost:9187", 200}, {loopback, "127.0.0.1:9187", 200}, {loopback, "[::1]:9187", 200}, {loopback, "::1", 200},
		{loopback, "LOCALHOST.", 200}, {loopback, strings.ToUpper(own), 200}, {loopback, "", 200},
		{loopback, "evil.example:9187", 421}, {loopback, "localhost.evil.example", 421}, {loopback, "127.0.0.1.evil.example", 421},
		{lan, "db1.example.com:9187", 200}, {lan, "10.1.2.3:9187", 200},
	} {
		code, _, _ := get(t, m, "/status.json", func(r *http.Request) {
			r.Host = c.host
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, address(c.local)))
		})
		if code != c.want {
			t.Errorf("%s asked for as %q answers %d, want %d", c.local, c.host, code, c.want)
		}
	}
}

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

func TestServe(t *testing.T) {
	l := &looker{s: status(), pause: 150 * time.Millisecond}
	m := New(Options{Table: "readings", Look: l.look, Fresh: time.Nanosecond})
	listener, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- ServeOn(ctx, listener, m) }()
	if _, err := Listen(addr); err == nil || !strings.Contains(err.Error(), "listen on "+addr+": the port is taken") {
		t.Errorf("a port that is taken: %v", err)
	}
	// An open request is allowed to finish.
	got := make(chan error, 1)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	go func() {
		r, err := client.Get("http://" + addr + "/status.json")
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
			err = errors.Join(err, r.Body.Close())
			if r.StatusCode != 200 {
				err = fmt.Errorf("answered %d", r.StatusCode)
			}
		}
		got <- err
	}()
	for l.calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-got; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("served: %v", err)
	}
}

func TestListen(t *testing.T) {
	for addr, want := range map[string]string{
		"0": "127.0.0.1:", "127.0.0.1:0": "127.0.0.1:", ":0": "127.0.0.1:", "0.0.0.0:0": "[::]:", "localhost:0": "127.0.0.1:",
		"": "want HOST:PORT", "localhost": "want HOST:PORT", "65536": "want HOST:PORT", "localhost:": "want HOST:PORT", "192.0.2.1:0": "listen on 192.0.2.1:0", ":99999": "listen on 127.0.0.1:99999",
	} {
		l, err := Listen(addr)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", addr, err, want)
			}
			continue
		}
		if got := l.Addr().String(); !strings.HasPrefix(got, want) {
			t.Errorf("%q listens on %s, want %s", addr, got, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Run looks at its interval and ends with its context.
func TestRun(t *testing.T) {
	l := &looker{s: status()}
	m := New(Options{Table: "readings", Look: l.look, Fresh: time.Nanosecond, Every: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.Run(ctx); close(done) }()
	for l.calls.Load() < 5 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	for m.flying() {
		time.Sleep(time.Millisecond)
	}
}

func (m *Monitor) flying() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flight != nil
}

// Periods created ahead are only safe with an alarm, which is visible in every output.
func TestTrapHeadroomAlarm(t *testing.T) {
	s := status()
	s.Headroom = new(1800.0)
	s.Problems = []maintain.Problem{{Code: "headroom", Text: "inserts have periods for 30m0s more; 2d is declared", Try: "rowmill run FILE --once"}}
	m := newMonitor(&looker{s: s})
	_, body, _ := get(t, m, "/metrics")
	got := rowmillLines(body)
	if got[`rowmill_headroom_seconds{table="readings"}`] != "1800" || got[`rowmill_headroom_wanted_seconds{table="readings"}`] != "172800" || got[`rowmill_problems{code="headroom",table="readings"}`] != "1" {
		t.Errorf("metrics:\n%s", body)
	}
	if code, body, _ := get(t, m, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "30m0s more") {
		t.Errorf("healthz: %d %s", code, body)
	}
	if _, page, _ := get(t, m, "/"); !strings.Contains(page, `<p class="big bad">30m</p>`) || !strings.Contains(page, "Try: rowmill run FILE --once") {
		t.Errorf("page:\n%.3000s", page)
	}
}

// A pipes listener takes its connections from a channel, not from the system.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return address("pipes") }

// Shutdown waits for connections that browsers open in advance for as long as for open requests.
func TestServeEndsBesideUnusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- ServeOn(ctx, listener, http.NotFoundHandler()) }()
		client, server := net.Pipe()
		defer client.Close()
		listener.conns <- server
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > drainTimeout {
			t.Errorf("it took %v to end beside a connection without a request", took)
		}
		if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the connection is still open: %v", err)
		}
	})
}
