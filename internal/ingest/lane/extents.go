package lane

import (
	"cmp"
	"slices"

	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// inserted returns a lower bound for the number of rows inserted in each range, given
// the rows sent to each. there is the number of rows that already existed and refused
// the number that were refused; their ranges are unknown.
func inserted(sent []state.Extent, there, refused int64) []state.Extent {
	out := []state.Extent{}
	for _, e := range sent {
		if e.Rows > refused {
			e.Rows = max(e.Rows-refused-there, 0)
			out = append(out, e)
		}
	}
	return out
}

// ExtentsOf returns the extents of the rows of a batch. A line of the ledger has only
// their first and last position.
func ExtentsOf(b state.Batch) []state.Extent {
	if b.Extents == nil && b.Inserted+b.Updated+b.Duplicate > 0 {
		return []state.Extent{{Period: rolling.Period{From: b.Lower, To: b.Upper + 1}, Rows: b.Inserted}}
	}
	return b.Extents
}

// Merged reduces the number of extents: it merges those in the same period of the
// grid, and those that span the same periods.
func Merged(g rolling.Grid, all []state.Extent) []state.Extent {
	by := map[rolling.Period]state.Extent{}
	for _, e := range all {
		span := spanOf(g, e)
		if was, there := by[span]; there {
			e = state.Extent{Period: rolling.Period{From: min(e.From, was.From), To: max(e.To, was.To)}, Rows: e.Rows + was.Rows}
		}
		by[span] = e
	}
	out := make([]state.Extent, 0, len(by))
	for _, e := range by {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b state.Extent) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out
}

// spanOf returns the periods of the grid in which an extent lies, as one.
func spanOf(g rolling.Grid, e state.Extent) rolling.Period {
	first, err1 := g.At(e.From)
	last, err2 := g.At(e.To - 1)
	if err1 != nil || err2 != nil {
		return e.Period
	}
	return rolling.Period{From: first.From, To: last.To}
}

const mergeAt = 4096

// Gathered adds extents to others, and merges them once they are many: each batch
// adds one per period.
func (l *Load) Gathered(all, more []state.Extent) []state.Extent {
	if all = append(all, more...); len(all) >= mergeAt {
		all = Merged(l.Opt.Table.Grid, all)
	}
	return all
}
