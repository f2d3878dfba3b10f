package lane

import (
	"cmp"
	"slices"

	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// inserted returns a lower bound of the rows inserted in each range. sent has the ranges and the
// number of rows sent to each. there is the number of sent rows that were in the table before;
// refused is the number of sent rows that the server refused. Both numbers are totals of all
// ranges.
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

// ExtentsOf returns the ranges of positions of a batch's rows, with the number of rows in each. A
// batch read from the ledger has one range, from its lowest to its highest position.
func ExtentsOf(b state.Batch) []state.Extent {
	if b.Extents == nil && b.Inserted+b.Updated+b.Duplicate > 0 {
		return []state.Extent{{Period: rolling.Period{From: b.Lower, To: b.Upper + 1}, Rows: b.Inserted}}
	}
	return b.Extents
}

// Merged merges the extents that lie in the same period of the grid, or span the same periods.
func Merged(g rolling.Grid, all []state.Extent) []state.Extent {
	by := map[rolling.Period]state.Extent{}
	for _, e := range all {
		span := e.Period
		first, err1 := g.At(e.From)
		if last, err2 := g.At(e.To - 1); err1 == nil && err2 == nil {
			span = rolling.Period{From: first.From, To: last.To}
		}
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

const mergeAt = 4096

// Gathered appends more extents to all. It merges the extents once there are mergeAt.
func (l *Load) Gathered(all, more []state.Extent) []state.Extent {
	if all = append(all, more...); len(all) >= mergeAt {
		all = Merged(l.Opt.Table.Grid, all)
	}
	return all
}
