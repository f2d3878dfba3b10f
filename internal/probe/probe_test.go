package probe

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
)

func TestMain(m *testing.M) {
	burnIfAsked()
	goleak.VerifyTestMain(m)
}

// burnVariable makes the test's own binary burn CPU time until its standard
// input ends.
const burnVariable = "ROWMILL_TEST_BURN"

func burnIfAsked() {
	if os.Getenv(burnVariable) == "" {
		return
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		burn(time.Second)
	}
}

// burn uses CPU time for a duration.
func burn(d time.Duration) {
	x := 1.0
	for end := time.Now().Add(d); time.Now().Before(end); {
		for range 10000 {
			x = math.Sqrt(x + 1)
		}
	}
	if x == 0 {
		panic("unreachable")
	}
}

// testCounters are a server's counters, whose values a function provides, so
// that a test can make them hang, fail and restart.
type testCounters struct {
	counters []engine.Counter
	sample   func(ctx context.Context, dst []float64) error
}

func (c *testCounters) Describe() []engine.Counter { return c.counters }
func (c *testCounters) Sample(ctx context.Context, dst []float64) error {
	return c.sample(ctx, dst)
}
func (c *testCounters) Close() error { return nil }

var (
	pageReads = engine.Counter{Name: engine.CounterPageReads, Unit: "pages", Cumulative: true, Help: "pages read"}
	rows      = engine.Counter{Name: engine.CounterRows, Unit: "rows", Cumulative: true, Help: "rows inserted"}
	indexSize = engine.Counter{Name: engine.CounterTableIndex, Unit: "bytes", Help: "secondary indexes"}
)

// of returns the node of an embedded engine.
func of(db engine.Counters) *Node { return &Node{DB: db, Embedded: true} }

// counting returns the node of an embedded engine whose counters a function samples.
func counting(sample func(ctx context.Context, dst []float64) error, counters ...engine.Counter) *Node {
	return of(&testCounters{counters, sample})
}

// newProbe opens a probe that is closed when the test ends.
func newProbe(t *testing.T, cfg Config) *Probe {
	t.Helper()
	p := New(t.Context(), cfg)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// want checks one figure of a sample; NaN means that it must be left out.
func want(t *testing.T, s figures, name string, value float64) {
	t.Helper()
	got, ok := s[name]
	if ok == math.IsNaN(value) || ok && math.Abs(got-value) > 1e-9*math.Abs(value) {
		t.Errorf("%s = %v (%v), want %v", name, got, ok, value)
	}
}

func wantWarning(t *testing.T, warnings []string, part string) {
	t.Helper()
	if !strings.Contains(strings.Join(warnings, "\n"), part) {
		t.Errorf("no warning says %q, but:\n%s", part, strings.Join(warnings, "\n"))
	}
}

// TestHangingServer checks that a server that hangs costs the first tick a quarter of the interval
// and the others nothing, and that the first answer in time covers the whole gap.
func TestHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var value float64
		hang := make(chan struct{})
		db := &testCounters{counters: []engine.Counter{pageReads}}
		db.sample = func(_ context.Context, dst []float64) error {
			if value == 100 { // the second query
				value = 150
				<-hang // ignores its context
			}
			dst[0] = value
			return nil
		}
		p := newProbe(t, Config{Node: of(db), Interval: 800 * time.Millisecond})
		begin := time.Now()
		p.Start(t.Context())
		sampleAt := func(at, cost time.Duration) figures {
			t.Helper()
			time.Sleep(time.Until(begin.Add(at)))
			before := time.Now()
			s := p.Sample(t.Context(), at)
			if d := time.Since(before); d != cost {
				t.Errorf("sample at %v took %v, want %v", at, d, cost)
			}
			return s
		}
		value = 100
		want(t, sampleAt(1*time.Second, 200*time.Millisecond), pageReads.Name, math.NaN())
		want(t, sampleAt(2*time.Second, 0), pageReads.Name, math.NaN())
		want(t, sampleAt(3*time.Second, 0), pageReads.Name, math.NaN())
		close(hang) // the late answer, 150 at 1 s, is discarded
		synctest.Wait()
		value = 800
		want(t, sampleAt(4*time.Second, 0), pageReads.Name, 200) // 800 in 4 s
		value = 900
		want(t, sampleAt(5*time.Second, 0), pageReads.Name, 100)
		wantWarning(t, p.Warnings(), "server counters missing in 3 intervals, first at 1.0 s: the query took too long")
	})
}

// TestHangingQueryIsCancelled checks that a query that hangs is cancelled, so
// that the server is queried again.
func TestHangingQueryIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queries := 0
		p := newProbe(t, Config{Node: counting(func(ctx context.Context, dst []float64) error {
			if queries++; queries == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			dst[0] = 5
			return nil
		}, indexSize)})
		p.Start(t.Context())
		time.Sleep(queryLimit)
		synctest.Wait()
		want(t, p.Sample(t.Context(), queryLimit), indexSize.Name, 5)
	})
}

