package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/rolling"
)

// A taker plans how a partitioned table of others is taken over.
type taker struct{ *table }

func (t *Table) taker() taker { return taker{t} }

// mostKept is over how many periods of the grid a period with the present's rows, or later ones,
// may reach: as many as a month has days, because partitions of another length stay as they are
// until they are dropped.
const mostKept = 32

// overlong returns the first partition that takes rows for longer than most periods of the grid
// from the present on, or for ever. Until its end, none of its rows is sealed, archived or dropped.
func (v View) overlong(g rolling.Grid, most int) int {
	return slices.IndexFunc(v.Parts, func(p rolling.Partition) bool {
		end := max(p.From, v.Now)
		for n := 0; n < most && end < p.To; n++ {
			next, err := g.At(end)
			if err != nil {
				break
			}
			end = next.To
		}
		return p.To > v.Now && (end < p.To || p.To == g.Bounds().To)
	})
}

func (v View) overlongText(g rolling.Grid, p rolling.Partition) string {
	ends := "ends at " + g.Format(p.To)
	if p.To == g.Bounds().To {
		ends = "has no end"
	}
	return fmt.Sprintf("partition %s %s, and %s is declared: until its end none of its rows is sealed, archived or dropped, and no period is created in its place", p.Name, ends, g)
}

// planTakeover checks that existing partitions are such as rowmill run can keep. Of a table that
// was applied before, what was added since is only noted.
func (t taker) planTakeover(ctx context.Context, a *Application, applied *rolling.Declaration) error {
	v := View{MaxPeriods: t.DB.Capabilities().MaxPeriods, Gaps: t.DB.Capabilities().Gaps}
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
	if i := v.overlong(t.Table.Grid, mostKept); i >= 0 {
		divide, err := t.divide(ctx, v, i)
		if err != nil {
			return err
		}
		err = engine.Hinted(errors.New(v.overlongText(t.Table.Grid, v.Parts[i])), "%s, at a time when inserts may wait until its rows are copied; or declare a longer period", strings.Join(divide, "; "))
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
	tasks, err := planCreate(t.Declared, v)
	for _, task := range tasks { // that it will be possible
		if task.Waits != "" {
			return errors.New(task.Waits)
		}
		if _, err := t.DB.Dialect().Render(engine.CreatePartitions{Table: t.Table, Have: v.Parts, New: task.Parts}); err != nil {
			return err
		}
	}
	return err
}

// noteTakeover is the step by which --undo knows that a table was taken over.
func (t taker) noteTakeover() ApplyStep {
	return ApplyStep{What: "note that " + t.Table.Name + " is taken over (--undo ends that)", run: func(ctx context.Context) error {
		return t.State.AddUndo(ctx, t.Table.Name, "it is as it was before the takeover", nil)
	}}
}

// divide returns the statements that divide a partition into the periods that its rows and the next
// inserts need.
func (t taker) divide(ctx context.Context, v View, i int) ([]string, error) {
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
