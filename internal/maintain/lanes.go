package maintain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Lane is a sequence of tasks with a loop of its own. Lanes don't wait for each
// other: no other work delays the creation of periods.
type Lane string

// Lanes.
const (
	Creating   Lane = "create"  // create periods ahead
	Summing    Lane = "rollup"  // refresh roll-ups
	Keeping    Lane = "keep"    // seal, archive, drop
	Rebuilding Lane = "rebuild" // rebuild and merge
)

// Lanes are all lanes.
var Lanes = []Lane{Creating, Summing, Keeping, Rebuilding}

func (k Kind) lane() Lane {
	switch k {
	case Create, Enclose:
		return Creating
	case Rollup:
		return Summing
	case Rebuild, Merge, Publish:
		return Rebuilding
	case Restore:
		return ""
	}
	return Keeping
}

// View reads the state of the table: its partitions, their records and sizes.
func (t *Table) View(ctx context.Context) (View, error) {
	can := t.DB.Capabilities()
	v := View{MaxPeriods: can.MaxPeriods, SwapRows: can.SwapRows, Gaps: can.Gaps}
	if t.Schema != nil {
		v.Compacts, v.Single = t.Schema.Compacts, can.MergesUntriggered && len(t.Schema.Triggers) > 0
	}
	var err error
	if v.Now, err = t.Now(ctx); err != nil {
		return v, err
	}
	if v.Parts, err = t.DB.Catalog().Partitions(ctx, t.Table); err != nil {
		return v, err
	}
	if len(v.Parts) > 0 {
		if v.Known, err = t.State.PeriodsFrom(ctx, t.Table.Name, v.Parts[0].From); err != nil {
			return v, err
		}
	}
	if v.Loading, err = t.loading(ctx); err != nil {
		return v, err
	}
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return v, err
	}
	for _, c := range changes {
		v.Adopting = v.Adopting || c.Kind == adopt.Kind
		if p, ok := affected(&c); ok {
			v.Busy = append(v.Busy, p.Period)
			if Kind(c.Kind) == Restore {
				v.Restoring = append(v.Restoring, p.Period)
			}
		}
	}
	return v, nil
}

// plan returns the state of the table, and the tasks that follow from it.
func (t *Table) plan(ctx context.Context) (v View, tasks []Task, err error) {
	if v, err = t.View(ctx); err == nil {
		tasks, err = Plan(t.Declared, v)
	}
	return v, tasks, err
}

// A changing is the state of a change in progress, as its steps record it.
type changing interface {
	task() Task // for which it was begun
	// period is the one that it changes; false if that is no period of the table.
	period() (rolling.Partition, bool)
	// tables are those beside the table: mere copies, and those that may hold the only
	// copy of rows.
	tables(step string) (copies, rows []string)
	// resume completes it from its current step.
	resume(ctx context.Context, t *Table, c *state.Change) (string, error)
}

// load reads the state of a change; nil if it is none of a period.
func load(c *state.Change) (changing, error) {
	var d changing
	switch Kind(c.Kind) {
	case Drop:
		d = &dropping{}
	case Rebuild:
		d = &rebuilding{}
	case Restore:
		d = &restoring{}
	case Publish:
		d = &publishing{}
	case Enclose:
		d = &enclosing{}
	default:
		return nil, nil
	}
	return d, c.Load(d)
}

// affected returns the period that a change in progress affects.
func affected(c *state.Change) (rolling.Partition, bool) {
	d, err := load(c)
	if d == nil || err != nil {
		return rolling.Partition{}, false
	}
	return d.period()
}

// Pass executes all due tasks of a lane in order, and returns when the next task
// will be due: a position, or false if none is known. A failure is reported and
// logged, and the other tasks continue; the errors are returned together.
func (t *Table) Pass(ctx context.Context, lane Lane) (next int64, more bool, err error) {
	t, err = t.begin(ctx, lane)
	if t == nil {
		return 0, false, err
	}
	failed := []error{err}
	if lane == Creating {
		if err := t.missedTriggers(ctx); err != nil {
			failed = append(failed, fmt.Errorf("triggers of the periods of %s: %w", t.Table.Name, err))
		}
	}
	if err := t.finish(ctx, lane); err != nil {
		failed = append(failed, err)
		if errors.Is(err, engine.ErrLockTimeout) {
			return 0, false, err
		}
	}
	done := map[string]bool{}
	for {
		if ctx.Err() != nil {
			return 0, false, errors.Join(append(failed, ctx.Err())...)
		}
		v, tasks, err := t.plan(ctx)
		if err != nil {
			return 0, false, errors.Join(append(failed, err)...)
		}
		more = false
		var task *Task
		for i := range tasks {
			c := &tasks[i]
			switch {
			case c.Kind.lane() != lane:
			case c.Due > v.Now:
				if !more || c.Due < next {
					next, more = c.Due, true
				}
			case c.Waits != "" || done[c.ID()]:
			case task == nil:
				task = c
			}
		}
		if task == nil {
			return next, more, errors.Join(failed...)
		}
		// Each task runs once per pass: one that is still due afterwards has
		// failed, or waits for another lane.
		done[task.ID()] = true
		if err := t.Do(ctx, *task, v); err != nil {
			failed = append(failed, err)
			if errors.Is(err, engine.ErrLockTimeout) {
				// The blocking transaction would block the others too, and each attempt delays inserts.
				return next, more, errors.Join(failed...)
			}
		}
		now, err := t.forLane(ctx, lane)
		if now == nil {
			return next, more, errors.Join(append(failed, err)...)
		}
		t = now
	}
}

