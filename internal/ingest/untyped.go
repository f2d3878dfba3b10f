package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/rowmill/rowmill/internal/engine"
)

// Errors of values that an engine with untyped columns would accept.
var (
	errNoDate = errors.New("it is no date such as 2026-03-29")
	errNoSpan = errors.New("it is no time of day such as 01:00:00, nor a span of up to 838:59:59")
	errNoBool = errors.New("it is neither true nor false, t nor f, 1 nor 0")
	errNoJSON = errors.New("it is no JSON")
)

// integers maps integer types to their width in bits on typed servers. INT and
// INTEGER have 64 bits, as in the engine.
var integers = map[string]int{"tinyint": 8, "smallint": 16, "int2": 16, "mediumint": 24, "int4": 32, "bigint": 64, "int8": 64, "int": 64, "integer": 64}

// lengths contains the types with a length in characters.
var lengths = map[string]bool{"char": true, "varchar": true, "character": true, "nchar": true, "nvarchar": true, "varying": true, "native": true}

// typed refuses values that the declared type of a column would not have on a
// typed server, and normalises their text. Other values are read by next. name
// and digits describe the type.
func typed(next parse, c engine.SchemaColumn, name string, digits []int, o *ValueOptions) parse {
	switch {
	case c.Kind == engine.KindInt && integers[name] > 0:
		unsigned := strings.Contains(strings.ToLower(c.Native), "unsigned")
		return intOf(next, integers[name], unsigned)
	case c.Kind == engine.KindDecimal && len(digits) > 0:
		scale := 0
		if len(digits) > 1 {
			scale = digits[1]
		}
		return digitsOf(next, digits[0]-scale)
	case c.Kind == engine.KindText && len(digits) == 1 && lengths[name]:
		return lengthOf(next, digits[0])
	case c.Kind != engine.KindOther:
		return next
	}
	switch name {
	case "date":
		return dateOf(o)
	case "time":
		return parseSpan
	case "year":
		return parseYear
	case "bool", "boolean":
		return parseBool
	case "json", "jsonb":
		return func(v *engine.Vector, text []byte) error {
			if !gjson.ValidBytes(text) {
				return errNoJSON
			}
			return next(v, text)
		}
	}
	return next
}

// intOf refuses integers of more than bits bits.
func intOf(next parse, bits int, unsigned bool) parse {
	from, to := int64(math.MinInt64)>>(64-bits), int64(math.MaxInt64)>>(64-bits)
	if unsigned {
		from, to = 0, to*2+1
		if bits == 64 {
			to = math.MaxInt64 // the engine's maximum
		}
	}
	outside := fmt.Errorf("it is out of range: the column's type has %d to %d", from, to)
	return func(v *engine.Vector, text []byte) error {
		n := len(v.Ints)
		if err := next(v, text); err != nil {
			return err
		}
		if len(v.Ints) > n && (v.Ints[n] < from || v.Ints[n] > to) {
			v.Ints = v.Ints[:n]
			return outside
		}
		return nil
	}
}

// digitsOf refuses decimals with more than whole digits before the point.
func digitsOf(next parse, whole int) parse {
	tooLarge := fmt.Errorf("it is out of range: the column keeps %d digits before the point", whole)
	return func(v *engine.Vector, text []byte) error {
		if wholeDigits(text) > whole {
			return tooLarge
		}
		return next(v, text)
	}
}

// wholeDigits counts the digits before the point of a number, which may have an
// exponent. It returns 0 if the text is not a number; other checks refuse that.
func wholeDigits(text []byte) int {
	number, exponent := bytes.TrimLeft(text, "+-"), 0
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		digits := number[i+1:]
		negative := len(digits) > 0 && digits[0] == '-'
		for _, c := range bytes.TrimLeft(digits, "+-") {
			if c < '0' || c > '9' {
				return 0
			}
			exponent = min(exponent*10+int(c-'0'), maxExponent)
		}
		if number = number[:i]; negative {
			exponent = -exponent
		}
	}
	whole, fraction, _ := bytes.Cut(number, []byte("."))
	if significant := bytes.TrimLeft(whole, "0"); len(significant) > 0 {
		return max(len(significant)+exponent, 0)
	}
	significant := bytes.TrimLeft(fraction, "0")
	if len(significant) == 0 {
		return 0
	}
	return max(exponent-(len(fraction)-len(significant)), 0)
}

// lengthOf refuses text longer than that many characters.
func lengthOf(next parse, characters int) parse {
	tooLong := fmt.Errorf("it has more than the %d characters that the column keeps", characters)
	return func(v *engine.Vector, text []byte) error {
		if len(text) > characters && utf8.RuneCount(text) > characters {
			return tooLong
		}
		return next(v, text)
	}
}

// dateOf reads dates and writes them as YYYY-MM-DD.
func dateOf(o *ValueOptions) parse {
	read := timeOf("date", nil, "", o)
	var day engine.Vector
	return func(v *engine.Vector, text []byte) error {
		day.Ints = day.Ints[:0]
		if err := read(&day, text); errors.Is(err, errNoTime) {
			return errNoDate
		} else if err != nil {
			return err
		}
		const form = len("2026-03-29")
		at := engine.AppendTime(nil, day.Ints[0])
		if len(at) < form || at[form] != ' ' {
			return errNoDate // a year of more than four digits
		}
		v.AppendBytes(at[:form])
		return nil
	}
}

// parseSpan reads times of day, and time spans in MySQL's form, with two or three
// digits for the hours.
func parseSpan(v *engine.Vector, text []byte) error {
	const most = 838 // hours, as in MySQL
	rest := bytes.TrimPrefix(text, []byte("-"))
	hours, tail, ok := bytes.Cut(rest, []byte(":"))
	h, isHours := number(hours)
	if !ok || !isHours || len(hours) > 3 || h > most {
		return errNoSpan
	}
	parts := bytes.Split(tail, []byte(":"))
	var fraction []byte
	if len(parts) == 2 {
		var point bool
		parts[1], fraction, point = bytes.Cut(parts[1], []byte("."))
		if point && (!onlyDigits(fraction, '9') || len(bytes.TrimRight(fraction, "0")) > 6) {
			return errNoSpan
		}
	}
	if len(parts) > 2 {
		return errNoSpan
	}
	for _, p := range parts {
		if n, is := number(p); !is || len(p) != 2 || n > 59 {
			return errNoSpan
		}
	}
	out := v.Bytes
	if len(rest) < len(text) {
		out = append(out, '-')
	}
	out = fmt.Appendf(out, "%02d:%s", h, parts[0])
	if len(parts) == 2 {
		out = append(append(out, ':'), parts[1]...)
	} else {
		out = append(out, ":00"...)
	}
	if fraction = bytes.TrimRight(fraction, "0"); len(fraction) > 0 {
		out = append(append(out, '.'), fraction...)
	}
	v.Bytes = out
	v.EndBytes()
	return nil
}

func parseYear(v *engine.Vector, text []byte) error {
	if _, ok := number(text); !ok || len(text) != 4 {
		return errYear
	}
	v.AppendBytes(text)
	return nil
}

// parseBool reads true and false, and writes them as 1 and 0.
func parseBool(v *engine.Vector, text []byte) error {
	switch strings.ToLower(string(text)) {
	case "1", "t", "true":
		v.AppendBytes([]byte{'1'})
	case "0", "f", "false":
		v.AppendBytes([]byte{'0'})
	default:
		return errNoBool
	}
	return nil
}
