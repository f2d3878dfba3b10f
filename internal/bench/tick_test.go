package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
)

// TestSlowSample checks that a server that does not answer queries costs
// counters but no intervals, and doesn't lengthen the run.
func TestSlowSample(t *testing.T) {
	for range 10 { // the order of two events at the same moment is random
		synctest.Test(t, slowSample)
	}
}

func slowSample(t *testing.T) {
	began := time.Now()
	var at []time.Duration
	cfg := Config{Rows: 5500, Interval: time.Second}
	cfg.Sample = func(ctx context.Context, elapsed time.Duration) map[string]float64 {
		at = append(at, elapsed)
		if len(at) >= 3 && len(at) <= 5 {
			_ = hang(ctx)
			return nil
		}
		return map[string]float64{"rows": 1}
	}
	o, ivs := execute(t, t.Context(), &script{}, cfg)
	want(t, o, StoppedRows, 5500*ms, 5500)
	// The last sample but one hangs until 6 s, when the next tick is due, too.
	if took := time.Since(began); took != 6*time.Second {
		t.Errorf("ended after %v", took)
	}
	if len(ivs) != 6 {
		t.Fatalf("%d intervals", len(ivs))
	}
	for i, iv := range ivs {
		if (iv.Counters == nil) != (i >= 2 && i <= 4) || at[i] != time.Duration(iv.Elapsed*1e9) {
			t.Errorf("interval %d ends at %v, sampled at %v: %v", i, iv.Elapsed, at[i], iv.Counters)
		}
	}
}

// TestSlowLastSample checks that the run waits at most 2 s for the sample of a long interval.
func TestSlowLastSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		cfg := Config{Rows: 10, Interval: time.Hour}
		cfg.Sample = func(ctx context.Context, _ time.Duration) map[string]float64 {
			_ = hang(ctx)
			return nil
		}
		o, _ := execute(t, t.Context(), &script{}, cfg)
		want(t, o, StoppedRows, 10*ms, 10)
		if took := time.Since(began); took != 2010*ms {
			t.Errorf("ended after %v", took)
		}
	})
}

// TestLastInterval checks that the moment after the last tick is no interval,
// unless something happened in it.
func TestLastInterval(t *testing.T) {
	fails := func(_ context.Context, a *actor) error {
		if time.Sleep(99 * ms); a.op == 21 { // 2079 ms
			return errors.New("boom")
		}
		return nil
	}
	once := func(context.Context, *actor) error {
		time.Sleep(1999 * ms)
		return nil
	}
	for name, c := range map[string]struct {
		do        func(context.Context, *actor) error
		rate      float64
		maxTime   time.Duration
		intervals int
	}{
		"empty":     {once, 0.001, 2050 * ms, 2},
		"a stall":   {once, 0.001, 2600 * ms, 3},
		"a failure": {fails, 0, time.Minute, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{do: c.do, prepare: func(*actor) { time.Sleep(time.Microsecond) }}
				_, ivs := execute(t, t.Context(), s, Config{Rate: c.rate, MaxTime: c.maxTime})
				if len(ivs) != c.intervals {
					t.Errorf("%d intervals, want %d: %+v", len(ivs), c.intervals, ivs[len(ivs)-1])
				}
			})
		})
	}
}

// TestLateMark checks that a tick between an operation's end and its mark does not lose the mark.
func TestLateMark(t *testing.T) {
	var ivs []result.Interval
	r := newRun(t.Context(), &instant{}, Config{Clients: 1, Batch: 100, Rows: 100, Interval: time.Second,
		Observe: func(iv result.Interval) error { ivs = append(ivs, iv); return nil }})
	tk := ticker{r: r}
	defer r.endWait()
	r.loads[0].figures.recorders[0].done(100, 0, ms, 0)
	tk.interval(t.Context(), time.Second, false)
	r.loads[0].marks.pass(0, 100, time.Second)
	tk.close(t.Context(), time.Second+ms)
	if len(ivs) != 2 || len(ivs[1].Marks) != 100 {
		t.Errorf("%d intervals, %d marks", len(ivs), len(sums(ivs).Marks))
	}
}

