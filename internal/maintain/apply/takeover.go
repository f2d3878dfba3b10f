package apply

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/rolling"
)

// planTakeover checks that rowmill run can keep the existing partitions. An overlong partition is
// an error or, if the table was applied before, a note.
func (t planner) planTakeover(ctx context.Context, a *Plan, applied *rolling.Declaration) error {
	v := maintain.View{MaxPeriods: t.DB.Capabilities().MaxPeriods, Gaps: t.DB.Capabilities().Gaps}
	var err error
	if v.Now, err = t.Now(ctx); err == nil {
		v.Parts, err = t.planTail(ctx, a, v.Now)
	}
	if err != nil {
		return err
	}
	if applied == nil && !v.Gaps && len(v.Parts) > 0 { // the first partition has no lower bound
		v.Parts[0].From = min(v.Parts[0].From, t.Table.Grid.Floor(v.Now))
	}
	if i := v.Overlong(t.Table.Grid); i >= 0 {
		divide, err := t.divide(ctx, v, i)
		if err != nil {
			return err
		}
		err = engine.Hinted(errors.New(v.OverlongText(t.Table.Grid, v.Parts[i])), "%s, at a time when inserts may wait until its rows are copied; or declare a longer period", strings.Join(divide, "; "))
		if applied == nil {
			return err
		}
		a.Notes = append(a.Notes, fmt.Sprintf("%v. Try: %s", err, engine.HintOf(err)))
	}
	if applied != nil {
		return nil
	}
	under, err := adopt.UnderWay(ctx, t.State, t.Table.Name)
	if err != nil {
		return err
	}
	if under == nil { // an adoption has its own way back
		a.Steps = append(a.Steps, t.noteTakeover())
	}
	key := func(columns []string) []string {
		return slices.Sorted(slices.Values(strings.Split(strings.ToLower(strings.Join(columns, "\n")), "\n")))
	}
	if has, want := t.Schema.PrimaryKey, t.Declared.Definition.PrimaryKey; !slices.Equal(key(has), key(want)) {
		return engine.Hinted(fmt.Errorf("table %s has the primary key (%s), and (%s) is declared: rows are copied and compared by it", t.Table.Name, strings.Join(has, ", "), strings.Join(want, ", ")),
			"ALTER TABLE, which gives it the declared key; or declare the one that it has")
	}
	tasks, err := maintain.PlanCreate(t.Declared, v)
	for _, task := range tasks { // the table can't be kept if a creation of periods would wait
		if task.Waits != "" {
			return errors.New(task.Waits)
		}
		if _, err := t.DB.Dialect().Render(engine.CreatePartitions{Table: t.Table, Have: v.Parts, New: task.Parts}); err != nil {
			return err
		}
	}
	return err
}

// noteTakeover is the step that records the takeover for --undo.
func (t planner) noteTakeover() Step {
	return Step{What: "note that " + t.Table.Name + " is taken over (--undo ends that)", run: func(ctx context.Context) error {
		return t.State.AddUndo(ctx, t.Table.Name, "it is as it was before the takeover", nil)
	}}
}

