// Package format turns the bytes of a source into rows of a table: CSV, TSV, JSON, line
// protocol, Parquet files and dumps of SQL, compressed or not.
//
// An Input is an open file or stream, decompressed and decoded to UTF-8; Parquet and dumps are read
// as the TSV of their rows. A Cutter divides this text into batches at record boundaries. A Parser
// fills an engine.Batch with the rows of such a batch, for a Target: the columns of the table that
// the source has. Rows that can't be read are Rejected, with the line and the reason; what makes
// all rows of a source unreadable is an error.
//
//	in, err := format.OpenFile(path, "")
//	c := format.NewCutter(ctx, in, &f, 5000, 4<<20, 0)
//	target, err := c.Destination(ctx, schema, func(names []string) (*format.Target, error) {
//		return format.NewTarget(db.Capabilities(), &f, names, &reading)
//	})
//	p := format.NewParser(target)
//	for b, err := c.Next(ctx); err == nil; b, err = c.Next(ctx) {
//		p.Parse(b) // p.Batch has its rows
//	}
//
// A new format is a file and an entry of Kinds. The text as which a Parquet file or a dump is read
// must never change: batches are identified by its bytes.
package format

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// A Kind is a file format.
type Kind string

const (
	// CSV is RFC 4180: fields may be quoted, with doubled quotes and with line breaks within.
	CSV Kind = "csv"
	// TSV is the output of COPY and INTO OUTFILE: tabs, the escapes \t, \n and \\, and \N for NULL.
	TSV Kind = "tsv"
	// JSONL has one object per line, whose keys are column names.
	JSONL Kind = "jsonl"
	// LineProtocol is InfluxDB's line protocol: the measurement is the table, tags and
	// fields are columns, and the timestamp is the column by which the table rolls.
	LineProtocol Kind = "lineprotocol"
	// JSON is one array of objects like those of JSONL.
	JSON Kind = "json"
	// Parquet is a file of columns, with their names and types. It can't be a stream.
	Parquet Kind = "parquet"
	// Dump is the SQL of a program such as mysqldump; the rows of one table are read.
	Dump Kind = "dump"
)

// Keyed reports whether each row names its columns.
func (k Kind) Keyed() bool { return k == JSONL || k == JSON || k == LineProtocol }

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{CSV, TSV, JSONL, JSON, LineProtocol, Parquet, Dump} }

// A Format describes how to read a source. Records of a spool contain it as JSON.
type Format struct {
	Kind Kind `json:"format"`
	// Delimiter separates fields; 0 means a comma, for TSV a tab.
	Delimiter byte `json:"delimiter,omitempty"`
	// NoHeader means that the first line contains values, not column names.
	NoHeader bool `json:"-"`
	// Header means that the first line contains column names even though Columns are given. Without
	// Header, a first line of values is refused, because it would be skipped as a header.
	Header bool `json:"-"`
	// Nulls are the texts that mean NULL, by default \N. With NullQuoted they do so in quotes, too.
	Nulls      []string `json:"nulls,omitempty"`
	NullQuoted bool     `json:"null_quoted,omitempty"`
	// Escape: a backslash in CSV escapes the next character, as with MySQL's FIELDS ESCAPED BY.
	Escape bool `json:"escape,omitempty"`
	// Comment, unless empty, begins lines of CSV and TSV that are skipped.
	Comment string `json:"comment,omitempty"`
	// SkipLines is the number of lines before the header, or before the first row, that are skipped.
	SkipLines int `json:"-"`
	// Encoding is the encoding of the text, as Encoding returns it. A byte order mark needs none.
	Encoding string `json:"-"`
	// Columns has the column of each field, in order; Skipped stands for a field that isn't loaded. If
	// Columns is nil, the header names the columns; without a header, all writable columns are meant.
	Columns []string `json:"-"`
	// Dumps are the kinds of dumps that can be read; dump is the kind of the source.
	Dumps []engine.Dump `json:"-"`
	dump  *engine.Dump
	// raw means that the rows come from a dump, so bytes are written as they are.
	raw bool
	// Measurement is the measurement of line protocol that is loaded; "" is the table's name.
	Measurement string `json:"measurement,omitempty"`
	// SkipColumns are the names in the header, or keys of objects, that are skipped.
	SkipColumns []string `json:"skip_columns,omitempty"`
	// Set gives columns the same value in each row.
	Set []Constant `json:"set,omitempty"`
}

