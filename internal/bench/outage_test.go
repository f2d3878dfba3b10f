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
