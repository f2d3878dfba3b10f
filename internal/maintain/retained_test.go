package maintain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// TestApplyTellsWhatRetentionDrops: a declaration under which periods become droppable is applied
// only after their number, rows and bounds were told, and whether they are archived before.
func TestApplyTellsWhatRetentionDrops(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		with := func(change func(*rolling.Declaration)) *rolling.Declaration { return declare(t, db, change) }
		w := applied(t, db, with(func(d *rolling.Declaration) { d.Keep, d.Rollups = span(20*time.Hour), counts(t, "readings_1h") }), at(0.2))
		w.hours(0, 12)
		told := func(d *rolling.Declaration) string {
			t.Helper()
			return strings.Join(applyPlan(t, opened(t, db, d, w.now)).Dropped, "\n")
		}
		from, to := w.Table.Table.Grid.Format(at(0)), w.Table.Table.Grid.Format(at(7))
		for _, c := range []struct {
			what   string
			change func(*rolling.Declaration)
			want   []string
		}{
			{"shortened", func(d *rolling.Declaration) { d.Keep = span(4 * time.Hour) },
				[]string{"7 periods with 21 rows, from " + from + " to " + to, "keep = 20h -> 4h", "no archive is declared"}},
			{"archived", func(d *rolling.Declaration) { d.Keep, d.Seal.Archive = span(4*time.Hour), "archive/readings" },
				[]string{"7 periods", "archive/readings"}},
			{"a roll-up", func(d *rolling.Declaration) {
				d.Keep, d.Rollups = span(20*time.Hour), counts(t, "readings_1h")
				d.Rollups[0].Keep = span(4 * time.Hour)
			}, []string{"roll-up readings_1h", "7 rows", "keep = none -> 4h"}},
			{"nothing is that old", func(d *rolling.Declaration) { d.Keep = span(13 * time.Hour) }, nil},
			{"longer", func(d *rolling.Declaration) { d.Keep = span(40 * time.Hour) }, nil},
			{"as it was", func(d *rolling.Declaration) { d.Keep, d.Rollups = span(20*time.Hour), counts(t, "readings_1h") }, nil},
		} {
			got := told(with(c.change))
			if (got == "") != (c.want == nil) {
				t.Errorf("%s: %q", c.what, got)
			}
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%s: %q, want %q in it", c.what, got, part)
				}
			}
		}
		mustRun(t, applyPlan(t, opened(t, db, with(func(d *rolling.Declaration) { d.Keep = span(4 * time.Hour) }), w.now)))
		w.keep()
		w.wantParts("7-8 ")
	})
}
