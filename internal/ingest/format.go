package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Kind is a file format.
type Kind string

const (
	// CSV is RFC 4180: fields may be quoted, a quote within them is doubled, and
	// quoted fields may contain line breaks.
	CSV Kind = "csv"
	// TSV is the output of COPY and SELECT ... INTO OUTFILE: fields separated by
	// tabs, with the escapes \t, \n and \\, and \N for NULL.
	TSV Kind = "tsv"
	// JSONL has one object per line, whose keys are column names.
	JSONL Kind = "jsonl"
	// LineProtocol is InfluxDB's line protocol: the measurement is the table, tags and
	// fields are columns, and the timestamp is the column by which the table rolls.
	LineProtocol Kind = "lineprotocol"
)

// keyed reports whether each row names its columns.
func (k Kind) keyed() bool { return k == JSONL || k == LineProtocol }

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{CSV, TSV, JSONL, LineProtocol} }

// A Format describes how to read a source. The tags are those of a spool's records.
type Format struct {
	Kind Kind `json:"format"`
	// Delimiter separates fields; 0 means a comma, for TSV a tab.
	Delimiter byte `json:"delimiter,omitempty"`
	// NoHeader means that the first line contains values, not column names.
	NoHeader bool `json:"-"`
	// Header means that the first line contains column names although Columns are
	// given. Without it, a first line that is a row of values is refused, because it
	// would be skipped.
	Header bool `json:"-"`
	// Null is the unquoted text that means NULL; "" means \N.
	Null string `json:"null,omitempty"`
	// Columns are the columns of the fields, in order. If nil, they are taken from
	// the header or, without a header, are all writable columns of the table.
	Columns []string `json:"-"`
	// Measurement is the measurement of line protocol that is loaded; "" is the
	// table's name.
	Measurement string `json:"measurement,omitempty"`
}

var kindsByName = map[string]Kind{".csv": CSV, ".tsv": TSV, ".tab": TSV, ".jsonl": JSONL, ".ndjson": JSONL, ".lp": LineProtocol}

// KindOf returns the kind that a file's name implies, compressed or not; "" is
// unknown.
func KindOf(path string) Kind {
	name := strings.ToLower(path)
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	return kindsByName[filepath.Ext(name)]
}

// Validate checks the format for contradictions.
func (f *Format) Validate() error {
	if !slices.Contains(Kinds(), f.Kind) {
		return fmt.Errorf("format %q is unknown: there are %v", f.Kind, Kinds())
	}
	if d := f.delimiter(); !f.Kind.keyed() && (d == '"' || d == '\n' || d == '\r' || d == '\\' || d >= 0x80) {
		return fmt.Errorf("%q can't be a delimiter", d)
	}
	return nil
}

func (f *Format) delimiter() byte {
	switch {
	case f.Delimiter != 0:
		return f.Delimiter
	case f.Kind == TSV:
		return '\t'
	}
	return ','
}

func (f *Format) null() string {
	if f.Null == "" {
		return `\N`
	}
	return f.Null
}

func (f *Format) header() bool { return !f.Kind.keyed() && !f.NoHeader }

const (
	// maxLine is the length in bytes of the longest record that is loaded. A longer
	// record is a bad row.
	maxLine = 16 << 20
	// maxRecord limits the search for the end of a record, which is held in memory
	// meanwhile. A longer record ends the load.
	maxRecord = 128 << 20
	// maxQuoted limits the search for the closing quote of a record, in bytes. If it
	// isn't found, the record is taken to end with its line, so that a stray quote
	// doesn't consume the rest of the file.
	maxQuoted = 1 << 20
)

var (
	errLong    = fmt.Errorf("it is longer than %d MiB", maxLine>>20)
	errEndless = fmt.Errorf("it has no end within %d MiB", maxRecord>>20)
)

// end returns the end of the first record of p, including its line break, or 0 if
// more bytes are needed. final means that p is the end of the source.
func (f *Format) end(p []byte, final bool) (int, error) {
	i := bytes.IndexByte(p, '\n')
	if f.Kind == TSV {
		for i >= 0 && escaped(p[:i]) {
			next := bytes.IndexByte(p[i+1:], '\n')
			if next < 0 {
				i = -1
				break
			}
			i += 1 + next
		}
	}
	if f.Kind == CSV || f.Kind == LineProtocol {
		line := p
		if i >= 0 {
			line = p[:i]
		}
		if bytes.IndexByte(line, '"') >= 0 {
			if f.Kind == LineProtocol {
				return f.pointEnd(p, i+1, final)
			}
			return f.quotedEnd(p, i+1, final)
		}
	}
	switch {
	case i >= maxRecord || i < 0 && len(p) > maxRecord:
		return 0, errEndless
	case i >= 0:
		return i + 1, nil
	case final:
		return len(p), nil
	}
	return 0, nil
}

