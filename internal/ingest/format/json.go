package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/rowmill/rowmill/internal/value"
)

var (
	errNoObject  = errors.New("it is not a JSON object")
	errSurrogate = errors.New("it has half of a surrogate pair, which is not a character")
)

// parseObject returns a record's object, whose strings refer to the record's memory.
func parseObject(record []byte) (gjson.Result, error) {
	if !value.ValidJSON(record) {
		var syntax *json.SyntaxError
		if errors.As(json.Unmarshal(record, new(json.RawMessage)), &syntax) {
			return gjson.Result{}, fmt.Errorf("%w: byte %d: %w", errNoObject, syntax.Offset, syntax)
		}
		return gjson.Result{}, errNoObject
	}
	o := gjson.Parse(unsafeString(record))
	if !o.IsObject() {
		return o, errNoObject
	}
	return o, nil
}

// object splits a JSON object into p.values, which refer to the record or to p.buf.
func (p *Parser) object(record []byte) (string, error) {
	o, err := parseObject(record)
	if err != nil {
		return "", err
	}
	p.beginKeys()
	o.ForEach(func(key, v gjson.Result) bool {
		var i int
		if i, err = p.key(key.Str); i < 0 {
			return err == nil
		}
		switch {
		case v.Type == gjson.Null:
			p.values[i] = field{null: true}
		case v.Type == gjson.String && p.Columns[i].Logical != value.JSON:
			if strings.Contains(v.Str, "\ufffd") && halfSurrogate(v.Raw) {
				err = fmt.Errorf("key %q: %w", key.Str, errSurrogate)
				return false
			}
			text := unsafeBytes(v.Str)
			p.values[i] = field{value: text, quoted: true, null: p.Format.NullQuoted && p.Format.isNull(text)}
		case v.Type == gjson.Number && (p.Columns[i].Kind == value.Int || p.Columns[i].Kind == value.Time):
			p.values[i] = field{value: p.integral(unsafeBytes(v.Raw))}
		default: // a number, true, false, or JSON, unchanged
			p.values[i] = field{value: unsafeBytes(v.Raw)}
		}
		return true
	})
	if err != nil {
		return "", err
	}
	return p.endKeys()
}

// integral writes a JSON number without point and exponent if it is an integer: 1e3 as 1000.
func (p *Parser) integral(number []byte) []byte {
	if !bytes.ContainsAny(number, ".eE") {
		return number
	}
	from := len(p.buf)
	out, is := value.AppendInteger(p.buf, number)
	if !is {
		return number
	}
	p.buf = out
	return p.buf[from:len(p.buf):len(p.buf)]
}

// halfSurrogate reports whether a valid JSON string escapes half of a surrogate pair.
func halfSurrogate(raw string) bool {
	unit := func(i int) rune { // the code unit escaped at i, -1 if there is none
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(raw[i+2:i+6], 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if r := unit(i); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, unit(i+6)) == '\ufffd' {
				return true
			}
			i += 10
		}
		i++ // the escaped character
	}
	return false
}

func unsafeString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// unsafeBytes returns text as bytes without a copy. The caller must not change them.
func unsafeBytes(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
