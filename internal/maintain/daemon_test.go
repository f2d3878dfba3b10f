package maintain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// due lists the due tasks, except for the refresh of roll-ups, which is always due.
func (w *world) due() []string {
	w.t.Helper()
	now, err := w.Follow(w.t.Context())
	must(w.t, err)
	v, err := now.View(w.t.Context())
	must(w.t, err)
	tasks, err := Plan(now.Declared, v)
	must(w.t, err)
	var out []string
	for _, task := range tasks {
		if task.Kind != Rollup && task.Due <= v.Now {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", task.Kind, label(task), task.Waits)))
		}
	}
	return out
}

// All due tasks are done in one call, however often one lane waits for another.
func TestOnceDoesAll(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Keep, d.Ahead = span(20*time.Hour), span(12*time.Hour)
			d.Rollups = counts(t, "readings_1h")
		})
		w := applied(t, db, d, at(0.2))
		for hour := range 8 {
			w.insert(at(float64(hour)+0.5), 1, 2)
		}
		w.now = at(19.6) // each is sealed, and checked again
		w.keep()
		v, err := w.View(t.Context())
		must(t, err)
		w.failed.open.Store(string(Check), true)
		must(t, w.Do(t.Context(), Task{Kind: Check, Parts: v.Parts[:1]}, v))
		if !slices.ContainsFunc(w.actions(), func(a state.Action) bool { return a.Action == string(Check) }) {
			t.Error("a check that found nothing has left the failure before it as the log's last word")
		}
		for hour := range 8 {
			w.insert(at(float64(hour)+0.9), 9)
		}
		w.now = at(29.6) // and all are due to be dropped
		w.keep()
		if due := w.due(); len(due) > 0 {
			t.Errorf("after one call there is left to do:\n%s", strings.Join(due, "\n"))
		}
	})
}

// Due tasks that can't be done are listed in an error.
func TestOnceSaysWhatIsLeft(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Keep = span(time.Hour) }), at(0.2))
		w.hours(0, 2)
		have := w.partitions()
		c := &state.Change{Table: "readings", ID: "restore", Kind: string(Restore), Step: stepAttach}
		if _, err := w.State.Begin(t.Context(), c, restoring{Part: have[0]}); err != nil {
			t.Fatal(err)
		}
		w.now = at(2.6)
		err := (&Daemon{Table: w.Table}).Once(t.Context())
		if want := "drop " + have[0].Name + ", which waits: a change of it is under way"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kept: %v, want an error with %q", err, want)
		}
		must(t, w.State.End(t.Context(), w.State.DB(), c))
		w.keep()
		w.wantParts("1-2 ")
	})
}

// A refresh of roll-ups is listed as next if there is something to compute, and
// otherwise for the end of the next bucket.
func TestNextRefresh(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) {
			d.Rollups = []rolling.Rollup{
				{Name: "by_hour", Every: grid(t, "1h"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}},
				{Name: "by_day", Every: grid(t, "1d"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}},
			}
		}), at(0.2))
		w.hours(0, 2)
		w.keep()
		for _, c := range []struct {
			now, due float64
			what     string
		}{{1.6, 2, "by_hour"}, {2.2, 2.2, "by_hour"}} {
			w.now = at(c.now)
			s := w.status()
			var got []string
			for _, n := range s.Next {
				if n.Action == string(Rollup) {
					got = append(got, n.What+" at "+n.At.Format(time.DateTime))
				}
			}
			if want := c.what + " at " + rolling.Instant(at(c.due)).Format(time.DateTime); strings.Join(got, ", ") != want {
				t.Errorf("at %.1f the next refresh is %q, want %q", c.now, got, want)
			}
		}
	})
}
