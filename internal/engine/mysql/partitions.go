package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// floorName is the first partition of a declared table, which ends where the first period begins.
// These servers store no lower bounds: without the floor, rows older than every period would be in
// the oldest one, and be sealed, archived and dropped with it. In the floor they are noticed.
const floorName = "rowmill_floor"

// floored reports whether the table should have a floor.
func floored(t *engine.Table) bool { return t.Definition != nil && t.Rolling() }

// isFloor reports whether a partition is the floor.
func isFloor(name string) bool { return strings.EqualFold(name, floorName) }

// floorTo returns the floor that ends at a position.
func floorTo(pos int64) rolling.Partition {
	return rolling.Partition{Name: floorName, Period: rolling.Period{To: pos}}
}

// reorganize renders the change of adjacent partitions to others of the same range, with a copy.
func (d dialect) reorganize(t *engine.Table, old, now []rolling.Partition) (string, error) {
	defs, err := d.partitions(t, now)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s INTO (%s)", d.Quote(t.Name), d.list(partitionNames(old)), defs), nil
}

// add renders new partitions after the last one. If only the floor is left, its end moves.
func (d dialect) add(s engine.CreatePartitions) (string, error) {
	if len(s.Have) == 0 && floored(s.Table) {
		floor := floorTo(s.New[0].From)
		return d.reorganize(s.Table, []rolling.Partition{floor}, slices.Concat([]rolling.Partition{floor}, s.New))
	}
	defs, err := d.partitions(s.Table, s.New)
	return fmt.Sprintf("ALTER TABLE %s ADD PARTITION (%s)", d.Quote(s.Table.Name), defs), err
}

// layout is the partitions of a table.
type layout struct {
	// floor is the floor's upper bound; hasFloor is set if there is one.
	floor    int64
	hasFloor bool
	parts    []rolling.Partition
}

// find returns the index of the partition with p's upper bound, which identifies it, or -1.
func (l layout) find(p rolling.Partition) int {
	return slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.To == p.To })
}

// bounded is a partition in the catalog: its name and upper bound.
type bounded struct {
	name string
	to   int64
}

// layOut makes a layout of ordered partitions, each of which begins where the last one ends; the
// first begins at the floor's end, or where its period does.
func layOut(t *engine.Table, have []bounded) (layout, error) {
	var l layout
	for i, h := range have {
		if i == 0 && floored(t) && isFloor(h.name) {
			l.floor, l.hasFloor = h.to, true
			continue
		}
		p := rolling.Partition{Name: h.name, Period: rolling.Period{To: h.to}}
		switch n := len(l.parts); {
		case n > 0:
			p.From = l.parts[n-1].To
		case l.hasFloor:
			p.From = l.floor
		case t.Rolling():
			first, err := t.Grid.At(h.to - 1)
			if err != nil {
				return l, fmt.Errorf("partition %s of %s: %w", h.name, t.Name, err)
			}
			p.From = first.From
		}
		l.parts = append(l.parts, p)
	}
	return l, nil
}

// removal renders the removal of an empty partition. The first one's range goes to the floor, so
// that the next period keeps its lower bound, any other's to the next period.
func (d dialect) removal(t *engine.Table, l layout, i int) (string, error) {
	p := l.parts[i]
	if i > 0 || !floored(t) {
		return d.drop(t, p), nil
	}
	old := []rolling.Partition{p}
	if l.hasFloor {
		old = []rolling.Partition{floorTo(l.floor), p}
	}
	return d.reorganize(t, old, []rolling.Partition{floorTo(p.To)})
}

// supposed returns the layout for a dry run.
func supposed(t *engine.Table, have []rolling.Partition) layout {
	l := layout{parts: have, hasFloor: floored(t)}
	if len(have) > 0 {
		l.floor = have[0].From
	}
	return l
}

// dropPartition renders dropping a partition with its rows.
func (d dialect) dropPartition(t *engine.Table, l layout, p rolling.Partition) ([]string, error) {
	i := slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.Name == p.Name })
	if i < 0 {
		i = l.find(p)
	}
	if i != 0 || !floored(t) {
		return []string{d.drop(t, p)}, nil
	}
	q, err := d.removal(t, l, i)
	return []string{fmt.Sprintf("ALTER TABLE %s TRUNCATE PARTITION %s", d.Quote(t.Name), d.Quote(p.Name)), q}, err
}

