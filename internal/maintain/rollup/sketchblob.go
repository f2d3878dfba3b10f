package rollup

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/DataDog/sketches-go/ddsketch/encoding"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
)

// checkPercentile returns an error for a stored DDSketch that is truncated or has
// bins outside m's range. The library ignores errors within the bins, and allocates
// pages for any stored index.
//
// The format is that of package encoding: flags, each followed by its content.
func checkPercentile(blob []byte, m mapping.IndexMapping) error {
	lowest, highest := int64(m.Index(m.MinIndexableValue())), int64(m.Index(m.MaxIndexableValue()))
	for b := &blob; len(*b) > 0; {
		flag, err := encoding.DecodeFlag(b)
		if err != nil {
			return err
		}
		switch flag.Type() {
		case encoding.FlagTypePositiveStore, encoding.FlagTypeNegativeStore:
			err = checkBins(b, flag.SubFlag(), lowest, highest)
		case encoding.FlagTypeIndexMapping:
			_, err = mapping.Decode(b, flag)
		default:
			switch flag {
			case encoding.FlagZeroCountVarFloat:
				err = checkCount(b)
			case encoding.FlagCount, encoding.FlagSum, encoding.FlagMin, encoding.FlagMax:
				_, err = encoding.DecodeFloat64LE(b)
			default:
				err = errors.New("unknown flag")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkBins reads the bins of one store, whose indexes must be between lowest and
// highest.
func checkBins(b *[]byte, bins encoding.SubFlag, lowest, highest int64) error {
	n, err := encoding.DecodeUvarint64(b)
	if err != nil {
		return err
	}
	if n > uint64(len(*b)) { // each bin takes at least one byte
		return io.ErrUnexpectedEOF
	}
	deltas, counts := true, true // before each bin
	index, delta := int64(0), int64(0)
	switch bins {
	case encoding.BinEncodingIndexDeltasAndCounts:
	case encoding.BinEncodingIndexDeltas:
		counts = false
	case encoding.BinEncodingContiguousCounts:
		deltas = false
		if index, err = encoding.DecodeVarint64(b); err != nil {
			return err
		}
		if delta, err = encoding.DecodeVarint64(b); err != nil {
			return err
		}
	default:
		return errors.New("unknown encoding of bins")
	}
	for i := range n {
		if deltas {
			if delta, err = encoding.DecodeVarint64(b); err != nil {
				return err
			}
		}
		if deltas || i > 0 {
			index += delta // may wrap around; the range check follows
		}
		if index < lowest || index > highest {
			return fmt.Errorf("bin %d lies outside of %d to %d", index, lowest, highest)
		}
		if counts {
			if err := checkCount(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkCount reads a count, which must not be negative.
func checkCount(b *[]byte) error {
	n, err := encoding.DecodeVarfloat64(b)
	if err == nil && !(n >= 0 && n <= math.MaxInt64) {
		err = fmt.Errorf("a count of %v", n)
	}
	return err
}
