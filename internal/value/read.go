package value

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Encodings of bytes in text.
const (
	Hex    = "hex"    // two digits per byte, with or without a leading \x or 0x
	Base64 = "base64" // RFC 4648, with or without padding
	Raw    = "raw"    // unchanged
)

// Encodings returns all encodings.
func Encodings() []string { return []string{Hex, Base64, Raw} }

// A Notation describes how values are written. It may be stored as JSON, without the zone.
type Notation struct {
	// Zone is the time zone of times without an offset; nil means UTC.
	Zone *time.Location `json:"-"`
	// TruncateTimes cuts off digits of a second that a column doesn't store, instead of refusing them.
	TruncateTimes bool `json:"truncate,omitempty"`
	// Unix is the unit of numbers in time columns, since 1970; "" refuses numbers. See Units.
	Unix string `json:"unix,omitempty"`
	// Bytes is the encoding of binary columns; "" means Hex.
	Bytes string `json:"bytes,omitempty"`
	// DecimalComma means that numbers have a comma as the decimal sign.
	DecimalComma bool `json:"decimal_comma,omitempty"`
	// TimeFormats has the form of times by column, with "" for all others. Without one, see ParseTime.
	TimeFormats map[string]*TimeFormat `json:"time_formats,omitempty"`
	// TimeFormat is the form for the column that is read; nil means the forms of ParseTime.
	TimeFormat *TimeFormat `json:"-"`
}

// A Server says which checks are left to the reader of its values.
type Server struct {
	// Untyped reports that a column accepts values outside of its type.
	Untyped bool
	// NoZeroBytes reports that text can't contain a zero byte.
	NoZeroBytes bool
}

// A Reader reads the values of a column from text. It refuses values that the server would change
// silently. It also refuses values that the type doesn't have but an untyped server would store.
// Only one of its functions is set: the one for the form in which the values are sent. The Reader
// of a Float may have two, because values can be sent as numbers or as text. No function retains or
// changes the text.
type Reader struct {
	// Int returns an integer, or for a Time microseconds since 1970 in UTC.
	Int   func(text []byte) (int64, error)
	Float func(text []byte) (float64, error)
	// Append appends the value to dst. After an error, it returns dst as it was.
	Append func(dst, text []byte) ([]byte, error)
}

// Reader returns the reader of a type's values.
func (t Type) Reader(n *Notation, s Server) (Reader, error) {
	switch {
	case t.Logical == Bit && t.Bits > 0:
		return t.bits(s), nil
	case t.Kind == Int:
		return Reader{Int: t.ints(s)}, nil
	case t.Kind == Float:
		return t.floats(), nil
	case t.Kind == Decimal:
		return Reader{Append: t.decimals(s)}, nil
	case t.Kind == Time:
		return Reader{Int: t.times(n)}, nil
	case t.Kind == Bytes:
		switch n.Bytes {
		case "", Hex:
			return Reader{Append: appendHex}, nil
		case Base64:
			return Reader{Append: appendBase64}, nil
		case Raw:
			return Reader{Append: func(dst, text []byte) ([]byte, error) { return append(dst, text...), nil }}, nil
		}
		return Reader{}, fmt.Errorf("encoding %q of bytes is unknown: there are %s", n.Bytes, strings.Join(Encodings(), ", "))
	}
	return Reader{Append: t.texts(n, s)}, nil
}

var (
	errNoInt    = errors.New("it is not an integer")
	errIntRange = errors.New("it is not an integer of 64 bits")
	errNoNumber = errors.New("it is not a number")
	errRange    = errors.New("it is out of range")
	errYear     = errors.New("it is not a year of four digits")
	errUTF8     = errors.New("it has bytes that are not text in the source's encoding")
	errZero     = errors.New("it has a zero byte, which text can't contain here")
	errHex      = errors.New("it isn't in hexadecimal digits")
	errBase64   = errors.New("it isn't in base64")
	errMember   = errors.New("it is not a member of the column's type, and the server would read it as the position of one")
	errNoBool   = errors.New("it is not a boolean: want true, t, yes, y, on or 1, or false, f, no, n, off or 0")
	errNoJSON   = errors.New("it is not JSON")
)

