package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// exists returns the table or view with that name, or nil.
func (j *job) exists(ctx context.Context, name string) (*engine.Schema, error) {
	s, err := j.DB.Describe(ctx, name)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil
	}
	return s, err
}

func (j *job) create(ctx context.Context, m *mirror) error {
	if err := j.exec(ctx, m.sql.Tables()...); err != nil {
		return err
	}
	if err := j.point("create: log"); err != nil {
		return err
	}
	have, err := j.exists(ctx, m.Target.Name)
	if err != nil {
		return err
	}
	if have == nil {
		parts, err := j.periods(ctx, j.data.extent)
		if err != nil {
			return err
		}
		err = j.DB.Try(ctx, engine.CreateTable{Table: m.Side(m.Target), Partitions: parts})
		if tried := errors.Is(err, engine.ErrLockTimeout) || errors.Is(err, engine.ErrConnectionLost) || ctx.Err() != nil; err != nil && !tried {
			return j.withdraw(ctx, m, err) // the server has no such table
		}
		if err != nil {
			return err
		}
		if err := j.point("create: table"); err != nil {
			return err
		}
	}
	if err := j.checker().checkNew(ctx); err != nil {
		return j.withdraw(ctx, m, err)
	}
	own, err := m.attributes(ctx, m.Target.Name)
	if err != nil {
		return err
	}
	for _, a := range own {
		if a.Undo == "" {
			j.data.Declared = append(j.data.Declared, a.What)
		}
	}
	if _, err = m.carryOver(ctx); err != nil {
		return j.withdraw(ctx, m, err)
	}
	return nil
}

// withdraw removes what was created for an adoption that is refused, so that the adoption can begin
// anew with a corrected declaration.
func (j *job) withdraw(ctx context.Context, m *mirror, refused error) error {
	err := j.advance(ctx, stepCancel)
	if err == nil {
		err = j.cancel(ctx, m)
	}
	if err == nil {
		j.change.Step = ""
		err = j.State.End(ctx, j.State.DB(), j.change)
	}
	return errors.Join(refused, err)
}

// addTriggers creates the missing triggers. Each creation waits for all open
// transactions that have written to the table, so that every later change is logged.
func (j *job) addTriggers(ctx context.Context, m *mirror) error {
	triggers, err := m.sql.Triggers(ctx)
	if err != nil {
		return err
	}
	have, err := j.DB.Describe(ctx, m.Source.Name)
	if err != nil {
		return err
	}
	for _, t := range triggers {
		if slices.Contains(have.Triggers, t.Name) {
			continue
		}
		if err := j.locked(ctx, m.Source.Name, "create a trigger", func() error { return m.sql.CreateTrigger(ctx, t) }); err != nil {
			return err
		}
		if err := j.point("trigger: " + t.Name); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) copy(ctx context.Context, m *mirror) error {
	if err := m.readPeriods(ctx); err != nil {
		return err
	}
	c := m.copier()
	c.After = j.data.After
	before, from := j.data.Rows, j.data.After
	early, err := j.compareEarly(ctx, m)
	if err != nil {
		return err
	}
	defer early.stop()
	c.Paused = j.paused(&j.data.Rows)
	c.Done = func(ctx context.Context, tx state.Exec, last []string, rows int64) error {
		// A chunk may be retried. Until it is committed, from remains the end of the previous chunk.
		if err := m.logOutside(ctx, tx, c.Where, from, last); err != nil {
			return err
		}
		j.data.After, j.data.Rows = last, before+rows
		j.data.Checked, j.data.CheckedRows = early.done()
		return j.State.Advance(ctx, tx, j.change, stepCopy, j.data)
	}
	if err := m.arrived(ctx); err != nil {
		return err
	}
	c.Again = rounds
	c.Between = func(ctx context.Context, after, until []string) error {
		from = after
		if err := m.leave(after, until, c.Where); err != nil {
			return err
		}
		j.progress(Progress{Rows: j.data.Rows, Of: j.data.Of})
		if err := j.point("copy: chunk"); err != nil {
			return err
		}
		err := j.follow(ctx, m)
		early.upTo(copied{after, m.Inside("")})
		return err
	}
	if _, err := c.Run(ctx); err != nil {
		return err
	}
	early.finish()
	j.data.Checked, j.data.CheckedRows = early.done()
	m.coming = engine.Predicate{}
	err = m.locked(ctx, m.Source.Name, "look for rows outside of every period", func() error {
		return m.inTransaction(ctx, func(x state.Exec) error { return m.logOutside(ctx, x, c.Where, from, nil) })
	})
	if err != nil {
		return err
	}
	return m.replayAll(ctx)
}

// follow applies the log and creates upcoming periods, between chunks.
func (j *job) follow(ctx context.Context, m *mirror) error {
	if err := j.extend(ctx, m); err != nil {
		return err
	}
	return m.replayAll(ctx)
}

// extendEvery is the interval at which periods are created ahead while rows are
// copied. It is far shorter than the shortest practical period.
const extendEvery = 20 * time.Second

// extend creates the periods that the rolling table needs at present. On a sequence, the highest
// key is the present position.
func (j *job) extend(ctx context.Context, m *mirror) error {
	if !m.Target.Rolls || time.Since(j.ahead) < extendEvery && j.Table.Grid.Axis() == rolling.Time {
		return nil
	}
	j.ahead = time.Now()
	var rows extent
	if j.Table.Grid.Axis() == rolling.Sequence {
		by := m.Quote(j.Table.By)
		if err := j.DB.SQL().QueryRowContext(ctx, fmt.Sprintf("SELECT COALESCE(MAX(%s), 0) FROM %s", by, m.Quote(m.Source.Name))).Scan(&rows.Last); err != nil {
			return j.DB.Classify(err)
		}
	}
	now, err := j.now(ctx, rows)
	if err != nil {
		return err
	}
	end, err := j.end(now)
	if err != nil || len(m.Target.Periods) == 0 || m.Target.Periods[len(m.Target.Periods)-1].To >= end {
		return err
	}
	last := m.Target.Periods[len(m.Target.Periods)-1].To
	cover, err := j.Table.Grid.Cover(rolling.Period{From: last, To: end}, maxPeriods)
	if err != nil {
		return err
	}
	var more []rolling.Partition
	for _, p := range cover {
		p.From = max(p.From, last)
		more = append(more, j.Table.Grid.Named(p))
	}
	err = j.locked(ctx, m.Target.Name, "create periods", func() error {
		return j.DB.Try(ctx, engine.CreatePartitions{Table: m.Side(m.Target), Have: m.Target.Periods, New: more})
	})
	if err != nil {
		return err
	}
	if err := m.readPeriods(ctx); err != nil {
		return err
	}
	return m.logReturned(ctx)
}

// clean drops the log and the source's triggers after a cut-over, which has renamed the source to
// m.Aside: to oldName or, if the adoption is reverted, to newName.
func (j *job) clean(ctx context.Context, m *mirror) error { return j.dropTriggers(ctx, m, m.Aside) }

func (j *job) dropTriggers(ctx context.Context, m *mirror, on string) error {
	triggers, functions := m.sql.DropTriggers(on)
	if err := j.locked(ctx, on, "drop the triggers", func() error { return j.exec(ctx, triggers...) }); err != nil {
		return err
	}
	if err := j.point("unhook: triggers"); err != nil {
		return err
	}
	if err := j.exec(ctx, append(functions, j.dropLog())...); err != nil {
		return err
	}
	drop, err := j.emptyLate(ctx)
	if err != nil {
		return err
	}
	return j.exec(ctx, drop...)
}

func (j *job) dropLog() string { return "DROP TABLE IF EXISTS " + j.quote(logName(j.Table.Name)) }

// emptyLate returns the statement that drops the table for late rows, if that is empty.
func (j *job) emptyLate(ctx context.Context) ([]string, error) {
	name := lateName(j.Table.Name)
	s, err := j.exists(ctx, name)
	if err != nil || s == nil || s.Column("rowmill_reason") == nil {
		return nil, err
	}
	var n int
	if err := j.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM "+j.quote(name)).Scan(&n); err != nil {
		return nil, j.DB.Classify(err)
	}
	if n > 0 {
		return nil, nil
	}
	return []string{"DROP TABLE IF EXISTS " + j.quote(name)}, nil
}

