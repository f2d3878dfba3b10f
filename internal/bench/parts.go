package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowmill/rowmill/result"
)

// Parts are the latencies of the parts of an operation since the last interval, e.g. of the
// statements of a transaction. The zero value is ready to use; all clients share one.
type Parts struct {
	mu sync.Mutex
	of map[string]*hdrhistogram.Histogram
}

// Took adds the time of one part.
func (p *Parts) Took(part string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.of[part]
	if h == nil {
		if p.of == nil {
			p.of = map[string]*hdrhistogram.Histogram{}
		}
		h = result.NewHistogram()
		p.of[part] = h
	}
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue())) // in its range
}

// Note moves the latencies to an interval, where each part is like a load beside the main load.
func (p *Parts) Note(iv *result.Interval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if iv.Beside == nil {
		iv.Beside = map[string]result.Tally{}
	}
	for part, h := range p.of {
		if encoded, err := result.EncodeHistogram(h); err == nil && h.TotalCount() > 0 {
			iv.Latency[part], iv.Beside[part] = encoded, result.Tally{Rows: h.TotalCount()}
		}
		h.Reset()
	}
}
