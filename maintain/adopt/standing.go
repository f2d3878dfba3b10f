package adopt

import (
	"context"
	"errors"
	"slices"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/state"
)

// lockName is that of the lock of the one process that adopts a table.
func lockName(table string) string { return "adopt " + table }

// Done returns how many rows of an adoption's step are done, of about how many.
// Both are 0 in steps that count none.
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

// Working reports whether a process works at the adoption of a table now. It
// asks for the lock of that process, and gives it back where it gets it.
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

// NeedsLock reports whether the step that an adoption is at takes a lock on the
// table that others may hold up.
func NeedsLock(c *state.Change) bool {
	return slices.Contains([]string{stepTriggers, stepSwap, stepClean, stepDrop, stepCancel, stepBack, stepBackSwap, stepBackClean}, c.Step)
}

// Ended reports whether the table is a rolling one for good but for its old
// table: that is kept, or being dropped.
func Ended(c *state.Change) bool { return c != nil && (c.Step == stepKept || c.Step == stepDrop) }
