package engine

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/rowmill/rowmill/internal/value"
)

// A Batch is a set of rows as column vectors. Reset keeps the memory, so that a reused batch
// allocates nothing once it has grown.
type Batch struct {
	Columns []Vector
	rows    int
}

// A Vector holds one column of a batch. The type determines which field contains the values.
type Vector struct {
	Type   Type
	Ints   []int64   // Int32, Int64, Time
	Floats []float64 // Float32, Float64
	Bytes  []byte    // Varchar, Char, Decimal, Binary: the concatenated values
	Ends   []int     // where each value of Bytes ends
	nulls  []uint64  // bitmap; empty when nothing is NULL
}

// NewBatch returns an empty batch of the columns.
func NewBatch(cols []Column) *Batch {
	b := &Batch{Columns: make([]Vector, len(cols))}
	for i, c := range cols {
		b.Columns[i].Type = c.Type
	}
	return b
}

// Rows returns the number of rows.
func (b *Batch) Rows() int { return b.rows }

// Reset empties the batch.
func (b *Batch) Reset() {
	b.rows = 0
	for i := range b.Columns {
		v := &b.Columns[i]
		v.Ints, v.Floats, v.Bytes, v.Ends, v.nulls = v.Ints[:0], v.Floats[:0], v.Bytes[:0], v.Ends[:0], v.nulls[:0]
	}
}

// Truncate removes all rows from row n on, and values appended for an unfinished row.
func (b *Batch) Truncate(n int) {
	b.rows = min(b.rows, n)
	for i := range b.Columns {
		v := &b.Columns[i]
		v.Ints, v.Floats = v.Ints[:min(n, len(v.Ints))], v.Floats[:min(n, len(v.Floats))]
		if v.Ends = v.Ends[:min(n, len(v.Ends))]; len(v.Ends) > 0 {
			v.Bytes = v.Bytes[:v.Ends[len(v.Ends)-1]]
		} else {
			v.Bytes = v.Bytes[:0]
		}
		if n/64 < len(v.nulls) {
			v.nulls = v.nulls[:n/64+1]
			v.nulls[n/64] &= 1<<(n%64) - 1
		}
	}
}

// Keep removes all rows except those with the given numbers, which must ascend.
func (b *Batch) Keep(rows []int) {
	for i := range b.Columns {
		v := &b.Columns[i]
		for to, from := range rows {
			switch v.Type {
			case Float32, Float64:
				v.Floats[to] = v.Floats[from]
			case Varchar, Char, Decimal, Binary:
				value, begin := v.Value(from), 0
				if to > 0 {
					begin = v.Ends[to-1]
				}
				v.Ends[to] = begin + copy(v.Bytes[begin:], value)
			default:
				v.Ints[to] = v.Ints[from]
			}
			if from/64 < len(v.nulls) {
				null := v.nulls[from/64] >> (from % 64) & 1
				v.nulls[to/64] = v.nulls[to/64]&^(1<<(to%64)) | null<<(to%64)
			} else if to/64 < len(v.nulls) {
				v.nulls[to/64] &^= 1 << (to % 64)
			}
		}
	}
	b.Truncate(len(rows))
}

// EndRow counts a row, after a value was appended to each column.
func (b *Batch) EndRow() { b.rows++ }

// EndRows counts n rows, for callers that fill column by column.
func (b *Batch) EndRows(n int) { b.rows += n }

// AppendBytes appends a value to a vector of a byte type.
func (v *Vector) AppendBytes(p []byte) {
	v.Bytes = append(v.Bytes, p...)
	v.Ends = append(v.Ends, len(v.Bytes))
}

// EndBytes ends a value whose bytes were appended to v.Bytes directly.
func (v *Vector) EndBytes() { v.Ends = append(v.Ends, len(v.Bytes)) }

// AppendNull appends a NULL to the vector.
func (v *Vector) AppendNull() {
	var row int
	switch v.Type {
	case Float32, Float64:
		row, v.Floats = len(v.Floats), append(v.Floats, 0)
	case Varchar, Char, Decimal, Binary:
		row = len(v.Ends)
		v.EndBytes()
	default:
		row, v.Ints = len(v.Ints), append(v.Ints, 0)
	}
	for len(v.nulls) <= row/64 {
		v.nulls = append(v.nulls, 0)
	}
	v.nulls[row/64] |= 1 << (row % 64)
}

