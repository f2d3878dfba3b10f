package adopt

import (
	"context"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
)

// PlanFinish returns the statements that Finish would run, in the form of Plan.
// It fails if Finish would refuse.
func PlanFinish(ctx context.Context, o Options) ([]string, error) {
	j, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := j.mayFinish(); err != nil {
		return nil, err
	}
	p := planner{job: j}
	p.say("the table that "+o.Table.Name+" was, with its rows", p.dropOldStatement())
	p.say("rowmill's note of the adoption, in rowmill_journal, is deleted")
	return p.out, nil
}

// PlanUndo returns the statements that Undo would run from the adoption's current
// step, in the form of Plan. It fails if Undo would refuse.
func PlanUndo(ctx context.Context, o Options) ([]string, error) {
	j, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := j.mayUndo(); err != nil {
		return nil, err
	}
	p := planner{job: j, mirror: j.back()}
	step := j.change.Step
	if !Undoing(j.change) {
		swapped, err := j.swapped(ctx)
		if err != nil {
			return nil, err
		}
		step = stepCancel
		if swapped {
			step = stepBack
			if err := p.unhooked(ctx, oldName(o.Table.Name), "what is left of the way there"); err != nil {
				return nil, err
			}
		}
	}
	if err := p.wayBack(ctx, step); err != nil {
		return nil, err
	}
	p.say("rowmill's notes of the table, in rowmill_journal, rowmill_tables, rowmill_states and rowmill_leaders, are deleted")
	return p.out, nil
}

// wayBack adds the steps of Undo, from the given one on.
func (p *planner) wayBack(ctx context.Context, step string) error {
	if step == stepCancel {
		if err := p.unhooked(ctx, p.Table.Name, "triggers and log"); err != nil {
			return err
		}
		s, err := p.exists(ctx, newName(p.Table.Name))
		if err != nil || s == nil {
			return err
		}
		return p.dropsNew(ctx, newName(p.Table.Name))
	}
	order := []string{stepBack, stepBackVerify, stepBackSwap, stepBackClean}
	for _, step := range order[slices.Index(order, step):] {
		var err error
		switch step {
		case stepBack:
			err = p.turnedBack(ctx)
		case stepBackVerify:
			err = p.comparedBack(ctx)
		case stepBackSwap:
			err = p.renamedBack(ctx)
		case stepBackClean:
			if err = p.unhooked(ctx, newName(p.Table.Name), "triggers and log"); err == nil {
				err = p.dropsNew(ctx, p.rollingNow(ctx))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// turnedBack adds the log and the triggers on the rolling table.
func (p *planner) turnedBack(ctx context.Context) error {
	beside, err := p.beside(ctx, p.mirror)
	if err != nil {
		return err
	}
	p.say("a log of keys that change in the rolling table", beside...)
	if p.sqlite() {
		return nil
	}
	return p.hooked(ctx)
}

// comparedBack adds the statements that update the plain table.
func (p *planner) comparedBack(ctx context.Context) error {
	if p.sqlite() {
		return nil // everything happens under the lock
	}
	if err := p.compared(ctx); err != nil {
		return err
	}
	_, where, err := p.chunk()
	if err != nil {
		return err
	}
	c := p.mirror.copier()
	c.Skip = false
	p.say("for each chunk that differs, its rows anew", p.DB.Bind("DELETE FROM "+c.Into+" WHERE "+where), p.DB.Bind(c.Insert(and(where, c.Where))))
	p.drained()
	return nil
}

// renamedBack adds the cut-over back to the plain table.
func (p *planner) renamedBack(ctx context.Context) error {
	parts, err := p.DB.Catalog().Partitions(ctx, p.mirror.table(p.mirror.src))
	if err != nil {
		return err
	}
	p.mirror.parts = parts
	defer func() { p.mirror.parts = nil }()
	return p.renamed(ctx)
}

// unhooked adds the removal of the triggers and the log from the table that will
// have that name by then.
func (p *planner) unhooked(ctx context.Context, on, what string) error {
	late, err := p.emptyLate(ctx)
	if err != nil {
		return err
	}
	p.say(what, slices.Concat(p.dropTriggers(on), p.dropFunctions(), []string{p.dropLog()}, late)...)
	return nil
}

// rollingNow returns the current name of the rolling table.
func (p *planner) rollingNow(ctx context.Context) string {
	if swapped, err := p.swapped(ctx); err == nil && swapped {
		return p.Table.Name
	}
	return newName(p.Table.Name)
}

// dropsNew adds the removal of the rolling table. now is its current name; the
// statements use the name that it will have by then.
func (p *planner) dropsNew(ctx context.Context, now string) error {
	t := *p.Table
	t.Name = now
	parts, err := p.DB.Catalog().Partitions(ctx, &t)
	if err != nil {
		return err
	}
	t.Name = newName(p.Table.Name)
	drop, err := p.DB.Dialect().Render(engine.DropTable{Table: &t, Partitions: parts})
	if err != nil {
		return err
	}
	p.say("the rolling table", drop...)
	return nil
}
