package maintain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A runner looks for due tasks, and executes the tasks of a lane.
type runner struct{ *table }

func (t *Table) runner() runner { return runner{t} }

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

// Lane returns the lane that executes the tasks of a kind.
func (k Kind) Lane() Lane { return Lane(state.PolicyOf(string(k))) }

// View reads the state of the table: its partitions, their records and sizes.
func (t *Table) View(ctx context.Context) (v View, err error) {
	can := t.DB.Capabilities()
	v = View{MaxPeriods: can.MaxPeriods, SwapRows: can.SwapRows, Gaps: can.Gaps}
	if t.Schema != nil {
		v.Compacts, v.Single = t.Schema.Compacts, can.MergesUntriggered && len(t.Schema.Triggers) > 0
	}
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
	if v.Loading, err = t.creator().loading(ctx); err != nil {
		return v, err
	}
	if v.Changes, err = t.State.Changes(ctx, t.Table.Name); err != nil {
		return v, err
	}
	for _, c := range v.Changes {
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

// Plan returns the state of the table, and the tasks that follow from it.
func (t *Table) Plan(ctx context.Context) (v View, tasks []Task, err error) {
	if v, err = t.View(ctx); err == nil {
		tasks, err = Plan(t.Declared, v)
	}
	return v, tasks, err
}

// A changing is the recorded state of a change of several steps.
type changing interface {
	task() Task // the task that began it
	// period returns the period that the change affects; false if it affects none, e.g. a restoration
	// into a table of its own.
	period() (rolling.Partition, bool)
	// tables returns the names of the tables that the change uses besides the rolling table. The
	// tables in copies only have rows that are also elsewhere. The tables in rows may have rows that
	// are nowhere else.
	tables(step string) (copies, rows []string)
	// resume completes the change from its current step.
	resume(ctx context.Context, t *Table, c *state.Change) (string, error)
}

// load reads the state of a change; nil if the change, e.g. an adoption, affects no single period.
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

// A pass executes the due tasks of a lane, in order.
type pass struct {
	lane Lane
	// only, unless nil, has the kinds of tasks to execute.
	only []Kind
	// table follows the declaration in force, which may change between two tasks.
	table *Table
	// done has the tasks that were tried. Each is tried once per pass: a task that is still due
	// afterwards has failed, or waits for another lane.
	done   map[string]bool
	failed []error
	// until is the time after which no further task is begun; zero is never.
	until time.Time
	Passed
}

// A Passed is the result of a pass.
type Passed struct {
	// Next is the position at which the next task of the lane becomes due, if More is set.
	Next int64
	More bool
	// Early means that the pass has ended before all due tasks were tried.
	Early bool
	Jobs  []state.Job // the next task of each lane
}

// Pass executes the due tasks of a lane in order. If only isn't nil, Pass executes just tasks of
// these kinds. If until isn't zero, it begins no task after that time, so that other tables get
// their turn. It goes on after a failed task, unless a lock was not granted, and returns all errors
// together.
func (t *Table) Pass(ctx context.Context, lane Lane, only []Kind, until time.Time) (Passed, error) {
	now, err := t.runner().begin(ctx, lane)
	if now == nil {
		return Passed{}, err
	}
	p := &pass{lane: lane, only: only, table: now, until: until, done: map[string]bool{}, failed: []error{err}}
	err = p.run(ctx)
	return p.Passed, errors.Join(append(p.failed, err)...)
}

// run executes the tasks. It returns an error only if that ends the pass early.
func (p *pass) run(ctx context.Context) error {
	if pause, err := p.table.Paused(ctx, p.lane); pause != nil || err != nil {
		return err
	}
	if p.lane == Creating {
		if err := p.table.guard().missedTriggers(ctx); err != nil {
			p.failed = append(p.failed, fmt.Errorf("triggers of the periods of %s: %w", p.table.Table.Name, err))
		}
	}
	if err := p.table.runner().finish(ctx, p.lane); errors.Is(err, engine.ErrLockTimeout) {
		return err
	} else if err != nil {
		p.failed = append(p.failed, err)
	}
	for {
		task, v, err := p.choose(ctx)
		if err != nil || task == nil {
			return err
		}
		if p.Early = len(p.done) > 0 && !p.until.IsZero() && time.Now().After(p.until); p.Early {
			return nil
		}
		if len(p.done) > 0 { // a task may have taken hours
			if pause, err := p.table.Paused(ctx, p.lane); pause != nil || err != nil {
				return err
			}
		}
		p.done[task.ID()] = true
		if err := p.table.Do(ctx, *task, v); errors.Is(err, engine.ErrLockTimeout) {
			// The blocking transaction would block the other tasks too, and each attempt delays inserts.
			return err
		} else if err != nil {
			p.failed = append(p.failed, err)
		}
		now, err := p.table.follower().forLane(ctx, p.lane)
		if now == nil {
			return err
		}
		p.table = now
	}
}

// choose returns the next task that is due, or nil, and sets p.Next.
func (p *pass) choose(ctx context.Context) (*Task, View, error) {
	if ctx.Err() != nil {
		return nil, View{}, ctx.Err()
	}
	v, tasks, err := p.table.Plan(ctx)
	if err != nil {
		return nil, v, err
	}
	var task *Task
	p.Next, p.More = nextDue(tasks, p.lane, v.Now)
	p.Jobs = p.table.Jobs(tasks, v.Now)
	for i := range tasks {
		if c := &tasks[i]; task == nil && c.Kind.Lane() == p.lane && c.ready(v.Now) && !p.done[c.ID()] && (p.only == nil || slices.Contains(p.only, c.Kind)) {
			task = c
		}
	}
	return task, v, nil
}

// ready reports whether a task is due and waits for nothing.
func (t *Task) ready(now int64) bool { return t.Due <= now && t.Waits == "" }

// nextDue returns the position at which the next task of a lane becomes due; false if no such task
// is known.
func nextDue(tasks []Task, lane Lane, now int64) (next int64, more bool) {
	for i := range tasks {
		if c := &tasks[i]; c.Kind.Lane() == lane && c.Due > now && (!more || c.Due < next) {
			next, more = c.Due, true
		}
	}
	return next, more
}

// A Looked is what a look at a table has found.
type Looked struct {
	Work []Lane // lanes with work that are not paused
	// Next is the position at which the next task of any lane becomes due, if More is set.
	Next int64
	More bool
	// From Now up to Covered, inserts find a period. They should find one up to Wanted.
	Covered, Wanted, Now int64
	Pauses               []state.Pause
	Jobs                 []state.Job // the next task of each lane
	// Quiet means that nothing is to be done until the database changes or the next task becomes due.
	Quiet bool
}

// Look finds out which lanes of the table have work. It doesn't check whether the table was
// altered: each pass does.
func (t *Table) Look(ctx context.Context) (l Looked, err error) {
	now, err := t.follower().forLane(ctx, Creating)
	if now == nil {
		return l, err
	}
	var lookErr error
	if l.Pauses, lookErr = t.State.Pauses(ctx, t.Table.Name); lookErr != nil {
		return l, errors.Join(err, lookErr)
	}
	v, lookErr := now.View(ctx)
	if isNoTable(lookErr) {
		t.stale.Store(true)
		if _, err := t.follower().forLane(ctx, Creating); err != nil { // the error says what is missing
			return l, err
		}
	}
	if lookErr != nil {
		return l, errors.Join(err, lookErr)
	}
	l.Covered, l.Wanted, l.Now = covered(v.Parts, v.Now), now.Wanted(v), v.Now
	tasks, planErr := Plan(now.Declared, v)
	triggers, lookErr := now.guard().triggersMissed(ctx)
	l.Quiet = !triggers && len(v.Changes) == 0 && len(v.Loading) == 0
	for _, c := range tasks {
		switch {
		case c.Kind == Rollup:
			l.Quiet = l.Quiet && c.Waits == ""
		case c.Due <= v.Now:
			l.Quiet = false
		}
	}
	for _, lane := range Lanes {
		if err != nil && lane != Creating { // the other lanes don't follow the previous declaration
			continue
		}
		due := slices.ContainsFunc(tasks, func(c Task) bool { return c.Kind.Lane() == lane && c.ready(v.Now) })
		due = due || slices.ContainsFunc(v.Changes, func(c state.Change) bool {
			d, err := load(&c)
			return (d != nil || err != nil) && Kind(c.Kind).Lane() == lane
		})
		if (due || triggers && lane == Creating) && state.Paused(l.Pauses, string(lane)) == nil {
			l.Work = append(l.Work, lane)
		}
		if at, known := nextDue(tasks, lane, v.Now); known && (!l.More || at < l.Next) {
			l.Next, l.More = at, true
		}
	}
	if names, end := now.nextBuckets(v.Now); len(names) > 0 && (!l.More || end < l.Next) {
		l.Next, l.More = end, true
	}
	l.Jobs = now.Jobs(tasks, v.Now)
	return l, errors.Join(err, planErr, lookErr)
}

// Paused returns the pause of a lane, nil if it has none.
func (t *Table) Paused(ctx context.Context, lane Lane) (*state.Pause, error) {
	pauses, err := t.State.Pauses(ctx, t.Table.Name)
	return state.Paused(pauses, string(lane)), err
}

// WhilePaused returns a function for copier.Limits.Waits. While the policy is paused, the function
// returns the pause as a reason to wait.
func (t *Table) WhilePaused(policy string) func(ctx context.Context) (why string, err error) {
	return func(ctx context.Context) (string, error) {
		p, err := t.Paused(ctx, Lane(policy))
		if p == nil {
			return "", err
		}
		return p.String(), nil
	}
}

// begin is forLane, but if the table was altered, it first reads the schema again.
func (t runner) begin(ctx context.Context, lane Lane) (*Table, error) {
	now, err := t.follower().forLane(ctx, lane)
	if now == nil {
		return nil, err
	}
	changed, lookErr := now.follower().changed(ctx)
	if lookErr != nil {
		return nil, lookErr
	}
	if changed {
		return t.follower().forLane(ctx, lane)
	}
	return now, err
}

// Do executes one task, and reports and logs the result.
func (t *Table) Do(ctx context.Context, task Task, v View) error {
	began := time.Now()
	detail, err := t.runner().do(ctx, task, v)
	var wait *waitError
	if errors.As(err, &wait) {
		t.waiting.Store(task.ID(), true)
	} else {
		t.waiting.Delete(task.ID())
	}
	switch {
	case errors.Is(err, errChanged):
		t.Report(Event{At: began, Action: string(task.Kind), Detail: task.Label() + ": " + err.Error(), Waiting: true})
		return nil
	case wait != nil:
		t.Report(Event{At: began, Action: string(task.Kind), Detail: wait.why, Waiting: true})
		return nil
	}
	return t.runner().ended(ctx, string(task.Kind), task.Label(), detail, began, err)
}

// ended reports and logs the end of an action, e.g. "seal" of period "p20240501". It returns the
// logged error, with the action's name.
func (t runner) ended(ctx context.Context, action, what, detail string, began time.Time, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, engine.ErrLockTimeout):
		err = t.Blocked(ctx, err)
	case err == nil && detail == "" && !t.failed.over(action):
		return nil
	}
	// An action that found nothing to do is logged if the entry before is a failure.
	if err != nil || detail == "" {
		detail = what
	}
	t.Log(ctx, action, detail, time.Since(began), err)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, what, err)
	}
	return nil
}

