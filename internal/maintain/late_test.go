package maintain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// TestLateReject: a row of a sealed period is rejected with a message that states
// the reason; a row of a period that is over but not sealed is accepted.
func TestLateReject(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Late = rolling.LateReject
			d.Seal.After = span(time.Hour)
			d.Seal.Merge = grid(t, "2h")
		})
		w := applied(t, db, d, at(0.5))
		w.insert(w.now, 1, 2)
		for hour := 1; hour < 4; hour++ {
			w.now = at(float64(hour) + 0.5)
			w.keep()
			w.insert(w.now, 1, 2)
		}
		w.insert(at(2.6), 5) // over, not sealed
		q := fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (9, %s, 1)", db.Words().Literal(w.Table.Table, at(1.7)))
		_, err := db.SQL().ExecContext(t.Context(), q)
		if err == nil || !strings.Contains(err.Error(), "sealed") {
			t.Errorf("a row of a sealed period: %v", err)
		}
		if n := w.count(); n != 9 {
			t.Errorf("%d rows, want 9", n)
		}
		d.Late = rolling.LateMerge
		plan, err := w.PlanApply(t.Context())
		if err == nil {
			err = plan.Run(t.Context(), func(ApplyStep) {})
		}
		if err != nil {
			t.Fatal(err)
		}
		w.insert(at(1.7), 9)
	})
}
