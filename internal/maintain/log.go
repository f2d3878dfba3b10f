package maintain

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// repeatAfter is how long an identical failure is not logged again: without it, retries
// every second for hours would fill the log.
const repeatAfter = 30 * time.Second

// failures are the recent failures of this process.
type failures struct {
	// open holds the kinds of actions, and whether their last entry in the log is a
	// failure; last when each failure was logged.
	open, last sync.Map
	logged     atomic.Int64 // entries of this process
}

// trimEvery is the number of entries after which the oldest ones are removed.
const trimEvery = 100

// over reports whether the last entry of a kind of action is a failure.
func (f *failures) over(action string) bool {
	failed, _ := f.open.Load(action)
	return failed == true
}

// repeated reports whether the same failure was logged less than repeatAfter ago, and
// otherwise records it.
func (f *failures) repeated(what string) bool {
	now := time.Now()
	f.last.Range(func(what, at any) bool {
		if now.Sub(at.(time.Time)) >= repeatAfter {
			f.last.Delete(what)
		}
		return true
	})
	_, repeated := f.last.LoadOrStore(what, now)
	return repeated
}

// log reports and logs an action. If the log can't be written, that is reported.
func (t *Table) log(ctx context.Context, action, detail string, took time.Duration, err error) {
	if err != nil && t.failed.repeated(action+" "+detail) {
		return
	}
	t.failed.open.Store(action, err != nil)
	a := state.Action{At: time.Now(), Table: t.Table.Name, Action: action, Detail: detail, Took: took}
	if err != nil {
		a.Error, a.Locked = err.Error(), errors.Is(err, engine.ErrLockTimeout)
	}
	t.say(Event{At: a.At, Action: action, Detail: detail, Took: took, Err: err, Waiting: errors.Is(err, engine.ErrLockTimeout)})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = t.State.Log(ctx, a)
	if err == nil && t.failed.logged.Add(1)%trimEvery == 1 { // also at the first one
		err = t.State.TrimActions(ctx, t.Table.Name)
	}
	if err != nil {
		t.say(Event{At: time.Now(), Action: "log", Err: err})
	}
}