// Label names the periods of a task, e.g. "p20240101_00, p20240101_01".
func (t Task) Label() string {
	names := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		names[i] = p.Name
	}
	if len(names) > 4 {
		return fmt.Sprintf("%s to %s (%d periods)", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, ", ")
}

func (t runner) do(ctx context.Context, task Task, v View) (string, error) {
	switch task.Kind {
	case Create:
		return t.creator().create(ctx, task, v)
	case Rollup:
		n, err := t.sealer().refresh(ctx, v)
		// During a load, nothing expires: coarser levels may still need buckets of the loaded rows.
		if err == nil && len(v.Loading) == 0 {
			err = t.Rollups.Expire(ctx, v.Now)
		}
		if errors.Is(err, errChanged) {
			err = nil // the next pass expires the rest, by the new declaration
		}
		if n == 0 {
			return "", err
		}
		return figure.Plural(n, "bucket"), err
	case Seal:
		return t.sealer().seal(ctx, task.Parts[0])
	case Check:
		return t.sealer().check(ctx, task.Parts[0], v.Record(task.Parts[0]), v.Now)
	case Archive:
		return t.sealer().archive(ctx, task.Parts[0], v.Record(task.Parts[0]))
	case Drop:
		return t.dropper().drop(ctx, task.Parts[0], v.Record(task.Parts[0]))
	case Rebuild, Merge:
		return t.rebuilder().rebuild(ctx, task)
	}
	return "", fmt.Errorf("no such task: %s", task.Kind)
}

