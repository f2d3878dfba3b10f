package experiment

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
)

// A killer kills a private server at regular intervals, and restarts it: of a topology each server in
// turn, the one that takes the statements first.
type killer struct {
	server *sandbox.Server
	// others are killed as well. No client waits for them.
	others []*sandbox.Server
	every  time.Duration
	w      crashable
	note   func(text string)
	// follow is called with the process ID of the restarted server.
	follow func(pid int)

	// died is closed when the server has ended without being killed.
	died  chan struct{}
	kills int

	mu   sync.Mutex
	back chan struct{} // nil while the server is up
}

// A crashable is a workload whose server may be killed: it is told when.
type crashable interface {
	bench.Workload
	Crashed(killed time.Time)
}

// outage is that of bench.Config.
func (k *killer) outage() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.back
}

func (k *killer) setBack(back chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.back = back
}

// A killed is a workload on a server that is killed during the run.
type killed struct {
	bench.Workload
	background func(ctx context.Context, event func(what, object string, began time.Time)) error
}

// Background implements bench.Workload.
func (w *killed) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	return w.background(ctx, event)
}

// workload returns the workload, with the killer running in its background. A restart
// in progress is canceled only by the end of user: when the run is over, it is still
// completed, so that the table can be read.
func (k *killer) workload(user context.Context) *killed {
	return &killed{k.w, func(ctx context.Context, event func(what, object string, began time.Time)) error {
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return k.w.Background(ctx, event) })
		both.Go(func() error { return k.run(ctx, user, event) })
		return both.Wait()
	}}
}

// run kills and restarts the server until ctx ends. It skips the times at which the
// server is not back yet.
func (k *killer) run(ctx, user context.Context, event func(what, object string, began time.Time)) error {
	began := time.Now()
	for {
		past := time.Since(began)
		next := time.NewTimer(past.Truncate(k.every) + k.every - past)
		select {
		case <-ctx.Done():
			next.Stop()
			return nil
		case <-k.server.Done():
			next.Stop()
			close(k.died)
			return nil
		case <-next.C:
		}
		if err := k.once(user, event); err != nil {
			if user.Err() != nil {
				return nil // the run ends as interrupted
			}
			return engine.Hinted(err, "the server's log, with &keep=DIR in the target")
		}
	}
}

func (k *killer) once(user context.Context, event func(what, object string, began time.Time)) error {
	turn := k.kills % (1 + len(k.others))
	k.kills++
	if turn > 0 {
		return k.other(user, turn, event)
	}
	back, killed := make(chan struct{}), time.Now()
	k.setBack(back)
	pid := k.server.Process()
	k.server.Kill()
	k.w.Crashed(killed)
	name := ""
	if len(k.others) > 0 {
		name = k.server.Name(0) + ", "
	}
	event("kill server", fmt.Sprintf("%sprocess %d", name, pid), killed)
	if err := k.server.Restart(user); err != nil {
		return err
	}
	k.follow(k.server.Process())
	event("server back", fmt.Sprintf("%sprocess %d", name, k.server.Process()), killed)
	k.note(fmt.Sprintf("killed %s; it took connections again after %.2f s", cmp.Or(strings.TrimSuffix(name, ", "), "the server"), time.Since(killed).Seconds()))
	k.setBack(nil)
	close(back)
	return nil
}

func (k *killer) other(user context.Context, number int, event func(what, object string, began time.Time)) error {
	s, killed := k.others[number-1], time.Now()
	name, pid := s.Name(number), s.Process()
	s.Kill()
	event("kill server", fmt.Sprintf("%s, process %d", name, pid), killed)
	if err := s.Restart(user); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	event("server back", fmt.Sprintf("%s, process %d", name, s.Process()), killed)
	k.note(fmt.Sprintf("killed %s; it took connections again after %.2f s", name, time.Since(killed).Seconds()))
	return nil
}
