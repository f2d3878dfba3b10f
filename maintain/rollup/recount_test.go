package rollup

import (
	"testing"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// TestRecountedOnce: of the buckets that have reached an age since the last time
// each is counted, and once, however long ago that was.
func TestRecountedOnce(t *testing.T) {
	every, err := rolling.Parse("10s")
	if err != nil {
		t.Fatal(err)
	}
	const second = int64(1e6)
	now := int64(1_770_000_000) * second
	for _, gap := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 30 * 24 * time.Hour} {
		last := now - gap.Microseconds()
		counted := map[int64]int{}
		for _, p := range recounted(every, last, now) {
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
