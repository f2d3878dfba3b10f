package monitor

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/maintain"
)

func TestWords(t *testing.T) {
	for s, want := range map[float64]string{0: "0s", .004: "4ms", .9996: "1s", 1.5: "1.5s", 9.96: "10s", 59.6: "1m", 90: "1m 30s", 612: "10m", 3600: "1h",
		19800: "5h 30m", 86400: "1d", 171000: "1d 23h", 864000: "10d", -90: "-1m 30s", math.Inf(1): "unknown", math.NaN(): "unknown", 1e300: "ages"} {
		if got := Duration(s); got != want {
			t.Errorf("%v s: %q, want %q", s, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 96 << 20: "96 MiB", math.MaxInt64: "8192 PiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", .25: "0.2", 12: "12", 999: "999", 1664: "1.7 k", 99_960: "100 k", 2.5e6: "2.5 M", 3e9: "3 G"} {
		if got := short(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

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
