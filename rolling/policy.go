package rolling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Policy says which periods a rolling table has while it rolls on.
type Policy struct {
	Grid Grid
	// Ahead is the number of whole periods kept ready after the one that
	// holds the present position. 0 means 1: with none, the first insert of a
	// new period would fail.
	Ahead int
	// Keep is the number of periods kept, the present one and those before
	// it. 0 keeps all.
	Keep int
}

// Steps is what must happen to a table's partitions, in this order of
// importance: creation is never held up by retention.
type Steps struct {
	// Create lists partitions to add after the last one, in order.
	Create []Partition
	// Drop lists partitions that have passed retention, oldest first.
	Drop []Partition
	// Gaps lists ranges that no partition holds between the first and the
	// last one. Range partitions are added at the end only, so a gap needs a
	// person: it is reported, not filled.
	Gaps []Period
}

// Empty reports whether there is nothing to do.
func (s Steps) Empty() bool { return len(s.Create) == 0 && len(s.Drop) == 0 }

// maxCreate is the most partitions that one call creates: what MySQL and
// MariaDB allow a table, and far more than any table is well with. A table that
// needs more has a period that is too short, or a wrong clock.
const maxCreate = 8192

// Steps returns what takes a table that has the partitions have to the ones it
// should have when its newest row is at pos. It refuses partitions that
// overlap or hold nothing, and to create more than 8192 at once. New partitions
// start exactly where the last one ends, also when the grid has changed since,
// so there is never a gap or an overlap; where that was so long ago that the
// first of them would be past retention already, they become one partition with
// the oldest period that is kept. A partition that holds pos or anything after
// it is never dropped.
func (p Policy) Steps(have []Partition, pos int64) (Steps, error) {
	var s Steps
	present, err := p.Grid.At(pos)
	if err != nil {
		return s, err
	}
	have, s.Gaps, err = inOrder(have)
	if err != nil {
		return s, err
	}
	last, err := p.Grid.shift(present, int64(max(p.Ahead, 1)))
	if err != nil {
		return s, err
	}
	oldest := Period{From: p.Grid.Bounds().From} // nothing is past retention
	if p.Keep > 0 {
		if oldest, err = p.Grid.shift(present, -int64(p.Keep-1)); err != nil {
			return s, err
		}
	}

	end := present.From
	if len(have) > 0 {
		end = have[len(have)-1].To
	}
	for from := end; end < last.To; from = end {
		next, err := p.Grid.At(max(end, oldest.From))
		if err != nil {
			return s, err
		}
		if len(s.Create) == maxCreate {
			return Steps{}, fmt.Errorf("more than %d partitions of %s to create up to %s: take a longer period",
				maxCreate, p.Grid, p.Grid.Format(last.To))
		}
		next.From, end = from, next.To
		named := p.Grid.Named(next)
		named.Name = unused(named.Name, have)
		s.Create = append(s.Create, named)
	}
	for _, h := range have {
		if p.Keep > 0 && h.To <= oldest.From {
			s.Drop = append(s.Drop, h)
		}
	}
	return s, nil
}

// inOrder returns the partitions sorted, and the ranges that none of them holds
// between the first and the last one.
func inOrder(have []Partition) (sorted []Partition, gaps []Period, err error) {
	sorted = slices.Clone(have)
	slices.SortFunc(sorted, func(a, b Partition) int { return cmp.Compare(a.From, b.From) })
	for i, b := range sorted {
		if b.To <= b.From {
			return nil, nil, fmt.Errorf("partition %s holds nothing: it ends where it begins, or before", b.Name)
		}
		if i == 0 {
			continue
		}
		a := sorted[i-1]
		if a.Overlaps(b.Period) {
			return nil, nil, fmt.Errorf("partitions %s and %s overlap", a.Name, b.Name)
		}
		if a.To < b.From {
			gaps = append(gaps, Period{a.To, b.From})
		}
	}
	return sorted, gaps, nil
}

// unused returns name, with a letter x added for as long as a partition has
// it: tables that came from elsewhere may name partitions after their ends.
// Servers compare these names without regard to case.
func unused(name string, have []Partition) string {
	for slices.ContainsFunc(have, func(h Partition) bool { return strings.EqualFold(h.Name, name) }) {
		name += "x"
	}
	return name
}

// Find returns the index of the partition in parts, sorted by From, that holds
// pos, or -1.
func Find(parts []Partition, pos int64) int {
	i, found := slices.BinarySearchFunc(parts, pos, func(p Partition, pos int64) int {
		switch {
		case p.To <= pos:
			return -1
		case p.From > pos:
			return 1
		}
		return 0
	})
	if !found {
		return -1
	}
	return i
}
