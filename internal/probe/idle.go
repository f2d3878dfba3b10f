package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// An IdleWatch monitors servers that should be idle while another server is measured.
type IdleWatch struct {
	names  []string
	probes []*Probe
	began  time.Time
}

// idleShare is the CPU time, as a share of one core, up to which a server counts as idle.
// idleWindow is the interval of the check, and idleWait the longest wait for idle servers.
const (
	idleShare  = 0.05
	idleWindow = 200 * time.Millisecond
	idleWait   = 10 * time.Second
)

// WatchIdle monitors the processes of servers; a server without a known process is left out.
func WatchIdle(ctx context.Context, servers []engine.Info) *IdleWatch {
	w := &IdleWatch{}
	for _, s := range servers {
		if s.PID > 0 {
			p := New(ctx, Config{Node: &Node{ServerPID: s.PID}})
			w.names, w.probes = append(w.names, s.Engine), append(w.probes, p)
		}
	}
	w.Start(ctx)
	return w
}

// Close ends the monitoring.
func (w *IdleWatch) Close() error {
	var errs []error
	for _, p := range w.probes {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Start begins the time over which Stop and Settle judge whether servers are idle.
func (w *IdleWatch) Start(ctx context.Context) {
	for _, p := range w.probes {
		p.Start(ctx)
	}
	w.began = time.Now()
}

// busy returns a warning for each server that used more than idleShare since Start. The warning
// ends with the text when, e.g. "during the cell".
func (w *IdleWatch) busy(ctx context.Context, when string) []string {
	var out []string
	seconds := time.Since(w.began).Seconds()
	for i, p := range w.probes {
		p.Sample(ctx, 0)
		if cpu, ok := p.ServerCPUSeconds(); ok && seconds > 0 && cpu/seconds > idleShare {
			out = append(out, fmt.Sprintf("%s, which was not measured, used %.0f%% of a core %s", w.names[i], 100*cpu/seconds, when))
		}
	}
	return out
}

// Settle waits until the servers are idle. After idleWait it returns a warning for each server that
// is not.
func (w *IdleWatch) Settle(ctx context.Context) (warnings []string) {
	for end := time.Now().Add(idleWait); len(w.probes) > 0 && time.Now().Before(end); {
		if engine.Sleep(ctx, idleWindow) != nil {
			return nil
		}
		if warnings = w.busy(ctx, "before the cell, and didn't settle"); len(warnings) == 0 {
			return nil
		}
		w.Start(ctx)
	}
	return warnings
}

// Stop returns a warning for each server that was not idle since Start.
func (w *IdleWatch) Stop(ctx context.Context) []string { return w.busy(ctx, "during the cell") }
