package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// lockTries limits the attempts to take a lock: with the wait of each attempt and the
// pauses in between, at least half an hour.
const lockTries = 400

// The pause between attempts, in which other statements can proceed.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// locked repeats fn, which takes a table's lock, until it gets the lock. Each attempt
// waits a limited time, during which statements on the table queue behind it; between
// attempts they proceed. The holders of the lock are reported.
func (j *job) locked(ctx context.Context, table, what string, fn func() error) error {
	who := ""
	err := engine.Retry{First: firstPause, Last: lastPause, Tries: lockTries, Waiting: func(err error) error {
		blockers, blockersErr := j.DB.Blockers(ctx, &engine.Table{Name: table})
		if blockersErr != nil {
			return errors.Join(err, blockersErr)
		}
		who = heldBy(blockers)
		j.progress(Progress{Paused: what + " waits for the lock of " + table + who, Blockers: blockers})
		return nil
	}}.Do(ctx, func() error { return j.DB.Classify(fn()) })
	if errors.Is(err, engine.ErrLockTimeout) || errors.Is(err, engine.ErrDeadlock) {
		return fmt.Errorf("%s: %w%s", what, err, who)
	}
	return err
}

func heldBy(blockers []engine.Blocker) string {
	if len(blockers) == 0 {
		return ""
	}
	b := blockers[0]
	s := fmt.Sprintf(", which connection %d of %s@%s has, for %v", b.ID, b.User, b.Host, b.Age.Round(time.Second))
	if n := len(blockers) - 1; n > 0 {
		s += fmt.Sprintf(", and %d more", n)
	}
	return s
}

func (j *job) quote(name string) string { return j.DB.Dialect().Quote(name) }

// exec runs statements one after the other, each in its own transaction.
func (j *job) exec(ctx context.Context, statements ...string) error {
	for _, q := range statements {
		if _, err := j.DB.SQL().ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), j.DB.Classify(err))
		}
	}
	return nil
}
