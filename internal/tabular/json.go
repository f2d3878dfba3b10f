package tabular

import (
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// ndjson writes a JSON object for each row. Numbers are JSON numbers with the server's digits. NaN
// and the infinities are strings, and bytes are strings of hexadecimal digits.
type ndjson struct {
	output
	cols  []engine.ResultColumn
	forms []form
	keys  [][]byte // with quotes, the colon and what precedes them
	rows  int64
}

func (j *ndjson) Columns(cols []engine.ResultColumn) error {
	j.cols = cols
	for i, name := range keys(cols) {
		if !utf8.ValidString(name) {
			return notUTF8(0, name, "JSON")
		}
		key := []byte{','}
		if i == 0 {
			key[0] = '{'
		}
		key = append(appendJSONText(append(key, '"'), []byte(name)), `":`...)
		j.forms, j.keys = append(j.forms, formOf(cols[i])), append(j.keys, key)
	}
	return nil
}

func (j *ndjson) Row(values [][]byte) error {
	j.rows++
	for i, v := range values {
		j.buf = append(j.buf, j.keys[i]...)
		switch f := j.forms[i]; {
		case v == nil:
			j.buf = append(j.buf, "null"...)
		case f == formBits:
			j.buf = appendBits(j.buf, v)
		case f.number():
			j.buf = appendJSONNumber(j.buf, v)
		case f == formBool && string(v) == "t":
			j.buf = append(j.buf, "true"...)
		case f == formBool && string(v) == "f":
			j.buf = append(j.buf, "false"...)
		case f.binary():
			j.buf = append(f.appendHex(append(j.buf, '"'), v), '"')
		case !utf8.Valid(v):
			return notUTF8(j.rows, j.cols[i].Name, "JSON")
		default:
			j.buf = append(appendJSONText(append(j.buf, '"'), v), '"')
		}
	}
	if len(values) == 0 {
		j.buf = append(j.buf, '{')
	}
	if j.buf = append(j.buf, "}\n"...); len(j.buf) < flushAt {
		return nil
	}
	return j.flush()
}

// appendJSONNumber appends a number without leading zeros, as a string if JSON has no such number.
func appendJSONNumber(dst, text []byte) []byte {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	sign := len(text) - len(digits)
	for len(digits) > 1 && digits[0] == '0' && digits[1]-'0' <= 9 {
		digits = digits[1:]
	}
	if len(digits) == 0 || digits[0]-'0' > 9 || !value.ValidJSON(digits) {
		return append(appendJSONText(append(dst, '"'), text), '"')
	}
	return append(append(dst, text[:sign]...), digits...)
}

const hexDigits = "0123456789abcdef"

// appendJSONText appends the contents of a JSON string.
func appendJSONText(dst, text []byte) []byte {
	from := 0
	for i, c := range text {
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, text[from:]...)
}
