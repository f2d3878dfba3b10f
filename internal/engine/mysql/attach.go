package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// splitRows is the largest number of rows of a partition that is split for another:
// they are copied while the table is locked.
const splitRows = 100_000

// attach executes an Attach.
func (c *changer) attach(ctx context.Context, s engine.Attach) error {
	from, err := c.look(ctx, s.From)
	if err != nil {
		return err
	}
	if !from.there {
		l, err := c.db.layout(ctx, c.conn, c.t)
		if err == nil && l.index(s.Part) < 0 {
			err = engine.Classed(engine.ErrNoTable, fmt.Errorf("there is neither the partition nor the table %s", s.From))
		}
		return err
	}
	if s.From == c.t.Name || from.partitioned {
		return fmt.Errorf("table %s is cut into partitions", s.From)
	}
	exchange := func() error {
		return c.locked(ctx, []string{c.t.Name, s.From}, func() ([]string, bool, error) { return c.attachPlan(ctx, s) })
	}
	if !from.exchanges() {
		err := c.locked(ctx, []string{c.t.Name, s.From}, func() ([]string, bool, error) {
			l, err := c.db.layout(ctx, c.conn, c.t)
			if err != nil || l.index(s.Part) >= 0 {
				return nil, false, err
			}
			q, err := c.makeRoom(ctx, l, s.Part)
			return []string{q}, false, err
		})
		if err != nil {
			return err
		}
		if err := c.moveRows(ctx, s.From, c.d.Quote(s.From), c.d.Quote(c.t.Name)); err != nil {
			return err
		}
		return exchange()
	}
	err = exchange()
	if !serverError(err, errExchangeOption) {
		return err
	}
	if err := c.moveRows(ctx, s.From, c.d.Quote(s.From), c.d.Quote(c.t.Name)); err != nil {
		return err
	}
	return exchange()
}

// makeRoom renders the statement that creates an empty partition with p's bounds,
// unless too many rows would have to be copied for it.
func (c *changer) makeRoom(ctx context.Context, l layout, p rolling.Partition) (string, error) {
	q, split, err := c.d.room(c.t, l, p)
	if err != nil || split == "" {
		return q, err
	}
	var n int
	count := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT %d) rows_of_it", c.d.partition(c.t, split), splitRows+1)
	if err := c.conn.QueryRowContext(ctx, count).Scan(&n); err != nil {
		return "", classify(err)
	}
	if n > splitRows {
		return "", engine.Classed(engine.ErrUnsupported,
			fmt.Errorf("partition %s, which holds its range, has more than %d rows, too many to be copied under a lock", split, splitRows))
	}
	return q, nil
}

// index returns the index of the partition with p's bounds, or -1.
func (l layout) index(p rolling.Partition) int {
	return slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.Period == p.Period })
}

func (c *changer) attachPlan(ctx context.Context, s engine.Attach) (statements []string, more bool, err error) {
	l, err := c.db.layout(ctx, c.conn, c.t)
	if err != nil {
		return nil, false, err
	}
	i := l.index(s.Part)
	if i < 0 {
		q, err := c.makeRoom(ctx, l, s.Part)
		if err != nil {
			return nil, false, err
		}
		return []string{q}, true, nil
	}
	p := c.d.partition(c.t, l.parts[i].Name)
	has, err := c.filled(ctx, p)
	if err != nil {
		return nil, false, err
	}
	left, err := c.filled(ctx, c.d.Quote(s.From))
	if err != nil {
		return nil, false, err
	}
	if left && has {
		// Rows of the period that were in the floor, or were inserted since.
		columns, err := c.columns(ctx)
		if err != nil {
			return nil, false, err
		}
		statements = c.d.moveAtOnce(columns, p, c.d.Quote(s.From))
	}
	if left {
		statements = append(statements, c.d.exchange(c.t, l.parts[i].Name, s.From))
	}
	return append(statements, "DROP TABLE "+c.d.Quote(s.From)), false, nil
}

// room renders the statement that creates an empty partition with p's bounds, and
// returns the name of the partition that is split for it, if any.
func (d dialect) room(t *engine.Table, l layout, p rolling.Partition) (q, split string, err error) {
	filler := func(from, to int64) []rolling.Partition {
		if from >= to {
			return nil
		}
		f := t.Grid.Named(rolling.Period{From: from, To: to})
		for slices.ContainsFunc(l.parts, func(q rolling.Partition) bool { return q.Name == f.Name }) || f.Name == p.Name {
			f.Name += "x"
		}
		return []rolling.Partition{f}
	}
	floor := []rolling.Partition{floorTo(p.From)}
	n := len(l.parts)
	switch {
	case n == 0 && !l.hasFloor:
		return "", "", errors.New("the table has no partition")
	case n == 0:
		q, err = d.reorganize(t, floor, append(floor, p))
		return q, floorName, err
	case p.From >= l.parts[n-1].To:
		defs, err := d.partitions(t, append(filler(l.parts[n-1].To, p.From), p))
		return fmt.Sprintf("ALTER TABLE %s ADD PARTITION (%s)", d.Quote(t.Name), defs), "", err
	case p.To <= l.parts[0].From && l.hasFloor:
		q, err = d.reorganize(t, floor, slices.Concat(floor, []rolling.Partition{p}, filler(p.To, l.floor)))
		return q, floorName, err
	case p.To <= l.parts[0].From:
		first := l.parts[0]
		now := slices.Concat([]rolling.Partition{p}, filler(p.To, first.From), []rolling.Partition{first})
		if floored(t) {
			now = slices.Concat(floor, now)
		}
		q, err = d.reorganize(t, []rolling.Partition{first}, now)
		return q, first.Name, err
	}
	for _, old := range l.parts {
		if old.From <= p.From && p.To <= old.To {
			now := append(filler(old.From, p.From), p)
			if p.To < old.To {
				now = append(now, rolling.Partition{Name: old.Name, Period: rolling.Period{From: p.To, To: old.To}})
			}
			q, err = d.reorganize(t, []rolling.Partition{old}, now)
			return q, old.Name, err
		}
	}
	return "", "", fmt.Errorf("its range, %s to %s, is that of several partitions", t.Grid.Format(p.From), t.Grid.Format(p.To))
}

// attach renders an Attach from its initial state.
func (d dialect) attach(s engine.Attach) ([]string, error) {
	q, _, err := d.room(s.Table, supposed(s.Table, s.Have), s.Part)
	if err != nil {
		return nil, fmt.Errorf("attach partition %s of %s: %w", s.Part.Name, s.Table.Name, err)
	}
	if d.rocksdb() {
		return slices.Concat([]string{q}, d.moveLocked([]string{s.Table.Name, s.From}, d.moveAll(d.Quote(s.From), d.Quote(s.Table.Name))),
			[]string{"DROP TABLE " + d.Quote(s.From)}), nil
	}
	return append([]string{d.lockTables([]string{s.Table.Name, s.From}), q,
		d.exchange(s.Table, s.Part.Name, s.From), "DROP TABLE " + d.Quote(s.From)}, unlock...), nil
}
