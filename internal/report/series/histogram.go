package series

import (
	"math"

	"github.com/rowmill/rowmill/result"
)

// perDecade is the number of bars of a histogram for each power of ten.
const perDecade = 10

// Histogram returns the outline of a histogram of an operation's latencies over all intervals of
// some runs: for each edge of a bar, the latency in microseconds, and the share of operations in
// the bar. If a rate was requested, latencies count from when an operation was due. Both lists are
// empty if there are no operations, or if a recorded histogram is damaged.
func Histogram(recs []*result.Record, op string) (latencies, shares []float64) {
	var m result.Merger
	for _, r := range recs {
		for _, iv := range r.Intervals {
			h, ok := iv.Response[op]
			if !ok {
				h = iv.Latency[op]
			}
			if h.Count > 0 && m.Add(h) != nil {
				return nil, nil
			}
		}
	}
	if m.Count() == 0 {
		return nil, nil
	}
	var bounds []int64
	for e := range 9 * perDecade {
		if b := int64(math.Round(math.Pow(10, float64(e)/perDecade))); len(bounds) == 0 || b > bounds[len(bounds)-1] {
			bounds = append(bounds, b)
		}
	}
	for i, n := range m.UpTo(bounds)[:len(bounds)] {
		if n == 0 && len(shares) == 0 {
			continue
		}
		from := 1.0
		if i > 0 {
			from = float64(bounds[i-1])
		}
		share := float64(n) / float64(m.Count())
		latencies, shares = append(latencies, from, float64(bounds[i])), append(shares, share, share)
	}
	for len(shares) > 2 && shares[len(shares)-1] == 0 {
		latencies, shares = latencies[:len(latencies)-2], shares[:len(shares)-2]
	}
	return latencies, shares
}
