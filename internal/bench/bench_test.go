package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a workload of which a test can define every part. Parts that are
// not defined succeed at once, but operations take a millisecond.
type script struct {
	do         func(ctx context.Context, a *actor) error
	recover    func(ctx context.Context, a *actor, failed error) error
	prepare    func(a *actor)
	background func(ctx context.Context, event func(what, object string, began time.Time)) error
	open       func(n int) error
	close      func(a *actor) error

	mu     sync.Mutex
	actors []*actor
	ops    atomic.Int64 // acknowledged
	rows   atomic.Int64
}

// An actor is a client of a script.
type actor struct {
	s      *script
	n      int
	rows   int // of the prepared operation
	op     int // number of prepared operations
	try    int // number of tries of this operation
	closed int
}

func (s *script) Client(_ context.Context, n int) (Client, error) {
	if s.open != nil {
		if err := s.open(n); err != nil {
			return nil, err
		}
	}
	a := &actor{s: s, n: n}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors = append(s.actors, a)
	return a, nil
}

func (s *script) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	if s.background == nil {
		return nil
	}
	return s.background(ctx, event)
}

// Server implements Placed: each client has a server of its own.
func (a *actor) Server() int { return a.n }

func (a *actor) Prepare(rows int) {
	a.rows, a.try = rows, 0
	a.op++
	if a.s.prepare != nil {
		a.s.prepare(a)
	}
}

func (a *actor) Do(ctx context.Context) error {
	a.try++
	if a.s.do == nil {
		time.Sleep(time.Millisecond)
	} else if err := a.s.do(ctx, a); err != nil {
		return err
	}
	a.s.ops.Add(1)
	a.s.rows.Add(int64(a.rows))
	return nil
}

func (a *actor) Recover(ctx context.Context, failed error) error {
	if a.s.recover == nil {
		return nil
	}
	return a.s.recover(ctx, a, failed)
}

func (a *actor) Close() error {
	a.closed++
	if a.s.close != nil {
		return a.s.close(a)
	}
	return nil
}

// hang blocks until ctx ends, like a server that does not answer.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A failer is the common interface of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// execute runs a script and checks the properties of every run: the record is
// consistent with the operations done.
func execute(t failer, ctx context.Context, s *script, cfg Config) (Outcome, []result.Interval) {
	t.Helper()
	var ivs []result.Interval
	observe := cfg.Observe
	cfg.Operation = "insert"
	cfg.Observe = func(iv result.Interval) error {
		ivs = append(ivs, iv)
		if observe != nil {
			return observe(iv)
		}
		return nil
	}
	cfg.Clients, cfg.Batch = max(cfg.Clients, 1), max(cfg.Batch, 1)
	o, err := Run(ctx, s, cfg)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	for _, a := range s.actors {
		if a.closed != 1 {
			t.Errorf("client %d was closed %d times", a.n, a.closed)
		}
	}
	if len(s.actors) != cfg.Clients {
		t.Errorf("%d clients, want %d", len(s.actors), cfg.Clients)
	}
	if o.Rows != s.rows.Load() {
		t.Errorf("%d rows, %d were acknowledged", o.Rows, s.rows.Load())
	}
	if (o.Stopped == StoppedFailed) != (o.Err != nil) {
		t.Errorf("stopped %q with error %v", o.Stopped, o.Err)
	}
	checkIntervals(t, s, cfg, o, ivs)
	return o, ivs
}

func checkIntervals(t failer, s *script, cfg Config, o Outcome, ivs []result.Interval) {
	t.Helper()
	if len(ivs) == 0 {
		t.Fatalf("no interval was observed")
	}
	var rows, service, response int64
	var elapsed float64
	for i, iv := range ivs {
		rows += iv.NewRows
		if iv.Rows != rows {
			t.Errorf("interval %d: %d rows so far, the intervals add up to %d", i, iv.Rows, rows)
		}
		if iv.Seconds < 0 || math.Abs(elapsed+iv.Seconds-iv.Elapsed) > 1e-5 {
			t.Errorf("interval %d: ends at %v after %v, the one before ended at %v", i, iv.Elapsed, iv.Seconds, elapsed)
		}
		elapsed = iv.Elapsed
		service += count(t, iv.Latency)
		if (iv.Response != nil) != (cfg.Rate > 0) {
			t.Errorf("interval %d: response times %v at rate %v", i, iv.Response, cfg.Rate)
		}
		response += count(t, iv.Response)
	}
	if last := ivs[len(ivs)-1]; rows != o.Rows || last.Backlog != o.Backlog {
		t.Errorf("the intervals end with %d rows, backlog %d; the outcome has %d, %d", rows, last.Backlog, o.Rows, o.Backlog)
	}
	if ops := s.ops.Load(); service != ops || cfg.Rate > 0 && response != ops {
		t.Errorf("%d service and %d response times of %d operations", service, response, ops)
	}
}