// begin returns the table as forLane does, after checking that it is unchanged.
func (t *Table) begin(ctx context.Context, lane Lane) (*Table, error) {
	now, err := t.forLane(ctx, lane)
	if now == nil {
		return nil, err
	}
	changed, lookErr := now.changed(ctx)
	if lookErr != nil {
		return nil, lookErr
	}
	if changed {
		return t.forLane(ctx, lane)
	}
	return now, err
}

// Do executes one task, and reports and logs the result.
func (t *Table) Do(ctx context.Context, task Task, v View) error {
	began := time.Now()
	detail, err := t.do(ctx, task, v)
	var wait *waitError
	if errors.As(err, &wait) {
		t.waiting.Store(task.ID(), true)
	} else {
		t.waiting.Delete(task.ID())
	}
	switch {
	case errors.Is(err, errChanged):
		t.say(Event{At: began, Action: string(task.Kind), Detail: label(task) + ": " + err.Error(), Waiting: true})
		return nil
	case wait != nil:
		t.say(Event{At: began, Action: string(task.Kind), Detail: wait.why, Waiting: true})
		return nil
	}
	return t.ended(ctx, string(task.Kind), label(task), detail, began, err)
}

// ended reports and logs how an action on something ended. It returns the error as the
// log has it, with the name of the action.
func (t *Table) ended(ctx context.Context, action, what, detail string, began time.Time, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, engine.ErrLockTimeout):
		err = t.blocked(ctx, err)
	case err == nil && detail == "" && !t.failed.over(action):
		return nil
	}
	// Where there was nothing to do, the log's last word would be the failure before.
	if err != nil || detail == "" {
		detail = what
	}
	t.log(ctx, action, detail, time.Since(began), err)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, what, err)
	}
	return nil
}

func label(task Task) string {
	names := make([]string, len(task.Parts))
	for i, p := range task.Parts {
		names[i] = p.Name
	}
	if len(names) > 4 {
		return fmt.Sprintf("%s to %s (%d periods)", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, ", ")
}

func (t *Table) do(ctx context.Context, task Task, v View) (string, error) {
	switch task.Kind {
	case Create:
		return t.create(ctx, task, v)
	case Rollup:
		n, err := t.refresh(ctx, v.Now)
		// A level that is computed from an expired one would lack the history that a load
		// still brings.
		if err == nil && len(v.Loading) == 0 {
			err = t.Rollups.Expire(ctx, v.Now)
		}
		if errors.Is(err, errChanged) {
			err = nil // the next pass removes the rest
		}
		if n == 0 {
			return "", err
		}
		return figure.Plural(n, "bucket"), err
	case Seal:
		return t.seal(ctx, task.Parts[0])
	case Check:
		return t.check(ctx, task.Parts[0], v.known(task.Parts[0]), v.Now)
	case Archive:
		return t.archive(ctx, task.Parts[0], v.known(task.Parts[0]))
	case Drop:
		return t.drop(ctx, task.Parts[0], v.known(task.Parts[0]))
	case Rebuild, Merge:
		return t.rebuild(ctx, task)
	}
	return "", fmt.Errorf("no such task: %s", task.Kind)
}

// finish completes the changes of a lane whose process has ended.
func (t *Table) finish(ctx context.Context, lane Lane) error {
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	var failed []error
	for i := range changes {
		c := &changes[i]
		d, err := load(c)
		if d == nil || Kind(c.Kind).lane() != lane {
			continue
		}
		var detail string
		began, action, what := time.Now(), c.Kind, c.ID
		if err == nil {
			// The entry has the task's name: the previous entry may report that the
			// task failed.
			action, what = string(d.task().Kind), label(d.task())
			detail, err = d.resume(ctx, t, c)
		}
		err = t.ended(ctx, action, what, detail, began, err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, err, t.State.Failed(context.WithoutCancel(ctx), c, errors.Unwrap(err)))
		}
		if errors.Is(err, engine.ErrLockTimeout) {
			break
		}
	}
	return errors.Join(failed...)
}

// blocked adds the blocking transaction to the error of a lock.
func (t *Table) blocked(ctx context.Context, err error) error {
	who, lookErr := t.DB.Blockers(ctx, t.Table)
	own, others := ownAndOthers(who)
	if lookErr == nil && len(others) == 0 && len(own) > 0 {
		return engine.Hinted(fmt.Errorf("%w: blocked by %s", err, own[0]), "no action required: it ends by itself, and the waiting tasks are retried")
	}
	if lookErr != nil || len(others) == 0 {
		return err
	}
	who = others
	return engine.Hinted(fmt.Errorf("%w: blocked by %s", err, who[0]), "end that transaction; the task is retried automatically")
}

// create adds the partitions one at a time, so that a blocked one doesn't affect the others.
func (t *Table) create(ctx context.Context, task Task, v View) (string, error) {
	have := v.Parts
	for i, p := range task.Parts {
		enclosed, err := t.createIn(ctx, engine.CreatePartitions{Table: t.Table, Have: have, New: []rolling.Partition{p}})
		if enclosed != "" || err != nil {
			if i > 0 {
				t.log(ctx, string(Create), label(Task{Parts: task.Parts[:i]}), 0, nil)
			}
			return enclosed, err // the next look finds what is missing beside the enclosed one
		}
		t.reach("created")
		have = append(have[:len(have):len(have)], p)
	}
	return label(task), t.triggers(ctx)
}
