package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Kind is how rows are written in a file.
type Kind string

// Kinds of files.
const (
	// CSV is RFC 4180: fields may be quoted, a quote within them is doubled,
	// and quoted fields may have line breaks.
	CSV Kind = "csv"
	// TSV is what COPY and SELECT ... INTO OUTFILE write: fields separated by
	// tabs, with \t, \n, \\ for what they would break on, and \N for NULL.
	TSV Kind = "tsv"
	// JSONL is an object for each line, whose keys are the columns.
	JSONL Kind = "jsonl"
)

// Kinds returns all of them.
func Kinds() []Kind { return []Kind{CSV, TSV, JSONL} }

// A Format says how to read a source.
type Format struct {
	Kind Kind
	// Delimiter stands between fields; 0 is a comma, for TSV a tab.
	Delimiter byte
	// NoHeader tells that the first line has values, not the columns' names.
	NoHeader bool
	// Header tells that the first line has names although Columns are given. A
	// line that is a row of values is refused there otherwise, as it would be
	// passed over.
	Header bool
	// Null is the unquoted text of NULL; "" is \N.
	Null string
	// Columns are those of the fields, in order; nil takes those of the header,
	// or without one all columns of the table that can be written to.
	Columns []string
}

// kindsByName are the kinds that names of files tell.
var kindsByName = map[string]Kind{".csv": CSV, ".tsv": TSV, ".tab": TSV, ".jsonl": JSONL, ".ndjson": JSONL}

// KindOf tells a file's kind by its name, compressed or not; "" is unknown.
func KindOf(path string) Kind {
	name := strings.ToLower(path)
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	return kindsByName[filepath.Ext(name)]
}

// Validate returns what makes no sense about the format.
func (f *Format) Validate() error {
	if !slices.Contains(Kinds(), f.Kind) {
		return fmt.Errorf("format %q is unknown: there are %v", f.Kind, Kinds())
	}
	if d := f.delimiter(); f.Kind != JSONL && (d == '"' || d == '\n' || d == '\r' || d == '\\' || d >= 0x80) {
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

// header tells whether the first record has the columns' names.
func (f *Format) header() bool { return f.Kind != JSONL && !f.NoHeader }

const (
	// maxLine is the longest record that is loaded, in bytes. A longer one is a
	// bad row.
	maxLine = 16 << 20
	// maxRecord is the longest record of which the end is looked for: it is held
	// in memory meanwhile. A longer one ends the load.
	maxRecord = 128 << 20
	// maxQuoted is how far the end of a record with quotes is looked for. Where
	// a quote isn't closed by then it is taken to end with its line, so that one
	// stray quote doesn't take the rest of a file with it.
	maxQuoted = 1 << 20
)

// errLong is about a record longer than maxLine, errEndless about one longer
// than maxRecord.
var (
	errLong    = fmt.Errorf("it is longer than %d MiB", maxLine>>20)
	errEndless = fmt.Errorf("it has no end within %d MiB", maxRecord>>20)
)

// end returns where the first record of p ends, behind its line break; 0 when
// more is needed to tell. With final nothing comes after p.
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
	if f.Kind == CSV {
		line := p
		if i >= 0 {
			line = p[:i]
		}
		if bytes.IndexByte(line, '"') >= 0 {
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

// escaped reports whether what follows p is escaped by a backslash.
func escaped(p []byte) bool {
	n := 0
	for n < len(p) && p[len(p)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// quotedEnd is end for a record of CSV that has quotes; line is where its
// first line ends, 0 if that isn't known. Where text follows the quote that would
// end a field, that quote is the next field's or row's, and one before it stray:
// such a record ends with its line, too.
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
	case i == len(p) && final: // the last line has no break
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

// closingQuote returns what follows the quote that ends a field, whose text
// begins at i; -1 without one.
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

// A field is a value as a file has it.
type field struct {
	value  []byte
	quoted bool
	null   bool
	absent bool // its column gets the default
}

// Errors of lines.
var (
	errUnclosed = errors.New("a quote isn't closed")
	errBehind   = errors.New("text follows the quote that ends a field")
)

// split takes a record, without its line break, apart. Values lie in the record
// or in buf, which it returns grown.
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

// escapes are what a letter behind a backslash stands for, where that isn't
// the letter itself.
var escapes = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 'Z': 26}

func (f *Format) splitTSV(record []byte, fields []field, buf []byte) ([]field, []byte) {
	delimiter, null := f.delimiter(), f.null()
	for {
		i := bytes.IndexByte(record, delimiter)
		if i < 0 {
			i = len(record)
		}
		plain := true
		if first := bytes.IndexByte(record[:i], '\\'); first >= 0 { // which may escape the delimiter
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

// trimBreak returns a record without its line break.
func trimBreak(record []byte) []byte {
	record = bytes.TrimSuffix(record, []byte("\n"))
	return bytes.TrimSuffix(record, []byte("\r"))
}

// byteOrderMark begins the files of some programs.
var byteOrderMark = []byte("\xef\xbb\xbf")

// names returns the columns that a file's first record, its header, names.
func (f *Format) names(record []byte) ([]string, error) {
	record = trimBreak(bytes.TrimPrefix(record, byteOrderMark))
	var out []string
	fields, _, err := f.split(record, nil, nil)
	for _, v := range fields {
		out = append(out, strings.TrimSpace(string(v.value)))
	}
	return out, err
}
