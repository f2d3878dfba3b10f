package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/rollup"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// planDropped sets a.Dropped: it describes the periods, and the rows of roll-ups, that retention
// will remove under the new declaration but would keep under the applied one.
func (t planner) planDropped(ctx context.Context, a *Plan, applied *rolling.Declaration) error {
	if t.Schema == nil || a.Adopt {
		return nil
	}
	if applied == nil {
		applied = &rolling.Declaration{}
	}
	dropped, err := t.dropped(ctx, t.Declared, applied)
	if a.Dropped = dropped; err != nil || t.Rollups == nil {
		return err
	}
	now, err := t.Now(ctx)
	for _, l := range t.Declared.Rollups {
		was := rolling.Span{}
		if had := maintain.LevelOf(applied, l.Name); had != nil {
			was = had.Keep
		}
		if err != nil || l.Keep.IsZero() || !was.IsZero() && was.Before(now) >= l.Keep.Before(now) {
			continue
		}
		var rows, first int64
		cut := l.Every.Floor(l.Keep.Before(now))
		if rows, first, err = t.rowsBefore(ctx, l.Name, rollup.Bucket, cut); rows > 0 {
			a.Dropped = append(a.Dropped, fmt.Sprintf("rowmill run will remove %s of roll-up %s, from %s to %s (keep = %s -> %s), for good", figure.Plural(rows, "row"), l.Name,
				t.Table.Grid.Format(first), t.Table.Grid.Format(cut), cmp.Or(was.String(), "none"), l.Keep))
		}
		if errors.Is(err, engine.ErrNoTable) { // apply will create the roll-up's table
			err = nil
		}
	}
	return err
}

// Dropped describes the periods that retention will drop once an adoption is finished.
func Dropped(ctx context.Context, t *maintain.Table) ([]string, error) {
	applied, err := t.Applied(ctx)
	if err != nil || applied == nil {
		return nil, err
	}
	return planner{t}.dropped(ctx, applied, &rolling.Declaration{})
}

// dropped describes the periods that retention drops under declaration d, but not under declaration
// was.
func (t planner) dropped(ctx context.Context, d, was *rolling.Declaration) ([]string, error) {
	parts, _, err := t.withTail(ctx)
	if err != nil || d.Keep.IsZero() || len(parts) == 0 {
		return nil, err
	}
	v := maintain.View{Parts: parts}
	if v.Now, err = t.Now(ctx); err != nil {
		return nil, err
	}
	if v.Known, err = t.State.PeriodsFrom(ctx, t.Table.Name, parts[0].From); err != nil && !errors.Is(err, engine.ErrNoTable) {
		return nil, err
	}
	sizes, err := t.DB.PeriodSizes(ctx, t.Table)
	var first, last rolling.Partition
	var periods, rows int64
	about := ""
	for _, p := range parts[:len(parts)-1] {
		due, _ := maintain.DropDue(d, p)
		before, dropped := maintain.DropDue(was, p)
		k := v.Record(p)
		if due > v.Now || k != nil && k.State == state.Restored || dropped && before <= v.Now && (was.Seal.Archive == "" || d.Seal.Archive != "") {
			continue
		}
		if periods == 0 {
			first = p
		}
		periods, last = periods+1, p
		if k != nil {
			rows += k.Rows
		} else {
			rows, about = rows+sizes[p.Name].Rows, "about "
		}
	}
	if periods == 0 {
		return nil, err
	}
	return []string{t.droppedText(d, was, fmt.Sprintf("%s with %s%s", figure.Plural(periods, "period"), about, figure.Plural(rows, "row")), first.From, last.To)}, err
}

func (t planner) droppedText(d, was *rolling.Declaration, what string, from, to int64) string {
	how := "no archive is declared: the rows are then gone"
	if d.Seal.Archive != "" {
		how = "each is archived before, in " + d.Seal.Archive
	}
	return fmt.Sprintf("rowmill run will drop %s, from %s to %s (keep = %s -> %s); %s", what, t.Table.Grid.Format(from), t.Table.Grid.Format(to), cmp.Or(was.Keep.String(), "none"), d.Keep, how)
}

// plainDropped describes the rows of a plain table that retention will drop once its adoption is
// finished.
func (t planner) plainDropped(ctx context.Context) ([]string, error) {
	d := t.Declared
	now, err := t.Now(ctx)
	if err != nil || d.Keep.IsZero() {
		return nil, err
	}
	cut, err := maintain.Oldest(d, now)
	if err != nil {
		return nil, err
	}
	rows, first, err := t.rowsBefore(ctx, t.Table.Name, t.Table.By, cut)
	if rows == 0 {
		return nil, err
	}
	periods, err := d.Period.Cover(rolling.Period{From: d.Period.Floor(first), To: cut}, mostFrom)
	if err != nil {
		return nil, nil // the adoption refuses so many periods
	}
	return []string{"after --finish, " + t.droppedText(d, &rolling.Declaration{}, fmt.Sprintf("%s of %s", figure.Plural(rows, "row"), figure.Plural(len(periods), "period")), periods[0].From, cut)}, nil
}

// rowsBefore counts the rows of a table before a position, and returns the position of the first.
func (t planner) rowsBefore(ctx context.Context, table, by string, cut int64) (rows, first int64, err error) {
	words, quote := t.DB.Words(), t.DB.Dialect().Quote
	q := fmt.Sprintf("SELECT n, COALESCE(%s, 0) FROM (SELECT COUNT(*) AS n, MIN(%s) AS t FROM %s WHERE %s < %s) q", words.Position(t.Table, "q.t"), quote(by), quote(table), quote(by), words.Literal(t.Table, cut))
	err = t.DB.Classify(t.DB.SQL().QueryRowContext(ctx, q).Scan(&rows, &first))
	if err != nil {
		err = fmt.Errorf("count rows of %s: %w", table, err)
	}
	return rows, first, err
}
