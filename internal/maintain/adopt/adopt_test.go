package adopt

import (
	"context"
	"slices"
	"testing"
	"time"
)

// rolls reports whether the table is a rolling table.
func (w *world) rolls() bool {
	w.t.Helper()
	s, err := w.db.Describe(context.Background(), "events")
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Partitioned
}

func TestRun(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(5000)
		stop := w.load(3, 5000)
		o := w.options()
		var steps []string
		began := time.Now()
		o.at = func(point string) error {
			if point == "copy: chunk" {
				w.wrote(3) // so that writers are active throughout
			}
			return nil
		}
		o.Progress = func(p Progress) {
			if testing.Verbose() && p.Paused != "" {
				t.Logf("%v %+v", time.Since(began).Round(time.Millisecond), p)
			}
			if len(steps) == 0 || steps[len(steps)-1] != p.Step {
				steps = append(steps, p.Step)
			}
		}
		err := Run(t.Context(), o)
		w.wrote(20)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		if !w.rolls() {
			t.Fatal("it is no rolling table")
		}
		t.Logf("%d transactions, the longest %v; steps %v", w.count, w.stall, steps)
		w.check("events")
		if got := w.tables(); !slices.Equal(got, []string{"events", "events__rowmill_old"}) {
			t.Errorf("tables %v", got)
		}
		if err := Run(t.Context(), w.options()); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := Finish(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		if got := w.tables(); !slices.Equal(got, []string{"events"}) {
			t.Errorf("tables in the end %v", got)
		}
		if c, err := UnderWay(t.Context(), o.State, "events"); c != nil || err != nil {
			t.Errorf("under way: %v, %v", c, err)
		}
	})
}
