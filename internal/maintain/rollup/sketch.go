package rollup

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
	"github.com/axiomhq/hyperloglog"
)

// Accuracy is the maximum relative error of a percentile: DDSketch returns a value
// within this error of the value with the nearest rank.
const Accuracy = 0.01

// A sketch accumulates the values, or the sketches, of one aggregate of one row.
type sketch interface {
	// add adds a value, given as the text or the number that the server returned.
	add(v []byte) error
	// merge adds a stored sketch.
	merge(blob []byte) error
	// bytes is its approximate size in memory.
	bytes() int
	// result returns the readable value, nil if there is none, and the blob.
	result() (value any, blob []byte, err error)
}

func newSketch(a *aggregate) (sketch, error) {
	if a.Func == "distinct" {
		return &distinct{s: hyperloglog.New14()}, nil
	}
	m, err := mapping.NewLogarithmicMapping(Accuracy)
	if err != nil {
		return nil, err
	}
	return &percentile{percent: a.Percent, m: m}, nil
}

// distinct is a HyperLogLog of 2^14 registers. Its standard error is
// 1.04/sqrt(2^14), 0.8 %, and much less for a few thousand values.
type distinct struct {
	s     *hyperloglog.Sketch
	taken int // number of added values, including repeated ones
}

func (d *distinct) add(v []byte) error { d.s.Insert(v); d.taken++; return nil }

func (d *distinct) merge(blob []byte) error {
	o := hyperloglog.New14()
	if err := o.UnmarshalBinary(blob); err != nil {
		return fmt.Errorf("stored HyperLogLog: %w", err)
	}
	d.taken += len(blob)
	return d.s.Merge(o)
}

// bytes implements sketch: few values are stored as a list, many as 2^14 registers.
func (d *distinct) bytes() int { return min(300+16*d.taken, 1<<14+300) }

func (d *distinct) result() (any, []byte, error) {
	blob, err := d.s.MarshalBinary()
	return int64(d.s.Estimate()), blob, err
}

// percentile is a DDSketch. Its store has an unlimited number of bins, so that the
// accuracy holds for all data: values from 1e-300 to 1e300 span 70,000 bins, those
// of one decade 116.
type percentile struct {
	percent float64
	m       mapping.IndexMapping
	few     []float64          // values not yet in s, which is nil while there are few
	s       *ddsketch.DDSketch // some kilobytes, whatever it contains
}

// fewValues is the number of values kept individually. If there are hundreds of
// thousands of groups, each has only a few rows.
const fewValues = 32

// sketch returns the sketch after adding all values to it.
func (p *percentile) sketch() (*ddsketch.DDSketch, error) {
	if p.s == nil {
		p.s = ddsketch.NewDDSketchFromStoreProvider(p.m, store.BufferedPaginatedStoreConstructor)
	}
	for _, x := range p.few {
		if err := p.s.Add(x); err != nil {
			return nil, err
		}
	}
	p.few = nil
	return p.s, nil
}

// bytes implements sketch. 3,000 is the measured size of a sketch of values that
// span a few decades.
func (p *percentile) bytes() int {
	n := 80 + 8*cap(p.few)
	if p.s != nil {
		n += 3000
	}
	return n
}

func (p *percentile) add(v []byte) error {
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("value %q is no number: %w", v, err)
	}
	if math.IsNaN(x) {
		return nil
	}
	// Values too large for a bin, such as infinities, go to the last bin.
	x = min(max(x, -p.m.MaxIndexableValue()), p.m.MaxIndexableValue())
	if p.s != nil {
		return p.s.Add(x)
	}
	if p.few = append(p.few, x); len(p.few) < fewValues {
		return nil
	}
	_, err = p.sketch()
	return err
}

func (p *percentile) merge(blob []byte) error {
	s, err := p.sketch()
	if err != nil {
		return err
	}
	if err := checkPercentile(blob, p.m); err != nil {
		return fmt.Errorf("stored DDSketch: %w", err)
	}
	if err := s.DecodeAndMergeWith(blob); err != nil {
		return fmt.Errorf("stored DDSketch: %w", err)
	}
	return nil
}

func (p *percentile) result() (any, []byte, error) {
	var blob []byte
	s, err := p.sketch()
	if err != nil {
		return nil, nil, err
	}
	s.Encode(&blob, false)
	n := s.GetCount()
	if n == 0 {
		return nil, blob, nil
	}
	num, den := percentRatio(p.percent)
	return p.ranked(max(math.Ceil(n*float64(num)/float64(den)), 1)), blob, nil
}

// ranked returns the value with a rank, from 1. It is the nearest rank; the
// sketch's own quantiles interpolate ranks. KeyAtRank returns the first bin at
// which the count of values exceeds its argument.
func (p *percentile) ranked(k float64) float64 {
	negative, zero := p.s.GetNegativeValueStore(), p.s.GetZeroCount()
	below := negative.TotalCount()
	switch {
	case k <= below: // the greatest of them have the smallest keys
		return -p.m.Value(negative.KeyAtRank(below - k + 0.5))
	case k <= below+zero:
		return 0
	}
	return p.m.Value(p.s.GetPositiveValueStore().KeyAtRank(k - below - zero - 0.5))
}
