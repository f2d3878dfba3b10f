package rolling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Policy determines which periods a rolling table has.
type Policy struct {
	Grid Grid
	// Ahead is the number of whole periods created in advance, after the one that contains the current
	// position. 0 means 1: with no period in advance, the first insert of a new period would fail.
	Ahead int
	// Keep is the number of periods kept, including the current one. 0 keeps all.
	Keep int
}

// Steps are the changes to a table's partitions, the most important first.
type Steps struct {
	// Create lists partitions to add after the last one, in order.
	Create []Partition
	// Drop lists partitions that have passed retention, oldest first.
	Drop []Partition
	// Gaps lists ranges between the first and the last partition that no partition contains. Range
	// partitions are added at the end only, so a gap is only reported: the owner must fill it.
	Gaps []Period
}

// maxCreate is MySQL's limit of partitions. If more are due, the period or the clock is wrong.
const maxCreate = 8192

// Steps returns the changes from the partitions in have to the required ones when the newest row is
// at pos. It refuses to work if partitions overlap or are empty ranges, or if more than 8192 are to
// be created. New partitions start exactly where the last one ends, even if the grid has changed,
// so there is never a gap or an overlap. If the first new partitions would already be past
// retention, they are combined into one partition with the oldest period that is kept. A partition
// that contains pos or any later position is never dropped.
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

// inOrder returns the sorted partitions, and the ranges between them that none contains.
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

// unused appends x to a name until no partition has it, in any case of letters.
func unused(name string, have []Partition) string {
	for slices.ContainsFunc(have, func(h Partition) bool { return strings.EqualFold(h.Name, name) }) {
		name += "x"
	}
	return name
}

// Find returns the index of the partition in parts, sorted by From, that contains pos, or -1.
func Find(parts []Partition, pos int64) int {
	i, found := slices.BinarySearchFunc(parts, pos, func(p Partition, pos int64) int { return p.Compare(pos) })
	if !found {
		return -1
	}
	return i
}
