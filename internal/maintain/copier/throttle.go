package copier

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// A Throttle delays deferrable work while the server's load exceeds the limits. The
// zero Limits delay nothing.
type Throttle struct {
	DB     engine.Keeper
	Limits Limits
	// Paused is called with the reason for each wait, and with "" when the work
	// continues.
	Paused func(why string)

	looked time.Time
	// pause is how long a pause is at least; 0 is defaultPause. Tests shorten it.
	pause time.Duration
}

const (
	// lookEvery is the minimum interval between queries of the load, which cost the server time.
	lookEvery    = time.Second
	defaultPause = 500 * time.Millisecond
)

// Wait returns when the server is within the limits, or ctx has ended.
func (t *Throttle) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.Limits == (Limits{}) || time.Since(t.looked) < lookEvery {
		return nil
	}
	for paused := false; ; paused = true {
		load, err := t.DB.Load(ctx)
		if err != nil {
			return fmt.Errorf("read the server's load: %w", err)
		}
		why := t.Limits.exceeded(load)
		if t.Paused != nil && (why != "" || paused) {
			t.Paused(why)
		}
		if why == "" {
			t.looked = time.Now()
			return nil
		}
		pause := cmp.Or(t.pause, defaultPause)
		if err := engine.Sleep(ctx, pause/2+engine.Jitter(pause)); err != nil {
			return err
		}
	}
}

func (l Limits) exceeded(load engine.ServerLoad) string {
	switch {
	case l.Running > 0 && load.Running > l.Running:
		return fmt.Sprintf("%s, more than %d", figure.Plural(load.Running, "statement runs", "statements run"), l.Running)
	case l.ReplicaLag > 0 && load.ReplicaLag > l.ReplicaLag:
		return fmt.Sprintf("a replica is %v behind, more than %v", load.ReplicaLag.Round(time.Millisecond), l.ReplicaLag)
	}
	return ""
}
