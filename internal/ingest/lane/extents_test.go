package lane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

func extent(from, to, rows int64) state.Extent {
	return state.Extent{Period: rolling.Period{From: from, To: to}, Rows: rows}
}

func TestMerged(t *testing.T) {
	g, err := rolling.EveryRows(100)
	must(t, err)
	got := Merged(g, []state.Extent{extent(210, 220, 5), extent(10, 20, 1), extent(150, 160, 7), extent(30, 100, 2), extent(90, 130, 4), extent(99, 101, 0), extent(20, 21, 0)})
	want := []state.Extent{extent(10, 100, 3), extent(90, 130, 4), extent(150, 160, 7), extent(210, 220, 5)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Merged(g, nil); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}

// TestInsertedIsALowerBound: whichever rows were duplicate or refused, no range has
// fewer rows than inserted returns.
func TestInsertedIsALowerBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent, really []state.Extent
		there, refused := int64(0), int64(0)
		for i := range rapid.IntRange(0, 5).Draw(t, "ranges") {
			n, d, r := rapid.Int64Range(0, 5).Draw(t, "inserted"), rapid.Int64Range(0, 3).Draw(t, "there"), rapid.Int64Range(0, 3).Draw(t, "refused")
			if n+d+r == 0 {
				continue
			}
			sent = append(sent, extent(int64(i)*10, int64(i)*10+5, n+d+r))
			if n+d > 0 {
				really = append(really, extent(int64(i)*10, int64(i)*10+5, n))
			}
			there, refused = there+d, refused+r
		}
		for _, e := range inserted(sent, there, refused) {
			found := false
			for _, is := range really {
				if is.Period == e.Period && is.Rows >= e.Rows {
					found = true
				}
			}
			if !found {
				t.Fatalf("%v is claimed, and there are %v of %v sent", e, really, sent)
			}
		}
	})
}
