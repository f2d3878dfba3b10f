package adopt

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestCancelLeave: a table that is becoming a plain one stays a rolling one if that is given up
// before the cut-over. Meanwhile other verbs say what goes on.
func TestCancelLeave(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		c := interruption{adopted: []string{"run", "finish"}}
		stop := c.prepare(w)
		for _, at := range []string{"begun", "plain: done", "back: done", "back-verify: chunk"} {
			if w.kind == "sqlite" && strings.HasSuffix(at, "chunk") {
				continue // it has none
			}
			if killed := w.cutOff("leave", func(p string) bool { return p == at }); killed != at {
				t.Errorf("it didn't come to %s", at)
			}
			for _, verb := range []string{"run", "undo"} {
				err := untilFree(func() error { return verbs[verb](t.Context(), w.options()) })
				if !errors.As(err, &refusal{}) || !strings.Contains(err.Error(), "is becoming a plain one") {
					t.Errorf("%s at %s: %v", verb, at, err)
				}
			}
			must(t, untilFree(func() error { return CancelLeave(t.Context(), w.options()) }))
			if got := w.tables(); !w.rolls() || !slices.Equal(got, []string{"events"}) || w.underWay() != "nothing" {
				t.Fatalf("given up at %s: %v", at, got)
			}
		}
		stop()
		w.check("events")
		w.exec("CREATE TABLE events__rowmill_old (precious INT)")
		if err := Leave(t.Context(), w.options()); err == nil || !strings.Contains(err.Error(), "events__rowmill_old") {
			t.Errorf("beside a table of that name: %v", err)
		}
	})
}
