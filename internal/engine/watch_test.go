package engine_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A line is a connection that notes whether its deadline is past.
type line struct{ past atomic.Bool }

func (l *line) SetDeadline(t time.Time) error {
	l.past.Store(!t.IsZero() && t.Before(time.Now()))
	return nil
}

func TestWatch(t *testing.T) {
	l := &line{}
	w := engine.NewWatch(l)
	end := func(want bool) {
		t.Helper()
		if got := w.End(); got != want {
			t.Errorf("interrupted: %v, want %v", got, want)
		}
		if l.past.Load() {
			t.Error("the connection was not mended")
		}
	}
	begin := func(ctx context.Context) {
		t.Helper()
		if err := w.Begin(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// past waits until the deadline is set.
	past := func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !l.past.Load(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nothing was interrupted")
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		begin(ctx)
		if err := w.Hold(func() error { return os.ErrExist }); !errors.Is(err, os.ErrExist) {
			t.Errorf("hold: %v", err)
		}
		end(false)
	}
	begin(ctx)
	cancel()
	past()
	if err := w.Hold(func() error { return nil }); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("hold of what was interrupted: %v", err)
	}
	end(true)
	if err := w.Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("begin after the end: %v", err)
	}
	// The end of an earlier context interrupts nothing, nor does an end between two operations.
	older, cancelOlder := context.WithCancel(t.Context())
	begin(older)
	end(false)
	newer, cancelNewer := context.WithCancel(t.Context())
	begin(newer)
	cancelOlder()
	end(false)
	cancelNewer()
	begin(t.Context())
	end(false)
	// After Close, nothing is interrupted.
	last, cancelLast := context.WithCancel(t.Context())
	begin(last)
	w.Close()
	cancelLast()
	end(false)
}

// TestCached: a cache never has more values than its limit, and drops the others.
func TestCached(t *testing.T) {
	cache, made, dropped := map[int]int{}, 0, 0
	for i := range 600 {
		for range 2 {
			v, err := engine.Cached(cache, 256, i, func(int) error { dropped++; return nil }, func() (int, error) { made++; return -i, nil })
			if v != -i || err != nil || len(cache) > 256 {
				t.Fatalf("%d: %d, %v, %d values", i, v, err, len(cache))
			}
		}
	}
	if made != 600 || dropped != 600-256 {
		t.Errorf("%d made, %d dropped", made, dropped)
	}
}