// Skipped stands in Format.Columns for a field that is not loaded.
const Skipped = "-"

// A Constant is a column's value in all rows of a source, as text.
type Constant struct {
	Column string `json:"column"`
	Value  string `json:"value"`
}

var kindsByName = map[string]Kind{".csv": CSV, ".tsv": TSV, ".tab": TSV, ".jsonl": JSONL, ".ndjson": JSONL, ".lp": LineProtocol, ".parquet": Parquet, ".sql": Dump}

// KindOf returns the kind that a file's name implies, compressed or not; "" is unknown.
func KindOf(path string) Kind { return kindsByName[extension(path)] }

// MayLoad reports whether a file's name implies its kind, or leaves it to the content: .json, .zip.
func MayLoad(path string) bool {
	return KindOf(path) != "" || extension(path) == ".json" || packedName(path) == "zip"
}

// extension returns the extension of a file's name in lower case, e.g. ".csv" of "a.CSV.gz".
func extension(path string) string {
	for packedName(path) != "" {
		path = strings.TrimSuffix(path, filepath.Ext(path))
	}
	return strings.ToLower(filepath.Ext(path))
}

// Validate checks the format for contradictions.
func (f *Format) Validate() error {
	if !slices.Contains(Kinds(), f.Kind) {
		return fmt.Errorf("format %q is unknown: there are %v", f.Kind, Kinds())
	}
	if d := f.Separator(); !f.Kind.Keyed() && (d == '"' || d == '\n' || d == '\r' || d == '\\' || d >= 0x80) {
		return fmt.Errorf("%q can't be a delimiter", d)
	}
	switch {
	case f.Escape && f.Kind != CSV:
		return fmt.Errorf("backslashes escape in csv only if asked for; in %s they always do", f.Kind)
	case f.Kind.Keyed() && (f.SkipLines > 0 || f.Comment != ""):
		return fmt.Errorf("lines of %s can't be skipped", f.Kind)
	case f.Comment != "" && strings.ContainsAny(f.Comment, "\"\r\n"):
		return fmt.Errorf("a comment can't begin with %q", f.Comment)
	}
	return nil
}

// Separator returns the byte that separates fields.
func (f *Format) Separator() byte {
	switch {
	case f.Delimiter != 0:
		return f.Delimiter
	case f.Kind == TSV:
		return '\t'
	}
	return ','
}

// isNull reports whether a text, as written in the source, means NULL.
func (f *Format) isNull(text []byte) bool {
	if len(f.Nulls) == 0 {
		return len(text) == 2 && text[0] == '\\' && text[1] == 'N'
	}
	for _, null := range f.Nulls {
		if string(text) == null {
			return true
		}
	}
	return false
}

// HasHeader reports whether the first line has column names.
func (f *Format) HasHeader() bool { return !f.Kind.Keyed() && !f.NoHeader }

// preamble returns the length of what precedes the header or the first row: skipped lines, comments
// before a header, the opening bracket of a JSON array. known is false if p is too short to tell.
func (f *Format) preamble(p []byte, final bool) (n int, known bool) {
	if f.Kind == JSON {
		return bracketEnd(p, final)
	}
	mark := 0
	if bytes.HasPrefix(p, ByteOrderMark) {
		mark = len(ByteOrderMark)
	}
	for lines := 0; ; lines++ {
		if lines >= f.SkipLines && (f.Comment == "" || !f.HasHeader()) {
			return n, true
		}
		at := max(n, mark)
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 && !final {
			return 0, false
		}
		if lines >= f.SkipLines && !f.isComment(p[at:]) || at == len(p) {
			return n, true
		}
		if i < 0 {
			return len(p), true
		}
		n = at + i + 1
	}
}

// Beginning returns the length of everything before the first row, header included. p must contain
// all of it.
func (f *Format) Beginning(p []byte) int {
	n, _ := f.preamble(p, true)
	if f.HasHeader() {
		if more, err := f.End(p[n:], true); err == nil {
			n += more
		}
	}
	return n
}

func (f *Format) isComment(record []byte) bool {
	return f.Comment != "" && len(record) >= len(f.Comment) && string(record[:len(f.Comment)]) == f.Comment
}

