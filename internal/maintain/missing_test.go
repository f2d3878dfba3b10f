package maintain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// TestTrapMissingTriggers: if declared triggers are missing, for example because an
// apply was killed before it created them, status reports a problem and rowmill run
// requests them. If triggers belong to periods, its first pass creates them.
func TestTrapMissingTriggers(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Late, d.Exact, d.Source = rolling.LateReject, true, "readings.toml"
			d.Seal.After = span(2 * time.Hour)
			d.Rollups = []rolling.Rollup{{Name: "hours", Every: grid(t, "1h"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}}}
		})
		w := applied(t, db, d, at(0.5))
		w.wantTriggers("as applied")
		for _, of := range []struct {
			name        string
			late, exact bool
		}{{lateTriggers, true, false}, {exactTriggers, false, true}} {
			w.dropTriggers(of.late, of.exact)
			w.wantTriggers(of.name+" dropped", of.name)
			err := opened(t, db, d, at(1)).MissingTriggers(t.Context())
			if perPeriod := w.Schema.View; perPeriod {
				if err != nil {
					t.Error(err)
				}
				if err := (&Daemon{Table: opened(t, db, d, at(0.5))}).Once(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.wantTriggers("after a pass")
				w.dropTriggers(of.late, of.exact)
			} else if !errors.Is(err, ErrTriggers) || !strings.Contains(err.Error(), of.name+" are missing") {
				t.Errorf("%s dropped: %v", of.name, err)
			}
			a, err := w.PlanApply(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.mustRun(a)
			w.wantTriggers("applied again")
			if err := opened(t, db, d, at(1)).MissingTriggers(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// dropTriggers drops the triggers that reject late rows, or those of exact roll-ups.
func (w *world) dropTriggers(late, exact bool) {
	w.t.Helper()
	reject := w.Declared.Late
	defer func() { w.Declared.Late, w.Declared.Exact = reject, true }()
	var of engine.TriggerChange
	var err error
	if late {
		w.Declared.Late = rolling.LateMerge
		of, err = w.lateChange(w.t.Context())
	}
	if exact {
		w.Declared.Exact = false
		of, err = w.Rollups.TriggerChange(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for _, q := range of.SQL {
		w.exec(q)
	}
}

// wantTriggers compares the triggers that status reports.
func (w *world) wantTriggers(when string, missing ...string) {
	w.t.Helper()
	s, err := w.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, p := range s.Problems {
		if p.Code == "triggers" {
			got = append(got, p.Text)
		}
	}
	switch {
	case len(missing) == 0 && len(got) > 0:
		w.t.Errorf("%s: status says %q", when, got)
	case len(missing) > 0 && (len(got) != 1 || !strings.Contains(got[0], strings.Join(missing, ", and ")+" are missing")):
		w.t.Errorf("%s: status says %q, want that they are missing: %q", when, got, missing)
	}
}
