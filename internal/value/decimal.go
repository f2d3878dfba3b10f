package value

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A number is decimal text in parts: -12.50e3 has the digits 12 and 50, and the exponent 3.
type number struct {
	negative        bool
	whole, fraction []byte
	exponent        int
}

// maxExponent exceeds the exponent of any number that a server stores.
const maxExponent = 1 << 20

// parseNumber reads a decimal number, which has digits before the point or after it.
func parseNumber(text []byte) (n number, err error) {
	rest := text
	if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
		n.negative, rest = rest[0] == '-', rest[1:]
	}
	n.whole, rest = leadingDigits(rest)
	if len(rest) > 0 && rest[0] == '.' {
		n.fraction, rest = leadingDigits(rest[1:])
	}
	switch {
	case len(n.whole)+len(n.fraction) == 0:
		return n, errNoNumber
	case len(rest) == 0:
		return n, nil
	case rest[0]|0x20 != 'e':
		return n, errNoNumber
	}
	n.exponent, err = strconv.Atoi(unsafeString(rest[1:]))
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return n, errNoNumber
	}
	if err != nil || n.exponent > maxExponent || n.exponent < -maxExponent {
		return n, errRange
	}
	return n, nil
}

func leadingDigits(p []byte) (digits, rest []byte) {
	i := 0
	for i < len(p) && p[i]-'0' <= 9 {
		i++
	}
	return p[:i], p[i:]
}

// scale returns the number of digits after the point: 2 for 1.25. It is negative if zeros end the
// number: -2 for 300.
func (n number) scale() int {
	if last := bytes.TrimRight(n.fraction, "0"); len(last) > 0 {
		return len(last) - n.exponent
	}
	last := bytes.TrimRight(n.whole, "0")
	if len(last) == 0 {
		return math.MinInt // zero
	}
	return len(last) - len(n.whole) - n.exponent
}

// magnitude returns the place of the first digit that isn't 0: 2 for 12, -1 for 0.012. Zero has 0.
func (n number) magnitude() int {
	if first := bytes.TrimLeft(n.whole, "0"); len(first) > 0 {
		return len(first) + n.exponent
	}
	first := bytes.TrimLeft(n.fraction, "0")
	if len(first) == 0 {
		return 0
	}
	return n.exponent - (len(n.fraction) - len(first))
}

// digitsBefore returns the number of digits before the point that the value has.
func (n number) digitsBefore() int { return max(n.magnitude(), 0) }

func (t Type) tooFine() error {
	return fmt.Errorf("it has more than the %d digits after the point that the column stores", t.Scale)
}

// decimals returns the reader of decimals, which are sent as they are written. It refuses nonzero
// digits beyond the scale, because the server would round them silently.
func (t Type) decimals(s Server) func(dst, text []byte) ([]byte, error) {
	tooFine := t.tooFine()
	tooLarge := fmt.Errorf("it is out of range: the column stores %d digits before the point", t.Precision-t.Scale)
	return func(dst, text []byte) ([]byte, error) {
		if t.NaN && string(text) == "NaN" {
			return append(dst, text...), nil
		}
		n, err := parseNumber(text)
		switch {
		case err != nil:
			return dst, err
		case t.Precision == 0:
		case s.Untyped && n.digitsBefore() > t.Precision-t.Scale:
			return dst, tooLarge
		case n.scale() > t.Scale:
			return dst, tooFine
		}
		return t.appendKept(dst, text, n)
	}
}

// appendKept appends a number, unless a server with Exact digits would lose some of its digits.
func (t Type) appendKept(dst, text []byte, n number) ([]byte, error) {
	if t.Exact == 0 {
		return append(dst, text...), nil
	}
	if out, is := AppendInteger(dst, text); is {
		if _, err := ParseInt(out[len(dst):]); err == nil {
			return out, nil
		}
	}
	const smallest = 0x1p-1022 // binary fractions below it have fewer digits
	f, err := ParseFloat(text, 64)
	if err != nil || n.magnitude()+n.scale() > t.Exact || math.Abs(f) < smallest {
		return dst, fmt.Errorf("the server keeps %d digits of a number, or an integer of 64 bits; a column of text keeps all digits", t.Exact)
	}
	return append(dst, text...), nil
}

// IsNumber reports whether a text is a decimal number.
func IsNumber(text []byte) bool {
	_, err := parseNumber(text)
	return err == nil
}

// AppendPlain appends a number as servers print it (0.5 for +00.5); false if it has an exponent.
func AppendPlain(dst, text []byte) ([]byte, bool) {
	n, err := parseNumber(text)
	if err != nil || bytes.ContainsAny(text, "eE") {
		return dst, false
	}
	if n.negative {
		dst = append(dst, '-')
	}
	whole := bytes.TrimLeft(n.whole, "0")
	if len(whole) == 0 {
		whole = []byte("0")
	}
	if dst = append(dst, whole...); len(n.fraction) > 0 {
		dst = append(append(dst, '.'), n.fraction...)
	}
	return dst, true
}

// AppendInteger appends a number as a plain integer, if it is an integer of at most 64 digits.
func AppendInteger(dst, text []byte) ([]byte, bool) {
	const most = 64 // digits, more than an integer that can be stored has
	n, err := parseNumber(text)
	if err != nil || n.scale() > 0 || n.digitsBefore() > most {
		return dst, false
	}
	if n.negative {
		dst = append(dst, '-')
	}
	before := n.digitsBefore()
	if before == 0 {
		return append(dst, '0'), true
	}
	from := len(dst)
	dst = append(append(dst, n.whole...), n.fraction...)
	dst = append(dst[:from], bytes.TrimLeft(dst[from:], "0")...)
	for len(dst)-from < before {
		dst = append(dst, '0')
	}
	return dst[:from+before], true
}

// AppendUnscaled appends the digits of a decimal without its point, as -125 for -1.25. It reports
// whether the text is as FormatUnscaled writes it: with exactly scale digits after the point,
// without needless zeros before it, and with no sign except that of a negative number.
func AppendUnscaled(dst, text []byte, scale int) ([]byte, bool) {
	n, err := parseNumber(text)
	length := len(n.whole) + len(n.fraction) // the length of the text
	if n.negative {
		length++
	}
	if scale > 0 {
		length++
	}
	from := len(dst)
	if n.negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, n.whole...), n.fraction...)
	zero := n.scale() == math.MinInt
	if err != nil || length != len(text) || len(n.fraction) != scale || len(n.whole) == 0 || len(n.whole) > 1 && n.whole[0] == '0' || n.negative && zero {
		return dst[:from], false
	}
	return dst, true
}

// FormatUnscaled writes a decimal, given as its digits without a point: -5 with scale 2 is -0.05.
func FormatUnscaled(digits string, scale int) string {
	if scale == 0 {
		return digits
	}
	digits, negative := strings.CutPrefix(digits, "-")
	if pad := scale + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	if negative {
		digits = "-" + digits
	}
	return digits
}
