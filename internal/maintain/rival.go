package maintain

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// rivals returns what creates or drops partitions of the table besides rowmill.
func (t taker) rivals(ctx context.Context) ([]engine.Rival, error) {
	db, ok := t.DB.(engine.Rivaled)
	if !ok || t.Schema == nil || !t.Schema.Partitioned {
		return nil, nil
	}
	return db.Rivals(ctx, t.Table.Name)
}

// besides looks for what keeps the table besides rowmill.
func (l *look) besides(ctx context.Context) error {
	all, err := l.taker().rivals(ctx)
	for _, r := range all {
		if !r.Unsure {
			l.s.problem("rival", r.Text(l.s.Table), "rowmill apply FILE, which stops it; or: "+strings.Join(r.Off, "; "))
		}
	}
	return err
}

// planRivals stops what keeps the table besides rowmill. What also keeps others is left to the
// owner.
func (t taker) planRivals(ctx context.Context, a *Application, _ *rolling.Declaration) error {
	all, err := t.rivals(ctx)
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
			return engine.Hinted(fmt.Errorf("%s: nobody would keep those without it", text), "take the line of %s out of what it does; or stop it, and let rowmill keep the others, too: %s", t.Table.Name, strings.Join(r.Off, "; "))
		}
		a.Steps = append(a.Steps, ApplyStep{What: fmt.Sprintf("stop %s, which creates or drops partitions of %s (--undo starts it again)", r.Name, t.Table.Name), SQL: r.Off, run: func(ctx context.Context) error {
			if err := t.State.AddUndo(ctx, t.Table.Name, "start "+r.Name+" again", r.On); err != nil {
				return err
			}
			t.reach("undo recorded")
			return t.locks().execTogether(ctx, r.Off)
		}})
	}
	return nil
}

// TakenOver reports whether apply has taken the table over from something that kept it before.
func (t *Table) TakenOver(ctx context.Context) (bool, error) {
	undo, err := t.State.Undos(ctx, t.Table.Name)
	if isNoTable(err) {
		return false, nil
	}
	return len(undo) > 0, err
}

// PlanUndoTakeover plans that the table is again kept by what kept it before: it is removed from
// rowmill as by PlanRemove, and then what apply took away is given back.
func (t *Table) PlanUndoTakeover(ctx context.Context) (*Application, error) {
	undo, err := t.State.Undos(ctx, t.Table.Name)
	if err != nil {
		return nil, err
	}
	a, err := t.remover().planRemove(ctx, Removal{}, undo)
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
		a.Steps = append(a.Steps, ApplyStep{What: u.What, SQL: u.SQL, run: func(ctx context.Context) error {
			if err := t.locks().execTogether(ctx, u.SQL); err != nil {
				return err
			}
			t.reach("undone")
			return t.State.DropUndo(ctx, t.Table.Name, u)
		}})
	}
	a.Steps = append(a.Steps, records)
	return a, nil
}