// ints returns the reader of integers. A server that keeps to its types checks the range itself.
func (t Type) ints(s Server) func(text []byte) (int64, error) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if s.Untyped {
		from, to = t.IntRange()
	}
	if t.Logical == Bool {
		plain := t
		plain.Logical = Plain
		numbers := plain.ints(s)
		return func(text []byte) (int64, error) {
			v, err := numbers(text)
			if !errors.Is(err, errNoInt) {
				return v, err
			}
			is, ok := Truth(text)
			if !ok {
				return 0, errNoBool
			}
			if is {
				return 1, nil
			}
			return 0, nil
		}
	}
	if t.Logical != Year && from == math.MinInt64 && to == math.MaxInt64 {
		return ParseInt
	}
	outside := fmt.Errorf("it is out of range: the column's type has %d to %d", from, to)
	return func(text []byte) (int64, error) {
		if t.Logical == Year && !isYear(text) {
			return 0, errYear
		}
		v, err := ParseInt(text)
		if err == nil && (v < from || v > to) {
			return 0, outside
		}
		return v, err
	}
}

// isYear reports whether a text is four digits; servers guess the century of two.
func isYear(text []byte) bool { return len(text) == 4 && onlyDigits(text, '9') }

// ParseInt reads a decimal integer.
func ParseInt(text []byte) (int64, error) {
	s := text
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, errNoInt
	}
	var n uint64
	for _, c := range s {
		c -= '0'
		if c > 9 {
			return 0, errNoInt
		}
		if n > math.MaxInt64/10 {
			return 0, errIntRange
		}
		n = n*10 + uint64(c)
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	if n > limit {
		return 0, errIntRange
	}
	if negative {
		n = -n
	}
	return int64(n), nil
}

// digits reads p, which must consist of digits, few enough for an int.
func digits(p []byte) (n int, ok bool) {
	for _, c := range p {
		c -= '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int(c)
	}
	return n, len(p) > 0
}

// onlyDigits reports whether a text is not empty and has only the digits from 0 to most.
func onlyDigits(text []byte, most byte) bool {
	for _, c := range text {
		if c < '0' || c > most {
			return false
		}
	}
	return len(text) > 0
}

// unsafeString returns text as a string without a copy. The caller must not retain it.
func unsafeString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// floats returns the reader of binary fractions. Append leaves a text as it is if all servers read
// the same number from it, or if the type includes NaN. Otherwise it writes the number as the
// shortest text with the same value. Float is for untyped servers and for values that are compared.
// It is nil if the type includes NaN.
func (t Type) floats() Reader {
	tooFine := t.tooFine()
	read := func(text []byte) (float64, error) {
		v, err := ParseFloat(text, 64)
		if err == nil && !t.NaN && (math.IsNaN(v) || math.IsInf(v, 0)) {
			return 0, errNoNumber
		}
		if err == nil && t.Precision > 0 {
			if n, err := parseNumber(text); err != nil || n.scale() > t.Scale {
				return 0, tooFine
			}
		}
		return v, err
	}
	r := Reader{Float: read, Append: func(dst, text []byte) ([]byte, error) {
		if t.Precision == 0 && isPlain(text) {
			return append(dst, text...), nil
		}
		v, err := read(text)
		switch {
		case err != nil:
			return dst, err
		case t.NaN:
			return append(dst, text...), nil
		}
		return strconv.AppendFloat(dst, v+0, 'g', -1, 64), nil // +0: -0 is 0
	}}
	if t.NaN {
		r.Float = nil
	}
	return r
}

// isPlain reports whether all servers read the same number from a text: it is [-]DIGITS[.DIGITS]
// with at most 15 digits, which a 64-bit binary fraction always preserves, and not -0.
func isPlain(text []byte) bool {
	n, err := parseNumber(text)
	digits := len(n.whole) + len(n.fraction)
	length := digits + min(len(n.fraction), 1) // with the point
	if n.negative {
		length++
	}
	return err == nil && length == len(text) && len(n.whole) > 0 && digits <= 15 && (!n.negative || n.scale() != math.MinInt)
}

