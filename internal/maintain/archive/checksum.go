package archive

import (
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go"
)

// A sum is a checksum of rows in any order: two 64-bit hashes of each row, added up. It detects
// accidents, not forgery.
type sum struct {
	rows   int64
	a, b   uint64
	first  xxhash.Digest
	second xxhash.Digest
	buf    []byte
}

const (
	seedA = 0x726f776d696c6c31
	seedB = 0x706172717565741a
)

func (s *sum) add(row []parquet.Value) {
	s.buf = s.buf[:0]
	for _, v := range row {
		s.buf = appendCanonical(s.buf, v)
	}
	s.first.ResetWithSeed(seedA)
	s.first.Write(s.buf) // never fails
	s.second.ResetWithSeed(seedB)
	s.second.Write(s.buf)
	s.a += s.first.Sum64()
	s.b += s.second.Sum64()
	s.rows++
}

// String returns the checksum.
func (s *sum) String() string { return fmt.Sprintf("%016x%016x", s.a, s.b) }

func appendCanonical(b []byte, v parquet.Value) []byte {
	if v.IsNull() {
		return append(b, 0)
	}
	switch v.Kind() {
	case parquet.Int32:
		return appendNumber(b, uint64(int64(v.Int32())))
	case parquet.Int64:
		return appendNumber(b, uint64(v.Int64()))
	case parquet.Float:
		return appendNumber(b, floatBits(float64(v.Float())))
	case parquet.Double:
		return appendNumber(b, floatBits(v.Double()))
	}
	data := v.ByteArray()
	b = appendNumber(append(b, 2), uint64(len(data)))
	return append(b, data...)
}

func appendNumber(b []byte, n uint64) []byte {
	return append(b, 1, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32), byte(n>>40), byte(n>>48), byte(n>>56))
}

// floatBits maps all NaNs to one: servers don't distinguish them.
func floatBits(v float64) uint64 {
	if v != v {
		v = math.NaN()
	}
	return math.Float64bits(v)
}
