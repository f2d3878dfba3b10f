package rollup

import (
	"errors"
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
		r := recounting{last: last, done: map[time.Duration]int64{}}
		err := r.run(every, now, func(p rolling.Period) error {
			if p.To > before {
				t.Errorf("after %v, buckets are not counted newest first", gap)
			}
			before = p.From
			for b := p.From; b < p.To; b += 10 * second {
				counted[b]++
			}
			return nil
		})
		must(t, err)
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

// TestRecountBrokenOff: after an error, buckets counted before it are not counted
// recompute, and buckets that reached an age since then are.
func TestRecountBrokenOff(t *testing.T) {
	every, err := rolling.Parse("10s")
	must(t, err)
	const second = int64(1e6)
	now := int64(1_770_000_000) * second
	r := recounting{last: now - 20*second, done: map[time.Duration]int64{}}
	counted := map[int64]int{}
	failing := true
	run := func() error {
		ranges := 0
		return r.run(every, now, func(p rolling.Period) error {
			if ranges++; failing && ranges == 3 {
				return errors.New("no")
			}
			for b := p.From; b < p.To; b += 10 * second {
				counted[(now-b)/second]++
			}
			return nil
		})
	}
	if err := run(); err == nil {
		t.Fatal("no error")
	}
	if len(counted) != 4 {
		t.Errorf("before the error, the buckets %v are counted", counted)
	}
	failing = false
	must(t, run())
	for age, n := range counted {
		if n != 1 {
			t.Errorf("the bucket %d s before is counted %d times", age, n)
		}
	}
	if len(counted) != 14 {
		t.Errorf("%d buckets are counted, want 2 of each of 7 ages: %v", len(counted), counted)
	}
}
