package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// attempt begins a transaction in a goroutine and inserts one row of notes. If
// writers take turns, Begin waits for a lock, otherwise Insert does.
func (lo *loading) attempt(ctx context.Context, key string) <-chan error {
	done := make(chan error, 1)
	b := lo.entries(key)
	go func() {
		err := lo.l.Begin(ctx)
		if err == nil {
			_, err = lo.l.Insert(ctx, lo.notes, b, 0, 1)
		}
		done <- err
	}()
	return done
}

// insertion is attempt within an open transaction.
func (lo *loading) insertion(ctx context.Context, key string) <-chan error {
	done := make(chan error, 1)
	b := lo.entries(key)
	go func() {
		_, err := lo.l.Insert(ctx, lo.notes, b, 0, 1)
		done <- err
	}()
	return done
}

// wait returns the result of an attempt.
func wait(t testing.TB, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(longest):
		t.Fatal("it doesn't end")
		return nil
	}
}

// stillWaits fails the test if an attempt has ended.
func stillWaits(t testing.TB, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("it didn't wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
}

// waits checks inserts of one key by two transactions, of which the first is still open: the second
// insert must wait for the end of the first transaction, and be a duplicate only if it was
// committed.
func (s loaders) waits(t *testing.T) {
	lo := s.loading(t)
	other := lo.another()
	for i, commits := range []bool{true, false, true} {
		key := fmt.Sprint("key ", i)
		lo.begin()
		lo.insert(lo.notes, lo.entries(key))
		done := other.attempt(within(t), key)
		stillWaits(t, done)
		if !commits {
			lo.reset()
			if err := wait(t, done); err != nil {
				t.Fatalf("after a roll-back: %v", err)
			}
			other.commit()
			continue
		}
		lo.commit()
		err := wait(t, done)
		wantError(t, err, engine.ErrDuplicateKey)
		wantError(t, err, engine.ErrRefused)
		other.insert(lo.notes, lo.entries(key+" more"))
		other.commit()
	}
	lo.rows(0, 5)
}

// lockTimeout checks that the wait for a lock has a time limit, after which the waiting transaction
// has ended: it has no locks, even before Reset.
func (s loaders) lockTimeout(t *testing.T) {
	lo := s.loading(t)
	other, third := lo.another(), lo.another()
	lo.begin()
	lo.insert(lo.notes, lo.entries("a"))
	began := time.Now()
	var err error
	if lo.db.Capabilities().SerialWrites {
		err = wait(t, other.attempt(within(t), "a"))
	} else {
		other.begin()
		other.insert(lo.notes, lo.entries("held"))
		err = wait(t, other.insertion(within(t), "a"))
		third.begin()
		third.insert(lo.notes, lo.entries("held"))
		third.reset()
	}
	wantError(t, err, engine.ErrLockTimeout)
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("it waited for %v", took)
	}
	if !engine.Retryable(err) || errors.Is(err, engine.ErrRefused) {
		t.Errorf("not to be tried again: %v", err)
	}
	lo.commit()
	other.reset()
	other.begin()
	other.insert(lo.notes, lo.entries("b"))
	other.commit()
	lo.rows(0, 2)
}

// cancelWait checks that a canceled context ends the wait for a lock, and that the
// transaction leaves no rows and no locks.
func (s loaders) cancelWait(t *testing.T) {
	lo := s.loading(t)
	other, third := lo.another(), lo.another()
	for i := range 2 {
		key, held := fmt.Sprint("key ", i), fmt.Sprint("held ", i)
		lo.begin()
		lo.insert(lo.notes, lo.entries(key))
		ctx, cancel := context.WithCancel(within(t))
		var done <-chan error
		if lo.db.Capabilities().SerialWrites {
			done = other.attempt(ctx, key)
		} else {
			other.begin()
			other.insert(lo.notes, lo.entries(held))
			done = other.insertion(ctx, key)
		}
		stillWaits(t, done)
		began := time.Now()
		cancel()
		err := wait(t, done)
		if took := time.Since(began); !errors.Is(err, context.Canceled) || took > 7*time.Second {
			t.Fatalf("after %v: %v", took, err)
		}
		if !lo.db.Capabilities().SerialWrites {
			third.begin()
			third.insert(lo.notes, lo.entries(held))
			third.reset()
			if took := time.Since(began); took > 7*time.Second {
				t.Errorf("its locks were held for %v", took)
			}
		}
		lo.reset() // the key must not be inserted later
		lo.rows(0, i)
		time.Sleep(100 * time.Millisecond)
		lo.rows(0, i)
		if _, err := other.l.Insert(within(t), lo.notes, lo.entries(key), 0, 1); err == nil || errors.Is(err, engine.ErrRefused) {
			t.Error("inserted in a transaction that is over")
		}
		other.reset()
		other.begin()
		other.insert(lo.notes, lo.entries(key))
		other.commit()
		lo.rows(0, i+1)
	}
}

// cancelBetween calls each part of a transaction with a context that has ended.
func (s loaders) cancelBetween(t *testing.T) {
	lo := s.loading(t)
	if err := lo.l.Begin(canceled()); !errors.Is(err, context.Canceled) {
		t.Errorf("begin: %v", err)
	}
	lo.reset()
	lo.begin()
	lo.insert(lo.notes, lo.entries("a"))
	if _, err := lo.l.Insert(canceled(), lo.notes, lo.entries("b"), 0, 1); !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrRefused) {
		t.Errorf("insert: %v", err)
	}
	if err := lo.l.Commit(within(t)); err == nil {
		t.Error("committed a transaction that is over")
	}
	lo.reset()
	lo.rows(0, 0)
	lo.begin()
	lo.insert(lo.notes, lo.entries("c"))
	if err := lo.l.Commit(canceled()); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	lo.reset()
	lo.rows(0, 0)
	// A context that ends after its call has no effect on the next one.
	for i := range 10 {
		ctx, cancel := context.WithCancel(within(t))
		err := lo.l.Begin(ctx)
		cancel()
		Must(t, err)
		lo.insert(lo.notes, lo.entries(fmt.Sprint(i)))
		lo.commit()
	}
	lo.rows(0, 10)
	if err := lo.l.Reset(canceled()); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("reset: %v", err)
	}
	lo.reset()
}

