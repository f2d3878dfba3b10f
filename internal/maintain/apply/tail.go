package apply

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/rolling"
)

// fewRows is the largest number of rows of a tail that are copied into periods under the table's
// lock. Copying them takes about 20 ms.
const fewRows = 2000

// mostTail limits the number of periods for the rows of a tail.
const mostTail = 1000

// withTail returns the table's partitions without its tail, and the tail, or nil if there is none.
// A tail is a partition without an end: for all later rows (MAXVALUE), or for all rows that no
// other partition takes (DEFAULT).
func (t planner) withTail(ctx context.Context) (parts []rolling.Partition, tail *rolling.Partition, err error) {
	parts, err = t.DB.Catalog().Partitions(ctx, t.Table)
	var is *engine.DefaultError
	if errors.As(err, &is) {
		return parts, &is.Part, nil
	}
	if n := len(parts); n > 0 && parts[n-1].To == t.Table.Grid.Bounds().To {
		last := parts[n-1]
		return parts[:n-1], &last, err
	}
	return parts, nil, err
}

// A tailPlan says how a tail is replaced by periods.
type tailPlan struct {
	tail rolling.Partition
	// enclosed is a period that takes over all rows of the tail without copying them. It is not
	// used, and has no name, if the tail has few rows.
	enclosed rolling.Partition
	// periods replace the tail or, if enclosed is used, the part of the tail after enclosed. If the
	// tail has few rows, its rows are copied into periods.
	periods []rolling.Partition
	rows    int64 // at most one more than fewRows
}

// planTailOf plans how a tail is replaced, given the other partitions.
func (t planner) planTailOf(ctx context.Context, parts []rolling.Partition, tail rolling.Partition, now int64) (*tailPlan, error) {
	p, words, g := &tailPlan{tail: tail}, t.DB.Words(), t.Table.Grid
	by, from := t.DB.Dialect().Quote(t.Table.By), words.From(t.Table, tail)
	var first, last sql.NullInt64
	x := t.DB.SQL()
	err := x.QueryRowContext(ctx, fmt.Sprintf("SELECT %s, %s FROM (SELECT MIN(%s) AS a, MAX(%s) AS z FROM %s) q", words.Position(t.Table, "q.a"), words.Position(t.Table, "q.z"), by, by, from)).Scan(&first, &last)
	if err == nil {
		err = x.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS one FROM %s LIMIT %d) q", from, fewRows+1)).Scan(&p.rows)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the rows of %s: %w", tail.Name, t.DB.Classify(err))
	}
	begin := g.Floor(now)
	if p.rows > 0 {
		begin = min(begin, g.Floor(first.Int64))
	}
	if n := len(parts); n > 0 {
		begin = parts[n-1].To
	}
	if p.rows > 0 && first.Int64 < begin {
		return nil, engine.Hinted(fmt.Errorf("rows of partition %s lie before %s, where its last other partition ends: no later period takes them", tail.Name, g.Format(begin)),
			"SELECT * FROM %s WHERE %s < %s, to move them to partitions of their own; or %s, which leaves all of its rows in a table of their own", from, by, words.Literal(t.Table, begin), t.leave(tail))
	}
	to := max(t.Declared.Ahead.After(now), now+1)
	if p.rows > 0 {
		to = max(to, last.Int64+1)
	}
	c := rolling.Creatable{Grid: g, Range: g.Bounds(), Sealed: math.MinInt64}
	if begin < to {
		if p.periods, err = c.Missing(parts, begin, to, mostTail); err != nil {
			return nil, engine.Hinted(fmt.Errorf("the rows of partition %s: %w", tail.Name, err), "SELECT * FROM %s ORDER BY %s DESC, to mend or delete those of the far future; or a longer period", from, by)
		}
	}
	if p.rows <= fewRows {
		return p, nil
	}
	if most := t.mostEnclosed(); most > 0 {
		var more int
		err := x.QueryRowContext(ctx, fmt.Sprintf("SELECT 1 FROM %s LIMIT 1 OFFSET %d", from, most)).Scan(&more)
		if err == nil {
			divided, renderErr := t.DB.Dialect().Render(engine.Divide{Table: t.Table, Part: tail, New: p.periods, Columns: t.Schema.Names()})
			return nil, errors.Join(engine.Hinted(fmt.Errorf("partition %s has no end, and more than %s rows: this server would read all of them under the table's lock", tail.Name, figure.Count(most)),
				"%s, at a time when inserts may wait until its rows are copied", strings.Join(divided, "; ")), renderErr)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return nil, t.DB.Classify(err)
		}
	}
	n := slices.IndexFunc(p.periods, func(q rolling.Partition) bool { return q.To > max(last.Int64, now) }) + 1
	p.enclosed = g.Named(rolling.Period{From: begin, To: p.periods[max(n, 1)-1].To})
	p.periods = p.periods[n:]
	return p, nil
}

