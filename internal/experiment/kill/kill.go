// Package kill kills the private servers of a run at regular intervals and restarts them, while
// clients continue to write.
package kill

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

// A Killer kills private servers at regular intervals, and restarts them. It kills the servers of a
// topology in turn, beginning with the server that takes the statements.
type Killer struct {
	// Kills is the number of kills; it is read after the run.
	Kills int

	c Config
	// died is closed when the server has ended without being killed.
	died chan struct{}

	mu   sync.Mutex
	down map[int]chan struct{} // of the servers that are down, by their number: 0 is Config.Server
}

// A Config says what is killed, and who is told.
type Config struct {
	// Server takes the statements. Others are killed as well: replicas, which no client uses, or the
	// other members of a cluster.
	Server   *sandbox.Server
	Others   []*sandbox.Server
	Every    time.Duration
	Workload Workload
	Note     func(text string)
	// Restarted is called with the process ID of the restarted Server.
	Restarted func(pid int)
}

// A Workload is told when the server that takes its statements was killed.
type Workload interface {
	bench.Workload
	Crashed(killed time.Time)
}

// New returns a killer; Workload starts it.
func New(c Config) *Killer {
	return &Killer{c: c, died: make(chan struct{}), down: map[int]chan struct{}{}}
}

// Died returns a channel that is closed when the server has ended without being killed.
func (k *Killer) Died() <-chan struct{} { return k.died }

// Outage returns a channel that is closed when a server that was killed accepts connections again;
// nil if the server is up. It serves as bench.Config.Outage.
func (k *Killer) Outage(server int) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.down[server]
}

// setDown notes that a server is down, or that it is back.
func (k *Killer) setDown(server int, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if is {
		k.down[server] = make(chan struct{})
		return
	}
	close(k.down[server])
	delete(k.down, server)
}

type event = func(what, object string, began time.Time)

type killed struct {
	Workload
	killer *Killer
	run    context.Context // ends when the user interrupts the run
}

// Workload returns the workload with the killer in its background. If the server is being restarted
// after the last insert, the restart is completed, so that the table can be read; only the end of
// run cancels it.
func (k *Killer) Workload(run context.Context) bench.Workload { return &killed{k.c.Workload, k, run} }

// Background implements bench.Workload.
func (w *killed) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return w.Workload.Background(ctx, event) })
	both.Go(func() error { return w.killer.run(ctx, w.run, event) })
	return both.Wait()
}

// run kills and restarts the servers until ctx ends. It skips a kill if the server that was killed
// last isn't back yet.
func (k *Killer) run(ctx, user context.Context, event event) error {
	began := time.Now()
	for {
		past := time.Since(began)
		select {
		case <-ctx.Done():
			return nil
		case <-k.c.Server.Done():
			close(k.died)
			return nil
		case <-time.After(past.Truncate(k.c.Every) + k.c.Every - past):
		}
		if err := k.once(user, event); err != nil {
			if user.Err() != nil {
				return nil // the run ends as interrupted
			}
			return engine.Hinted(err, "the server's log, with &keep=DIR in the target")
		}
	}
}

func (k *Killer) once(user context.Context, event event) error {
	number := k.Kills % (1 + len(k.c.Others))
	k.Kills++
	s, killed := k.c.Server, time.Now()
	if number > 0 {
		s = k.c.Others[number-1]
	}
	name, of := "the server", ""
	if len(k.c.Others) > 0 {
		name = s.Name(number)
		of = name + ", "
	}
	k.setDown(number, true)
	pid := s.Process()
	s.Kill()
	if number == 0 {
		k.c.Workload.Crashed(killed)
	}
	event("kill server", fmt.Sprintf("%sprocess %d", of, pid), killed)
	if err := s.Restart(user); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if number == 0 {
		k.c.Restarted(s.Process())
	}
	event("server back", fmt.Sprintf("%sprocess %d", of, s.Process()), killed)
	k.c.Note(fmt.Sprintf("killed %s; it took connections again after %.2f s", name, time.Since(killed).Seconds()))
	k.setDown(number, false)
	return nil
}
