package rolling

import (
	"cmp"
	"fmt"
	"slices"
)

// A Creatable determines which missing periods may be created for rows.
type Creatable struct {
	Grid Grid
	// Range contains the positions for which periods may be created. Rows at earlier positions have
	// passed Keep, the retention. Rows at later positions lie too far in the future.
	Range Period
	Keep  Span
	// Sealed is the position below which no period is created, because roll-ups are never computed
	// again there and would lack the new rows. The lowest position means that nothing is sealed.
	Sealed int64
}

// For returns the grid's period around pos, shortened to overlap no partition. The partitions must
// be in order, and none may contain pos. The error says why the period may not be created.
func (c *Creatable) For(have []Partition, pos int64) (Partition, error) {
	at := c.Grid.Format(pos)
	p, err := c.Grid.At(pos)
	switch {
	case err != nil:
		return Partition{}, fmt.Errorf("%s lies outside of what any period can contain", at)
	case pos < c.Range.From:
		return Partition{}, fmt.Errorf("%s is older than keep = %q: retention drops periods before %s", at, c.Keep, c.Grid.Format(c.Range.From))
	case pos >= c.Range.To:
		return Partition{}, fmt.Errorf("%s lies too far in the future: periods are created up to %s", at, c.Grid.Format(c.Range.To))
	case pos < c.Sealed:
		return Partition{}, fmt.Errorf("%s lies before %s, up to where roll-ups are sealed, as rows before were dropped: they would lack this row", at, c.Grid.Format(c.Sealed))
	}
	i, _ := slices.BinarySearchFunc(have, pos+1, byFrom)
	if i > 0 {
		p.From = max(p.From, have[i-1].To)
	}
	if i < len(have) {
		p.To = min(p.To, have[i].From)
	}
	named := c.Grid.Named(p)
	named.Name = unused(named.Name, have)
	return named, nil
}

func byFrom(p Partition, from int64) int { return cmp.Compare(p.From, from) }

// Insert returns the partitions, which are in order, with one more.
func Insert(parts []Partition, p Partition) []Partition {
	i, _ := slices.BinarySearchFunc(parts, p.From, byFrom)
	return slices.Insert(slices.Clone(parts), i, p)
}

// Missing returns the periods between two positions that no partition covers and that may be
// created. The partitions must be in order. More than limit periods are an error.
func (c *Creatable) Missing(have []Partition, from, to int64, limit int) (out []Partition, err error) {
	for pos := max(from, c.Range.From, c.Sealed); pos < to; {
		if i := Find(have, pos); i >= 0 {
			pos = have[i].To
			continue
		}
		p, err := c.For(have, pos)
		if err != nil {
			return nil, err
		}
		if len(out) == limit {
			return nil, fmt.Errorf("more than %d periods of %s from %s to %s", limit, c.Grid, c.Grid.Format(from), c.Grid.Format(to))
		}
		have, out, pos = Insert(have, p), append(out, p), p.To
	}
	return out, nil
}
