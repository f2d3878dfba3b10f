package maintain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// locks has the locks of a table: turns of its changes (see TryLocked), and the declaration's lock.
type locks struct{ *table }

func (t *Table) locks() locks { return locks{t} }

// LeaderLock is the name of the lock that a process holds while it keeps the table.
func (f *followed) LeaderLock() string { return f.Table.Name + "/keep" }

const (
	// Beat is the interval of a leader's heartbeats. After three without one, it counts as gone.
	Beat = 5 * time.Second
	// FirstRetry is the first pause after a lock was not granted: in this time, the statements that
	// queued behind the request can run. The pauses grow up to LockPause, because each attempt delays
	// inserts by up to a second.
	FirstRetry = 500 * time.Millisecond
	LockPause  = 10 * time.Second
	// turnWait is how long a step waits for its turn: longer than any turn should last.
	turnWait = 5 * time.Second
	turnPoll = 20 * time.Millisecond
	// defaultBreath is how long a step keeps its turn after it failed to get the lock, so that the
	// statements queued behind it get through before another step asks for the lock.
	defaultBreath = 500 * time.Millisecond
)

// TryLocked tries a step that needs the table's lock. The steps of a table take turns across all
// lanes and processes: if two steps waited for the lock, an insert behind both would wait for twice
// the lock timeout.
func (t *Table) TryLocked(ctx context.Context, step engine.Step) error {
	return t.locks().waitTurn(ctx, func() error { return t.DB.Try(ctx, step) })
}

// waitTurn is TryLocked for a change that is no engine.Step.
func (t locks) waitTurn(ctx context.Context, change func() error) error {
	defer t.turn(ctx)()
	settle := func(context.Context) {}
	if t.Rollups != nil {
		var err error
		if settle, err = t.Rollups.Compare(ctx); err != nil {
			return err
		}
	}
	opened := t.gate.change(ctx)
	err := change()
	opened()
	settle(ctx)
	if errors.Is(err, engine.ErrLockTimeout) {
		_ = engine.Sleep(ctx, cmp.Or(t.breath, defaultBreath)) // err is the more useful error
	}
	return err
}

// Alter is TryLocked for a step that depends on the existing partitions.
func (t *Table) Alter(ctx context.Context, step func(have []rolling.Partition) engine.Step) error {
	have, err := t.DB.Catalog().Partitions(ctx, t.Table)
	if err != nil {
		return err
	}
	return t.TryLocked(ctx, step(have))
}

func (t locks) turn(ctx context.Context) (end func()) {
	if t.DB.Capabilities().SerialWrites { // the server runs one transaction at a time anyway
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

// gateWait is how long, at most, a step that needs the table's lock first waits for the end of this
// process's statements that read the table. A statement that computes roll-ups takes a fraction of
// gateWait.
const gateWait = 5 * time.Second

// A gate orders the statements of this process. On the server, a statement that reads the table
// blocks changes of its partitions, and inserts queue behind a waiting change. Therefore a change
// waits at the gate until this process's reading statements have ended, and new reading statements
// wait for the change.
type gate struct {
	mu               sync.Mutex
	readers, changes int
	ended            sync.Cond // a reader or a change has ended
}

// wait blocks until ok returns true or ctx ends. It calls ok with mu locked, and returns with mu
// locked.
func (g *gate) wait(ctx context.Context, ok func() bool) {
	defer context.AfterFunc(ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ended.Broadcast()
	})()
	g.mu.Lock()
	g.ended.L = &g.mu
	for !ok() && ctx.Err() == nil {
		g.ended.Wait()
	}
}

// end returns a function that decrements count, which is readers or changes.
func (g *gate) end(count *int) func() {
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		*count--
		g.ended.Broadcast()
	}
}

// read begins a statement that reads the table, and returns the function that ends it.
func (g *gate) read() (end func()) {
	g.wait(context.Background(), func() bool { return g.changes == 0 })
	defer g.mu.Unlock()
	g.readers++
	return g.end(&g.readers)
}

// change begins a change of the table once no statement reads the table, or after gateWait at the
// latest. It returns the function that ends the change.
func (g *gate) change(ctx context.Context) (end func()) {
	ctx, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	g.mu.Lock()
	g.changes++
	g.mu.Unlock()
	g.wait(ctx, func() bool { return g.readers == 0 })
	defer g.mu.Unlock()
	return g.end(&g.changes)
}

// Locks of a declaration. A process that stores a declaration, or removes rows according to one,
// holds declareLock meanwhile. While the process waits for declareLock, it holds applyLock, and is
// therefore next: an apply waits for one period to be dropped, however many are due.
const (
	declareLock = "/declaration"
	applyLock   = "/applying"
)

// How long a process waits for the locks of a declaration. A process that removes rows holds them
// while it detaches a period or drops its table, which may take minutes if the file is large. A
// process that applies a declaration holds them for moments.
const (
	applyWait  = 5 * time.Minute
	removeWait = 5 * time.Second
	lockPoll   = 20 * time.Millisecond
)

// declareLease waits for the lock of the declaration and takes it.
func (t locks) declareLease(ctx context.Context, patience time.Duration) (_ engine.Lease, err error) {
	end := time.Now().Add(patience)
	next, err := t.lease(ctx, applyLock, end)
	if err != nil {
		return nil, err
	}
	lease, err := t.lease(ctx, declareLock, end)
	if err != nil {
		return nil, errors.Join(err, next.Release())
	}
	if err := next.Release(); err != nil {
		return nil, errors.Join(err, lease.Release())
	}
	return lease, nil
}

func (t locks) lease(ctx context.Context, lock string, end time.Time) (lease engine.Lease, err error) {
	err = engine.Retry{First: lockPoll, Last: lockPoll, Until: end}.Do(ctx, func() (err error) {
		lease, err = t.DB.Lead(ctx, t.Table.Name+lock)
		return err
	})
	if errors.Is(err, engine.ErrLockTimeout) && ctx.Err() == nil {
		// Without the error class of the table's lock: no transaction blocks this one.
		err = fmt.Errorf("the declaration of %s is locked by another rowmill, which applies another one or removes rows by it: %v", t.Table.Name, err)
	}
	return lease, err
}

// Declaring runs fn while no other process applies a declaration of the table or removes rows
// according to one.
func (t *Table) Declaring(ctx context.Context, fn func(engine.Lease) error) error {
	return t.locks().declaring(ctx, applyWait, fn)
}

// withDeclarationLocked calls remove, which deletes or detaches rows, while no process can apply
// another declaration. If the mark of the declaration in force is not as, it returns errChanged and
// doesn't call remove.
func (t locks) withDeclarationLocked(ctx context.Context, as mark, remove func(ctx context.Context) error) error {
	return t.declaring(ctx, removeWait, func(lease engine.Lease) error {
		stored, err := t.State.Declared(ctx, t.Table.Name)
		if err != nil {
			return err
		}
		if stored == nil || markOf(stored) != as {
			return errChanged
		}
		return engine.WhileHeld(ctx, lease, context.Canceled, remove)
	})
}

// declaring runs fn while it holds the lock of the declaration.
func (t locks) declaring(ctx context.Context, patience time.Duration, fn func(engine.Lease) error) (err error) {
	lease, err := t.declareLease(ctx, patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return fn(lease)
}
