package maintain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

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
				err = engine.Hinted(fmt.Errorf("%s: due, and can't be done now: %s", d.Table.Table.Name, strings.Join(left, "; ")),
					"rowmill status FILE, which says what is in the way")
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
	v, err := t.View(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := Plan(t.Declared, v)
	if err != nil {
		return nil, err
	}
	waits := slices.ContainsFunc(tasks, func(task Task) bool { return t.shared.waits(task.ID()) })
	var out []string
	for _, task := range tasks {
		if task.Kind == Rollup || task.Due > v.Now || task.PutOff || !slices.Contains(lanes, task.Kind.lane()) {
			continue
		}
		if t.shared.waits(task.ID()) || waits && task.Behind {
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
			d.Table.say(Event{At: time.Now(), Action: "lead", Detail: string(lane) + ": another process does it"})
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, _, err = d.pass(ctx, lease, lane)
	return true, errors.Join(err, lease.Release())
}
