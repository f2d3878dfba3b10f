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

// idleRounds is the number of successive rounds without progress after which Once ends. It is more
// than one: a round may seal a period again, so that only the next round drops the period.
const idleRounds = 2

// Once executes the due tasks of every lane of a table. It repeats that as long as it makes
// progress, because a task may wait for a task of another lane, and a period for the period before
// it. It returns what failed, and also an error if due tasks are left. It skips a table that
// another process keeps.
func Once(ctx context.Context, t *maintain.Table) error {
	led, err := single{Table: t}.run(ctx)
	if !led && err == nil {
		t.Report(maintain.Event{At: time.Now(), Action: "lead", Detail: "another process keeps the table"})
	}
	return err
}

// A single is one run of Once. Unless only is nil, it executes only tasks of these kinds.
type single struct {
	*maintain.Table
	only []maintain.Kind
}

// run executes the tasks if this process can lead the table. led is false if another one leads it.
func (d single) run(ctx context.Context) (led bool, err error) {
	lease, err := d.DB.Lead(ctx, d.LeaderLock())
	if errors.Is(err, engine.ErrLockTimeout) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return true, engine.WhileHeld(ctx, lease, context.Canceled, d.rounds)
}

func (d single) rounds(ctx context.Context) error {
	var before []string
	for round, idle := 0, 0; ; round++ {
		failed := make([]error, len(maintain.Lanes))
		for i, lane := range maintain.Lanes {
			if d.only != nil && !slices.ContainsFunc(d.only, func(k maintain.Kind) bool { return k.Lane() == lane }) {
				continue
			}
			_, err := d.Pass(ctx, lane, d.only, time.Time{})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed[i] = err
		}
		err := errors.Join(failed...)
		var not *maintain.UnfollowedError
		if errors.As(err, &not) {
			return not // each lane has this error: return it once
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
		if d.only == nil {
			if noteErr := d.State.Schedule(ctx, d.Table.Table.Name, jobs); noteErr != nil && !errors.Is(noteErr, engine.ErrNoTable) {
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

// left lists the due tasks that are not done, and returns the next task of each lane. It omits the
// refresh of roll-ups, which is always due; tasks that the owner has put off or paused; and tasks
// that were not possible yet, e.g. the seal of a period whose last bucket isn't over.
func (d single) left(ctx context.Context) (out []string, jobs []state.Job, err error) {
	t := d.LastFollowed()
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
		if t.NotYet(task) || waits && task.Behind || d.only != nil && !slices.Contains(d.only, task.Kind) {
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
