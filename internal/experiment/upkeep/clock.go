// Package upkeep observes a rolling table that is maintained while rows are inserted: it has the
// clock of such a run, the count of the rows, and the log of maintenance and disk that explains
// slow inserts.
package upkeep

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// NewClock returns a clock that shows the time now and runs at a multiple of real time.
func NewClock(now time.Time, speed float64) *Clock {
	return &Clock{speed: speed, at: now, since: now}
}

// A Clock runs at a multiple of real time. While the clock is stopped, maintenance that is due can
// take as long as it needs.
type Clock struct {
	speed float64

	mu      sync.Mutex
	at      time.Time // on this clock, when it last began or stopped
	since   time.Time // in real time
	stopped bool
}

// Now returns the time on this clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *Clock) read() time.Time {
	if c.stopped {
		return c.at
	}
	return c.at.Add(time.Duration(float64(time.Since(c.since)) * c.speed))
}

// Pace sets the multiple of real time at which the clock runs, and returns the previous multiple.
func (c *Clock) Pace(speed float64) (was float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.speed
	c.at, c.since, c.speed = c.read(), time.Now(), speed
	return was
}

// Stop stops the clock, and Resume lets it continue.
func (c *Clock) Stop()   { c.set(true) }
func (c *Clock) Resume() { c.set(false) }

func (c *Clock) set(stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.since, c.stopped = c.read(), time.Now(), stopped
}

// Write replaces a file by the present time on this clock, for a keeper in another process.
func (c *Clock) Write(file string) error {
	next := file + ".next"
	err := os.WriteFile(next, []byte(c.Now().UTC().Format(time.RFC3339Nano)+"\n"), 0o644)
	if err == nil {
		err = os.Rename(next, file)
	}
	if err != nil {
		return fmt.Errorf("--clock: %w", err)
	}
	return nil
}

// WriteOn writes the file again and again until stop is called.
func (c *Clock) WriteOn(ctx context.Context, file string) (stop func()) {
	return Background(ctx, func(ctx context.Context) {
		for engine.Sleep(ctx, 50*time.Millisecond) == nil {
			_ = c.Write(file) // earlier writes succeeded, and the next one follows soon
		}
	})
}

// Background runs a function until stop is called; stop waits for the function's end.
func Background(ctx context.Context, fn func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { fn(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
