package value

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

var errBits = errors.New("it is not a number of bits: want a decimal integer, b'1010', 0x0A, or as many binary digits as the column has bits")

// bits returns the reader of a BIT column, which is an integer column on servers without that type.
func (t Type) bits(s Server) Reader {
	tooMany := fmt.Errorf("it has more than the %d bits that the column stores", t.Bits)
	read := func(text []byte) (*big.Int, error) {
		digits, base, is := bitDigits(text, t.Bits)
		if set, ok := Truth(text); !is && ok && t.Bits == 1 {
			digits, base, is = []byte("0"), 2, true
			if set {
				digits = []byte("1")
			}
		}
		if !is {
			return nil, errBits
		}
		digits = bytes.TrimLeft(digits, "0")
		// Each digit needs at least one bit: a longer number isn't converted, which is slow.
		n, ok := new(big.Int), len(digits) <= t.Bits
		if ok && len(digits) > 0 {
			n.SetString(unsafeString(digits), base)
		}
		if !ok || n.BitLen() > t.Bits {
			return nil, tooMany
		}
		return n, nil
	}
	switch {
	case s.Untyped:
		return Reader{Int: func(text []byte) (int64, error) {
			n, err := read(text)
			if err == nil && !n.IsInt64() {
				return 0, errIntRange
			}
			if err != nil {
				return 0, err
			}
			return n.Int64(), nil
		}}
	case t.Kind == Bytes: // big-endian, in as many bytes as the bits need
		return Reader{Append: func(dst, text []byte) ([]byte, error) {
			n, err := read(text)
			if err != nil {
				return dst, err
			}
			from, size := len(dst), (t.Bits+7)/8
			dst = slices.Grow(dst, size)[:from+size]
			n.FillBytes(dst[from:])
			return dst, nil
		}}
	}
	return Reader{Append: func(dst, text []byte) ([]byte, error) {
		n, err := read(text)
		if err != nil {
			return dst, err
		}
		for at := t.Bits - 1; at >= 0; at-- {
			dst = append(dst, '0'+byte(n.Bit(at)))
		}
		return dst, nil
	}}
}

// bitDigits returns the digits of a bit value and their base. If there are as many digits as the
// column has bits, they are binary, as PostgreSQL writes them; otherwise they are decimal. The rule
// is unambiguous: a decimal number of n >= 2 digits needs more than n bits.
func bitDigits(text []byte, width int) (digits []byte, base int, is bool) {
	if len(text) == width && onlyDigits(text, '1') {
		return text, 2, true
	}
	if onlyDigits(text, '9') {
		return text, 10, true
	}
	for _, form := range []struct {
		letter byte
		base   int
		set    string
	}{{'b', 2, "01"}, {'x', 16, "0123456789abcdefABCDEF"}} {
		digits := []byte(nil)
		if n := len(text); n > 2 && text[0] == '0' && text[1]|0x20 == form.letter { // 0b1010
			digits = text[2:]
		} else if n > 3 && text[0]|0x20 == form.letter && text[1] == '\'' && text[n-1] == '\'' { // b'1010'
			digits = text[2 : n-1]
		}
		if digits != nil {
			return digits, form.base, len(bytes.Trim(digits, form.set)) == 0
		}
	}
	return nil, 0, false
}