// divide returns the statements that divide an overlong partition into periods. The periods extend
// to the partition's last row, and as far ahead as the declaration says.
func (t planner) divide(ctx context.Context, v maintain.View, i int) ([]string, error) {
	p, words, by := v.Parts[i], t.DB.Words(), t.DB.Dialect().Quote(t.Table.By)
	var first, last sql.NullInt64
	err := t.DB.SQL().QueryRowContext(ctx, fmt.Sprintf("SELECT %s, %s FROM (SELECT MIN(%s) AS a, MAX(%s) AS z FROM %s) q",
		words.Position(t.Table, "q.a"), words.Position(t.Table, "q.z"), by, by, words.From(t.Table, p))).Scan(&first, &last)
	if err != nil {
		return nil, fmt.Errorf("look for the rows of %s: %w", p.Name, t.DB.Classify(err))
	}
	b := t.Table.Grid.Bounds()
	c := rolling.Creatable{Grid: t.Table.Grid, Range: b, Sealed: math.MinInt64}
	from, to := p.From, min(p.To, max(t.Declared.Ahead.After(v.Now), v.Now+1, p.From+1, last.Int64+1))
	if i == 0 && first.Valid {
		from = min(from, t.Table.Grid.Floor(first.Int64))
	}
	now, err := c.Missing(slices.Delete(slices.Clone(v.Parts), i, i+1), from, to, mostFrom)
	if err != nil {
		return nil, fmt.Errorf("divide partition %s, whose last row is of %s: %w", p.Name, t.Table.Grid.Format(last.Int64), err)
	}
	now[len(now)-1].To = min(now[len(now)-1].To, p.To)
	return t.DB.Dialect().Render(engine.Divide{Table: t.Table, Part: p, New: now, Columns: t.Schema.Names()})
}

// mostFrom limits the number of periods that a declaration with `from` creates, on servers that
// have no limit of their own.
const mostFrom = 8192

// planFrom returns the missing periods between the declaration's `from` and now, with notes for the
// owner. have are the periods that exist or are about to be created.
func (t planner) planFrom(have []rolling.Partition, c *rolling.Creatable, now int64, changed bool) (out []rolling.Partition, notes []string, err error) {
	d := t.Declared
	if d.From.IsZero() || len(have) == 0 {
		return nil, nil, nil
	}
	from := rolling.Position(d.From)
	if from < c.Range.From && changed {
		return nil, nil, engine.Hinted(fmt.Errorf("from = %q is older than keep = %q allows: retention would drop the periods before %s", d.From.Format(time.DateTime), d.Keep, c.Grid.Format(c.Range.From)),
			"a longer keep, or from = %q", rolling.Instant(c.Range.From).Format(time.DateOnly))
	}
	if from > now {
		notes = append(notes, fmt.Sprintf("from = %q lies in the future: periods begin at present", d.From.Format(time.DateTime)))
	}
	if c.Sealed > max(from, c.Range.From) {
		notes = append(notes, fmt.Sprintf("no periods are created before %s, up to where roll-ups are sealed", c.Grid.Format(c.Sealed)))
	}
	limit := mostFrom
	if most := t.DB.Capabilities().MaxPeriods; most > 0 {
		limit = most - maintain.SpareFor(most) - len(have)
	}
	out, err = c.Missing(have, from, min(now, have[len(have)-1].To), max(limit, 0))
	if err != nil {
		return nil, nil, engine.Hinted(fmt.Errorf("from = %q: %w", d.From.Format(time.DateTime), err), "a longer period; or leave from out: rowmill load creates the periods that its rows need")
	}
	return out, notes, nil
}

// planEarlier adds the step that creates the periods of planFrom.
func (t planner) planEarlier(ctx context.Context, a *Plan, applied *rolling.Declaration) error {
	if t.Declared.From.IsZero() {
		return nil
	}
	have, _, err := t.withTail(ctx)
	if err != nil {
		return err
	}
	now, err := t.Now(ctx)
	if err != nil {
		return err
	}
	c, err := t.CreatableAt(ctx, now)
	if err != nil {
		return err
	}
	parts, notes, err := t.planFrom(have, c, now, applied == nil || !applied.From.Equal(t.Declared.From))
	if a.Notes = append(a.Notes, notes...); err != nil || len(parts) == 0 {
		return err
	}
	sql, err := t.DB.Dialect().Render(engine.CreatePartitions{Table: t.Table, Have: have, New: parts})
	if err != nil {
		return err
	}
	a.Steps = append(a.Steps, Step{What: fmt.Sprintf("create %s, %s", figure.Plural(len(parts), "earlier period", "earlier periods"), maintain.Task{Parts: parts}.Label()), SQL: sql,
		run: func(ctx context.Context) error { return t.CreatePeriods(ctx, parts) }})
	return nil
}
