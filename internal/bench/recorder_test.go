package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rowmill/rowmill/result"
)

// TestCollect checks that the collected figures are those that clients record, for few and for many
// operations, and that no interval contains figures of the previous one.
func TestCollect(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := newCollector(3, true)
	for _, ops := range []int{10, 0, 1, firstLatencies, firstLatencies + 1, 5000, 3, 5000, 0} {
		service, response := result.NewHistogram(), result.NewHistogram()
		var overflow int64
		var busy, wait time.Duration
		for i, r := range c.recorders {
			for n := range ops * i {
				d := time.Duration(rng.ExpFloat64() * float64(time.Second))
				if n%2000 == 1 {
					d = 100 * time.Hour
				}
				r.done(2, d/3, d, 2*d)
				busy, wait = busy+d/3, wait+d
				for h, us := range map[interface{ RecordValue(int64) error }]int64{service: micros(d), response: micros(2 * d)} {
					if h.RecordValue(us) != nil {
						overflow++
					}
				}
			}
			r.add(tallies{errors: 1, retries: 1, late: 1, busy: 1, wait: 2})
		}
		want := tallies{ops: int64(3 * ops), rows: int64(6 * ops), errors: 3, retries: 3, late: 3, busy: busy + 3, wait: wait + 6}
		if got := c.collect(); got != want || c.overflow != overflow {
			t.Errorf("%d operations: got %+v, overflow %d; want %+v, %d", ops, got, c.overflow, want, overflow)
		}
		if !c.service.Equals(service) || !c.response.Equals(response) {
			t.Errorf("%d operations: the distributions differ", ops)
		}
	}
}

func TestMicros(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 1, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, -time.Second: 1} {
		if got := micros(d); got != want {
			t.Errorf("%d ns are %d us, want %d", d, got, want)
		}
	}
}
