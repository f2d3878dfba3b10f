package archive

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go"
)

// A sum is an order-independent checksum of rows: two 64-bit hashes of each row,
// added up. It detects accidents, not forgery.
type sum struct {
	rows   int64
	a, b   uint64
	first  xxhash.Digest
	second xxhash.Digest
	buf    []byte
}

// Seeds of the two hashes.
const (
	seedA = 0x726f776d696c6c31
	seedB = 0x706172717565741a
)

// add adds a row, whose values are in the order of the file's columns.
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

// String returns the checksum of the rows so far.
func (s *sum) String() string { return fmt.Sprintf("%016x%016x", s.a, s.b) }
