package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestOutage checks that an outage of minutes doesn't end a run with a
// sufficient RetryFor: the operations that were due during it are executed
// afterwards, and the intervals in between contain the errors.
func TestOutage(t *testing.T) {
	for _, c := range []struct {
		name    string
		patient time.Duration
		stopped string
	}{
		{"patient", 10 * time.Minute, StoppedTime},
		{"by default", 0, StoppedFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const down, up = 30 * time.Second, 5 * time.Minute
				began := time.Now()
				away := func() bool { at := time.Since(began); return at > down && at < up }
				s := &script{
					do: func(context.Context, *actor) error {
						if away() {
							return engine.ErrConnectionLost
						}
						return nil
					},
					recover: func(context.Context, *actor, error) error {
						if away() {
							return engine.ErrUnreachable
						}
						return nil
					},
				}
				o, ivs := pace(t, s, Config{MaxTime: 6 * time.Minute, RetryFor: c.patient, Interval: 10 * time.Second})
				if o.Stopped != c.stopped {
					t.Fatalf("stopped %s: %v", o.Stopped, o.Err)
				}
				if c.patient == 0 {
					return
				}
				if want := int64(6 * 60 * 1000); o.Rows < want-10 || o.Rows > want+10 {
					t.Errorf("%d rows, want about the %d that were due", o.Rows, want)
				}
				errs := 0
				for _, iv := range ivs {
					errs += int(iv.Errors)
					if inside := iv.Elapsed > 45 && iv.Elapsed < 300; inside && (iv.NewRows > 0 || iv.Backlog == 0) {
						t.Errorf("at %v s: %d rows, backlog %d", iv.Elapsed, iv.NewRows, iv.Backlog)
					}
				}
				if errs == 0 {
					t.Error("no errors recorded")
				}
			})
		})
	}
}

// TestOutageOfOne checks that the clients of one of several servers wait for it as long as it is
// known to be down, and that those of the others go on.
func TestOutageOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, ops := make(chan struct{}), [2]int{}
		down := func() bool {
			select {
			case <-back:
				return false
			default:
				return true
			}
		}
		s := &script{do: func(_ context.Context, a *actor) error {
			time.Sleep(time.Second)
			if a.n == 1 && down() {
				return engine.ErrConnectionLost
			}
			if a.n == 0 && !down() {
				return nil
			}
			ops[a.n]++
			return nil
		}}
		time.AfterFunc(5*time.Minute, func() { close(back) })
		o, err := Run(t.Context(), s, Config{Clients: 2, Batch: 1, MaxTime: 6 * time.Minute, Outage: func(server int) <-chan struct{} {
			if server == 1 && down() {
				return back
			}
			return nil
		}})
		if err != nil || o.Stopped != StoppedTime || ops[0] < 290 || ops[1] < 50 {
			t.Errorf("%+v, %v: %d operations of the server that stayed meanwhile, %d of the other afterwards", o, err, ops[0], ops[1])
		}
	})
}

// TestAwaitServer checks that the wait for a server that is known to be down ends when it is
// back, or with the context.
func TestAwaitServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		outage := func() <-chan struct{} {
			select {
			case <-back:
				return nil
			default:
				return back
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if waited, up := AwaitServer(ctx, nil); waited || !up {
			t.Error("waited for a server of which nothing is known")
		}
		if waited, up := AwaitServer(ctx, outage); !waited || up {
			t.Error("didn't wait for a server that stays down")
		}
		time.AfterFunc(time.Minute, func() { close(back) })
		if waited, up := AwaitServer(t.Context(), outage); !waited || !up {
			t.Error("didn't wait until the server was back")
		}
	})
}
