package maintain

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// levels has two roll-ups, the second one of the first.
func levels(t *testing.T) func(*rolling.Declaration) {
	return func(d *rolling.Declaration) {
		count := []rolling.Aggregate{{Name: "n", Func: "count"}}
		d.Keep = span(240 * time.Hour)
		d.Rollups = []rolling.Rollup{{Name: "by_half", Every: grid(t, "30m"), Select: count}, {Name: "by_six", From: "by_half", Every: grid(t, "6h"), Select: count}}
	}
}

// buckets lists those of a roll-up as HOUR=ROWS.
func (w *world) buckets(from string) string {
	w.t.Helper()
	q := fmt.Sprintf("SELECT %s, n FROM %s r ORDER BY bucket", w.DB.Words().Position(w.Table.Table, "bucket"), from)
	rows, err := w.DB.SQL().QueryContext(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var pos, n int64
		if err := rows.Scan(&pos, &n); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%g=%d", float64(pos-at(0))/3600e6, n))
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func (w *world) wantBuckets(when string, want map[string]string) {
	w.t.Helper()
	for from, want := range want {
		if got := w.buckets(from); got != want {
			w.t.Errorf("%s: %s has %s, want %s", when, from, got, want)
		}
	}
}

// Buckets of a table that was dropped and is made anew outlive its rows up to where
// the new table begins. What the new table has is counted as that of any other is,
// also where the former one had rows, and by writers that leave no notes.
func TestRollupsOfTableMadeAnew(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, levels(t))
		w := applied(t, db, d, at(7.2))
		w.insert(at(7.1), 1, 2)
		w.now = at(8.2)
		w.insert(at(7.6), 1, 2, 3)
		w.insert(at(8.1), 1, 2, 3, 4)
		w.now = at(8.7)
		w.keep()
		w.wantBuckets("before", map[string]string{"by_half": "7=2 7.5=3 8=4", "by_half_live": "7=2 7.5=3 8=4", "by_six_live": "6=9"})
		w.dropTable()

		now := at(8.8)
		anew := opened(t, db, d, now)
		plan, err := anew.PlanApply(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"roll-up by_half: buckets before 2026-03-28 08:00:00 are kept", "the table of before", "roll-up by_six: buckets before 2026-03-28 06:00:00"} {
			if got := strings.Join(plan.Notes, "\n"); !strings.Contains(got, want) {
				t.Errorf("the plan doesn't say %q: %s", want, got)
			}
		}
		stopped, cancel := context.WithCancel(t.Context()) // before the table is created
		err = plan.Run(stopped, func(s ApplyStep) {
			if strings.HasPrefix(s.What, "create table") {
				cancel()
			}
		})
		if err == nil {
			t.Error("apply was stopped and says nothing")
		}
		w = applied(t, db, d, now)
		w.wantBuckets("made anew", map[string]string{"by_half": "7=2 7.5=3", "by_half_live": "7=2 7.5=3", "by_six_live": ""})
		w.insert(at(8.1), 9) // in a bucket of the former table, unseen
		w.insert(at(8.6), 7, 8)
		w.wantBuckets("with rows", map[string]string{"by_half_live": "7=2 7.5=3 8=1 8.5=2", "by_six_live": "6=3"})
		w.now = at(12.6)
		w.keep()
		w.wantBuckets("in the end", map[string]string{"by_half": "7=2 7.5=3 8=1 8.5=2", "by_half_live": "7=2 7.5=3 8=1 8.5=2", "by_six": "6=8", "by_six_live": "6=8"})
		for w.now = at(13.6); w.now < at(17); w.now += at(1) - at(0) {
			w.keep()
		}
		w.wantBuckets("sealed", map[string]string{"by_half": "7=2 7.5=3 8=1 8.5=2", "by_six": "6=8"})

		// A roll-up that was dropped, too, begins anew.
		w.dropTable()
		w.exec("DROP TABLE by_half")
		w = applied(t, db, d, at(20.2))
		w.insert(at(20.1), 1)
		w.now = at(21.2)
		w.keep()
		w.wantBuckets("dropped, too", map[string]string{"by_half": "20=1", "by_half_live": "20=1", "by_six": "6=8"})
	})
}