func (j *job) cancel(ctx context.Context, m *mirror) error {
	if err := j.dropTriggers(ctx, m, j.Table.Name); err != nil {
		return err
	}
	if err := m.sql.Recover(ctx); err != nil {
		return err
	}
	return j.dropNew(ctx)
}

// cleanBack is clean after the cut-over back, which leaves a rolling table to drop.
func (j *job) cleanBack(ctx context.Context, m *mirror) error {
	return errors.Join(j.clean(ctx, m), j.dropNew(ctx))
}

// dropNew drops the rolling table, under its name beside the plain table.
func (j *job) dropNew(ctx context.Context) error {
	s, err := j.exists(ctx, newName(j.Table.Name))
	if err != nil || s == nil {
		return err
	}
	m := j.forward()
	if err := m.readPeriods(ctx); err != nil {
		return err
	}
	err = j.locked(ctx, m.Target.Name, "drop the rolling table", func() error {
		return j.DB.Try(ctx, engine.DropTable{Table: m.Side(m.Target), Partitions: m.Target.Periods, Views: j.liveViews()})
	})
	if err != nil && !errors.Is(err, engine.ErrLockTimeout) { // a view that reads the table may be the cause
		_, _, refused := j.mirror(m.Target, m.Source, m.Target.Name).lacking(ctx, true)
		err = cmp.Or(refused, err)
	}
	return err
}

// liveViews returns the names of the roll-ups' views. They read the rolling table, and are dropped
// with it. The next adoption creates them again.
func (o Options) liveViews() []string {
	var names []string
	for _, r := range o.Declared.Rollups {
		names = append(names, r.Name+"_live")
	}
	return names
}

func (j *job) dropOld(ctx context.Context, _ *mirror) error {
	return j.locked(ctx, oldName(j.Table.Name), "drop the old table", func() error { return j.exec(ctx, j.dropOldStatement()) })
}

func (j *job) dropOldStatement() string {
	return "DROP TABLE IF EXISTS " + j.quote(oldName(j.Table.Name))
}

func (j *job) prepareUndo(ctx context.Context, m *mirror) error {
	if err := j.exec(ctx, m.sql.Tables()...); err != nil || m.unlogged() {
		return err
	}
	if _, err := m.carryOver(ctx); err != nil {
		return err
	}
	return j.addTriggers(ctx, m)
}