const (
	// maxLine is the length in bytes of the longest record that is loaded; a longer one is a bad row.
	maxLine = 16 << 20
	// maxRecord limits in bytes how far the end of a record is searched; beyond, the load ends.
	maxRecord = 128 << 20
	// maxQuoted is how many bytes are searched for a closing quote. If there is none, the record ends
	// with its line, so that a stray quote doesn't swallow the rest of the file.
	maxQuoted = 1 << 20
)

var (
	errLong    = fmt.Errorf("it is longer than %d MiB", maxLine>>20)
	errEndless = fmt.Errorf("it has no end within %d MiB", maxRecord>>20)
)

// End returns the end of the first record of p, line break included, or 0 if more bytes are needed.
func (f *Format) End(p []byte, final bool) (int, error) {
	if f.Kind == JSON {
		return elementEnd(p, final)
	}
	i := bytes.IndexByte(p, '\n')
	line := p
	if i >= 0 {
		line = p[:i]
	}
	if f.Kind != JSONL && !f.isComment(line) {
		if f.Kind == TSV || f.Escape {
			i, line = unescapedBreak(p, i)
		}
		if f.Kind == LineProtocol && bytes.IndexByte(line, '"') >= 0 {
			return f.pointEnd(p, i+1, final)
		}
		if f.Kind == CSV && bytes.IndexByte(line, '"') >= 0 {
			return f.quotedEnd(p, i+1, final)
		}
	}
	return lineEnd(p, i+1, final)
}

// lineEnd is End for a record that is one line. line is the end of that line, 0 if unknown.
func lineEnd(p []byte, line int, final bool) (int, error) {
	switch {
	case line > maxRecord || line == 0 && len(p) > maxRecord:
		return 0, errEndless
	case line > 0:
		return line, nil
	case final:
		return len(p), nil
	}
	return 0, nil
}

// unescapedBreak returns the position of p's first line break that isn't escaped, or -1, and the
// line before it. i is the position of p's first line break, escaped or not.
func unescapedBreak(p []byte, i int) (int, []byte) {
	for i >= 0 && escaped(p[:i]) {
		next := bytes.IndexByte(p[i+1:], '\n')
		if next < 0 {
			i = -1
			break
		}
		i += 1 + next
	}
	if i < 0 {
		return i, p
	}
	return i, p[:i]
}