// count returns the number of latencies in an encoded distribution.
func count(t failer, hs map[string]result.Histogram) int64 {
	t.Helper()
	if hs == nil {
		return 0
	}
	d, err := hs["insert"].Decode()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if d.TotalCount() != hs["insert"].Count {
		t.Errorf("%d latencies are encoded, %d counted", d.TotalCount(), hs["insert"].Count)
	}
	return d.TotalCount()
}

// sums adds up the figures of all intervals.
func sums(ivs []result.Interval) (sum result.Interval) {
	for _, iv := range ivs {
		sum.Errors += iv.Errors
		sum.Retries += iv.Retries
		sum.Late += iv.Late
		sum.BusySeconds += iv.BusySeconds
		sum.WaitSeconds += iv.WaitSeconds
		sum.Events = append(sum.Events, iv.Events...)
		sum.Marks = append(sum.Marks, iv.Marks...)
	}
	return sum
}

// want compares the given parts of an outcome.
func want(t *testing.T, o Outcome, stopped string, elapsed time.Duration, rows int64) {
	t.Helper()
	if o.Stopped != stopped || o.Elapsed != elapsed || o.Rows != rows {
		t.Errorf("stopped %q after %v with %d rows, want %q after %v with %d (%v)",
			o.Stopped, o.Elapsed, o.Rows, stopped, elapsed, rows, o.Err)
	}
}

func TestValidate(t *testing.T) {
	good := Config{Operation: "insert", Clients: 1, Batch: 1, Rows: 1}
	beside := func(change func(*Load)) func(*Config) {
		l := Load{Operation: "query", Clients: 1, Batch: 1, Client: (&script{}).Client}
		change(&l)
		return func(c *Config) { c.Beside = []Load{l} }
	}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"good":               {func(*Config) {}, ""},
		"only a time":        {func(c *Config) { c.Rows, c.MaxTime = 0, 1 }, ""},
		"no clients":         {func(c *Config) { c.Clients = 0 }, "0 clients"},
		"no rows each":       {func(c *Config) { c.Batch = 0 }, "0 rows per operation"},
		"negative rows":      {func(c *Config) { c.Rows = -1 }, "negative"},
		"negative time":      {func(c *Config) { c.MaxTime = -1 }, "negative"},
		"negative grace":     {func(c *Config) { c.Grace = -1 }, "negative"},
		"endless":            {func(c *Config) { c.Rows = 0 }, "needs an end"},
		"negative rate":      {func(c *Config) { c.Rate = -1 }, "rate -1"},
		"rate not known":     {func(c *Config) { c.Rate = math.NaN() }, "rate NaN"},
		"infinite rate":      {func(c *Config) { c.Rate = math.Inf(1) }, "rate +Inf"},
		"short interval":     {func(c *Config) { c.Interval = time.Millisecond }, "at least 10ms"},
		"interval backward":  {func(c *Config) { c.Interval = -time.Second }, "at least 10ms"},
		"beside: same name":  {beside(func(l *Load) { l.Operation = "insert" }), "a separate name"},
		"beside: no name":    {beside(func(l *Load) { l.Operation = "" }), "a separate name"},
		"beside: no clients": {beside(func(l *Load) { l.Clients = 0 }), "load query: 0 clients"},
		"beside: no rows":    {beside(func(l *Load) { l.Batch = 0 }), "load query: 0 rows per operation"},
		"beside: nobody":     {beside(func(l *Load) { l.Client = nil }), "load query has no clients"},
		"beside: rate":       {beside(func(l *Load) { l.Rate = -1 }), "load query: rate -1"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			err := cfg.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, ran := Run(t.Context(), &script{open: func(int) error { return errors.New("opened") }}, cfg); c.want != "" && (ran == nil || ran.Error() != err.Error()) {
				t.Errorf("Run says %v", ran)
			}
		})
	}
}

// TestOpenFails checks that an error of Client prevents the run, and that the
// other clients are closed.
func TestOpenFails(t *testing.T) {
	refused, stuck := errors.New("too many connections"), errors.New("stuck")
	s := &script{
		open: func(n int) error {
			if n == 2 {
				return refused
			}
			return nil
		},
		close: func(a *actor) error {
			if a.n == 1 {
				return stuck
			}
			return nil
		},
	}
	_, err := Run(t.Context(), s, Config{Clients: 4, Batch: 1, Rows: 10})
	if !errors.Is(err, refused) || !errors.Is(err, stuck) || !strings.Contains(fmt.Sprint(err), "client 3: too many") {
		t.Errorf("got %v", err)
	}
	for _, a := range s.actors {
		if a.closed != 1 || a.op != 0 {
			t.Errorf("client %d: closed %d times after %d operations", a.n, a.closed, a.op)
		}
	}
}
