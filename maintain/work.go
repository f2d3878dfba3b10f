package maintain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/maintain/adopt"
	"github.com/rowmill/rowmill/rolling"
	"github.com/rowmill/rowmill/state"
)

// A Lane is work that is done one thing after the other. Lanes don't wait for
// each other: creation is never held up by anything else.
type Lane string

// Lanes.
const (
	Creating   Lane = "create"  // periods ahead
	Summing    Lane = "rollup"  // levels
	Keeping    Lane = "keep"    // seal, archive, drop
	Rebuilding Lane = "rebuild" // rebuild and merge
)

// Lanes are all of them.
var Lanes = []Lane{Creating, Summing, Keeping, Rebuilding}

// lane returns the one that does a kind of task.
func (k Kind) lane() Lane {
	switch k {
	case Create:
		return Creating
	case Rollup:
		return Summing
	case Rebuild, Merge:
		return Rebuilding
	}
	return Keeping
}

// View looks at the table: its partitions, what is known of them, their sizes.
func (t *Table) View(ctx context.Context) (View, error) {
	v := View{MaxPeriods: t.DB.Capabilities().MaxPeriods, SwapRows: t.DB.Capabilities().SwapRows, Gaps: t.DB.Capabilities().Gaps, Compacts: t.Schema != nil && t.Schema.Compacts}
	var err error
	if v.Now, err = t.Now(ctx); err != nil {
		return v, err
	}
	if v.Parts, err = t.DB.Catalog().Partitions(ctx, t.Table); err != nil {
		return v, err
	}
	if v.Known, err = t.State.Periods(ctx, t.Table.Name); err != nil {
		return v, err
	}
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return v, err
	}
	for _, c := range changes {
		v.Adopting = v.Adopting || c.Kind == adopt.Kind
		if p, ok := bounds(&c); ok {
			v.Busy = append(v.Busy, p)
		}
	}
	return v, nil
}

// bounds returns what a change under way is about.
func bounds(c *state.Change) (rolling.Period, bool) {
	if Kind(c.Kind) == Restore {
		var r restoring
		err := c.Load(&r)
		return r.Part.Period, err == nil && r.Into == ""
	}
	task, ok := taskOf(c)
	switch task.Kind {
	case Drop:
		return task.Parts[0].Period, ok
	case Rebuild, Merge:
		return task.New.Period, ok
	}
	return rolling.Period{}, false
}

