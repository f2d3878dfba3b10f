package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowmill/rowmill/result"
)

const ms = time.Millisecond

// TestMaxTimeHanging checks that a hanging operation is cancelled after the
// grace time, and that the record shows the stall.
func TestMaxTimeHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			do: func(ctx context.Context, a *actor) error {
				if a.n == 0 && a.op == 5 {
					return hang(ctx)
				}
				time.Sleep(100 * ms)
				return nil
			},
			close: func(a *actor) error {
				if a.n == 0 {
					return errors.New("bad connection") // like that of a cancelled query
				}
				return nil
			},
		}
		o, ivs := execute(t, t.Context(), s, Config{Clients: 2, MaxTime: 2050 * ms, Grace: 4 * time.Second})
		want(t, o, StoppedTime, 6050*ms, 4+21)
		if o.Err != nil || o.BrokenOff != 1 {
			t.Errorf("%+v", o)
		}
		sum := sums(ivs)
		if len(ivs) != 6 || ivs[3].NewRows != 0 || sum.Errors != 0 || !near(sum.WaitSeconds, 6.05+2.1) {
			t.Errorf("%d intervals, %d errors, waited %v", len(ivs), sum.Errors, sum.WaitSeconds)
		}
	})
}

func TestInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		takes, elapsed time.Duration
		rows, off      int64
	}{
		"finishes":      {400 * ms, 1200 * ms, 3, 0},
		"is broken off": {time.Hour, 4 * time.Second, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				s := &script{do: func(ctx context.Context, _ *actor) error {
					select {
					case <-time.After(c.takes):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}}
				samples := 0
				o, _ := execute(t, ctx, s, Config{Rows: 100, Grace: 3 * time.Second,
					Sample: func(ctx context.Context, _ time.Duration) map[string]float64 {
						if ctx.Err() == nil {
							samples++
						}
						return nil
					}})
				want(t, o, StoppedInterrupted, c.elapsed, c.rows)
				if o.Err != nil || o.BrokenOff != c.off || samples < 2 {
					t.Errorf("%+v, %d samples", o, samples)
				}
			})
		})
	}
}

// TestInterruptedBetweenOperations checks that a client that waits until its
// operation is due doesn't delay the end of the run.
func TestInterruptedBetweenOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		o, _ := execute(t, ctx, &script{}, Config{Clients: 3, Rows: 100, Rate: 0.001})
		want(t, o, StoppedInterrupted, time.Second, 1)
		if o.Backlog != 0 {
			t.Errorf("backlog %d", o.Backlog)
		}
	})
}

// TestFailures tests failures while one client hangs forever and the others work.
func TestFailures(t *testing.T) {
	boom, other, full := errors.New("boom"), errors.New("other"), errors.New("disk full")
	for name, c := range map[string]struct {
		set     func(*script, *Config)
		elapsed time.Duration
		is      []error
		text    string
	}{
		"a client": {func(s *script, _ *Config) { s.fails(1, 10, boom) },
			3 * time.Second, []error{boom}, "boom"},
		"a client, less grace": {func(s *script, c *Config) { s.fails(1, 10, boom); c.Grace = 500 * ms },
			1500 * ms, []error{boom}, "boom"},
		"two clients alike": {func(s *script, _ *Config) { s.fails(1, 10, boom); s.fails(2, 10, boom) },
			3 * time.Second, []error{boom}, "boom"},
		"two clients": {func(s *script, _ *Config) { s.fails(1, 10, boom); s.fails(2, 20, full) },
			3 * time.Second, []error{boom}, "boom"}, // the run ends before the 20th
		"two clients at once": {func(s *script, _ *Config) { s.fails(1, 10, boom); s.fails(2, 10, full) },
			3 * time.Second, []error{boom, full}, ""},
		"within the grace time": {func(s *script, c *Config) { s.fails(1, 12, boom); c.MaxTime = 1150 * ms },
			3200 * ms, []error{boom}, "boom"},
		"background": {func(s *script, _ *Config) {
			s.background = func(context.Context, func(string, string, time.Time)) error {
				time.Sleep(time.Second)
				return boom
			}
		}, 3 * time.Second, []error{boom}, "boom"},
		"background, stopping": {func(s *script, c *Config) {
			c.MaxTime = time.Second
			s.background = func(ctx context.Context, _ func(string, string, time.Time)) error { return hang(ctx) }
		}, 11 * time.Second, nil, ""},
		"the record": {func(_ *script, c *Config) { c.Observe = func(result.Interval) error { return full } },
			3 * time.Second, []error{full}, "record an interval: disk full"},
		"the server": {func(_ *script, c *Config) { c.dies(1050*ms, boom) },
			1050 * ms, []error{boom}, "boom"},
		"the server, who knows why": {func(_ *script, c *Config) { c.dies(1050*ms, nil) },
			1050 * ms, nil, "the server is gone"},
		"the server, unasked": {func(_ *script, c *Config) { c.dies(1050*ms, nil); c.Death = nil },
			1050 * ms, nil, "the server is gone"},
		"the server, within the grace time": {func(_ *script, c *Config) { c.dies(2*time.Second, boom); c.MaxTime = time.Second },
			2 * time.Second, []error{boom}, "boom"},
		"the server, seen by a client first": {func(s *script, c *Config) { s.fails(1, 10, other); c.dies(1100*ms, boom) },
			1100 * ms, []error{boom, other}, "boom\nother"},
		"closing": {func(s *script, c *Config) {
			c.MaxTime, c.Grace = time.Second, time.Second
			s.close = func(*actor) error { return full }
		}, 2 * time.Second, []error{full}, "close insert client 2: disk full\nclose insert client 3: disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, cfg := &script{}, Config{Clients: 3, MaxTime: time.Hour}
				s.do = func(ctx context.Context, a *actor) error {
					if a.n == 0 {
						return hang(ctx)
					}
					select {
					case <-time.After(100 * ms):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				c.set(s, &cfg)
				o, ivs := execute(t, t.Context(), s, cfg)
				if o.Elapsed != c.elapsed || o.BrokenOff < 1 || o.Rows == 0 {
					t.Errorf("%+v, want an end after %v", o, c.elapsed)
				}
				if (o.Err != nil) != (c.text != "" || c.is != nil) {
					t.Fatalf("failed of %v", o.Err)
				}
				if c.text != "" && o.Err.Error() != c.text {
					t.Errorf("failed of %q, want %q", o.Err, c.text)
				}
				for _, is := range c.is {
					if !errors.Is(o.Err, is) {
						t.Errorf("%v is lost behind %v", is, o.Err)
					}
				}
				if n := sums(ivs).Errors; n > 2 || strings.Contains(name, "client") && n == 0 {
					t.Errorf("%d errors", n)
				}
			})
		})
	}
}