// killed checks that a transaction has no effect if its connection is lost, and
// that Reset makes a new connection.
func (s loaders) killed(t *testing.T) {
	lo := s.loading(t)
	if lo.db.Capabilities().Embedded {
		t.Skip("there is no connection to kill")
	}
	for i, next := range []func() error{
		func() error { return lo.l.Commit(within(t)) },
		func() error {
			_, err := lo.l.Insert(within(t), lo.rolls, lo.readings(2), 0, 1)
			return err
		},
	} {
		lo.begin()
		lo.insert(lo.notes, lo.entries(fmt.Sprint("lost ", i)))
		lo.insert(lo.rolls, lo.readings(1))
		lo.kill()
		err := next()
		wantError(t, err, engine.ErrConnectionLost)
		if errors.Is(err, engine.ErrRefused) {
			t.Errorf("refused: %v", err)
		}
		if err := lo.l.Begin(within(t)); err == nil {
			t.Error("begun on a lost connection")
		}
		lo.reset()
		lo.rows(0, i)
		lo.begin()
		lo.insert(lo.notes, lo.entries(fmt.Sprint("kept ", i)))
		lo.commit()
		lo.rows(0, i+1)
	}
	// The loader has made no call that would have detected the loss.
	lo.begin()
	lo.insert(lo.rolls, lo.readings(1))
	lo.kill()
	lo.reset()
	lo.begin()
	lo.insert(lo.rolls, lo.readings(1))
	lo.commit()
	lo.rows(1, 2)
}

// kill terminates the connection that has a transaction on readings.
func (lo *loading) kill() {
	lo.Helper()
	blockers := Blockers(lo, lo.db, lo.Table, true)
	if len(blockers) == 0 {
		lo.Fatal("the loader's connection isn't found")
	}
	q := "KILL %d"
	if lo.db.Info().Engine == "postgres" {
		q = "SELECT pg_terminate_backend(%d)"
	}
	for _, b := range blockers {
		if b.Own {
			lo.Errorf("a loader's connection is taken for one of maintenance: %+v", b)
		}
		lo.exec(lo, lo.db.SQL(), fmt.Sprintf(q, b.ID))
	}
	if len(Blockers(lo, lo.db, lo.Table, false)) > 0 {
		lo.Fatal("the connection doesn't end")
	}
}

// twoAtOnce runs loaders in separate goroutines. Some of their transactions fail;
// no row may be lost or duplicated.
func (s loaders) twoAtOnce(t *testing.T) {
	lo := s.loading(t)
	const loaders, rounds, each = 2, 30, 20
	results := make(chan error, loaders)
	var again atomic.Int64 // retries of all transactions
	for n := range loaders {
		one := lo.another()
		go func() {
			results <- func() error {
				for r := range rounds {
					key := fmt.Sprintf("%d/%d", n, r)
					var ids []int64
					for i := range each {
						ids = append(ids, int64((n*rounds+r)*each+i))
					}
					for {
						err := one.all(within(t), key, ids, r%3 == 1)
						if err == nil {
							break
						}
						if !engine.Retryable(err) || again.Add(1) > mostRetries {
							return fmt.Errorf("%d retries: %w", again.Load(), err)
						}
						if err := one.l.Reset(within(t)); err != nil {
							return err
						}
					}
				}
				return nil
			}()
		}()
	}
	for range loaders {
		if err := wait(t, results); err != nil {
			t.Error(err)
		}
	}
	lo.Logf("%d retries", again.Load())
	lo.rows(loaders*rounds*each, loaders*rounds)
}

// all executes a transaction: a note, a refused batch if refused is set, readings.
func (lo *loading) all(ctx context.Context, key string, ids []int64, refused bool) error {
	if err := lo.l.Begin(ctx); err != nil {
		return err
	}
	if _, err := lo.l.Insert(ctx, lo.notes, lo.entries(key), 0, 1); err != nil {
		return err
	}
	if refused {
		b := lo.entries(key+"x", key)
		if _, err := lo.l.Insert(ctx, lo.notes, b, 0, 2); !errors.Is(err, engine.ErrRefused) {
			return fmt.Errorf("a key twice: %w", err)
		}
	}
	b := lo.readings(ids...)
	if _, err := lo.l.Insert(ctx, lo.rolls, b, 0, b.Rows()); err != nil {
		return err
	}
	return lo.l.Commit(ctx)
}

// loaderClosed checks that calls of a closed loader have no effect.
func (s loaders) loaderClosed(t *testing.T) {
	lo := s.loading(t)
	lo.begin()
	lo.insert(lo.notes, lo.entries("a"))
	Must(t, errors.Join(lo.l.Close(), lo.l.Close()))
	if err := lo.l.Begin(within(t)); err == nil {
		t.Error("begun after Close")
	}
	if _, err := lo.l.Insert(within(t), lo.notes, lo.entries("b"), 0, 1); err == nil {
		t.Error("inserted after Close")
	}
	if err := lo.l.Commit(within(t)); err == nil {
		t.Error("committed after Close")
	}
	lo.rows(0, 0)
}
