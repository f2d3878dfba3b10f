package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
)

// A Daemon keeps one table for as long as it runs.
type Daemon struct {
	Table *maintain.Table
	// Poll and LockPause are those of a Scheduler.
	Poll, LockPause time.Duration
	// Only, unless nil, are the kinds of tasks that Once executes.
	Only []maintain.Kind
}

// Run keeps the table until ctx ends, as Scheduler.Run.
func (d *Daemon) Run(ctx context.Context) {
	s := &Scheduler{Poll: d.Poll, LockPause: d.LockPause}
	s.Add(d.Table)
	s.Run(ctx)
}

// idleRounds is the number of successive rounds without progress after which Once ends.
// It is more than one because a round may seal again a period that the next one drops.
const idleRounds = 2

// Once executes the due tasks of every lane, and repeats that as long as it makes progress: a task
// may wait for one of another lane, and a period for the one before it. It returns what failed, and
// also an error if due tasks are left. It skips a table that another process keeps.
func (d *Daemon) Once(ctx context.Context) error {
	led, err := d.tryOnce(ctx)
	if !led && err == nil {
		d.Table.Report(maintain.Event{At: time.Now(), Action: "lead", Detail: "another process keeps the table"})
	}
	return err
}

// tryOnce is Once. It reports whether it could lead the table: false without an error if another
// process does.
func (d *Daemon) tryOnce(ctx context.Context) (led bool, err error) {
	lease, err := d.Table.DB.Lead(ctx, d.Table.LeaderLock())
	if errors.Is(err, engine.ErrLockTimeout) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return true, engine.WhileHeld(ctx, lease, context.Canceled, d.once)
}

func (d *Daemon) once(ctx context.Context) error {
	var before []string
	for round, idle := 0, 0; ; round++ {
		failed := make([]error, len(maintain.Lanes))
		for i, lane := range maintain.Lanes {
			if d.Only != nil && !slices.ContainsFunc(d.Only, func(k maintain.Kind) bool { return k.Lane() == lane }) {
				continue
			}
			_, err := d.Table.Pass(ctx, lane, d.Only, time.Time{})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed[i] = err
		}
		err := errors.Join(failed...)
		var not *maintain.UnfollowedError
		if errors.As(err, &not) {
			return not // the same for each lane
		}
		left, jobs, lookErr := d.left(ctx)
		if lookErr != nil {
			return errors.Join(err, lookErr)
		}
		for i, of := range failed {
			if of != nil {
				jobs[i].Problem, jobs[i].Failures = of.Error(), 1
			}
		}
		if d.Only == nil {
			if noteErr := d.Table.State.Schedule(ctx, d.Table.Table.Name, jobs); noteErr != nil && !errors.Is(noteErr, engine.ErrNoTable) {
				return errors.Join(err, noteErr)
			}
		}
		if err == nil && len(left) == 0 {
			return nil
		}
		if idle++; round == 0 || !slices.Equal(left, before) {
			idle = 0
		}
		if idle == idleRounds {
			if err == nil {
				err = leftError(d.Table.Table.Name, left)
			}
			return err
		}
		before = left
	}
}

func leftError(table string, left []string) error {
	return engine.Hinted(fmt.Errorf("%s: due, but blocked now: %s", table, strings.Join(left, "; ")), "rowmill status FILE, which shows the reason")
}

// left lists the due tasks that are not done. It omits the refresh of roll-ups, which is always
// due, tasks that the owner has put off or paused, and tasks that wait for their time, such as the
// seal of a period until the buckets with its rows are over. It also returns what each lane does
// next.
func (d *Daemon) left(ctx context.Context) (out []string, jobs []state.Job, err error) {
	t := d.Table.LastFollowed()
	v, tasks, err := t.Plan(ctx)
	if err != nil {
		return nil, nil, err
	}
	pauses, err := t.State.Pauses(ctx, t.Table.Name)
	if err != nil {
		return nil, nil, err
	}
	waits := slices.ContainsFunc(tasks, func(task maintain.Task) bool { return t.NotYet(task) || task.PutOff })
	for _, task := range tasks {
		if task.Kind == maintain.Rollup || task.Due > v.Now || task.PutOff || state.Paused(pauses, string(task.Kind.Lane())) != nil {
			continue
		}
		if t.NotYet(task) || waits && task.Behind || d.Only != nil && !slices.Contains(d.Only, task.Kind) {
			continue
		}
		what := string(task.Kind) + " " + task.Label()
		if task.Waits != "" {
			what += ", which waits: " + task.Waits
		}
		out = append(out, what)
	}
	return out, t.Jobs(tasks, v.Now), nil
}