// fails makes an operation of a client fail.
func (s *script) fails(client, op int, err error) {
	do := s.do
	s.do = func(ctx context.Context, a *actor) error {
		if e := do(ctx, a); e != nil || a.n != client || a.op != op {
			return e
		}
		return err
	}
}

// dies makes the server die.
func (c *Config) dies(after time.Duration, why error) {
	died := make(chan struct{})
	time.AfterFunc(after, func() { close(died) })
	c.Died, c.Death = died, func() error { return why }
}

// TestManyFailures checks that only some of many equal failures of clients are
// kept, and that a failure elsewhere is kept as well.
func TestManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		s := &script{do: func(_ context.Context, a *actor) error {
			time.Sleep(time.Duration(a.n%2+1) * ms)
			return errors.New("duplicate key " + strings.Repeat("1", a.n+1))
		}}
		o, _ := execute(t, t.Context(), s, Config{Clients: 50, Rows: 1000, Observe: func(result.Interval) error { return full }})
		if n := strings.Count(o.Err.Error(), "duplicate"); n != maxClientFailures || !errors.Is(o.Err, full) {
			t.Errorf("failed of %v", o.Err)
		}
	})
}

// TestDeathAtTheEnd checks that the server's death is reported even if it is
// detected after all other failures.
func TestDeathAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		died, boom, gone := make(chan struct{}), errors.New("boom"), errors.New("killed by signal 9")
		s := &script{
			do:    func(context.Context, *actor) error { return boom },
			close: func(*actor) error { close(died); return nil },
		}
		o, ivs := execute(t, t.Context(), s, Config{Rows: 1, Died: died, Death: func() error { return gone }})
		want(t, o, StoppedFailed, 0, 0)
		if o.Err.Error() != "killed by signal 9\nboom" || sums(ivs).Errors != 1 {
			t.Errorf("failed of %v, %d errors", o.Err, sums(ivs).Errors)
		}
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{background: func(ctx context.Context, event func(string, string, time.Time)) error {
			time.Sleep(1500 * ms)
			event("create partition", "p1", time.Now().Add(-200*ms))
			err := hang(ctx)
			began := time.Now()
			time.Sleep(300 * ms) // it was in progress
			event("drop partition", "p0", began)
			return err
		}}
		o, ivs := execute(t, t.Context(), s, Config{Rows: 2500})
		want(t, o, StoppedRows, 2500*ms, 2500)
		created := result.Event{Elapsed: 1.5, Seconds: 0.2, What: "create partition", Object: "p1"}
		dropped := result.Event{Elapsed: 2.8, Seconds: 0.3, What: "drop partition", Object: "p0"}
		if len(ivs) != 3 || len(ivs[1].Events) != 1 || ivs[1].Events[0] != created ||
			len(ivs[2].Events) != 1 || ivs[2].Events[0] != dropped {
			t.Errorf("events %+v", sums(ivs).Events)
		}
	})
}
