package maintain

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rowmill/rowmill/engine"
)

const (
	// turnWait is how long a step waits for its turn, after which it goes on
	// without: longer than anybody's turn should take.
	turnWait = 5 * time.Second
	turnPoll = 20 * time.Millisecond
	// defaultBreath is how long nobody asks for the lock after somebody has
	// waited for it in vain, so that all who queued behind that get through.
	defaultBreath = 500 * time.Millisecond
)

// tryLocked tries a step that needs the table's lock, when no other one of this
// table does, of whatever lane and process. Two that waited for it one behind
// the other would hold up an insert behind both for twice the lock bound.
func (t *Table) tryLocked(ctx context.Context, step engine.Step) error {
	defer t.turn(ctx)()
	err := t.try(ctx, step)
	if errors.Is(err, engine.ErrLockTimeout) {
		_ = engine.Sleep(ctx, cmp.Or(t.breath, defaultBreath)) // the error below says more
	}
	return err
}

// turn waits for the turn, and returns what ends it.
func (t *Table) turn(ctx context.Context) (end func()) {
	if t.DB.Capabilities().SerialWrites { // transactions take turns there
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	for !t.turns.TryLock() {
		if engine.Sleep(ctx, turnPoll) != nil {
			return func() {}
		}
	}
	for {
		lease, err := t.DB.Lead(ctx, t.Table.Name+"/turn")
		if err == nil {
			return func() {
				_ = lease.Release() // what fails has lost its connection, and the lock with it
				t.turns.Unlock()
			}
		}
		if engine.Sleep(ctx, turnPoll) != nil {
			return t.turns.Unlock
		}
	}
}
