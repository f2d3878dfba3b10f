package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
)

// TestRowsExact checks that exactly the requested rows are done for any number
// of clients and batch size: each once, the last operation with the remainder.
func TestRowsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Within a synctest bubble rapid must not query the deadline of a
		// *testing.T.
		rapid.Check(struct{ *testing.T }{t}, func(rt *rapid.T) {
			cfg := Config{
				Clients:  rapid.IntRange(1, 6).Draw(rt, "clients"),
				Batch:    rapid.IntRange(1, 50).Draw(rt, "batch"),
				Rows:     rapid.Int64Range(1, 700).Draw(rt, "rows"),
				Rate:     float64(rapid.SampledFrom([]int{0, 500, 100000}).Draw(rt, "rate")),
				Interval: 200 * time.Millisecond,
			}
			takes := rapid.SliceOfN(rapid.IntRange(1, 20), 7, 7).Draw(rt, "takes")
			every := rapid.IntRange(2, 9).Draw(rt, "fails")
			sizes := map[int]int{}
			failed := int64(0)
			s := &script{}
			s.do = func(_ context.Context, a *actor) error {
				time.Sleep(time.Duration(takes[(a.n+a.op)%len(takes)]) * time.Millisecond)
				s.mu.Lock()
				defer s.mu.Unlock()
				if a.op%every == 0 && a.try <= 2 {
					failed++
					return engine.ErrDeadlock
				}
				sizes[a.rows]++
				return nil
			}
			o, ivs := execute(rt, t.Context(), s, cfg)
			if o.Stopped != StoppedRows || o.Rows != cfg.Rows || o.Backlog != 0 || o.BrokenOff != 0 {
				rt.Errorf("%+v", o)
			}
			full, rest := int(cfg.Rows)/cfg.Batch, int(cfg.Rows)%cfg.Batch
			if sizes[cfg.Batch] != full || rest > 0 && sizes[rest] != 1 || s.ops.Load() != int64(full+min(rest, 1)) {
				rt.Errorf("operations by size: %v", sizes)
			}
			sum := sums(ivs)
			if sum.Errors != failed || sum.Retries != failed {
				rt.Errorf("%d errors, %d retries; %d tries failed", sum.Errors, sum.Retries, failed)
			}
			if n := len(sum.Marks); cfg.Rows >= 100 && n != 100 || cfg.Rows < 100 && n != 0 {
				rt.Errorf("%d marks", n)
			}
		})
	})
}

// TestRowsExactInParallel is the same with a real clock, so that the race
// detector sees clients and ticks concurrently.
func TestRowsExactInParallel(t *testing.T) {
	const rows = 50_003
	s := &script{do: func(context.Context, *actor) error { return nil }}
	o, ivs := execute(t, t.Context(), s, Config{Clients: 4, Batch: 2, Rows: rows, Interval: minInterval})
	if o.Rows != rows || o.Stopped != StoppedRows || s.ops.Load() != rows/2+1 {
		t.Errorf("%+v, %d operations", o, s.ops.Load())
	}
	if marks := sums(ivs).Marks; len(marks) != 100 || marks[99][0] != rows {
		t.Errorf("%d marks", len(marks))
	}
}

func TestServiceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			prepare: func(*actor) { time.Sleep(3 * time.Millisecond) },
			do: func(context.Context, *actor) error {
				time.Sleep(7 * time.Millisecond)
				return nil
			},
		}
		o, ivs := execute(t, t.Context(), s, Config{Clients: 2, Batch: 10, Rows: 1000, Interval: 150 * time.Millisecond})
		want(t, o, StoppedRows, 500*time.Millisecond, 1000)
		if len(ivs) != 4 {
			t.Errorf("%d intervals", len(ivs))
		}
		for _, iv := range ivs {
			if h := iv.Latency["insert"]; h.P50 < 7000 || h.Max > 7003 { // with 3 significant figures
				t.Errorf("latency %+v", h.Latency)
			}
		}
		if sum := sums(ivs); !near(sum.BusySeconds, 0.3) || !near(sum.WaitSeconds, 0.7) {
			t.Errorf("busy %v, waiting %v; want the preparation, and the operations", sum.BusySeconds, sum.WaitSeconds)
		}
	})
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

// pace runs operations of 10 rows, one due every 10 ms.
func pace(t *testing.T, s *script, cfg Config) (Outcome, []result.Interval) {
	t.Helper()
	cfg.Batch, cfg.Rate = 10, 1000
	return execute(t, t.Context(), s, cfg)
}