// ParseFloat reads a binary fraction of 32 or 64 bits, NaN or an infinity. It refuses forms that
// only Go reads.
func ParseFloat(text []byte, bits int) (float64, error) {
	f, err := strconv.ParseFloat(unsafeString(text), bits)
	// The x of a hexadecimal number follows a 0, which may have a sign.
	hexadecimal := len(text) > 2 && (text[1]|0x20 == 'x' || text[2]|0x20 == 'x')
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), hexadecimal, bytes.IndexByte(text, '_') >= 0:
		return 0, errNoNumber
	case err != nil:
		return 0, errRange
	}
	return f, nil
}

func appendHex(dst, text []byte) ([]byte, error) {
	if len(text) >= 2 && (text[0] == '\\' || text[0] == '0') && (text[1] == 'x' || text[1] == 'X') {
		text = text[2:]
	}
	out, err := hex.AppendDecode(dst, text)
	if err != nil {
		return dst, errHex
	}
	return out, nil
}

func appendBase64(dst, text []byte) ([]byte, error) {
	for range 2 {
		text = bytes.TrimSuffix(text, []byte("="))
	}
	out, err := base64.RawStdEncoding.Strict().AppendDecode(dst, text)
	if err != nil {
		return dst, errBase64
	}
	return out, nil
}

// texts returns the reader of text, and of types that are sent as text.
func (t Type) texts(n *Notation, s Server) func(dst, text []byte) ([]byte, error) {
	plain := func(dst, text []byte) ([]byte, error) {
		if !utf8.Valid(text) {
			return dst, errUTF8
		}
		if s.NoZeroBytes && bytes.IndexByte(text, 0) >= 0 {
			return dst, errZero
		}
		if t.Exact > 0 {
			trimmed := bytes.TrimSpace(text)
			if number, err := parseNumber(trimmed); err == nil {
				return t.appendKept(dst, trimmed, number)
			}
		}
		return append(dst, text...), nil
	}
	// checked returns a function that reads text as plain does, and refuses text that isn't right.
	checked := func(wrong error, right func(text []byte) bool) func(dst, text []byte) ([]byte, error) {
		return func(dst, text []byte) ([]byte, error) {
			if !right(text) {
				return dst, wrong
			}
			return plain(dst, text)
		}
	}
	switch {
	case t.Logical == Enum || t.Logical == Set:
		return checked(errMember, t.isMember)
	case t.Logical == Year:
		return checked(errYear, isYear)
	case t.Logical == Clock && s.Untyped:
		return appendClock
	case t.Logical == Clock || t.Logical == Interval:
		return t.fractions(n, plain)
	case t.Logical == Date && s.Untyped:
		return dates(n)
	case t.Logical == Bool && !t.Array:
		return appendBool
	case t.Logical == JSON && s.Untyped:
		return checked(errNoJSON, ValidJSON)
	case t.Kind == Text && t.Length > 0:
		return checked(fmt.Errorf("it has more than the %d characters that the column stores", t.Length), func(text []byte) bool {
			return len(text) <= t.Length || utf8.RuneCount(text) <= t.Length
		})
	}
	return plain
}

// isMember reports whether a text can be sent to an ENUM or SET column. The server would read a
// number, or the empty text for an ENUM, as the place of a member: such a text can be sent only if
// the type has a member that is written so. Other texts can be sent: the server compares them by
// collation.
func (t Type) isMember(text []byte) bool {
	text = bytes.TrimRight(text, " ")
	number := bytes.TrimLeft(text, " \t\n\v\f\r+-")
	switch {
	case len(number) > 0 && !onlyDigits(number, '9'):
		return true
	case t.Logical == Set && (len(text) == 0 || len(number) == 0):
		return true
	}
	return slices.ContainsFunc(t.Members, func(m string) bool { return strings.EqualFold(strings.TrimRight(m, " "), unsafeString(text)) })
}

// Truth reads a boolean in any case: true, t, yes, y, on, 1, or false, f, no, n, off, 0.
func Truth(text []byte) (is, ok bool) {
	if len(text) > 5 {
		return false, false
	}
	switch strings.ToLower(unsafeString(text)) {
	case "1", "t", "true", "y", "yes", "on":
		return true, true
	case "0", "f", "false", "n", "no", "off":
		return false, true
	}
	return false, false
}

func appendBool(dst, text []byte) ([]byte, error) {
	switch is, ok := Truth(text); {
	case !ok:
		return dst, errNoBool
	case is:
		return append(dst, '1'), nil
	}
	return append(dst, '0'), nil
}
