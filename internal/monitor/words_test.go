package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/maintain"
)

// Every period lies within the drawing, in order, and the present is at its position.
func TestTimelines(t *testing.T) {
	whole, near := timelines(status())
	if len(whole.Bars) != 137 || len(near.Bars) != 12+1+48 || whole.Now < 0 || near.Now < 0 || near.Now >= whole.Now {
		t.Errorf("%d and %d bars, now at %v and %v", len(whole.Bars), len(near.Bars), whole.Now, near.Now)
	}
	for name, s := range oddStatuses() {
		whole, near := timelines(s)
		for _, line := range []timeline{whole, near} {
			before := -1.0
			for _, b := range line.Bars {
				if !(b.X >= before && b.X >= 0 && b.X+b.W <= wide+1 && b.Y >= 0 && b.Y+b.H <= tall+.1 && b.W > 0 && b.H >= leastTall) {
					t.Errorf("%s: bar %+v after %v", name, b, before)
				}
				before = b.X
			}
			if line.Now > wide {
				t.Errorf("%s: the present is at %v", name, line.Now)
			}
		}
	}
	// With a clock of its own, or a sequence, the present is the table's.
	s := &maintain.Status{At: noon.Add(1000 * time.Hour), Now: "2026-11-20 12:30:00"}
	for i := range 4 {
		from := noon.Truncate(time.Hour).Add(time.Duration(i-1) * time.Hour)
		s.Periods = append(s.Periods, maintain.PeriodStatus{Name: fmt.Sprint(i), From: at(from), To: at(from.Add(time.Hour)), State: "open"})
	}
	if line, _ := timelines(s); line.Now != 375 {
		t.Errorf("the present is at %v, want 375", line.Now)
	}
	if line, _ := timelines(oddStatuses()["sequence"]); line.Now != 750 {
		t.Errorf("the highest key is at %v, want 750", line.Now)
	}
}