// Pass does everything in a lane that is due, in order, and returns when the
// next thing will be due: a position, or false where nothing is in sight. What
// fails is said and logged, and doesn't keep the rest from being done; the
// errors are returned together.
func (t *Table) Pass(ctx context.Context, lane Lane) (next int64, more bool, err error) {
	t, err = t.begin(ctx, lane)
	if t == nil {
		return 0, false, err
	}
	failed := []error{err}
	if lane == Creating && t.shared.firstPass(t.mark) {
		// What created a period may have been killed before its triggers were made.
		if err := t.triggers(ctx); err != nil {
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
		v, err := t.View(ctx)
		if err != nil {
			return 0, false, errors.Join(append(failed, err)...)
		}
		tasks, err := Plan(t.Declared, v)
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
		// Each is done once in a pass: what is still due afterwards failed, or
		// waits for what another lane does.
		done[task.ID()] = true
		if err := t.Do(ctx, *task, v); err != nil {
			failed = append(failed, err)
			if errors.Is(err, engine.ErrLockTimeout) {
				// Whoever is in the way is in the way of the rest, too, and each
				// try holds up inserts.
				return next, more, errors.Join(failed...)
			}
		}
		now, err := t.inLane(ctx, lane)
		if now == nil {
			return next, more, errors.Join(append(failed, err)...)
		}
		t = now
	}
}

// begin returns the table as a lane is to keep it, as inLane does, after a look
// whether it is still what it was.
func (t *Table) begin(ctx context.Context, lane Lane) (*Table, error) {
	now, err := t.inLane(ctx, lane)
	if now == nil {
		return nil, err
	}
	changed, lookErr := now.changed(ctx)
	if lookErr != nil {
		return nil, lookErr
	}
	if changed {
		return t.inLane(ctx, lane)
	}
	return now, err
}

// Do carries out one task, says so and logs it.
func (t *Table) Do(ctx context.Context, task Task, v View) error {
	began := time.Now()
	detail, err := t.do(ctx, task, v)
	var wait *waitError
	t.shared.wait(task.ID(), errors.As(err, &wait))
	switch {
	case errors.Is(err, errChanged):
		t.say(Event{At: began, Action: string(task.Kind), Detail: label(task) + ": " + err.Error(), Waiting: true})
		return nil
	case errors.As(err, &wait):
		t.say(Event{At: began, Action: string(task.Kind), Detail: wait.why, Waiting: true})
		return nil
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if detail = label(task); errors.Is(err, engine.ErrLockTimeout) {
			err = t.blocked(ctx, err)
		}
		t.log(ctx, string(task.Kind), detail, time.Since(began), err)
		return fmt.Errorf("%s %s: %w", task.Kind, detail, err)
	case detail != "":
		t.log(ctx, string(task.Kind), detail, time.Since(began), nil)
	case t.failed.over(string(task.Kind)):
		// There was nothing to do, but the log's last word would be the failure.
		t.log(ctx, string(task.Kind), label(task), time.Since(began), nil)
	}
	return nil
}

// label is what a task is about, for people.
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
		if err == nil {
			err = t.Rollups.Expire(ctx, v.Now)
		}
		if errors.Is(err, errChanged) {
			err = nil // the next pass removes what is still too much
		}
		if n == 0 {
			return "", err
		}
		return figure.Plural(n, "bucket", "buckets"), err
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

// refresh brings the levels up to the present, and takes in rows that came late
// without a note.
func (t *Table) refresh(ctx context.Context, now int64) (int, error) {
	n, err := t.Rollups.Refresh(ctx, now)
	if err != nil {
		return n, err
	}
	stale, err := t.Rollups.Recount(ctx, now)
	if stale == 0 || ctx.Err() != nil {
		return n, err
	}
	more, again := t.Rollups.Refresh(ctx, now) // also what was found before an error
	return n + more, errors.Join(err, again)
}

// create adds the partitions one at a time, so that one that is blocked costs
// no other.
func (t *Table) create(ctx context.Context, task Task, v View) (string, error) {
	have := v.Parts
	for i, p := range task.Parts {
		err := t.tryLocked(ctx, engine.CreatePartitions{Table: t.Table, Have: have, New: []rolling.Partition{p}})
		if err != nil {
			if i > 0 {
				t.log(ctx, string(Create), label(Task{Parts: task.Parts[:i]}), 0, nil)
			}
			return "", err
		}
		t.reach("created")
		have = append(have[:len(have):len(have)], p)
	}
	return label(task), t.triggers(ctx)
}

// triggers gives new periods theirs, where triggers belong to periods.
func (t *Table) triggers(ctx context.Context) error {
	if !t.Schema.View {
		return nil
	}
	if t.Rollups != nil && t.Declared.Exact {
		if err := t.Rollups.Create(ctx); err != nil {
			return err
		}
	}
	if t.Declared.Late == rolling.LateReject {
		return t.refuseLate(ctx)
	}
	return nil
}

// finish ends the changes of a lane that were begun by somebody who is gone.
func (t *Table) finish(ctx context.Context, lane Lane) error {
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	var failed []error
	for i := range changes {
		c := &changes[i]
		if Kind(c.Kind).lane() != lane {
			continue
		}
		var detail string
		began := time.Now()
		switch Kind(c.Kind) {
		case Drop:
			detail, err = t.goOnDropping(ctx, c)
		case Rebuild:
			detail, err = t.goOnRebuilding(ctx, c)
		default:
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, engine.ErrLockTimeout) {
			err = t.blocked(ctx, err)
		}
		// The log calls it what it called the task: the word before may be that it
		// failed.
		action, what := c.Kind, c.ID
		if task, ok := taskOf(c); ok {
			action, what = string(task.Kind), label(task)
		}
		if err != nil {
			detail = what
			failed = append(failed, fmt.Errorf("%s %s: %w", action, detail, err), t.State.Failed(context.WithoutCancel(ctx), c, err))
		}
		t.log(ctx, action, detail, time.Since(began), err)
		if errors.Is(err, engine.ErrLockTimeout) {
			break
		}
	}
	return errors.Join(failed...)
}

// taskOf returns the task that a change was begun for: its kind and the
// partitions that it is about; false where it is none or can't be read.
func taskOf(c *state.Change) (Task, bool) {
	switch Kind(c.Kind) {
	case Drop:
		var d dropping
		err := c.Load(&d)
		return Task{Kind: Drop, Parts: []rolling.Partition{d.Part}}, err == nil
	case Rebuild:
		var r rebuilding
		err := c.Load(&r)
		kind := Rebuild
		if len(r.Old) > 1 {
			kind = Merge
		}
		return Task{Kind: kind, Parts: r.Old, New: r.New}, err == nil
	}
	return Task{}, false
}

// blocked adds to an error of a lock who is in the way.
func (t *Table) blocked(ctx context.Context, err error) error {
	who, lookErr := t.DB.Blockers(ctx, t.Table)
	own, others := apart(who)
	if lookErr == nil && len(others) == 0 && len(own) > 0 {
		return engine.Hinted(fmt.Errorf("%w: in the way is %s", err, own[0]), "no action required: it ends by itself, and what waits for it is tried again")
	}
	if lookErr != nil || len(others) == 0 {
		return err
	}
	who = others
	return engine.Hinted(fmt.Errorf("%w: in the way is %s", err, who[0]), "end that transaction; it is tried again by itself")
}

// again is how long the same failure is not logged again: what is tried every
// second for hours would fill the log with nothing else.
const again = 30 * time.Second

// A failures is what has failed of late, and when that was logged.
type failures struct {
	mu   sync.Mutex
	last map[string]time.Time
	open map[string]bool // kinds of actions whose last word in the log is a failure
}

// note keeps how an action that is logged has ended.
func (f *failures) note(action string, failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]bool{}
	}
	f.open[action] = failed
}

