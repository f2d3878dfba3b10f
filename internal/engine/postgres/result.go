package postgres

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/internal/engine"
)

// resultFormat returns the format in which values of a type are read: 1 for
// binary, 0 for text.
func resultFormat(t engine.Type) int16 {
	switch t {
	case engine.Varchar, engine.Char, engine.Decimal:
		return 0
	}
	return 1
}

// appendResult appends a value in the format of resultFormat. Integers and
// floats may have any width.
func appendResult(v *engine.Vector, p []byte) error {
	if p == nil {
		v.AppendNull()
		return nil
	}
	switch v.Type {
	case engine.Varchar, engine.Decimal:
		v.AppendBytes(p)
		return nil
	case engine.Char: // padded with blanks to its size
		for len(p) > 0 && p[len(p)-1] == ' ' {
			p = p[:len(p)-1]
		}
		v.AppendBytes(p)
		return nil
	}
	float := v.Type == engine.Float32 || v.Type == engine.Float64
	switch {
	case float && len(p) == 4:
		v.Floats = append(v.Floats, float64(math.Float32frombits(binary.BigEndian.Uint32(p))))
	case v.Type == engine.Float64 && len(p) == 8:
		v.Floats = append(v.Floats, math.Float64frombits(binary.BigEndian.Uint64(p)))
	case v.Type == engine.Time && len(p) == 8:
		v.Ints = append(v.Ints, int64(binary.BigEndian.Uint64(p))+epoch)
	case !float && v.Type != engine.Time && len(p) == 2:
		v.Ints = append(v.Ints, int64(int16(binary.BigEndian.Uint16(p))))
	case !float && v.Type != engine.Time && len(p) == 4:
		v.Ints = append(v.Ints, int64(int32(binary.BigEndian.Uint32(p))))
	case !float && v.Type != engine.Time && len(p) == 8:
		v.Ints = append(v.Ints, int64(binary.BigEndian.Uint64(p)))
	default:
		return fmt.Errorf("a value of %d bytes came back", len(p))
	}
	return nil
}
