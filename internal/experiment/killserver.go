package experiment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
)

// A killer kills a private server at regular intervals, and restarts it: of a topology each server
// in turn, the one that takes the statements first.
type killer struct {
	server *sandbox.Server
	// others are killed as well: replicas, which no client uses, or the other members of a cluster.
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
	down map[int]chan struct{} // of the servers that are down, by their number: 0 is server
}

// A crashable is a workload whose server may be killed: it is told when.
type crashable interface {
	bench.Workload
	Crashed(killed time.Time)
}

// outage is that of bench.Config.
func (k *killer) outage(server int) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.down[server]
}

// setDown notes that a server is down, or that it is back.
func (k *killer) setDown(server int, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if is {
		k.down[server] = make(chan struct{})
		return
	}
	close(k.down[server])
	delete(k.down, server)
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
	number := k.kills % (1 + len(k.others))
	k.kills++
	s, killed := k.server, time.Now()
	if number > 0 {
		s = k.others[number-1]
	}
	name, of := "the server", ""
	if len(k.others) > 0 {
		name = s.Name(number)
		of = name + ", "
	}
	k.setDown(number, true)
	pid := s.Process()
	s.Kill()
	if number == 0 {
		k.w.Crashed(killed)
	}
	event("kill server", fmt.Sprintf("%sprocess %d", of, pid), killed)
	if err := s.Restart(user); err != nil {
		if len(k.others) > 0 {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err
	}
	if number == 0 {
		k.follow(s.Process())
	}
	event("server back", fmt.Sprintf("%sprocess %d", of, s.Process()), killed)
	k.note(fmt.Sprintf("killed %s; it took connections again after %.2f s", name, time.Since(killed).Seconds()))
	k.setDown(number, false)
	return nil
}
