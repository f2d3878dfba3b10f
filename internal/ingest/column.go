package ingest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/rowmill/rowmill/internal/engine"
)

// Encodings of bytes in a file.
const (
	Hex    = "hex"    // two digits per byte, with or without a leading \x or 0x
	Base64 = "base64" // RFC 4648, with or without padding
	Raw    = "raw"    // unchanged
)

// Encodings returns all encodings.
func Encodings() []string { return []string{Hex, Base64, Raw} }

// ValueOptions describe how values are written in a file.
type ValueOptions struct {
	// Zone is the time zone of times without an offset; nil means UTC.
	Zone *time.Location
	// TruncateTimes truncates fractional digits of a second that a column doesn't
	// store. Without it, such rows are refused.
	TruncateTimes bool
	// Unix is the unit of numbers in time columns, counted since 1970: one of Units.
	// If it is "", numbers are refused.
	Unix string
	// Bytes is the encoding of binary columns; "" means Hex.
	Bytes string
}

// A column is the destination of a field's values.
type column struct {
	engine.SchemaColumn
	parse func(v *engine.Vector, text []byte) error
	// json means that the column stores JSON: a string of an object is stored with
	// its quotes.
	json bool
}

// newColumn returns the parser of a column's values and the type in which they are
// sent.
func newColumn(c engine.SchemaColumn, db engine.Keeper, o *ValueOptions) (column, engine.Column, error) {
	out, as := column{SchemaColumn: c}, engine.Column{Name: c.Name, Type: engine.Varchar, Size: math.MaxInt32, Null: c.Null}
	name, digits := engine.NativeType(c.Native)
	out.json = name == "json" || name == "jsonb"
	noZero := db.Capabilities().NoZeroBytes
	if read, typ, is := bitsOf(c, name, digits, db.Capabilities().Untyped); is {
		as.Type, out.parse = typ, read
		return out, as, nil
	}
	switch c.Kind {
	case engine.KindInt:
		as.Type, out.parse = engine.Int64, parseInt
	case engine.KindFloat:
		as.Type, out.parse = engine.Float64, parseFloat
		if db.Info().Engine == "postgres" {
			// PostgreSQL accepts NaN and the infinities, which can only be sent as
			// text.
			as.Type, out.parse = engine.Varchar, parseFloatText
		}
	case engine.KindDecimal:
		scale := -1
		if len(digits) > 0 {
			scale = 0
		}
		if len(digits) > 1 {
			scale = digits[1]
		}
		if name == "bigint" {
			scale = 0
		}
		out.parse = decimalOf(scale, db.Info().Engine == "postgres")
	case engine.KindTime:
		as.Type, out.parse = engine.Time, timeOf(name, digits, db.Info().Engine, o)
	case engine.KindBytes:
		as.Type = engine.Binary
		switch o.Bytes {
		case "", Hex:
			out.parse = parseHex
		case Base64:
			out.parse = parseBase64
		case Raw:
			out.parse = func(v *engine.Vector, text []byte) error { v.AppendBytes(text); return nil }
		default:
			return out, as, fmt.Errorf("bytes as %q are unknown: there are %s", o.Bytes, strings.Join(Encodings(), ", "))
		}
	default:
		out.parse = func(v *engine.Vector, text []byte) error { return appendText(v, text, noZero) }
	}
	out.parse = unbent(out.parse, c, name, digits, db.Info().Engine, o)
	if db.Capabilities().Untyped {
		out.parse = typed(out.parse, c, name, digits, o)
	}
	return out, as, nil
}

var (
	errEmpty    = errors.New("it is empty")
	errNull     = errors.New("it is NULL, which the column can't be")
	errNoInt    = errors.New("it is no integer")
	errIntRange = errors.New("it is no integer of 64 bits")
	errNoNumber = errors.New("it is no number")
	errRange    = errors.New("it is out of range")
	errUTF8     = errors.New("it isn't UTF-8; iconv -f LATIN1 -t UTF-8 makes that of Latin-1")
	errZero     = errors.New("it has a zero byte, which text can't have here")
	errHex      = errors.New("it isn't in hexadecimal digits")
	errBase64   = errors.New("it isn't in base64")
)

