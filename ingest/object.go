package ingest

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unsafe"

	"github.com/tidwall/gjson"
)

// maxDepth is how deep the values of an object may be nested. Reading one takes
// stack for each level, of which a line has room for millions.
const maxDepth = 1000

// parseObject returns a record's JSON object, whose texts lie in the record.
func parseObject(record []byte) (gjson.Result, error) {
	if tooDeep(record) || !gjson.ValidBytes(record) {
		return gjson.Result{}, errNoObject
	}
	o := gjson.Parse(unsafeString(record))
	if !o.IsObject() {
		return o, errNoObject
	}
	return o, nil
}

// tooDeep reports whether values are nested more than maxDepth deep.
func tooDeep(p []byte) bool {
	if bytes.Count(p, []byte("[")) <= maxDepth/2 && bytes.Count(p, []byte("{")) <= maxDepth/2 {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// halfSurrogate reports whether a valid string of JSON escapes one half of a
// surrogate pair without the other.
func halfSurrogate(raw string) bool {
	unit := func(i int) rune { // the one that is escaped there, -1 for none
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
		i++ // what is escaped
	}
	return false
}

// unsafeBytes is text without a copy, for who doesn't change it.
func unsafeBytes(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
