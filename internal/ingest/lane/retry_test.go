package lane

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestRetryAfterLongWork checks that work is tried again that took longer than RetryFor before it
// failed, and for how long.
func TestRetryAfterLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // only waiting takes time
		l, tries := &Load{Opt: &Sending{RetryFor: time.Minute, Say: func(string) {}}}, 0
		err := l.Retry(t.Context(), func() error {
			time.Sleep([]time.Duration{2 * time.Hour, 50 * time.Second, time.Hour}[tries])
			tries++
			return engine.Classed(engine.ErrLockTimeout, errors.New("the lock is not granted"))
		})
		if !errors.Is(err, engine.ErrLockTimeout) || tries != 3 {
			t.Errorf("%d tries, then %v", tries, err)
		}
	})
}
