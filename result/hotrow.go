package result

// A HotRow describes how a run of `bench hotrow` increments the counter, and how fast it could.
type HotRow struct {
	// Way is how a run counts, such as "plain" or "one-trip".
	Way string `json:"way"`
	// Slots is the number of rows over which the counter is spread. CacheSeconds is the maximum age
	// of the count that a run reads.
	Slots        int     `json:"slots,omitempty"`
	CacheSeconds float64 `json:"cache_seconds,omitempty"`
	// Ceiling is the rate, in runs per second, at which the counter's locks would never be free. It is
	// the number of the counter's rows (Slots, or 1) divided by the time for which a single client
	// holds a lock. 0 is unknown.
	Ceiling float64 `json:"ceiling_per_second,omitempty"`
	// HeldMicros is the time for which a single client holds a lock: the median of the time from
	// sending the UPDATE to the answer to COMMIT.
	HeldMicros float64 `json:"held_us,omitempty"`
	// ClientAlone is the rate, in runs per second, that the same number of clients reach on an engine
	// that stores nothing; 0 is unknown.
	ClientAlone float64 `json:"client_alone_per_second,omitempty"`
}

// LeastAndMean returns the least and the mean latency of an operation, in microseconds; 0 if it was
// never done.
func (r *Record) LeastAndMean(op string) (least, mean int64, err error) {
	var m Merger
	for i := range r.Intervals {
		if h, ok := r.Intervals[i].Latency[op]; ok {
			if err := m.Add(h); err != nil {
				return 0, 0, err
			}
		}
	}
	least, mean = m.LeastAndMean()
	return least, mean, nil
}
