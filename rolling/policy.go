package rolling

import (
	"fmt"
	"slices"
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

// Steps returns what takes a table that has the partitions have to the ones it
// should have when its newest row is at pos. It refuses partitions that
// overlap. New partitions start exactly where the last one ends, also when the
// grid has changed since, so there is never a gap or an overlap. A partition
// that holds pos or anything after it is never dropped.
func (p Policy) Steps(have []Partition, pos int64) (Steps, error) {
	var s Steps
	present, err := p.Grid.At(pos)
	if err != nil {
		return s, err
	}
	have = slices.Clone(have)
	slices.SortFunc(have, func(a, b Partition) int {
		if a.From < b.From {
			return -1
		}
		return 1
	})
	for i := 1; i < len(have); i++ {
		a, b := have[i-1], have[i]
		if a.Overlaps(b.Period) {
			return s, fmt.Errorf("partitions %s and %s overlap", a.Name, b.Name)
		}
		if a.To < b.From {
			s.Gaps = append(s.Gaps, Period{a.To, b.From})
		}
	}

	end := present.From
	if len(have) > 0 {
		end = have[len(have)-1].To
	}
	last, err := p.ahead(present)
	if err != nil {
		return s, err
	}
	for end < last.To {
		next, err := p.Grid.At(end)
		if err != nil {
			return s, err
		}
		next.From = end
		s.Create = append(s.Create, p.Grid.Named(next))
		end = next.To
	}

	if p.Keep > 0 {
		oldest := present
		for range p.Keep - 1 {
			if oldest.From <= p.Grid.Bounds().From {
				break
			}
			if oldest, err = p.Grid.At(oldest.From - 1); err != nil {
				return s, err
			}
		}
		for _, h := range have {
			if h.To <= oldest.From {
				s.Drop = append(s.Drop, h)
			}
		}
	}
	return s, nil
}

// ahead returns the last period that must exist when present is filling. Near
// the end of the axis that is the axis' last period.
func (p Policy) ahead(present Period) (Period, error) {
	last := present
	for range max(p.Ahead, 1) {
		if last.To >= p.Grid.Bounds().To {
			break
		}
		next, err := p.Grid.At(last.To)
		if err != nil {
			return last, err
		}
		last = next
	}
	return last, nil
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