// TestPaced checks that a server that keeps up has the expected response times:
// preparing takes place before the operation is due and is not counted.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var starts []time.Duration
		s := &script{prepare: func(a *actor) {
			if a.op > 1 {
				time.Sleep(5 * time.Millisecond)
			}
		}}
		s.do = func(context.Context, *actor) error {
			starts = append(starts, time.Since(began))
			time.Sleep(4 * time.Millisecond)
			return nil
		}
		o, ivs := pace(t, s, Config{Rows: 1005})
		want(t, o, StoppedRows, 1004*time.Millisecond, 1005)
		for n, at := range starts {
			if at != time.Duration(n)*10*time.Millisecond {
				t.Fatalf("operation %d began at %v", n, at)
			}
		}
		for _, iv := range ivs {
			if r, l := iv.Response["insert"], iv.Latency["insert"]; r.Max != l.Max || r.Max > 4003 || iv.Late != 0 || iv.Backlog > 1 {
				t.Errorf("response %+v, latency %+v, late %d, backlog %d", r.Latency, l.Latency, iv.Late, iv.Backlog)
			}
		}
		if o.Backlog != 0 {
			t.Errorf("backlog %d", o.Backlog)
		}
	})
}

// TestOverload tests operations that take three times as long as available: the
// backlog grows by two of three, and the response times grow with it.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: func(context.Context, *actor) error {
			time.Sleep(30 * time.Millisecond)
			return nil
		}}
		o, ivs := pace(t, s, Config{MaxTime: 3001 * time.Millisecond})
		want(t, o, StoppedTime, 3030*time.Millisecond, 1010)
		if len(ivs) != 3 { // the third lasts until the time is over
			t.Fatalf("%d intervals", len(ivs))
		}
		for i, iv := range ivs {
			// Operations due by then, including the one at 0; one is completed every 30 ms.
			due := int64(min(iv.Elapsed, 3.001)*100+1e-6) + 1
			if left := due - iv.Rows/10; iv.Backlog != left {
				t.Errorf("interval %d: backlog %d, want %d", i, iv.Backlog, left)
			}
			if h := iv.Response["insert"]; i < 3 && h.Max < int64(i+1)*600_000 || h.P50 < iv.Latency["insert"].Max {
				t.Errorf("interval %d: response %+v", i, h.Latency)
			}
		}
		// The second operation begins 20 ms late, each further one another 20 ms later.
		if sum := sums(ivs); sum.Late != 100 {
			t.Errorf("%d began late, want all but the first of 101", sum.Late)
		}
		if o.Backlog != 301-101 {
			t.Errorf("backlog %d in the end", o.Backlog)
		}
	})
}

// TestStallIsNotOmitted checks that the response times include the wait of the
// operations that were due during a stall.
func TestStallIsNotOmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: func(_ context.Context, a *actor) error {
			if a.op == 101 {
				time.Sleep(2 * time.Second)
			}
			time.Sleep(time.Millisecond)
			return nil
		}}
		o, ivs := pace(t, s, Config{Rows: 5000, Interval: time.Minute})
		want(t, o, StoppedRows, 4991*time.Millisecond, 5000)
		service, response := ivs[0].Latency["insert"], ivs[0].Response["insert"]
		// 200 operations fell due during the stall, and 22 more while the
		// backlog was worked off, one per 1 ms instead of 10.
		if service.P99 > 1002 || response.P99 < 1_900_000 || response.P50 > 1002 || ivs[0].Late < 200 || ivs[0].Late > 222 {
			t.Errorf("service %+v, response %+v, %d late", service.Latency, response.Latency, ivs[0].Late)
		}
	})
}

func TestExtremeRates(t *testing.T) {
	for name, c := range map[string]struct {
		rate          float64
		rows, backlog int64
		stopped       string
		elapsed       time.Duration
		clients, late int64
	}{
		"all at once":              {1e300, 50, 0, StoppedRows, 50 * time.Millisecond, 1, 39},
		"one, then for hours none": {0.0001, 1, 0, StoppedTime, time.Minute, 3, 0},
		"one, then none ever":      {1e-300, 1, 0, StoppedTime, time.Minute, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, ivs := execute(t, t.Context(), &script{}, Config{Clients: int(c.clients), Rows: 50, Rate: c.rate, MaxTime: time.Minute})
				want(t, o, c.stopped, c.elapsed, c.rows)
				if late := sums(ivs).Late; o.Backlog != c.backlog || late != c.late {
					t.Errorf("backlog %d, %d late", o.Backlog, late)
				}
			})
		})
	}
}
