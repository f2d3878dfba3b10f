package tabular

import (
	"bytes"

	"github.com/rowmill/rowmill/internal/engine"
)

// lines writes CSV and TSV.
type lines struct {
	output
	noHeader bool
	// field appends a value as a field; nil is NULL.
	field   func(dst, value []byte) []byte
	between byte

	forms []form
	hex   []byte
}

func (l *lines) Columns(cols []engine.ResultColumn) error {
	l.hex = []byte{} // not nil, which is NULL: a value of no bytes isn't NULL
	for i, c := range cols {
		l.forms = append(l.forms, formOf(c))
		if l.noHeader {
			continue
		}
		if i > 0 {
			l.buf = append(l.buf, l.between)
		}
		l.buf = l.field(l.buf, append([]byte{}, c.Name...))
	}
	if !l.noHeader {
		l.buf = append(l.buf, '\n')
	}
	return nil
}

func (l *lines) Row(values [][]byte) error {
	for i, v := range values {
		if i > 0 {
			l.buf = append(l.buf, l.between)
		}
		switch f := l.forms[i]; {
		case v == nil:
		case f.binary():
			l.hex = f.appendHex(l.hex[:0], v)
			v = l.hex
		case f == formBits:
			l.hex = appendBits(l.hex[:0], v)
			v = l.hex
		}
		l.buf = l.field(l.buf, v)
	}
	if l.buf = append(l.buf, '\n'); len(l.buf) < flushAt {
		return nil
	}
	return l.flush()
}

// appendCSV quotes a value if it contains a comma, a quote or a line break; if it is empty or \N,
// which readers take for NULL; or if it begins or ends with white space, which some readers trim.
func appendCSV(dst, value []byte) []byte {
	if value == nil {
		return dst
	}
	n := len(value)
	plain := n > 0 && !bytes.ContainsAny(value, ",\"\r\n") && string(value) != `\N` &&
		value[0] != ' ' && value[0] != '\t' && value[n-1] != ' ' && value[n-1] != '\t'
	if plain {
		return append(dst, value...)
	}
	dst = append(dst, '"')
	for {
		i := bytes.IndexByte(value, '"')
		if i < 0 {
			return append(append(dst, value...), '"')
		}
		dst = append(append(dst, value[:i+1]...), '"')
		value = value[i+1:]
	}
}

// tsvEscapes are the bytes that are escaped, and how.
var tsvEscapes = [256]byte{0: '0', '\t': 't', '\n': 'n', '\\': '\\'}

func appendTSV(dst, value []byte) []byte {
	if value == nil {
		return append(dst, `\N`...)
	}
	from := 0
	for i, c := range value {
		if e := tsvEscapes[c]; e != 0 {
			dst = append(append(dst, value[from:i]...), '\\', e)
			from = i + 1
		}
	}
	return append(dst, value[from:]...)
}
