package maintain_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// TestDroppedByOthersMeanwhile: somebody else drops a sealed period that has passed retention,
// while its buckets are being computed again. They stay as they are, and the period counts as
// dropped. A period that retention keeps is no lost one: its buckets follow.
func TestDroppedByOthersMeanwhile(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { counting(t)(d); d.Keep = span(5 * time.Hour) }), at(0.1))
		for hour := range 5 {
			w.insert(at(float64(hour)+0.1), 1, 2)
			w.insert(at(float64(hour)+0.3), 1, 2, 3)
			w.now = at(float64(hour) + 1.05)
			w.keep()
		}
		w.now = at(6.5) // the first period is due, the second is not
		parts := w.partitions()
		for _, p := range parts[:2] {
			for pos := p.From; pos < p.To; pos += 600e6 {
				exec(t, db.SQL(), fmt.Sprintf("INSERT INTO rowmill_stale (rollup_name, bucket) VALUES ('readings_10m', %d)", pos))
			}
			gone := sync.OnceFunc(func() {
				must(t, enginetest.Try(t, db, engine.Detach{Table: w.Table.Table, Have: w.partitions(), Part: p, Into: "elsewhere_" + p.Name}))
			})
			w.Rollups.Reading = func() func() { gone(); return func() {} }
			_, err := w.Rollups.Refresh(t.Context(), w.now)
			must(t, err)
		}
		if n := w.number("SELECT SUM(n) FROM readings_10m"); n != 4*5 {
			t.Errorf("the roll-up has %d rows, want those of the first period and of the last three: 20", n)
		}
		if k := w.records(); !slices.ContainsFunc(k, func(k state.Period) bool { return k.From == at(0) && k.State == state.Dropped }) {
			t.Errorf("the first period isn't recorded as dropped: %+v", k)
		}
	})
}