// escaped reports whether a backslash at the end of p escapes the next byte.
func escaped(p []byte) bool {
	n := 0
	for n < len(p) && p[len(p)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// quotedEnd is End for a CSV record with quotes. line is the end of its first line, 0 if unknown.
// Text after a closing quote means a stray quote: the record ends with its first line.
func (f *Format) quotedEnd(p []byte, line int, final bool) (int, error) {
	q := p[:min(len(p), maxQuoted)]
	delimiter := f.Separator()
	i, stray := 0, false
	if bytes.HasPrefix(p, ByteOrderMark) {
		i = len(ByteOrderMark)
	}
	for {
		if i < len(q) && q[i] == '"' {
			if i = f.closing(q, i+1); i < 0 {
				break
			}
			if i < len(q) && q[i] != delimiter && q[i] != '\n' && q[i] != '\r' {
				stray = true
				break
			}
		}
		for i < len(q) && q[i] != delimiter && q[i] != '\n' {
			if f.Escape && q[i] == '\\' {
				i++
			}
			i++
		}
		if i >= len(q) {
			break
		}
		if q[i] == '\n' {
			return i + 1, nil
		}
		i++
	}
	switch {
	case i >= len(q) && len(q) == len(p) && final: // the last line has no line break
		return len(p), nil
	case !stray && !final && len(p) <= maxQuoted:
		return 0, nil
	}
	return lineEnd(p, line, final)
}

// closing is closingQuote that respects the format's backslash escapes.
func (f *Format) closing(p []byte, i int) int {
	if !f.Escape {
		return closingQuote(p, i)
	}
	for ; i < len(p); i++ {
		switch {
		case p[i] == '\\':
			i++
		case p[i] == '"' && i+1 < len(p) && p[i+1] == '"':
			i++
		case p[i] == '"':
			return i + 1
		}
	}
	return -1
}

// closingQuote returns the place after the closing quote of a field whose text begins at i, or -1.
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
	// errBackslash is errBehind after a backslash and a quote.
	errBackslash = errors.New("text follows the quote that ends a field; --escape backslash, if a backslash escapes a quote")
)

// split splits a record without its line break. Values refer to it or to buf, which is returned.
func (f *Format) split(record []byte, fields []field, buf []byte) ([]field, []byte, error) {
	if f.Kind == TSV || f.Escape {
		return f.splitEscaped(record, fields, buf)
	}
	delimiter, given := f.Separator(), len(f.Nulls) > 0
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
			fields = append(fields, field{value: value, quoted: true, null: f.NullQuoted && f.isNull(value)})
			if end == len(record) {
				return fields, buf, nil
			}
			if record[end] != delimiter {
				if bytes.HasSuffix(value, []byte(`\`)) {
					return fields, buf, errBackslash
				}
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
		// isNull isn't inlined, and this is called for each field.
		null := len(value) == 2 && value[0] == '\\' && value[1] == 'N'
		if given {
			null = f.isNull(value)
		}
		fields = append(fields, field{value: value, null: null})
		if i < 0 {
			return fields, buf, nil
		}
		record = record[i+1:]
	}
}

// escapes has the meaning of letters after a backslash, where that is not the letter itself.
var escapes = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 'Z': 26}

// splitEscaped splits a record with backslash escapes. In CSV, fields may also be quoted.
func (f *Format) splitEscaped(record []byte, fields []field, buf []byte) ([]field, []byte, error) {
	delimiter := f.Separator()
	for {
		quoted := f.Kind == CSV && len(record) > 0 && record[0] == '"'
		var value []byte
		var end int
		plain := true
		if quoted {
			if end = f.closing(record, 1); end < 0 {
				return fields, buf, errUnclosed
			}
			if end < len(record) && record[end] != delimiter {
				return fields, buf, errBehind
			}
			value = record[1 : end-1]
			plain = bytes.IndexByte(value, '\\') < 0 && bytes.IndexByte(value, '"') < 0
		} else {
			if end = bytes.IndexByte(record, delimiter); end < 0 {
				end = len(record)
			}
			if first := bytes.IndexByte(record[:end], '\\'); first >= 0 { // the backslash may escape the delimiter
				for end = first; end < len(record) && record[end] != delimiter; end++ {
					if record[end] == '\\' && end+1 < len(record) {
						plain = false
						end++
					}
				}
			}
			value = record[:end]
		}
		null := (!quoted || f.NullQuoted) && f.isNull(value)
		if !plain && !null {
			from := len(buf)
			buf = appendUnescaped(buf, value, quoted)
			value = buf[from:len(buf):len(buf)]
		}
		fields = append(fields, field{value: value, quoted: quoted, null: null})
		if end >= len(record) {
			return fields, buf, nil
		}
		record = record[end+1:]
	}
}

func appendUnescaped(dst, value []byte, quoted bool) []byte {
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\' && i+1 < len(value):
			i++
			switch c = value[i]; {
			case c == '0':
				c = 0
			case escapes[c] != 0:
				c = escapes[c]
			}
		case c == '"' && quoted:
			i++ // the quote is doubled
		}
		dst = append(dst, c)
	}
	return dst
}

// AppendEscaped appends a field of TSV.
func AppendEscaped(dst, text []byte) []byte {
	for {
		i := bytes.IndexAny(text, "\\\t\n\r")
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		letter := text[i]
		switch letter {
		case '\t':
			letter = 't'
		case '\n':
			letter = 'n'
		case '\r':
			letter = 'r'
		}
		dst = append(dst, '\\', letter)
		text = text[i+1:]
	}
}

func trimBreak(record []byte) []byte {
	record = bytes.TrimSuffix(record, []byte("\n"))
	return bytes.TrimSuffix(record, []byte("\r"))
}

// ByteOrderMark may begin a text in UTF-8.
var ByteOrderMark = []byte("\xef\xbb\xbf")

// HeaderNames returns the column names in a header.
func (f *Format) HeaderNames(record []byte) ([]string, error) {
	record = trimBreak(bytes.TrimPrefix(record, ByteOrderMark))
	var out []string
	fields, _, err := f.split(record, nil, nil)
	for _, v := range fields {
		out = append(out, strings.TrimSpace(string(v.value)))
	}
	return out, err
}

// Records calls fn with each record of a text, line break included, and the number of the record's
// first line.
func (f *Format) Records(p []byte, fn func(line int64, record []byte) error) error {
	for line := int64(1); len(p) > 0; {
		n, err := f.End(p, true)
		if err == nil {
			err = fn(line, p[:n])
		}
		if err != nil {
			return err
		}
		line += int64(bytes.Count(p[:n], LineBreak))
		p = p[n:]
	}
	return nil
}