func parseInt(v *engine.Vector, text []byte) error {
	s := text
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if len(s) == 0 {
		return errNoInt
	}
	var n uint64
	for _, c := range s {
		c -= '0'
		if c > 9 {
			return errNoInt
		}
		if n > math.MaxInt64/10 {
			return errIntRange
		}
		n = n*10 + uint64(c)
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	if n > limit {
		return errIntRange
	}
	if negative {
		n = -n
	}
	v.Ints = append(v.Ints, int64(n))
	return nil
}

// unsafeString returns text as a string without a copy. The caller must not retain
// it.
func unsafeString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

func parseFloat(v *engine.Vector, text []byte) error {
	f, err := float(text)
	if err != nil {
		return err
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return errNoNumber
	}
	v.Floats = append(v.Floats, f)
	return nil
}

// parseFloatText reads a number that is sent as text.
func parseFloatText(v *engine.Vector, text []byte) error {
	if _, err := float(text); err != nil {
		return err
	}
	v.AppendBytes(text)
	return nil
}

// float reads a number, including NaN and the infinities, but not notations that only
// Go accepts.
func float(text []byte) (float64, error) {
	f, err := strconv.ParseFloat(unsafeString(text), 64)
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

// decimalOf returns the parser of decimals.
func decimalOf(scale int, nan bool) func(v *engine.Vector, text []byte) error {
	check := scaleOf(scale, nan)
	return func(v *engine.Vector, text []byte) error {
		if err := check(text); err != nil {
			return err
		}
		v.AppendBytes(text)
		return nil
	}
}

// scaleOf returns the check of decimals. A scale of -1 means any. Nonzero digits
// beyond the scale are refused, because the server would round them silently.
func scaleOf(scale int, nan bool) func(text []byte) error {
	tooFine := fmt.Errorf("it has more than the %d digits after the point that the column keeps", scale)
	return func(text []byte) error {
		if nan && string(text) == "NaN" {
			return nil
		}
		i := 0
		if i < len(text) && (text[i] == '-' || text[i] == '+') {
			i++
		}
		whole, fraction := 0, 0
		last := math.MinInt // the position after the point of the last nonzero digit
		for ; i < len(text) && text[i]-'0' <= 9; i++ {
			if whole++; text[i] != '0' {
				last = whole
			}
		}
		if last > 0 {
			last -= whole
		}
		if i < len(text) && text[i] == '.' {
			for i++; i < len(text) && text[i]-'0' <= 9; i++ {
				if fraction++; text[i] != '0' {
					last = fraction
				}
			}
		}
		if whole+fraction == 0 {
			return errNoNumber
		}
		exponent := 0
		if i < len(text) {
			var err error
			if exponent, err = strconv.Atoi(unsafeString(text[i+1:])); err != nil && !errors.Is(err, strconv.ErrRange) || text[i] != 'e' && text[i] != 'E' {
				return errNoNumber
			} else if err != nil || exponent > maxExponent || exponent < -maxExponent {
				return errRange
			}
		}
		if scale >= 0 && last != math.MinInt && last-exponent > scale {
			return tooFine
		}
		return nil
	}
}

// maxExponent exceeds the exponent of any number that a server stores.
const maxExponent = 1 << 20

func appendText(v *engine.Vector, text []byte, noZero bool) error {
	if !utf8.Valid(text) {
		return errUTF8
	}
	if noZero && strings.IndexByte(unsafeString(text), 0) >= 0 {
		return errZero
	}
	v.AppendBytes(text)
	return nil
}

func parseHex(v *engine.Vector, text []byte) error {
	if len(text) >= 2 && (text[0] == '\\' || text[0] == '0') && (text[1] == 'x' || text[1] == 'X') {
		text = text[2:]
	}
	from := len(v.Bytes)
	out, err := hex.AppendDecode(v.Bytes, text)
	if err != nil {
		v.Bytes = v.Bytes[:from]
		return errHex
	}
	v.Bytes = out
	v.EndBytes()
	return nil
}

func parseBase64(v *engine.Vector, text []byte) error {
	for range 2 {
		text = bytes.TrimSuffix(text, []byte("="))
	}
	from := len(v.Bytes)
	out, err := base64.RawStdEncoding.Strict().AppendDecode(v.Bytes, text)
	if err != nil {
		v.Bytes = v.Bytes[:from]
		return errBase64
	}
	v.Bytes = out
	v.EndBytes()
	return nil
}
