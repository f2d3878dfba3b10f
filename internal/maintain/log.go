package maintain

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// repeatAfter is how long an identical failure is not logged again: without it, retries
// every second for hours would fill the log.
const repeatAfter = 30 * time.Second

// failures are the recent failures, and when they were logged.
type failures struct {
	mu   sync.Mutex
	last map[string]time.Time
	open map[string]bool // kinds of actions whose last entry in the log is a failure

	logged int // entries of this process
}

// trimEvery is the number of entries after which the oldest ones are removed.
const trimEvery = 100

// trims reports, at each new entry, whether the oldest ones are to be removed.
func (f *failures) trims() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logged++
	return f.logged%trimEvery == 1
}

// note records how a logged action ended.
func (f *failures) note(action string, failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]bool{}
	}
	f.open[action] = failed
}

// over reports whether the last entry of a kind of action is a failure.
func (f *failures) over(action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[action]
}

// ended reports whether the last entry of a kind of action is a failure, and resets
// that: the caller is about to log a success.
func (f *failures) ended(action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.open[action]
	if was {
		f.open[action] = false
	}
	return was
}

// repeated reports whether the same failure was logged less than repeatAfter ago, and
// otherwise records it.
func (f *failures) repeated(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.last[what]) < repeatAfter {
		return true
	}
	if f.last == nil || len(f.last) > 1000 {
		f.last = map[string]time.Time{}
	}
	f.last[what] = time.Now()
	return false
}

// log reports and logs an action. If the log can't be written, that is reported.
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
	err = t.State.Log(ctx, a)
	if err == nil && t.failed.trims() {
		err = t.State.TrimActions(ctx, t.Table.Name)
	}
	if err != nil {
		t.say(Event{At: time.Now(), Action: "log", Err: err})
	}
}
