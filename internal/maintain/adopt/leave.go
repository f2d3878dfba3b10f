package adopt

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// Leave converts a rolling table to a plain one by the steps of Undo. Undo copies changes to the
// old plain table; Leave begins with a new, empty one. So the comparison finds that all chunks
// differ, and copies them.

// Leaving reports whether a table is becoming a plain one by Leave.
func Leaving(c *state.Change) bool {
	var d data
	return c != nil && c.Kind == Kind && c.Load(&d) == nil && d.Left
}

// leaving is the error of other verbs while Leave is in progress.
func (j *job) leaving() error {
	return refusal{engine.Hinted(fmt.Errorf("table %s is becoming a plain one", j.Table.Name), "rowmill remove FILE --plain, which completes that, or rowmill remove FILE --plain --cancel")}
}

// Leave makes the rolling table a plain one with the same rows and keys, or continues a Leave.
// Meanwhile the table is used and maintained as before. In the end the rolling table is dropped.
func Leave(ctx context.Context, o Options) error {
	return exclusively(ctx, o, func(ctx context.Context, j *job) error {
		if j.change == nil {
			if err := j.beginLeave(ctx); err != nil {
				return err
			}
		}
		if !j.data.Left {
			return refusal{engine.Hinted(fmt.Errorf("table %s is being adopted, at step %s", o.Table.Name, j.change.Step), "rowmill apply FILE, which completes that; or --undo")}
		}
		return j.runSteps(ctx, "")
	})
}

// CancelLeave gives up Leave before the cut-over: the table stays a rolling one, and the plain copy
// is dropped.
func CancelLeave(ctx context.Context, o Options) error {
	return exclusively(ctx, o, func(ctx context.Context, j *job) error {
		if j.change == nil || !j.data.Left {
			return engine.Hinted(fmt.Errorf("table %s isn't becoming a plain one", o.Table.Name), "rowmill status FILE")
		}
		m := j.back()
		if err := m.sql.Recover(ctx); err != nil {
			return err
		}
		if rolls, err := j.swapped(ctx); err != nil || !rolls {
			return errors.Join(err, refusal{engine.Hinted(fmt.Errorf("table %s is a plain one already", o.Table.Name), "rowmill remove FILE --plain, which completes that")})
		}
		if err := j.dropTriggers(ctx, m, j.Table.Name); err != nil {
			return err
		}
		if err := j.exec(ctx, "DROP TABLE IF EXISTS "+j.quote(m.Target.Name)); err != nil {
			return err
		}
		return j.State.End(ctx, j.State.DB(), j.change)
	})
}

// PlanLeave returns the statements of Leave, in the form of Planned.Statements. If Leave is in
// progress, PlanLeave returns only a comment that says so. It fails if Leave would be refused.
func PlanLeave(ctx context.Context, o Options) ([]string, error) {
	j, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	if j.change != nil {
		return []string{"-- it is in progress, at step " + j.change.Step + ", and continues from there"}, nil
	}
	if err := j.mayLeave(ctx); err != nil {
		return nil, err
	}
	p := planner{job: j, mirror: j.back()}
	p.say("an empty plain table with the same columns and keys", p.template(p.mirror)...)
	p.say("a log of keys that change in the rolling table", p.mirror.sql.Tables()...)
	p.say("attributes of the table beside its definition, such as grants and comments, as they are then")
	if err := p.triggers(ctx); err != nil {
		return nil, err
	}
	if err := p.comparedBack(ctx); err != nil {
		return nil, err
	}
	remark, statements, err := p.mirror.sql.CutOverStatements(nil)
	if err != nil {
		return nil, err
	}
	p.say("under the lock: what is left in the log as above, and the names"+remark, statements...)
	return p.out, p.cleanedBack(ctx)
}

func (j *job) mayLeave(ctx context.Context) error {
	s := j.Schema
	if len(s.PrimaryKey) == 0 {
		return engine.Hinted(fmt.Errorf("%s has no primary key, and rows are copied in the order of its values", s.Name), "ALTER TABLE ... ADD PRIMARY KEY")
	}
	for _, name := range []string{oldName(j.Table.Name), newName(j.Table.Name), logName(j.Table.Name)} {
		there, err := j.exists(ctx, name)
		if err != nil {
			return err
		}
		if there != nil {
			return engine.Hinted(fmt.Errorf("there is a table %s, a name that is needed", name), "rename it, or drop it if nobody needs its rows")
		}
	}
	j.use(data{Columns: s.Columns, Key: pick(s, s.PrimaryKey), NewKey: pick(s, s.PrimaryKey), Left: true})
	sizes, err := j.DB.PeriodSizes(ctx, j.Table)
	for _, size := range sizes {
		j.data.Of += size.Rows
	}
	return errors.Join(err, j.back().staying(ctx), j.checker().checkRoom(ctx, "the plain table", "the rolling one"))
}

func (j *job) beginLeave(ctx context.Context) error {
	if err := engine.Probe(ctx, j.DB, j.needs()); err != nil {
		return fmt.Errorf("make %s plain: %w", j.Table.Name, err)
	}
	if err := errors.Join(j.mayLeave(ctx), j.State.Ensure(ctx)); err != nil {
		return err
	}
	j.change = &state.Change{Table: j.Table.Name, ID: Kind, Kind: Kind, Step: stepPlain}
	if _, err := j.State.Begin(ctx, j.change, j.data); err != nil {
		return err
	}
	return j.point("begun")
}

// createPlain creates the empty table that is to become the plain one.
func (j *job) createPlain(ctx context.Context, m *mirror) error {
	if err := j.exec(ctx, "DROP TABLE IF EXISTS "+j.quote(m.Target.Name)); err != nil { // a killed process may have made it in part
		return err
	}
	return j.exec(ctx, j.template(m)...)
}

func (j *job) template(m *mirror) []string {
	return j.DB.Words().CreateTemplate(j.Table, m.Target.Name, engine.Storage{Assigns: true})
}
