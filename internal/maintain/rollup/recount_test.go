package rollup

import (
	"testing"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// TestRecountedOnce: each bucket that has reached an age since the last recount is
// counted, and only once, however long ago that recount was.
func TestRecountedOnce(t *testing.T) {
	every, err := rolling.Parse("10s")
	must(t, err)
	const second = int64(1e6)
	now := int64(1_770_000_000) * second
	for _, gap := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 30 * 24 * time.Hour} {
		last := now - gap.Microseconds()
		counted := map[int64]int{}
		before := now
		for _, p := range recounted(every, last, now) {
			if p.To > before {
				t.Errorf("after %v, buckets are not counted newest first", gap)
			}
			before = p.From
			for b := p.From; b < p.To; b += 10 * second {
				counted[b]++
			}
		}
		for b, n := range counted {
			if n > 1 {
				t.Fatalf("after %v, the bucket %v before is counted %d times", gap, time.Duration(now-b)*time.Microsecond, n)
			}
		}
		want := 0
		for age := firstRecount; age <= lastRecount; age *= recountFactor {
			for b := every.Floor(last - age.Microseconds()); b < every.Floor(now-age.Microseconds()); b += 10 * second {
				if counted[b] == 1 {
					counted[b]++
					want++
				} else if counted[b] == 0 {
					t.Fatalf("after %v, the bucket %v before isn't counted", gap, time.Duration(now-b)*time.Microsecond)
				}
			}
		}
		if want != len(counted) {
			t.Errorf("after %v, %d buckets are counted, want %d", gap, len(counted), want)
		}
	}
}