// TestCloseEndsQuery checks that a sample ends with its context, and that after Close no
// part of the probe runs, also if a query was in progress.
func TestCloseEndsQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		p := newProbe(t, Config{Node: counting(func(ctx context.Context, _ []float64) error {
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}, indexSize)})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		before := time.Now()
		s := p.Sample(ctx, time.Second)
		if d := time.Since(before); d != 0 || s["client_heap_bytes"] == 0 {
			t.Errorf("after its context had ended, a sample took %v and gave %v", d, s)
		}
		synctest.Wait() // until the query has begun
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if !ended {
			t.Error("the query still runs after close")
		}
		if s := p.Sample(t.Context(), time.Second); len(s) != 0 {
			t.Errorf("a closed probe gave %v", s)
		}
	})
}

func TestCloseReportsDeafQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newProbe(t, Config{Node: counting(func(context.Context, []float64) error { <-release; return nil }, indexSize)})
		p.Start(t.Context())
		if err := p.Close(); err == nil || !strings.Contains(err.Error(), "the query still runs") {
			t.Errorf("close: %v", err)
		}
		close(release)
	})
}

// TestServerRestart: counters of a restarted server begin at zero. No rate may be
// negative, or be computed from a new and an old value, even if it looks plausible.
func TestServerRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := [][3]float64{
			{1000, 1, 70},
			{1500, 2, 71},
			{20, 3, 72}, // restarted: page reads decreased, rows seem to have grown
			{30, 5, 73},
		}
		i := 0
		p := newProbe(t, Config{Node: counting(func(_ context.Context, dst []float64) error {
			copy(dst, values[i][:])
			i++
			return nil
		}, pageReads, rows, indexSize)})
		p.Start(t.Context())
		for at, w := range [][3]float64{{500, 1, 71}, {math.NaN(), math.NaN(), 72}, {10, 2, 73}} {
			time.Sleep(time.Second)
			s := p.Sample(t.Context(), time.Duration(at+1)*time.Second)
			want(t, s, pageReads.Name, w[0])
			want(t, s, rows.Name, w[1])
			want(t, s, indexSize.Name, w[2])
		}
		wantWarning(t, p.Warnings(), "server counters went backwards 1 time, first page_reads")
	})
}

// TestUnreadableCounters checks that a figure that can't be read, and a whole sample
// that fails, are left out, and that the next readable one covers both intervals.
func TestUnreadableCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type reading struct {
			reads, size float64
			err         error
		}
		readings := []reading{
			{100, 7, nil},
			{math.NaN(), 8, nil},
			{300, math.Inf(1), nil},
			{0, 0, errors.New("connection refused")},
			{900, 9, nil},
		}
		i := 0
		p := newProbe(t, Config{Node: counting(func(_ context.Context, dst []float64) error {
			r := readings[i]
			i++
			dst[0], dst[1] = r.reads, r.size // never the rows
			return r.err
		}, pageReads, indexSize, rows)})
		p.Start(t.Context())
		nan := math.NaN()
		for at, w := range [][2]float64{{nan, 8}, {100, nan}, {nan, nan}, {300, 9}} {
			time.Sleep(time.Second)
			s := p.Sample(t.Context(), time.Duration(at+1)*time.Second)
			want(t, s, pageReads.Name, w[0])
			want(t, s, indexSize.Name, w[1])
		}
		wantWarning(t, p.Warnings(), "server counters missing in 1 interval, first at 3.0 s: connection refused")
		wantWarning(t, p.Warnings(), "server counters missing in all intervals, the server does not provide them: rows_inserted")
		if strings.Contains(strings.Join(p.Warnings(), "\n"), "page_reads") {
			t.Error("page_reads is said to be missing throughout")
		}
	})
}

// TestKneeIsExplained checks that figures have the names, and are the rates, by
// which package result explains a knee.
func TestKneeIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads, size float64
		p := newProbe(t, Config{Node: counting(func(_ context.Context, dst []float64) error {
			dst[0], dst[1] = reads, size
			return nil
		}, pageReads, indexSize)})
		rec := result.Record{Run: result.Run{Database: result.Database{CacheBytes: 64 << 20}, Counters: p.Describe()}}
		p.Start(t.Context())
		var total int64
		for i := range 40 {
			// Half-way the indexes exceed the cache: each row reads three pages,
			// and the rate falls to a twentieth.
			n, perRow := int64(20000), 0.0
			if i >= 20 {
				n, perRow = 1000, 3
			}
			total += n
			reads += float64(n) * perRow
			size = float64(total) * 300
			time.Sleep(time.Second)
			at := time.Duration(i+1) * time.Second
			s := p.Sample(t.Context(), at)
			rec.Intervals = append(rec.Intervals, result.Interval{
				Elapsed: at.Seconds(), Seconds: 1, Rows: total, NewRows: n, Counters: s,
			})
		}
		knee := rec.Summary().Knee
		if knee == nil {
			t.Fatal("the run has no knee")
		}
		for _, part := range []string{"secondary indexes had grown to", "page reads rose from 0 to 3 per row"} {
			if !strings.Contains(knee.Why, part) {
				t.Errorf("the knee is explained by %q, which doesn't say %q", knee.Why, part)
			}
		}
	})
}
