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

// Accuracy is the greatest relative error of a percentile: DDSketch returns a
// value within so much of that of the nearest rank.
const Accuracy = 0.01

// A sketch takes the values, or the sketches, of one aggregate of one row.
type sketch interface {
	// add takes a value as the text, or the number, that the server gave.
	add(v []byte) error
	// merge takes a stored sketch.
	merge(blob []byte) error
	// bytes is about how much memory it takes.
	bytes() int
	// result returns the readable value, nil without one, and the blob.
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

// distinct is a HyperLogLog of 2^14 registers: its standard error is
// 1.04/sqrt(2^14), 0.8 %, and far less for a few thousand values.
type distinct struct {
	s     *hyperloglog.Sketch
	taken int // values, those that are there already included
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

// bytes implements sketch: few values are a list, many 2^14 registers.
func (d *distinct) bytes() int { return min(300+16*d.taken, 1<<14+300) }

func (d *distinct) result() (any, []byte, error) {
	blob, err := d.s.MarshalBinary()
	return int64(d.s.Estimate()), blob, err
}

// percentile is a DDSketch. Its store has no bound on the number of bins, so
// that the accuracy holds of all data: values from 1e-300 to 1e300 have 70,000
// bins between them, those of one decade have 116.
type percentile struct {
	percent float64
	m       mapping.IndexMapping
	few     []float64          // values that aren't in s: it is nil while they are few
	s       *ddsketch.DDSketch // some kilobytes, whatever is in it
}

// fewValues is how many values are kept as they are. Groups by the hundred
// thousand have a handful of rows each.
const fewValues = 32

// sketch returns the sketch with all values in it.
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

// bytes implements sketch. 3,000 are what one of values of a few decades was
// measured to take.
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
	// What is too large for a bin, infinities above all, goes to the last one.
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

// ranked returns the value of a rank, from 1: the nearest rank, not the one
// between two that the sketch's own quantiles are. KeyAtRank finds the first bin
// at which the count of values exceeds its argument.
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