// alone renders changes of a declared table's partitions under a lock. Without it, MariaDB waits a
// second time for a metadata lock that an ALTER TABLE did not get.
func (d dialect) alone(t *engine.Table, statements ...string) []string {
	if !floored(t) {
		return statements
	}
	return slices.Concat([]string{d.lockTables([]string{t.Name})}, statements, []string{unlock})
}

// splitRows is the largest partition to split for another: its rows are copied under the lock.
const splitRows = 100_000

// attach executes an Attach.
func (c *changer) attach(ctx context.Context, s engine.Attach) {
	from := c.look(ctx, s.From)
	switch {
	case !from.there:
		if c.layout(ctx).index(s.Part) < 0 {
			c.fail(engine.Classed(engine.ErrNoTable, fmt.Errorf("neither the partition nor the table %s exists", s.From)))
		}
		return
	case s.From == c.t.Name || from.partitioned:
		c.fail(fmt.Errorf("table %s is partitioned", s.From))
		return
	}
	tables := []string{c.t.Name, s.From}
	exchange := func() {
		c.locked(ctx, tables, func() ([]string, bool) { return c.attachPlan(ctx, s) })
	}
	if from.exchanges() {
		exchange()
		if !c.failed(errExchangeOption) {
			return
		}
	} else {
		c.locked(ctx, tables, func() ([]string, bool) {
			if l := c.layout(ctx); l.index(s.Part) < 0 {
				return []string{c.makeRoom(ctx, l, s.Part)}, false
			}
			return nil, false
		})
	}
	c.moveRows(ctx, s.From, c.Quote(s.From), c.Quote(c.t.Name))
	exchange()
}

// makeRoom is room, unless too many rows would have to be copied.
func (c *changer) makeRoom(ctx context.Context, l layout, p rolling.Partition) string {
	q, split, err := c.room(c.t, l, p)
	c.fail(err)
	if split != "" && c.exceeds(ctx, split, splitRows) {
		c.fail(engine.Classed(engine.ErrUnsupported,
			fmt.Errorf("partition %s, which holds its range, has more than %d rows, too many to be copied under a lock", split, splitRows)))
	}
	return q
}

// index returns the index of the partition with p's bounds, or -1.
func (l layout) index(p rolling.Partition) int {
	return slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.Period == p.Period })
}

func (c *changer) attachPlan(ctx context.Context, s engine.Attach) (statements []string, more bool) {
	l := c.layout(ctx)
	i := l.index(s.Part)
	if i < 0 {
		return []string{c.makeRoom(ctx, l, s.Part)}, true
	}
	if c.filled(ctx, c.Quote(s.From)) {
		if p := c.partition(c.t, l.parts[i].Name); c.filled(ctx, p) {
			// Rows of the period that were in the floor, or were inserted since.
			statements = c.moveAtOnce(c.writable(ctx), p, c.Quote(s.From))
		}
		statements = append(statements, c.exchange(c.t, l.parts[i].Name, s.From))
	}
	return append(statements, "DROP TABLE "+c.Quote(s.From)), false
}

// room renders the creation of an empty partition with p's bounds, and names the one split for it.
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
	return "", "", fmt.Errorf("its range, %s to %s, covers several partitions", t.Grid.Format(p.From), t.Grid.Format(p.To))
}

// attach renders an Attach from its initial state.
func (d dialect) attach(s engine.Attach) ([]string, error) {
	q, _, err := d.room(s.Table, supposed(s.Table, s.Have), s.Part)
	if err != nil {
		return nil, fmt.Errorf("attach partition %s of %s: %w", s.Part.Name, s.Table.Name, err)
	}
	if d.rocksdb() {
		return slices.Concat([]string{q}, d.moveLocked([]string{s.Table.Name, s.From}, d.move("", d.Quote(s.From), d.Quote(s.Table.Name))),
			[]string{"DROP TABLE " + d.Quote(s.From)}), nil
	}
	return []string{d.lockTables([]string{s.Table.Name, s.From}), q,
		d.exchange(s.Table, s.Part.Name, s.From), "DROP TABLE " + d.Quote(s.From), unlock}, nil
}
