package rollup_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/rolling"
)

// If rows are removed while their sealed buckets are recomputed, the buckets stay
// unchanged.
func TestRowsGoWhileSealedBucketsAreComputed(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f, _ := filled(t, kind, few(t), start+3*day, some(start+hour, 20)...)
		before := f.rows(f.decl.Rollups[0], "r10m")
		f.dropFirst()
		asked := 0
		present := func(context.Context) ([]rolling.Period, error) {
			if asked++; asked <= len(f.set.LevelsForTest()) {
				return []rolling.Period{{From: start - 40*day, To: start + 40*day}}, nil
			}
			return []rolling.Period{{From: start + day, To: start + 40*day}}, nil
		}
		_, err := f.set.RefreshRange(context.Background(), start, start+day, present)
		if err == nil || !strings.Contains(err.Error(), "meanwhile") {
			t.Errorf("RefreshRange: %v", err)
		}
		if after := f.rows(f.decl.Rollups[0], "r10m"); !slices.Equal(before, after) {
			t.Errorf("before %v\nafter  %v", before, after)
		}
	})
}