// readUnderLock is how many rows a server reads in about 200 ms.
const readUnderLock = 500_000

// mostEnclosed returns how many rows a tail may have if it is to become a period while inserts are
// blocked for at most about 200 ms; 0 means any number. On servers whose partitions have no lower
// bounds, the server looks under the table's lock for rows of times outside of the period. That is
// fast only with an index that begins with the time.
func (t planner) mostEnclosed() int64 {
	can := t.DB.Capabilities()
	indexed := slices.ContainsFunc(t.Schema.Indexes, func(ix engine.Index) bool { return ix.Columns[0] == t.Table.By }) || len(t.Schema.PrimaryKey) > 0 && t.Schema.PrimaryKey[0] == t.Table.By
	if can.SwapRows > 0 || can.Gaps || indexed {
		return can.SwapRows
	}
	return readUnderLock
}

// leave returns the statement that makes a tail a table of its own.
func (t planner) leave(tail rolling.Partition) string {
	q, err := t.DB.Dialect().Render(engine.Detach{Table: t.Table, Part: tail, Into: t.Table.Name + "_rest"})
	if err != nil {
		return "ALTER TABLE"
	}
	return strings.ReplaceAll(strings.Join(q, "; "), " CONCURRENTLY", "")
}

// divided returns the step that replaces the tail, or its rest, by periods.
func (t planner) divided(p *tailPlan) engine.Divide {
	d := engine.Divide{Table: t.Table, Part: p.tail, New: p.periods, Columns: t.Schema.Names()}
	if p.enclosed.Name != "" {
		d.Part.From = p.enclosed.To
	}
	return d
}

// planTail adds the step that replaces a tail by periods, and returns the partitions that the table
// will have.
func (t planner) planTail(ctx context.Context, a *Plan, now int64) ([]rolling.Partition, error) {
	parts, tail, err := t.withTail(ctx)
	if err != nil || tail == nil {
		return parts, err
	}
	p, err := t.planTailOf(ctx, parts, *tail, now)
	if err != nil {
		return nil, err
	}
	var sql []string
	what := fmt.Sprintf("replace partition %s, which has no end, by %s", tail.Name, figure.Plural(len(p.periods), "period"))
	if len(p.periods) == 0 {
		what = fmt.Sprintf("drop partition %s, which has no end", tail.Name)
	}
	if p.enclosed.Name != "" {
		what += fmt.Sprintf("; before, its rows become one period from %s to %s, without being copied", t.Table.Grid.Format(p.enclosed.From), t.Table.Grid.Format(p.enclosed.To))
		if sql, err = t.DB.Dialect().Render(engine.Enclose{Table: t.Table, Tail: *tail, Part: p.enclosed, With: maintain.Standalone(t.Table.Name, "rows", p.enclosed)}); err != nil {
			return nil, err
		}
		parts = append(parts, p.enclosed)
	}
	divided, err := t.DB.Dialect().Render(t.divided(p))
	if err != nil {
		return nil, err
	}
	undo, err := t.DB.Dialect().Render(engine.AddTail{Table: t.Table, Name: tail.Name})
	if err != nil {
		return nil, err
	}
	a.Steps = append(a.Steps, Step{What: what, SQL: append(sql, divided...), run: func(ctx context.Context) error {
		if err := t.State.AddUndo(ctx, t.Table.Name, "create partition "+tail.Name+" again, for all rows of no other one", undo); err != nil {
			return err
		}
		t.Reach("undo recorded")
		return t.endTail(ctx)
	}})
	a.Notes = append(a.Notes, fmt.Sprintf("without partition %s, inserts of rows without a period FAIL: rowmill run creates periods %s ahead, and its alarm says when it can't", tail.Name, cmp.Or(t.Declared.Ahead.String(), "none")))
	return slices.Concat(parts, p.periods), nil
}

// endTail replaces the table's tail by periods. It decides by the table's present state what is
// left to do, because an attempt that was killed may have changed the table.
func (t planner) endTail(ctx context.Context) error {
	for {
		now, err := t.Now(ctx)
		if err != nil {
			return err
		}
		parts, tail, err := t.withTail(ctx)
		if err != nil || tail == nil {
			return err
		}
		p, err := t.planTailOf(ctx, parts, *tail, now)
		if err != nil {
			return err
		}
		if p.enclosed.Name == "" {
			err = t.TryLocked(ctx, t.divided(p))
			t.Reach("tail divided")
		} else {
			_, err = t.Enclose(ctx, p.enclosed)
		}
		if err != nil {
			return t.Blocked(ctx, err)
		}
	}
}
