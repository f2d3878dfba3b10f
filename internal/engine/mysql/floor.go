package mysql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// floorName is the first partition of a declared table. It ends where the first
// period begins, and should be empty. These servers store no lower bounds: without
// the floor, rows older than every period would be in the oldest one, and be
// sealed, archived and dropped with it. In the floor they are noticed.
const floorName = "rowmill_floor"

// floored reports whether the table should have a floor.
func floored(t *engine.Table) bool { return t.Definition != nil && t.Rolling() }

// isFloor reports whether a partition is the floor.
func isFloor(name string) bool { return strings.EqualFold(name, floorName) }

// floorTo returns the floor that ends at a position.
func floorTo(pos int64) rolling.Partition {
	return rolling.Partition{Name: floorName, Period: rolling.Period{To: pos}}
}

// reorganize renders the change of adjacent partitions to others of the same range.
// It copies their rows.
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

// add renders new partitions after the last one. If only the floor is left, its end
// is moved to where they begin.
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

// find returns the index of the partition with p's upper bound, or -1: on these
// servers, the upper bound identifies a partition.
func (l layout) find(p rolling.Partition) int {
	return slices.IndexFunc(l.parts, func(q rolling.Partition) bool { return q.To == p.To })
}

// bounded is a partition in the catalog: its name and upper bound.
type bounded struct {
	name string
	to   int64
}

// layOut makes a layout of ordered partitions. A partition begins where its
// predecessor ends; the first one begins at the floor's end, or where its period does.
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

// removal renders the removal of an empty partition. The range of the first one is
// added to the floor, so that the next period keeps its lower bound. The range of
// any other one is added to the next period.
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

// supposed returns the layout for a dry run: these partitions, and the floor if the
// table is declared.
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

// alone renders changes of a declared table's partitions with the table locked.
// Without the lock, when an ALTER TABLE's wait for its metadata lock fails, MariaDB
// waits a second time.
func (d dialect) alone(t *engine.Table, statements ...string) []string {
	if !floored(t) {
		return statements
	}
	return slices.Concat([]string{d.lockTables([]string{t.Name})}, statements, unlock)
}
