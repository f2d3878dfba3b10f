package postgres

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// COPY in text format converts a value by the input function of the column's type, as the server
// converts a quoted literal. So COPY and a statement store the same values, except numbers, which a
// statement doesn't quote.

// copies reports whether COPY converts values of cols as an INSERT does.
func copies(cols []engine.Column, s *engine.Schema) bool {
	for _, c := range cols {
		have := s.Find(c.Name)
		if have == nil {
			return false
		}
		if c.Type != engine.Int32 && c.Type != engine.Int64 {
			continue
		}
		// An INSERT refuses an integer for a date or a boolean; COPY would accept it.
		switch have.Kind {
		case value.Int, value.Float, value.Decimal, value.Text:
		default:
			return false
		}
		if have.Array {
			return false
		}
	}
	return true
}

// copyText returns the COPY statement that takes a stream in text format, with options.
func (e *encoder) copyText(options string) string {
	return fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT text, ENCODING 'UTF8'%s)", e.table, e.names, options)
}

// appendLine appends the row as a line of the text format.
func (e *encoder) appendLine(dst []byte, b *engine.Batch, row int) []byte {
	for c := range b.Columns {
		if c > 0 {
			dst = append(dst, '\t')
		}
		v := &b.Columns[c]
		switch {
		case v.Null(row):
			dst = append(dst, '\\', 'N')
		case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
			if bytes.IndexByte(v.Value(row), 0) >= 0 {
				e.fail(c, errZeroByte)
			}
			dst = engine.AppendEscaped(dst, v.Value(row))
		case v.Type == engine.Binary:
			dst = hex.AppendEncode(append(dst, `\\x`...), v.Value(row))
		default:
			dst = v.AppendText(dst, row)
		}
	}
	return append(dst, '\n')
}

// A copyRow appends a row of a batch to a COPY stream.
type copyRow func(dst []byte, row int) []byte

// copyRow returns the function that appends a row of b: in binary format if there are forms, else
// in text format.
func (e *encoder) copyRow(forms []binaryForm, b *engine.Batch) copyRow {
	if forms == nil {
		return func(dst []byte, row int) []byte { return e.appendLine(dst, b, row) }
	}
	return func(dst []byte, row int) []byte { return e.appendForms(dst, forms, b, row) }
}

// copyRows sends rows [from, to) with a COPY statement, chunk bytes at a time. It doesn't wait for
// the server's CopyInResponse: after an error, the server discards the data. If a value can't be
// encoded, the error is errUnsent: copyRows has canceled the COPY, or sent nothing.
func (c *wire) copyRows(buf *[]byte, statement string, e *encoder, row copyRow, binary bool, from, to, chunk int, r *reply) error {
	out, start := beginMessage(appendQuery((*buf)[:0], statement), 'd')
	defer func() { *buf = out }()
	if binary {
		out = append(out, copyHeader...)
	}
	for i := from; i < to && e.err == nil; i++ {
		if out = row(out, i); len(out) < chunk {
			continue
		}
		endMessage(out, start)
		if err := c.send(out); err != nil {
			return err
		}
		out, start = beginMessage(out[:0], 'd')
	}
	if binary && e.err == nil {
		out = append(out, 0xff, 0xff) // no more rows
	}
	endMessage(out, start)
	if e.err == nil {
		out = append(out, 'c', 0, 0, 0, 4) // CopyDone
		return c.exchange(out, r)
	}
	if chunk < math.MaxInt {
		out, start = beginMessage(out, 'f') // CopyFail
		out = append(append(out, "a value can't be encoded"...), 0)
		endMessage(out, start)
		if err := c.exchange(out, r); !c.Answered(err) {
			return err
		}
	}
	return engine.Classed(engine.ErrRefused, fmt.Errorf("%w: %w", errUnsent, e.err))
}
