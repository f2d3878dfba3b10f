package maintain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Existing periods can't be read with another axis or another unit: apply fails
// before it changes anything.
func TestApplyRefusesAnotherAxis(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		counted := func(change func(*rolling.Declaration)) *rolling.Declaration {
			return declare(t, db, func(d *rolling.Declaration) {
				def, err := rolling.ReadDefinition("CREATE TABLE readings (sensor INT NOT NULL, ts BIGINT NOT NULL, value INT, PRIMARY KEY (sensor, ts))")
				if err != nil {
					t.Fatal(err)
				}
				d.Definition, d.Epoch = def, time.Second
				levels(t)(d)
				if change != nil {
					change(d)
				}
			})
		}
		ms := counted(func(d *rolling.Declaration) { d.Epoch = time.Millisecond })
		rows := counted(func(d *rolling.Declaration) {
			d.Epoch, d.Period, d.Rollups, d.Keep = 0, grid(t, "500000 rows"), nil, rolling.Span{}
			d.Ahead, d.Seal.After = grid(t, "500000 rows").Span(), grid(t, "500000 rows").Span()
		})
		w := applied(t, db, counted(nil), at(0.2))
		refused := func(when string, d *rolling.Declaration, want ...string) {
			t.Helper()
			plan, err := opened(t, db, d, at(0.3)).PlanApply(t.Context())
			if err == nil {
				t.Errorf("%s: it is planned: %+v", when, plan)
				return
			}
			var hint *engine.HintError
			if !errors.As(err, &hint) {
				t.Errorf("%s: no hint: %v", when, err)
			}
			for _, s := range want {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%s: it doesn't say %q: %v", when, s, err)
				}
			}
		}
		refused("another unit", ms, `epoch was "s"`, `is "ms"`)
		refused("another axis", rows, "1h", "500000 rows", "time", "sequence")
		if d, err := w.State.Declared(t.Context(), "readings"); err != nil || d.Revision != 1 {
			t.Errorf("declared: %+v, %v", d, err)
		}

		// A dropped table can be created again with another axis, but its roll-ups
		// can't.
		w.dropTable()
		refused("dropped, with roll-ups", ms, "by_half", `epoch was "s"`)
		w.exec("DROP TABLE by_half")
		w.exec("DROP TABLE by_six")
		w = applied(t, db, ms, at(0.3))
		part := w.parts()
		if !strings.HasPrefix(part, "0-1 ") {
			t.Errorf("made anew with %s", part)
		}
		w.dropTable()
		old := state.Period{Table: "readings", Partition: hourly(t, 0, 1)[0], State: state.Archived, Archive: "archive/p.parquet"}
		if err := w.State.Put(t.Context(), w.State.DB(), old); err != nil {
			t.Fatal(err)
		}
		w.exec("DROP TABLE by_half")
		w.exec("DROP TABLE by_six")
		refused("dropped, with archives", rows, "archive", "sequence")
	})
}
