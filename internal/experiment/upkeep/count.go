package upkeep

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
)

// A RowCount is the number of rows in a table, and in the periods that were dropped.
type RowCount struct {
	Table, Dropped int64
	// Moving means that a period was being removed during the count, so that its rows may have been
	// counted twice or not at all.
	Moving bool
}

// All returns the number of all rows.
func (c RowCount) All() int64 { return c.Table + c.Dropped }

// CountRows counts the rows of a table and of its dropped periods.
func CountRows(ctx context.Context, t *maintain.Table) (c RowCount, err error) {
	name := t.Declared.Name
	// leaving returns the number of changes in progress, and the rows of the dropped periods.
	leaving := func() (out [2]int64, err error) {
		changes, err := t.State.Changes(ctx, name)
		if err != nil {
			return out, err
		}
		periods, err := t.State.Periods(ctx, name)
		out[0] = int64(len(changes))
		for _, p := range periods {
			if p.State == state.Dropped {
				out[1] += p.Rows
			}
		}
		return out, err
	}
	before, err := leaving()
	if err != nil {
		return c, err
	}
	err = t.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM "+t.DB.Dialect().Quote(name)).Scan(&c.Table)
	if err != nil {
		return c, fmt.Errorf("count the rows of %s: %w", name, t.DB.Classify(err))
	}
	after, err := leaving()
	c.Dropped, c.Moving = before[1], before[0] > 0 || after != before
	return c, err
}
