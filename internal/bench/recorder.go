package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowmill/rowmill/result"
)

// tallies are the counts of a client between two ticks.
type tallies struct {
	ops, rows             int64
	errors, retries, late int64
	busy, wait            time.Duration
}

func (t *tallies) add(o tallies) {
	t.ops, t.rows = t.ops+o.ops, t.rows+o.rows
	t.errors, t.retries, t.late = t.errors+o.errors, t.retries+o.retries, t.late+o.late
	t.busy, t.wait = t.busy+o.busy, t.wait+o.wait
}

// any reports whether anything was done. Preparing an operation does not count.
func (t tallies) any() bool {
	t.busy = 0
	return t != tallies{}
}

// latencies are one client's latencies between two ticks, in microseconds: the first ones as
// values, and more in a histogram. A histogram takes 220 KB, too much for a few operations.
type latencies struct {
	first    []int64
	rest     *hdrhistogram.Histogram // nil until needed
	overflow int64                   // number of latencies too long for rest
}

// firstLatencies is the number of latencies kept as values, in 8 KB.
const firstLatencies = 1024

func (l *latencies) record(us int64) {
	if len(l.first) < firstLatencies {
		l.first = append(l.first, us)
		return
	}
	if l.rest == nil {
		l.rest = result.NewHistogram()
	}
	if l.rest.RecordValue(us) != nil {
		l.overflow++
	}
}

// moveTo adds the latencies to a histogram and clears them. It returns how many latencies exceed
// the range of the histogram.
func (l *latencies) moveTo(h *hdrhistogram.Histogram) (overflow int64) {
	overflow, l.overflow = l.overflow, 0
	for _, us := range l.first {
		if h.RecordValue(us) != nil {
			overflow++
		}
	}
	l.first = l.first[:0]
	if l.rest != nil && l.rest.TotalCount() > 0 {
		overflow += h.Merge(l.rest)
		l.rest.Reset()
	}
	return overflow
}

// A recorder holds one client's figures since the last tick. The client writes
// them and the ticker swaps them out; their lock is rarely contended.
type recorder struct {
	open     bool
	mu       sync.Mutex
	t        tallies
	service  latencies
	response latencies // only of an open loop

	_ [64]byte // keeps recorders on separate cache lines
}

// done records an acknowledged operation. busy is the time in which the client prepared it, service
// the time of Do with its retries, and response, in an open loop, the time since it was due.
func (r *recorder) done(rows int, busy, service, response time.Duration) {
	r.mu.Lock()
	r.t.add(tallies{ops: 1, rows: int64(rows), busy: busy, wait: service})
	r.service.record(micros(service))
	if r.open {
		r.response.record(micros(response))
	}
	r.mu.Unlock()
}

// add records other counts, such as an error or a retry.
func (r *recorder) add(t tallies) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.add(t)
}

// micros converts to microseconds and rounds up, so that no duration is 0 us.
func micros(d time.Duration) int64 {
	return max(1, int64((d+time.Microsecond-1)/time.Microsecond))
}

type collector struct {
	recorders []*recorder
	spare     *recorder // its latencies are swapped with each recorder's in turn
	// The distributions of the last collected interval, and the number of
	// latencies that exceed their range.
	service  *hdrhistogram.Histogram
	response *hdrhistogram.Histogram // nil in a closed loop
	overflow int64
}

func newCollector(clients int, open bool) *collector {
	c := &collector{spare: &recorder{open: open}, service: result.NewHistogram()}
	if open {
		c.response = result.NewHistogram()
	}
	for range clients {
		c.recorders = append(c.recorders, &recorder{open: open})
	}
	return c
}

func (c *collector) collect() tallies {
	var sum tallies
	c.overflow = 0
	c.service.Reset()
	if c.response != nil {
		c.response.Reset()
	}
	for _, r := range c.recorders {
		r.mu.Lock()
		t := r.t
		r.t = tallies{}
		r.service, c.spare.service = c.spare.service, r.service
		r.response, c.spare.response = c.spare.response, r.response
		r.mu.Unlock()

		sum.add(t)
		c.overflow += c.spare.service.moveTo(c.service)
		if c.response != nil {
			c.overflow += c.spare.response.moveTo(c.response)
		}
	}
	return sum
}
