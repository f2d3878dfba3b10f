package maintain

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

const (
	// turnWait is how long a step waits for its turn before it proceeds without it.
	// It is longer than any turn should last.
	turnWait = 5 * time.Second
	turnPoll = 20 * time.Millisecond
	// defaultBreath is the pause between attempts to get the lock after one has
	// failed, so that all statements queued behind that attempt get through.
	defaultBreath = 500 * time.Millisecond
)

// tryLocked tries a step that needs the table's lock. The steps of a table take
// turns across all lanes and processes: if two were queued for the lock, an insert
// behind both would wait for twice the lock timeout.
func (t *Table) tryLocked(ctx context.Context, step engine.Step) error {
	defer t.turn(ctx)()
	err := t.try(ctx, step)
	if errors.Is(err, engine.ErrLockTimeout) {
		_ = engine.Sleep(ctx, cmp.Or(t.breath, defaultBreath)) // err is the more useful error
	}
	return err
}

// turn waits for the step's turn, and returns the function that ends it.
func (t *Table) turn(ctx context.Context) (end func()) {
	if t.DB.Capabilities().SerialWrites { // its transactions are serial anyway
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
				_ = lease.Release() // a failure means that the connection is lost, and the lock with it
				t.turns.Unlock()
			}
		}
		if engine.Sleep(ctx, turnPoll) != nil {
			return t.turns.Unlock
		}
	}
}
