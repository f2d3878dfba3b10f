package ingest

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unsafe"

	"github.com/tidwall/gjson"
)

// maxDepth limits the nesting of an object's values. Reading uses stack space for
// each level, and a line has room for millions of levels.
const maxDepth = 1000

// parseObject returns a record's JSON object. Its strings refer to the record's
// memory.
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

// tooDeep reports whether values are nested more than maxDepth levels deep.
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

// halfSurrogate reports whether a valid JSON string escapes one half of a surrogate
// pair without the other.
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

// unsafeString returns text as a string without a copy. The caller must not retain
// it.
func unsafeString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// unsafeBytes returns text as bytes without a copy. The caller must not change them.
func unsafeBytes(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
