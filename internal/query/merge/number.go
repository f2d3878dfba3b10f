package merge

import (
	"bytes"
	"math"
	"math/bits"
)

// A wide is a signed integer of 256 bits in two's complement, least significant word first: enough
// for the sum of 10^11 decimals of 65 digits, MySQL's longest. The server merges numbers that need
// more.
type wide [4]uint64

func wideOf(n int64) wide {
	sign := uint64(n >> 63)
	return wide{uint64(n), sign, sign, sign}
}

func (w wide) negative() bool { return w[3]>>63 != 0 }

// add returns the sum, and false if it doesn't fit.
func (w wide) add(x wide) (sum wide, ok bool) {
	var carry uint64
	for i := range w {
		sum[i], carry = bits.Add64(w[i], x[i], carry)
	}
	return sum, w.negative() != x.negative() || sum.negative() == w.negative()
}

func (w wide) negate() (n wide) {
	carry := uint64(1)
	for i := range w {
		n[i], carry = bits.Add64(^w[i], 0, carry)
	}
	return n
}

func (w wide) compare(x wide) int {
	w[3] ^= 1 << 63
	x[3] ^= 1 << 63
	for i := 3; i >= 0; i-- {
		if w[i] != x[i] {
			if w[i] < x[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// times returns |w| * m + plus for w >= 0, and false if it doesn't fit.
func (w wide) times(m, plus uint64) (p wide, ok bool) {
	carry := plus
	for i := range w {
		hi, lo := bits.Mul64(w[i], m)
		var c uint64
		p[i], c = bits.Add64(lo, carry, 0)
		carry = hi + c
	}
	return p, carry == 0 && !p.negative()
}

// over returns the quotient and the remainder of w >= 0 by d > 0.
func (w wide) over(d uint64) (q wide, rem uint64) {
	for i := 3; i >= 0; i-- {
		q[i], rem = bits.Div64(rem, w[i], d)
	}
	return q, rem
}

// narrow returns the number if it fits in 64 bits.
func (w wide) narrow() (int64, bool) {
	n := int64(w[0])
	return n, w == wideOf(n)
}

// chunk is the number of decimal digits that always fit in a word; power10 has the powers of ten.
const chunk = 19

var power10 = [chunk + 1]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19}

// ParseNumber reads a number as an integer in units of its last digit. ok is false unless it has
// exactly scale digits after its point, and is written as AppendNumber writes it: no leading zeros,
// no plus, no -0. If large is set, the number may not fit in n and is in w.
func ParseNumber(text []byte, scale int) (n int64, w wide, large, ok bool) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	whole := len(digits)
	if scale > 0 {
		whole -= scale + 1
		if whole < 1 || digits[whole] != '.' {
			return 0, w, false, false
		}
	}
	if whole < 1 || digits[0] == '0' && whole > 1 {
		return 0, w, false, false
	}
	var word uint64
	count := 0
	for _, part := range [2][]byte{digits[:whole], digits[min(len(digits), whole+1):]} {
		for _, c := range part {
			if c -= '0'; c > 9 {
				return 0, w, false, false
			}
			if count == chunk {
				if !large {
					w, large = wide{word}, true
				} else if w, ok = w.times(power10[chunk], word); !ok {
					return 0, w, true, false
				}
				word, count = 0, 0
			}
			word = word*10 + uint64(c)
			count++
		}
	}
	if !large && word <= math.MaxInt64 {
		if negative {
			return -int64(word), w, false, word != 0
		}
		return int64(word), w, false, true
	}
	if !large {
		w = wide{word}
	} else if w, ok = w.times(power10[count], word); !ok {
		return 0, w, true, false
	}
	if negative {
		if w == (wide{}) {
			return 0, w, true, false
		}
		w = w.negate()
	}
	return 0, w, true, true
}

// scaleIn returns the number of digits after the point of a number's text.
func scaleIn(text []byte) int {
	if point := bytes.IndexByte(text, '.'); point >= 0 {
		return len(text) - point - 1
	}
	return 0
}

// shift returns w * 10^digits, and false if that doesn't fit.
func (w wide) shift(digits int) (_ wide, ok bool) {
	negative := w.negative()
	if negative {
		w = w.negate()
	}
	for ; digits > 0; digits -= min(digits, chunk) {
		if w, ok = w.times(power10[min(digits, chunk)], 0); !ok {
			return w, false
		}
	}
	if negative {
		w = w.negate()
	}
	return w, true
}

// AppendNumber appends a number in units of its last digit, with scale digits after the point.
func AppendNumber(b []byte, n int64, scale int) []byte {
	u := uint64(n)
	if n < 0 {
		b = append(b, '-')
		u = -u
	}
	return appendWord(b, u, scale)
}

func appendWord(b []byte, u uint64, scale int) []byte {
	var buf [80]byte
	i := len(buf)
	for digits := 0; u > 0 || digits <= scale; digits++ {
		if digits == scale && scale > 0 {
			i--
			buf[i] = '.'
		}
		i--
		buf[i] = byte('0' + u%10)
		u /= 10
	}
	return append(b, buf[i:]...)
}

// appendWide is AppendNumber for a wide.
func appendWide(b []byte, w wide, scale int) []byte {
	if n, ok := w.narrow(); ok {
		return AppendNumber(b, n, scale)
	}
	if w.negative() {
		b = append(b, '-')
		w = w.negate()
	}
	var buf [100]byte
	i := len(buf)
	for digits := 0; w != (wide{}) || digits <= scale; {
		var rem uint64
		w, rem = w.over(power10[chunk])
		for range chunk {
			if w == (wide{}) && rem == 0 && digits > scale {
				break
			}
			if digits == scale && scale > 0 {
				i--
				buf[i] = '.'
			}
			i--
			buf[i] = byte('0' + rem%10)
			rem /= 10
			digits++
		}
	}
	return append(b, buf[i:]...)
}

// mostDigits is the number of digits of the longest decimal of MySQL and MariaDB. A result that is
// longer is left to the server, which may fail, or return the largest number.
const mostDigits = 65

// fits reports whether a number has at most mostDigits digits.
func (w wide) fits() bool {
	if w.negative() {
		w = w.negate()
	}
	return w[3]>>63 == 0 && w.compare(tenTo65) < 0
}

var tenTo65 = func() wide {
	w := wide{1}
	for range mostDigits {
		w, _ = w.times(10, 0)
	}
	return w
}()

// quotient divides a sum by a count. sum has fromScale digits after the point, and the result has
// toScale. The result is rounded half away from zero, as servers with engine.FinalQuotient do.
func quotient(sum wide, count uint64, fromScale, toScale int) (q wide, ok bool) {
	if count == 0 || toScale < fromScale {
		return q, false
	}
	negative := sum.negative()
	if negative {
		sum = sum.negate()
	}
	if sum, ok = sum.shift(toScale - fromScale); !ok {
		return q, false
	}
	q, rem := sum.over(count)
	if quotientDigits(fromScale, toScale) > toScale && rem >= count-rem {
		q, _ = q.add(wide{1})
	}
	if negative {
		q = q.negate()
	}
	return q, true
}

// quotientDigits is the number of digits after the point to which servers with engine.FinalQuotient
// divide before they round. These servers keep numbers in groups of nine digits, and truncate the
// quotient after the last group.
func quotientDigits(fromScale, toScale int) int {
	const group = 9
	padded := (fromScale + group - 1) / group * group
	more := max(0, toScale-fromScale-(padded-fromScale))
	return (padded + more + group - 1) / group * group
}
