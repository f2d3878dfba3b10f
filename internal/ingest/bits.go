package ingest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// errBits is the error for values of a BIT column.
var errBits = errors.New("it is no number of bits: neither a decimal integer, nor b'1010', nor 0x0A, nor as many binary digits as the column has bits")

// bits describes how values of a BIT column of this width are sent.
type bits struct {
	width   int
	tooMany error
}

func newBits(width int) *bits {
	return &bits{width, fmt.Errorf("it has more than the %d bits that the column keeps", width)}
}

// read reads a value and returns it big-endian, in as many bytes as the column's bits
// need. Text of exactly as many binary digits as the column has bits is read as these
// bits, which is PostgreSQL's form; other digits are decimal. The two are
// unambiguous: a decimal number of n >= 2 digits whose first digit isn't 0 needs more
// than n bits.
func (b *bits) read(text []byte) ([]byte, error) {
	out := make([]byte, (b.width+7)/8)
	switch {
	case len(text) == b.width && onlyDigits(text, '1'):
		return b.binary(out, text)
	case onlyDigits(text, '9'):
		if len(text) < 20 { // fits in 64 bits
			n, err := strconv.ParseUint(unsafeString(text), 10, 64)
			if err != nil {
				return nil, errBits
			}
			return b.fill(out, new(big.Int).SetUint64(n))
		}
		text = bytes.TrimLeft(text, "0")
		if len(text) > b.width { // each digit needs more than one bit; avoids converting long numbers
			return nil, b.tooMany
		}
		n, ok := new(big.Int).SetString("0"+string(text), 10)
		if !ok {
			return nil, errBits
		}
		return b.fill(out, n)
	}
	if digits, is := literal(text, 'b'); is && onlyDigits(digits, '1') {
		return b.binary(out, digits)
	}
	if digits, is := literal(text, 'x'); is && len(digits) > 0 {
		if len(digits)%2 == 1 {
			digits = append([]byte{'0'}, digits...)
		}
		p, err := hex.DecodeString(string(digits))
		if err != nil {
			return nil, errBits
		}
		return b.fill(out, new(big.Int).SetBytes(p))
	}
	return nil, errBits
}

// literal returns the digits of 0b1010 or b'1010', and of 0x0A or x'0A'.
func literal(text []byte, base byte) (digits []byte, is bool) {
	if len(text) > 2 && text[0] == '0' && text[1]|0x20 == base {
		return text[2:], true
	}
	if n := len(text); n > 3 && text[0]|0x20 == base && text[1] == '\'' && text[n-1] == '\'' {
		return text[2 : n-1], true
	}
	return nil, false
}

// onlyDigits reports whether a text is not empty and consists of the digits from 0 to
// most.
func onlyDigits(text []byte, most byte) bool {
	for _, c := range text {
		if c < '0' || c > most {
			return false
		}
	}
	return len(text) > 0
}

func (b *bits) binary(out, digits []byte) ([]byte, error) {
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) > b.width {
		return nil, b.tooMany
	}
	for i, c := range digits {
		if at := len(digits) - 1 - i; c == '1' {
			out[len(out)-1-at/8] |= 1 << (at % 8)
		}
	}
	return out, nil
}

func (b *bits) fill(out []byte, n *big.Int) ([]byte, error) {
	if n.BitLen() > b.width {
		return nil, b.tooMany
	}
	return n.FillBytes(out), nil
}

// asBytes sends values as the bytes of the bits.
func (b *bits) asBytes(v *engine.Vector, text []byte) error {
	p, err := b.read(text)
	if err == nil {
		v.AppendBytes(p)
	}
	return err
}

// asDigits sends values as binary digits, one for each bit of the column.
func (b *bits) asDigits(v *engine.Vector, text []byte) error {
	p, err := b.read(text)
	if err != nil {
		return err
	}
	for at := b.width - 1; at >= 0; at-- {
		v.Bytes = append(v.Bytes, '0'+p[len(p)-1-at/8]>>(at%8)&1)
	}
	v.EndBytes()
	return nil
}

// asInt sends values as integers.
func (b *bits) asInt(v *engine.Vector, text []byte) error {
	p, err := b.read(text)
	if err != nil {
		return err
	}
	n := new(big.Int).SetBytes(p)
	if !n.IsInt64() {
		return errIntRange
	}
	v.Ints = append(v.Ints, n.Int64())
	return nil
}

// bitsOf returns the parser of a BIT column and the type in which values are sent. It
// returns false if the column isn't a BIT column or has no fixed width.
func bitsOf(c engine.SchemaColumn, name string, digits []int, untyped bool) (parse, engine.Type, bool) {
	varies := strings.Contains(strings.ToLower(c.Native), "varying") || strings.HasSuffix(c.Native, "]")
	if name != "bit" || varies || len(digits) > 1 || len(digits) == 1 && digits[0] < 1 {
		return nil, 0, false
	}
	width := 1
	if len(digits) == 1 {
		width = digits[0]
	}
	b := newBits(width)
	switch {
	case untyped:
		return b.asInt, engine.Int64, true
	case c.Kind == engine.KindBytes:
		return b.asBytes, engine.Binary, true
	}
	return b.asDigits, engine.Varchar, true
}
