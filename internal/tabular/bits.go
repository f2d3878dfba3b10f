package tabular

import (
	"encoding/binary"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// A bitWriter converts the values of columns that have a ResultColumn.Width to bytes before it
// passes a row on. Such a column is an expression whose values are bits. Servers send these as
// bytes or as decimal digits, depending on the expression and the plan, and don't say which.
type bitWriter struct {
	Writer
	cols   []engine.ResultColumn // nil if no column has such bits; the other columns have no Width
	rows   int64
	values [][]byte
}

// Columns implements Writer.
func (b *bitWriter) Columns(cols []engine.ResultColumn) error {
	b.cols = nil
	for i, c := range cols {
		if formOf(c) == formBits && c.Width > 0 {
			if b.cols == nil {
				b.cols = make([]engine.ResultColumn, len(cols))
			}
			b.cols[i] = c
		}
	}
	return b.Writer.Columns(cols)
}

// Row implements Writer.
func (b *bitWriter) Row(values [][]byte) error {
	b.rows++
	if b.cols == nil {
		return b.Writer.Row(values)
	}
	b.values = append(b.values[:0], values...)
	for i, c := range b.cols {
		if c.Width == 0 || values[i] == nil {
			continue
		}
		n, ok := sureBits(values[i], c.Width)
		if !ok {
			return unfit(b.rows, c.Name, "the server doesn't tell whether the bits of this expression are bytes or digits", "add + 0 to the expression in the query")
		}
		b.values[i] = binary.BigEndian.AppendUint64(nil, n)
	}
	return b.Writer.Row(b.values)
}

// sureBits returns the number of at most width bits, false if text may be read in two ways or none.
func sureBits(text []byte, width int) (n uint64, ok bool) {
	most := uint64(1)<<width - 1
	digits, err := strconv.ParseUint(string(text), 10, 64)
	asDigits := err == nil && text[0] != '+' && digits <= most
	asBytes := len(text) == (width+7)/8 && bitsOf(text) <= most
	if asDigits {
		return digits, !asBytes || bitsOf(text) == digits
	}
	return bitsOf(text), asBytes
}
