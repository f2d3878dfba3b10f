package experiment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/workload"
)

// A killer kills the private server at regular intervals, and restarts it.
type killer struct {
	server *sandbox.Server
	every  time.Duration
	w      *workload.Insert
	note   func(text string)
	// follow is called with the process ID of the restarted server.
	follow func(pid int)

	// died is closed when the server has ended without being killed.
	died  chan struct{}
	kills int

	mu   sync.Mutex
	back chan struct{} // nil while the server is up
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

// A killedInsert is the insert workload on a server that is killed during the run.
type killedInsert struct {
	*workload.Insert
	background func(ctx context.Context, event func(what, object string, began time.Time)) error
}

// Background implements bench.Workload.
func (w *killedInsert) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	return w.background(ctx, event)
}

// workload returns the workload, with the killer running in its background. A restart
// in progress is canceled only by the end of user: when the run is over, it is still
// completed, so that the table can be read.
func (k *killer) workload(user context.Context) *killedInsert {
	return &killedInsert{k.w, func(ctx context.Context, event func(what, object string, began time.Time)) error {
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
	back, killed := make(chan struct{}), time.Now()
	k.setBack(back)
	k.kills++
	pid := k.server.Process()
	k.server.Kill()
	k.w.Crashed(killed)
	event("kill server", fmt.Sprintf("process %d", pid), killed)
	if err := k.server.Restart(user); err != nil {
		return err
	}
	k.follow(k.server.Process())
	event("server back", fmt.Sprintf("process %d", k.server.Process()), killed)
	k.note(fmt.Sprintf("killed the server; it took connections again after %.2f s", time.Since(killed).Seconds()))
	k.setBack(nil)
	close(back)
	return nil
}