// TestOverflow checks that an operation longer than the range of the histograms
// fails the run, without other effects.
func TestOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: func(_ context.Context, a *actor) error {
			time.Sleep(ms)
			if a.op == 5 {
				time.Sleep(100 * time.Hour)
			}
			return nil
		}}
		rows := int64(0)
		var intervals int
		// Without execute, because one latency is missing, as expected.
		o, err := Run(t.Context(), s, Config{Clients: 1, Batch: 1, Rows: 10, Interval: 1000 * time.Hour,
			Observe: func(iv result.Interval) error { rows += iv.NewRows; intervals++; return nil }})
		if err != nil || intervals != 1 || rows != 10 || o.Rows != 10 {
			t.Errorf("%v; %d rows in %d intervals", err, rows, intervals)
		}
		if o.Stopped != StoppedFailed || !strings.Contains(o.Err.Error(), "1 latencies exceed") {
			t.Errorf("%+v", o)
		}
	})
}

func TestRetry(t *testing.T) {
	lost, down, boom := engine.ErrConnectionLost, engine.ErrUnreachable, errors.New("boom")
	type try = func(n int) error // n from 1
	first := func(k int, err error) try {
		return func(n int) error {
			if n <= k {
				return err
			}
			return nil
		}
	}
	always := func(err error) try { return first(1<<30, err) }
	for name, c := range map[string]struct {
		do, recover     try
		errors, retries int64
		elapsed         time.Duration // each try takes 1 ms, recovering none
		is              []error
	}{
		"deadlock":           {first(1, engine.ErrDeadlock), nil, 1, 1, 3 * ms, nil},
		"deadlocks":          {first(3, engine.ErrDeadlock), nil, 3, 3, (4 + 1 + 2 + 4) * ms, nil},
		"lock timeout":       {first(2, engine.ErrLockTimeout), nil, 2, 2, (3 + 1 + 2) * ms, nil},
		"connection lost":    {first(1, lost), nil, 1, 1, 3 * ms, nil},
		"server restarts":    {first(1, lost), first(3, down), 1, 1, (2 + 1 + 2 + 4 + 8) * ms, nil},
		"lost again":         {first(1, lost), first(2, lost), 1, 1, (2 + 1 + 2 + 4) * ms, nil},
		"can't recover":      {first(1, lost), always(boom), 1, 0, 2 * ms, []error{lost, boom}},
		"fails otherwise":    {first(1, boom), nil, 1, 0, ms, []error{boom}},
		"unreachable at all": {first(1, down), nil, 1, 0, ms, []error{down}},
		// 1023 ms of growing pauses, then one per second.
		"gone for good":      {always(lost), always(down), 1, 0, (1 + 1023 + 14000) * ms, []error{lost, down}},
		"deadlocks for good": {always(engine.ErrDeadlock), nil, 25, 24, (25 + 1023 + 14000) * ms, []error{engine.ErrDeadlock}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recovered := 0
				s := &script{
					do: func(_ context.Context, a *actor) error {
						time.Sleep(ms)
						return c.do(a.try)
					},
					recover: func(_ context.Context, a *actor, failed error) error {
						if !engine.Retryable(failed) {
							t.Errorf("asked to recover from %v", failed)
						}
						recovered++
						if c.recover == nil {
							return nil
						}
						return c.recover(recovered)
					},
				}
				rows, stopped := int64(7), StoppedRows
				if c.is != nil {
					rows, stopped = 0, StoppedFailed
				}
				o, ivs := execute(t, t.Context(), s, Config{Batch: 7, Rows: 7, Interval: time.Minute})
				want(t, o, stopped, c.elapsed, rows)
				iv := ivs[0]
				if iv.Errors != c.errors || iv.Retries != c.retries || !near(iv.WaitSeconds, c.elapsed.Seconds()) {
					t.Errorf("%d errors, %d retries, %v s; want %d, %d, %v", iv.Errors, iv.Retries, iv.WaitSeconds, c.errors, c.retries, c.elapsed)
				}
				if h := iv.Latency["insert"]; c.is == nil && h.Max < c.elapsed.Microseconds() {
					t.Errorf("latency %+v leaves out what the retries took", h.Latency)
				}
				for _, is := range c.is {
					if !errors.Is(o.Err, is) {
						t.Errorf("%v is lost: %v", is, o.Err)
					}
				}
			})
		})
	}
}

// TestRetryBrokenOff checks that retries end with the grace time.
func TestRetryBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: func(context.Context, *actor) error {
			time.Sleep(ms)
			return engine.ErrConnectionLost
		}}
		o, ivs := execute(t, t.Context(), s, Config{Clients: 2, MaxTime: time.Second, Grace: time.Second})
		want(t, o, StoppedTime, 2*time.Second, 0)
		if sum := sums(ivs); o.BrokenOff != 2 || sum.Errors != sum.Retries+2 || sum.Retries < 10 {
			t.Errorf("%d broken off, %d errors, %d retries", o.BrokenOff, sum.Errors, sum.Retries)
		}
	})
}