// over tells that the last word on a kind of action is that it failed.
func (f *failures) over(action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[action]
}

// ended tells that the last word on a kind of action is that it failed. The next
// one who asks is told that it isn't: the caller is about to log so.
func (f *failures) ended(action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.open[action]
	if was {
		f.open[action] = false
	}
	return was
}

// repeated tells that the same has failed, and was logged, a moment ago.
func (f *failures) repeated(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.last[what]) < again {
		return true
	}
	if f.last == nil || len(f.last) > 1000 {
		f.last = map[string]time.Time{}
	}
	f.last[what] = time.Now()
	return false
}

// log says and writes down what was done. That the log can't be written is said.
func (t *Table) log(ctx context.Context, action, detail string, took time.Duration, err error) {
	if err != nil && t.failed.repeated(action+" "+detail) {
		return
	}
	t.failed.note(action, err != nil)
	a := state.Action{At: time.Now(), Table: t.Table.Name, Action: action, Detail: detail, Took: took}
	if err != nil {
		a.Error, a.Locked = err.Error(), errors.Is(err, engine.ErrLockTimeout)
	}
	t.say(Event{At: a.At, Action: action, Detail: detail, Took: took, Err: err, Waiting: errors.Is(err, engine.ErrLockTimeout)})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := t.State.Log(ctx, a); err != nil {
		t.say(Event{At: time.Now(), Action: "log", Err: err})
	}
}
