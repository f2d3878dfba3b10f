package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/rowmill/rowmill/internal/value"
)

var (
	errNoObject  = errors.New("it is not a JSON object")
	errSurrogate = errors.New("it has half of a surrogate pair, which is not a character")
	// wholePairs matches a JSON string that has no half of a surrogate pair without the other.
	wholePairs = regexp.MustCompile(`^(?:[^\\]|\\[^u]|\\u[^dD]...|\\u[dD][0-7]..|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*$`)
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
func (p *parser) object(record []byte) (string, error) {
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
		case v.Type == gjson.String && p.columns[i].Logical != value.JSON:
			if strings.Contains(v.Str, "\ufffd") && !wholePairs.MatchString(v.Raw) {
				err = fmt.Errorf("key %q: %w", key.Str, errSurrogate)
				return false
			}
			text := unsafeBytes(v.Str)
			p.values[i] = field{value: text, quoted: true, null: p.format.NullQuoted && p.format.isNull(text)}
		case v.Type == gjson.Number && (p.columns[i].Kind == value.Int || p.columns[i].Kind == value.Time):
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

// integral converts a JSON number with a point or an exponent to an integer without
// either, if its value is one.
func (p *parser) integral(number []byte) []byte {
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

func unsafeString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// unsafeBytes returns text as bytes without a copy. The caller must not change them.
func unsafeBytes(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