// Null reports whether row i is NULL.
func (v *Vector) Null(i int) bool {
	return i/64 < len(v.nulls) && v.nulls[i/64]>>(i%64)&1 == 1
}

// HasNull reports whether any of the rows [from, to) is NULL.
func (v *Vector) HasNull(from, to int) bool {
	for i := from; i < to; i++ {
		switch word := i / 64; {
		case word >= len(v.nulls):
			return false
		case v.nulls[word] == 0:
			i |= 63 // the last row of the word
		case v.nulls[word]>>(i%64)&1 == 1:
			return true
		}
	}
	return false
}

// Value returns the bytes of row i of a byte type. They are valid until the batch is reset.
func (v *Vector) Value(i int) []byte {
	from := 0
	if i > 0 {
		from = v.Ends[i-1]
	}
	return v.Bytes[from:v.Ends[i]]
}

// AppendText appends the text of row i, which isn't NULL, to dst. A number has the shortest text
// that reads back as the same number. A time has the text of value.AppendTime. Bytes stay as they
// are.
func (v *Vector) AppendText(dst []byte, i int) []byte {
	switch v.Type {
	case Float32:
		// The shortest text of the largest float32, 3.4028235e+38, is a larger number: a server
		// that reads the text as a double finds it out of range.
		if math.Abs(v.Floats[i]) < 3.4028234e38 {
			return strconv.AppendFloat(dst, v.Floats[i], 'g', -1, 32)
		}
		return strconv.AppendFloat(dst, v.Floats[i], 'g', -1, 64)
	case Float64:
		return strconv.AppendFloat(dst, v.Floats[i], 'g', -1, 64)
	case Time:
		return value.AppendTime(dst, v.Ints[i])
	case Varchar, Char, Decimal, Binary:
		return append(dst, v.Value(i)...)
	}
	return strconv.AppendInt(dst, v.Ints[i], 10)
}

// escapes maps each byte that LOAD DATA or COPY would misread in a field to the letter that
// replaces it after a backslash: a tab becomes \t. COPY refuses zero bytes, escaped or not.
var escapes = [256]byte{0: '0', '\t': 't', '\n': 'n', '\r': 'r', '\\': '\\'}

// AppendEscaped appends text as a field of the text formats of LOAD DATA and COPY.
func AppendEscaped(dst, p []byte) []byte {
	start := 0
	for i, c := range p {
		if c <= '\\' && escapes[c] != 0 {
			dst = append(append(dst, p[start:i]...), '\\', escapes[c])
			start = i + 1
		}
	}
	return append(dst, p[start:]...)
}

// A Sum is an order-independent checksum of a set of rows: the sum, modulo 2^64, of a 64-bit hash
// (xxHash64) of each row's values. Duplicate or missing rows change the checksum.
type Sum struct {
	Rows int64
	Hash uint64
	buf  []byte
}

// Add adds the rows of b, without the columns for which skip is true (nil means none).
func (s *Sum) Add(b *Batch, skip []bool) {
	for i := range b.rows {
		s.AddRow(b, i, skip)
	}
}

// AddRow adds row i of b.
func (s *Sum) AddRow(b *Batch, i int, skip []bool) {
	buf := s.buf[:0]
	for c := range b.Columns {
		if skip != nil && skip[c] {
			continue
		}
		v := &b.Columns[c]
		switch {
		case v.Null(i):
			buf = append(buf, 0xff)
		case v.Type == Float32 || v.Type == Float64:
			buf = binary.LittleEndian.AppendUint64(append(buf, 1), math.Float64bits(v.Floats[i]+0)) // +0: -0 equals 0
		case v.Type == Varchar || v.Type == Char || v.Type == Decimal || v.Type == Binary:
			p := v.Value(i)
			buf = binary.AppendUvarint(append(buf, 2), uint64(len(p)))
			buf = append(buf, p...)
		default:
			buf = binary.LittleEndian.AppendUint64(append(buf, 3), uint64(v.Ints[i]))
		}
	}
	s.buf = buf
	s.Rows++
	s.Hash += xxhash.Sum64(buf)
}

// Equal reports whether both sums are of the same rows.
func (s *Sum) Equal(o *Sum) bool { return s.Rows == o.Rows && s.Hash == o.Hash }