// finish completes the changes of a lane that an earlier process has left.
func (t runner) finish(ctx context.Context, lane Lane) error {
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	var failed []error
	for i := range changes {
		c := &changes[i]
		d, err := load(c)
		if d == nil || Kind(c.Kind).Lane() != lane {
			continue
		}
		var detail string
		began, action, what := time.Now(), c.Kind, c.ID
		if err == nil {
			// Log it under the task's name, under which a failure of the task may have been logged.
			action, what = string(d.task().Kind), d.task().Label()
			detail, err = d.resume(ctx, t.table, c)
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

// Blocked adds the blocking transaction to the error of a lock that was not granted.
func (t *Table) Blocked(ctx context.Context, err error) error {
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

// create adds the partitions one at a time: if one can't be added, those before it are there.
func (t creator) create(ctx context.Context, task Task, v View) (string, error) {
	have := v.Parts
	for i, p := range task.Parts {
		enclosed, err := t.createIn(ctx, engine.CreatePartitions{Table: t.Table, Have: have, New: []rolling.Partition{p}})
		if enclosed != "" || err != nil {
			if i > 0 {
				t.Log(ctx, string(Create), Task{Parts: task.Parts[:i]}.Label(), 0, nil)
			}
			return enclosed, err // the next look finds what is missing beside the enclosed one
		}
		t.Reach("created")
		have = append(have[:len(have):len(have)], p)
	}
	return task.Label(), t.guard().triggers(ctx)
}

// EndChanges prepares to end the period changes of a table that its owner has dropped, and returns
// them with their entries for the log. It drops tables that are mere copies. Tables that may hold
// the only copy of rows stay, and the log names them.
func (t *Table) EndChanges(ctx context.Context) (ended []state.Change, said []string, err error) {
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range changes {
		d, err := load(&c)
		if err != nil {
			return nil, nil, err
		}
		if d == nil {
			continue
		}
		part, of := d.period()
		if !of {
			continue // a restoration into a table of its own; the archive still has the rows
		}
		copies, rows := d.tables(c.Step)
		if len(copies) > 0 {
			if err := t.DB.Try(ctx, engine.DropTables{Names: copies}); err != nil {
				return nil, nil, err
			}
		}
		detail := part.Name + ": ended, the table was dropped"
		for _, name := range rows {
			there, err := t.Exists(ctx, name)
			if err != nil {
				return nil, nil, err
			}
			if there {
				detail += "; table " + name + " has rows of it"
			}
		}
		ended, said = append(ended, c), append(said, detail)
	}
	return ended, said, nil
}
