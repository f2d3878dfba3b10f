package maintain

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/state"
)

// AdoptionStatus returns the status of the table's adoption, or of its undoing. It
// is nil if none is in progress, and if only dropping the old table is left.
// Nothing is changed.
func (t *Table) AdoptionStatus(ctx context.Context) (*Status, error) {
	c, err := adopt.UnderWay(ctx, t.State, t.Declared.Name)
	if err != nil || c == nil || adopt.Ended(c) {
		return nil, err
	}
	d, s := t.Declared, t.newStatus()
	s.Adopting = true
	cs, err := changeStatus(c, "adopt")
	if err != nil {
		return nil, err
	}
	what, try := "the adoption", "rowmill apply FILE, which goes on, or rowmill apply FILE --undo"
	if adopt.Undoing(c) {
		cs.What, what, try = "undo adopt", "the way back to the plain table", "rowmill apply FILE --undo, which goes on"
	}
	s.Rows = cs.Of
	working, err := adopt.Working(ctx, t.DB, d.Name)
	if err != nil {
		return nil, fmt.Errorf("find out whether somebody works at %s of %s: %w", what, d.Name, err)
	}
	if !working {
		cs.Interrupted = true
		text := fmt.Sprintf("%s was interrupted at its step %s, and nobody works at it", what, c.Step)
		if c.Error != "" {
			text += ": " + c.Error
		}
		s.problem("stopped", text, try)
	}
	s.Changes = []ChangeStatus{cs}
	if adopt.NeedsLock(c) {
		who, err := t.DB.Blockers(ctx, &engine.Table{Name: d.Name})
		if err != nil {
			return nil, err
		}
		for _, b := range who {
			if b.Age >= passing {
				s.Blockers = append(s.Blockers, blockerStatus(b))
			}
		}
	}
	return s, nil
}

// changeStatus returns a change as it appears in a status.
func changeStatus(c *state.Change, what string) (ChangeStatus, error) {
	cs := ChangeStatus{What: what, Step: c.Step, Since: c.Started.UTC(), Tries: c.Tries, Error: c.Error}
	if c.Kind != adopt.Kind {
		return cs, nil
	}
	var err error
	if cs.Rows, cs.Of, err = adopt.Done(c); err != nil || cs.Of <= 0 {
		return cs, err
	}
	percent := min(100*float64(cs.Rows)/float64(cs.Of), 100)
	cs.Percent = &percent
	return cs, nil
}

func blockerStatus(b engine.Blocker) BlockerStatus {
	return BlockerStatus{ID: b.ID, User: b.User, Host: b.Host, Age: b.Age.Seconds(), Statement: b.Statement, Own: b.Own}
}
