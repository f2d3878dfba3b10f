package maintain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Timing of the daemon.
const (
	// takeover is how often a follower tries to lead, and so how soon a dead leader is replaced.
	takeover = time.Second
	// beat is a leader's heartbeat. Status reports it as gone after three times that.
	beat = 5 * time.Second
	// firstRetry and lastRetry bound the pause after a failure, which doubles.
	// Inserts that queued behind a lock request must pass first.
	firstRetry = 500 * time.Millisecond
	lastRetry  = time.Minute
	// lockPause is the pause after a lock was not granted: each attempt delays
	// inserts by up to a second. It is a fifth if periods are needed soon.
	lockPause = 10 * time.Second
)

// A Daemon keeps a table for as long as it runs.
type Daemon struct {
	Table *Table
	// Poll is the interval of passes while nothing becomes due, and to find late rows; 0 is 10 s.
	Poll time.Duration
	// LockPause is the pause after a lock was not granted; 0 is 10 s.
	LockPause time.Duration
	// Leads, unless nil, is called when this process begins or ceases to lead a lane.
	Leads func(lane Lane, leads bool)
}

// Run keeps the table until ctx ends, with all lanes in parallel, each under a lock
// of its own. It then waits until actions in progress reach a point where they can
// stop. Errors are reported as events, and maintenance continues.
func (d *Daemon) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, lane := range Lanes {
		all.Go(func() { d.lead(ctx, lane) })
	}
	all.Wait()
}

func (d *Daemon) pass(ctx context.Context, lease engine.Lease, lane Lane) (int64, bool, error) {
	var next int64
	var more bool
	err := engine.WhileHeld(ctx, lease, context.Canceled, func(ctx context.Context) (err error) {
		next, more, err = d.Table.Pass(ctx, lane)
		return err
	})
	return next, more, err
}

// lead takes a lane's lock, works, and takes the lock again after losing it.
func (d *Daemon) lead(ctx context.Context, lane Lane) {
	said := false
	for ctx.Err() == nil {
		if !d.wanted(ctx, lane) {
			_ = engine.Sleep(ctx, d.poll()) // the loop checks ctx
			continue
		}
		lease, err := d.Table.DB.Lead(ctx, d.Table.Table.Name+"/"+string(lane))
		if err != nil {
			if !errors.Is(err, engine.ErrLockTimeout) && ctx.Err() == nil && !said {
				d.Table.say(Event{At: time.Now(), Action: "lead", Detail: string(lane), Err: err, Waiting: true})
				said = true
			}
			_ = engine.Sleep(ctx, engine.Jitter(takeover))
			continue
		}
		said = false
		if d.Leads != nil {
			d.Leads(lane, true)
		}
		d.work(ctx, lease, lane)
		if d.Leads != nil {
			d.Leads(lane, false)
		}
		if err := lease.Release(); err != nil {
			d.Table.say(Event{At: time.Now(), Action: "lead", Detail: string(lane), Err: err})
		}
	}
}

func (d *Daemon) poll() time.Duration { return cmp.Or(d.Poll, 10*time.Second) }

// wanted reports whether a lane may have work. The declaration decides whether
// there are roll-ups; one that can't be read may have them.
func (d *Daemon) wanted(ctx context.Context, lane Lane) bool {
	if lane != Summing {
		return true
	}
	t, err := d.Table.Follow(ctx)
	if err != nil {
		t = d.Table.lastFollowed()
	}
	return t.Rollups != nil
}

