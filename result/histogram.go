package result

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

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

// plus returns the sum of two distributions.
func (h Histogram) plus(more Histogram) (Histogram, error) {
	switch {
	case more.Count == 0:
		return h, nil
	case h.Count == 0:
		return more, nil
	}
	var m Merger
	if err := errors.Join(m.Add(h), m.Add(more)); err != nil {
		return h, err
	}
	out, err := EncodeHistogram(m.histogram())
	out.Max = max(h.Max, more.Max)
	return out, err
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

// A Merger adds latency distributions. The zero value is empty and ready to use.
//
// The record of a day has 86,400 distributions, for each of which the library's Decode
// allocates 229 KB: Merger adds their encoded counts directly to one array.
type Merger struct {
	counts []int64
	total  int64
	// highest is the largest maximum of the distributions. It is exact, whereas
	// counts are rounded to three figures.
	highest int64

	base64, packed, plain []byte
	inflate               io.Reader
}

// Layout of an encoded histogram, in the HdrHistogram V2 format: a cookie and a length
// precede the compressed part, which is a cookie, a length, an offset, the number of
// figures, the lowest and the highest value, a ratio and the counts.
const (
	outerHeader    = 8
	innerHeader    = hdrhistogram.ENCODING_HEADER_SIZE
	cookieMask     = ^uint32(0xf0)
	innerCookie    = uint32(hdrhistogram.V2EncodingCookieBase)
	outerCookie    = uint32(hdrhistogram.V2CompressedEncodingCookieBase)
	maxCountLength = 9 // maximum number of bytes of a count
)

var errHistogram = errors.New("decode histogram: damaged")

// Reset empties m.
func (m *Merger) Reset() {
	clear(m.counts)
	m.total, m.highest = 0, 0
}

// Add adds a distribution. If it fails, m is unchanged.
func (m *Merger) Add(h Histogram) error {
	payload, err := m.payload(h.HDR)
	if err != nil {
		return err
	}
	if m.counts == nil {
		m.counts = NewHistogram().Export().Counts
	}
	// Check first, then add: a damaged payload must not be added in part.
	total, err := m.walk(payload, false)
	if err != nil {
		return err
	}
	if _, err := m.walk(payload, true); err != nil {
		return err
	}
	m.total += total
	if total > 0 {
		m.highest = max(m.highest, h.Max)
	}
	return nil
}

// payload returns the counts of an encoded histogram, as varints.
func (m *Merger) payload(hdr string) ([]byte, error) {
	m.base64 = append(m.base64[:0], hdr...)
	var err error
	if m.packed, err = base64.StdEncoding.AppendDecode(m.packed[:0], m.base64); err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	if len(m.packed) < outerHeader || binary.BigEndian.Uint32(m.packed)&cookieMask != outerCookie {
		return nil, errHistogram
	}
	body := m.packed[outerHeader:]
	if n := binary.BigEndian.Uint32(m.packed[4:]); uint64(n) <= uint64(len(body)) {
		body = body[:n]
	} else {
		return nil, errHistogram
	}
	if m.inflate == nil {
		m.inflate, err = zlib.NewReader(bytes.NewReader(body))
	} else {
		err = m.inflate.(zlib.Resetter).Reset(bytes.NewReader(body), nil)
	}
	if err != nil {
		m.inflate = nil
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	limit := len(m.counts)
	if limit == 0 {
		limit = len(NewHistogram().Export().Counts)
	}
	plain := bytes.NewBuffer(m.plain[:0])
	_, err = io.Copy(plain, io.LimitReader(m.inflate, int64(innerHeader+limit*maxCountLength+1)))
	m.plain = plain.Bytes()
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	if len(m.plain) < innerHeader || binary.BigEndian.Uint32(m.plain)&cookieMask != innerCookie ||
		uint64(binary.BigEndian.Uint32(m.plain[4:])) != uint64(len(m.plain)-innerHeader) {
		return nil, errHistogram
	}
	if figures, low, high := binary.BigEndian.Uint32(m.plain[12:]), binary.BigEndian.Uint64(m.plain[16:]), binary.BigEndian.Uint64(m.plain[24:]); figures != histogramFigures || low != histogramMin || high != histogramMax {
		return nil, fmt.Errorf("decode histogram: range %d to %d with %d figures, want %d to %d with %d",
			low, high, figures, histogramMin, int64(histogramMax), histogramFigures)
	}
	return m.plain[innerHeader:], nil
}

// walk reads the counts, adds them to m if add is true, and returns their sum.
func (m *Merger) walk(p []byte, add bool) (int64, error) {
	at, sum := 0, int64(0)
	for len(p) > 0 {
		v, n := binary.Varint(p) // the format's encoding differs from Varint only from 2^55 on
		if n <= 0 {
			return 0, errHistogram
		}
		p = p[n:]
		if v < 0 { // a run of empty counts
			if v < -int64(len(m.counts)-at) {
				return 0, errHistogram
			}
			at -= int(v)
			continue
		}
		if at >= len(m.counts) || v > math.MaxInt64-m.total-sum {
			return 0, errHistogram
		}
		if add {
			m.counts[at] += v
		}
		sum += v
		at++
	}
	return sum, nil
}

// Count returns the number of operations added.
func (m *Merger) Count() int64 { return m.total }

// LeastAndMean returns the least and the mean of everything added; 0 if nothing was added.
func (m *Merger) LeastAndMean() (least, mean int64) {
	if m.total == 0 {
		return 0, 0
	}
	h := m.histogram()
	return h.Min(), int64(math.Round(h.Mean()))
}

// Latency returns the usual percentiles of everything added. Max is the largest
// maximum that the distributions state.
func (m *Merger) Latency() Latency {
	if m.total == 0 {
		return Latency{}
	}
	l := LatencyOf(m.histogram())
	l.Max = max(l.Max, m.highest)
	return l
}
