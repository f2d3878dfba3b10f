package adopt

import (
	"context"
	"errors"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// lockName returns the name of the lock held by the process that adopts a table.
func lockName(table string) string { return "adopt " + table }

// Done returns how many rows of an adoption's step are done, and the approximate
// total. Both are 0 in steps that count no rows.
func Done(c *state.Change) (rows, of int64, err error) {
	if c.Step != stepCopy && c.Step != stepVerify && c.Step != stepBackVerify {
		return 0, 0, nil
	}
	var d data
	if err := c.Load(&d); err != nil {
		return 0, 0, err
	}
	if c.Step == stepCopy {
		return d.Rows, d.Of, nil
	}
	return d.CheckedRows, d.Of, nil
}

// Working reports whether a process is currently working on the adoption of a
// table. It tries to take that process's lock, and releases it if it gets it.
func Working(ctx context.Context, db engine.Keeper, table string) (bool, error) {
	lease, err := db.Lead(ctx, lockName(table))
	if errors.Is(err, engine.ErrLockTimeout) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lease.Release()
}

// NeedsLock reports whether the adoption's current step takes a table lock that
// other transactions may delay.
func NeedsLock(c *state.Change) bool {
	return slices.Contains([]string{stepTriggers, stepSwap, stepClean, stepDrop, stepCancel, stepBack, stepBackSwap, stepBackClean}, c.Step)
}

// Ended reports whether only the old table remains: it is kept, or being dropped.
func Ended(c *state.Change) bool { return c != nil && (c.Step == stepKept || c.Step == stepDrop) }