func (d *Daemon) work(ctx context.Context, lease engine.Lease, lane Lane) {
	var beats sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer beats.Wait()
	defer cancel()
	beats.Go(func() {
		pause := beat
		for ctx.Err() == nil {
			if err := d.Table.State.Beat(ctx, d.Table.Table.Name, string(lane)); err != nil && ctx.Err() == nil {
				d.Table.say(Event{At: time.Now(), Action: "lead", Detail: string(lane), Err: err})
				pause = min(2*pause, lastRetry)
			} else {
				pause = beat
			}
			select {
			case <-lease.Lost():
				cancel()
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
	retry := firstRetry
	for ctx.Err() == nil && d.wanted(ctx, lane) {
		next, more, err := d.pass(ctx, lease, lane)
		pause := d.poll()
		if err != nil {
			pause = engine.Jitter(retry)
			retry = min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		t := d.Table.lastFollowed()
		if now, err := t.Now(ctx); err == nil && more && t.Table.Grid.Axis() == rolling.Time {
			pause = min(pause, max(time.Duration(next-now)*time.Microsecond, 10*time.Millisecond))
		}
		if errors.Is(err, engine.ErrLockTimeout) {
			pause = d.lockPause(ctx, lane)
		}
		_ = engine.Sleep(ctx, pause) // the loop checks ctx
	}
}

// lockPause is shorter for the creation of periods when more than half of the headroom is gone.
func (d *Daemon) lockPause(ctx context.Context, lane Lane) time.Duration {
	pause := cmp.Or(d.LockPause, lockPause)
	if lane != Creating {
		return engine.Jitter(pause)
	}
	t := d.Table.lastFollowed()
	v, err := t.View(ctx)
	if err != nil || len(v.Parts) == 0 {
		return engine.Jitter(pause)
	}
	if left, wanted := v.Parts[len(v.Parts)-1].To-v.Now, t.wanted(v)-v.Now; left < wanted/2 {
		pause /= 5
	}
	return engine.Jitter(pause)
}

// idleRounds is the number of successive rounds without progress after which Once ends.
// It is more than one because a round may seal again a period that the next one drops.
const idleRounds = 2

// Once executes the due tasks of every lane, and repeats that as long as it makes
// progress: a task may wait for one of another lane, and a period for the one
// before it. It returns what failed, and also an error if due tasks are left. It
// skips lanes that another process keeps.
func (d *Daemon) Once(ctx context.Context) error {
	var before []string
	for round, idle := 0, 0; ; round++ {
		var failed []error
		var led []Lane
		for _, lane := range Lanes {
			if !d.wanted(ctx, lane) {
				continue
			}
			leads, err := d.once(ctx, lane, round == 0)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if leads {
				led = append(led, lane)
			}
			failed = append(failed, err)
		}
		err := errors.Join(failed...)
		var not *unfollowedError
		if errors.As(err, &not) {
			return not // the same for each lane
		}
		left, lookErr := d.left(ctx, led)
		if lookErr != nil {
			return errors.Join(err, lookErr)
		}
		if err == nil && len(left) == 0 {
			return nil
		}
		if idle++; round == 0 || !slices.Equal(left, before) {
			idle = 0
		}
		if idle == idleRounds {
			if err == nil {
				err = engine.Hinted(fmt.Errorf("%s: due, but blocked now: %s", d.Table.Table.Name, strings.Join(left, "; ")),
					"rowmill status FILE, which shows the reason")
			}
			return err
		}
		before = left
	}
}

// left lists the due tasks of lanes that are not done. It omits the refresh of roll-ups,
// which is always due, tasks that the owner has put off, and tasks that wait for their
// time, such as the seal of a period until the buckets with its rows are over.
func (d *Daemon) left(ctx context.Context, lanes []Lane) ([]string, error) {
	t := d.Table.lastFollowed()
	v, tasks, err := t.plan(ctx)
	if err != nil {
		return nil, err
	}
	waits := slices.ContainsFunc(tasks, func(task Task) bool { return t.waits(task.ID()) || task.PutOff })
	var out []string
	for _, task := range tasks {
		if task.Kind == Rollup || task.Due > v.Now || task.PutOff || !slices.Contains(lanes, task.Kind.lane()) {
			continue
		}
		if t.waits(task.ID()) || waits && task.Behind {
			continue
		}
		what := string(task.Kind) + " " + label(task)
		if task.Waits != "" {
			what += ", which waits: " + task.Waits
		}
		out = append(out, what)
	}
	return out, nil
}

// once makes one pass of a lane, and reports whether this process leads it. If
// another one leads and say is set, it emits an event.
func (d *Daemon) once(ctx context.Context, lane Lane, say bool) (leads bool, err error) {
	lease, err := d.Table.DB.Lead(ctx, d.Table.Table.Name+"/"+string(lane))
	if errors.Is(err, engine.ErrLockTimeout) {
		if say {
			d.Table.say(Event{At: time.Now(), Action: "lead", Detail: string(lane) + ": another process is doing it"})
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, _, err = d.pass(ctx, lease, lane)
	return true, errors.Join(err, lease.Release())
}
