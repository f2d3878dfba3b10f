package result

import (
	"encoding/base64"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a histogram: 1 us to a day, with 3 significant figures.
const (
	histogramMin     = 1
	histogramMax     = 24 * 3600 * 1e6
	histogramFigures = 3
)

// NewHistogram returns an empty histogram of microseconds.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(histogramMin, histogramMax, histogramFigures)
}

// A Histogram is the latency distribution of one interval as stored in a record: an HDR
// histogram in its compressed V2 encoding, base64, and the percentiles for human readers.
type Histogram struct {
	Latency
	HDR string `json:"hdr"`
}

// EncodeHistogram encodes h for a record.
func EncodeHistogram(h *hdrhistogram.Histogram) (Histogram, error) {
	p, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return Histogram{}, fmt.Errorf("encode histogram: %w", err)
	}
	return Histogram{Latency: LatencyOf(h), HDR: string(p)}, nil
}

// Decode returns the histogram.
func (h Histogram) Decode() (*hdrhistogram.Histogram, error) {
	if _, err := base64.StdEncoding.DecodeString(h.HDR); err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	d, err := hdrhistogram.Decode([]byte(h.HDR))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	return d, nil
}

// LatencyOf returns the usual percentiles of h.
func LatencyOf(h *hdrhistogram.Histogram) Latency {
	return Latency{
		Count: h.TotalCount(),
		P50:   h.ValueAtQuantile(50),
		P95:   h.ValueAtQuantile(95),
		P99:   h.ValueAtQuantile(99),
		P999:  h.ValueAtQuantile(99.9),
		Max:   h.Max(),
	}
}