// escaped reports whether a backslash at the end of p escapes the next byte.
func escaped(p []byte) bool {
	n := 0
	for n < len(p) && p[len(p)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// quotedEnd is end for a CSV record with quotes. line is the end of its first line, 0
// if unknown. If a closing quote is followed by text, it is in fact the opening quote
// of a later field or row, and an earlier quote is stray. Such a record also ends
// with its line.
func (f *Format) quotedEnd(p []byte, line int, final bool) (int, error) {
	q := p[:min(len(p), maxQuoted)]
	delimiter := f.delimiter()
	i, stray := 0, false
	if bytes.HasPrefix(p, byteOrderMark) {
		i = len(byteOrderMark)
	}
	for {
		if i < len(q) && q[i] == '"' {
			if i = closingQuote(q, i+1); i < 0 {
				break
			}
			if i < len(q) && q[i] != delimiter && q[i] != '\n' && q[i] != '\r' {
				stray = true
				break
			}
		}
		for i < len(q) && q[i] != delimiter && q[i] != '\n' {
			i++
		}
		if i == len(q) {
			break
		}
		if q[i] == '\n' {
			return i + 1, nil
		}
		i++
	}
	switch {
	case i == len(p) && final: // the last line has no line break
		return len(p), nil
	case !stray && !final && len(p) <= maxQuoted:
		return 0, nil
	case line > maxRecord || line == 0 && len(p) > maxRecord:
		return 0, errEndless
	case line > 0:
		return line, nil
	case final:
		return len(p), nil
	}
	return 0, nil
}

// closingQuote returns the position after the quote that closes a field whose text
// begins at i, or -1 if there is none.
func closingQuote(p []byte, i int) int {
	for {
		j := bytes.IndexByte(p[i:], '"')
		if j < 0 {
			return -1
		}
		i += j + 1
		if i >= len(p) || p[i] != '"' {
			return i
		}
		i++
	}
}

// A field is a value as written in the file.
type field struct {
	value  []byte
	quoted bool
	null   bool
	absent bool // its column gets the default
}

var (
	errUnclosed = errors.New("a quote isn't closed")
	errBehind   = errors.New("text follows the quote that ends a field")
)

// split splits a record, given without its line break, into fields. Values refer to
// the record or to buf, which is returned grown.
func (f *Format) split(record []byte, fields []field, buf []byte) ([]field, []byte, error) {
	if f.Kind == TSV {
		fields, buf = f.splitTSV(record, fields, buf)
		return fields, buf, nil
	}
	delimiter, null := f.delimiter(), f.null()
	for {
		if len(record) > 0 && record[0] == '"' {
			end := closingQuote(record, 1)
			if end < 0 {
				return fields, buf, errUnclosed
			}
			value := record[1 : end-1]
			if bytes.IndexByte(value, '"') >= 0 {
				from := len(buf)
				for {
					i := bytes.IndexByte(value, '"')
					if i < 0 {
						break
					}
					buf = append(buf, value[:i+1]...)
					value = value[i+2:]
				}
				buf = append(buf, value...)
				value = buf[from:len(buf):len(buf)]
			}
			fields = append(fields, field{value: value, quoted: true})
			if end == len(record) {
				return fields, buf, nil
			}
			if record[end] != delimiter {
				return fields, buf, errBehind
			}
			record = record[end+1:]
			continue
		}
		i := bytes.IndexByte(record, delimiter)
		value := record
		if i >= 0 {
			value = record[:i]
		}
		fields = append(fields, field{value: value, null: string(value) == null})
		if i < 0 {
			return fields, buf, nil
		}
		record = record[i+1:]
	}
}

// escapes has the meaning of letters after a backslash, where that is not the letter itself.
var escapes = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 'Z': 26}

func (f *Format) splitTSV(record []byte, fields []field, buf []byte) ([]field, []byte) {
	delimiter, null := f.delimiter(), f.null()
	for {
		i := bytes.IndexByte(record, delimiter)
		if i < 0 {
			i = len(record)
		}
		plain := true
		if first := bytes.IndexByte(record[:i], '\\'); first >= 0 { // it may escape the delimiter
			for i = first; i < len(record) && record[i] != delimiter; i++ {
				if record[i] == '\\' && i+1 < len(record) {
					plain = false
					i++
				}
			}
		}
		value := record[:i]
		is := string(value) == null
		if !plain && !is {
			from := len(buf)
			for j := 0; j < len(value); j++ {
				c := value[j]
				if c == '\\' && j+1 < len(value) {
					j++
					switch c = value[j]; {
					case c == '0':
						c = 0
					case escapes[c] != 0:
						c = escapes[c]
					}
				}
				buf = append(buf, c)
			}
			value = buf[from:len(buf):len(buf)]
		}
		fields = append(fields, field{value: value, null: is})
		if i >= len(record) {
			return fields, buf
		}
		record = record[i+1:]
	}
}

func trimBreak(record []byte) []byte {
	record = bytes.TrimSuffix(record, []byte("\n"))
	return bytes.TrimSuffix(record, []byte("\r"))
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// names returns the column names in a header.
func (f *Format) names(record []byte) ([]string, error) {
	record = trimBreak(bytes.TrimPrefix(record, byteOrderMark))
	var out []string
	fields, _, err := f.split(record, nil, nil)
	for _, v := range fields {
		out = append(out, strings.TrimSpace(string(v.value)))
	}
	return out, err
}

// Records calls fn with each record of a text, its line break included, and the number of
// its first line.
func (f *Format) Records(p []byte, fn func(line int64, record []byte) error) error {
	for line := int64(1); len(p) > 0; {
		n, err := f.end(p, true)
		if err == nil {
			err = fn(line, p[:n])
		}
		if err != nil {
			return err
		}
		line += int64(bytes.Count(p[:n], lineBreak))
		p = p[n:]
	}
	return nil
}
