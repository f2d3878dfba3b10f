package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowmill/rowmill/result"
)

// tallies are what a client adds up between two ticks.
type tallies struct {
	ops, rows             int64
	errors, retries, late int64
	busy, wait            time.Duration
	overflow              int64 // latencies longer than a histogram holds
}

// A recorder is one client's figures since the last tick. The client writes
// them, the ticker swaps them out; the lock between them is hardly ever
// contended.
type recorder struct {
	mu       sync.Mutex
	t        tallies
	service  *hdrhistogram.Histogram
	response *hdrhistogram.Histogram // nil in a closed loop
}

func newRecorder(open bool) *recorder {
	r := &recorder{service: result.NewHistogram()}
	if open {
		r.response = result.NewHistogram()
	}
	return r
}

// done records an acknowledged operation. due is its response time's start and
// only counts in an open loop.
func (r *recorder) done(rows int, busy, service, response time.Duration, late bool) {
	r.mu.Lock()
	r.t.ops++
	r.t.rows += int64(rows)
	r.t.busy += busy
	r.t.wait += service
	if late {
		r.t.late++
	}
	if r.service.RecordValue(micros(service)) != nil {
		r.t.overflow++
	}
	if r.response != nil && r.response.RecordValue(micros(response)) != nil {
		r.t.overflow++
	}
	r.mu.Unlock()
}

// failed records a try of an operation that failed.
func (r *recorder) failed() {
	r.mu.Lock()
	r.t.errors++
	r.mu.Unlock()
}

// retried records that an operation is tried again.
func (r *recorder) retried() {
	r.mu.Lock()
	r.t.retries++
	r.mu.Unlock()
}

// micros rounds up, so that nothing takes 0 us.
func micros(d time.Duration) int64 {
	return max(1, int64((d+time.Microsecond-1)/time.Microsecond))
}

// A collector merges the recorders of all clients at each tick.
type collector struct {
	recorders []*recorder
	spare     *recorder // swapped with each recorder in turn
	service   *hdrhistogram.Histogram
	response  *hdrhistogram.Histogram
}

func newCollector(clients int, open bool) *collector {
	c := &collector{spare: newRecorder(open), service: result.NewHistogram()}
	if open {
		c.response = result.NewHistogram()
	}
	for range clients {
		c.recorders = append(c.recorders, newRecorder(open))
	}
	return c
}

// collect returns what all clients added up since the last call. The
// histograms of the collector hold their distributions until the next one.
func (c *collector) collect() tallies {
	var sum tallies
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

		sum.ops += t.ops
		sum.rows += t.rows
		sum.errors += t.errors
		sum.retries += t.retries
		sum.late += t.late
		sum.busy += t.busy
		sum.wait += t.wait
		sum.overflow += t.overflow
		if t.ops == 0 {
			continue // nothing was recorded: the histograms are empty
		}
		c.service.Merge(c.spare.service)
		c.spare.service.Reset()
		if c.response != nil {
			c.response.Merge(c.spare.response)
			c.spare.response.Reset()
		}
	}
	return sum
}
