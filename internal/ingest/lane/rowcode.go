package lane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
)

// A layout is how rows are encoded as bytes. The columns of the key come first, in a form whose
// bytes compare as the keys do. Then come the ordinal (see sorter) and the other columns, in a form
// that is quick to encode.
type layout struct {
	columns []engine.Column
	key     []int // columns of the key, in order
	rest    []int // the other columns
}

// newLayout returns the layout of rows with these columns, sorted by a key. If a column of the key
// isn't among them, rows keep the order of the source.
func newLayout(columns []engine.Column, key []string) *layout {
	l := &layout{columns: columns}
	for _, name := range key {
		i := slices.IndexFunc(columns, func(c engine.Column) bool { return c.Name == name })
		if i < 0 {
			l.key = nil
			break
		}
		l.key = append(l.key, i)
	}
	for i := range columns {
		if !slices.Contains(l.key, i) {
			l.rest = append(l.rest, i)
		}
	}
	return l
}

const ordinalSize = 8

func bytesType(t engine.Type) bool {
	return t == engine.Varchar || t == engine.Char || t == engine.Decimal || t == engine.Binary
}

func floatType(t engine.Type) bool { return t == engine.Float32 || t == engine.Float64 }

// append appends row i of b.
func (l *layout) append(dst []byte, b *engine.Batch, i int, ordinal uint64) []byte {
	for _, c := range l.key {
		v := &b.Columns[c]
		if l.columns[c].Null {
			if v.Null(i) {
				dst = append(dst, 0)
				continue
			}
			dst = append(dst, 1)
		}
		switch {
		case bytesType(v.Type):
			dst = appendKeyBytes(dst, v.Value(i))
		case floatType(v.Type):
			dst = binary.BigEndian.AppendUint64(dst, keyOfFloat(v.Floats[i]))
		default:
			dst = binary.BigEndian.AppendUint64(dst, uint64(v.Ints[i])^1<<63)
		}
	}
	dst = binary.BigEndian.AppendUint64(dst, ordinal)
	nulls := len(dst)
	for range (len(l.rest) + 7) / 8 {
		dst = append(dst, 0)
	}
	for n, c := range l.rest {
		v := &b.Columns[c]
		switch {
		case v.Null(i):
			dst[nulls+n/8] |= 1 << (n % 8)
		case bytesType(v.Type):
			p := v.Value(i)
			dst = append(binary.AppendUvarint(dst, uint64(len(p))), p...)
		case floatType(v.Type):
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Floats[i]))
		default:
			dst = binary.AppendVarint(dst, v.Ints[i])
		}
	}
	return dst
}

// decode appends a row to a batch, and returns its ordinal.
func (l *layout) decode(row []byte, b *engine.Batch) (ordinal uint64, err error) {
	defer func() {
		if recover() != nil { // an index beyond the end
			err = fmt.Errorf("a row of %d bytes in the temporary file is damaged", len(row))
		}
	}()
	p := row
	for _, c := range l.key {
		v := &b.Columns[c]
		if l.columns[c].Null {
			there := p[0] == 1
			if p = p[1:]; !there {
				v.AppendNull()
				continue
			}
		}
		switch {
		case bytesType(v.Type):
			v.Bytes, p = decodeKeyBytes(v.Bytes, p)
			v.EndBytes()
		case floatType(v.Type):
			v.Floats = append(v.Floats, floatOfKey(binary.BigEndian.Uint64(p)))
			p = p[8:]
		default:
			v.Ints = append(v.Ints, int64(binary.BigEndian.Uint64(p)^1<<63))
			p = p[8:]
		}
	}
	ordinal = binary.BigEndian.Uint64(p)
	nulls := p[ordinalSize:]
	p = nulls[(len(l.rest)+7)/8:]
	for n, c := range l.rest {
		v := &b.Columns[c]
		switch {
		case nulls[n/8]>>(n%8)&1 == 1:
			v.AppendNull()
		case bytesType(v.Type):
			size, used := binary.Uvarint(p)
			p = p[used:]
			v.AppendBytes(p[:size])
			p = p[size:]
		case floatType(v.Type):
			v.Floats = append(v.Floats, math.Float64frombits(binary.LittleEndian.Uint64(p)))
			p = p[8:]
		default:
			x, used := binary.Varint(p)
			v.Ints = append(v.Ints, x)
			p = p[used:]
		}
	}
	b.EndRow()
	return ordinal, nil
}

// keyOfFloat returns an integer with the order of the numbers; -0 comes before 0.
func keyOfFloat(x float64) uint64 {
	n := math.Float64bits(x)
	if n>>63 == 1 {
		return ^n
	}
	return n | 1<<63
}

func floatOfKey(n uint64) float64 {
	if n>>63 == 1 {
		return math.Float64frombits(n &^ (1 << 63))
	}
	return math.Float64frombits(^n)
}

// In a key, a byte 0 of a value is written as 0 255, and the value ends with 0 1.
const (
	keyEnd  = 1
	keyZero = 255
)

func appendKeyBytes(dst, p []byte) []byte {
	for {
		i := bytes.IndexByte(p, 0)
		if i < 0 {
			return append(append(dst, p...), 0, keyEnd)
		}
		dst = append(append(dst, p[:i]...), 0, keyZero)
		p = p[i+1:]
	}
}

// decodeKeyBytes appends the value at the beginning of p, and returns the rest of p.
func decodeKeyBytes(dst, p []byte) (value, rest []byte) {
	for {
		i := bytes.IndexByte(p, 0)
		dst = append(dst, p[:i]...)
		if p[i+1] == keyEnd {
			return dst, p[i+2:]
		}
		dst = append(dst, 0)
		p = p[i+2:]
	}
}
