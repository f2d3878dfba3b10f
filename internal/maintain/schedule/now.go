package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
)

// A Work is what a user can request by rowmill now: drop, seal or rollup.
type Work string

// Works are the kinds of tasks of each Work, all of one lane.
var Works = map[Work][]maintain.Kind{
	"drop":   {maintain.Seal, maintain.Archive, maintain.Drop},
	"seal":   {maintain.Seal},
	"rollup": {maintain.Rollup},
}

// Lane returns the lane whose pause stops the work.
func (w Work) Lane() maintain.Lane { return Works[w][0].Lane() }

// The process that leads a table looks for requests at each maintain.Beat. The requester looks for
// the result every requestPoll. If the leader has not taken the request after mostUntaken, the
// requester withdraws it.
const (
	requestPoll = 500 * time.Millisecond
	mostUntaken = 3 * maintain.Beat
)

// Drops describes the periods that are due to be dropped, one by one.
func Drops(ctx context.Context, t *maintain.Table) (out []string, err error) {
	v, tasks, err := t.Plan(ctx)
	for _, task := range tasks {
		if task.Kind != maintain.Drop || task.Due > v.Now {
			continue
		}
		what := "drop " + task.Label()
		if k := v.Record(task.Parts[0]); k != nil {
			what += ": " + figure.Plural(k.Rows, "row")
		}
		if task.Waits != "" && !task.Behind {
			what += ", which waits: " + task.Waits
		}
		out = append(out, what)
	}
	return out, err
}

// DoNow does the due tasks of a Work at once. If another process leads the table, DoNow asks that
// process to do them, waits for its answer, and reports its actions as events.
func DoNow(ctx context.Context, t *maintain.Table, w Work) error {
	if err := refusePaused(ctx, t, w); err != nil {
		return err
	}
	err := doNow(ctx, t, w)
	if err == nil {
		err = refusePaused(ctx, t, w) // a pause that began meanwhile may have left tasks undone
	}
	return err
}

func refusePaused(ctx context.Context, t *maintain.Table, w Work) error {
	pause, err := t.Paused(ctx, w.Lane())
	if err != nil || pause == nil {
		return err
	}
	return engine.Hinted(fmt.Errorf("%s of table %s is %s", pause.Policy, t.Table.Name, pause), "rowmill resume %s --policy %s", t.Declared.Source, pause.Policy)
}

func doNow(ctx context.Context, t *maintain.Table, w Work) error {
	d := single{t, Works[w]}
	led, err := d.run(ctx)
	if led || err != nil {
		return err
	}
	by, err := t.Leader(ctx)
	if err != nil {
		return err
	}
	if by == "" {
		return engine.Hinted(fmt.Errorf("another process works on table %s, and takes no requests: a rowmill run --once or rowmill now, or a rowmill run that begins or was cut off", t.Table.Name),
			"the same command in some seconds")
	}
	reported := map[state.Action]bool{}
	if err := report(ctx, t, reported, func(state.Action) {}); err != nil {
		return err
	}
	name := t.Table.Name
	other, err := t.State.Ask(ctx, name, string(w), mostUntaken)
	if err != nil {
		return err
	}
	if other != nil {
		return engine.Hinted(fmt.Errorf("%s has asked for %s of table %s already", other.By, w, name), "the same command once that is done")
	}
	led, err = await(ctx, d, w, by, reported)
	if err := errors.Join(err, t.State.Withdraw(context.WithoutCancel(ctx), name, string(w))); err != nil || led {
		return err
	}
	left, _, err := d.left(ctx)
	if err == nil && len(left) > 0 {
		err = leftError(name, left)
	}
	return err
}

// await waits until the leader, whose name is by, has done the work. If the leader ends earlier,
// await does the work in this process, by d, and returns led = true.
func await(ctx context.Context, d single, w Work, by string, reported map[state.Action]bool) (led bool, err error) {
	t := d.Table
	for began := time.Now(); ; {
		if err := engine.Sleep(ctx, requestPoll); err != nil {
			return false, err
		}
		if led, err := d.run(ctx); led || err != nil {
			return led, err
		}
		r, err := t.State.Request(ctx, t.Table.Name, string(w))
		if err != nil {
			return false, err
		}
		err = report(ctx, t, reported, func(a state.Action) {
			e := maintain.Event{At: a.At, Action: a.Action, Detail: a.Detail, Took: a.Took}
			if a.Error != "" {
				e.Err = errors.New(a.Error)
			}
			if slices.Contains(Works[w], maintain.Kind(a.Action)) {
				t.Report(e)
			}
		})
		switch {
		case err != nil:
			return false, err
		case r == nil: // rowmill remove has removed it
			return false, nil
		case r.Done && r.Error != "":
			return false, fmt.Errorf("%s says: %s", r.TakenBy, r.Error)
		case r.Done:
			return false, nil
		case r.TakenBy == "" && time.Since(began) > mostUntaken:
			return false, engine.Hinted(fmt.Errorf("%s works on table %s, and has not taken the request in %s: it is a rowmill now or run --once, doesn't reach the database, or is of an earlier version", by, t.Table.Name, mostUntaken),
				"rowmill status %s; or the same once that process has ended", t.Declared.Source)
		}
	}
}

// report calls say with the actions in the table's log that are not in reported, oldest first.
func report(ctx context.Context, t *maintain.Table, reported map[state.Action]bool, say func(state.Action)) error {
	latest, err := t.State.Actions(ctx, t.Table.Name, 100)
	for _, a := range slices.Backward(latest) {
		if !reported[a] {
			reported[a] = true
			say(a)
		}
	}
	return err
}

// takeRequests accepts the requests for tables that this process leads, and queues their work.
func (s *Scheduler) takeRequests(ctx context.Context, led []*job) error {
	requests, err := led[0].State.Requests(ctx)
	for _, r := range requests {
		i := slices.IndexFunc(led, func(j *job) bool { return j.Table.Table.Name == r.Table })
		w := Work(r.Work)
		if i < 0 || Works[w] == nil || s.asks(led[i], w, false) {
			continue
		}
		taken, takeErr := led[i].State.Take(ctx, r.Table, r.Work)
		if err = errors.Join(err, takeErr); taken {
			s.asks(led[i], w, true)
		}
	}
	return err
}

// asks reports whether w is queued or being done already. If not, it queues w if now is true.
func (s *Scheduler) asks(j *job, w Work, now bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := j.lanes[w.Lane()]
	if slices.Contains(l.asked, w) || slices.Contains(l.serving, w) {
		return true
	}
	if now {
		l.asked = append(l.asked, w)
		s.lookAt(j, time.Now())
	}
	return false
}

// answer records that a requested work is done, or why it failed.
func (a *attempt) answer(w Work, failed error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), maintain.Beat)
	defer cancel()
	if err := a.State.Answer(ctx, a.Table.Table.Name, string(w), failed); err != nil {
		a.Report(maintain.Event{At: time.Now(), Action: string(w), Err: err})
	}
}
