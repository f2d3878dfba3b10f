package mysql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// floorName is the first partition of a declared table. It ends where the
// first period begins, and is empty: these servers keep no lower bounds, so
// that rows older than every period would otherwise lie in the oldest one, and
// be sealed, archived and dropped with it. In the floor they are seen.
const floorName = "rowmill_floor"

// floored reports whether the table is to have a floor.
func floored(t *engine.Table) bool { return t.Definition != nil && t.Rolling() }

// isFloor reports whether a partition is the floor.
func isFloor(name string) bool { return strings.EqualFold(name, floorName) }

// floorTo is the floor that ends at a position.
func floorTo(pos int64) rolling.Partition {
	return rolling.Partition{Name: floorName, Period: rolling.Period{To: pos}}
}

// reorganize renders the change of adjacent partitions into others of the same
// range. It copies their rows.
func (d dialect) reorganize(t *engine.Table, old, now []rolling.Partition) (string, error) {
	names := make([]string, len(old))
	for i, p := range old {
		names[i] = p.Name
	}
	defs, err := d.partitions(t, now)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ALTER TABLE %s REORGANIZE PARTITION %s INTO (%s)", d.Quote(t.Name), d.list(names), defs), nil
}

// add renders new partitions after the last one. Where only the floor is left,
// it is moved to where they begin.
func (d dialect) add(s engine.CreatePartitions) (string, error) {
	if len(s.Have) == 0 && floored(s.Table) {
		floor := floorTo(s.New[0].From)
		return d.reorganize(s.Table, []rolling.Partition{floor}, slices.Concat([]rolling.Partition{floor}, s.New))
	}
	defs, err := d.partitions(s.Table, s.New)
	return fmt.Sprintf("ALTER TABLE %s ADD PARTITION (%s)", d.Quote(s.Table.Name), defs), err
}

// layout is the partitions of a table as they are.
type layout struct {
	// floor is the floor's upper bound; hasFloor tells that there is one.
	floor    int64
	hasFloor bool
	parts    []rolling.Partition
}

// find returns the index of the partition that ends where p does, or -1: on
// these servers an upper bound is what makes a partition.
func (l layout) find(p rolling.Partition) int {
	return slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.To == p.To })
}

// bounded is a partition of the catalog: its name and the upper bound.
type bounded struct {
	name string
	to   int64
}

// layOut makes the layout of partitions in order. A partition begins where the
// one before it ends; the first one at the floor, or where its period does.
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

// removal renders the removal of an empty partition. The first one's range goes
// to the floor, so that the period after it keeps its lower bound; elsewhere the
// period after it takes the range over.
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

// supposed is the layout of a table that has these partitions, for a plan: a
// declared one has a floor.
func supposed(t *engine.Table, have []rolling.Partition) layout {
	l := layout{parts: have, hasFloor: floored(t)}
	if len(have) > 0 {
		l.floor = have[0].From
	}
	return l
}

// dropPartition renders the drop of a partition with its rows.
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

// alone renders changes of a declared table's partitions with the table locked:
// the wait for the lock of an ALTER TABLE that isn't, MariaDB begins a second
// time when it has failed.
func (d dialect) alone(t *engine.Table, statements ...string) []string {
	if !floored(t) {
		return statements
	}
	return slices.Concat([]string{d.lockTables([]string{t.Name})}, statements, unlock)
}
