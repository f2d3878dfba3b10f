package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/rolling"
)

// planRivals adds steps that stop other programs which create or drop partitions of the table. If
// such a program also keeps other tables, planRivals returns an error, because the user must
// decide.
func (t planner) planRivals(ctx context.Context, a *Plan, _ *rolling.Declaration) error {
	all, err := t.Rivals(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		text := r.Text(t.Table.Name)
		switch {
		case r.Unsure:
			a.Notes = append(a.Notes, text)
			continue
		case len(r.Others) > 0:
			return engine.Hinted(fmt.Errorf("%s. It also keeps other tables, which would no longer be kept", text), "take the line of %s out of what it does; or stop it, and let rowmill keep the others, too: %s", t.Table.Name, strings.Join(r.Off, "; "))
		}
		a.Steps = append(a.Steps, Step{What: fmt.Sprintf("stop %s, which creates or drops partitions of %s (--undo starts it again)", r.Name, t.Table.Name), SQL: r.Off, run: func(ctx context.Context) error {
			if err := t.State.AddUndo(ctx, t.Table.Name, "start "+r.Name+" again", r.On); err != nil {
				return err
			}
			t.Reach("undo recorded")
			return t.ExecTogether(ctx, r.Off)
		}})
	}
	return nil
}

// PlanUndo plans the end of a takeover. Like PlanRemoval, it plans steps that remove the table from
// rowmill. Further steps restore the partitions that apply has removed and the programs that apply
// has stopped.
func PlanUndo(ctx context.Context, t *maintain.Table) (*Plan, error) {
	undo, err := t.State.Undos(ctx, t.Table.Name)
	if err != nil {
		return nil, err
	}
	a, err := planner{t}.planRemove(ctx, Removal{}, undo)
	if err != nil {
		return nil, err
	}
	records := a.Steps[len(a.Steps)-1] // the last step is the removal of all records
	a.Steps = a.Steps[:len(a.Steps)-1]
	for i := len(undo) - 1; i >= 0; i-- {
		u := undo[i]
		if len(u.SQL) == 0 {
			continue
		}
		a.Steps = append(a.Steps, Step{What: u.What, SQL: u.SQL, run: func(ctx context.Context) error {
			if err := t.ExecTogether(ctx, u.SQL); err != nil {
				return err
			}
			t.Reach("undone")
			return t.State.DropUndo(ctx, t.Table.Name, u)
		}})
	}
	a.Steps = append(a.Steps, records)
	return a, nil
}

// TakenOver reports whether apply has taken over a table that was partitioned before.
func TakenOver(ctx context.Context, t *maintain.Table) (bool, error) {
	undo, err := t.State.Undos(ctx, t.Table.Name)
	if errors.Is(err, engine.ErrNoTable) {
		return false, nil
	}
	return len(undo) > 0, err
}
